"""Whether a log is still the one that somebody has seen before."""

from __future__ import annotations

from collections.abc import Iterable

from discreet.ledger.checkpoints import Checkpoint
from discreet.ledger.tree import Unproven, check_consistency
from discreet.witness.remote import RemoteLog


class Forked(Exception):
    """The log is not the one that it was: two checkpoints of it contradict each other."""

    def __init__(self, why: str, one: Checkpoint, other: Checkpoint) -> None:
        super().__init__(why)
        self.one = one
        self.other = other


def require_growth(log: RemoteLog, newest: Checkpoint, known: Iterable[Checkpoint]) -> None:
    """Forked unless the tree of `newest` begins with that of every other checkpoint.
    LogUnreadable."""
    for before in known:
        if before.origin != newest.origin:
            raise Forked(
                f"the log is called {newest.origin} now, and was {before.origin}", before, newest
            )
        if before.size > newest.size:
            raise Forked(
                f"the log has {newest.size} entries, and had {before.size}: it was taken back",
                before,
                newest,
            )
        if before.size == newest.size:
            path = []
        else:
            # The last leaf of the old tree and the first behind it: both sides of where one ends in
            # the other.
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
            raise Forked(f"{why}: somebody is shown another ledger", before, newest) from None
