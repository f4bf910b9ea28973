"""JSON answers and page tokens."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response

from discreet.api.problem_details import ProblemDocument
from discreet.errors import InvalidInput


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


def page_token(row: dict[str, Any]) -> str:
    """Where the next page begins; opaque to clients."""
    text = json.dumps([row["created_at"].isoformat(), row["id"]])
    return base64.urlsafe_b64encode(text.encode()).decode()


def page_start(token: str | None) -> tuple[datetime, str] | None:
    """The inverse of `page_token`."""
    if token is None:
        return None
    try:
        moment, row_id = json.loads(base64.urlsafe_b64decode(token.encode()))
        return datetime.fromisoformat(moment), str(row_id)
    except (ValueError, TypeError) as error:
        raise InvalidInput("not a page token of this service", pointer="/query/page_token") from error


def page(name: str, rows: list[dict[str, Any]], size: int, view: Any) -> Response:
    """Up to `size` rows; `rows` was asked for with one more, which tells whether there is a next page."""
    shown = rows[:size]
    token = page_token(shown[-1]) if len(rows) > size else None
    return answer({name: [view(row) for row in shown], "next_page_token": token})


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """OpenAPI of the problem documents that a route may answer."""
    return {
        status: {"model": ProblemDocument, "content": {"application/problem+json": {}}}
        for status in sorted({401, 403, 503, *statuses})
    }
