"""Networks from the field's files, which the reader's child reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from discreet.errors import Limit
from discreet.isolation.failures import Limits
from discreet.usecases.services import Services

CPU_SECONDS, WALL_SECONDS = 120, 300.0
"""The most that reading the files of one network may take."""
GROWTH_BYTES, A_BYTE = 1 << 28, 64
"""Memory that reading may take beside what a child begins with, and more for each byte."""
ANSWER_BYTES = 1 << 22
"""Of an answer, beside the network's JSON."""


@dataclass(frozen=True)
class ReadNetwork:
    """What the reader made of the files."""

    network: bytes
    """Its JSON, which nobody has checked."""
    name: str
    zones: int | None
    notes: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class NotRead:
    """Why there is no network: the option that would help, if one is named, and the sentence; and
    the columns of the files, as `isolation.network_files` tells them."""

    faults: list[tuple[str, str]]
    columns: list[dict[str, Any]]


async def read(
    services: Services,
    files: Sequence[tuple[str, int]],
    content: bytes | bytearray,
    options: Mapping[str, Any],
    words: Mapping[str, Any],
    most: Limit,
    *,
    chosen: bool,
) -> ReadNetwork | NotRead:
    """The network of files with these names and bytes, which follow each other in `content`.

    `chosen`: somebody has said what the columns are; else names of their own are asked about
    first. `words`: labels of the options, and choices with their words. PayloadTooLarge where the
    network's JSON would be larger than `most`, or reading takes more than it may; Unavailable where
    there is no reader.
    """
    limits = Limits(
        services.settings.job_memory_bytes,
        CPU_SECONDS,
        WALL_SECONDS,
        answer_bytes=most.allowed + ANSWER_BYTES,
        growth_bytes=GROWTH_BYTES + A_BYTE * len(content),
    )
    arguments = {
        "files": [list(file) for file in files],
        "options": dict(options),
        **words,
        "chosen": chosen,
        "limit": asdict(most),
    }
    answer, network = await services.reader.call("read_network", arguments, content, limits)
    if "refused" in answer:
        return NotRead([(about, says) for about, says in answer["refused"]], answer["columns"])
    return ReadNetwork(
        network, answer["name"], answer["zones"], answer["notes"], answer["warnings"]
    )
