"""The answer of an off-policy evaluation: what the target policy would have been worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from discreet.problems.accuracy import LEVEL
from discreet.problems.headlines import (
    CONFIDENCE,
    LONGEST,
    NO_SIGN,
    NOISE,
    Headline,
    counted,
    figure,
    headline,
    only_noise,
)
from discreet.problems.off_policy_evaluation.result import OffPolicyEvaluationResult
from discreet_client import intervals

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
    return replace(difference, good_for=SIGN_BY_CLIPS)


def _clipped(result: Mapping[str, Any], cut: str) -> Headline:
    """What the clips cut off, and the values with clipped weights."""
    if "uncertainty" not in result:
        return Headline(
            f"{cut}; whatever their returns, the target policy is worth ",
            _between(result["true_value"]),
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
    return f"{said} ({intervals.percent(LEVEL)} {CONFIDENCE})"


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
