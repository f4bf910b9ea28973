"""The fields of an off-policy evaluation's result."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from typing_extensions import TypedDict

from discreet.problems.contents import Released
from discreet.problems.off_policy_evaluation.public import Floats
from discreet.problems.results import (
    CONFIDENCE,
    LEVEL,
    LONGEST,
    NO_SIGN,
    NOISE,
    Headline,
    Interval,
    SummedFields,
    Uncertainty,
    counted,
    figure,
    headline,
    only_noise,
    shown,
)
from discreet.solvers.evaluation import temporal_difference as td
from discreet_client import intervals

REWARD = "the unit of rewards"


class Range(TypedDict):
    """Two ends."""

    lower: float
    upper: float


class OffPolicyEvaluationResult(SummedFields, total=False):
    """The values of two policies over the people in the data, or a linear value function of the
    target policy."""

    weights: Annotated[
        list[float],
        shown("Theta, one number per feature", unit=REWARD, table=("feature", "weight")),
    ]
    values: Annotated[
        list[float],
        shown(
            "The value of each state; only for tabular features",
            unit=REWARD,
            table=("state", "value"),
        ),
    ]
    target_policy: Annotated[
        str, shown("What the target policy does, if the dataset's owner has described it")
    ]
    estimand: Annotated[
        str,
        shown("What the values are of: which rewards, and in which visits (importance_sampling)"),
    ]
    policy_value: Annotated[
        float,
        shown(
            "Of the target policy: over the people in the data, estimated with clipped weights "
            "(importance_sampling; its interval is without clips), or the mean of the value "
            "function over `initial`, where it is given",
            unit=REWARD,
            title="Value of the policy",
        ),
    ]
    behaviour_value: Annotated[
        float,
        shown(
            "Value of the policy that was followed, over the people in the data "
            "(importance_sampling)",
            unit=REWARD,
        ),
    ]
    difference: Annotated[
        float,
        shown(
            "policy_value - behaviour_value, for the same people (importance_sampling)", unit=REWARD
        ),
    ]
    effective_size: Annotated[
        float,
        shown(
            "Effective sample size: so many trajectories of equal weight would be as "
            "informative (importance_sampling)"
        ),
    ]
    largest_weight: Annotated[
        float, shown("The value at which weights of trajectories are clipped (importance_sampling)")
    ]
    clipped_mass: Annotated[
        float, shown("How much of the weights, whose mean is 1, was cut off (importance_sampling)")
    ]
    robust_bounds: Annotated[
        Range,
        shown(
            "Bounds on the value of the target policy without clipping, with 90 % confidence, "
            "whatever was cut off (importance_sampling)",
            unit=REWARD,
        ),
    ]
    clipped_value: Annotated[
        Range,
        shown(
            "The interval of 90 % of the value of the target policy with clipped weights, which "
            "the true value may lie outside of; where any may be cut off (importance_sampling)",
            unit=REWARD,
        ),
    ]
    clipped_difference: Annotated[
        Range,
        shown(
            "The same of the difference (importance_sampling)",
            unit=REWARD,
        ),
    ]
    doubt: Annotated[
        str,
        shown(
            "A warning if the mean of the weights is impossible for correct probabilities, with "
            "that mean (importance_sampling)"
        ),
    ]
    covers: Annotated[
        str, shown("What the interval of policy_value covers, as a sentence (importance_sampling)")
    ]


# Answers ------------------------------------------------------------------------------------------
# What a method answers from what it released: weights, and how far its noise may have moved them.

Marks = NDArray[np.bool_]

TAIL, CHOSEN = 0.04, 0.008
"""Parts of draws beyond either end of an interval: a little less than (1 - LEVEL) / 2, as each
number is to be held so often, not their mean; and of numbers that have one only where noise was on
their side."""


class Spread(Protocol):
    """Where the weights would lie without noise."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        """The ends of the intervals of `directions` float64[k, d] times the weights: float64[k]
        each."""
        ...

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        """The ends, float64[1] each, of the interval of the policy's value."""
        ...


