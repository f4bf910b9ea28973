"""What is published of a set of trajectories: spaces, bounds and unit."""

from __future__ import annotations

import math
import sys
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, StringConstraints, model_validator

from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems import descriptions
from discreet.problems.numbers import Count, Flag, Frozen, Positive, Real, Seen
from discreet.solvers.evaluation import least_squares_temporal_difference

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MAX_STATES = 2000
MAX_COLUMNS = 64


LONGEST_WALK = 1000
"""Steps in which the largest return is looked for; what more of them may bring is added."""
UNDECLARED_TRAJECTORIES, UNDECLARED_ROWS = 100_000, 250_000
"""Rows of a private content whose owner declares no bound: releases take the time of so many."""


FeatureName = Annotated[
    str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True), Seen
]
PolicyName = FeatureName


class FeatureRange(Frozen):
    """What a coordinate of `x` is made of."""

    name: FeatureName
    low: Real = Field(description="Its value where the coordinate is 0, and below")
    high: Real = Field(description="Its value where the coordinate is 1, and above")

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if not self.low < self.high:
            raise FieldError("high", "must be greater than low")
        return self


class OffPolicyPublic(Frozen):
    """What is published of a set of trajectories."""

    unit: Literal["trajectory"] = Field(
        description="One person's trajectory is what a neighbouring dataset changes"
    )
    neighbours: Literal["replace", "add_remove"] | None = Field(
        default=None, description="`replace` where `trajectories` is given, else `add_remove`"
    )
    states: Annotated[int, Field(strict=True, ge=1, le=MAX_STATES)] | None = Field(
        default=None,
        description="Number of states of a tabular problem; 1 if states are not given, which is "
        "enough for importance_sampling",
    )
    features: Annotated[int, Field(strict=True, ge=1, le=MAX_COLUMNS)] | None = Field(
        default=None, description="Number of coordinates of a state `x`, instead of `states`"
    )
    ranges: Annotated[list[FeatureRange], InPieces(max_length=MAX_COLUMNS)] | None = Field(
        default=None,
        description="What the coordinates of `x` are, one range each, in their order: a "
        "coordinate is (value - low) / (high - low), cut off at 0 and 1. Readers of tables of "
        "visits use it. Like everything public, it must be chosen without looking at the data",
    )
    trajectories: Positive | None = Field(
        default=None, description="Number of trajectories, when it is public"
    )
    max_trajectories: Positive | None = Field(
        default=None,
        description="Public bound on the number of trajectories, chosen without looking at them: "
        "releases take the time of so many. Absent: the public number, or "
        f"{UNDECLARED_TRAJECTORIES:,}",
    )
    max_rows: Positive | None = Field(
        default=None,
        description="Public bound on the number of transitions, like max_trajectories. Absent: "
        f"the larger of {UNDECLARED_ROWS:,} and ten for each of the trajectories that are declared",
    )
    reward_bound: Annotated[
        Real, Field(gt=0, le=1e12, description="Public bound on the absolute value of a reward")
    ]
    least_reward: Real | None = Field(
        default=None,
        description="Public lower bound on a reward, from its meaning: 0 if rewards count good "
        "outcomes. Absent: -reward_bound. If returns cannot be negative, their range is half as "
        "wide, and so is their noise",
    )
    horizon: Annotated[
        int, Field(strict=True, ge=1, le=10**6, description="The most transitions of a trajectory")
    ]
    max_ratio: Annotated[Real, Field(gt=0, le=1e12)] | None = Field(
        default=None,
        description="Public bound on target / behaviour of one step, from the rules of both "
        "policies. A trajectory then weighs at most this to the power of the horizon, and if that "
        "is not clipped nothing is cut off",
    )
    overlap: Annotated[Real, Field(gt=0, le=1)] | None = Field(
        default=None,
        description="The least probability that the behaviour policy gives to an action that is "
        "taken, from the protocol and never from the data: no ratio is above 1 / overlap, and rows "
        "with less are refused",
        examples=[0.1],
    )
    actions: Annotated[int, Field(strict=True, ge=2, le=10**6)] | None = Field(
        default=None,
        description="The number of actions that may be taken in a visit, by the protocol. Where it "
        "is 2, a row says the probabilities of both, and over one visit what clips cut off is "
        "known much better (importance_sampling)",
        examples=[2],
    )
    target_policy: PolicyName | None = Field(
        default=None,
        description="What the target policy does, in words that answers repeat: `treat when "
        "lactate > 2`. Readers of tables of visits fill it in if the policy is a rule",
    )
    topology: Annotated[list[tuple[Count, Count]], InPieces()] | None = Field(
        default=None,
        description="Possible transitions [state, next state]; a next state of `states` is the end "
        "of the episode",
    )
    rewards: Annotated[list[Real], InPieces()] | None = Field(
        default=None, description="Reward of each transition of the topology, if rewards are public"
    )
    off_policy: Flag | None = Field(
        default=None,
        description="Whether rows have `behaviour` and `target`; follows from the content's "
        "columns",
    )
    continuing: Flag | None = Field(
        default=None,
        description="True: by the nature of the data no episode ever ends, and no transition is "
        "terminal. The common part of all values is then the mean reward / (1 - discount), where "
        "`minibatch` begins",
    )

    reader: descriptions.Rules = None
    columns: descriptions.Names = None

    @model_validator(mode="before")
    @classmethod
    def _counted(cls, given: Any) -> Any:
        """Ranges say how many features there are. Where nothing is said of states they are all the
        same: what two policies are worth for people does not rest on them."""
        if not isinstance(given, dict) or any(
            given.get(name) is not None for name in ("states", "features")
        ):
            return given
        ranges = given.get("ranges")
        if ranges is None:  # a topology speaks of states whose number is to be said
            return given if given.get("topology") is not None else {**given, "states": 1}
        return {**given, "features": len(ranges)} if isinstance(ranges, list) and ranges else given

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.states is not None and self.features is not None:
            raise FieldError("states", "either states or features, not both")
        if (
            self.states is None and self.features is None
        ):  # else they are filled in: ranges count, nothing is one state
            if self.topology is not None:
                raise FieldError(
                    "states",
                    "a topology needs the number of its states; without both there is "
                    "only one state",
                )
            raise FieldError("states", "the number of states or that of features is needed")
        if self.ranges is not None:
            if len(self.ranges) != self.features:
                raise FieldError("ranges", "one for each of the features is needed")
            if len({told.name for told in self.ranges}) != len(self.ranges):
                raise FieldError("ranges", "two features have the same name")
        if self.neighbours == "replace" and self.trajectories is None:
            raise FieldError(
                "trajectories", "neighbours that replace one trajectory need their public number"
            )
        if self.neighbours == "add_remove" and self.trajectories is not None:
            raise FieldError(
                "trajectories",
                "if neighbours add or remove a trajectory, the number of trajectories is private",
            )
        if self.trajectories is not None and self.max_trajectories is not None:
            raise FieldError("max_trajectories", "the number of trajectories is public already")
        if self.topology is not None:
            if self.states is None:
                raise FieldError("topology", "a topology needs tabular states")
            states = self.states
            if not self.topology or any(
                origin >= states or to > states for origin, to in self.topology
            ):
                says = (
                    f"pairs of states 0 to {states - 1} are needed; as the next state {states} "
                    "ends an episode"
                )
                raise FieldError("topology", says)
            if len(set(self.topology)) != len(self.topology):
                raise FieldError("topology", "a transition is given twice")
        if (
            self.least_reward is not None
            and not -self.reward_bound <= self.least_reward < self.reward_bound
        ):
            raise FieldError(
                "least_reward",
                f"at least {-self.reward_bound:g} and below {self.reward_bound:g} is needed",
            )
        if self.rewards is not None:
            if self.topology is None or len(self.rewards) != len(self.topology):
                raise FieldError("rewards", "one for each transition of the topology is needed")
            if max(map(abs, self.rewards)) > self.reward_bound:
                raise FieldError("rewards", "a reward exceeds reward_bound")
            if min(self.rewards) < self.lowest_reward:
                raise FieldError("rewards", "a reward is below least_reward")
        return self

    @property
    def replaced(self) -> bool:
        """Whether neighbours replace one trajectory of a public number."""
        return self.trajectories is not None

    @property
    def told_target(self) -> tuple[str, ...]:
        """The owner's description of the target policy; as an assumption it is signed with each
        certificate."""
        if not self.off_policy or self.target_policy is None:
            return ()
        return (f"the target policy is, as the dataset's owner says: {self.target_policy}",)

    @property
    def lowest_reward(self) -> float:
        """A lower bound on every reward."""
        return -self.reward_bound if self.least_reward is None else self.least_reward

    @property
    def rewards_with_none(self) -> tuple[float, float]:
        """Between what one reward lies, and 0 with it, which a step after the end brings; never
        one number."""
        given = (self.lowest_reward, self.reward_bound) if self.rewards is None else self.rewards
        low, high = min(*given, 0.0), max(*given, 0.0)
        return low, high if low < high else self.reward_bound

    @property
    def most_trajectories(self) -> int:
        """Upper bound on the number of trajectories, from public figures."""
        return self.trajectories or self.max_trajectories or UNDECLARED_TRAJECTORIES

    @property
    def most_rows(self) -> int:
        """Upper bound on the number of transitions, from public figures."""
        declared = self.trajectories or self.max_trajectories or 0
        most = self.max_rows or max(UNDECLARED_ROWS, 10 * declared)
        return min(most, self.most_trajectories * self.horizon)

    @property
    def most_bytes(self) -> int:
        """Upper bound on the memory of a content in bytes, from public figures."""
        row = 17 if self.states is not None else 9 + 16 * (self.features or 1)
        return self.most_rows * (row + (16 if self.off_policy else 0)) + 8 * self.most_trajectories

    def largest_value(self, discount: float) -> float:
        """No trajectory's return is larger in modulus: reward_bound (1 + discount + …), as often as
        the horizon."""
        return self.reward_bound * self.discounted_steps(discount)

    def discounted_steps(self, discount: float) -> float:
        """1 + discount + …, as often as the horizon."""
        if discount in (0, 1):
            return float(self.horizon if discount else 1)
        return -math.expm1(self.horizon * math.log(discount)) / (1 - discount)

    @property
    def largest_ratio(self) -> float:
        """No ratio of a step is larger; infinite where no public figure says so."""
        known = math.inf if self.max_ratio is None else self.max_ratio
        return min(known, math.inf if self.overlap is None else 1 / self.overlap)

    @property
    def largest_weight(self) -> float:
        """No trajectory's product of ratios is larger; infinite where no public figure says so."""
        return self.largest_weight_of(self.horizon)

    def largest_weight_of(self, visits: int) -> float:
        """The same of the ratios of so many visits."""
        if math.isinf(self.largest_ratio):
            return math.inf
        # One that ends early has fewer of them.
        power = min(visits, self.horizon) * math.log(max(self.largest_ratio, 1.0))
        return math.exp(power) if power < math.log(sys.float_info.max) else math.inf

    @property
    def rewards_of_a_visit(self) -> tuple[float, float]:
        """Between what one reward lies; never one number."""
        given = (self.lowest_reward, self.reward_bound) if self.rewards is None else self.rewards
        low, high = min(given), max(given)
        return low, high if low < high else low + self.reward_bound

    def returns(self, discount: float) -> tuple[float, float]:
        """Between what every discounted return lies: by public rewards and transitions, or by the
        bounds on rewards; never one number."""
        largest = self.largest_value(discount)
        # An episode may end after its first step.
        one, every = self.lowest_reward, self.lowest_reward * self.discounted_steps(discount)
        least, most = min(one, every), max(self.reward_bound, largest)
        if self.rewards is None:
            return least, most
        low, high = (side * self._best_return(side, discount) for side in (-1.0, 1.0))
        low, high = max(low, -largest), min(high, largest)
        return low, high if low < high else low + min(self.reward_bound, most - least)

    def _best_return(self, side: float, discount: float) -> float:
        """The largest return of any walk of 1 to `horizon` steps through the topology, rewards
        times `side`."""
        assert self.rewards is not None
        origin, target = self.cells().T
        rewards, best = side * np.array(self.rewards), np.zeros((self.states or 0) + 1)
        for _ in range(steps := min(self.horizon, LONGEST_WALK)):
            onward = rewards + discount * np.maximum(best, 0.0)[target]
            best = np.full_like(best, -math.inf)
            np.maximum.at(best, origin, onward)
            best[-1] = 0.0  # the end of the episode
        rest = self.largest_value(discount) * discount**steps if steps < self.horizon else 0.0
        return float(best[:-1].max()) + rest

    def cells(self) -> Ints:
        """int64[K, 2]: the transitions that are counted."""
        assert self.states is not None
        return (
            least_squares_temporal_difference.cells_of(self.states)
            if self.topology is None
            else np.array(self.topology, dtype=np.int64)
        )


Vector = Annotated[list[Real], Field(fail_fast=True)]
