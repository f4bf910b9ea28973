"""The outcomes of a request to cancel a job, and their sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Cancellation:
    """The outcome of a request to cancel a job, its cost, and both as a sentence."""

    cancel: Literal["done", "requested", "too_late"]
    charge: Literal["none", "full", "undecided"]
    detail: str


CANCELLATIONS = {
    (one.cancel, one.charge): one
    for one in (
        Cancellation("done", "none", "the job is cancelled; nothing was charged"),
        Cancellation(
            "done",
            "full",
            "the job is cancelled; data were touched before, so it was charged in full",
        ),
        Cancellation(
            "requested",
            "none",
            "the job is being stopped; no data were touched: nothing will be charged",
        ),
        Cancellation(
            "requested",
            "full",
            "the job is being stopped; data were touched, so it is charged in full",
        ),
        Cancellation(
            "requested",
            "undecided",
            "the session is being stopped; it is charged in full if an agent's message comes "
            "before that",
        ),
        Cancellation(
            "too_late",
            "full",
            "it is too late: what the job released is stored and will be charged in full, so it "
            "goes on to its result",
        ),
    )
}
"""All there are."""
