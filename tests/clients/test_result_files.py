"""Results of every kind as CSV, Excel and Parquet: what stands in the JSON, and nothing else."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import python_calamine

from discreet import problems
from discreet.isolation.solving import encode
from discreet.problems.base import rehearse
from discreet_client import results
from discreet_client.answers import answer_of
from discreet_client.flows import NotWritten
from discreet_client.results import Answer

KINDS = sorted(problems.KINDS)
JOB = {"id": "job_1", "headline": "=HYPERLINK(1)", "price": {"epsilon": 1.0, "delta": 0, "rho": 0}}


def answer(kind: str) -> Answer:
    """Of the example of a kind, as it is fetched."""
    result = rehearse(problems.KINDS[kind])
    body, tables = encode(result.to_json(), result.tables(every=False))
    found = answer_of({"job": {**JOB, "kind": kind}, "result": json.loads(body)}, tables)
    network = problems.KINDS[kind].example()["problem"].get("network")
    found.network = network or {}
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_in_every_form(kind: str) -> None:
    whole = answer(kind)
    made = results.tables(whole)
    figures = {row["name"]: row for row in made.get("figures", ())}
    shown = 0
    for name, value in whole.document["result"].items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            assert figures[name]["value"] == value
            ends = whole.interval(name) or (None, None)
            assert (figures[name]["lower"], figures[name]["upper"]) == ends
        elif name in whole.AXES and isinstance(whole[name], np.ndarray):
            rows = made[f"by {', '.join(whole.axes(name))}"]
            column = "flow" if name == "link_flows" else name
            assert [row[column] for row in rows] == whole[name].ravel().tolist()
            shown += 1
    assert shown or kind == "off_policy_evaluation"
    main = next(iter(made))
    text = results.written(whole, "csv").decode("utf-8-sig")
    assert len(list(csv.DictReader(io.StringIO(text)))) == len(made[main])
    for table, rows in made.items():
        read = pq.read_table(io.BytesIO(results.written(whole, "parquet", table)))
        assert read.num_rows == len(rows)
        assert read.column_names == list(rows[0])
    book = python_calamine.CalamineWorkbook.from_filelike(
        io.BytesIO(results.written(whole, "xlsx"))
    )
    assert len(book.sheet_names) == 1 + len(made)
    for title, (table, rows) in zip(book.sheet_names[1:], made.items(), strict=True):
        names, *cells = book.get_sheet_by_name(title).to_python()
        assert names == list(rows[0]), table
        assert len(cells) == len(rows)
        assert cells[0][0] == next(iter(rows[0].values()))
    about = dict(book.get_sheet_by_name("about").to_python())
    assert about["answer"] == "=HYPERLINK(1)"  # a text


def test_forms_and_tables_that_are_none_are_refused_with_those_that_are() -> None:
    whole = answer("dr_ensemble")
    with pytest.raises(NotWritten, match=r"it has by step, by state, figures, by "):
        results.written(whole, "csv", "links")
    with pytest.raises(NotWritten, match="csv, xlsx, parquet, not as docx"):
        results.written(whole, "docx")
    with pytest.raises(NotWritten, match="for csv only"):
        results.written(whole, "xlsx", decimal=",")
    first, second = results.written(whole, "csv", decimal=",").decode().splitlines()[:2]
    assert first.count(";") == second.count(";") > 0
    assert "." not in second


def test_links_have_their_names_and_what_else_is_said_of_them() -> None:
    whole = answer("routing")
    links = [{**one} for one in whole.network["links"]]
    whole.network = {**whole.network, "link_names": [f"Road {k}" for k in range(len(links))]}
    whole.document["result"]["link_flow_changes"] = [float(k) for k in range(len(links))]
    row = results.tables(whole)["by link"][1]
    assert (row["link"], row["link_flow_changes"]) == ("Road 1", 1.0)
    assert (row["from_node"], row["flow"]) == (str(links[1]["tail"]), whole["link_flows"][1])
    assert "link_flows" not in row


def test_a_table_too_long_for_a_sheet_is_no_workbook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOST_ROWS", 3)
    with pytest.raises(NotWritten, match="a sheet at most 3: take csv or parquet"):
        results.written(answer("routing"), "xlsx")


def test_objects_in_objects_are_rows() -> None:
    rows: list[dict[str, Any]] = [
        {"origin": 1, "paths": [{"links": [0, 2], "share": 0.5}, {"links": [1], "share": 0.5}]},
        {"origin": 2, "free": True},
    ]
    document = {"job": {**JOB, "kind": "new"}, "result": {"policy": rows, "note": "a b"}}
    made = results.tables(answer_of(document, {}))
    assert made["policy"] == [
        {"origin": 1, "paths": 0, "links": "0 2", "share": 0.5, "free": None},
        {"origin": 1, "paths": 1, "links": "1", "share": 0.5, "free": None},
        {"origin": 2, "paths": None, "links": None, "share": None, "free": True},
    ]
    assert made["figures"][0]["text"] == "a b"
