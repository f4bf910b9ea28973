"""Blocks of sources: which are chosen, and that several are, bit for bit, one dataset of the same
records."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pydantic import ValidationError

from discreet.errors import InvalidInput, NotFound
from discreet.isolation.blocks import Block, any_record
from discreet.isolation.solving import join
from discreet.privacy.noise import Noise
from discreet.problems import DATASETS, KINDS, read_as_one
from discreet.problems.contents import framed, pack, unpack
from discreet.problems.numbers import Budget
from discreet.problems.plans import PlannedBlock, PlannedSource
from discreet.problems.sources import (
    MOST_BLOCKS,
    DatasetInBlocks,
    SourceBlocks,
    assumptions,
    block_name,
    chosen,
)
from discreet_client import source_blocks
from discreet_client.tables import TableError
from tests import bodies

BUDGET = Budget(epsilon=10**9, delta=10**12)
DAYS = ["2026-10-03", "2026-09-30", "2026-10-01", "2026-10-02"]


def asked(**given: Any) -> SourceBlocks:
    return SourceBlocks.model_validate({"id": "src_1", **given})


def test_blocks_are_chosen_in_their_order() -> None:
    assert chosen(asked(blocks="2026-09-30/2026-10-02"), "day", DAYS) == [
        "2026-09-30",
        "2026-10-01",
        "2026-10-02",
    ]
    assert chosen(asked(last=2), "day", DAYS) == ["2026-10-02", "2026-10-03"]
    assert chosen(asked(blocks=["2026-10-03", "2026-10-01"]), "day", DAYS) == [
        "2026-10-01",
        "2026-10-03",
    ]
    assert chosen(asked(blocks="2026-10-01"), "day", DAYS) == ["2026-10-01"]
    months = ["2025-12", "2026-01", "2026-02"]
    assert chosen(asked(blocks="2025-12/2026-02"), "month", months) == months
    assert chosen(asked(last=2), "label", ["ward 9", "ward 1", "ward 5"]) == ["ward 1", "ward 5"]
    assert chosen(asked(blocks=["ward 5", "ward 9"]), "label", ["ward 9", "ward 1", "ward 5"]) == [
        "ward 9",
        "ward 5",
    ]


@pytest.mark.parametrize(
    ("by", "given", "says"),
    [
        (
            "day",
            {"blocks": "2026-10-02/2026-10-05"},
            "not registered: 2026-10-04, 2026-10-05; a day without records",
        ),
        ("day", {"last": 5}, "the source has 4 blocks"),
        ("day", {"blocks": "2026-10-02/2026-10-01"}, "the first block is after the last"),
        ("day", {"blocks": "2026-10-02/soon"}, "blocks of this source are days"),
        ("day", {"blocks": "0001-01-01/9999-12-31"}, f"at most {MOST_BLOCKS} blocks"),
        ("day", {"blocks": ["2026-10-02", "2026-10-02"]}, "a block is named twice"),
        ("label", {"blocks": "a/b"}, "labels have no order"),
        ("label", {"blocks": "b"}, "not registered: b"),
    ],
)
def test_what_names_no_blocks_is_refused(by: str, given: dict[str, Any], says: str) -> None:
    with pytest.raises((InvalidInput, NotFound), match=says):
        chosen(asked(**given), by, DAYS)


def test_the_newest_are_without_a_gap() -> None:
    """A day in between that was left out would tell that it had no records."""
    with pytest.raises(NotFound, match="2026-10-02"):
        chosen(asked(last=2), "day", ["2026-10-01", "2026-10-03"])


@pytest.mark.parametrize(
    "given", [{}, {"blocks": "a", "last": 1}, {"last": 2, "versions": ["dst_1"]}, {"last": 0}]
)
def test_a_selection_is_one(given: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        asked(**given)


@pytest.mark.parametrize(
    ("by", "name"),
    [
        *(
            ("day", one)
            for one in (
                "2026-02-29",
                "2026-10",
                "2026-10-1",
                "20261001",
                "2026-W40-4",
                "２０２６-10-01",
            )
        ),
        *(("month", one) for one in ("2026-13", "2026-1", "２０２６-10", "2026-10-01")),
        *(("label", one) for one in ("a/b", "", " ward", "ward ", "a\nb", "a\0b", "x" * 101)),
        *(
            ("label", one)
            for one in ("wa\u200brd", "wa\u202erd", "wa\u2028rd", "wa\u00a0rd", "\ud800")
        ),
    ],
)
def test_names_of_blocks(by: str, name: str) -> None:
    """What is no name, or could not be told apart from another one by looking at it."""
    with pytest.raises(InvalidInput):
        block_name(by, name)
    assert block_name("label", "Zürich, ward 9") == "Zürich, ward 9"


def trips(periods: int, rows: list[tuple[int, int, int, int]]) -> tuple[Any, Any]:
    kind = DATASETS["routing"]
    public = kind.read_public(
        {"unit": "request", "zones": 3, "periods": periods, "period_minutes": 60}
    )
    names = ("period", "origin", "destination", "count")
    content = kind.model_fields["content"].annotation
    assert content is not None
    return public, kind.read_rows(
        public, content.model_validate({"trips": [dict(zip(names, r, strict=True)) for r in rows]})
    )


def test_trips_of_blocks_are_those_of_one_dataset() -> None:
    days = [[(0, 1, 2, 5), (1, 2, 1, 3)], [], [(1, 3, 1, 2), (0, 1, 2, 1), (0, 1, 2, 4)]]
    parts = [trips(2, rows)[1] for rows in days]
    public, _ = trips(2, [])
    whole_public, whole = trips(
        6, [(2 * day + period, *rest) for day, rows in enumerate(days) for period, *rest in rows]
    )
    joined = join(
        "routing", public.model_dump(mode="json"), bytes(framed([pack(part) for part in parts]))
    )
    assert pack(joined) == pack(whole)
    one = read_as_one("routing", [public.model_dump(mode="json")] * 3)
    assert one.periods == 6
    problem = KINDS["routing"].model_validate(
        {"kind": "routing", "source": {"id": "src_1", "last": 3}, "network": bodies.network()}
    )
    for one_public in (one, whole_public):
        plan = problem.plan(one_public, BUDGET)
        assert plan.total == problem.plan(whole_public, BUDGET).total
    released = [
        problem.release(p, problem.plan(p, BUDGET), c, Noise.seeded(3))
        for p, c in ((one, joined), (whole_public, whole))
    ]
    assert pack(released[0]) == pack(released[1])


def trajectories(
    rows: list[tuple[int, int, int, int, float, bool]], **public: Any
) -> tuple[Any, Any]:
    kind = DATASETS["off_policy_evaluation"]
    base = {
        "unit": "trajectory",
        "states": 3,
        "reward_bound": 1,
        "horizon": 3,
        "off_policy": False,
        "max_trajectories": 4,
    }
    read = kind.read_public({**base, **public})
    names = ("trajectory", "step", "state", "next_state", "reward", "terminal")
    content = kind.model_fields["content"].annotation
    assert content is not None
    items = [dict(zip(names, row, strict=True)) for row in rows]
    return read, kind.read_rows(read, content.model_validate({"transitions": items}))


ROWS = [
    [(1, 0, 0, 1, 0.5, False), (1, 1, 1, 2, 1.0, True), (2, 0, 2, 0, -1.0, True)],
    [(1, 0, 1, 1, 0.25, True)],
]


@pytest.mark.parametrize("method", ["moments", "minibatch", "dp_lsw", "importance_sampling"])
def test_trajectories_of_blocks_are_those_of_one_dataset(method: str) -> None:
    """And none at all, in one block or in all: a release is total, and adding the first trajectory
    is a neighbour."""
    kind: Any = DATASETS["off_policy_evaluation"]
    public, first = trajectories(ROWS[0])
    _, second = trajectories(ROWS[1])
    _, whole = trajectories([*ROWS[0], *((row[0] + 10, *row[1:]) for row in ROWS[1])])
    empty = kind.nothing(public)
    assert not any_record(empty)
    assert any_record(second)
    assert {name: (array.dtype, array.ndim) for name, array in empty.items()} == {
        name: (array.dtype, array.ndim) for name, array in first.items()
    }
    for order in ([first, empty, second], [second, first]):
        assert pack(kind.joined(public, order)) == pack(whole)
    if method == "importance_sampling":
        public = public.model_copy(update={"off_policy": True})
        empty = kind.nothing(public)
    one = kind.combined(public, 3)
    assert (one.max_trajectories, one.max_rows) == (12, 3 * public.most_rows)
    body = {
        "kind": "off_policy_evaluation",
        "source": {"id": "src_1", "last": 3},
        "discount": 0.9,
        "method": method,
    }
    problem = KINDS["off_policy_evaluation"].model_validate(body)
    plan = problem.plan(one, BUDGET)
    nothing = kind.joined(public, [empty, empty])
    released = problem.release(one, plan, unpack(pack(nothing)), Noise.seeded(1))
    assert all(np.isfinite(array).all() for array in released.values())
    problem.finish(one, plan, released, lambda step, total: None).to_json()


@pytest.mark.parametrize("names", [[7, 7, 8], ["a", "a", "b"]], ids=["numbers", "words"])
def test_every_way_of_reading_a_block_sees_where_trajectories_begin(names: list[Any]) -> None:
    """As a whole and by parts, as JSON and as a table; a dataset that is no block may begin later,
    since nothing else has the rest."""
    kind: Any = DATASETS["off_policy_evaluation"]
    public, _ = trajectories(ROWS[0])
    columns: dict[str, list[Any]] = {
        "trajectory": names,
        "step": [1, 2, 0],
        "state": [0, 1, 2],
        "next_state": [1, 2, 0],
        "reward": [0.5, 1.0, -1.0],
        "terminal": [False, True, True],
    }
    items = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    content = kind.model_fields["content"].annotation.model_validate({"transitions": items})

    def by_parts(model: Any, table: pa.Table) -> Any:
        units = model.by_units(public, table.schema)
        return table if units is None else units.whole([units.checked(table)])

    block = kind.in_block()
    ways: list[Callable[[Any, Any], Any]] = [
        lambda model, _: model.read_rows(public, content),
        lambda model, table: model.read_table(public, table),
    ]
    if block.by_units(public, pa.table(columns).schema) is not None:
        ways.append(by_parts)
    for read in ways:
        read(kind, pa.table(columns))
        with pytest.raises(InvalidInput, match=r"begins at step 0: .*; found 1") as refused:
            read(block, pa.table(columns))
        assert refused.value.issues[0].pointer.endswith("/0/step")
        begun = pa.table({**columns, "step": [0, 2, 0]})
        if read is not ways[0]:
            read(block, begun)


def test_what_has_no_unit_in_one_block_is_refused() -> None:
    routing: Any = DATASETS["routing"]
    persons = routing.read_public(
        {"unit": "person", "zones": 3, "periods": 2, "period_minutes": 60}
    )
    assert "many blocks" in routing.not_in_blocks(persons)
    kind: Any = DATASETS["off_policy_evaluation"]
    base = {"unit": "trajectory", "states": 3, "reward_bound": 1, "horizon": 3}
    assert "add_remove" in kind.not_in_blocks(
        kind.read_public({**base, "off_policy": False, "trajectories": 4})
    )
    assert "off_policy" in kind.not_in_blocks(kind.read_public(base))
    assert not kind.not_in_blocks(kind.read_public({**base, "off_policy": True}))
    for name, dataset in DATASETS.items():
        offered = "source" in KINDS[name].model_fields
        assert offered == issubclass(dataset, DatasetInBlocks), name


def test_more_than_is_read_at_once_is_refused() -> None:
    routing: Any = DATASETS["routing"]
    public = routing.read_public(
        {"unit": "request", "zones": 3, "periods": 1000, "period_minutes": 60}
    )
    with pytest.raises(InvalidInput, match="periods together") as refused:
        routing.combined(public, 101)
    assert refused.value.issues[0].pointer == "/problem/source"


def test_what_is_claimed_names_the_unit_and_the_rule() -> None:
    def source(by: str, cap_of: str) -> PlannedSource:
        return PlannedSource(
            id="s", name="n", by=by, cap_of=cap_of, blocks=(PlannedBlock(block="b", version="d"),)
        )

    claim, checked, _ = assumptions(source("day", "block"), "request")
    assert "one request lies in exactly one block, by the day of its date" in claim
    assert "Nothing is claimed about a person with several" in claim
    assert "was checked" in checked
    assert "it was not checked" in assumptions(source("label", "block"), "request")[1]
    assert "charged once" in assumptions(source("month", "source"), "trajectory")[0]


def test_dates_of_other_blocks_are_named_with_their_rows() -> None:
    block = Block("day", "2026-10-01")
    rows = [
        {"date": "2026-10-01T07:00", "x": 1},
        {"date": "2026-10-011"},
        {"date": "2026-10-02"},
        {"x": 2},
        7,
    ]
    assert block.items(rows, 5, "/content/trips")[0] == {"x": 1}
    assert [issue.pointer for issue in block.issues] == [
        f"/content/trips/{n}/date" for n in (6, 7, 8)
    ]
    assert "'2026-10-02' is not of block 2026-10-01" in block.issues[1].detail
    with pytest.raises(InvalidInput):
        block.check()
    # With a zone one moment would be of two days: of whichever its writer's clock says.
    for date in ("Z", "+02:00", "omorrow", ":30Z", "T24", "T23:30:00\n", "T23:30:0٣"):
        zoned = Block("day", "2026-10-01")
        zoned.items(
            [{"date": "2026-10-01T23:30:00" + date if date[0] in "Z+:" else "2026-10-01" + date}],
            0,
            "",
        )
        assert "without a zone" in zoned.issues[0].detail, date
    block = Block("day", "2026-10-01")
    block.items(
        [{"date": "2026-10-01" + time} for time in ("", "T23:30", " 23:30:00", "T23:30:00.123456")],
        0,
        "",
    )
    block.check()
    month = Block("month", "2026-10")
    month.items([{"date": "2026-10-31"}, {"date": "2026-10"}], 0, "")
    assert [issue.pointer for issue in month.issues] == ["/1/date"]


def test_dates_are_read_from_every_kind_of_text() -> None:
    """pandas 3 writes its texts as large_string, and categories as a dictionary."""
    day = ["2026-10-01", "2026-10-01"]
    kinds = [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
    ]
    for kind in kinds:
        table = pa.table({"date": pa.array(day).cast(kind), "origin": [1, 2]})
        block = Block("day", "2026-10-01")
        assert block.schema(table.schema).names == ["origin"]
        (read,) = block.rows(table.to_batches())
        assert read.to_pydict() == {"origin": [1, 2]}
        assert block.plain(table).column_names == ["origin"]
        with pytest.raises(InvalidInput, match="is not of block"):
            list(Block("day", "2026-10-02").rows(table.to_batches()))
        with pytest.raises(InvalidInput, match="is not of block"):
            Block("day", "2026-10-02").plain(table)
    numbers = pa.table({"date": [20261001]})
    with pytest.raises(InvalidInput, match="must hold dates such as 2026-10-01, not int64"):
        Block("day", "2026-10-01").schema(numbers.schema)


def test_a_block_leaves_out_rows_as_a_dataset_does() -> None:
    """A value that is missing in any column ended the reading of days."""
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    names = {"date": "Tag", "origin": "from", "destination": "to", "count": "n"}
    lines = ["Tag,from,to,n", "2026-11-10,1,2,3", "2026-11-10,,2,3", "2026-11-10,2,3,1"]

    def read(rules: dict[str, Any], *rows: str, columns: dict[str, str] = names) -> Any:
        text = "\n".join([*lines, *rows]).encode()
        described = {**public, "reader": rules}
        return source_blocks.read(
            "routing",
            lambda: io.BytesIO(text),
            described,
            columns,
            by="day",
            name="2026-11-10",
            form="csv",
        )

    found = read({"missing": "leave_out"})
    assert found.columns["count"].tolist() == [3, 1]
    assert found.left_out == (("a value is missing", 1),)
    # Days of times: who has none is left out, as in a dataset.
    timed = {"block": "time", "missing": "leave_out", "start": "07:00"}
    timed["time_zone"] = "Europe/Berlin"
    clocks = ["Zeit,from,to,n", "2026-11-10T07:10,1,2,3", ",1,2,5"]
    lines[:], lines_before = clocks, list(lines)
    renamed = {"time": "Zeit", "origin": "from", "destination": "to", "count": "n"}
    assert read(timed, columns=renamed).columns["count"].tolist() == [3]
    lines[:] = lines_before
    for rules, rows, says in (
        ({}, (), "line 3, column from \\(origin\\): a value is missing"),
        ({"missing": "leave_out"}, (",1,2,3",), "line 5, column Tag .*: a day is missing"),
        ({"missing": "leave_out"}, ("x,1,2,3",), "line 5, column Tag .*: a day such as"),
        ({"missing": "leave_out"}, ("2026-11-11,1,2,3",), "line 5, .* not of block 2026-11-10"),
        ({"block": "time"}, (), "reader.block says that time has them: leave one of the two out"),
    ):
        with pytest.raises(TableError, match=says):
            read(rules, *rows)
