"""Off-policy evaluation: what would another policy have been worth, without exposing any one person.

Trajectories of people under a behaviour policy are private; features, discount and bounds are public. What is released
are weights of a linear value function: of noised sums over trajectories (`moments`), or of iterations that are noised
themselves. The paper (Xie et al. 2019) has the last; see `docs/problems/off_policy_evaluation.md` for its true price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.errors import FieldIssue, InvalidInput
from discreet.items import InPieces
from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.problems.base import Neighbours, Problem
from discreet.problems.columns import MAX_ISSUES
from discreet.problems.contents import Content, Progress, Released
from discreet.problems.datasets import DatasetId
from discreet.problems.numbers import Budget, Frozen, Real
from discreet.problems.off_policy_evaluation.dataset import (
    MAX_COLUMNS,
    MAX_STATES,
    Floats,
    Ints,
    OffPolicyContent,
    OffPolicyDataset,
    OffPolicyPublic,
    transitions_of,
)
from discreet.problems.plans import LONGEST_SECONDS, NoiseSummary, Plan, Resources
from discreet.problems.results import Output, Result
from discreet.solvers import gradient_temporal_difference as gtd
from discreet.solvers import least_squares_temporal_difference as lstd
from discreet.solvers import monte_carlo_regression as regression
from discreet.solvers import temporal_difference as td
from discreet.solvers import value_features as vf

MAX_FEATURES = 1000
MAX_COORDINATE = 1e12
MAX_STEPS = 10_000_000
"""Of the noisy methods; `gradient` takes one a trajectory, up to so many."""
DEFAULT_MAX_IMPORTANCE = 10.0
FEW_STATES, FEW_FEATURES = 8, 10
"""Up to so many `auto` takes moments: d² numbers get noise there, 2 d numbers a step elsewhere."""
COUNT_SHARE = 20
"""Of a minibatch job whose number of trajectories is private, 1/20 of epsilon is for that number."""

LARGEST_CONTENT = 1 << 30
"""Bytes; `Settings.content_bytes` by default."""
LEAST_BOUND = 1e-100
"""Of own features: squares of smaller numbers vanish."""
LEAST_PENALTY = 1e-6
"""Of dp_lsl: a penalty that vanishes beside rounding would let it fail where a state is never visited."""
LEAST_SMOOTHING = 1e-7
"""Of the regressions' sensitivity: below it the search for the largest takes long and finds about the global one."""

COARSE_BITS = 22
COARSE_VALUES = 256
"""Weights of the regressions are multiples of some 2^-30 of the reward bound: far below their noise."""

# Defaults, all of them public: tried on synthetic data that stand for no dataset (`discreet.reproduce.simulators`).
STACKED_CLIP = 0.1  # of the largest norm that a trajectory can have
STACKED_RIDGE = 0.03  # of the noise matrix's norm
PSEUDO_COUNT = 0.1  # of the noise's deviation
BATCH_STEPS, BATCH_SAMPLING = 20_000, 1e-3
TABULAR_STEP, TABULAR_CLIP = 30.0, 0.002
DENSE_STEP, DENSE_CLIP = 5.0, 0.03
GRADIENT_STEP, GRADIENT_CLIP = 3.2, 0.001


Reals = Annotated[tuple[Real, ...], InPieces()]


class TabularFeatures(Frozen):
    """One weight a state."""

    type: Literal["tabular"]


class FourierFeatures(Frozen):
    """cos(pi c·x), c in {0, …, order}^k, x scaled from [low, high] (Konidaris, Osentoski & Thomas 2011)."""

    type: Literal["fourier"]
    order: Annotated[int, Field(strict=True, ge=0, le=20)]
    low: Annotated[tuple[Real, ...], InPieces(min_length=1, max_length=MAX_COLUMNS)]
    high: Annotated[tuple[Real, ...], InPieces(min_length=1, max_length=MAX_COLUMNS)]


class IdentityFeatures(Frozen):
    """The coordinates of x themselves, rows longer than the public `bound` shortened to it."""

    type: Literal["identity"]
    bound: Annotated[Real, Field(gt=0, le=1e9)] = 1.0


Method = Literal["moments", "minibatch", "gradient", "dp_lsw", "dp_lsl"]


