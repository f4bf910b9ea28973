"""Multipart forms with small files, which are held in memory: fields by name, and all files in
one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import PurePath

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from discreet.errors import InvalidInput, Limit
from discreet.web import bodies

MOST_PARTS = 300
"""Fields and files of a form."""
FIELD_BYTES = 1 << 12
"""Of one field, and of the head of a part."""
MOST_HEADERS = 16
"""Of a part."""
LONGEST_NAME = 200
"""Letters of a file's name."""


@dataclass
class Sent:
    """What a form holds. Of a field that comes twice the last; files are named without their
    folders, in the order in which they follow one another in `content`."""

    fields: dict[str, str] = field(default_factory=dict)
    files: list[tuple[str, int]] = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)


@asynccontextmanager
async def held(request: Request, most: Limit) -> AsyncIterator[Sent]:
    """The form of at most so many bytes, for the time that it is needed. InvalidInput where it is
    none, and as of `bodies.held`."""
    boundary = parse_options_header(request.headers.get("content-type"))[1].get(b"boundary")
    if not boundary:
        raise _broken()
    async with bodies.held(request, most, form=True) as body:
        yield await bodies.apart(lambda: _Parts(boundary).read(body), len(body))


class _Parts:
    """The parts of a form as its parser tells them."""

    def __init__(self, boundary: bytes) -> None:
        self._sent, self._count, self._whole = Sent(), 0, False
        self._head: dict[bytes, bytes] = {}
        self._name = self._value = b""
        self._into = ""
        self._file: str | None = None
        self._text = bytearray()
        self._begun = 0
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._part,
                    "on_part_data": self._data,
                    "on_part_end": self._end,
                    "on_end": self._finished,
                },
            )
        except FormParserError as error:
            raise _broken() from error

    def read(self, body: bytes) -> Sent:
        try:
            self._parser.write(body)
        except FormParserError as error:
            raise _broken() from error
        if not self._whole:
            raise _broken()
        return self._sent

    def _begin(self) -> None:
        self._count += 1
        if self._count > MOST_PARTS:
            raise _broken(f"more than {MOST_PARTS} fields and files")
        self._head, self._file, self._begun = {}, None, len(self._sent.content)
        self._text.clear()

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]
        self._bounded(len(self._name))

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._bounded(len(self._value))

    def _header_end(self) -> None:
        self._head[self._name.lower()] = self._value
        if len(self._head) > MOST_HEADERS:
            raise _broken(f"a part with more than {MOST_HEADERS} headers")
        self._name = self._value = b""

    def _part(self) -> None:
        said = parse_options_header(self._head.get(b"content-disposition"))[1]
        self._into = said.get(b"name", b"").decode(errors="replace")
        if b"filename" in said:
            given = said[b"filename"].decode(errors="replace").replace("\\", "/")
            self._file = PurePath(given).name[-LONGEST_NAME:]

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._file is None:
            self._text += data[start:end]
            self._bounded(len(self._text))
        else:
            self._sent.content += memoryview(data)[start:end]

    def _end(self) -> None:
        size = len(self._sent.content) - self._begun
        if self._file is None:
            self._sent.fields[self._into] = self._text.decode(errors="replace")
        elif self._file or size:  # a field without a chosen file has neither name nor content
            self._sent.files.append((self._file, size))

    def _finished(self) -> None:
        self._whole = True

    @staticmethod
    def _bounded(size: int) -> None:
        if size > FIELD_BYTES:
            raise _broken(f"a field of more than {FIELD_BYTES} bytes")


def _broken(why: str = "") -> InvalidInput:
    says = "not a multipart form" + (f": {why}" if why else "")
    return InvalidInput(says, code="invalid_multipart")
