"""What an off-policy evaluation answers: what the target policy would have been worth."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.headlines import Headline, counted, figure, headline, only_noise
from discreet.problems.off_policy_evaluation.result import OffPolicyEvaluationResult
from discreet_client import intervals


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """Both policies' values and their difference; or the value from the given start; or how far values of states go."""
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
        found.append(Headline("Of these, " if rows else "", f"{noise:,} of {counted(rows, noun)}", " are only noise"))
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
    found = [
        headline(fields, result, "policy_value", before, done),
        headline(fields, result, "difference", "The target policy makes a difference of "),
    ]
    truth, cut = result.get("true_value"), _cut(result)
    if truth and cut:
        low, high = (intervals.plain(truth[end], 3) for end in ("lower", "upper"))
        found.append(Headline(f"Without clips, {cut}, it lies anywhere ", f"between {low} and {high}"))
    if "doubt" in result:
        found.insert(0, Headline(result["doubt"]))
    return found


def _cut(result: Mapping[str, Any]) -> str:
    """How much of the weights the clips cut off, as far as that can be told; empty where it is nothing."""
    cut = result.get("clipped_mass", 0)
    ends = result.get("uncertainty", {}).get("values", {}).get("clipped_mass")
    if ends is None:
        return f"which cut off some {intervals.percent(cut)} of the weights" if cut > 0 else ""
    if ends["upper"] <= 0:
        return ""
    if ends["lower"] <= 0:
        return f"which cut off at most {intervals.percent(ends['upper'])} of the weights"
    return f"which cut off {intervals.percent(ends['lower'])} to {intervals.percent(ends['upper'])} of the weights"