@dataclass(frozen=True)
class Drawn:
    """Draws float64[draws, d] of the least and of the largest weights, whose quantiles are the ends
    of intervals. These hold the answer float64[d] too, which has a prior that draws have not.

    bare: the answer float64[d] if nobody was ever in the states that are noise. Such a state is
    worth 0, which no draw says of many of them at once: the interval is extended by as much as this
    moves the answer.
    """

    weights: Floats
    least: Floats
    largest: Floats
    bare: Floats
    weak: Marks
    """Of each weight: whether noise may be most of what it follows from, so that it chose whether
    there is an interval."""
    within: tuple[float, float]
    """Between what every weight lies, by public figures."""
    visits: Floats | None = None
    """Where the policy begins as the data do: draws float64[draws, d] of how often each state was
    visited."""

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        """`directions` are parts of a whole, not negative."""
        return self._ends(self.least @ directions.T, self.largest @ directions.T, directions)

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        if self.visits is None:
            return self.of(start[None])
        begin = distribution(self.visits)
        least, largest = (
            (begin * draws).sum(axis=1, keepdims=True) for draws in (self.least, self.largest)
        )
        return self._ends(least, largest, start[None])

    def _ends(self, least: Floats, largest: Floats, directions: Floats) -> tuple[Floats, Floats]:
        answer, moved = directions @ self.weights, directions @ (self.bare - self.weights)
        lower, upper = np.empty_like(answer), np.empty_like(answer)
        chosen = directions @ self.weak > 0.5
        for own, tail in ((chosen, CHOSEN), (~chosen, TAIL)):
            lower[own] = np.quantile(least[:, own], tail, axis=0, method="weibull")
            upper[own] = np.quantile(largest[:, own], 1 - tail, axis=0, method="weibull")
        lower = np.minimum(lower, answer) + np.minimum(moved, 0.0)
        upper = np.maximum(upper, answer) + np.maximum(moved, 0.0)
        return np.maximum(lower, self.within[0]), np.minimum(upper, self.within[1])


@dataclass(frozen=True)
class Normal:
    """Normal errors: `root` float64[d, j] times its transpose is at least their covariance.
    `quantile`: deviations on either side."""

    middle: Floats
    root: Floats
    quantile: float = float(ndtri((1 + LEVEL) / 2))

    def of(self, directions: Floats) -> tuple[Floats, Floats]:
        middle = directions @ self.middle
        half = self.quantile * np.linalg.norm(directions @ self.root, axis=1)
        return middle - half, middle + half

    def mean(self, start: Floats) -> tuple[Floats, Floats]:
        return self.of(start[None])


@dataclass(frozen=True)
class Answer:
    """The weights float64[d], and what may be said of them from what was released."""

    weights: Floats
    start: Floats | None
    """Mean features float64[d] of where the policy begins: their product with the weights is its
    value."""
    noise: Marks | None = None
    """Whether each weight is mostly noise; None: not known one by one."""
    mostly_noise: bool = False
    spread: Callable[[], Spread] | None = None
    """None: this method cannot say how far its noise moved the answer."""
    noise_told: bool = False
    """Whether what is mostly noise has intervals too. Where noise itself decides which weights have
    one, those that are given hold the truth too seldom."""

    def policy_value(self) -> float:
        assert self.start is not None
        return td.policy_value(self.weights, self.start)

    def uncertainty(self, *, tabular: bool, valued: bool) -> Uncertainty:
        """The uncertainty of the result. `tabular`: weights are values; `valued`: the result has a
        policy value."""
        dimension = self.weights.size
        names = ("weights", "values") if tabular else ("weights",)
        if self.spread is None and self.noise is None and not self.mostly_noise:
            return Uncertainty(
                level=LEVEL, values={}, kinds={}, noise_dominates={}, mostly_noise=False
            )
        noise = np.full(dimension, self.mostly_noise) if self.noise is None else self.noise
        dominated: dict[str, Any] = dict.fromkeys(names, noise.tolist())
        if valued:
            dominated["policy_value"] = self.mostly_noise
        values: dict[str, Interval] = {}
        if self.spread is not None:
            spread = self.spread()
            lower, upper = spread.of(np.eye(dimension))
            untold = noise & (not self.noise_told)
            values = dict.fromkeys(
                names, Interval(lower=_known(lower, untold), upper=_known(upper, untold))
            )
            if valued and self.start is not None:
                drowned = np.array([self.mostly_noise and not self.noise_told])
                low, high = (_known(end, drowned)[0] for end in spread.mean(self.start))
                values["policy_value"] = Interval(lower=low, upper=high)
        return Uncertainty(
            level=LEVEL,
            values=values,
            kinds=dict.fromkeys(values, NOISE),
            noise_dominates=dominated,
            mostly_noise=self.mostly_noise,
        )


