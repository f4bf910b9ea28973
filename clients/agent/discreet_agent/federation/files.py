"""Files that survive a power cut: written whole, mode 0600, on disk before the call returns."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, data: bytes, *, replace: bool = True) -> None:
    """Write `data` to `path`, whole or not at all. Without `replace` an existing file stays, and
    FileExistsError is raised: of two processes that write at once, one wins."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(file, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        if replace:
            draft.replace(path)
        else:
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_all(file: int, data: bytes) -> None:
    """Write all of `data`: one `os.write` may write a part only, as on a disk that is nearly
    full."""
    while data:
        data = data[os.write(file, data) :]


def sync_folder(path: Path) -> None:
    """Make a rename or a new file inside the folder durable."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
