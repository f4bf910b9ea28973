"""What a demand response answers: what control saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.dr_ensemble.result import DrEnsembleResult
from discreet.problems.headlines import Headline, counted, figure, headline, only_noise


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The saving of one load, states whose moves are only noise, and of simulations what it saves in truth."""
    found = []
    if "saving" in result:
        after = " for each load against no control, discomfort deducted"
        found.append(headline(DrEnsembleResult, result, "saving", "Following the released policy saves ", after))
    noise, states = only_noise(result, "transitions")
    if noise:
        found.append(Headline("How loads move from ", f"{noise:,} of {counted(states, 'state')}", " on is only noise"))
    if {"achieved_saving", "true_saving"} <= result.keys():
        best = f", where the best policy would save {figure(result, 'true_saving')} (simulation)"
        found.append(Headline("Of the true loads it saves ", figure(result, "achieved_saving"), best))
    return found
