"""What tests of real processes need: who is alive, who belongs to whom, and waiting for what must
come."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
PIECE_BYTES = 1 << 20


def until(condition: Callable[[], object], seconds: float = 1000.0) -> None:
    """Wait for something that must come; the deadline only ends a broken test."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def pid_of(watch: int) -> int:
    """The process of a pidfd."""
    told = Path(f"/proc/self/fdinfo/{watch}").read_text()
    return int(re.findall(r"^Pid:\s+(-?\d+)$", told, re.MULTILINE)[0])


def alive(pid: int) -> bool:
    """Whether the process runs (a zombie does not)."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def family(pid: int) -> list[int]:
    """A process and all its descendants."""
    found = [pid]
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    return found


def command(pid: int) -> list[str]:
    """The process's arguments; one empty word when it is gone or about to go."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    return [""]


def remembered(pid: int, words: Mapping[str, bytes]) -> set[str]:
    """The names of the words that stand somewhere in the process's memory, its environment
    included. Of a part of discreet only root can read it."""
    found = set()
    place = Path(f"/proc/{pid}")
    with (
        (place / "mem").open("rb", buffering=0) as memory,
        (place / "pagemap").open("rb", buffering=0) as pages,
    ):
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            addresses, rights = line.split()[:2]
            start, end = (int(word, 16) for word in addresses.split("-"))
            before = b""
            # What is only read came from a file.
            for address in range(start, end, PIECE_BYTES) if rights.startswith("rw") else ():
                size = min(PIECE_BYTES, end - address)
                pages.seek(address // PAGE_BYTES * 8)
                if any(pages.read(size // PAGE_BYTES * 8)):  # else it was never written to
                    memory.seek(address)
                    piece = before + memory.read(size)
                    found |= {name for name, word in words.items() if word in piece}
                    before = piece[-256:]
    return found
