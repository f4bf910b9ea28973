"""Road networks from files in the formats of the field, which a sandboxed child reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from discreet.errors import Limit
from discreet.isolation.failures import Limits
from discreet.usecases.services import Services

CPU_SECONDS, WALL_SECONDS = 120, 300.0
"""The longest that reading the files of one network may take."""
GROWTH_BYTES, A_BYTE = 1 << 28, 64
"""Memory that reading may take beyond what a child starts with: so much, and more for each byte."""
ANSWER_BYTES = 1 << 22
"""The most bytes of an answer besides the network's JSON."""


@dataclass(frozen=True)
class ReadNetwork:
    """A network that was read from files."""

    network: bytes
    """Its JSON, which has not been validated yet."""
    name: str
    zones: int | None
    notes: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class NotRead:
    """Why there is no network: the option that would help, if one is named, and the sentence; and
    the columns of the files, as `isolation.network_files` lists them."""

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
    """Read a network from files, given as names and sizes; their bytes follow each other in
    `content`.

    `chosen`: a person has said what the columns mean; otherwise columns with unknown names are
    returned as a question. `words`: labels of the options, and choices with their words.
    PayloadTooLarge if the network's JSON would be larger than `most`, or
    reading exceeds its limits; Unavailable if there is no reader.
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
