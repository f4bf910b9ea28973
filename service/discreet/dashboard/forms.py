"""Forms as browsers send them."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from urllib.parse import parse_qsl

from fastapi import Request

from discreet.api import bodies
from discreet.errors import InvalidInput, Limit
from discreet.strict_json import loads

MAX_FIELDS = 200
FORM_BYTES = 4 << 20
SMALL_BYTES = 1 << 16
"""For the forms of people who are not logged in."""
MAX_EXPONENT = 40

Form = dict[str, str]


def is_multipart(request: Request) -> bool:
    return request.headers.get("content-type", "").lower().startswith("multipart/form-data")


async def read(request: Request, most: int | None = None) -> Form:
    """The fields of an urlencoded form, read once; of a field that comes twice the last.

    `most` bytes, or `FORM_BYTES`: more than people type. What is larger comes as a file, or by the API.
    """
    known = getattr(request.state, "form", None)
    if known is None:
        body = await bodies.read(request, Limit("form_bytes", "bytes", most or FORM_BYTES))
        known = await bodies.apart(lambda: _parse(body)) if len(body) > bodies.THREAD_BYTES else _parse(body)
        request.state.form = known
    form: Form = known
    return form


def _parse(body: bytes) -> Form:
    try:
        form = dict(
            parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS, strict_parsing=bool(body))
        )
    except ValueError as error:
        raise InvalidInput("this is not a form", code="invalid_form") from error
    for name, value in form.items():
        refuse_nul(f"/{name}", value)
    return form


def refuse_nul(pointer: str, text: str) -> None:
    """No text of the database holds a NUL character, and nobody types one."""
    if "\0" in text:
        raise InvalidInput("a NUL character", pointer=pointer)


def filled(form: Form, name: str) -> str | None:
    """A field without the spaces around it; None when it is empty."""
    return form.get(name, "").strip() or None


def cap(form: Form) -> dict[str, object]:
    """The fields `epsilon` and `delta` as a cap; what is no number is left for the model to refuse."""
    return {"epsilon": number(form, "epsilon"), "delta": number(form, "delta", "0")}


def number(form: Form, name: str, default: str = "") -> object:
    """A field as a body of the API would carry it, with all digits that were typed; the text when it is no number."""
    text = filled(form, name) or default
    try:
        value = Decimal(text)
        if not text.isascii() or not value.is_finite() or abs(value.adjusted()) > MAX_EXPONENT:
            return text
    except InvalidOperation:
        return text
    return loads(f"{value:f}".encode())
