"""The secrets file as a document: JSON of mode 0600 that is read whole, and changed by one process
at a time."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from discreet.private_files import write_private
from discreet.storage.keys.provider import SecretsError


def read_document(path: Path) -> dict[str, Any]:
    try:
        mode = path.stat().st_mode
        body = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise SecretsError(
            f"there is no secrets file at {path}; `discreet up` makes one"
        ) from error
    except ValueError as error:
        raise SecretsError(f"{path} is not JSON") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecretsError(f"{path} must be readable by its owner alone (chmod 600)")
    if not isinstance(body, dict):
        raise SecretsError(f"{path} is not a secrets file of this version")
    return body


@contextlib.contextmanager
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """The content of the file, to be changed: it is written in one step when the block ends
    without an error. Two changes come one after the other: writing back content read before
    another change would remove that change's key, with all that it seals."""
    read_document(path)
    with turn(path):
        body = read_document(path)
        before = copy.deepcopy(body)
        yield body
        if body != before:
            owner = path.stat()
            # Root rotates for a service that must still be able to read the file.
            write_private(
                path,
                json.dumps(body, indent=1),
                (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None,
            )


@contextlib.contextmanager
def turn(path: Path) -> Iterator[None]:
    """One at a time, by a lock on the folder, which falls with its process."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        # Whoever died in its turn has left its draft, perhaps as a second name of the file itself.
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink()
        yield
    finally:
        os.close(folder)
