"""The answer of an off-policy evaluation: what the target policy would have been worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems.accuracy import LEVEL
from discreet.problems.headlines import (
    NO_SIGN,
    Headline,
    counted,
    figure,
    good_for_ends,
    headline,
    only_noise,
)
from discreet.problems.off_policy_evaluation.result import OffPolicyEvaluationResult
from discreet_client import intervals

MORE_HIDDEN = 2
"""Width of the ends without clips, in widths of the interval with them, from which on the first
sentence has both."""

CLIPPED = " with clipped weights"
SURE = f" ({intervals.percent(LEVEL)})"


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Both policies' values and their difference; or the value from the given start; or how far
    values of states go."""
    if "behaviour_value" in result:
        return _of_people(problem, result)
    found = []
    policy = _policy(result)
    if "policy_value" in result:
        before = f"From the start that was asked for {policy} is worth "
        found.append(headline(OffPolicyEvaluationResult, result, "policy_value", before))
    name, noun = ("values", "state") if "values" in result else ("weights", "feature")
    noise, rows = only_noise(result, name)
    if "values" in result and not found:
        low, high = (intervals.plain(end(result["values"]), 3) for end in (min, max))
        states = counted(len(result["values"]), "state")
        found.append(Headline(f"Under {policy} {states} are worth ", f"{low} to {high}"))
    elif not found:
        found.append(Headline(f"The value of {policy} is a function of ", f"{counted(rows, noun)}"))
    if noise:
        found.append(
            Headline(
                "Of these, " if rows else "",
                f"{noise:,} of {counted(rows, noun)}",
                " are only noise",
            )
        )
    return found


def _policy(result: Mapping[str, Any]) -> str:
    """The target policy, with what it does where that is said."""
    said = result.get("target_policy")
    return f"the target policy ({said})" if said else "the target policy"


def _of_people(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    done = f"; under what was done {figure(result, 'behaviour_value')}"
    fields = OffPolicyEvaluationResult
    before = f"Under {_policy(result)} people like these would have had "
    discount = problem.get("discount", 1)
    if discount != 1:
        done += f", each step later discounted by {intervals.plain(discount)}"
    truth, cut, clipped = result.get("true_value"), _cut(result), ""
    if truth and cut and _hides_more(result):
        low, high = (intervals.plain(truth[end], 3) for end in ("lower", "upper"))
        done = f"{CLIPPED}, without clips anywhere between {low} and {high}{SURE}{done}"
        clipped = CLIPPED
    found = [
        headline(fields, result, "policy_value", before, done),
        headline(fields, result, "difference", "The target policy makes a difference of ", clipped),
    ]
    if truth and cut:
        low, high = (intervals.plain(truth[end], 3) for end in ("lower", "upper"))
        before, between, after = (
            f"Without clips, {cut}, it lies anywhere ",
            f"between {low} and {high}{SURE}",
            "",
        )
        ends = _difference(result)
        if ends is not None:
            low, high = (intervals.plain(end, 3) for end in ends)
            after = f", and the difference anywhere between {low} and {high}{SURE}"
        found = _without_clips(result, found, ends)
        found.append(Headline(before, between, after))
    if "doubt" in result:
        found.insert(0, Headline(result["doubt"]))
    return found


def _hides_more(result: Mapping[str, Any]) -> bool:
    """Whether clips may hide more than noise and chance do together: the first sentence stands
    alone in lists and in certificates, and must not give an interval there that the value without
    clips may lie far outside of."""
    told = result.get("uncertainty", {}).get("values", {}).get("policy_value")
    truth = result["true_value"]
    if not told or told["lower"] is None or told["upper"] is None:
        return False
    return bool(truth["upper"] - truth["lower"] > MORE_HIDDEN * (told["upper"] - told["lower"]))


def _difference(result: Mapping[str, Any]) -> tuple[float, float] | None:
    """Between what the difference of both policies lies without clips: each end of the one value
    less the other's far end, so that it is rather too long than too short. None where the followed
    policy's value has no interval."""
    followed = result.get("uncertainty", {}).get("values", {}).get("behaviour_value")
    if not followed or followed["lower"] is None or followed["upper"] is None:
        return None
    truth = result["true_value"]
    return truth["lower"] - followed["upper"], truth["upper"] - followed["lower"]


def _without_clips(
    result: Mapping[str, Any], found: list[Headline], difference: tuple[float, float] | None
) -> list[Headline]:
    """The first two sentences, which say what they are good for of the values without clips. Their
    own intervals hold values with clipped weights, and of those alone they would promise too much:
    a sign that may be the other one."""
    truth = result["true_value"]
    value = good_for_ends(result["policy_value"], truth["lower"], truth["upper"])
    if difference is None:
        return [replace(found[0], good_for=value), *found[1:]]
    sign = good_for_ends(result["difference"], *difference)
    if found[1].good_for == NO_SIGN:
        sign = NO_SIGN
    elif difference[0] < 0 < difference[1]:
        sign = "This cannot tell the sign: without clips it may be either."
    return [replace(found[0], good_for=value), replace(found[1], good_for=sign), *found[2:]]


def _cut(result: Mapping[str, Any]) -> str:
    """How much of the weights the clips cut off, as far as that can be told; empty where it is
    nothing."""
    cut = result.get("clipped_mass", 0)
    ends = result.get("uncertainty", {}).get("values", {}).get("clipped_mass")
    if ends is None:
        return f"which cut off some {intervals.percent(cut)} of the weights" if cut > 0 else ""
    if ends["upper"] <= 0:
        return ""
    if ends["lower"] <= 0:
        return f"which cut off at most {intervals.percent(ends['upper'])} of the weights"
    return (
        f"which cut off {intervals.percent(ends['lower'])} to {intervals.percent(ends['upper'])} "
        "of the weights"
    )
