"""Multipart forms, part by part as their bytes arrive."""

from __future__ import annotations

from abc import ABC, abstractmethod

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from discreet.errors import InvalidInput


class Multipart(ABC):
    """Parses a form; a subclass handles its parts. InvalidInput with the code `invalid_multipart`
    if the body is not a multipart form, or a part has more headers than the parser takes (8 of
    4 KiB each)."""

    def __init__(self, content_type: str | None) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise broken()
        self._whole = False
        self._headers: dict[bytes, bytes] = {}
        self._field = self._value = b""
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._header_field,
                    "on_header_value": self._header_value,
                    "on_header_end": self._header_end,
                    "on_headers_finished": self._headers_finished,
                    "on_part_data": self._part_data,
                    "on_part_end": self._ended,
                    "on_end": self._finished,
                },
            )
        except FormParserError as error:
            raise broken() from error

    def write(self, data: bytes) -> None:
        """Parse the next bytes of the body."""
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise broken() from error

    def close_form(self) -> None:
        """End the body: InvalidInput if the form is incomplete."""
        if not self._whole:
            raise broken()

    @abstractmethod
    def _part(self, name: str, filename: str | None, content_type: str) -> None:
        """A part begins; `filename` is None for a field that is not a file."""

    @abstractmethod
    def _data(self, data: memoryview) -> None:
        """The next bytes of the part."""

    @abstractmethod
    def _ended(self) -> None:
        """The part ends."""

    def _begin(self) -> None:
        self._headers, self._field, self._value = {}, b"", b""

    def _header_field(self, data: bytes, start: int, end: int) -> None:
        self._field += data[start:end]

    def _header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _header_end(self) -> None:
        self._headers[self._field.lower()] = self._value
        self._field = self._value = b""

    def _headers_finished(self) -> None:
        options = parse_options_header(self._headers.get(b"content-disposition"))[1]
        filename = options.get(b"filename")
        self._part(
            options.get(b"name", b"").decode(errors="replace"),
            None if filename is None else filename.decode(errors="replace"),
            self._headers.get(b"content-type", b"").decode("latin-1"),
        )

    def _part_data(self, data: bytes, start: int, end: int) -> None:
        self._data(memoryview(data)[start:end])

    def _finished(self) -> None:
        self._whole = True


def broken(why: str = "") -> InvalidInput:
    """The error for a body that is not a multipart form, or is refused for this reason."""
    says = "not a multipart form" + (f": {why}" if why else "")
    return InvalidInput(says, code="invalid_multipart")