def distribution(counts: Floats) -> Floats:
    """Counts float64[…, states] as fractions of their sum; negative ones are taken for 0."""
    some = np.maximum(counts, 0.0)
    return np.asarray(some / np.maximum(some.sum(axis=-1, keepdims=True), 1e-300))


def _known(numbers: Floats, noise: Marks) -> list[Any]:
    """The numbers, with None for what is mostly noise."""
    return [
        None if drowned else float(number) for number, drowned in zip(numbers, noise, strict=True)
    ]


def seeded(released: Released) -> np.random.Generator:
    """A generator whose draws follow from the release, so that they are the same whenever it is
    finished.

    This holds for one version of NumPy, which certificates name: another may draw differently from
    the same seed (NEP 19).
    """
    digest = hashlib.sha256()
    for name in sorted(name for name in released if not name.startswith("true_")):
        digest.update(np.ascontiguousarray(released[name]).tobytes())
    return np.random.default_rng(list(digest.digest()))


# Headline -----------------------------------------------------------------------------------------
# The answer of an off-policy evaluation: what the target policy would have been worth.

SHORT = 50
"""Characters of what the target policy does, in the same sentence."""
SIGN_BY_CLIPS = "Sign undetermined: clipped weights could reverse it."


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Both policies' values and their difference; or the value from the given start; or how far
    values of states go."""
    if "behaviour_value" in result:
        return _of_people(problem, result)
    found = []
    if "policy_value" in result:
        before = f"{_policy(result)}, value from the given start: "
        found.append(
            headline(OffPolicyEvaluationResult, result, "policy_value", before, kind=NOISE)
        )
    name, noun = ("values", "state") if "values" in result else ("weights", "feature")
    noise, rows = only_noise(result, name)
    if "values" in result and not found:
        low, high = (intervals.plain(end(result["values"]), 3) for end in (min, max))
        states = counted(len(result["values"]), "state")
        found.append(Headline("State values: ", f"{low} to {high}", f" ({states})"))
    elif not found:
        found.append(Headline("Released: a value function of ", counted(rows, noun)))
    if noise:
        found.append(
            Headline("Values of ", f"{noise:,} of {counted(rows, noun)}", " are mostly noise")
        )
    return found


def _policy(result: Mapping[str, Any]) -> str:
    """The target policy, with what it does where that is said and short."""
    said = result.get("target_policy")
    return f"Target policy ({said})" if said and len(said) <= SHORT else "Target policy"


def _of_people(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Their intervals hold what both policies are worth, whatever was cut off: a reader takes them
    for that. What holds for clipped weights alone is said last."""
    result, fields = without_clips(result), OffPolicyEvaluationResult
    followed = figure(result, "behaviour_value", CONFIDENCE).replace("90 % CI: ", "")
    done = f". Behaviour policy: {followed}"
    discount = problem.get("discount", 1)
    if discount != 1:
        done += f", each step later discounted by {intervals.plain(discount)}"
    sign = "+" if result["difference"] > 0 else ""
    before = f"Target minus behaviour: {sign}"
    found = [
        headline(fields, result, "policy_value", f"{_policy(result)}: ", done, kind=CONFIDENCE),
        headline(fields, result, "difference", before, kind=CONFIDENCE),
    ]
    if len(found[0].text) > LONGEST and found[0].before != "Target policy: ":
        found[0] = replace(found[0], before="Target policy: ")
    if (said := result.get("target_policy")) and said not in found[0].before:
        found.append(Headline(f"Target policy: {said}"))
    if cut := _cut(result):
        found[1] = _of_clips(result, found[1])
        found.append(_clipped(result, cut))
    if "doubt" in result:
        found.insert(0, Headline(result["doubt"]))
    return found


