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
    headline,
    only_noise,
)
from discreet.problems.off_policy_evaluation.result import OffPolicyEvaluationResult
from discreet_client import intervals

NOISE_ALONE = ", where the interval is for noise alone"
"""What holds the value without noise may miss that of other people, or of a better model."""
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
        ends = (result.get("uncertainty") or {}).get("values", {}).get("policy_value") or {}
        of = "" if ends.get("lower") is None else NOISE_ALONE
        found.append(headline(OffPolicyEvaluationResult, result, "policy_value", before, of))
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
    """Their intervals hold what both policies are worth, whatever was cut off: a reader takes them
    for that. What holds for clipped weights alone is said last."""
    result, fields = without_clips(result), OffPolicyEvaluationResult
    done = f"; under what was done {figure(result, 'behaviour_value')}"
    before = f"Under {_policy(result)} people like these would have had "
    discount = problem.get("discount", 1)
    if discount != 1:
        done += f", each step later discounted by {intervals.plain(discount)}"
    found = [
        headline(fields, result, "policy_value", before, done),
        headline(fields, result, "difference", "The target policy makes a difference of "),
    ]
    if cut := _cut(result):
        found[1] = _of_clips(result, found[1])
        found.append(_clipped(result, cut))
    if "doubt" in result:
        found.insert(0, Headline(result["doubt"]))
    return found


def without_clips(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """A result of an earlier version as those of now: its intervals were of clipped weights, and
    its `true_value` had no others beside it. Those of the difference are then of each end of the
    one value less the other's far end, so that they are rather too long than too short."""
    said = result.get("uncertainty") or {}
    values, truth = said.get("values", {}), result.get("true_value")
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
    return replace(
        difference, good_for="This cannot tell the sign: without clips it may be either."
    )


def _clipped(result: Mapping[str, Any], cut: str) -> Headline:
    """What the clips cut off, and the values with clipped weights."""
    if "uncertainty" not in result:
        truth = _between(result["true_value"])
        return Headline(f"Whatever the clips hide, {cut}, the target policy is worth ", truth)
    if "clipped_value" not in result:
        return Headline(f"The weights are clipped, {cut}")
    after = ""
    if "clipped_difference" in result:
        after = f", and the difference {_between(result['clipped_difference'])}"
    return Headline(
        f"That is whatever the clips hide, {cut}; with clipped weights alone the value lies ",
        _between(result["clipped_value"]),
        after,
    )


def _between(ends: Mapping[str, Any]) -> str:
    low, high = (intervals.plain(ends[end], 3) for end in ("lower", "upper"))
    return f"between {low} and {high}{SURE}"


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
