"""Gradient steps with noise in each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.privacy.units import EPSILON_UNIT
from discreet.problems.contents import Progress, Released
from discreet.problems.numbers import LEAST_CLIP, Budget
from discreet.problems.off_policy_evaluation import moments
from discreet.problems.off_policy_evaluation.method import UNCOUNTED, Chosen, Method, coarse
from discreet.problems.off_policy_evaluation.public import Floats
from discreet.problems.off_policy_evaluation.result import Answer
from discreet.problems.off_policy_evaluation.sampled import (
    SampledMethod,
    Trajectories,
    lessened,
    parts_of,
)
from discreet.problems.plans import NoiseSummary
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet_client.intervals import plain

MAX_STEPS = 10_000_000
"""Of the noisy methods; `gradient` takes one a trajectory, up to so many."""
COUNT_SHARE = 20
"""Of a minibatch job whose number of trajectories is private, 1/20 of epsilon is for that
number."""
CENTRE_ERROR = 0.03
"""Of the bound of rewards: nearer the mean reward need not be known where steps begin at the value
that it gives."""
CENTRED_CLIP = 0.3
"""Of the usual clip, where steps begin at the constant value: less is left to learn, and noise is
by as much less."""
# Defaults, all of them public: tried on synthetic data that stand for no dataset
# (`discreet.reproduce.simulators`).
BATCH_STEPS, BATCH_SAMPLING = 20_000, 1e-3
TABULAR_STEP, TABULAR_CLIP = 30.0, 0.002
DENSE_STEP, DENSE_CLIP = 3.0, 0.01
GRADIENT_STEP, GRADIENT_CLIP = 3.2, 0.001
TABULAR_NOISE, DENSE_NOISE = 15.0, 40.0
"""Beyond which default steps are made shorter: more where steps times clips are less."""
FEW = 16
"""Coordinates: fewer are taken for so many, since noise adds up over steps in each of them too."""

DEVIATIONS = 6
"""More than so many standard deviations beyond the mean no sample's number of transitions goes."""


def _gradient_seconds(method: Method, trajectories: float, rows: float) -> float:
    """Of as many clipped gradients, over all steps, of as many transitions."""
    return (
        trajectories * (300e-9 + 1.5e-9 * method.features.dimension) + rows * method.row_seconds()
    )


def _step_seconds(method: Method, chosen: Chosen) -> float:
    """Of the noise of all steps."""
    return float(chosen["steps"] * (300e-9 + 20e-9 * method.features.dimension))


