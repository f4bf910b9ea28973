"""Children load nothing and open nothing after they have lost their rights, whatever they meet:
good input, wrong and broken."""

from __future__ import annotations

import asyncio
import io
import json
import os
import random
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from discreet.isolation import children, described
from discreet.isolation.children import ChildFailed, Crashed, Limits, Raised, Zygote
from discreet.isolation.partitions import WHOLE_ROWS
from discreet.isolation.reading import UPLOAD, target_bytes
from discreet.isolation.spooled import in_memory
from discreet.isolation.tasks import READING, SOLVING
from discreet.problems import DATASETS, KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import framed, pack, unpack
from discreet.problems.descriptions import completed
from discreet.problems.federation import FederatedProblem
from discreet.storage.sealing import ChunkCipher, SealedWriter, new_data_key, seal_stream
from tests.clients.test_containers import workbook
from tests.conftest import worst_cases

LIMITS = Limits(4 << 30, 300, 300.0, target_bytes(1 << 30))


@pytest.fixture(scope="module", autouse=True)
def watched_children() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        made = children.plain_environment()
        patch.setattr(children, "template", None)
        patch.setattr(children, "ZYGOTE_MODULE", "tests.isolation.watched")
        path = os.pathsep.join(
            filter(None, [str(Path(__file__).parents[2]), made.get("PYTHONPATH")])
        )
        patch.setattr(children, "plain_environment", lambda: {**made, "PYTHONPATH": path})
        yield


class Watch:
    """Runs tasks, and keeps by their names what they did that they may not."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self.caught: dict[str, str] = {}
        self.ends: dict[str, str] = {}

    async def run(
        self,
        name: str,
        header: dict[str, Any],
        payload: bytes = b"",
        descriptors: tuple[int, ...] = (),
    ) -> children.Output | None:
        heard, told = os.pipe()
        end, output = "done", None
        try:
            output = await self._zygote.run(header, payload, LIMITS, None, (*descriptors, told))
            if "refused" in output.header:
                end = output.header["refused"]["class"]
        except ChildFailed as failure:
            end = type(failure).__name__
            if isinstance(failure, Crashed) and "SIGSYS" in failure.detail:  # the walls' own end
                self.caught[name] = failure.detail
        finally:
            os.close(told)
            said = b"".join(iter(lambda: os.read(heard, 1 << 16), b"")).decode()
            os.close(heard)
            if said:
                self.caught[name] = said
        self.ends[name] = end
        return output


def one_kind_and_others(kinds: Iterable[str]) -> pytest.MarkDecorator:
    """`make test` watches one kind, and `make test-all` the others."""
    return pytest.mark.parametrize(
        "kind",
        [
            pytest.param(kind, marks=pytest.mark.long if place else ())
            for place, kind in enumerate(kinds)
        ],
    )


Watching = Callable[[Callable[[Watch], Awaitable[None]]], Watch]


@contextmanager
def watching(programs: tuple[str, ...]) -> Iterator[Watching]:
    """Runs work on one fork server; to start another for every kind would take longer than the
    work."""
    with asyncio.Runner() as runner:
        zygote = Zygote("full", programs)

        def go(work: Callable[[Watch], Awaitable[None]]) -> Watch:
            async def whole() -> Watch:
                await work(watch := Watch(zygote))
                return watch

            return runner.run(whole())

        try:
            yield go
        finally:
            runner.run(zygote.stop())


@pytest.fixture(scope="module")
def reading() -> Iterator[Watching]:
    with watching((READING,)) as go:
        yield go


@pytest.fixture(scope="module")
def solving() -> Iterator[Watching]:
    with watching((SOLVING,)) as go:
        yield go


# Uploads ------------------------------------------------------------------------------------------


async def upload(
    watch: Watch,
    name: str,
    kind: str,
    public: Any,
    form: str,
    content: bytes,
    whole_rows: int = WHOLE_ROWS,
    **more: Any,
) -> None:
    key = "11" * 32
    job = {
        "kind": kind,
        "public": public,
        "mode": "private",
        "format": form,
        "tenant": "ten_1",
        "name": "dst_1",
        "accept_doubts": False,
    }
    keys = {"upload_key": key, "data_key": key, "digest_key": key}
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(4)]
        source = files[0]
        writer = SealedWriter(
            ChunkCipher(bytes.fromhex(key), UPLOAD), lambda part: os.write(source.fileno(), part)
        )
        writer.write(content)
        writer.finish()
        given = {**job, **keys, "upload_bytes": writer.sealed_bytes, "content_bytes": 1 << 30}
        given |= {"whole_rows": whole_rows, **more}
        header = {"step": "read", "arguments": given}
        await watch.run(name, header, b"", tuple(file.fileno() for file in files))
        if more.get("described") and not name.startswith(("sample", "torn")):
            header["step"] = "preview"
            await watch.run(f"{name}, looked at", header, b"", (source.fileno(),))


def json_files(kind: str, content: dict[str, Any]) -> Iterator[tuple[str, bytes]]:
    good = json.dumps(content).encode()
    yield "good", good
    for place in leaves(content):
        for wrong in ("ü", -1, 1.5, 10**30, None, True, [], {"x": 1}, [[1]], float("nan")):
            yield f"wrong {wrong} at {place}", json.dumps(replaced(content, place, wrong)).encode()
    yield "wrong key", json.dumps({**content, "unknown": [1]}).encode()
    draw = random.Random(kind)
    for number in range(5):
        yield f"garbage {number}", draw.randbytes(draw.randrange(1, 2000))
        yield f"cut {number}", good[: draw.randrange(len(good))]
        yield f"torn {number}", torn(draw, good)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Places in a JSON value, of the first element of each array."""
    if path:
        yield path
    items = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value[:1])
        if isinstance(value, list)
        else ()
    )
    for key, child in items:
        yield from leaves(child, (*path, key))


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    copy = json.loads(json.dumps(value))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = by
    return copy


