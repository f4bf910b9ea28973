"""What an agent must remember beyond its own death, so that it answers no round twice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from discreet_client.secure_sum.errors import Reused


class Journal(Protocol):
    """What an agent must remember beyond its own death, written before anything is sent."""

    def claim(self, record: str) -> None:
        """Durable when it returns. Raises Reused when the record is there already."""

    def records(self) -> Sequence[str]:
        """All records, oldest first."""


class MemoryJournal:
    """For simulations: it dies with the process."""

    def __init__(self) -> None:
        self._records: dict[str, None] = {}

    def claim(self, record: str) -> None:
        if record in self._records:
            raise Reused(f"{record} was claimed before")
        self._records[record] = None

    def records(self) -> Sequence[str]:
        return list(self._records)


class FileJournal(MemoryJournal):
    """One record a line, synced to the disk. One process at a time may hold a file; a last line cut
    short counts."""

    def __init__(self, path: Path) -> None:
        import fcntl  # noqa: PLC0415  # the rest of the client runs where this module does not exist

        super().__init__()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise Reused(f"another process holds {path}") from None
        text = path.read_text()
        if text and not text.endswith("\n"):
            os.write(self._file, b"\n")
        self._records = dict.fromkeys(text.splitlines())
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)

    def claim(self, record: str) -> None:
        super().claim(record)
        line = record.encode() + b"\n"
        while line:  # a full disk may take a part of it first
            line = line[os.write(self._file, line) :]
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
