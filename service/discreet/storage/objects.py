"""Contents beside the database: files or an object store, as fsspec reaches them. Only sealed bytes come here.

An object is written before the row that names it, and removed after the row is. So a crash between the two leaves an
object without a row, whose key was never stored: nobody can read it, and the sweep removes it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import fsspec

from discreet.errors import Unavailable
from discreet.storage.sealing import CHUNK_BYTES, SealBroken

_NAME = re.compile(r"dst_[a-z0-9]+")
"""What contents are stored under: everything else in the same place is somebody else's."""


class Objects:
    """Named objects below one address. Its calls block: they belong into threads."""

    def __init__(self, url: str) -> None:
        try:
            self._files, self._root = fsspec.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise Unavailable(f"object storage {url.partition(':')[0]}: cannot be used ({error})") from error
        self._local = "file" in _protocols(self._files)

    def write(self, name: str, parts: Iterable[bytes]) -> None:
        """Store an object, durably: when this returns it survives a power cut."""
        path = self._path(name)
        try:
            self._files.makedirs(self._root, exist_ok=True)
            with self._files.open(path, "wb") as file:
                for part in parts:
                    file.write(part)
                if self._local:
                    file.flush()
                    os.fsync(file.fileno())
            if self._local:
                folder = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                try:
                    os.fsync(folder)
                finally:
                    os.close(folder)
        except OSError as error:
            raise Unavailable("object storage does not take the content; try again") from error

    def read(self, name: str) -> Iterator[bytes]:
        """An object in parts. SealBroken when it is not there, Unavailable when the storage does not answer."""
        try:
            with self._files.open(self._path(name), "rb") as file:
                while part := file.read(CHUNK_BYTES):
                    yield part
        except FileNotFoundError as error:
            raise SealBroken("the content is not there") from error
        except OSError as error:
            raise Unavailable("object storage does not answer; try again") from error

    def erase(self, name: str) -> None:
        """Remove an object; one that is gone already is no error."""
        try:
            self._files.rm_file(self._path(name))
        except FileNotFoundError:
            pass
        except OSError as error:
            raise Unavailable("object storage does not answer; try again") from error

    def older_than(self, seconds: float) -> list[str]:
        """Names of the objects that were written at least so long ago; files that no object of ours can be are not."""
        limit = datetime.now(UTC) - timedelta(seconds=seconds)
        try:
            found = self._files.ls(self._root, detail=True, refresh=True)
            files = ((str(entry["name"]).rpartition("/")[2], entry) for entry in found if entry["type"] == "file")
            return [name for name, entry in files if _NAME.fullmatch(name) and self._written(entry) <= limit]
        except FileNotFoundError:  # nothing was ever stored
            return []
        except OSError as error:
            raise Unavailable("object storage does not answer; try again") from error

    def _written(self, entry: dict[str, Any]) -> datetime:
        at = entry.get("mtime", entry.get("LastModified"))
        if isinstance(at, int | float):
            return datetime.fromtimestamp(at, UTC)
        if not isinstance(at, datetime):
            at = self._files.modified(entry["name"])
        return at if at.tzinfo else at.replace(tzinfo=UTC)

    def _path(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise ValueError("not the name of an object")
        return f"{self._root.rstrip('/')}/{name}"


def _protocols(files: Any) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