def torn(draw: random.Random, good: bytes) -> bytes:
    """With a few bytes changed."""
    bad = bytearray(good)
    for _ in range(4):
        bad[draw.randrange(len(bad))] = draw.randrange(256)
    return bytes(bad)


WRONG = (
    None,
    "ü",
    b"\xff",
    True,
    2.5,
    float("inf"),
    -7,
    1 << 62,
    [1],
    {"a": 1},
    datetime(2026, 1, 1, tzinfo=UTC),
)


def table_files(kind: str, columns: dict[str, list[Any]]) -> Iterator[tuple[str, str, bytes]]:
    tables = {"good": columns, "wrong: a column more": {**columns, "more": columns[min(columns)]}}
    for name, values in columns.items():
        tables[f"wrong: no {name}"] = {
            other: column for other, column in columns.items() if other != name
        }
        for wrong in (
            None,
            "ü",
            b"\xff",
            True,
            2.5,
            float("inf"),
            -7,
            1 << 62,
            [1],
            {"a": 1},
            datetime(2026, 1, 1),
        ):
            tables[f"wrong: {name} = {wrong!r}"] = {**columns, name: [wrong] * len(values)}
    draw = random.Random(kind)
    for what, table in tables.items():
        made = pa.table(table)
        for form, write in (("parquet", pq.write_table), ("csv", pc.write_csv)):
            no_text = any(
                pa.types.is_nested(kind) or pa.types.is_binary(kind) for kind in made.schema.types
            )
            if form == "csv" and no_text:
                continue
            sink = io.BytesIO()
            write(made, sink)
            yield what, form, sink.getvalue()
            if what == "good":
                good = sink.getvalue()
                for number in range(5):
                    yield f"garbage {number}", form, draw.randbytes(draw.randrange(1, 2000))
                    yield f"cut {number}", form, good[: draw.randrange(len(good))]
                    yield f"torn {number}", form, torn(draw, good)


