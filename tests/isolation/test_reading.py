"""Files that are refused by their outline, before what they hold costs anything."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation import reading, tables
from discreet.problems import DATASETS, KINDS
from discreet.problems.contents import check_names
from tests.growth import LINEAR, growth

KIND = DATASETS["routing"]
PUBLIC = KIND.read_public(KINDS["routing"].example()["problem"]["dataset"]["public"])


def read(content: bytes, form: str) -> Any:
    return reading._content(
        KIND, PUBLIC, lambda: io.BytesIO(content), {"format": form, "content_bytes": 1 << 30}
    )


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


def wide(columns: int) -> pa.Table:
    return pa.table({f"c{number}": [1] for number in range(columns)})


def test_too_many_columns() -> None:
    for content, form in (
        (parquet(wide(1001)), "parquet"),
        (b",".join(b"c%d" % number for number in range(1001)) + b"\n1\n", "csv"),
    ):
        with pytest.raises(InvalidInput, match="it has 1001 columns, at most 1000 are read"):
            read(content, form)


def test_a_csv_file_that_is_one_line() -> None:
    with pytest.raises(InvalidInput, match="its first line has more than 1048576 bytes"):
        read(b"x" * (1 << 21), "csv")


@pytest.mark.parametrize("later", ["1.5", "1e3", "2.0", ""])
@pytest.mark.parametrize("first", ["1", "1.0", ""])
def test_types_are_those_of_the_whole_file(
    monkeypatch: pytest.MonkeyPatch, first: str, later: str
) -> None:
    """What a file says far below its first block is read, or refused, as if it were read at
    once."""
    line = f"0,1,2,{first}\n".encode()
    content = (
        b"period,origin,destination,count\n" + 200 * line + f"0,1,2,{later}\n".encode() + 200 * line
    )

    def outcome() -> Any:
        try:
            return told(read(content, "csv"))
        except InvalidInput as refused:
            return [(issue.pointer, issue.detail) for issue in refused.issues]

    whole = outcome()
    monkeypatch.setattr(tables, "CSV_BLOCK_BYTES", 1 << 9)
    assert outcome() == whole


def test_text_far_below_the_first_block_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "CSV_BLOCK_BYTES", 1 << 9)
    with pytest.raises(InvalidInput, match="'count' holds string, not integers"):
        read(b"period,origin,destination,count\n" + 200 * b"0,1,2,1\n" + b"0,1,2,x\n", "csv")


def told(content: Any) -> dict[str, Any]:
    return {name: array.tolist() for name, array in content.items()}


def test_a_later_line_that_is_too_long() -> None:
    with pytest.raises(InvalidInput, match="cannot be read as CSV"):
        read(b"period,origin,destination\n" + b"1" * (20 << 20), "csv")


def test_a_thread_that_cannot_start_is_not_the_files_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise pa.ArrowException(
            f"Unknown error: {tables.NO_THREAD}: Resource temporarily unavailable"
        )

    monkeypatch.setattr(pc, "open_csv", refuse)
    with pytest.raises(RuntimeError, match="could not start a thread"):
        read(b"period,origin,destination\n0,1,2\n", "csv")


def test_a_long_footer_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = parquet(wide(3))
    longer = whole[:-8] + (tables.FOOTER_BYTES + 1).to_bytes(4, "little") + b"PAR1"

    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(pq, "ParquetFile", never)
    with pytest.raises(InvalidInput, match="its footer has 16777217 bytes"):
        read(longer, "parquet")
    with pytest.raises(AssertionError, match="parsed"):
        read(whole, "parquet")


def test_a_footer_is_believed_of_parquet_alone() -> None:
    for content in (
        b"period,origin,destination\n0,1,2\n",
        b"PAR",
        parquet(wide(3))[:-1],
        parquet(wide(3)) + b"\n",
    ):
        with pytest.raises(InvalidInput, match="cannot be read as Parquet; a name that ends in"):
            read(content, "parquet")


def test_rows_that_take_few_bytes_in_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = np.zeros(3_000_000, dtype=np.int64)
    content = parquet(pa.table({"period": zeros, "origin": zeros, "destination": zeros}))
    assert len(content) < 100_000
    with pytest.raises(PayloadTooLarge, match="3000000 rows take at least 24000000 bytes"):
        reading._content(
            DATASETS["dr_ensemble"],
            None,
            lambda: io.BytesIO(content),
            {"format": "parquet", "content_bytes": 1 << 20},
        )
    monkeypatch.setattr(tables, "MOST_ROWS_A_BYTE", 10)
    with pytest.raises(InvalidInput, match=f"3000000 rows in {len(content)} bytes"):
        read(content, "parquet")


def test_naming_wrong_columns_takes_time_in_proportion() -> None:
    def refuse(table: pa.Table) -> None:
        with pytest.raises(InvalidInput) as refused:
            check_names(table, ["period"], [], "/content")
        assert len(refused.value.issues) == 20

    assert growth(wide, refuse, 10_000) < LINEAR


PERSONS = KIND.read_public({"unit": "person", "zones": 3, "periods": 1, "period_minutes": 60})


def people(names: list[Any], form: str) -> int:
    """How many the content of a trip of each has."""
    if form == "csv":
        rows = "".join(f"{name},0,1,2,1\n" for name in names)
        content = ("person,period,origin,destination,count\n" + rows).encode()
    else:
        same = {
            name: [place] * len(names)
            for place, name in enumerate(("period", "origin", "destination"))
        }
        content = parquet(pa.table({"person": names, **same, "count": [1] * len(names)}))
    job = {"format": form, "content_bytes": 1 << 30}
    return (
        len(reading._content(KIND, PERSONS, lambda: io.BytesIO(content), job)["person_start"]) - 1
    )


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["89490200001234567890", "89490200001234567891"], 2),  # Arrow reads them as one float
        (["007", "7"], 2),
        (["1e5", "100000"], 2),
        (["true", "True"], 2),
        ([" 7", "7"], 1),
        (["7", "7.0"], 1),
        (["\u00e9", "e\u0301"], 1),
    ],
)
def test_nobody_is_two_people_and_no_two_are_one(names: list[Any], found: int) -> None:
    """What hides one person hides all of one person's rows, and no sum of two people's."""
    assert people(names, "csv") == people(names, "parquet") == found


def test_one_later_name_changes_nobody_before() -> None:
    """Types of a CSV file come from all of it: a later name must not change who the earlier ones
    are."""
    names = ["89490200001234567890", "89490200001234567891"] * 60_000 + ["ann"]
    assert people(names, "csv") == 3


@pytest.mark.parametrize(
    "names", [np.array([2.0**60, 1]), np.array([2**24, 1], dtype=np.float32), np.array([np.inf, 1])]
)
def test_floats_that_stand_for_several_people_are_refused(names: Any) -> None:
    with pytest.raises(InvalidInput, match="stands for several"):
        people(names, "parquet")


def test_columns_of_people_in_other_types() -> None:
    assert people(np.array([0.0, -0.0]), "parquet") == 1
    assert people(np.array([2**63, 2**63 + 1], dtype=np.uint64), "parquet") == 2
    encoded = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["ann", "ann ", "ben"]))
    assert people(encoded, "parquet") == 2
    for names, form in (
        (["NA", "x"], "csv"),
        (["  ", "x"], "csv"),
        ([" ", "x"], "parquet"),
        ([None, "x"], "parquet"),
    ):
        with pytest.raises(InvalidInput, match="has missing values"):
            people(names, form)
