"""What is said of jobs that wait for budget, and of those that get none in their time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from discreet.errors import Conflict
from discreet.privacy.scheduling import DAY, Refused
from discreet.usecases.source_state import ALL_BLOCKS, CAP_NAME, moment_of


def held(decision: Refused, came: int, lent_days: int) -> Conflict:
    """The refusal of a job that would not pass in its time."""
    return Conflict(held_sentence(decision, came, lent_days), code="budget_held")


def held_sentence(decision: Refused, came: int, lent_days: int) -> str:
    """Why a job would not pass in its time."""
    where = _where(decision.block)
    if decision.why == "promised":
        return (
            f"what is left of {where} is promised to jobs that wait ahead of this one; nothing was "
            "charged"
        )
    assert decision.not_before is not None
    why = {
        "share": f"longer than it may wait: `wait` is {-(-(decision.not_before - came) // DAY)} "
        "days at least for that",
        "large": "but what asks a block for more than one's own share does not wait",
        "another": "but another job of yours waits on this source, and one waits at a time",
        "many": "but as many jobs wait on this source as may",
    }
    return (
        f"what is left of {where} is held for the owners of shares, and lent over {lent_days} "
        f"days: this would pass at {_said(moment_of(decision.not_before))}, {why[decision.why]}; "
        "nothing "
        "was charged"
    )


def _where(block: str) -> str:
    if block.startswith(CAP_NAME):
        return "a cap"
    return "the source" if block == ALL_BLOCKS else f"block {block}"


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """Why a job waits, and until when, as it is published."""
    not_before, until = row["waits_next"], row["waits_until"]
    where = _where(row["waits_block"])
    return {
        "not_before": not_before,
        "until": until,
        "block": None if where == "the source" else row["waits_block"],
        "detail": f"what is left of {where} is held for the owners of shares, and lent from day "
        f"to day: the job passes at {_said(not_before)}, or earlier if budget is freed, and is "
        f"refused when it has not passed by {_said(until)}. Nothing is reserved for it, and "
        "cancelling it costs nothing",
    }


def _said(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