@pytest.mark.timeout(600)
@one_kind_and_others(DATASETS)
def test_a_reader_loads_and_opens_nothing(reading: Watching, kind: str) -> None:
    async def work(watch: Watch) -> None:
        for form, example in enumerate(
            (KINDS[kind].example()["problem"]["dataset"], *DATASETS[kind].sample_contents())
        ):
            for what, content in json_files(kind, example["content"]):
                if form == 0 or what.startswith(("good", "wrong")):
                    await upload(
                        watch, f"json {form} {what}", kind, example["public"], "json", content
                    )
        for number, (public, columns) in enumerate(DATASETS[kind].sample_tables()):
            for what, form, content in table_files(kind, columns):
                if number == 0 or what == "good":
                    await upload(watch, f"{form} {number} {what}", kind, public, form, content)
                    if form == "parquet" and what.startswith(("good", "wrong")):
                        name = f"{form} {number} in parts {what}"
                        await upload(watch, name, kind, public, form, content, whole_rows=0)

    watch = reading(work)
    assert watch.caught == {}
    for form in ("json", "csv", "parquet"):
        ends = {name: end for name, end in watch.ends.items() if name.startswith(form)}
        if form == "csv" and not ends:
            continue
        assert "done" in ends.values(), form
        assert "InvalidInput" in ends.values(), form
    # Every child answers, in words for the owner of the file.
    assert {
        name: end
        for name, end in watch.ends.items()
        if end not in ("done", "InvalidInput", "PayloadTooLarge")
    } == {}


ROWS: list[tuple[Any, ...]] = [
    ("Köln", "B", datetime(2026, 11, 2, 7, 10), 1.5),
    ("B", "Köln", datetime(2026, 11, 2, 8, 10), 2),
]
NAMES = ("Von", "Nach", "Zeit", "Fahrten")
TRIPS: dict[str, Any] = {
    "unit": "request",
    "zones": 2,
    "periods": 2,
    "period_minutes": 60,
    "trip_scale": 10,
    "columns": {"origin": "Von", "destination": "Nach", "time": "Zeit", "count": "Fahrten"},
}
RULES: dict[str, Any] = {
    "time_zone": "Europe/Berlin",
    "start": "2026-11-02T07:00",
    "zones": ["Köln", "B"],
}


def own_files() -> Iterator[tuple[str, str, dict[str, Any], str, bytes]]:
    """Name, kind, public part, form and bytes of tables of somebody's own: what is rehearsed, and
    what is not."""
    for number, (kind, public, form, content) in enumerate(described.samples()):
        yield f"sample {number} {form}", kind, public, form, content

    def of(rules: dict[str, Any]) -> dict[str, Any]:
        return completed("routing", {**TRIPS, "reader": {**RULES, **rules}})

    lines = [f"{o};{d};{t:%d.%m.%Y %H:%M};{str(n).replace('.', ',')}" for o, d, t, n in ROWS]
    text = "\n".join([";".join(NAMES), *lines])
    for encoding in ("cp1252", "cp1250", "mac_roman", "iso8859_15", "utf-16", "cp850", "cp1140"):
        said = {} if encoding == "utf-16" else {"encoding": encoding}
        yield f"csv {encoding}", "routing", of(said), "csv", text.encode(encoding)
    for encoding in ("shift_jis", "gb18030", "koi8_r", "cp864"):  # which lack some of its letters
        yield f"csv {encoding}", "routing", of({"encoding": encoding}), "csv", text.encode("cp1252")
    for zone in ("Asia/Kathmandu", "Pacific/Chatham", "America/Bogota", "Etc/GMT+12", "UTC"):
        for every in ({}, {"every": "weekday"}):
            rules = of({"time_zone": zone, **every})
            yield f"csv {zone} {every}", "routing", rules, "csv", text.encode()
    table = pa.table(dict(zip(NAMES, zip(*ROWS, strict=True), strict=True)))
    zoned = table.set_column(2, "Zeit", table["Zeit"].cast(pa.timestamp("ms", "Asia/Tokyo")))
    typed = table.set_column(0, "Von", table["Von"].dictionary_encode())
    typed = typed.set_column(3, "Fahrten", typed["Fahrten"].cast(pa.decimal128(9, 1)))
    compressions = [(one, "plain", table) for one in ("none", "gzip", "zstd", "brotli", "lz4")]
    for compression, what, one in (
        *compressions,
        ("snappy", "zoned", zoned),
        ("snappy", "typed", typed),
    ):
        sink = io.BytesIO()
        pq.write_table(one, sink, compression=compression)
        yield f"parquet {compression} {what}", "routing", of({}), "parquet", sink.getvalue()
    yield "xlsx", "routing", of({}), "xlsx", workbook([NAMES, *ROWS])
    sheets = workbook([("x",)], Other=[NAMES, ("", "", "", "Fzg"), *ROWS])
    yield "xlsx sheet", "routing", of({"sheet": "Other", "units_row": True}), "xlsx", sheets
    yield "xlsx, which sheet?", "routing", of({}), "xlsx", sheets
    objects = [{**dict(zip(NAMES, row, strict=True)), "Zeit": str(row[2])} for row in ROWS]
    yield "json", "routing", of({}), "json", json.dumps(objects).encode()
    yield (
        "json columns",
        "routing",
        of({}),
        "json",
        json.dumps(table.to_pydict(), default=str).encode(),
    )
    matrix = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60, "reader": {}}
    for options in ({"compression": "gzip"}, {"compression": "lzf"}, {"shuffle": True}, {}):
        sink = io.BytesIO()
        with h5py.File(sink, "w") as file:
            file.create_dataset("data/a", data=[[0.0, 2.0], [1.0, 0.0]], chunks=(2, 2), **options)
            file["lookup/names"] = np.array([b"x", b"y"])
        yield f"omx {options}", "routing", completed("routing", matrix), "omx", sink.getvalue()


