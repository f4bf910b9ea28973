"""Multipart forms with small files, held in memory: fields by name, and the bytes of all files in
one buffer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

from fastapi import Request

from discreet.errors import Limit
from discreet.web import bodies
from discreet.web.multipart import Multipart, broken

MOST_PARTS = 500
"""Most fields and files of a form."""
FIELD_BYTES = 1 << 12
"""Most bytes of a field of people's typing."""
LONGEST_NAME = 200
"""Most characters of a file's name."""


@dataclass
class Sent:
    """A form as read: the last value of each field, and name and size of each file, in the order of
    their bytes in `content`. Names of files are without folders."""

    fields: dict[str, str] = field(default_factory=dict)
    files: list[tuple[str, int]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)


@asynccontextmanager
async def held(request: Request, most: Limit, long: Collection[str] = ()) -> AsyncIterator[Sent]:
    """The form of at most `most` bytes, while the context lasts; fields that may be as `long` have
    more than FIELD_BYTES. InvalidInput if the body is not a multipart form; other errors as
    `bodies.held`."""
    parts = _Parts(request.headers.get("content-type"), long)
    async with bodies.held(request, most, form=True) as body:
        yield await bodies.in_thread_if_large(lambda: parts.read(body), len(body))


class _Parts(Multipart):
    """Sorts the parts of a form into fields and files."""

    def __init__(self, content_type: str | None, long: Collection[str] = ()) -> None:
        super().__init__(content_type)
        self._sent, self._count, self._long = Sent(), 0, long
        self._into = ""
        self._file: str | None = None
        self._text = bytearray()
        self._begun = 0

    def read(self, body: bytes) -> Sent:
        self.write(body)
        self.close_form()
        return self._sent

    def _part(self, name: str, filename: str | None, content_type: str) -> None:
        self._count += 1
        if self._count > MOST_PARTS:
            raise broken(f"more than {MOST_PARTS} fields and files")
        self._into, self._file, self._begun = name, filename, len(self._sent.content)
        if filename is not None:
            self._file = PurePath(filename.replace("\\", "/")).name[-LONGEST_NAME:]
        self._text.clear()

    def _data(self, data: memoryview) -> None:
        if self._file is not None:
            self._sent.content += data
            return
        self._text += data
        if len(self._text) > FIELD_BYTES and self._into not in self._long:
            raise broken(f"a field of more than {FIELD_BYTES} bytes")

    def _ended(self) -> None:
        size = len(self._sent.content) - self._begun
        if self._file is None:
            self._sent.fields[self._into] = self._text.decode(errors="replace")
        elif self._file or size:  # a field without a chosen file has neither name nor content
            self._sent.files.append((self._file, size))
