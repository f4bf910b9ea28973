"""Checks that a log still contains what somebody has seen of it before."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.ledger.checkpoints import Checkpoint
from discreet.ledger.tree import Unproven, check_consistency
from discreet.witness.remote import RemoteLog


class Forked(Exception):
    """Two checkpoints of the log contradict each other."""

    def __init__(self, why: str, one: Checkpoint, other: Checkpoint) -> None:
        super().__init__(why)
        self.one = one
        self.other = other


def require_growth(log: RemoteLog, newest: Checkpoint, known: Iterable[Checkpoint]) -> None:
    """Raise Forked unless the tree of `newest` extends the tree of every known checkpoint;
    LogUnreadable if the log cannot be read."""
    for before in known:
        if before.origin != newest.origin:
            raise Forked(
                f"the log is called {newest.origin} now, and was {before.origin}", before, newest
            )
        if before.size > newest.size:
            raise Forked(
                f"the log has {newest.size} entries, and had {before.size}: entries were removed",
                before,
                newest,
            )
        if before.size == newest.size:
            path = []
        else:
            # The last leaf of the old tree and the next one: both sides of the boundary, whose
            # tiles the consistency proof needs.
            path = log.tree(newest.size, [max(before.size - 1, 0), before.size]).consistency(
                before.size
            )
        try:
            check_consistency(before.size, newest.size, before.root, newest.root, path)
        except Unproven:
            why = (
                "two trees of the same size were signed"
                if before.size == newest.size
                else f"the first {before.size} entries are not what they were"
            )
            raise Forked(f"{why}: somebody was shown another ledger", before, newest) from None
