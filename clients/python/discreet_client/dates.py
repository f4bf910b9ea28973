"""Dates as people and spreadsheets write them."""

from __future__ import annotations

import re
from datetime import datetime

_WRITTEN = re.compile(
    r"(\d{1,2})([./])(\d{1,2})\2(\d{4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d))?(?: *([ap])m)?)?", re.I
)


def written_date(text: str, dates: str | None) -> datetime | None:
    """The date of a text such as `21.11.2026 15:00`, or `21/11/2026` and `11/21/2026 3:00 pm` where
    `dates` is `day_first` or `month_first`; None for any other text."""
    matched = _WRITTEN.fullmatch(text)
    if matched is None or (matched[2] == "/" and dates is None):
        return None
    day, month = (
        (matched[3], matched[1])
        if matched[2] == "/" and dates == "month_first"
        else (matched[1], matched[3])
    )
    hour = int(matched[5] or 0)
    if half := (matched[8] or "").lower():
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "p" else 0)
    try:
        return datetime(
            int(matched[4]), int(month), int(day), hour, int(matched[6] or 0), int(matched[7] or 0)
        )
    except ValueError:
        return None