class OffPolicyEvaluation(Problem):
    """Weights of a linear value function of the target policy.

    `moments` releases noised sums over trajectories and solves in closed form; `minibatch` noises Poisson-sampled
    gradient steps; `gradient` is GPOPE, one trajectory a step; `dp_lsw` and `dp_lsl` are Monte Carlo regressions with
    smooth sensitivity. `auto` is moments where the topology is public or features are few, else minibatch.
    """

    title: ClassVar[str] = "Off-policy evaluation"
    words: ClassVar[Mapping[str, str]] = {"policy_value": "Value of the policy"}
    Dataset: ClassVar[type[OffPolicyDataset]] = OffPolicyDataset

    kind: Literal["off_policy_evaluation"]
    dataset: DatasetId = Field(description="Id of a dataset of kind off_policy_evaluation")
    features: Annotated[TabularFeatures | FourierFeatures | IdentityFeatures, Field(discriminator="type")]
    discount: Annotated[Real, Field(ge=0, lt=1)]
    method: Literal["auto", "moments", "minibatch", "gradient", "dp_lsw", "dp_lsl"] = "auto"
    clip: Annotated[Real, Field(gt=0, le=1e9)] | None = Field(
        default=None, description="Public bound on the l2 norm of what one trajectory adds"
    )
    steps: Annotated[int, Field(strict=True, ge=1, le=MAX_STEPS)] | None = None
    step_size: Annotated[Real, Field(gt=0, le=1e6)] | None = None
    sampling: Annotated[Real, Field(gt=0, le=1)] | None = Field(
        default=None, description="Probability with which a trajectory takes part in a step of `minibatch`"
    )
    max_importance: Annotated[Real, Field(gt=0, le=1e6)] | None = Field(
        default=None, description=f"Public cap on importance ratios; {DEFAULT_MAX_IMPORTANCE:g} when not given"
    )
    regularization: Annotated[Real, Field(ge=0, le=1e12)] | None = Field(
        default=None,
        description="Ridge of `moments` in units of one trajectory; `dp_lsl`'s penalty, the public number of them",
    )
    initial: Annotated[Reals | Annotated[tuple[Reals, ...], InPieces()], Field(max_length=MAX_STATES)] | None = Field(
        default=None,
        description="Public: a distribution over the states, or initial states x that are equally likely",
    )

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Two hundred synthetic walks along five states to an end that is worth 1."""
        rows = []
        for walk in range(200):
            state, step = walk % 3, 0
            while state < 5:
                onward = state + 1 + (walk * (step + 3) + state) % 2
                rows.append(
                    {
                        "trajectory": walk,
                        "step": step,
                        "state": state,
                        "next_state": min(onward, 4),
                        "reward": float(onward >= 5),
                        "terminal": onward >= 5,
                    }
                )
                state, step = onward, step + 1
        topology = [[s, s + d] for s in range(5) for d in (1, 2) if s + d <= 5]
        return {
            "problem": {
                "kind": "off_policy_evaluation",
                "dataset": {
                    "name": "synthetic walks",
                    "kind": "off_policy_evaluation",
                    "public": {
                        "unit": "trajectory",
                        "states": 5,
                        "reward_bound": 1,
                        "horizon": 5,
                        "topology": topology,
                    },
                    "content": {"transitions": rows},
                    "cap": {"epsilon": 10, "delta": 1e-4},
                },
                "features": {"type": "tabular"},
                "discount": 0.9,
                "initial": [1, 0, 0, 0, 0],
            },
            "privacy": {"epsilon": 1},
        }

    @classmethod
    def vary(cls, content: dict[str, Any]) -> None:
        last = content["transitions"][-1]["trajectory"]
        content["transitions"] = [row for row in content["transitions"] if row["trajectory"] != last]

    @classmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        """For each method one trajectory more, or another, far from what the others do."""
        good, bad = (
            [{"state": state, "next_state": state, "terminal": False, "reward": sign} for _ in range(3)]
            for state, sign in ((0, 1.0), (1, -1.0))
        )
        move = {"x": [1.0], "x_next": [-1.0], "terminal": False, "behaviour": 0.1, "target": 0.9, "reward": 1.0}
        added, replaced = ([good, good], [good, good, bad]), ([good] * 3, [good, good, bad])
        known, delta = {"states": 2, "trajectories": 3}, 10**13
        loops = {"topology": [[0, 0], [1, 1]]}
        identity = {"features": {"type": "identity", "bound": 1}, "clip": 1, "method": "moments"}
        steps = {"clip": 1, "steps": 20, "step_size": 0.1}
        batches = {"method": "minibatch", "sampling": 0.5, **steps}
        moved = ([[move]] * 2, [[move]] * 3)
        stay = {"state": 0, "next_state": 0, "terminal": False}
        alone = ([[{**stay, "reward": 1.0}] * 3], [[{**stay, "reward": -1.0}] * 3])
        cases: list[tuple[str, dict[str, Any], dict[str, Any], tuple[Any, Any], int, bool]] = [
            ("moments, tabular, added", {"states": 2, **loops}, {}, added, 0, True),
            ("moments, tabular, replaced", {**known, **loops}, {}, replaced, 0, True),
            ("moments, columns, added", {"features": 1}, identity, moved, delta, True),
            ("minibatch, columns, added", {"features": 1}, identity | batches, moved, delta, False),
            ("minibatch, tabular, replaced", known, batches, replaced, delta, False),
            ("gradient, replaced", known, {"method": "gradient", **steps}, replaced, delta, False),
            ("dp_lsw, replaced", {"states": 1, "trajectories": 1}, {"method": "dp_lsw"}, alone, delta, True),
            ("dp_lsl, replaced", known, {"method": "dp_lsl", "regularization": 10}, replaced, delta, False),
        ]
        return tuple(cls._neighbours(*case) for case in cases)

    @classmethod
    def _neighbours(
        cls, name: str, part: dict[str, Any], fields: dict[str, Any], data: tuple[Any, Any], delta: int, near: bool
    ) -> Neighbours:
        public = OffPolicyPublic.model_validate({"unit": "trajectory", "reward_bound": 1, "horizon": 3, **part})
        contents = []
        for trajectories in data:
            rows = [
                {"trajectory": number, "step": step, **row}
                for number, trajectory in enumerate(trajectories)
                for step, row in enumerate(trajectory)
            ]
            contents.append(OffPolicyDataset.read_rows(public, OffPolicyContent.model_validate({"transitions": rows})))
        public = OffPolicyDataset.describe(public, contents[0])
        fixed = {"kind": "off_policy_evaluation", "dataset": "example", "discount": 0.5}
        problem = cls.model_validate({**fixed, "features": {"type": "tabular"}, **fields})
        # Where noise is Gaussian an attack comes near the price of a larger epsilon only.
        plan = problem.plan(public, Budget(epsilon=(3 if delta else 1) * 10**9, delta=delta))
        left, right = contents
        return Neighbours(f"off_policy_evaluation, {name}", problem, public, plan, left, right, near)

    # Planning -------------------------------------------------------------------------------------------------------

    def plan(self, public: OffPolicyPublic, budget: Budget) -> Plan:
        if issues := self._issues(public):
            raise InvalidInput(issues)
        method = self._method(public)
        parameters = self._parameters(public, method)
        seconds = self._longest_seconds(public, method, parameters)
        if seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"on the largest content this could take {seconds:.3g} s, at most {LONGEST_SECONDS} are given whatever "
                "the content: fewer features or steps, less sampling, or a dataset whose number of trajectories and "
                "horizon are public and smaller",
                pointer="/problem/features" if parameters["steps"] is None else "/problem/steps",
            )
        neighbours = (
            "one person's trajectory replaced by another; the number of trajectories is public"
            if public.replaced
            else "one person's whole trajectory added or removed"
        )
        try:
            event, quantity, count = self._events(public, method, parameters, budget, neighbours)
        except ValueError as error:
            pointer = "/privacy/delta" if budget.delta == 0 else "/privacy/epsilon"
            raise InvalidInput(f"{error}; {method} needs a larger epsilon or delta", pointer=pointer) from None
        if method in ("dp_lsw", "dp_lsl") and getattr(event, "smoothing", 1.0) < LEAST_SMOOTHING:
            says = f"{method} needs a larger epsilon for so many states"
            raise InvalidInput(says, pointer="/privacy/epsilon")
        steps = parameters["steps"] or 0
        numbers = lstd.stacked_size(self._features(public).dimension) if method == "moments" else 0
        return Plan.priced(
            [event, *count],
            noise=(
                NoiseSummary.of(event, quantity, _unit(method, parameters)),
                *(NoiseSummary.of(one, "the number of trajectories, which step sizes rest on") for one in count),
            ),
            iterations={"steps": steps} if steps else {},
            resources=Resources(
                # Public figures alone: a step draws 2 d numbers and reads, in expectation, some trajectories.
                release_quantum_seconds=0.5 * (1 + int(steps * (1 + 2e-2 * self._features(public).dimension) // 1e6)),
                memory_bytes=(1 << 28) + 64 * numbers,
                steps=1,
            ),
            unit=public.unit,
            neighbours=neighbours,
            assumptions=(
                "features, discount, bounds and topology are public",
                "whose trajectory a row belongs to, is recorded truly",
                *(
                    ["the behaviour probabilities in the data do not depend on other people's"]
                    if public.off_policy
                    else []
                ),
            ),
            advice=(*self._advice(public, method, parameters, event), *self._shortening()),
            parameters={"method": method, **parameters},
        )

    def _longest_seconds(self, public: OffPolicyPublic, method: Method, chosen: dict[str, Any]) -> float:
        """Of a release on as many rows as there may be, by public figures; measured on one core of 2024, doubled."""
        row_bytes = 17 if public.states is not None else 17 + 16 * (public.features or 1)
        rows = LARGEST_CONTENT / row_bytes
        if public.trajectories is not None:
            rows = min(rows, public.trajectories * public.horizon)
        dimension = 0 if public.states is not None else self._features(public).dimension
        if method in ("minibatch", "gradient"):
            each = min(public.horizon, rows) if method == "gradient" else chosen["sampling"] * rows
            return float(chosen["steps"] * each * (80 + 20 * dimension) * 1e-9)
        return float(rows * (60 + 4 * dimension**2) * 1e-9)

    def _method(self, public: OffPolicyPublic) -> Method:
        if self.method != "auto":
            return self.method
        if isinstance(self.features, TabularFeatures):
            # Where nothing says which transitions occur, noise on all n² of them outweighs what occurs.
            few = public.topology is not None or (public.states or 0) <= FEW_STATES
        else:  # ratios make a trajectory's clipped statistics mostly clip
            few = not public.off_policy and self._features(public).dimension <= FEW_FEATURES
        return "moments" if few else "minibatch"

    def _features(self, public: OffPolicyPublic) -> vf.Features:
        match self.features:
            case TabularFeatures():
                return vf.Tabular(public.states or 1)
            case FourierFeatures(order=order, low=low, high=high):
                return vf.Fourier(order, low, high)
            case IdentityFeatures(bound=bound):
                return vf.Identity(public.features or 1, bound)

    def _max_ratio(self, public: OffPolicyPublic) -> float:
        return (self.max_importance or DEFAULT_MAX_IMPORTANCE) if public.off_policy else 1.0

    def _parameters(self, public: OffPolicyPublic, method: Method) -> dict[str, Any]:
        """Public constants of the method: the request's, or defaults that follow from public figures."""
        features = self._features(public)
        tabular, norm = isinstance(features, vf.Tabular), features.norm_bound
        clip, steps, step_size, sampling = None, None, None, None
        if method == "moments" and not tabular:
            clip = self.clip or STACKED_CLIP * lstd.stacked_bound(norm, self.discount, self._max_ratio(public))
        elif method == "minibatch":
            clip = self.clip or public.reward_bound * (TABULAR_CLIP if tabular else DENSE_CLIP * norm)
            steps, sampling = self.steps or BATCH_STEPS, self.sampling or BATCH_SAMPLING
            step_size = self.step_size or (TABULAR_STEP if tabular else DENSE_STEP / norm**2)
        elif method == "gradient":
            clip = self.clip or public.reward_bound * GRADIENT_CLIP * norm
            steps = self.steps or min(public.trajectories or 1, MAX_STEPS)
            step_size = self.step_size or GRADIENT_STEP / norm**2
        return {"clip": clip, "steps": steps, "step_size": step_size, "sampling": sampling}

    def _events(
        self, public: OffPolicyPublic, method: Method, chosen: dict[str, Any], budget: Budget, neighbours: str
    ) -> tuple[Event, str, tuple[Event, ...]]:
        """The main mechanism with what it is applied to, and the one that counts trajectories where that is needed."""
        count: tuple[Event, ...] = ()
        if method == "minibatch" and not public.replaced:
            share = budget.epsilon // COUNT_SHARE
            count = (calibration.discrete_laplace(1, share, neighbours=neighbours),)
            budget = Budget(epsilon=budget.epsilon - share, delta=budget.delta)
        return *self._event(public, method, chosen, budget, neighbours), count

    def _event(
        self, public: OffPolicyPublic, method: Method, chosen: dict[str, Any], budget: Budget, neighbours: str
    ) -> tuple[Event, str]:
        """The mechanism that touches what trajectories hold."""
        epsilon, delta = budget.epsilon, budget.delta
        dimension = self._features(public).dimension
        if method == "moments" and isinstance(self.features, TabularFeatures):
            return self._histogram_event(public, budget, neighbours)
        if method == "moments":
            size = lstd.stacked_size(dimension)
            sensitivity = chosen["clip"] * (2 if public.replaced else 1)
            event: Event = calibration.gaussian(sensitivity, epsilon, delta, neighbours=neighbours, dimension=size)
            return (
                event,
                f"{size} entries of A, b and C, summed over trajectories of norm at most {chosen['clip']:g} each",
            )
        if method == "minibatch":
            event = calibration.poisson_subsampled_gaussian(
                chosen["clip"],
                epsilon,
                delta,
                probability=chosen["sampling"],
                steps=chosen["steps"],
                relation="replace" if public.replaced else "add_remove",
                neighbours=neighbours,
            )
            return event, f"each of {2 * dimension} coordinates of the gradient sum, in each of {chosen['steps']} steps"
        if method == "gradient":
            event = calibration.one_draw_gaussian(
                chosen["clip"],
                epsilon,
                delta,
                population=public.trajectories or 1,
                steps=chosen["steps"],
                neighbours=neighbours,
            )
            return event, f"each of {2 * dimension} coordinates of the gradient, in each of {chosen['steps']} steps"
        event = calibration.smooth_sensitivity_gaussian(epsilon, delta, dimension=dimension, neighbours=neighbours)
        return event, f"{dimension} weights, times a smooth sensitivity that depends on the data and is not published"

    def _histogram_event(self, public: OffPolicyPublic, budget: Budget, neighbours: str) -> tuple[Event, str]:
        """Visits and, where these are not public, rewards in one vector; `lstd.histograms` says what each moves by."""
        blocks = 1 if public.rewards is not None else 2
        # Replacing: visits are differences of nonnegative vectors (l2 sqrt 2), rewards may point anywhere (l2 2).
        squares = (2 + 4 * (blocks - 1)) if public.replaced else blocks
        event = calibration.least_variance(
            sensitivity_l1=lstd.UNIT * blocks * (2 if public.replaced else 1),
            sensitivity_l2=math.nextafter(lstd.UNIT * math.sqrt(squares), math.inf),
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbours=neighbours,
        )
        cells = len(public.cells())
        what = f"visits of {cells} transitions" + (f" and rewards of {public.states} states" if blocks == 2 else "")
        return event, f"{what}, summed over trajectories, each of which counts 1 in all"

    def _shortening(self) -> tuple[str, ...]:
        """What identity features do to coordinates of raw size: whether there are any, no public figure tells."""
        if not isinstance(self.features, IdentityFeatures):
            return ()
        bound = self.features.bound
        return (
            f"identity features take x (columns x and x_next) as it is: a row longer than features.bound {bound:g} "
            "(the root of the sum of squares) is shortened to it, so values of raw size, as an age of 63, lose their "
            "size; divide each coordinate by a public limit of it, raise the bound, or use fourier with low and high",
        )

    def _advice(self, public: OffPolicyPublic, method: Method, chosen: dict[str, Any], event: Event) -> tuple[str, ...]:
        """What error to expect, where public figures tell it."""
        if method in ("dp_lsw", "dp_lsl"):
            return ("the error of this method depends on the data; `moments` is usually orders better",)
        if method == "gradient":
            return ("one trajectory a step: at epsilon below 1 a constant often predicts better; see the docs",)
        if public.trajectories is None:
            return ()
        m = public.trajectories
        deviation = NoiseSummary.of(event, "", _unit(method, chosen)).standard_deviation
        if method == "minibatch":
            signal = chosen["sampling"] * m * chosen["clip"]
            ratio = deviation / signal
            says = f"the noise of a step is {ratio:.2g} of the largest gradient that {m} trajectories can give"
        else:
            clip = chosen["clip"]
            sums = len(public.cells()) if clip is None else lstd.stacked_size(self._features(public).dimension)
            ratio = deviation * math.sqrt(sums) / ((clip or 1.0) * m)
            says = f"the noise of all {sums} sums together is {ratio:.2g} of what {m} trajectories can add up to"
        if ratio > 0.1:
            return (f"{says}: too few trajectories for this budget, expect the answer to be mostly noise",)
        return (says,)

    def _issues(self, public: OffPolicyPublic) -> list[FieldIssue]:
        """What keeps this from being a problem on the dataset."""
        found = []
        tabular = isinstance(self.features, TabularFeatures)
        if tabular != (public.states is not None):
            says = (
                f"the dataset has {public.states} numbered states: use tabular"
                if public.states is not None
                else f"a state of the dataset has {public.features} coordinates: use fourier or identity"
            )
            found.append(FieldIssue("/problem/features/type", says))
        if isinstance(self.features, FourierFeatures):
            k = len(self.features.low)
            if k != len(self.features.high) or k != (public.features or k):
                found.append(FieldIssue("/problem/features/low", f"low and high need {public.features} figures each"))
            elif not all(low < high for low, high in zip(self.features.low, self.features.high, strict=True)):
                found.append(FieldIssue("/problem/features/low", "must be below high"))
            elif max(map(abs, (*self.features.low, *self.features.high))) > MAX_COORDINATE:
                found.append(FieldIssue("/problem/features/low", f"low and high are at most {MAX_COORDINATE:g} large"))
            if (self.features.order + 1) ** k > MAX_FEATURES:
                says = f"{(self.features.order + 1) ** k} features; at most {MAX_FEATURES}"
                found.append(FieldIssue("/problem/features/order", says))
        if isinstance(self.features, IdentityFeatures) and self.features.bound < LEAST_BOUND:
            found.append(FieldIssue("/problem/features/bound", f"at least {LEAST_BOUND:g}"))
        regression_method = self.method in ("dp_lsw", "dp_lsl")
        if public.off_policy and regression_method:
            says = "Monte Carlo returns are those of the policy that was followed, and this dataset is off-policy"
            found.append(FieldIssue("/problem/method", f"{says}; use moments"))
        if regression_method and not tabular:
            found.append(FieldIssue("/problem/method", f"{self.method} needs tabular states"))
        if self.method == "gradient" and not public.replaced:
            says = (
                "one uniform draw a step needs a public number of trajectories: register the data with "
                "public.trajectories, or use moments or minibatch"
            )
            found.append(FieldIssue("/problem/method", says))
        if self.max_importance is not None and not public.off_policy:
            found.append(FieldIssue("/problem/max_importance", "the dataset is on-policy: there are no ratios to cap"))
        if self.method == "dp_lsl" and self.regularization is not None and self.regularization < LEAST_PENALTY:
            found.append(FieldIssue("/problem/regularization", f"the penalty of dp_lsl is at least {LEAST_PENALTY:g}"))
        if self.method == "dp_lsl" and self.regularization is None and not public.replaced:
            says = "needed: the penalty of dp_lsl is about the number of trajectories, which is private here"
            found.append(FieldIssue("/problem/regularization", says))
        if found:
            return found
        method = self._method(public)
        takes = {
            "clip": method in ("minibatch", "gradient") or (method == "moments" and not tabular),
            "steps": method in ("minibatch", "gradient"),
            "step_size": method in ("minibatch", "gradient"),
            "sampling": method == "minibatch",
            "regularization": (method == "moments" and not tabular) or method == "dp_lsl",
        }
        for name, taken in takes.items():
            if getattr(self, name) is not None and not taken:
                found.append(FieldIssue(f"/problem/{name}", f"means nothing to the method {method} on this dataset"))
        if self.initial is not None:
            found += self._initial_issues(public)
        return found

    def _initial_issues(self, public: OffPolicyPublic) -> list[FieldIssue]:
        assert self.initial is not None
        vectors = [row for row in self.initial if isinstance(row, tuple)]
        if public.states is None:
            if len(vectors) != len(self.initial) or any(len(row) != public.features for row in vectors) or not vectors:
                says = f"initial states of {public.features} coordinates each are needed"
                return [FieldIssue("/problem/initial", says)]
            if max(abs(number) for row in vectors for number in row) > MAX_COORDINATE:
                return [FieldIssue("/problem/initial", f"coordinates are at most {MAX_COORDINATE:g} large")]
            if isinstance(self.features, IdentityFeatures):
                bound = self.features.bound
                long = [(row, math.hypot(*vector)) for row, vector in enumerate(vectors)]
                return [
                    FieldIssue(
                        f"/problem/initial/{row}",
                        f"this state has the length {length:.6g}, and identity features shorten all that is longer "
                        f"than features.bound {bound:g}, here and in the columns x and x_next: divide each "
                        "coordinate by a public limit of it, or raise the bound",
                    )
                    for row, length in long
                    if length > bound * (1 + 1e-9)
                ][:MAX_ISSUES]
            return []
        numbers = [share for share in self.initial if not isinstance(share, tuple)]
        if len(numbers) != public.states or vectors:
            return [FieldIssue("/problem/initial", f"a distribution over {public.states} states is needed")]
        if min(numbers) < 0 or abs(sum(numbers) - 1) > 1e-9:
            return [
                FieldIssue("/problem/initial", f"must be probabilities that sum to 1; they sum to {sum(numbers):.12g}")
            ]
        return []

    # Release and what follows from it -------------------------------------------------------------------------------

    def release(self, public: OffPolicyPublic, plan: Plan, content: Content, noise: Noise) -> Released:
        """What the plan's one mechanism lets out.

        Neighbours add or remove one trajectory, or replace one of a public number. `moments`: exact sums of vectors of
        bounded norm, then noise. `minibatch`, `gradient`: clipped gradients with noise in every step; the weights are
        post-processing of the noised steps. `dp_lsw`, `dp_lsl`: noise in units of a smooth sensitivity.
        """
        event, *count = plan.events
        chosen = plan.parameters
        features = self._features(public)
        max_ratio = self._max_ratio(public)
        moved = transitions_of(content, max_ratio)
        if chosen["method"] == "moments" and isinstance(features, vf.Tabular):
            return {"sums": noise.add(event, _histogram(public, moved, max_ratio))}
        moved = td.bounded(moved, public.reward_bound, max_ratio)
        if chosen["method"] == "moments":
            sums = lstd.stacked(
                moved,
                features,
                self.discount,
                clip=chosen["clip"],
                reward_bound=public.reward_bound,
                max_ratio=max_ratio,
            )
            return {"sums": noise.add(event, sums)}
        if chosen["method"] == "gradient":
            found = self._descend(public, moved, chosen, event.scale, noise)
            return {"weights": _coarse(found, chosen["step_size"] * event.scale)}
        if chosen["method"] == "minibatch":
            m = np.array([public.trajectories or moved.trajectories])
            if count:
                m = noise.add(count[0], m)
            found = self._sample(public, moved, chosen, event.scale, int(m[0]), noise)
            step = chosen["step_size"] / (chosen["sampling"] * max(int(m[0]), 1))
            return {"weights": _coarse(found, step * event.scale), "trajectories": m}
        return {"weights": _coarse(self._regress(public, moved, event, noise), public.reward_bound / COARSE_VALUES)}

    def _descend(
        self, public: OffPolicyPublic, moved: td.Transitions, chosen: dict[str, Any], scale: float, noise: Noise
    ) -> Floats:
        """GPOPE with steps that fall linearly to nothing."""
        steps = chosen["steps"]
        return gtd.gradient(
            moved,
            self._features(public),
            self.discount,
            steps=steps,
            step_sizes=chosen["step_size"] * (1 - np.arange(steps) / steps),
            clip=chosen["clip"],
            noise_scale=scale,
            generator=noise.generator(),
        )

    def _sample(
        self, public: OffPolicyPublic, moved: td.Transitions, chosen: dict[str, Any], scale: float, m: int, noise: Noise
    ) -> Floats:
        """Steps on Poisson samples of m trajectories, m public or released."""
        return gtd.minibatch(
            moved,
            self._features(public),
            self.discount,
            probability=chosen["sampling"],
            steps=chosen["steps"],
            step_size=chosen["step_size"] / (chosen["sampling"] * max(m, 1)),
            clip=chosen["clip"],
            noise_scale=scale,
            generator=noise.generator(),
        )

    def _regress(self, public: OffPolicyPublic, moved: td.Transitions, event: Any, noise: Noise) -> Floats:
        shared: dict[str, Any] = {
            "smoothing": event.smoothing,
            "reward_bound": public.reward_bound,
            "horizon": public.horizon,
        }
        phi = np.eye(public.states or 1)
        if self.method == "dp_lsw":
            found = regression.dp_lsw(moved, phi, self.discount, **shared)
        else:
            found = regression.dp_lsl(
                moved,
                phi,
                self.discount,
                penalty=self.regularization or float(public.trajectories or 1),
                public_trajectories=public.trajectories,
                **shared,
            )
        deviation = event.scale * found.sensitivity
        drawn: Floats = found.theta + deviation * noise.generator().standard_normal(found.theta.size)
        return drawn

    def finish(self, public: OffPolicyPublic, plan: Plan, released: Released, progress: Progress) -> Result:
        features = self._features(public)
        weights = np.nan_to_num(
            released["weights"] if "weights" in released else self._solved(public, plan, released["sums"])
        )
        outputs = {"weights": Output.array(weights, "feature", "weight")}
        if isinstance(features, vf.Tabular):
            outputs["values"] = Output.array(weights, "state", "value")
        if self.initial is not None:
            start = np.array(self.initial)
            mean = start if isinstance(features, vf.Tabular) else features(start).mean(axis=0)
            value = td.policy_value(weights, mean)
            outputs["policy_value"] = Output(lambda: value)
        progress(1, 1)
        return Result(outputs)

    def _solved(self, public: OffPolicyPublic, plan: Plan, sums: NDArray[Any]) -> Floats:
        """Weights of noised sums, in closed form."""
        (event,) = plan.events
        deviation = NoiseSummary.of(event, "").standard_deviation
        if isinstance(self.features, TabularFeatures):
            assert public.states is not None
            cells = public.cells()
            known = public.topology is not None
            moments = lstd.tabular_moments(
                sums[: len(cells)],
                cells,
                public.states,
                self.discount,
                rewards=None if public.rewards is not None else sums[len(cells) :],
                cell_rewards=None if public.rewards is None else np.array(public.rewards),
                reward_bound=public.reward_bound,
                # Of all pairs of states few occur; of a public topology all may. Of rewards many are 0.
                threshold=0.0 if known else _cutoff(event, len(cells)),
                reward_threshold=_cutoff(event, public.states),
                pseudo_count=PSEUDO_COUNT * deviation if known else 0.0,
            )
            return lstd.solve_moments(*moments)
        dimension = self._features(public).dimension
        moments = lstd.unstacked(sums, dimension, public.reward_bound)
        ridge = STACKED_RIDGE * deviation * math.sqrt(dimension)
        return lstd.solve_moments(*moments, ridge if self.regularization is None else self.regularization)


def _coarse(weights: Floats, unit: float) -> Floats:
    """`weights` as multiples of about 2^-22 of the public `unit`, and in 24 significant bits.

    Noise in floating point has gaps in its last bits, by which what it was added to could be told; these bits go.
    """
    grid = math.ldexp(1.0, math.frexp(unit)[1] - 1 - COARSE_BITS)
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.rint(weights / grid) * grid).astype(np.float32).astype(np.float64)


def _cutoff(event: Event, numbers: int) -> float:
    """What the noise on one of so many numbers exceeds with probability 1/20 in all."""
    log = math.log(20 * numbers)
    return event.scale * (log if event.noise == "discrete_laplace" else math.sqrt(2 * log))


def _unit(method: Method, chosen: dict[str, Any]) -> float:
    """What one trajectory counts, where sums are of integers."""
    return lstd.UNIT if method == "moments" and chosen["clip"] is None else 1.0


def _histogram(public: OffPolicyPublic, moved: td.Transitions, max_ratio: float) -> Ints:
    assert public.states is not None
    found = lstd.histograms(moved, public.cells(), public.states, reward_bound=public.reward_bound, max_ratio=max_ratio)
    return found.visits if public.rewards is not None else np.concatenate([found.visits, found.rewards])
