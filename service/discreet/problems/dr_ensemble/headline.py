"""What a demand response answers: what control saves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.dr_ensemble.result import DrEnsembleResult
from discreet.problems.headlines import Headline, counted, figure, headline, only_noise
from discreet_client.intervals import percent

LESS = 0.95
"""Of the energy without control: where it is less, control sheds load more than it moves it."""


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The saving of one load, states whose moves are only noise, and of simulations what it saves in truth."""
    found = []
    if "saving" in result:
        after = " for each load against no control, discomfort deducted"
        found.append(headline(DrEnsembleResult, result, "saving", "Following the released policy saves ", after))
        if share := _energy(result):
            less = "; what is not drawn then is not drawn later: loads are shed, not moved" if share < LESS else ""
            found.append(Headline("With control a load takes some ", percent(share), f" of the energy without{less}"))
    noise, states = only_noise(result, "block_transitions" if "block_transitions" in result else "transitions")
    if noise:
        what = counted(states, "state") if "transitions" in result else f"{states:,} states in blocks of the day"
        counts = f"{noise:,} of {what}"
        found.append(Headline("How loads move from ", counts, " on is only noise"))
    if {"achieved_saving", "true_saving"} <= result.keys():
        best = f", where the best policy would save {figure(result, 'true_saving')} (simulation)"
        found.append(Headline("Of the true loads it saves ", figure(result, "achieved_saving"), best))
    return found


def _energy(result: Mapping[str, Any]) -> float:
    """What a load draws with control, over all steps, in parts of what it draws without; 0 where that is not told."""
    drawn, before = (sum(result.get(name, ())) for name in ("expected_power", "default_power"))
    dominated = result.get("uncertainty", {}).get("mostly_noise", False)
    return 0.0 if dominated or before <= 0 else max(drawn, 0.0) / before
