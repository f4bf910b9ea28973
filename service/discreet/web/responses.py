"""JSON answers and page tokens."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from discreet.errors import InvalidInput
from discreet.storage.secrets import Secrets

_PAGES = "discreet/page/v1"
_MAC_BYTES = 12


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    raise TypeError(f"{type(value).__name__} is no JSON")


def _text(body: Any) -> str:
    return json.dumps(body, default=_default, allow_nan=False, separators=(",", ":"))


def plain(body: dict[str, Any]) -> dict[str, Any]:
    """`body` as a client would read it from JSON."""
    read: dict[str, Any] = json.loads(_text(body))
    return read


def answer(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer; times in RFC 3339 UTC, no NaN."""
    return Response(_text(body), status_code=status, headers=headers, media_type="application/json")


def joined(body: dict[str, Any], **texts: bytes) -> bytes:
    """`body` as JSON with further fields whose JSON text is there already."""
    return (
        _text(body).encode()[:-1]
        + b"".join(b',"%s":%s' % (k.encode(), text) for k, text in texts.items())
        + b"}"
    )


def resource(request: Request, body: Any, kind: str = "application/json") -> Response:
    """An object with its ETag (bytes are sent as they are); 304 without a body where the client has
    this state."""
    content = body if isinstance(body, bytes) else _text(body).encode()
    tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    known = request.headers.get("if-none-match")
    if known is not None and (
        known.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in known.split(","))
    ):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


def _encoded(token: bytes) -> str:
    return base64.urlsafe_b64encode(token).rstrip(b"=").decode()


class Pages:
    """Page tokens of one list, opaque to clients: signed together with the list's name and
    filters, so that none can be forged or used for another list."""

    def __init__(self, secrets: Secrets, tenant_id: str, *name: str | None) -> None:
        self._key = secrets.pepper
        self._name = json.dumps([_PAGES, tenant_id, *name]).encode()

    def token(self, *place: Any) -> str:
        """Where the next page begins."""
        text = _text(list(place)).encode()
        return _encoded(self._mac(text) + text)

    def start(self, token: str | None) -> list[Any] | None:
        """The inverse of `token`; InvalidInput for a token of another list, tenant or service, and
        for one that was changed."""
        if token is None:
            return None
        try:
            sealed = base64.b64decode(
                token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True
            )
        except ValueError:
            sealed = b""
        mac, text = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
        if not hmac.compare_digest(mac, self._mac(text)) or _encoded(sealed) != token:
            raise InvalidInput(
                "this is not a page token that this service gave for this list",
                pointer="/query/page_token",
                code="invalid_page_token",
            )
        place: list[Any] = json.loads(text)
        return place

    def moment(self, token: str | None) -> tuple[datetime, str] | None:
        """The start of a list in the order of time: moment and id of the last row that was
        shown."""
        place = self.start(token)
        return None if place is None else (datetime.fromisoformat(place[0]), place[1])

    def answer(self, field: str, rows: list[dict[str, Any]], size: int, view: Any) -> Response:
        """Up to `size` rows of a list in the order of time; `rows` was asked for with one more,
        which tells whether there is a next page."""
        shown = rows[:size]
        token = self.token(shown[-1]["created_at"], shown[-1]["id"]) if len(rows) > size else None
        return answer({field: [view(row) for row in shown], "next_page_token": token})

    def _mac(self, text: bytes) -> bytes:
        return hmac.digest(self._key, self._name + b"\0" + text, hashlib.sha256)[:_MAC_BYTES]
