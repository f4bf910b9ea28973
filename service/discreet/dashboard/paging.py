"""Pages of lists: the address of the next page holds the position of the last row."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from discreet.errors import InvalidInput
from discreet.intake.strict_json import loads

Place = tuple[datetime, str]
"""Time and id of a row; rows of a list are ordered by both."""


def token(at: datetime | str, name: str, number: int = 0) -> str:
    """The position of a row, encoded for an address."""
    moment = at if isinstance(at, str) else at.isoformat()
    return base64.urlsafe_b64encode(json.dumps([moment, name, number]).encode()).decode()


def after(rows: Sequence[Mapping[str, Any]], size: int) -> str | None:
    """The `token` of the last row of a page of this size; None if no rows follow."""
    return token(rows[size - 1]["created_at"], rows[size - 1]["id"]) if len(rows) > size else None


def entry_place(text: str | None) -> tuple[datetime, str, int] | None:
    """Time, id and number of the row before the page; InvalidInput for a text that `token` cannot
    have made."""
    if text is None:
        return None
    try:
        at, name, number = loads(base64.urlsafe_b64decode(text.encode()))
        moment = datetime.fromisoformat(at)
        if moment.tzinfo is None or not isinstance(name, str) or type(number) is not int:
            raise TypeError
        if not 0 <= number < 2**63:
            raise ValueError
        return moment, name, number
    except (InvalidInput, ValueError, TypeError) as error:
        raise InvalidInput("not a page of this list", pointer="/query/after") from error


def place(text: str | None) -> Place | None:
    """Time and id of the row before the page, for lists that do not count within an id."""
    found = entry_place(text)
    return None if found is None else found[:2]
