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
        return _of_people(result)
    found = []
    if "policy_value" in result:
        found.append(
            headline(
                OffPolicyEvaluationResult,
                result,
                "policy_value",
                "From the start that was asked for the target policy is worth ",
            )
        )
    name, noun = ("values", "state") if "values" in result else ("weights", "feature")
    noise, rows = only_noise(result, name)
    if "values" in result and not found:
        low, high = (intervals.plain(end(result["values"]), 3) for end in (min, max))
        states = counted(len(result["values"]), "state")
        found.append(Headline(f"Under the target policy {states} are worth ", f"{low} to {high}"))
    elif not found:
        found.append(Headline("The value of the target policy is a function of ", f"{counted(rows, noun)}"))
    if noise:
        found.append(Headline("Of these, " if rows else "", f"{noise:,} of {counted(rows, noun)}", " are only noise"))
    return found


def _of_people(result: Mapping[str, Any]) -> list[Headline]:
    done = f"; under what was done {figure(result, 'behaviour_value')}"
    fields = OffPolicyEvaluationResult
    before = "Under the target policy people like these would have had "
    found = [
        headline(fields, result, "policy_value", before, done),
        headline(fields, result, "difference", "The target policy makes a difference of "),
    ]
    truth, cut = result.get("true_value"), result.get("clipped_mass", 0)
    if truth and cut > 0:
        low, high = (intervals.plain(truth[end], 3) for end in ("lower", "upper"))
        before = f"With the {intervals.percent(cut)} of weights that were cut off it lies anywhere "
        found.append(Headline(before, f"between {low} and {high}"))
    return found