@pytest.mark.timeout(600)
def test_a_reader_of_described_tables_loads_and_opens_nothing(reading: Watching) -> None:
    """Of any time zone and any codec: they are met beforehand."""

    async def work(watch: Watch) -> None:
        draw = random.Random(5)
        more = {"described": True, "memory_bytes": 1 << 30, "zones": None}
        for name, kind, public, form, content in own_files():
            await upload(watch, name, kind, public, form, content, **more)
            if not name.startswith(("csv", "sample")):
                bad = torn(draw, content)
                await upload(watch, f"torn {name}", kind, public, form, bad, **more)

    watch = reading(work)
    assert watch.caught == {}
    for form in ("csv cp1252", "csv Pacific/Chatham {}", "xlsx", "json", "parquet zstd plain"):
        assert watch.ends[form] == "done", form
    assert "InvalidInput" in watch.ends.values()
    known = ("done", "InvalidInput", "PayloadTooLarge")
    assert {name: end for name, end in watch.ends.items() if end not in known} == {}


# Steps of jobs ------------------------------------------------------------------------------------


@pytest.mark.timeout(600)
@one_kind_and_others(KINDS)
def test_a_solver_loads_and_opens_nothing(solving: Watching, kind: str) -> None:
    problem, dataset, budget = read_example(KINDS[kind])
    public = None if dataset is None else dataset.public
    header: dict[str, Any] = {
        "kind": kind,
        "problem": problem.model_dump(mode="json"),
        "public": None if public is None else public.model_dump(mode="json"),
        "plan": problem.plan(public, budget).model_dump(mode="json"),
        "simulation": dataset is None,
        "seed": None,
    }
    content = b"" if dataset is None else pack(dataset.rows())

    async def work(watch: Watch) -> None:
        released = await watch.run("release", {**header, "step": "release"}, content)
        assert released is not None
        await watch.run(
            "simulated", {**header, "step": "release", "simulation": True, "seed": 3}, content
        )
        assert await watch.run("finish", {**header, "step": "finish"}, released.payload) is not None
        if header["plan"]["parts_by"] is not None:
            await by_shares(watch, header, content)
        await by_other_ways(watch, kind)
        draw = random.Random(kind)
        for step, good in (("release", content), ("finish", released.payload)):
            asked = {**header, "step": step}
            for what, payload in inputs(draw, good):
                await watch.run(f"{step} {what}", asked, payload)
            for field in ("problem", "plan", "public"):
                await watch.run(f"{step} wrong {field}", {**asked, field: {"nothing": 1}}, good)
        if issubclass(KINDS[kind], FederatedProblem):
            for what, payload in inputs(draw, content or b"state"):
                for state in (True, False):
                    session = {"step": "session", "agents": [], "round": 0, "state": state}
                    session |= {"roster": ""}
                    await watch.run(f"session {what} {state}", {**header, **session}, payload)

    watch = solving(work)
    assert watch.caught == {}
    assert Raised.__name__ in watch.ends.values()


