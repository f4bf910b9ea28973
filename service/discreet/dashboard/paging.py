"""Where the next page of a list begins: the place of the last row, in the address."""

from __future__ import annotations

import base64
import json
from datetime import datetime

from discreet.errors import InvalidInput

Place = tuple[datetime, str]
"""Time and id of a row; rows of a list are ordered by both."""


def token(at: datetime | str, name: str, number: int = 0) -> str:
    """The place of a row, as text for an address."""
    moment = at if isinstance(at, str) else at.isoformat()
    return base64.urlsafe_b64encode(json.dumps([moment, name, number]).encode()).decode()


def entry_place(text: str | None) -> tuple[datetime, str, int] | None:
    """Time, id and number of the row before the page; InvalidInput for what `token` has not
    made."""
    if text is None:
        return None
    try:
        at, name, number = json.loads(base64.urlsafe_b64decode(text.encode()))
        moment = datetime.fromisoformat(at)
        if (
            moment.tzinfo is None
            or not isinstance(name, str)
            or "\0" in name
            or not 0 <= int(number) < 2**63
        ):
            raise ValueError
        return moment, name, int(number)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidInput("not a page of this list", pointer="/query/after") from error


def place(text: str | None) -> Place | None:
    """The same of a list without numbers."""
    found = entry_place(text)
    return None if found is None else found[:2]
