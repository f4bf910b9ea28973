"""The child processes of one release: one for a content that is read as a whole, or of which it
samples records; for a large content that is summed by parts one for each share, and one more that
adds noise to all sums.

Of a stored content of more than OFFERED_PARTS parts other workers may read shares too (`Offer`).
This worker waits for none of them: when no share is open any more it reads those again that others
have taken and not handed back, and whoever is first is heard. It stops offering where the sums of
a share are so large that one child could not add those of all; their size is public.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any

from discreet.isolation.children import Limits, Output, Zygote
from discreet.isolation.processes import cores
from discreet.problems.contents import framed
from discreet.usecases import spooling
from discreet.usecases.shares import MOST_SUMS_BYTES, Offer
from discreet.usecases.spooling import Spooled

MOST_SHARES = 4
"""The most children that read at once, unless the settings give their number."""

OFFERED_PARTS = 8
"""A content of so many parts is read by this worker alone: others would fetch as much as they
read."""

PARTS_OF_MEMORY = 8
"""The child that adds the sums of an offer may take so many times their bytes."""

LOOK_SECONDS = 0.25
"""How often a worker that has no open share left looks what others have handed back."""


async def release_in_children(
    zygote: Zygote,
    header: dict[str, Any],
    content: bytes | bytearray | Spooled,
    limits: Limits,
    processes: int,
    offer: Offer | None = None,
) -> Output:
    """The output of this job's release. ChildFailed if any of its children ends without an answer;
    all others have ended then too.

    `processes` children read the content at once; 0 means one for each core, up to MOST_SHARES.
    The sums of shares pass through this process unread. With an `offer` other workers may read
    shares; LostJob if the job is another's.
    """
    if not isinstance(content, Spooled):
        return await zygote.run(header, content, limits)
    if content.sampled:
        asked = {**header, "contents": list(content.contents)}
        return await zygote.run(asked, b"", limits, None, [content.file.to_read()])
    parts = -(-content.sealed_bytes // spooling.PART_BYTES)
    shares = min(processes or min(MOST_SHARES, cores()), parts)
    asked = {
        **header,
        "step": "share",
        "contents": list(content.contents),
        "part_bytes": spooling.PART_BYTES,
    }
    given = [content.file.to_read()]

    async def read(number: int, shares: int) -> bytes:
        share = {**asked, "share": [number, shares]}
        return (await zygote.run(share, b"", limits, None, given)).payload

    sums = None
    if offer is not None and content.stored and parts > OFFERED_PARTS:
        most = min(MOST_SUMS_BYTES, limits.memory_bytes // PARTS_OF_MEMORY // offer.shares)
        sums = await _Helped(offer, read, shares, most).gather()
    if sums is None:
        sums = await _together([read(number, shares) for number in range(shares)])
    return await zygote.run({**header, "shares": len(sums)}, framed(sums), limits)


class _TooLarge(Exception):
    """Sums of all shares are not to be in memory at once."""


class _Helped:
    """The shares of an offer, read by this worker's children and by other workers."""

    def __init__(
        self, offer: Offer, read: Callable[[int, int], Awaitable[bytes]], at_once: int, most: int
    ) -> None:
        """`most` bytes of sums of a share are gathered."""
        self._offer, self._read, self._at_once, self._most = offer, read, at_once, most
        self._found: dict[int, bytes] = {}
        self._here: Counter[int] = Counter()
        self._all, self._none_open = asyncio.Event(), asyncio.Event()

    async def gather(self) -> list[bytes] | None:
        """The sums of all shares, in their order; None if they are too large. Nothing of them is in
        the database then."""
        await self._offer.open()
        try:
            await self._until_all()
        except _TooLarge:
            self._offer.read.clear()
            await self._offer.close()
            return None
        except Exception:
            await self._offer.close()
            raise
        await self._offer.close()
        return [self._found[number] for number in range(self._offer.shares)]

    async def _until_all(self) -> None:
        readers = [asyncio.create_task(self._read_shares()) for _ in range(self._at_once)]
        looking = asyncio.create_task(self._look())
        enough = asyncio.create_task(self._all.wait())
        try:
            while not self._all.is_set():
                waits = {enough, looking, *(one for one in readers if not one.done())}
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        finally:
            for task in (*readers, looking, enough):
                task.cancel()
            await asyncio.gather(*readers, looking, enough, return_exceptions=True)

    async def _read_shares(self) -> None:
        while (number := await self._next()) is not None:
            self._here[number] += 1
            self._keep({number: await self._read(number, self._offer.shares)}, "here")

    async def _next(self) -> int | None:
        """An open share; else one that nobody has handed back and no child here reads."""
        number = await self._offer.take()
        if number is not None:
            return number
        self._none_open.set()
        await self._hear()
        left = [n for n in range(self._offer.shares) if n not in self._found and not self._here[n]]
        return left[0] if left else None

    async def _look(self) -> None:
        await self._none_open.wait()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self._hear()

    async def _hear(self) -> None:
        missing = [n for n in range(self._offer.shares) if n not in self._found]
        self._keep(await self._offer.returned(missing), "elsewhere")

    def _keep(self, found: Mapping[int, bytes], where: str) -> None:
        for number, sums in found.items():
            if len(sums) > self._most:
                raise _TooLarge()
            if number not in self._found:
                self._found[number] = sums
                self._offer.read[where] += 1
        if len(self._found) == self._offer.shares:
            self._all.set()


async def _together(runs: Sequence[Coroutine[Any, Any, bytes]]) -> list[bytes]:
    """The outputs of all; if one fails, the children of the others are ended first."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