class Minibatch(SampledMethod):
    """Clipped gradients of Poisson samples of the trajectories, with noise in every step; weights
    are post-processing of the noised steps."""

    name = "minibatch"
    takes = frozenset({"clip", "steps", "step_size", "sampling"})

    def parameters(self) -> Chosen:
        asked, norm, bound = self.asked, self.features.norm_bound, self.public.reward_bound
        tabular = self.public.states is not None
        clip = (TABULAR_CLIP if tabular else DENSE_CLIP * norm) * (
            CENTRED_CLIP if self._centred else 1.0
        )
        return {
            "clip": asked.clip or max(LEAST_CLIP, bound * clip),
            "steps": asked.steps or BATCH_STEPS,
            "step_size": asked.step_size or (TABULAR_STEP if tabular else DENSE_STEP / norm**2),
            "sampling": asked.sampling or BATCH_SAMPLING,
        }

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        beside: list[tuple[Event, NoiseSummary]] = []
        epsilon = budget.epsilon
        if not self.public.replaced:
            share = epsilon // COUNT_SHARE
            count = calibration.discrete_laplace(1, share, neighbours=neighbours)
            beside.append(
                (
                    count,
                    NoiseSummary.of(count, "the number of trajectories, which step sizes rest on"),
                )
            )
            epsilon -= share
        if self._centred:
            centre = self._centre_share(budget.epsilon)
            mean = moments.event_of(self.public, centre, neighbours)
            says = f"{moments.QUANTITY}, from whose constant value steps begin"
            beside.append((mean, NoiseSummary.of(mean, says, moments.UNIT)))
            epsilon -= centre
        event = calibration.poisson_subsampled_gaussian(
            chosen["clip"],
            epsilon,
            budget.delta,
            probability=chosen["sampling"],
            steps=chosen["steps"],
            relation="replace" if self.public.replaced else "add_remove",
            neighbours=neighbours,
        )
        coordinates = 2 * self.features.dimension
        return (
            event,
            f"each of {coordinates} coordinates of the gradient sum, in each of {chosen['steps']} "
            "steps",
            tuple(beside),
        )

    @property
    def _centred(self) -> bool:
        """Whether steps begin at the constant value of the mean reward, which is bought beside
        them."""
        return bool(self.public.continuing) and self.features.constant() is not None

    def _centre_share(self, epsilon: int) -> int:
        """Of epsilon, for the mean reward: what it takes to know it within CENTRE_ERROR of its
        bound, but not all, and not less than a small part; half where the number of trajectories is
        private."""
        if (m := self.public.trajectories) is None:
            return epsilon // 2
        needed = round(2 * math.sqrt(2) / (CENTRE_ERROR * m) * EPSILON_UNIT)
        return min(max(needed, epsilon // COUNT_SHARE), epsilon - epsilon // 10)

    def seconds(self, chosen: Chosen) -> float:
        public, passes = self.public, self.passes(chosen)
        trajectories = passes * min(public.most_trajectories, public.most_rows)
        rows = passes * public.most_rows
        rows += DEVIATIONS * math.sqrt(rows * min(public.horizon, public.most_rows))
        return _gradient_seconds(self, trajectories, rows) + (
            public.most_rows * 40e-9 if self._centred else 0.0
        )

    def passes(self, chosen: Chosen) -> float:
        return float(chosen["steps"] * chosen["sampling"])

    def drawing_seconds(self, chosen: Chosen, event: Event) -> float:
        return _step_seconds(self, chosen)

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        return self._told(chosen, event.scale)

    def foretold(self, budget: Budget) -> str:
        """By the central limit of the steps' privacy losses (Bu, Dong, Long & Su 2020), which takes
        no composition: all steps are like one Gaussian of mu = q sqrt(T (e^(1/s²) - 1)), where the
        noise has s clips."""
        if budget.delta == 0:
            return "it needs a delta"
        chosen = self.parameters()
        epsilon = budget.epsilon - (self._centre_share(budget.epsilon) if self._centred else 0)
        mu = (
            1
            / calibration.gaussian(
                1.0, epsilon, budget.delta, neighbours="steps", dimension=1
            ).scale
        )
        clips = math.log1p((mu / chosen["sampling"]) ** 2 / chosen["steps"]) ** -0.5
        return next(
            iter(
                self._told(
                    chosen, clips * chosen["clip"] * (2 if self.public.replaced else 1), "about "
                )
            )
        )

    def _told(self, chosen: Chosen, scale: float, about: str = "") -> tuple[str, ...]:
        if (m := self.public.trajectories) is None:
            return (UNCOUNTED,)
        ratio = scale / (chosen["sampling"] * m * chosen["clip"])
        says = (
            f"the noise of a step is {about}{plain(ratio)} times the largest gradient that {m:,} "
            f"trajectories can produce"
        )
        if (
            self.asked.step_size is None
            and max(self.features.dimension, FEW) * ratio > 4 * self._most_noise
        ):
            start = "the constant that the mean reward gives" if self._centred else "predicting 0"
            return (f"{says}: steps are so short then that the answer is hardly more than {start}",)
        return self._judged(ratio, says)

    def _stepped(
        self, events: tuple[Event, ...], chosen: Chosen, moved: Trajectories, noise: Noise
    ) -> Released:
        event, *beside = events
        m = np.array([self.public.trajectories or moved.trajectories])
        if not self.public.replaced:
            m = noise.add(beside[0], m)
        centre: Released = {}
        if self._centred:
            bound = self.public.reward_bound
            whole = sum(moments.sum_of(part, bound) for part in parts_of(moved))
            total = noise.add(beside[-1], np.asarray(whole))
            mean, deviation = moments.mean_of(
                float(total[0]), beside[-1].deviation(), float(m[0]), bound
            )
            mean = moments.shrunk(mean, deviation, bound)
            centre = {"mean_reward": np.array([mean, deviation])}
            # Steps from the constant value c on rewards r are steps from 0 on r - (1 - discount) c.
            moved = lessened(moved, mean)
        drawn = chosen["sampling"] * max(int(m[0]), 1)
        step = chosen["step_size"] / drawn
        if self.asked.step_size is None:
            step *= shorter(
                max(self.features.dimension, FEW) * event.scale / (drawn * chosen["clip"]),
                self._most_noise,
            )
        scale = self._scale()
        found = gtd.minibatch(
            moved,
            self.features,
            self.asked.discount,
            probability=chosen["sampling"],
            steps=chosen["steps"],
            step_size=step,
            clip=chosen["clip"],
            noise_scale=event.scale,
            generator=noise.generator(),
            scale=scale,
        )
        return {
            "weights": coarse(found, step * event.scale * float(scale.min())),
            "trajectories": m,
            **centre,
        }

    @property
    def _most_noise(self) -> float:
        return DENSE_NOISE if self.public.states is None else TABULAR_NOISE

    def _scale(self) -> Floats:
        """What each coordinate is measured in where gradients are clipped and noised, (2d,): smooth
        values first; and values of coordinates are sums of some 1/(1 - discount) rewards, the dual
        weights single errors."""
        smooth = self.features.scales()
        between = 1.0 if self.public.states is not None else (1 - self.asked.discount) ** -0.25
        return np.concatenate([between * smooth, smooth])

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """Weights of the steps, and of the constant value that they began at.

        No interval: what noise adds to a step changes which gradients are clipped in all that
        follow, so how far it moves the last ones follows from the data, and the data alone. Only so
        much noise that default steps come to nothing shows."""
        drawn = self.parameters()["sampling"] * max(int(released["trajectories"][0]), 1)
        weights, mostly = released["weights"], self._noise(event, drawn) > 4 * self._most_noise
        if self._centred:
            mean, deviation = released["mean_reward"]
            weights = weights + moments.constant_weights(self) * (mean / (1 - self.asked.discount))
            mostly = mostly and bool(deviation >= abs(mean))
        return Answer(weights, start, mostly_noise=mostly)

    def _noise(self, event: Any, drawn: float) -> float:
        """Of all coordinates of a step together, in largest gradients that `drawn` trajectories can
        give."""
        return float(
            max(self.features.dimension, FEW) * event.scale / (drawn * self.parameters()["clip"])
        )


def shorter(noise: float, most: float) -> float:
    """The part of the default step that suits so much noise: of all coordinates of a step together,
    in largest gradients that the sample can give. Of public and released figures alone.

    What noise adds to the error goes with the square of step times noise; the rest of the error
    falls to that of predicting 0 as steps get short. So from some noise on steps fall faster than
    noise grows, and the answer is that of predicting 0 in the limit, not worse.
    """
    return min(1.0, (most / noise) ** 2) if noise > 0 else 1.0


class Gradient(SampledMethod):
    """GPOPE: one trajectory a step, with steps that fall linearly to nothing, and noise in each."""

    name = "gradient"
    takes = frozenset({"clip", "steps", "step_size"})
    needs_population = True

    def parameters(self) -> Chosen:
        asked, norm = self.asked, self.features.norm_bound
        return {
            "clip": asked.clip or max(LEAST_CLIP, self.public.reward_bound * GRADIENT_CLIP * norm),
            "steps": asked.steps or min(self.public.trajectories or 1, MAX_STEPS),
            "step_size": asked.step_size or GRADIENT_STEP / norm**2,
            "sampling": None,
        }

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        event = calibration.one_draw_gaussian(
            chosen["clip"],
            budget.epsilon,
            budget.delta,
            population=self.public.trajectories or 1,
            steps=chosen["steps"],
            neighbours=neighbours,
        )
        coordinates = 2 * self.features.dimension
        return (
            event,
            f"each of {coordinates} coordinates of the gradient, in each of {chosen['steps']} "
            "steps",
            (),
        )

    def seconds(self, chosen: Chosen) -> float:
        steps, longest = chosen["steps"], min(self.public.horizon, self.public.most_rows)
        rows = steps * self.public.most_rows / self.public.most_trajectories
        rows = min(rows + DEVIATIONS * math.sqrt(rows * longest), steps * longest)
        return _gradient_seconds(self, steps, rows)

    def passes(self, chosen: Chosen) -> float:
        return float(chosen["steps"] / self.public.most_trajectories)

    def drawing_seconds(self, chosen: Chosen, event: Event) -> float:
        return _step_seconds(self, chosen)

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        return (
            "this method takes one trajectory a step: below epsilon 1 a constant often predicts "
            "better",
        )

    def _stepped(
        self, events: tuple[Event, ...], chosen: Chosen, moved: Trajectories, noise: Noise
    ) -> Released:
        steps, scale = chosen["steps"], events[0].scale
        found = gtd.gradient(
            moved,
            self.features,
            self.asked.discount,
            steps=steps,
            step_sizes=chosen["step_size"] * (1 - np.arange(steps) / steps),
            clip=chosen["clip"],
            noise_scale=scale,
            generator=noise.generator(),
        )
        return {"weights": coarse(found, chosen["step_size"] * scale)}
