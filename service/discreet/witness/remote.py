"""A transparency log as anybody can read it: over HTTP, without an API key."""

from __future__ import annotations

import asyncio

from discreet.errors import DiscreetError
from discreet.ledger.checkpoints import LONGEST_NOTE, BadNote, Checkpoint, read_checkpoint
from discreet.ledger.tree import Tile, Tree, tile_path, tiles_of, width
from discreet.outbound import Asks, OutboundError, Reach, fetch

SECONDS = 30.0


class LogUnreadable(DiscreetError):
    """The log does not answer, or what it answers is not a log."""

    code = "log_unreadable"


class RemoteLog:
    """The log of a service at a URL."""

    def __init__(self, url: str) -> None:
        self._url = f"{url.rstrip('/')}/v1/log"

    def checkpoint(self) -> Checkpoint:
        """The newest checkpoint; its signatures are not checked here."""
        try:
            return read_checkpoint(self._get("/checkpoint", 4 * LONGEST_NOTE).decode())
        except (BadNote, UnicodeDecodeError) as error:
            raise LogUnreadable(f"the log sends no valid checkpoint: {error}") from None

    def tree(self, size: int, leaves: list[int]) -> Tree:
        """The part of the tree of `size` leaves that proofs about these leaves need."""
        return Tree(
            size,
            {
                place: self._tile(place, width(place, size))
                for place in sorted(tiles_of(size, leaves))
            },
        )

    def _tile(self, place: Tile, count: int) -> list[bytes]:
        content = self._get(f"/tile/{tile_path(place, count)}", 32 * count)
        if len(content) != 32 * count:
            raise LogUnreadable(
                f"tile {tile_path(place, count)} has {len(content)} bytes instead of {32 * count}"
            )
        return [content[at : at + 32] for at in range(0, 32 * count, 32)]

    def _get(self, path: str, most: int) -> bytes:
        """The body of an answer; LogUnreadable as soon as it is longer than `most` bytes."""
        asks = Asks("GET", self._url + path)
        try:
            answer = asyncio.run(fetch(asks, Reach("any", http=True), most, SECONDS))
        except OutboundError as error:
            raise LogUnreadable(f"the log does not answer: {error.why}") from None
        if answer.status != 200:
            raise LogUnreadable(f"the log answers {answer.status} to {path}")
        return answer.body
