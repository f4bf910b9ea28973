"""Reads the forms that browsers send."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi import Request

from discreet.errors import InvalidInput, Limit
from discreet.intake.strict_json import loads
from discreet.web import bodies

MAX_FIELDS = 200
FORM_BYTES = 4 << 20
LARGE = (
    "/jobs/new",
    "/jobs/new/network",
    "/jobs/new/price",
    "/datasets/new",
    "/datasets/content",
    "/datasets/address",
    "/reading",
    "/correct",
)
"""Pages whose forms hold a problem or a content and may have FORM_BYTES, more than people type.
Anything larger is sent as a file, or by the API."""
SMALL_BYTES = 1 << 16
"""Most bytes of any other form."""
PIECE_BYTES = 1 << 16
"""Bytes that are unquoted at once: the library makes an object of every escape."""
MAX_EXPONENT = 40
"""Largest power of ten, either way, of a number that is typed."""
LONGEST_NUMBER = 100
"""Characters of a number that is typed."""

Form = dict[str, str]


def is_multipart(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def read(request: Request) -> Form:
    """The fields of a urlencoded form, read once; the last value of a field that is repeated."""
    known: Any = getattr(request.state, "form", None)
    if known is None:
        most = FORM_BYTES if request.url.path.endswith(LARGE) else SMALL_BYTES
        async with bodies.held(request, Limit("form_bytes", "bytes", most)) as body:
            known = request.state.form = await bodies.in_thread_if_large(
                lambda: parsed(body), len(body)
            )
    form: Form = known
    return form


def parsed(body: bytes) -> Form:
    """The fields of a form as strict `urllib.parse.parse_qsl` reads it, in memory of only a few
    times the body."""
    fields = [field.partition(b"=") for field in body.split(b"&", MAX_FIELDS)] if body else []
    if len(fields) > MAX_FIELDS or not all(equals for _, equals, _ in fields) or not _is_text(body):
        raise InvalidInput("this is not a form", code="invalid_form")
    form = {_unquoted(name): _unquoted(value) for name, _, value in fields}
    for name, value in form.items():
        refuse_nul(f"/{name}", value)
    return form


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True


def _unquoted(text: bytes) -> str:
    """The text of a name or value; escapes that are not UTF-8 become U+FFFD."""
    found, first = bytearray(), 0
    while first < len(text):
        end = first + PIECE_BYTES
        # An escape that the end of the piece would cut goes to the next piece.
        escape = text.rfind(b"%", end - 2, end)
        end = end if escape < 0 else escape
        found += unquote_to_bytes(text[first:end].replace(b"+", b" "))
        first = end
    return found.decode(errors="replace")


def refuse_nul(pointer: str, text: str) -> None:
    """InvalidInput for a NUL character: the database stores none, and nobody types one."""
    if "\0" in text:
        raise InvalidInput("a NUL character is not allowed", pointer=pointer)


def filled(form: Form, name: str) -> str | None:
    """A field without the spaces around it; None when it is empty."""
    return form.get(name, "").strip() or None


def cap(form: Form) -> dict[str, object]:
    """The fields `epsilon` and `delta` as a cap; the model refuses what is not a number."""
    return {"epsilon": number(form, "epsilon"), "delta": number(form, "delta", "0")}


def number(form: Form, name: str, default: str = "") -> object:
    """A field as a number with all digits that were typed, as strict JSON reads it; the text if it
    is not a number."""
    text = filled(form, name) or default
    try:
        value = Decimal(text[:LONGEST_NUMBER])
        if (
            len(text) > LONGEST_NUMBER
            or not text.isascii()
            or not value.is_finite()
            or abs(value.adjusted()) > MAX_EXPONENT
        ):
            return text
    except InvalidOperation:
        return text
    return loads(f"{value:f}".encode())
