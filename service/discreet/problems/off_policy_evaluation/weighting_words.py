"""Sentences about weights that are cut off, and about probabilities that are doubtful."""

from __future__ import annotations

import math
from typing import Any

from discreet.problems.accuracy import LEVEL, Interval
from discreet.problems.off_policy_evaluation.expectation import RATIO_SQUARE, rounded
from discreet.problems.off_policy_evaluation.gradients import COUNT_SHARE
from discreet.problems.off_policy_evaluation.result import REWARD
from discreet.solvers.evaluation.weighted_value import Told, WeightedSums
from discreet_client.intervals import percent, plain

MOST_CAP = 50.0
TOO_LARGE, TOO_SMALL = 2.6, 3.5
"""Standard deviations by which the mean of the weights may be above or below what it can be before
the probabilities are doubted. A few large weights make many means too small, and their deviations
with them; of 100 answers with the right probabilities at most one may be doubted."""
MANY_PEOPLE = 30_000
"""More than most data have: if only with more of them nothing is cut off, plans warn."""
MUCH_CUT = 0.5
"""A plan warns where more than this part of the weights may be cut off."""


POWER = "by max_ratio and horizon"


def clip_of_noised_number(weighed: str, most: float, enough: float | None) -> str:
    """Where weights are clipped if the number of trajectories is private. `enough`: the number of
    trajectories from which on none is cut off; None where there is no such number."""
    says = (
        f"weights of {weighed} are clipped at a value that follows from a noised number of "
        f"trajectories, on which a {COUNT_SHARE}th of epsilon is spent; a `max_importance` of your "
        "own saves that"
    )
    if enough is None:
        return says
    return (
        f"{says}. No weight can be larger than {plain(most)}, {POWER}, and from about "
        f"{rounded(enough):,.0f} trajectories on none is cut off"
    )


def clip_of_public_number(
    weighed: str, cap: float, most: float, cut: float, enough: float | None
) -> str:
    """Where weights are clipped if the number of trajectories is public, and what that may cut
    off: `cut`, a part of the weights, in the model. `enough`: trajectories from which on none
    would be; None where there is no such number."""
    bound = "" if math.isinf(most) else f" (at most {percent(1 - cap / most)}, {POWER})"
    return (
        f"weights of {weighed} are clipped at {plain(cap)}, which follows from the public number "
        f"of trajectories and the noise; if their mean square is {RATIO_SQUARE:g}, {percent(cut)} "
        f"of the weights are cut off{bound}. The interval of the policy's value allows for that, "
        "whatever the returns of those people were; `clipped_value` does not"
        + ("" if enough is None else f". From about {rounded(enough):,.0f} trajectories none is")
    )


def people_needed(people: float, within: float, cap: float, most: float, own: float | None) -> str:
    """How many trajectories a good answer takes; `own`: the clip that was asked for."""
    if cap >= most:
        clipped = "and no weight is cut off then"
    elif own is not None:
        clipped = f"with weights clipped at {plain(cap)}"
    else:
        clipped = f"with weights clipped at {plain(cap)}; more trajectories have a larger clip"
    return (
        f"the target policy's value within about ± {plain(within)} by noise takes some "
        f"{rounded(people):,.0f} trajectories at this epsilon, {clipped}"
    )


def expected_sentence(
    what: str,
    half: float,
    whole: float,
    size: float,
    level: float,
    clipped: float | None,
    *,
    drowned: bool,
) -> str:
    """How far noise is expected to move a value in a range of this size, and how wide its interval
    will be. `clipped`: where weights are clipped; None where none is cut off."""
    if clipped is not None:
        what += f" with weights clipped at {plain(clipped, 3)}"
    if drowned:
        return f"{what} is expected to be mostly noise, in a range of {plain(size, 3)} in {REWARD}"
    return (
        f"{what} within about ± {plain(half)} by noise with {percent(level)}, in a range of "
        f"{plain(size, 3)} in {REWARD}; its interval, which also allows for who came and for "
        f"clips, is about ± {plain(whole)}"
    )


