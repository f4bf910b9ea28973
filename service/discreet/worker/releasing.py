"""The child processes of one release: one for a content that is read as a whole, or of which it
samples records; for a large content that is summed by parts one for each share, and one more that
adds noise to all sums."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from discreet.isolation.children import Zygote
from discreet.isolation.conversations import Output
from discreet.isolation.failures import Limits
from discreet.isolation.processes import cores
from discreet.problems.contents import framed
from discreet.usecases import spooling
from discreet.usecases.spooling import Spooled

MOST_SHARES = 4
"""The most shares, unless the settings give their number."""


async def release_in_children(
    zygote: Zygote,
    header: dict[str, Any],
    content: bytes | bytearray | Spooled,
    limits: Limits,
    processes: int,
) -> Output:
    """The output of this job's release. ChildFailed if any of its children ends without an answer;
    all others have ended then too.

    `processes` children read the content at once; 0 means one for each core, up to MOST_SHARES.
    The sums of shares pass through this process unread.
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
    if len(header["plan"]["events"]) > 1:
        number = await zygote.run({**asked, "step": "number"}, b"", limits, None, given)
        header, asked = ({**one, "before": number.payload.hex()} for one in (header, asked))
    sums = await _together(
        [
            zygote.run({**asked, "share": [place, shares]}, b"", limits, None, given)
            for place in range(shares)
        ]
    )
    return await zygote.run(
        {**header, "shares": shares}, framed(one.payload for one in sums), limits
    )


async def _together(runs: Sequence[Coroutine[Any, Any, Output]]) -> list[Output]:
    """The outputs of all; if one fails, the children of the others are ended first."""
    tasks = [asyncio.create_task(run) for run in runs]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
