"""What the owner of a table hears of it; many rows with the same mistake are one issue."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.problems.contents import integer_columns, owner_column


def issues(values: list[float], first: int = 0) -> list[tuple[str, str]]:
    with pytest.raises(InvalidInput) as refused:
        integer_columns(pa.table({"state": values}), {"state": (1, 4)}, "/content", first=first)
    return [(issue.pointer, issue.detail) for issue in refused.value.issues]


def test_the_same_mistake_of_many_rows_is_said_once_with_its_count() -> None:
    assert issues([1, 0, 2, 0, 9, 3]) == [
        (
            "/content/1/state",
            "must be 1 to 4; found 0 (and 2 more like this, up to /content/4/state)",
        )
    ]
    assert issues([0, 1, 0], first=70) == [
        (
            "/content/70/state",
            "count from 1; yours look 0-based: must be 1 to 4; found 0 (and 1 more like this, at "
            "/content/72/state)",
        )
    ]
    assert issues([1, 7]) == [("/content/1/state", "must be 1 to 4; found 7")]
    assert len(issues([0.5] * 1000)) == 1


def test_columns_that_are_wrong_are_answered_with_all_that_are_needed() -> None:
    with pytest.raises(InvalidInput) as refused:
        integer_columns(
            pa.table({"household": [1], "state": [1]}),
            {"state": (1, 4)},
            "/content",
            ("participant",),
        )
    assert [issue.detail for issue in refused.value.issues] == [
        "column 'participant' is missing; columns are: household, state",
        "column 'household' is not known here; needed: participant, state",
    ]


def test_nobody_is_called_nan() -> None:
    assert owner_column(pa.table({"person": [1.5, 2.5, 1.5]}), "person", "/content").tolist() == [
        0,
        1,
        0,
    ]
    for values in ([1.0, np.nan], [1.0, None]):
        with pytest.raises(InvalidInput, match="column 'person' has missing values"):
            owner_column(
                pa.table({"person": pa.array(values, from_pandas=False)}), "person", "/content"
            )