def without_clips(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """A result of an earlier version as those of now: its intervals were of clipped weights, and
    its `robust_bounds` had no others beside it. Those of the difference are then of each end of the
    one value less the other's far end, so that they are rather too long than too short."""
    said = result.get("uncertainty") or {}
    values, truth = said.get("values", {}), result.get("robust_bounds")
    if truth is None or "policy_value" not in values or truth == values["policy_value"]:
        return result
    told = {**values, "policy_value": truth}
    clipped = {"clipped_value": values["policy_value"]}
    if "difference" in values:
        clipped["clipped_difference"] = values["difference"]
    followed = values.get("behaviour_value") or {"lower": None, "upper": None}
    if followed["lower"] is None or followed["upper"] is None:
        told.pop("difference", None)
    else:
        told["difference"] = {
            "lower": truth["lower"] - followed["upper"],
            "upper": truth["upper"] - followed["lower"],
        }
    return {**result, **clipped, "uncertainty": {**said, "values": told}}


def _of_clips(result: Mapping[str, Any], difference: Headline) -> Headline:
    """The sentence about the difference; where its sign is lost by clips alone it says so."""
    clipped = result.get("clipped_difference")
    if difference.good_for != NO_SIGN or clipped is None:
        return difference
    if clipped["lower"] <= 0 <= clipped["upper"]:
        return difference
    return replace(difference, good_for=SIGN_BY_CLIPS)


def _clipped(result: Mapping[str, Any], cut: str) -> Headline:
    """What the clips cut off, and the values with clipped weights."""
    if "uncertainty" not in result:
        return Headline(
            f"{cut}; whatever their returns, the target policy is worth ",
            _between(result["robust_bounds"]),
        )
    if "clipped_value" not in result:
        return Headline(f"{cut}; the interval allows for it")
    after = ""
    if "clipped_difference" in result:
        after = f", difference {_between(result['clipped_difference'])}"
    return Headline(
        f"{cut}; the interval allows for it. With clipped weights alone: ",
        _between(result["clipped_value"]),
        after,
    )


def _between(ends: Mapping[str, Any]) -> str:
    low, high = (intervals.plain(ends[end], 3) for end in ("lower", "upper"))
    said = f"{low} to {high}" if ends["lower"] < 0 else f"{low}–{high}"
    return f"{said} ({intervals.percent(LEVEL)} {intervals.KINDS[CONFIDENCE][0]})"


def _cut(result: Mapping[str, Any]) -> str:
    """How much of the weights the clips cut off, as far as that can be told; empty where it is
    nothing."""
    cut = result.get("clipped_mass", 0)
    ends = result.get("uncertainty", {}).get("values", {}).get("clipped_mass")
    of = "of the importance weights"
    if ends is None:
        return f"Clipping removed some {intervals.percent(cut)} {of}" if cut > 0 else ""
    if ends["upper"] <= 0:
        return ""
    if ends["lower"] <= 0:
        return f"Clipping removed at most {intervals.percent(ends['upper'])} {of}"
    low, high = (intervals.plain(100 * ends[end], 3) for end in ("lower", "upper"))
    return f"Clipping removed {low}–{high} % {of}"
