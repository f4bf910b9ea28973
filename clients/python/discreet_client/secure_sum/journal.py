"""The records that must survive an agent's process, so that it answers no round twice."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from discreet_client.federation.files import sync_folder, write_all
from discreet_client.secure_sum.errors import Reused


class Journal(Protocol):
    """An append-only set of records; each is claimed before what it allows is sent."""

    def claim(self, record: str) -> None:
        """Add a record, durably. Raises Reused if it is there already."""

    def records(self) -> Sequence[str]:
        """All records, oldest first."""


class MemoryJournal:
    """A journal for simulations: it ends with the process."""

    def __init__(self) -> None:
        self._records: dict[str, None] = {}

    def claim(self, record: str) -> None:
        if record in self._records:
            raise Reused(f"{record} was claimed before")
        self._records[record] = None

    def records(self) -> Sequence[str]:
        return list(self._records)


class FileJournal(MemoryJournal):
    """A file with one record per line, synced to the disk. One process at a time may hold it (else
    Reused); a last line that was cut short counts as a record."""

    def __init__(self, path: Path) -> None:
        import fcntl  # noqa: PLC0415  # absent on Windows, where the rest of the client runs

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
        sync_folder(path.parent)

    def claim(self, record: str) -> None:
        super().claim(record)
        write_all(self._file, record.encode() + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
