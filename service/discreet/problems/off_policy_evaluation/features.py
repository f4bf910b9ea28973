"""Features of states: their public models, and whether they fit a dataset."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field

from discreet.errors import FieldIssue
from discreet.intake.items import InPieces
from discreet.problems.contents import MAX_ISSUES
from discreet.problems.numbers import Frozen, Real
from discreet.problems.off_policy_evaluation.public import MAX_COLUMNS, OffPolicyPublic
from discreet.solvers.evaluation import value_features as vf

MAX_FEATURES = 1000
MAX_COORDINATE = 1e12
LEAST_BOUND = 1e-100
"""Of own features: squares of smaller numbers vanish."""


class _Features(Frozen):
    @abstractmethod
    def solver_form(self, public: OffPolicyPublic) -> vf.Features:
        """The features as functions of states."""

    def issues(self, public: OffPolicyPublic) -> list[FieldIssue]:
        """Why these features do not fit the dataset, other than numbered states versus
        coordinates."""
        return []

    def initial_issues(self, states: Sequence[tuple[float, ...]]) -> list[FieldIssue]:
        """What keeps initial states of the right number of coordinates from being taken as they
        are."""
        return []

    def advice(self) -> tuple[str, ...]:
        """What these features do to any data."""
        return ()


class TabularFeatures(_Features):
    """One weight a state."""

    type: Literal["tabular"]

    def solver_form(self, public: OffPolicyPublic) -> vf.Features:
        return vf.Tabular(public.states or 1)


class FourierFeatures(_Features):
    """cos(pi c·x), c in {0, …, order}^k, x scaled from [low, high] (Konidaris, Osentoski & Thomas
    2011)."""

    type: Literal["fourier"]
    order: Annotated[int, Field(strict=True, ge=0, le=20)]
    low: Annotated[tuple[Real, ...], InPieces(min_length=1, max_length=MAX_COLUMNS)]
    high: Annotated[tuple[Real, ...], InPieces(min_length=1, max_length=MAX_COLUMNS)]

    def solver_form(self, public: OffPolicyPublic) -> vf.Features:
        return vf.Fourier(self.order, self.low, self.high)

    def issues(self, public: OffPolicyPublic) -> list[FieldIssue]:
        found, k = [], len(self.low)
        if k != len(self.high) or k != (public.features or k):
            found.append(
                FieldIssue(
                    "/problem/features/low", f"low and high need {public.features} figures each"
                )
            )
        elif not all(low < high for low, high in zip(self.low, self.high, strict=True)):
            found.append(FieldIssue("/problem/features/low", "must be below high"))
        elif max(map(abs, (*self.low, *self.high))) > MAX_COORDINATE:
            found.append(
                FieldIssue(
                    "/problem/features/low",
                    f"low and high must not exceed {MAX_COORDINATE:g} in absolute value",
                )
            )
        if (count := (self.order + 1) ** k) > MAX_FEATURES:
            found.append(
                FieldIssue("/problem/features/order", f"{count} features; at most {MAX_FEATURES}")
            )
        return found


class IdentityFeatures(_Features):
    """The coordinates of x themselves, rows longer than the public `bound` shortened to it."""

    type: Literal["identity"]
    bound: Annotated[Real, Field(gt=0, le=1e9)] = 1.0

    def solver_form(self, public: OffPolicyPublic) -> vf.Features:
        return vf.Identity(public.features or 1, self.bound)

    def issues(self, public: OffPolicyPublic) -> list[FieldIssue]:
        small = self.bound < LEAST_BOUND
        return [FieldIssue("/problem/features/bound", f"at least {LEAST_BOUND:g}")] if small else []

    def initial_issues(self, states: Sequence[tuple[float, ...]]) -> list[FieldIssue]:
        return [
            FieldIssue(
                f"/problem/initial/{row}",
                f"this state has the length {length:.6g}, and identity features shorten all that "
                f"is longer than features.bound {self.bound:g}, here and in the columns x and "
                "x_next: divide each coordinate by a public limit of it, or raise the bound",
            )
            for row, length in enumerate(math.hypot(*state) for state in states)
            if length > self.bound * (1 + 1e-9)
        ][:MAX_ISSUES]

    def advice(self) -> tuple[str, ...]:
        """What they do to coordinates of raw size: whether there are any, no public figure
        tells."""
        return (
            "identity features take x (columns x and x_next) as it is: a row longer than "
            f"features.bound {self.bound:g} (the root of the sum of squares) is shortened to it, "
            "so values of raw size, as an age of 63, lose their size; divide each coordinate by a "
            "public limit of it, raise the bound, or use fourier with low and high",
        )


AnyFeatures = Annotated[
    TabularFeatures | FourierFeatures | IdentityFeatures, Field(discriminator="type")
]


def initial_issues(
    features: _Features, initial: Sequence[float | tuple[float, ...]], public: OffPolicyPublic
) -> list[FieldIssue]:
    """What keeps `initial` from being a distribution over the states, or initial states."""

    def issue(says: str) -> list[FieldIssue]:
        return [FieldIssue("/problem/initial", says)]

    vectors = [row for row in initial if isinstance(row, tuple)]
    if public.states is None:
        if (
            len(vectors) != len(initial)
            or any(len(row) != public.features for row in vectors)
            or not vectors
        ):
            return issue(f"initial states of {public.features} coordinates each are needed")
        if max(abs(number) for row in vectors for number in row) > MAX_COORDINATE:
            return issue(f"coordinates must not exceed {MAX_COORDINATE:g} in absolute value")
        return features.initial_issues(vectors)
    numbers = [share for share in initial if not isinstance(share, tuple)]
    if len(numbers) != public.states or vectors:
        return issue(f"a distribution over {public.states} states is needed")
    if min(numbers) < 0 or abs(sum(numbers) - 1) > 1e-9:
        return issue(f"must be probabilities that sum to 1; they sum to {sum(numbers):.12g}")
    return []
