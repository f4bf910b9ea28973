"""Tables that are read part by part: whatever the parts and the files, the content is that of all
rows read at once, and what is wrong is named by its row."""

from __future__ import annotations

import errno
import io
import os
import resource
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from cryptography.exceptions import InvalidTag

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation import partitions, quick, reading, segments, tables
from discreet.isolation.partitions import PartedContent, Room
from discreet.isolation.runs import Run
from discreet.isolation.segments import Segments
from discreet.isolation.windows import windows
from discreet.problems import DATASETS
from discreet.problems.contents import Checked, Owners, UnitRows, canonical_bytes, pack, unpack

ROWS, UNIT = 4000, 10
PLACE = np.arange(ROWS)
DRAW = np.random.default_rng(22)
OWNER = DRAW.integers(0, ROWS // UNIT, ROWS)
TRIPS = {
    "period": DRAW.integers(0, 3, ROWS),
    "origin": DRAW.integers(1, 4, ROWS),
    "destination": DRAW.integers(1, 4, ROWS),
    "count": DRAW.integers(0, 3, ROWS),
}
TRIPS_PUBLIC = {"unit": "person", "zones": 3, "periods": 3, "period_minutes": 60}
STEPS = {"step": PLACE % UNIT, "reward": DRAW.integers(0, 9, ROWS) / 10}
STEPS |= {"terminal": PLACE % UNIT == UNIT - 1}
STATES = {"state": DRAW.integers(0, 5, ROWS), "next_state": DRAW.integers(0, 5, ROWS)}
STEPS_PUBLIC = {"unit": "trajectory", "reward_bound": 1, "horizon": UNIT}
VECTORS = {name: list(DRAW.random((ROWS, 2))) for name in ("x", "x_next")}
METERS = {"start": "2026-01-01T00:00:00Z", "interval_seconds": 3600}
CLOCK = pa.array(1_767_225_600 + 3600 * (PLACE % UNIT), pa.timestamp("s", tz="UTC"))
READINGS = {
    "participant": [f"meter {unit}" for unit in (PLACE // UNIT).tolist()],
    "time": CLOCK,
    "kw": DRAW.random(ROWS) * 2,
}
READINGS_PUBLIC = {"unit": "participant", "states": 2, "edges": [0, 1, 2], "meters": METERS}
# One person in several writings, and two whose names differ by more than that.
WRITTEN = [
    (f"p{one}", f" p{one} ", f"{one}.0", str(one), f"Jos\u00e9 {one}", f"Jose\u0301 {one}")[one % 6]
    for one in OWNER.tolist()
]

Tables = Sequence[pa.Table]
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "trips": ("routing", TRIPS_PUBLIC, {"person": OWNER, **TRIPS}),
    "names": ("routing", TRIPS_PUBLIC, {"person": WRITTEN, **TRIPS}),
    "floats": ("routing", TRIPS_PUBLIC, {"person": OWNER - 200.0, **TRIPS}),
    "large numbers": (
        "routing",
        TRIPS_PUBLIC,
        {"person": OWNER.astype(np.uint64) + np.uint64(2**63), **TRIPS},
    ),
    "classes": (
        "routing",
        {**TRIPS_PUBLIC, "user_classes": ["car", "truck"], "trip_scale": 2},
        {"person": OWNER, **TRIPS, "user_class": ["car", "truck"] * (ROWS // 2)},
    ),
    "transitions": (
        "off_policy_evaluation",
        {**STEPS_PUBLIC, "states": 5},
        {"trajectory": PLACE // UNIT, **STEPS, **STATES},
    ),
    "vectors": (
        "off_policy_evaluation",
        {**STEPS_PUBLIC, "features": 2},
        {"trajectory": PLACE // UNIT, **STEPS, **VECTORS},
    ),
    "states": (
        "dr_ensemble",
        {"unit": "participant", "states": 5, "participants": ROWS // UNIT},
        {"participant": PLACE // UNIT, "step": PLACE % UNIT, "state": STATES["state"]},
    ),
    "meters": ("dr_ensemble", READINGS_PUBLIC, READINGS),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Little at once; calls change how many rows a partition has."""

    def partition(rows: int) -> None:
        monkeypatch.setattr(partitions, "PARTITION_ROWS", rows)

    monkeypatch.setattr(tables, "CSV_BLOCK_BYTES", 1 << 12)
    for name, value in (("SCATTER_ROWS", 300), ("LEAST_A_PARTITION", 1), ("MERGE_ROWS", 500)):
        monkeypatch.setattr(partitions, name, value)
    partition(300)
    return partition


@contextmanager
def room(whole_rows: int = 0, content_bytes: int = 1 << 30) -> Iterator[Room]:
    files = [os.memfd_create("rows") for _ in range(2)]
    try:
        yield Room((files[0], files[1]), content_bytes, whole_rows)
    finally:
        for one in files:
            os.close(one)


def read(kind: str, public: Any, tables: Tables, at: Room | None, form: str = "parquet") -> Any:
    """Digested bytes, and the stored arrays, of a content in these files."""
    files = []
    for table in tables:
        out = io.BytesIO()
        (pq.write_table if form == "parquet" else pc.write_csv)(table, out)
        files.append(out.getvalue())
    upload = b"".join(files)

    def opened() -> io.BytesIO:
        return io.BytesIO(upload)

    model = DATASETS[kind]
    job = {"format": form, "content_bytes": 1 << 30, "upload_bytes": len(upload)}
    parts = windows(opened, [len(one) for one in files])
    found = reading._content(model, model.read_public(public), opened, job, parts, at)
    if not isinstance(found, PartedContent):
        return b"".join(canonical_bytes(found)), unpack(pack(found))
    sealed = io.BytesIO()
    digested = b"".join(found.sealed(sealed))
    outline = {name: (one.dtype, one.shape) for name, one in found.outline().items()}
    stored = unpack(sealed.getvalue())
    assert outline == {name: (one.dtype, one.shape) for name, one in stored.items()}
    return digested, stored


def shuffled(table: pa.Table, files: int) -> list[pa.Table]:
    table = table.take(DRAW.permutation(table.num_rows))
    cuts = np.linspace(0, table.num_rows, files + 1).astype(int)
    return [table.slice(first, last - first) for first, last in pairwise(cuts)]


@pytest.mark.parametrize("case", CASES)
def test_parts_and_files_do_not_show(
    small: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """One digest for all rows at once, for several files in another order, and for few or many
    partitions, checked in threads or not; the stored arrays too."""
    kind, public, columns = CASES[case]
    table = pa.table(columns)
    taken: list[Any] = []

    def watch(of: Callable[[Callable[[], Any]], Any]) -> None:
        def watched(content: Callable[[], Any]) -> Any:
            taken.append(of(content))
            return taken[-1]

        monkeypatch.setattr(quick, "_or_none", watched)

    or_none = quick._or_none
    watch(lambda _: None)
    digested, stored = read(kind, public, [table], None)
    watch(or_none)
    assert read(kind, public, [table], None)[0] == digested
    for rows, files in ((300, 3), (2000, 1), (40, 5)):
        small(rows)
        with room() as at:
            found, arrays = read(kind, public, shuffled(table, files), at)
            assert os.fstat(at.descriptors[0]).st_size > 0, "read at once"
        assert found == digested
        assert all((arrays[name] == stored[name]).all() for name in stored)
    if case != "vectors":  # lists have no place in CSV
        with room() as at:
            assert read(kind, public, shuffled(table, 1), at, "csv")[0] == digested
    assert all(one is not None for one in taken[1:]), "not in the quick way"
    watch(lambda _: None)
    for form in ("parquet", *(("csv",) if case != "vectors" else ())):
        with room() as at:
            assert read(kind, public, shuffled(table, 1), at, form)[0] == digested


def grouped(table: pa.Table) -> pa.Table:
    """The rows of each unit one after the other, units in a drawn order."""
    numbers = table.column(0).dictionary_encode().combine_chunks().indices.to_numpy()
    return table.take(np.argsort(DRAW.permutation(ROWS)[numbers], kind="stable"))


@pytest.mark.parametrize("case", CASES)
def test_rows_of_units_that_follow_each_other_are_not_put_aside(
    small: Callable[[int], None], monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """Nor is a row of the first unit after all others lost: from there on rows are put aside."""
    kind, public, columns = CASES[case]
    table = grouped(pa.table(columns))
    whole, _ = read(kind, public, [table], None)
    late = pa.concat_tables([table.slice(1), table.slice(0, 1)])
    with room() as at:
        assert read(kind, public, in_files(late), at)[0] == whole
        assert at.is_scattered
    forms = ("parquet", "csv") if case != "vectors" else ("parquet",)
    monkeypatch.setattr(partitions, "Partitions", None)
    for rows, form in product((40, 300, 2000), forms):
        small(rows)
        with room() as at:
            files = in_files(table) if form == "parquet" else [table]
            assert read(kind, public, files, at, form)[0] == whole


@pytest.mark.parametrize("kind", [object, "S8"])
def test_a_run_that_is_put_aside_holds_nothing_of_it(kind: Any) -> None:
    """There are as many runs as parts, and a key may be as long as its record."""
    with room() as at:
        keys = np.array([f"{number:08}".encode() for number in range(1000)], dtype=kind)
        watched = weakref.ref(keys)
        content = {"start": np.arange(1001), "value": np.arange(1000.0)}
        run = Run(content, keys, "start", 100, Segments(at.descriptors[1]))
        del keys
        assert watched() is None
        assert run.has_more


def in_files(table: pa.Table) -> list[pa.Table]:
    return [table.slice(first, 1000) for first in range(0, ROWS, 1000)]


def test_rows_of_one_large_unit_are_copied_a_few_times(
    small: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many parts they would fill, between units of a few rows."""
    kind, public, _ = CASES["trips"]
    few = abs(PLACE - ROWS // 2) > ROWS // 2 - 100
    table = pa.table({"person": np.where(few, PLACE, ROWS), **TRIPS})
    whole, _ = read(kind, public, [table], None)
    together, copied = UnitRows.merge_batches, list[int]()

    def counted(units: UnitRows, parts: Sequence[Checked], known: int = 0) -> Checked:
        copied.append(sum(part.num_rows for part in parts))
        return together(units, parts, known)

    monkeypatch.setattr(UnitRows, "merge_batches", counted)
    monkeypatch.setattr(partitions, "Partitions", None)
    small(40)
    with room() as at:
        assert read(kind, public, [table], at, "csv")[0] == whole
    assert len(copied) > 4
    assert sum(copied) < 4 * ROWS


def test_a_unit_under_two_writings_far_apart() -> None:
    kind, public, _ = CASES["trips"]
    names = [f"p{row // UNIT}" for row in range(ROWS)]
    digests = []
    for last in (names[-1], "p0", " p0\u00a0"):
        table = pa.table({"person": [*names[:-1], last], **TRIPS, "count": TRIPS["count"] + 1})
        digests.append(read(kind, public, [table], None)[0])
        with room() as at:
            assert read(kind, public, in_files(table), at)[0] == digests[-1]
            assert at.is_scattered == (last != names[-1])
    assert digests[0] != digests[1] == digests[2]


def test_units_with_one_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, public, columns = CASES["names"]
    whole, _ = read(kind, public, [pa.table(columns)], None)
    monkeypatch.setattr(Owners, "hashes", lambda self, seed: np.full(len(self), 7, np.uint64))
    with room() as at:
        assert read(kind, public, shuffled(pa.table(columns), 2), at)[0] == whole


def test_a_unit_cut_in_two_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the digests above would miss if rows of a unit did not meet: here they do not."""
    kind, public, columns = CASES["trips"]
    whole, _ = read(kind, public, [pa.table(columns)], None)
    hashes = Owners.hashes

    def apart(self: Owners, seed: np.uint64) -> Any:
        return hashes(self, seed) + np.arange(len(self), dtype=np.uint64)

    monkeypatch.setattr(Owners, "hashes", apart)
    with room() as at:
        assert read(kind, public, [pa.table(columns)], at)[0] != whole


def test_few_rows_are_read_at_once() -> None:
    kind, public, columns = CASES["trips"]
    with room(whole_rows=ROWS) as at:
        read(kind, public, [pa.table(columns)], at)
        assert os.fstat(at.descriptors[0]).st_size == 0


def changed(case: str, **cells: Any) -> tuple[str, Any, pa.Table]:
    """A table of a case with other values in some rows: column=(rows, value)."""
    kind, public, columns = CASES[case]
    columns = {name: list(values) for name, values in columns.items()}
    for name, (rows, value) in cells.items():
        for row in rows:
            columns[name][row] = value
    schema = pa.table(CASES[case][2]).schema
    return kind, public, pa.table(columns, schema)


@pytest.mark.parametrize(
    ("table", "pointer", "says"),
    [
        (changed("trips", origin=([2718], 9)), "/content/2718/origin", "must be 1 to 3; found 9"),
        (changed("transitions", reward=([3141], 2.0)), "/content/3141/reward", "bound is 1"),
        (changed("transitions", state=([9], 7)), "/content/9/state", "must be 0 to 4; found 7"),
        (
            changed("transitions", step=([2003, 2718, 3141], 0)),
            "/content/2003/step",
            r"twice in its trajectory; found 0 \(and 2 more like this, up to /content/3141/step\)",
        ),
        (
            changed("transitions", terminal=([1002], True)),
            "/content/1003/step",
            "a terminal transition ends its trajectory",
        ),
        (
            changed("states", step=([3141], 50)),
            "/content/3141/step",
            "are 0, 1, 2, …, each once; found 50",
        ),
        (changed("meters", kw=([1618], float("nan"))), "/content/1618/kw", "a finite number"),
        (
            changed("meters", time=([1618], CLOCK[1617])),
            "/content/161[78]/time",
            "a reading of this time already",
        ),
    ],
)
def test_what_is_wrong_is_named_by_its_row(
    small: Callable[[int], None], table: Any, pointer: str, says: str
) -> None:
    """The same words for any number of partitions and files."""
    kind, public, rows = table
    told = set()
    for partition, files in ((300, 1), (2000, 2), (40, 3)):
        small(partition)
        cuts = np.linspace(0, ROWS, files + 1).astype(int).tolist()
        pieces = [rows.slice(here, end - here) for here, end in pairwise(cuts)]
        with room() as at, pytest.raises(InvalidInput, match=says) as refused:
            read(kind, public, pieces, at)
        told.add((refused.value.issues[0].pointer, refused.value.issues[0].detail))
    assert len(told) == 1
    with pytest.raises(InvalidInput, match=says.partition(r" \(")[0]) as whole:
        read(kind, public, [rows], None)
    first = min(int(issue.pointer.split("/")[2]) for issue in whole.value.issues)
    assert min(told)[0].startswith(f"/content/{first}/")


def trajectory_bits() -> tuple[str, Any, pa.Table]:
    """Rows of `transitions` with a step twice, where episodes should not end."""
    kind, public, table = changed("transitions", step=([2003], 0))
    return kind, {**public, "continuing": True}, table


def meters_out_of_support() -> tuple[str, Any, pa.Table]:
    """Somebody with a reading twice; others whose transitions the support does not have."""
    kind, public, table = changed("meters", time=([1618], CLOCK[1617]))
    return kind, {**public, "support": [[0, 0], [1, 1]]}, table


@pytest.mark.parametrize(
    ("table", "pointer"),
    [
        (trajectory_bits(), "/content/2003/step"),
        (meters_out_of_support(), "/content/161"),
        (
            (
                "routing",
                {**TRIPS_PUBLIC, "max_total": 1, "max_person": 1},
                pa.table(CASES["trips"][2]),
            ),
            "/content",
        ),
    ],
)
def test_of_several_faults_the_same_are_told(
    small: Callable[[int], None], table: Any, pointer: str
) -> None:
    """Those that reading at once tells, whichever units a drawn hash brings together."""
    kind, public, rows = table
    told = set()
    for partition in (20, 40, 300, 1000) * 2:
        small(partition)
        with room(content_bytes=50_000) as at, pytest.raises(InvalidInput) as refused:
            read(kind, public, [rows], at)
        told.add(tuple((issue.pointer, issue.detail) for issue in refused.value.issues))
    (issues,) = told
    assert issues[0][0].startswith(pointer)
    with pytest.raises(InvalidInput) as whole:
        read(kind, public, [rows], None)
    assert issues[0][1].split(";")[0] == whole.value.issues[0].detail.split(";")[0]


def test_how_many_states_the_first_of_them_has(small: Callable[[int], None]) -> None:
    """Participants of 2 to 5 states, the longest first, of which public steps allow none."""
    kind, _, _ = CASES["states"]
    length = np.repeat([5, 4, 3, 2], 50)
    step = np.concatenate([np.arange(one) for one in length])
    columns = {"participant": np.repeat(np.arange(200)[::-1], length), "step": step, "state": step}
    table = pa.table(columns)
    for partition in (20, 40, 300) * 2:
        small(partition)
        with room() as at, pytest.raises(InvalidInput, match="steps is 9; found 5 states") as one:
            read(kind, {"unit": "participant", "states": 5, "steps": 9}, [table], at)
        assert one.value.issues[0].pointer == "/content/0/participant"


@pytest.mark.parametrize("case", ["trips", "classes"])
def test_trips_of_nobody(case: str) -> None:
    """Rows that all count nothing are a content without records."""
    kind, public, columns = CASES[case]
    table = pa.table({**columns, "count": np.zeros(ROWS, np.int64)})
    with room() as at:
        found, arrays = read(kind, public, [table], at)
    assert found == read(kind, public, [table], None)[0]
    assert arrays["person_start"].tolist() == [0]


@pytest.mark.parametrize("case", ["trips", "transitions", "states"])
@pytest.mark.parametrize("types", [[pa.int32(), pa.date32()], [pa.string(), pa.binary()]])
def test_names_that_no_hash_is_for_are_read_at_once(case: str, types: list[pa.DataType]) -> None:
    kind, public, columns = CASES[case]
    table = pa.table(columns)
    owner = table.column(0)
    for one in types:
        owner = owner.cast(one)
    with room() as at:
        found, _ = read(kind, public, [table.set_column(0, table.column_names[0], owner)], at)
        assert os.fstat(at.descriptors[0]).st_size == 0
    assert found == read(kind, public, [table], None)[0]


@pytest.mark.parametrize("case", CASES)
def test_a_column_that_is_there_twice(case: str) -> None:
    kind, public, columns = CASES[case]
    table = pa.table(columns)
    table = table.append_column(table.schema.field(0), table.column(0))
    with room() as at, pytest.raises(InvalidInput, match="appears twice"):
        read(kind, public, [table], at)


@pytest.mark.parametrize(
    ("case", "public", "says"),
    [
        ("trips", {"max_total": 100}, "a period has more trips"),
        ("trips", {"max_pair": 10}, "a pair has more trips"),
        ("trips", {"max_person": 3}, "a person has more trips"),
        ("transitions", {"trajectories": 7}, "found 400 trajectories"),
        ("states", {"participants": 7}, "found 400 trajectories"),
        ("states", {"steps": 9}, "public.steps is 9; found 10 states"),
        ("meters", {"participants": 7}, "readings of 400 participants"),
        ("meters", {"steps": 11}, "no reading in the period from 2026-01-01T10"),
    ],
)
def test_what_is_wrong_with_the_whole(case: str, public: Any, says: str) -> None:
    kind, given, columns = CASES[case]
    table = pa.table(columns)
    with pytest.raises(InvalidInput, match=says):
        read(kind, {**given, **public}, [table], None)
    with room() as at, pytest.raises(InvalidInput, match=says):
        read(kind, {**given, **public}, shuffled(table, 2), at)


def test_a_content_that_is_too_large() -> None:
    kind, public, columns = CASES["trips"]
    with room(content_bytes=50_000) as at, pytest.raises(PayloadTooLarge, match="of at most 50000"):
        read(kind, public, [pa.table(columns)], at)


# On disk ------------------------------------------------------------------------------------------


def test_what_lies_on_disk_says_nothing_and_cannot_be_changed() -> None:
    descriptor = os.memfd_create("rows")
    try:
        kept = Segments(descriptor)
        first, second = kept.put(b"anna went home"), kept.put(b"ben went home")
        assert (kept.get(first), kept.get(second)) == (b"anna went home", b"ben went home")
        size = os.fstat(descriptor).st_size
        assert b"went" not in os.pread(descriptor, size, 0)
        with pytest.raises(InvalidTag):
            kept.get(second._replace(number=first.number))
        os.pwrite(descriptor, b"x", second.offset)
        with pytest.raises(InvalidTag):
            kept.get(second)
        kept.forget()
        again = kept.put(b"carl went home")
        assert (again.offset, again.number) == (0, 2), "a number seals one piece only"
    finally:
        os.close(descriptor)


def test_a_piece_that_no_call_takes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short read would be taken for a file that was changed."""
    monkeypatch.setattr(segments, "MOST_BYTES", 3)
    with pytest.raises(PayloadTooLarge, match="take 4 bytes, of at most 3"):
        Segments(-1).put(b"rows")


def test_a_file_that_is_cut_or_gone_is_seen(tmp_path: Path) -> None:
    """As a disk's fault, not as one of the upload."""
    descriptor = os.open(tmp_path, os.O_RDWR | os.O_TMPFILE)
    kept = Segments(descriptor)
    piece = kept.put(b"anna went home")
    for size in (piece.size - 1, 3, 0):
        os.ftruncate(descriptor, size)
        with pytest.raises(InvalidTag):
            kept.get(piece)
    os.close(descriptor)
    with pytest.raises(segments.NoSpool):
        kept.get(piece)


def test_a_file_that_may_not_grow_is_said(tmp_path: Path) -> None:
    """As to a child, whose files may have so many bytes (SIGXFSZ is ignored in Python)."""
    descriptor = os.open(tmp_path, os.O_RDWR | os.O_TMPFILE)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
    try:
        kept = Segments(descriptor)
        kept.put(bytes(60))
        with pytest.raises(PayloadTooLarge, match="more room on disk"):
            kept.put(bytes(60))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        os.close(descriptor)


def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    full = os.open("/dev/full", os.O_RDWR)
    try:
        with pytest.raises(segments.NoSpool) as refused:
            Segments(full).put(b"rows")
        assert refused.value.number == errno.ENOSPC

        def read_(*_: Any) -> Any:
            return Segments(full).put(b"rows")

        monkeypatch.setattr(reading, "_read", read_)
        assert reading.read({}, b"", (0, 1, full, full))[0] == {"no_room": errno.ENOSPC}
    finally:
        os.close(full)
