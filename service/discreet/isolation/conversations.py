"""Talking to a child: frames until the last one, or question by question."""

from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from discreet.isolation.failures import ChildFailed, Limits, Raised, WallLimit, cause
from discreet.isolation.frames import HEADER, frame, lengths

REPORT_SECONDS = 10.0
"""How long to wait for the word how a child ended, whose stream has ended already."""
OnProgress = Callable[[int, int], Awaitable[None]]


@dataclass
class Output:
    """What a child sent: its last frame, and tables by name."""

    payload: bytes = b""
    tables: dict[str, bytes] = field(default_factory=dict)
    header: dict[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str | None:
        """Of a result: its answer in a sentence, where it has one."""
        said: str | None = self.header.get("headline")
        return said


class Conversation:
    """A child that lives for many questions. ChildFailed when it ends, or takes longer than
    `seconds` for an answer."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        report: int,
        limits: Limits,
    ) -> None:
        self._reader, self._writer, self._report, self._limits = reader, writer, report, limits

    async def ask(
        self, header: dict[str, Any], payload: bytes = b""
    ) -> tuple[dict[str, Any], bytes]:
        await self.send(header, payload)
        return await self.receive()

    async def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self._writer.write(frame(header, payload))
            await self._writer.drain()
        except OSError as error:
            raise await end_of(self._report, self._limits) from error

    async def receive(self) -> tuple[dict[str, Any], bytes]:
        try:
            async with asyncio.timeout(self._limits.wall_seconds):
                prefix = await self._reader.readexactly(HEADER.size)
                header_size, payload_size = lengths(prefix, self._limits.most_said)
                header: dict[str, Any] = json.loads(await self._reader.readexactly(header_size))
                return header, await self._reader.readexactly(payload_size)
        except TimeoutError as error:
            raise WallLimit(
                f"the child did not answer within {self._limits.wall_seconds:g} s"
            ) from error
        except (EOFError, OSError) as error:
            raise await end_of(self._report, self._limits) from error
        except ValueError as error:
            raise Raised(
                "the child sent something that is not a frame, or more than it may"
            ) from error


async def end_of(report: int, limits: Limits) -> ChildFailed:
    """Why a child has ended; what closed its stream and lives on is ended by the wait for it, and
    not known."""

    def read() -> bytes | None:
        events = select.poll()
        events.register(report, select.POLLIN)
        return os.read(report, 4096) if events.poll(REPORT_SECONDS * 1000) else None

    told = await asyncio.to_thread(read)
    return ChildFailed() if told is None else cause(told, limits)


async def collect(
    reader: asyncio.StreamReader, on_progress: OnProgress | None, most: int
) -> Output:
    """Frames until the last one, ValueError when they are longer than `most` bytes in all.
    ChildFailed with its trace where the child tells of one."""
    output = Output()
    while True:
        header_size, payload_size = lengths(await reader.readexactly(HEADER.size), most)
        most -= HEADER.size + header_size + payload_size
        header = json.loads(await reader.readexactly(header_size))
        payload = await reader.readexactly(payload_size)
        if "progress" in header:
            if on_progress is not None:
                await on_progress(int(header["progress"][0]), int(header["progress"][1]))
        elif "table" in header:
            output.tables[str(header["table"])] = payload
        elif "error" in header:
            raise ChildFailed(trace=str(header["error"]))
        else:
            output.header, output.payload = header, payload
            return output
