"""Readings of meters: which states they become, that one participant is one trajectory, what is
refused."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.intake.field_issues import issues_of
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.dr_ensemble.dataset import DrEnsembleContent, DrEnsembleDataset
from discreet.problems.dr_ensemble.meters import Meters
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.numbers import Budget
from discreet_client.meters import MeterRule, in_zone
from tests.growth import LINEAR, growth
from tests.problems.exact import NoNoise

START = datetime(2026, 3, 29, tzinfo=UTC)
EDGES = [0.0, 1.0, 2.5, 4.0]
Row = tuple[Any, datetime, float]


def public(
    steps: int | None = None, participants: int | None = None, **meters: Any
) -> DrEnsemblePublic:
    rule = {"start": START.isoformat(), "interval_seconds": 1800, **meters}
    part = {"unit": "participant", "states": 3, "edges": EDGES, "meters": rule}
    more = {"steps": steps, "participants": participants}
    return DrEnsemblePublic.model_validate(
        part | {name: value for name, value in more.items() if value is not None}
    )


def table(rows: list[Row]) -> pa.Table:
    names = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    return pa.table(dict(zip(("participant", "time", "kw"), map(list, names), strict=True)))


def read(part: DrEnsemblePublic, rows: list[Row]) -> Content:
    return DrEnsembleDataset.read_table(part, table(rows))


def as_json(part: DrEnsemblePublic, rows: list[dict[str, Any]]) -> Content:
    return DrEnsembleDataset.read_rows(part, DrEnsembleContent.model_validate({"power": rows}))


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def plainly(part: DrEnsemblePublic, rows: list[tuple[datetime, float]]) -> list[int] | None:
    """The trajectory of one participant, period by period: None where there is none, or the content
    is refused."""
    rule = part.meters
    assert rule is not None
    readings: dict[int, list[float]] = {}
    for time, kw in rows:
        readings.setdefault(
            int((time - START).total_seconds() // rule.interval_seconds), []
        ).append(kw)
    first, last = min(readings), max(readings)
    if part.steps is not None:
        first, last = 0, part.steps - 1
    found: list[int] = []
    carried = 0
    period = first
    while period <= last:
        if period in readings:
            mean = sum(readings[period]) / len(readings[period])
            found.append(sum(mean >= edge for edge in EDGES[1:-1]))
            carried = 0
        else:
            ahead = [later for later in readings if later > period]
            length = (min(ahead) if ahead else last + 1) - period
            if not found or length > rule.carry or carried:
                if rule.gaps == "end":
                    break
                return None
            found += [found[-1]] * length
            period += length - 1
        period += 1
    return found if len(found) > 1 else None


# Power in eighths: their means are exact.
SERIES = st.lists(
    st.tuples(st.integers(0, 359), st.integers(-8, 60)),
    min_size=1,
    max_size=14,
    unique_by=lambda reading: reading[0],
).map(lambda series: [(at(minute), eighths / 8) for minute, eighths in series])
RULES = st.sampled_from(
    [{"gaps": gaps, "carry": carry} for gaps in ("leave_out", "end") for carry in (0, 1, 3, 9)]
    + [{"gaps": "leave_out", "carry": carry, "steps": 12} for carry in (0, 2, 11)]
)


def trajectories(content: Content) -> list[list[int]]:
    return sorted(part.tolist() for part in np.split(content["states"], content["start"][1:-1]))


ALWAYS = [(at(minute), 0.5) for minute in range(0, 360, 30)]


@given(st.lists(SERIES, min_size=1, max_size=5), RULES, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_states_are_those_of_the_rule_read_period_by_period(
    people: list[list[tuple[datetime, float]]], rule: dict[str, Any], random: Any
) -> None:
    part = public(**rule)
    everybody = [ALWAYS, ALWAYS, *people]
    rows = [(f"p{name}", *reading) for name, series in enumerate(everybody) for reading in series]
    random.shuffle(rows)
    expected = sorted(found for series in everybody if (found := plainly(part, series)) is not None)
    assert trajectories(read(part, rows)) == expected


@given(st.lists(SERIES, max_size=4), SERIES, SERIES, RULES)
@settings(max_examples=30)
def test_one_participant_moves_the_counts_by_the_sensitivity(
    others: list[list[tuple[datetime, float]]],
    one: list[tuple[datetime, float]],
    another: list[tuple[datetime, float]],
    rule: dict[str, Any],
) -> None:
    """Added where the number is private, replaced where it is public; whatever is missing, left out
    or carried."""
    people = [ALWAYS, ALWAYS, *others]
    problem = DrEnsemble.model_validate(
        {
            "kind": "dr_ensemble",
            "dataset": "x",
            "price": [1, 2],
            "discomfort_weight": 1,
            "initial": "released",
        }
    )
    for known, left in ((None, people), (len(people) + 1, [*people, another])):
        part = public(**rule, participants=known)
        plan = problem.draft(part, Budget(epsilon=10**9, delta=0))
        counts = []
        for series in (left, [*people, one]):
            rows = [
                (name, *reading) for name, readings in enumerate(series) for reading in readings
            ]
            noise = NoNoise()
            counts.append(problem.release(part, plan, read(part, rows), noise)["counts"])
            assert noise.events == list(plan.events)
        assert np.abs(counts[0] - counts[1]).sum() <= plan.events[0].sensitivity


ROWS: list[Row] = [
    ("a", at(0), 0.5),
    ("a", at(30), 1.25),
    ("b", at(0), 3.0),
    ("b", at(15), 2.0),
    ("b", at(45), -1.0),
    ("b", at(60), 9.0),
]


def test_every_form_of_the_same_readings_is_the_same_content() -> None:
    """Parquet with and without zone, texts, CSV, JSON, names of any type, and states that the
    client made."""
    part, here = public(gaps="end"), public(gaps="end", utc_offset="+05:45")
    expected = b"".join(canonical_bytes(read(part, ROWS)))
    names, times, kw = (list(column) for column in zip(*ROWS, strict=True))
    nepal = [time.astimezone(timezone(timedelta(hours=5, minutes=45))) for time in times]
    local = [time.replace(tzinfo=None) for time in nepal]
    mixed = [
        time.isoformat() if row % 2 else f"{time:%Y-%m-%dT%H:%M:%S.000Z}"
        for row, time in enumerate(times)
    ]
    forms: list[tuple[DrEnsemblePublic, Any]] = [
        (part, pa.array(times, type=pa.timestamp(unit, tz="Asia/Kathmandu")))
        for unit in ("s", "ms", "us", "ns")
    ]
    forms += [(here, pa.array(local)), (part, mixed), (part, pa.array(mixed).dictionary_encode())]
    forms += [
        (here, [time.isoformat(" ") for time in local]),
        (part, [time.isoformat() for time in nepal]),
    ]
    for rule, column in forms:
        for named in (names, [7, 7, 3, 3, 3, 3]):
            made = pa.table({"participant": named, "time": column, "kw": kw})
            assert b"".join(canonical_bytes(DrEnsembleDataset.read_table(rule, made))) == expected
            sink = io.BytesIO()
            pc.write_csv(made.set_column(1, "time", pa.array(made["time"].to_pylist())), sink)
            csv = pc.read_csv(io.BytesIO(sink.getvalue()))
            assert b"".join(canonical_bytes(DrEnsembleDataset.read_table(rule, csv))) == expected
    for rule, written in ((part, mixed), (here, [time.isoformat() for time in local])):
        rows = [
            dict(zip(("participant", "time", "kw"), row, strict=True))
            for row in zip(names, written, kw, strict=False)
        ]
        assert b"".join(canonical_bytes(as_json(rule, rows))) == expected


def test_days_are_midnights() -> None:
    part = public(interval_seconds=86_400, utc_offset="-01:00")
    rows = [(name, date(2026, 3, day), 0.5 + day - 29) for name in "ab" for day in (29, 30, 31)]
    assert trajectories(read(part, rows)) == [[0, 1, 2]] * 2  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("meters", "rows", "pointer", "says"),
    [
        (
            {},
            [("a", at(0), float("nan")), ("a", at(9), float("inf"))],
            "/0/kw",
            "finite.*found nan.*1 more",
        ),
        ({}, [("a", at(0), 1e300)], "/0/kw", "at most 1e.12 kW"),
        (
            {"outside": "refuse"},
            [("a", at(0), 0.0), ("a", at(30), 4.0)],
            "/1/kw",
            "outside the public edges 0 to 4",
        ),
        (
            {},
            [("a", at(0), 1.0), ("a", at(-1), 1.0)],
            "/1/time",
            r"before public.meters.start \(2026-03-29T00:00:00",
        ),
        (
            {"steps": 2},
            [("a", at(59), 1.0), ("a", at(60), 1.0)],
            "/1/time",
            "2026-03-29T01:00:00.* where the last",
        ),
        (
            {},
            [("a", at(0), 1.0), ("b", at(0), 1.0), ("a", at(0), 2.0)],
            "/2/time",
            "has a reading of this time",
        ),
        (
            {},
            [("a", at(0).replace(tzinfo=None), 1.0)],
            "/0/time",
            "without a time zone.*utc_offset",
        ),
        (
            {},
            [("a", "2026-03-29T00:00:00", 1.0), ("a", "noon", 1.0)],
            "/1/time",
            "a time such as .*found noon",
        ),
        ({}, [("a", "1774742400", 1.0)], "/0/time", "a time such as"),
        ({}, [("a", None, 1.0)], "/0/time", "missing"),
        ({}, [("a", 1774742400, 1.0)], "", "'time' holds int64; a time such as"),
        ({}, [("a", datetime(1969, 12, 31, tzinfo=UTC), 1.0)], "/0/time", "1970 to 9999"),
        (
            {},
            [("a", at(0), 1.0), ("a", at(70), 1.0)],
            "/0/participant",
            "period from 2026-03-29T00:30:00.* on; public",
        ),
        (
            {"steps": 3},
            [("a", at(30), 1.0), ("a", at(60), 1.0)],
            "/0/participant",
            "period from 2026-03-29T00:00:00",
        ),
        (
            {"carry": 1},
            [("a", at(0), 1.0), ("a", at(99), 1.0)],
            "/0/participant",
            "over more than 1 periods; .*a larger `carry` fills longer ones",
        ),
        (
            {"steps": 3, "carry": 2},
            [("a", at(30), 1.0), ("a", at(60), 1.0)],
            "/0/participant",
            "00:00:00.* on; public.meters .*nothing is carried to before a first reading, `gaps`",
        ),
        ({}, [("a", at(0), 1.0)], "/0/participant", "fewer than two periods"),
        ({}, [("a", at(m), 1.0) for m in (0, 30)], "", "of 1 participants 1 have a trajectory"),
        (
            {"gaps": "end"},
            [(name, at(0), 1.0) for name in range(9)],
            "",
            "of 9 participants 0 have a trajectory",
        ),
        (
            {"participants": 3},
            [(n, at(m), 1.0) for n in "ab" for m in (0, 30)],
            "",
            "of 2 participants of 3 public",
        ),
        ({}, [], "", "empty|of 0 participants"),
    ],
)
def test_readings_are_refused_by_row_with_the_true_cause(
    meters: dict[str, Any], rows: list[Any], pointer: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        read(public(**meters), rows)
    assert refused.value.issues[0].pointer == f"/content{pointer}"


def test_the_same_mistake_is_said_once_with_its_count() -> None:
    rows = [("a", at(minute), float("nan")) for minute in range(5000)]
    with pytest.raises(InvalidInput) as refused:
        read(public(), rows)
    (issue,) = refused.value.issues
    assert "4,999 more" in issue.detail
    written = [{"participant": "a", "time": "noon", "kw": 1.0}] * 5000
    with pytest.raises(ValidationError, match="datetime"):
        as_json(public(), written)
    naive = [{"participant": "a", "time": "2026-03-29T00:00:00", "kw": 1.0}] * 5000
    with pytest.raises(InvalidInput, match=r"without a time zone.*4,999 more"):
        as_json(public(), naive)


def test_moves_out_of_the_support_are_named_by_their_reading() -> None:
    part = public().model_copy(update={"support": [(0, 0), (0, 1), (1, 0), (1, 1), (2, 2)]})
    rows = [("a", at(30), 3.0), ("b", at(0), 0.5), ("a", at(0), 0.5), ("b", at(30), 0.5)]
    with pytest.raises(InvalidInput, match="0 to 2 is not in the public support") as refused:
        read(part, rows)
    assert refused.value.issues[0].pointer == "/content/0/kw"


@pytest.mark.parametrize(
    ("part", "says"),
    [
        ({"meters": {"start": START.isoformat(), "interval_seconds": 60}}, "needed with meters"),
        ({"edges": [0, 1]}, "edges|at least"),
        ({"edges": [0, 1, 2]}, "3 states need 4 edges"),
        ({"edges": [0, 1, 1, 2]}, "increase"),
        ({"edges": [0, 1, 2, 1e13]}, "at most 1e.12"),
        ({"edges": EDGES, "row_change": 0.1, "min_probability": 0.2}, "trajectories"),
        (
            {"edges": EDGES, "meters": {"start": "2026-03-29T00:00:00", "interval_seconds": 60}},
            "time zone is missing",
        ),
        ({"edges": EDGES, "meters": {"start": 0, "interval_seconds": 60}}, "a time such as"),
        (
            {"edges": EDGES, "meters": {"start": START.isoformat(), "interval_seconds": 0}},
            "interval_seconds",
        ),
    ],
)
def test_public_parts_that_make_no_states_are_refused(part: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        DrEnsemblePublic.model_validate({"unit": "participant", "states": 3, **part})


def test_a_trajectory_that_ends_has_no_public_steps() -> None:
    with pytest.raises(ValidationError, match="leave_out"):
        public(steps=3, gaps="end")


def test_power_without_the_rule_is_refused_and_states_still_come() -> None:
    bare = DrEnsemblePublic.model_validate({"unit": "participant", "states": 3})
    with pytest.raises(InvalidInput, match="public `edges` and `meters`"):
        read(bare, ROWS)
    with pytest.raises(InvalidInput, match="public `edges` and `meters`"):
        as_json(bare, [{"participant": 1, "time": START.isoformat(), "kw": 1.0}])
    matrix = DrEnsemblePublic.model_validate(
        {"unit": "row", "states": 3, "row_change": 0.1, "min_probability": 0.1}
    )
    with pytest.raises(InvalidInput, match="holds transitions") as refused:
        as_json(matrix, [{"participant": 1, "time": START.isoformat(), "kw": 1.0}])
    assert refused.value.issues[0].pointer == "/content/power"


def test_the_power_of_a_state_is_the_middle_of_its_bin_or_public() -> None:
    def expected(part: DrEnsemblePublic, **fields: Any) -> list[float]:
        asked = DrEnsemble.model_validate(
            {
                **{
                    "kind": "dr_ensemble",
                    "dataset": "x",
                    "price": [1, 2, 2],
                    "discomfort_weight": 1,
                },
                **{"initial": [0, 0, 1], **fields},
            }
        )
        plan = asked.draft(part, Budget(epsilon=10**9, delta=0))
        content = read(part, [(name, at(30 * row), 3.0) for name in range(200) for row in range(4)])
        released = asked.release(part, plan, content, NoNoise())
        found: list[float] = asked.finish(part, plan, released, lambda *_: None).to_json()[
            "default_power"
        ]
        return found

    part = public(steps=4, participants=200)
    assert expected(part)[0] == 3.25
    assert expected(part) == expected(part, power=[0.5, 1.75, 3.25])
    assert expected(part, power=[0, 1, 10])[0] == 10
    bare = DrEnsemblePublic.model_validate({"unit": "participant", "states": 3})
    asked = {
        "kind": "dr_ensemble",
        "dataset": "x",
        "price": [1, 2],
        "discomfort_weight": 1,
        "initial": "released",
    }
    unsaid = DrEnsemble.model_validate(asked)
    with pytest.raises(InvalidInput, match="no `edges`") as refused:
        unsaid.plan(bare, Budget(epsilon=10**9, delta=0))
    assert refused.value.issues[0].pointer == "/problem/power"


# Hostile series -----------------------------------------------------------------------------------


def test_times_far_apart_take_no_room() -> None:
    """Eight thousand years of seconds between two readings."""
    late = datetime(9999, 12, 30, 23, 59, 59, tzinfo=UTC)
    rows = [(name, time, 1.0) for name in "ab" for time in (at(0), at(1), late)]
    found = read(public(interval_seconds=60, gaps="end"), rows)
    assert trajectories(found) == [[1, 1]] * 2
    with pytest.raises(InvalidInput, match="participants 0 have"):
        read(public(interval_seconds=1, gaps="leave_out"), rows)
    text = [
        (name, time, 1.0)
        for name in "ab"
        for time in ("9999-12-31T23:59:59-14:00", "2026-03-29T00:00:00Z")
    ]
    with pytest.raises(InvalidInput, match="1970 to 9999"):
        read(public(), text)
    far = pa.table(
        {
            "participant": [1],
            "time": pa.array([2**62], type=pa.timestamp("s", tz="UTC")),
            "kw": [1.0],
        }
    )
    with pytest.raises(InvalidInput, match="1970 to 9999"):
        DrEnsembleDataset.read_table(public(), far)


def test_what_is_carried_is_bounded_before_it_is_made() -> None:
    rows = [(name, at(30 * 100_000 * row), 1.0) for name in "ab" for row in range(20)]
    with pytest.raises(InvalidInput, match="make 3800002 states, of at most 500000") as refused:
        read(public(carry=100_000), rows)
    assert refused.value.issues[0].pointer == "/public/meters/carry"


@pytest.mark.parametrize("shape", ["one participant", "one row each"])
def test_time_grows_as_n_log_n(shape: str) -> None:
    rule = MeterRule.of(public(gaps="end", interval_seconds=60).model_dump())

    def made(rows: int) -> tuple[Any, ...]:
        numbers = np.random.default_rng(rows).permutation(rows)
        alone = shape == "one participant"
        time = rule.start + 60_000_000 * (numbers if alone else np.zeros_like(numbers))
        return np.zeros(rows, dtype=np.int64) if alone else numbers, time, numbers / rows

    def call(given: tuple[Any, ...]) -> None:
        assert not any(fault.rows.any() for fault in rule.faults(*given))
        found = rule.states(*given, most=10**9)
        assert found.states.size == (len(given[0]) if shape == "one participant" else 0)

    assert growth(made, call, 100_000) < LINEAR


# Clocks -------------------------------------------------------------------------------------------


def test_clocks_that_are_put_back_and_forth() -> None:
    """Berlin, 2026: no 02:30 on 29 March, two of them on 25 October."""
    autumn = [f"2026-10-25T{hour:02}:{minute:02}:00" for hour in (1, 2, 2, 3) for minute in (0, 30)]
    twice = [*autumn, *autumn]  # two meters, one behind the other
    times = in_zone(twice, "Europe/Berlin")
    one = [datetime(2026, 10, 24, 23, tzinfo=UTC) + timedelta(minutes=30 * row) for row in range(8)]
    assert [time.astimezone(UTC) for time in times] == [*one, *one]
    with pytest.raises(ValueError, match=r"row 1: .* Europe/Berlin skip"):
        in_zone(["2026-03-29T01:30:00", "2026-03-29T02:30:00"], "Europe/Berlin")
    for unclear in (
        ["2026-10-25T02:00:00"],
        ["2026-10-25T02:00:00", "2026-10-25T02:30:00", "2026-10-25T02:15:00"],
    ):
        with pytest.raises(ValueError, match=r"row 0: .*twice"):
            in_zone(unclear, "Europe/Berlin")
    assert [time.hour for time in in_zone(["2026-03-29T03:00:00"], "Europe/Berlin")] == [3]


def test_the_hour_that_is_shown_twice_may_lack_a_time_once() -> None:
    shown = [f"2026-10-25T02:{minute}" for minute in ("00", "15", "30", "45")]
    for without, folds in ((2, [0, 0, 0, 1, 1, 1, 1]), (6, [0, 0, 0, 0, 1, 1, 1])):
        times = [one for row, one in enumerate([*shown, *shown]) if row != without]
        assert [moment.fold for moment in in_zone(times, "Europe/Berlin")] == folds
    for unclear in (shown, shown[::-1], [shown[0], shown[1], shown[1]], [shown[1], shown[0]]):
        with pytest.raises(ValueError, match=r"row 0: .*twice"):
            in_zone(unclear, "Europe/Berlin")


@pytest.mark.parametrize(
    ("start", "offset", "found"),
    [
        ("13.01.2025 00:00", "+01:00", "2025-01-13T00:00:00+01:00"),
        ("13.01.2025", "-02:00", "2025-01-13T00:00:00-02:00"),
        ("2025-01-13 06:30", "Z", "2025-01-13T06:30:00+00:00"),
        ("2025-01-13T00:00:00+01:00", "Z", "2025-01-13T00:00:00+01:00"),
        ("13.01.2025 00:00", None, "the time zone is missing"),
        ("01/02/2025 00:00", "Z", "a time such as"),
        ("13.1.2025, midnight", None, "with utc_offset beside it"),
        ("13.13.2025 00:00", "Z", "a time such as"),
    ],
)
def test_a_start_is_written_as_in_files(start: str, offset: str | None, found: str) -> None:
    given = {"start": start, "interval_seconds": 900} | (
        {} if offset is None else {"utc_offset": offset}
    )
    if found.startswith("2025"):
        assert Meters.model_validate(given).start.isoformat() == found
        return
    with pytest.raises(ValidationError, match=found) as refused:
        Meters.model_validate(given)
    (issue,) = issues_of(refused.value.errors(), given)  # as people read it
    assert issue.pointer == "/start"
    assert found in issue.detail
    assert "utc_offset" in issue.detail
