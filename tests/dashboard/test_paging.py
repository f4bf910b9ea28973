"""The address of a list's next page gives back the position that it was made of."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from discreet.dashboard import paging
from discreet.errors import InvalidInput

AT = datetime(2026, 11, 21, 8, 30, tzinfo=UTC)


def test_a_position_comes_back() -> None:
    assert paging.entry_place(paging.token(AT, "acc_1", 7)) == (AT, "acc_1", 7)
    assert paging.place(paging.token(AT, "job_1")) == (AT, "job_1")
    assert paging.place(None) is None


@pytest.mark.parametrize(
    "position",
    [
        '["2026-11-21T08:30:00", "acc_1", 7]',
        '["2026-11-21T08:30:00+00:00", 1, 7]',
        '["2026-11-21T08:30:00+00:00", "acc_1", Infinity]',
        '["2026-11-21T08:30:00+00:00", "acc_1", 1e999]',
        '["2026-11-21T08:30:00+00:00", "acc_1", true]',
        '["2026-11-21T08:30:00+00:00", "acc_1", -1]',
        '["2026-11-21T08:30:00+00:00", "acc_1", 9223372036854775808]',
        '["2026-11-21T08:30:00+00:00", "\\ud800", 7]',
        '["2026-11-21T08:30:00+00:00", "\\u0000", 7]',
        '["2026-11-21T08:30:00+00:00"]',
        "[" * 5000,
        "7",
    ],
)
def test_what_no_list_made_is_refused(position: str) -> None:
    """Also what the database could not hold or count, which would end as an error of the server."""
    with pytest.raises(InvalidInput, match="not a page of this list"):
        paging.entry_place(base64.urlsafe_b64encode(position.encode()).decode())