def covers_sentence(sums: WeightedSums, weighed: str, mass: Told, clipped: Interval) -> str:
    """What the interval of `policy_value` holds, and what that of `clipped_value` does not."""
    level = percent(LEVEL)
    if sums.unclipped:
        return (
            f"With probability {level} the interval of policy_value holds what the target policy "
            "is worth for people such as those in the data, by the probabilities that the data "
            "name: noise and the chance of who came are in it. "
            f"{cut_sentence(mass)}."
        )
    return (
        f"With probability {level} or more the interval of policy_value holds what the target "
        "policy is worth for people such as those in the data, by the probabilities that the data "
        "name, whatever returns the cut-off weights had: noise, the chance of who came and the "
        f"clips are in it. Weights of {weighed} are clipped at {plain(sums.largest_weight, 3)}. "
        f"{cut_sentence(mass)}; with clipped weights the value lies between "
        f"{plain(clipped['lower'], 3)} and {plain(clipped['upper'], 3)} ({level}, clipped_value), "
        "which says nothing of the returns that were cut off."
    )


def cut_sentence(mass: Told) -> str:
    """How much of the weights is cut off, where that can be told."""
    lower, upper = mass.ends
    if upper <= 0:
        return f"No weight can be cut off, {POWER}"
    if lower <= 0:
        return f"At most {percent(upper)} of the weights are cut off, perhaps none"
    return (
        f"About {percent(mass.value)} of the weights are cut off ({percent(lower)} to "
        f"{percent(upper)})"
    )


def doubt_sentence(sums: WeightedSums) -> str:
    """Why the probabilities are not those by which people were treated; empty where nothing speaks
    against them."""
    upper = sums.mean_weight(TOO_SMALL).upper
    if (lower := sums.mean_weight(TOO_LARGE).lower) > 1:
        found = f"at least {plain(lower, 3)}, and can be 1 at most"
    elif sums.unclipped and upper < 1:
        found = f"at most {plain(upper, 3)}, and must be 1"
    else:
        return ""
    return (
        f"The values are wrong: the mean weight is {found}. The behaviour probabilities are wrong, "
        "or the target policy goes by what was measured after the treatment"
    )


def wide_range(low: float, high: float, steps: int) -> str:
    """What makes the noise smaller if only the bounds on rewards limit returns."""
    says = (
        f"returns are taken to lie between {plain(low, 3)} and {plain(high, 3)}, as public figures "
        "allow; noise is in proportion to that range: `return_bounds` that are known without the "
        "data make it smaller"
    )
    if steps == 1:
        return says
    return (
        f"{says}; where most steps have a reward and weights may be large, the method "
        "`per_decision` is more accurate"
    )


def long_episodes(method: Any, enough: float | None) -> tuple[str, ...]:
    """What is lost where episodes are long: a weight w of at most W and mean 1 exceeds a clip c
    by at most 1 - c/W on average, as it does where one person in W follows the target policy
    all along and weighs W. `enough`: the number of trajectories from which on nothing is cut
    off."""
    most, cap = method.public.largest_weight, MOST_CAP if method.counted else method.fixed_cap
    if method.counted and enough is not None and enough <= MANY_PEOPLE:
        return ()  # of so many trajectories no weight is cut off
    lost = 1 - cap / most
    if not math.isfinite(most) or lost <= MUCH_CUT:
        return ()
    return (
        f"over {method.public.horizon} steps a weight may be as large as {plain(most, 3)} "
        f"(max_ratio to the power of the horizon), and it is clipped at {plain(cap, 3)}: where so "
        f"few do what the target policy would in every step, 1 in {plain(most, 3)}, up to "
        f"{percent(lost)} of the weights are cut off, and `true_value` says little; a shorter "
        "horizon helps, or the method `moments`, which looks at single steps",
    )