def test_sums_under_a_paillier_key_load_nothing(solving: Watching) -> None:
    """The kind's example sums with masks, which need no key."""
    job = KINDS["coupled_qp"].example()["problem"]
    job["encryption"] = {"scheme": "paillier", "key_bits": 2048}
    problem = KINDS["coupled_qp"].model_validate(job)
    header = {
        "kind": "coupled_qp",
        "problem": problem.model_dump(mode="json"),
        "public": None,
        "plan": problem.plan(None, problem.budget(None)).model_dump(mode="json"),
        "simulation": True,
        "seed": None,
    }

    async def work(watch: Watch) -> None:
        released = await watch.run("release", {**header, "step": "release"})
        assert released is not None
        assert await watch.run("finish", {**header, "step": "finish"}, released.payload) is not None

    assert solving(work).caught == {}


async def by_shares(watch: Watch, header: dict[str, Any], content: bytes) -> None:
    """The same content in two shares and a release of both; and broken ones, in which the seals
    are good."""
    for what, plain in (("", content), *inputs(random.Random(len(content)), content)):
        key = new_data_key()
        with tempfile.TemporaryFile() as file:
            file.write(sealed := seal_stream(key, "dst_1", plain))
            file.flush()
            one = {"name": "dst_1", "data_key": key.hex(), "offset": 0}
            asked = {
                **header,
                "step": "share",
                "contents": [{**one, "sealed_bytes": len(sealed)}],
                "part_bytes": 100,
            }
            shares = [
                await watch.run(
                    f"share {number} {what}",
                    {**asked, "share": [number, 2]},
                    b"",
                    (file.fileno(),),
                )
                for number in range(2)
            ]
        sums = [share.payload for share in shares if share is not None]
        assert len(sums) == 2 or what, "of the good content both shares are summed"
        release = {**asked, "step": "release", "shares": 2}
        await watch.run(f"release of shares {what}", release, bytes(framed(sums)))


async def by_other_ways(watch: Watch, kind: str) -> None:
    """Contents of which one child samples records, a few in memory at once, and all of them; those
    whose sums follow from a number that comes first; and broken ones."""
    for number, case in enumerate(worst_cases(kind)):
        counted = case.plan.parts_by is not None and len(case.plan.events) > 1
        if case.plan.sampled_by is None and not counted:
            continue
        header = {
            "kind": kind,
            "problem": case.problem.model_dump(mode="json"),
            "public": case.public.model_dump(mode="json"),
            "plan": case.plan.model_dump(mode="json"),
            "simulation": False,
            "seed": None,
            "step": "release",
        }
        good = pack(case.left)
        if counted:
            await by_shares(watch, header, good)
            continue
        for what, plain in (("", good), *inputs(random.Random(number), good)):
            with in_memory(plain) as (content, descriptor):
                for window, blocks in ((100, 1), (None, 1), (100, 2)):
                    asked = {**header, "contents": [content] * blocks, "window_bytes": window}
                    name = f"samples {number} {window} {blocks} {what}"
                    released = await watch.run(name, asked, b"", (descriptor,))
                    assert released is not None or what


def inputs(draw: random.Random, good: bytes) -> Iterator[tuple[str, bytes]]:
    if good:
        arrays = unpack(good) if good[:2] == b"PK" else {}
        for name, array in arrays.items():
            yield (
                f"wrong: no {name}",
                pack({other: one for other, one in arrays.items() if other != name}),
            )
            # Of the same type: what a child is given was made by a reader, and a kernel has one
            # type.
            yield f"wrong: {name} empty", pack({**arrays, name: array.reshape(-1)[:0]})
        yield "cut", good[: len(good) // 2]
        yield "torn", torn(draw, good)
    yield "garbage", draw.randbytes(500)


# The watch itself ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def nothing() -> Iterator[Watching]:
    with watching(()) as go:
        yield go


@pytest.mark.parametrize(
    "does", ["opens", "opens unseen", "imports", "meets a time zone", "meets a codec"]
)
def test_the_watch_notices(nothing: Watching, does: str) -> None:
    async def work(watch: Watch) -> None:
        await watch.run("honest", {"step": "careless", "does": "nothing"})
        await watch.run(does, {"step": "careless", "does": does})

    assert set(nothing(work).caught) == {does}
