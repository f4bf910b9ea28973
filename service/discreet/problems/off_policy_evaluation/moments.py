"""Noised sums over trajectories, solved in closed form."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.errors import FieldIssue
from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Profile, Progress, Released
from discreet.problems.numbers import LEAST_CLIP, Budget
from discreet.problems.off_policy_evaluation.around import model_around, profile_of
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.expectation import (
    MOSTLY_NOISE,
    TOLD,
    UNEVEN,
    Outlook,
    model_of,
)
from discreet.problems.off_policy_evaluation.method import (
    UNCOUNTED,
    Asked,
    Chosen,
    Method,
    MethodOfSums,
)
from discreet.problems.off_policy_evaluation.public import Floats, Ints, OffPolicyPublic
from discreet.problems.off_policy_evaluation.result import (
    REWARD,
    Answer,
    Drawn,
    Marks,
    Normal,
    distribution,
    seeded,
)
from discreet.problems.plans import NoiseSummary
from discreet.problems.results import Expected
from discreet.solvers.estimation.count_posterior import MAX_CELLS, CountPosterior, Kind, Known
from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation import temporal_difference as td
from discreet.solvers.evaluation.least_squares_temporal_difference import error_of_solution
from discreet.solvers.evaluation.value_draws import (
    NoisyCounts,
    OwnRows,
    batches,
    draw_rewards,
    draw_values,
    gains,
    mean_rewards,
    noise_of,
    range_of,
)
from discreet_client.intervals import plain

# Defaults, all of them public: tried on synthetic data that stand for no dataset
# (`discreet.reproduce.simulators`).
STACKED_CLIP = 0.1  # of the largest norm that a trajectory can have
STACKED_RIDGE = 0.03  # of the noise matrix's norm
STACKED_NOISE = 0.5  # of the least singular value of A: with more noise the answer is mostly noise
PSEUDO_COUNT = 0.1  # of the noise's deviation
MAX_NOISE_SHARE = 3.0
"""Beyond this share of noise the prior of counts would be all that is seen, and thresholds are
nearer."""
DRAWS, WORK, NUMBERS = (50, 200), 4e9, 2.5e6
"""Draws, fewer where there are so many states or cells that the work on them would take a
minute."""


class _Moments(MethodOfSums):
    """Exact sums of vectors of bounded norm, then noise; weights in closed form."""

    name = "moments"

    @abstractmethod
    def _sums(self) -> int: ...

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        return self.release_sums(events, chosen, self._summed(chosen, moved), noise)


class TabularMoments(_Moments):
    """Visits of transitions and, where these are not public, rewards of states;
    `visit_counts.histograms` says by how much each trajectory moves them."""

    asked_again = frozenset({"discount"})
    visits = True
    tabular = True
    unit = lstd.UNIT

    def seconds(self, chosen: Chosen) -> float:
        return 150e-9 * self.public.most_rows

    def numbers(self) -> int:
        return self._sums() + (0 if self.public.rewards is not None else self.public.states or 0)

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        public = self.public
        blocks = 1 if public.rewards is not None else 2
        # Replacing: visits are differences of nonnegative vectors (l2 sqrt 2), rewards may point
        # anywhere (l2 2).
        squares = (2 + 4 * (blocks - 1)) if public.replaced else blocks
        event = calibration.least_variance(
            sensitivity_l1=lstd.UNIT * blocks * (2 if public.replaced else 1),
            sensitivity_l2=math.nextafter(lstd.UNIT * math.sqrt(squares), math.inf),
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbours=neighbours,
            rho=budget.rho,
        )
        what = f"visits of {self._sums()} transitions"
        what += f" and rewards of {public.states} states" if blocks == 2 else ""
        return event, f"{what}, summed over trajectories, each of which counts 1 in all", ()

    def outlook(
        self, event: Event, epsilon: float, cap: float, around: Profile | None = None
    ) -> Outlook | None:
        start = self.asked.initial if isinstance(self.asked.initial, tuple) else None
        model = model_of(self.public, self.asked.discount, start)
        if model is None:
            return None
        deviation, people, seen = event.deviation() / self.unit, self.public.trajectories, UNEVEN
        if around is not None:
            model = model_around(self.public, self.asked.discount, start, around, model.size)
            people, seen, cap = people or max(1, round(float(around["trajectories"]))), 1.0, 1.0
            # Its counts are weighed as those of a release will be, with ratios cut off at the cap.
            deviation *= (
                people / max(float(around["trajectories"]), 1.0) if self.public.off_policy else 1.0
            )
        return Outlook(model, deviation, self._sums(), epsilon, people, cap, seen)

    def profile(self, event: Event, released: Released) -> Profile | None:
        return profile_of(self.public, event, released, self.unit)

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        outlook = self.outlook(event, epsilon, self.max_ratio, around)
        return (
            () if outlook is None else outlook.expected(self.asked.initial is not None, confidence)
        )

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        outlook = self.outlook(event, epsilon, self.max_ratio)
        return () if outlook is None else outlook.advice(self.asked.initial is not None)

    def best_cap(
        self, event: Event, epsilon: float, *, by_release: bool = False
    ) -> tuple[float | None, str]:
        outlook = self.outlook(event, epsilon, 1.0)
        if outlook is None or self.public.trajectories is None:
            return super().best_cap(event, epsilon)
        return outlook.best_cap()

    def better_cap(self, event: Event, epsilon: float) -> str:
        outlook = self.outlook(event, epsilon, 1.0)
        if outlook is None or self.public.trajectories is None:
            return super().better_cap(event, epsilon)
        return outlook.better_cap(self.max_ratio)

    def _read(self, content: Content) -> td.Transitions:
        # Bounds of rewards and ratios are kept by the sums themselves.
        return transitions_of(content, self.max_ratio)

    def _summed(self, chosen: Chosen, moved: td.Transitions) -> Ints:
        public = self.public
        assert public.states is not None
        found = lstd.histograms(
            moved,
            public.cells(),
            public.states,
            reward_bound=public.reward_bound,
            max_ratio=self.max_ratio,
        )
        if public.rewards is not None:
            return found.visits
        return np.concatenate([found.visits, found.rewards])

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """Values of the posterior mean of the histograms, given the noised ones; where these have
        too many cells, or noise drowns them, values of the noised histograms with thresholds. The
        interval comes from values of posterior draws.

        What is mostly noise follows from released counts and public figures alone: a state, where
        the noise of its row exceeds the row, or that of all cells is too large a share of all
        counts; the answer, where the policy mostly begins in such states. What was measured on
        either side of the limits is in `docs/problems/off_policy_evaluation.md`.
        """
        public, sums, cells = self.public, released["sums"] / self.unit, self.public.cells()
        assert public.states is not None
        states, size = public.states, len(cells)
        kind: Kind = "laplace" if event.noise == "discrete_laplace" else "gaussian"
        scale, total = event.scale / self.unit, None
        if public.trajectories is not None and not public.off_policy:  # each of them counts 1
            total = float(public.trajectories)
        counted = NoisyCounts.of(sums[:size], cells, states, scale, kind, total)
        seen, gained = counted.rows(counted.counts), sums[size:]
        deviation = counted.deviation
        share = deviation * size / math.sqrt(2) / max(float(seen.sum()), deviation)
        noise = (TOLD * counted.row_deviations() >= seen) | (share > MOSTLY_NOISE)
        if share > MAX_NOISE_SHARE or size > MAX_CELLS:
            begin = distribution(seen) if start is None else start
            return Answer(
                self._thresholded(event, sums), begin, noise, bool(begin[noise].sum() > 0.5)
            )

        known = None if total is None else Known(np.ones((1, size)), np.array([total]), np.zeros(1))
        posterior = CountPosterior.of(sums[:size], scale, kind)
        mean = posterior.mean(known)
        met, process = counted.rows(mean), process_of(public, self.asked.discount)
        if public.rewards is None:
            paid = mean_rewards(gained, met, scale, kind)
            (values,) = draw_values(mean[None], rewards=paid[None], **process)
        else:
            paid = np.array(public.rewards)
            (values,) = draw_values(mean[None], rewards=paid, **process)
        solved = Solved(
            public,
            self.asked.discount,
            counted,
            gained,
            posterior,
            known,
            mean,
            paid,
            values,
            noise,
        )

        def spread() -> Drawn:
            return solved.spread(
                self._draws(),
                seeded(released),
                lambda batch: progress(batch, self.steps()),
                start,
            )

        begin = distribution(met) if start is None else start
        return Answer(values, begin, noise, bool(begin[noise].sum() > 0.5), spread)

    def _thresholded(self, event: Event, sums: Floats) -> Floats:
        """Values of the noised histograms float64[cells and rewards], in trajectories."""
        public, cells = self.public, self.public.cells()
        assert public.states is not None
        known = public.topology is not None
        moments = lstd.tabular_moments(
            sums[: len(cells)],
            cells,
            public.states,
            self.asked.discount,
            rewards=None if public.rewards is not None else sums[len(cells) :],
            cell_rewards=None if public.rewards is None else np.array(public.rewards),
            reward_bound=public.reward_bound,
            # Few of all pairs of states occur; all of a public topology may. Many rewards are 0.
            threshold=0.0 if known else _cutoff(event, len(cells)) / self.unit,
            reward_threshold=_cutoff(event, public.states) / self.unit,
            pseudo_count=PSEUDO_COUNT * NoiseSummary.of(event, "", self.unit).standard_deviation
            if known
            else 0.0,
        )
        return lstd.solve_moments(*moments)

    def steps(self) -> int:
        ends = 1 if self.public.topology is not None else 2
        return 1 + ends * batches(self._draws(), self.public.states or 1)

    def _draws(self) -> int:
        return int(
            np.clip(min(WORK / (self.public.states or 1) ** 3, NUMBERS / self._sums()), *DRAWS)
        )

    def _sums(self) -> int:
        return len(self.public.cells())


class StackedMoments(_Moments):
    """A, b and C of each trajectory as one vector, clipped."""

    takes = frozenset({"clip", "regularization"})
    asked_again = frozenset({"regularization"})
    tabular = False

    def seconds(self, chosen: Chosen) -> float:
        public, square = self.public, self.features.dimension**2
        trajectories = min(public.most_trajectories, public.most_rows)
        return trajectories * (300e-9 + 3e-9 * square) + public.most_rows * (
            self.row_seconds() + 1.5e-9 * square
        )

    def numbers(self) -> int:
        return lstd.stacked_size(self.features.dimension)

    def parameters(self) -> Chosen:
        largest = lstd.stacked_bound(self.features.norm_bound, self.asked.discount, self.max_ratio)
        return {
            **super().parameters(),
            "clip": self.asked.clip or max(LEAST_CLIP, STACKED_CLIP * largest),
        }

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        size, clip = self.numbers(), chosen["clip"]
        event = calibration.gaussian(
            clip * (2 if self.public.replaced else 1),
            budget.epsilon,
            budget.delta,
            neighbours=neighbours,
            dimension=size,
        )
        what = (
            f"{size} entries of A, b and C, summed over trajectories of norm at most {clip:g} each"
        )
        return event, what, ()

    def _summed(self, chosen: Chosen, moved: td.Transitions) -> Ints:
        return lstd.stacked_steps(
            moved,
            self.features,
            self.asked.discount,
            clip=chosen["clip"],
            reward_bound=self.public.reward_bound,
            max_ratio=self.max_ratio,
        )

    def release_sums(
        self, events: tuple[Event, ...], chosen: Chosen, sums: Ints, noise: Noise
    ) -> Released:
        (event,) = events
        return {"sums": noise.add(event, sums * lstd.stacked_grid(chosen["clip"]))}

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        dimension, ridge = self.features.dimension, self.asked.regularization
        bound, deviation = self.public.reward_bound, NoiseSummary.of(event, "").standard_deviation
        moments = lstd.unstacked(released["sums"], dimension, bound)
        if ridge is None:
            ridge = STACKED_RIDGE * deviation * math.sqrt(dimension)
        theta = lstd.solve_moments(*moments, ridge)
        root, ratio = error_of_solution(*moments, theta, ridge, deviation, bound)
        noise = ratio >= STACKED_NOISE
        return Answer(
            theta,
            start,
            np.full(dimension, noise),
            noise,
            None if noise else lambda: Normal(theta, root),
        )

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        if (m := self.public.trajectories) is None:
            return (UNCOUNTED,)
        # Ratios have a mean of 1: however large they may be, the sums are no longer than without
        # them.
        longest = min(
            chosen["clip"], lstd.stacked_bound(self.features.norm_bound, self.asked.discount, 1.0)
        )
        ratio = event.deviation() * math.sqrt(self.numbers()) / (longest * m)
        says = (
            f"the noise of all {self.numbers()} sums is {plain(ratio)} times what {m:,} "
            "trajectories can add up to"
        )
        return self._judged(ratio, says)

    def _sums(self) -> int:
        return self.numbers()


def _cutoff(event: Event, numbers: int) -> float:
    """The level that the noise on any of so many numbers exceeds with probability 1/20 at most."""
    log = math.log(20 * numbers)
    return event.scale * (log if event.noise == "discrete_laplace" else math.sqrt(2 * log))


# Constants ----------------------------------------------------------------------------------------
# The mean reward, and the constant value that follows from it where no episode ends.
#
# Where no transition is terminal each row of A times the constant 1 is 1 - discount times the mean
# features, up to where trajectories begin and are cut. Then of all constants the one of least MSPBE
# is
#
# c = r / (1 - discount), r = E[1/tau sum rho_t R_t],
#
# and it is never worse than 0, whatever C is: with 1 among the features C^-1 takes the mean
# features back to it. Where episodes end nothing of the kind holds: the same figure can be many
# times worse than predicting 0.

UNIT = 1 << 24
"""Counts of a trajectory whose mean reward is the bound: rounding loses less than 6e-8 of it."""
USUAL = 0.2
"""Mean rewards of about this part of their bound are reckoned with where noise is as large."""
QUANTITY = "the sum of the trajectories' mean rewards"
COUNTED = "the number of trajectories"


def event_of(public: OffPolicyPublic, epsilon: int, neighbours: str) -> DiscreteLaplace:
    """The noise of the sum of `sum_of`: a trajectory adds an integer of modulus at most UNIT, and
    another in its place may have the other sign."""
    return calibration.discrete_laplace(
        UNIT * (2 if public.replaced else 1), epsilon, neighbours=neighbours
    )


def sum_of(moved: td.Transitions, bound: float) -> Ints:
    """int64[1]: the sum over trajectories of 1/tau sum rho_t R_t, each cut off at `bound` and in
    UNIT parts of it. Each of them is a function of one record, to the last bit."""
    weighed = moved.reward if moved.on_policy else moved.reward * moved.ratio
    owner = np.repeat(np.arange(moved.trajectories), moved.lengths)
    mean = np.bincount(owner, weighed, minlength=moved.trajectories) / moved.lengths
    return np.array([np.rint(np.clip(mean / bound, -1.0, 1.0) * UNIT).astype(np.int64).sum()])


def mean_of(noised: float, deviation: float, number: float, bound: float) -> tuple[float, float]:
    """The mean reward of a noised sum in counts, and its noise's deviation; `number`: of
    trajectories."""
    part = bound / UNIT / max(number, 1.0)
    return float(np.clip(noised * part, -bound, bound)), deviation * part


def shrunk(mean: float, deviation: float, bound: float) -> float:
    """The mean reward as it is used: towards 0 where noise is as large as mean rewards usually are.

    In expectation that is no worse than 0 for any mean of at least USUAL/sqrt(2) of the bound,
    however large the noise.
    """
    usual = (USUAL * bound) ** 2
    return mean * usual / (usual + deviation**2)


class Constant(Method):
    """The mean reward over 1 - discount as the value of every state."""

    name = "constant"
    asked_again = frozenset({"discount"})
    needs_constant = True
    unit = UNIT

    @classmethod
    def issues(cls, asked: Asked, public: OffPolicyPublic) -> list[FieldIssue]:
        found = super().issues(asked, public)
        if not public.continuing:
            says = (
                "the mean reward gives a constant value only if no episode ends: register the "
                "data with public.continuing, or use moments or minibatch"
            )
            found.append(FieldIssue("/problem/method", says))
        return found

    def events(
        self, chosen: Chosen, budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[tuple[Event, NoiseSummary], ...]]:
        if self.public.replaced:
            return event_of(self.public, budget.epsilon, neighbours), QUANTITY, ()
        share = budget.epsilon // 2
        count = calibration.discrete_laplace(1, share, neighbours=neighbours)
        event = event_of(self.public, budget.epsilon - share, neighbours)
        return event, QUANTITY, ((count, NoiseSummary.of(count, COUNTED)),)

    def seconds(self, chosen: Chosen) -> float:
        return self.public.most_rows * 40e-9

    def numbers(self) -> int:
        return 1 if self.public.replaced else 2

    def advice(self, chosen: Chosen, event: Event, epsilon: float) -> tuple[str, ...]:
        if found := self.expected(event, epsilon, 0.9):
            return tuple(one.sentence for one in found)
        return (UNCOUNTED,)

    def expected(
        self, event: Event, epsilon: float, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        if (m := self.public.trajectories) is None:
            return ()
        half = (
            -math.log1p(-confidence)
            * event.scale
            / UNIT
            / m
            * self.public.reward_bound
            / (1 - self.asked.discount)
        )
        size = self.public.reward_bound / (1 - self.asked.discount)
        names = [("policy_value", "the policy's value")] if self.asked.initial is not None else []
        return tuple(
            Expected(
                name,
                half,
                f"in {REWARD}",
                f"{what}, one for all states, within about ± {plain(half)} with {confidence:.0%} "
                f"of what it would be without noise, of at most {plain(size, 3)} in {REWARD}",
                size,
            )
            for name, what in (*names, ("values", "the value of a state"))
        )

    def _released(
        self, events: tuple[Event, ...], chosen: Chosen, moved: td.Transitions, noise: Noise
    ) -> Released:
        event, *count = events
        released = {"mean_reward": noise.add(event, sum_of(moved, self.public.reward_bound))}
        if count:
            released["trajectories"] = noise.add(count[0], np.array([moved.trajectories]))
        return released

    def answer(
        self, event: Event, released: Released, start: Floats | None, progress: Progress
    ) -> Answer:
        """The interval is of the noised mean before it was shrunk, and as much wider as that moved
        it. Where the answer is mostly noise it is given too: of the others alone 55 to 73 in 100
        held a mean of 0."""
        bound, deviation = self.public.reward_bound, event.deviation()
        number = float(self.public.trajectories or released["trajectories"][0])
        raw, noise = mean_of(float(released["mean_reward"][0]), deviation, number, bound)
        if (
            not self.public.replaced
        ):  # the number's noise is as large as the sum's, in counts of one trajectory
            noise *= math.hypot(1.0, raw / bound)
        mean, mostly = shrunk(raw, noise, bound), noise >= abs(raw)
        ones = constant_weights(self) / (1 - self.asked.discount)
        wider = abs(raw - mean) / noise
        spread: Any = Normal(ones * mean, (ones * noise)[:, None], Normal.quantile + wider)
        return Answer(ones * mean, start, None, mostly, lambda: spread, noise_told=True)


def constant_weights(method: Method) -> Floats:
    """float64[d]: the weights of the value 1 everywhere."""
    weights = method.features.constant()
    assert weights is not None
    return weights


# Histogram spread ---------------------------------------------------------------------------------
# How far noise may have moved values that were solved from noised histograms.

WEAK = 4.0
"""A row of counts that is not so many deviations of its noise is weak: see `Solved.spread`."""


@dataclass(frozen=True)
class Solved:
    """Values of the mean of a posterior, and the noised histograms that they follow from."""

    public: OffPolicyPublic
    discount: float
    counted: NoisyCounts
    gained: Floats
    """Noised sums of rewards float64[states], in parts of the bound; empty where rewards are
    public."""
    posterior: CountPosterior
    known: Known | None
    mean: Floats
    """float64[K]: of the posterior."""
    paid: Floats
    """The mean rewards float64[states], or the public ones float64[K]."""
    values: Floats
    noise: Marks
    """bool[states]: whose values have no interval."""

    def spread(
        self,
        draws: int,
        rng: np.random.Generator,
        told: Callable[[int], None],
        start: Floats | None,
    ) -> Drawn:
        """Draws of the ends of the intervals. `told` is called with 1, 2, … for each batch of them;
        start: where the policy begins, float64[states]; None: as the data do.

        The counts are what was released less noise that is drawn anew (`value_ends`). A weak row
        would bring other states values of any size in some draws: beside its own state's value,
        which the policy's may be a part of, it is drawn from the posterior.
        """
        counted, cells, public = self.counted, self.counted.cells, self.public
        states, fixed = counted.states, None if public.rewards is None else self.paid
        weak = self.weak | self.noise
        counts = counted.draw(draws, rng)
        rewards = fixed
        if rewards is None:
            rewards = self.gained - noise_of(counted.kind, counted.scale, (draws, states), rng)
        prior, paid = counts, rewards
        if weak.any():
            prior = self.posterior.draw(draws, rng, self.known)
            if fixed is None:
                met = counted.rows(prior)
                some = draw_rewards(self.gained, met, counted.scale, counted.kind, rng)
                paid = np.where(weak, some, rewards)
        needed = ~self.noise | (start is None or start > 0)
        own, of_weak, within = np.flatnonzero(weak & needed), weak[cells[:, 0]], self._within()

        def values(counts: Floats, before: int) -> Floats:
            found = draw_values(
                np.where(of_weak, prior, counts),
                rewards=paid,
                own=OwnRows(own, counts, rewards) if own.size else None,
                progress=lambda batch: told(before + batch),
                **self._process,
            )
            return np.asarray(np.clip(found, *within))

        if public.topology is not None:  # of these transitions most occur
            low = high = values(counts, 0)
        else:
            more = gains(self.values, cells, self.discount, 0.0 if fixed is None else fixed)
            hidden = counted.hidden() & np.append(~self.noise, True)[cells[:, 1]]
            low = values(np.where(hidden & (more > 0), 0.0, counts), 0)
            high = values(np.where(hidden & (more < 0), 0.0, counts), batches(draws, states))
        visits = None
        if start is None:
            visits = counted.rows(np.where(self.noise[cells[:, 0]], prior, counts))
        return Drawn(self.values, low, high, self._bare(), weak, within, visits)

    @property
    def weak(self) -> Marks:
        counted = self.counted
        return np.asarray(WEAK * counted.row_deviations() >= counted.rows(counted.counts))

    @property
    def _process(self) -> dict[str, Any]:
        return process_of(self.public, self.discount)

    def _bare(self) -> Floats:
        """The values if nobody was ever in the states that are noise."""
        some = np.where(self.noise[self.counted.cells[:, 0]], 0.0, self.mean)
        paid = self.paid
        if self.public.rewards is None:
            paid = np.where(self.noise, 0.0, paid)[None]
        found: Floats = draw_values(some[None], rewards=paid, **self._process)[0]
        return found

    def _within(self) -> tuple[float, float]:
        """Between what all values lie, by public figures."""
        rewards, bound = self.public.rewards, self.public.reward_bound
        ends = (-bound, bound) if rewards is None else (min(rewards), max(rewards))
        return range_of(*ends, self.discount)


def process_of(public: OffPolicyPublic, discount: float) -> dict[str, Any]:
    """What `draw_values` reads beside counts and rewards."""
    return {
        "cells": public.cells(),
        "states": public.states,
        "discount": discount,
        "reward_bound": public.reward_bound,
    }
