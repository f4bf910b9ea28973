"""Jobs on contents that stay at their places: what is unchanged is charged and answered as a stored
content is, and what is not to be had as it was registered charges nothing."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.from_thread
import httpx
import psycopg
import pyarrow as pa
import pyarrow.csv
import pytest
import structlog

from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.children import NotStarted, Zygote
from discreet.observability import faults
from discreet.settings import Settings
from discreet.storage.queue import LONG_QUEUE
from discreet.storage.tenants import Principal
from discreet.usecases import (
    access,
    datasets,
    endings,
    erasure,
    rotation,
    running,
    spooling,
)
from discreet.usecases.places import local, staying
from discreet.usecases.services import Services
from discreet.worker import runner
from discreet.worker.runner import Runner, Step
from discreet_client.contents import rows_of
from tests import bodies, causes
from tests.api import test_places_web as web
from tests.api.test_places_buckets import SECRET, Store
from tests.causes import CHARGED, NOTHING, RELEASED, as_owner, ended
from tests.conftest import settings_for
from tests.databases import Front, Meters, meters_of
from tests.places import allowing, parquet, trips
from tests.postgres_fixture import fresh_database
from tests.reliability.test_cancel_races import Died
from tests.reliability.test_parts import outcome, released

BUCKET = "stays"


@dataclass
class Site:
    """An API, a worker's runner, and the places that both may read."""

    settings: Settings
    folder: Path
    store: Store
    server: web.Server
    meters: Meters
    database: str
    """The address of the database."""
    services: Services = field(init=False)
    owner: Principal = field(init=False)
    zygote: Zygote = field(init=False)
    client: httpx.AsyncClient = field(init=False)
    numbers: Iterator[int] = field(default_factory=lambda: iter(range(10**4, 10**6, 1000)))

    async def register(self, address: str, **values: Any) -> dict[str, Any]:
        body = {**bodies.dataset(), "name": "exported", **values}
        body |= {"content_from": address, "content_stays": True}
        del body["content"]
        answer = await self.client.post("/v1/datasets", json=body)
        assert answer.status_code in (200, 201), answer.text
        return dict(answer.json())

    async def shown(self, dataset: str) -> dict[str, Any]:
        return dict((await self.client.get(f"/v1/datasets/{dataset}")).json())

    async def submit(self, dataset: str, **values: Any) -> str:
        answer = await self.client.post(
            "/v1/jobs",
            json={**bodies.job(dataset), **values},
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )
        assert answer.status_code in (200, 202), answer.text
        return str(answer.json()["id"])

    async def run(self, job: str) -> tuple[str, list[str]]:
        await Runner(self.services, self.zygote).run(job)
        return await outcome(self.services, self.owner, job)

    async def fails(self, dataset: dict[str, Any], code: str) -> None:
        """A job on it fails with this code, its sentence and the dataset's name, uncharged."""
        job = await self.submit(dataset["id"])
        await Runner(self.services, self.zygote).run(job)
        came = await ended(self.services, self.owner, job)
        about = f"{dataset['name']} ({dataset['id']})"
        assert came.detail == f"{endings.FAILURES[code]}: {about}; {NOTHING}"
        assert (came.code, came.ledger) == (code, RELEASED)


@asynccontextmanager
async def opened(site: Site) -> Any:
    async with AsyncExitStack() as stack:
        site.client = await stack.enter_async_context(causes.served(site.settings))
        site.services = site.client._transport.app.state.services  # type: ignore[attr-defined]
        site.owner = await access.local_owner(site.services)
        site.zygote = Zygote()
        stack.push_async_callback(site.zygote.stop)
        yield site


Work = Callable[[Site], Awaitable[None]]


@pytest.fixture(scope="module")
def at(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Work], None]]:
    """Runs work on one site."""
    base = tmp_path_factory.mktemp("site")
    folder = base / "exports"
    for one in (folder, base / "spool", base / "web"):
        one.mkdir()
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        store = Store()
        stack.callback(store.stop)
        store.files.call_s3("create_bucket", Bucket=BUCKET)
        http, server = web.serve(base / "web")
        stack.callback(http.server_close)
        stack.callback(http.shutdown)
        bucket = {"url": f"s3://{BUCKET}/", "endpoint": store.endpoint, "region": "us-east-1"}
        meters = stack.enter_context(meters_of(postgres))
        place = meters.place(stack.enter_context(Front(meters.sockets)))
        path = allowing(
            base,
            {"url": f"file://{folder}/"},
            {**bucket, "access_key": "key", "secret_key": SECRET},
            {
                "url": f"https://localhost:{server.port}/",
                "private": True,
                "authority": str(server.certificate),
            },
            place,
        )
        settings = settings_for(
            database, base / "state", content_places=path, spool=base / "spool", max_attempts=2
        )
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        causes.hasten(patch)
        patch.setattr(staying, "PLACE_SECONDS", 0.02)
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        site = stack.enter_context(
            portal.wrap_async_context_manager(
                opened(Site(settings, folder, store, server, meters, place["url"]))
            )
        )
        yield lambda work: portal.call(work, site)
        assert list((base / "spool").iterdir()) == []


def counted(settings: Settings, statement: str, *values: str) -> int:
    with psycopg.connect(str(settings.migration_database_url)) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        row = connection.execute(statement.encode(), values).fetchone()
    assert row is not None
    return int(row[0])


def test_a_content_that_stays_is_answered_as_a_stored_one(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, read as a whole or by parts, in another order and format than it was registered;
    neither its bytes nor its address are stored in the clear, nor are its bytes sealed."""

    async def work(site: Site) -> None:
        table, file = trips(next(site.numbers)), site.folder / "day.parquet"
        file.write_bytes(parquet(table))
        dataset = await site.register(f"file://{file}", mode="simulation")
        assert dataset["place"]["at"] == "file"
        at_first = dataset["place"]["unchanged_at"]
        held = "SELECT count(*) FROM dataset_chunks WHERE dataset_id = %s"
        assert counted(site.settings, held, dataset["id"]) == 0
        held = "SELECT count(*) FROM datasets AS d WHERE d::text LIKE %s"
        assert counted(site.settings, held, "%day.parquet%") == 0

        def changes(name: str) -> None:
            if name == "place.compared":  # what was compared is what is summed
                file.write_bytes(parquet(trips(next(site.numbers))))

        digests, good = set(), file.read_bytes()
        for part_bytes in (1 << 20, 100):
            with monkeypatch.context() as patched:
                patched.setattr(spooling, "PART_BYTES", part_bytes)
                patched.setattr(faults, "point", changes)
                job = await site.submit(dataset["id"], seed=7)
                assert (await site.run(job))[0] == "succeeded"
            assert file.read_bytes() != good
            file.write_bytes(good)
            digests.add(await released(site.services, job))
        # The same rows in another order are the same content.
        file.write_bytes(parquet(table.take(list(reversed(range(len(table)))))))
        job = await site.submit(dataset["id"], seed=7)
        assert (await site.run(job))[0] == "succeeded"
        digests.add(await released(site.services, job))
        assert (await site.shown(dataset["id"]))["place"]["unchanged_at"] > at_first
        assert len(digests) == 1

        # It is one content whichever way it is kept, and not silently the one or the other.
        body = {**bodies.dataset(), "mode": "simulation", "content_from": f"file://{file}"}
        del body["content"]
        stored = await site.client.post("/v1/datasets", json=body)
        assert (stored.status_code, stored.json()["code"]) == (409, "content_known")
        assert "stays at its place" in stored.json()["detail"]
        # Erased, its address is gone, and it may come back stored: to the same answers.
        gone = await site.client.delete(
            f"/v1/datasets/{dataset['id']}", headers={"Prefer": "return=representation"}
        )
        assert "at its place" in gone.json()["remains"][0]
        left = "SELECT count(*) FROM datasets WHERE id = %s AND place IS NOT NULL"
        assert counted(site.settings, left, dataset["id"]) == 0
        assert file.exists()
        stored = await site.client.post("/v1/datasets", json=body)
        assert (stored.status_code, "place" in stored.json()) == (201, False)
        assert stored.json()["account"] == dataset["account"]
        job = await site.submit(stored.json()["id"], seed=7)
        assert (await site.run(job))[0] == "succeeded"
        assert {await released(site.services, job)} == digests
        refused = await site.client.post("/v1/datasets", json={**body, "content_stays": True})
        assert "is stored" in refused.json()["detail"]

    at(work)


def test_what_is_not_as_it_was_registered_charges_nothing(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it was changed one code says so, after the same planned time; what is back as it was
    is served again."""
    waited: list[tuple[str, bool]] = []
    end = Step._end

    async def noted(step: Step, called_off: float | None) -> None:
        await end(step, called_off)
        waited.append((step.part, step.seconds >= staying.planned_seconds(0, 1)))

    monkeypatch.setattr(Step, "_end", noted)

    async def work(site: Site) -> None:
        file, table = site.folder / "changing.csv", trips(next(site.numbers))
        pyarrow.csv.write_csv(table, file)
        good, address = file.read_bytes(), f"file://{file}"
        dataset = await site.register(address, name="changing")
        for changed in (
            good[: len(good) // 2].rpartition(b"\n")[0] + b"\n",
            good + b"0,1,2,1\n",
            good.replace(b"\n0,1,2", b"\n0,1,3", 1),
            b"\xff not a table",
            b"",
        ):
            assert changed != good
            file.write_bytes(changed)
            waited.clear()
            await site.fails(dataset, "content_differs")
            assert waited == [("opening", True)]
        file.unlink()
        await site.fails(dataset, "content_missing")
        moved = site.folder / "moved.csv"
        moved.write_bytes(good)
        file.symlink_to(moved)  # no link is followed, wherever it leads
        await site.fails(dataset, "content_missing")
        # Registered where it lies now it is the same dataset, and its jobs find it.
        again = await site.register(f"file://{moved}")
        assert (again["id"], again["account"]) == (dataset["id"], dataset["account"])
        noted = "SELECT count(*) FROM audit_log WHERE action = 'dataset.place' AND object = %s"
        assert counted(site.settings, noted, dataset["id"]) == 1
        # So it is under a new master key.
        await rotation.rotate(site.services, site.settings.secrets_path, "content")
        job = await site.submit(dataset["id"])
        assert await site.run(job) == ("succeeded", list(CHARGED))
        # A free question about it needs no place.
        moved.unlink()
        first = {**bodies.job(dataset["id"])["problem"], "release": job}
        del first["dataset"]
        asked = await site.submit(dataset["id"], problem=first, privacy=None)
        assert await site.run(asked) == ("succeeded", [])
        moved.write_bytes(good)
        # The operator's file is asked again at each job.
        places = site.settings.content_places
        assert places is not None
        text = places.read_text()
        fewer = [one for one in json.loads(text)["places"] if not one["url"].startswith("file:")]
        places.write_text(json.dumps({"places": fewer}))
        await site.fails(dataset, "place_forbidden")
        places.write_text("{")
        await site.fails(dataset, "place_unreadable")
        places.write_text(text)
        # A reader that does not start says so, and accuses nobody's content.
        with monkeypatch.context() as planted:

            async def starts_not(*_: Any, **__: Any) -> None:
                raise NotStarted("planted")

            planted.setattr(site.services.reader._children, "call", starts_not)
            await site.fails(dataset, "content_not_read")
        # Who can write rows leads no job elsewhere.
        other = await site.register(f"file://{_written(site, 'other.parquet')}")
        swap = "UPDATE datasets SET place = (SELECT place FROM datasets WHERE id = %s)"
        as_owner(site.settings, f"{swap} WHERE id = %s", (other["id"], dataset["id"]))
        job = await site.submit(dataset["id"])
        await Runner(site.services, site.zygote).run(job)
        assert (await ended(site.services, site.owner, job)).code == "content_unreadable"

    at(work)


def _written(site: Site, name: str) -> Path:
    path = site.folder / name
    path.write_bytes(parquet(trips(next(site.numbers))))
    return path


@pytest.mark.long
def test_places_that_fail_for_a_while_and_for_good(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Throttling, broken connections and truncated answers are tried again, as at registration; an
    outage fails the job in the end."""

    async def work(site: Site) -> None:
        for number in range(2):
            part = parquet(trips(next(site.numbers)).slice(0, 10 + number))
            site.store.files.pipe_file(f"{BUCKET}/daily/part-{number}.parquet", part)
        dataset = await site.register(f"s3://{BUCKET}/daily/part-*.parquet")
        for fault in ("throttled", "cut"):
            site.store.faults[fault] = 2
            job = await site.submit(dataset["id"])
            assert await site.run(job) == ("succeeded", list(CHARGED))
            assert site.store.faults[fault] <= 0
        site.store.faults["denied"] = 100
        await site.fails(dataset, "place_unreadable")
        assert site.store.faults["denied"] == 98  # as often as a job is attempted
        site.store.faults.clear()
        site.store.files.pipe_file(f"{BUCKET}/daily/part-2.parquet", part)
        await site.fails(dataset, "content_differs")

        where = f"https://localhost:{site.server.port}/whole.parquet"
        monkeypatch.setattr(web, "CONTENT", parquet(trips(next(site.numbers))))
        dataset = await site.register(f"{where}?signature=s3cret")
        assert "s3cret" not in json.dumps(await site.shown(dataset["id"]))
        site.server.busy["/whole.parquet"] = 1
        job = await site.submit(dataset["id"])
        assert await site.run(job) == ("succeeded", list(CHARGED))
        assert [path for _, path, _ in site.server.asked] == 3 * ["/whole.parquet?signature=s3cret"]
        monkeypatch.setattr(web, "CONTENT", parquet(trips(next(site.numbers))))
        await site.fails(dataset, "content_differs")

    at(work)


def test_rows_that_stay_in_a_database(at: Callable[[Work], None]) -> None:
    """Each job asks again, in whatever order rows come: other rows, and a query that fails now,
    charge nothing, and what was asked is stored sealed."""

    async def work(site: Site) -> None:
        run, query = site.meters.run, "SELECT * FROM trips WHERE period >= 0 AND 'v1s1t' <> ''"
        address = rows_of(site.database, query)
        dataset = await site.register(address, name="rows")
        shown = await site.shown(dataset["id"])
        assert (shown["place"]["at"], shown["place"]["address"]) == ("postgresql", address)
        held = "SELECT count(*) FROM datasets AS d WHERE d::text LIKE %s"
        assert counted(site.settings, held, "%v1s1t%") == 0
        run("UPDATE trips SET count = count WHERE count < 20")  # which moves them to the end
        job = await site.submit(dataset["id"])
        assert await site.run(job) == ("succeeded", list(CHARGED))
        # Read in another way, with numbers of other types, or as a file, it is the same dataset.
        names = "period", "origin", "destination", "count"
        table = pa.table(list(zip(*run("TABLE trips"), strict=True)), names)
        parquet_file, csv_file = site.folder / "rows.parquet", site.folder / "rows.csv"
        parquet_file.write_bytes(parquet(table))
        pyarrow.csv.write_csv(table, csv_file)
        typed = "SELECT period::numeric(9, 2), origin::float8, destination::numeric, count::int4"
        for elsewhere in (
            f"file://{parquet_file}",
            f"file://{csv_file}",
            rows_of(site.database, f"{typed} FROM trips"),
            rows_of(site.database, "TABLE trips"),
        ):
            again = await site.register(elsewhere)
            assert (again["id"], again["account"]) == (dataset["id"], dataset["account"])
        role = f"ALTER ROLE {site.meters.user}"
        back_again = "UPDATE trips SET count = 7 WHERE count = 99"
        renamed = "ALTER TABLE trips RENAME TO journeys", "ALTER TABLE journeys RENAME TO trips"
        for change, back, code in (
            ("UPDATE trips SET count = 99 WHERE count = 7", back_again, "content_differs"),
            (*renamed, "content_missing"),
            (f"{role} NOLOGIN", f"{role} LOGIN", "place_unreadable"),
        ):
            run(change)
            await site.fails(dataset, code)
            run(back)

        # Blocks: each day is a query of its own, checked to be of that day.
        source = {
            "name": "days",
            "kind": "routing",
            "by": "day",
            "public": bodies.dataset()["public"],
            "cap": {"epsilon": 1, "delta": 0},
        }
        made = (await site.client.post("/v1/sources", json=source)).json()
        blocks = f"/v1/sources/{made['id']}/blocks"
        run("ALTER TABLE trips ADD COLUMN date date NOT NULL DEFAULT '2026-10-01'")
        run("UPDATE trips SET date = '2026-10-02' WHERE period > 4")
        for day in ("2026-10-01", "2026-10-02"):
            asked = "SELECT * FROM trips WHERE date = 'DAY'".replace("DAY", day)
            body = {"block": day, "content_from": rows_of(site.database, asked)}
            stays = day.endswith("2")
            answer = await site.client.post(blocks, json={**body, "content_stays": stays})
            assert answer.status_code == 201, answer.text
        whole = {**body, "content_from": rows_of(site.database, "TABLE trips")}
        refused = await site.client.post(blocks, json=whole)
        assert (refused.status_code, "not of this block" in refused.text) == (422, True)
        problem = {**bodies.job("")["problem"]}
        del problem["dataset"]
        problem["source"] = {"id": made["id"], "blocks": "2026-10-01/2026-10-02"}
        job = await site.submit("", problem=problem)
        assert await site.run(job) == ("succeeded", list(CHARGED))
        body = {**bodies.dataset(), "content_from": rows_of(site.database, "SELECT x FROM trips")}
        del body["content"]
        refused = await site.client.post("/v1/datasets", json=body)
        assert (refused.status_code, refused.json()["code"]) == (422, "query_refused")
        assert 'column "x" does not exist, at character 8' in refused.text.replace("\\", "")

    at(work)


def test_nothing_shows_before_the_padded_time(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the log nor `unchanged_at`, which everybody in the tenant sees, tells when a content
    came or how large it was: what is written of it is written once the padded time is over."""
    end, seen = Step._end, "SELECT count(*) FROM datasets WHERE id = %s AND seen_at = %s"
    before: list[tuple[str, int, list[Any]]] = []

    async def work(site: Site) -> None:
        file = _written(site, "timed.parquet")
        dataset = await site.register(f"file://{file}")
        first = dataset["place"]["unchanged_at"]

        async def looking(step: Step, called_off: float | None) -> None:
            unmoved = counted(site.settings, seen, dataset["id"], first)
            before.append((step.part, unmoved, [*logs]))
            await end(step, called_off)

        monkeypatch.setattr(Step, "_end", looking)
        job = await site.submit(dataset["id"])
        with structlog.testing.capture_logs() as logs:
            assert await site.run(job) == ("succeeded", list(CHARGED))
            assert before[0] == ("opening", 1, [])
            assert (await site.shown(dataset["id"]))["place"]["unchanged_at"] > first
        file.write_bytes(b"")
        before.clear()
        with structlog.testing.capture_logs() as logs:
            await site.fails(dataset, "content_differs")
        (at_end,) = before
        assert at_end[0] == "opening"
        assert {one["event"] for one in at_end[2]} == {"job accepted"}
        # So it is with an error that nobody expects.
        before.clear()
        monkeypatch.setattr(local, "copy", lambda *_: 1 / 0)
        job = await site.submit(dataset["id"])
        with pytest.raises(ZeroDivisionError):
            await site.run(job)
        assert [part for part, *_ in before] == ["opening"]
        (told,) = [one for one in logs if one["log_level"] == "warning"]
        assert (told["code"], told["cause"]) == ("content_differs", "invalid_input")

    at(work)


def test_an_address_that_comes_while_its_dataset_is_erased_is_not_kept(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the dataset and the new address somebody erases it: neither an address
    nor a key comes back into the row."""

    async def work(site: Site) -> None:
        file = _written(site, "erased.parquet")
        dataset = await site.register(f"file://{file}")

        async def erased_first(*arguments: Any) -> None:
            await erasure.erase(site.services, site.owner, dataset["id"])
            await staying.keep_alike(*arguments)

        body = {**bodies.dataset(), "content_from": f"file://{file}", "content_stays": True}
        del body["content"]
        with monkeypatch.context() as racing:
            racing.setattr(datasets, "keep_alike", erased_first)
            refused = await site.client.post("/v1/datasets", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "content_known")
        left = "SELECT count(*) FROM datasets WHERE id = %s AND (place, wrapped_key) IS NOT NULL"
        assert counted(site.settings, left, dataset["id"]) == 0
        again = await site.register(f"file://{file}")
        assert (again["id"] != dataset["id"], again["account"]) == (True, dataset["account"])

    at(work)


def test_a_worker_that_dies_between_fetch_and_touch_charges_nothing(
    at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one fetches again; what the first had fetched is gone with its descriptors. One whose
    places for long jobs are all taken does not begin to fetch: a place may send slowly."""

    async def work(site: Site) -> None:
        dataset = await site.register(f"file://{_written(site, 'kept.parquet')}")
        job = await site.submit(dataset["id"])
        # Its entry is gone, or being done, when a worker runs it.
        gone = "DELETE FROM procrastinate_jobs WHERE queueing_lock = %s"
        as_owner(site.settings, gone, (job,))
        await Runner(site.services, site.zygote).run(job, lambda: False)
        assert await outcome(site.services, site.owner, job) == ("queued", ["reserve"])
        queued = "SELECT count(*) FROM procrastinate_jobs WHERE queueing_lock = %s"
        assert counted(site.settings, f"{queued} AND queue_name = %s", job, LONG_QUEUE) == 1

        def point(name: str) -> None:
            if name == "place.compared":
                raise Died

        with monkeypatch.context() as dying:
            dying.setattr(faults, "point", point)
            held = await running.claim(site.services, job)
            assert held is not None
            with pytest.raises(Died):
                await running.open_content(site.services, held)
        state, entries = await outcome(site.services, site.owner, job)
        assert (state, entries) == ("running", ["reserve"])
        late = "UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = %s"
        as_owner(site.settings, late, (job,))
        assert await site.run(job) == ("succeeded", list(CHARGED))

    at(work)


def test_blocks_that_stay(at: Callable[[Work], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A job over blocks fetches those that stay, in a time that is planned for as many; one that
    changed is named, and no block is charged."""
    planned: list[int] = []

    def noted(opening_seconds: float, contents: int) -> float:
        planned.append(contents)
        return staying.planned_seconds(opening_seconds, contents)

    monkeypatch.setattr(runner, "planned_seconds", noted)
    between, asked = runner.Between.__call__, list[float]()

    async def waiting(self: runner.Between) -> None:
        ends = self._started + self._share
        await between(self)
        asked.append(self._started - ends)

    monkeypatch.setattr(runner.Between, "__call__", waiting)

    async def work(site: Site) -> None:
        source = {
            "name": "wards",
            "kind": "routing",
            "by": "label",
            "public": bodies.dataset()["public"],
            "cap": {"epsilon": 1, "delta": 0},
        }
        made = (await site.client.post("/v1/sources", json=source)).json()
        blocks = f"/v1/sources/{made['id']}/blocks"
        for label, stays in (("north", True), ("south", False), ("west", True)):
            body = {"block": label, "content_from": f"file://{_written(site, label + '.parquet')}"}
            answer = await site.client.post(blocks, json={**body, "content_stays": stays})
            assert answer.status_code == 201, answer.text
        problem = {**bodies.job("")["problem"]}
        del problem["dataset"]
        problem["source"] = {"id": made["id"], "blocks": ["north", "south", "west"]}
        job = await site.submit("", problem=problem)
        assert await site.run(job) == ("succeeded", list(CHARGED))
        assert planned == [2]
        # The second and third place are asked when the time of the content before is over.
        assert len(asked) == 2
        assert all(early > 0 for early in asked)
        shutil.copy(site.folder / "north.parquet", site.folder / "west.parquet")
        job = await site.submit("", problem=problem)
        await Runner(site.services, site.zygote).run(job)
        came = await ended(site.services, site.owner, job)
        assert (came.code, came.ledger) == ("content_differs", RELEASED)
        assert ": wards, west (dst_" in came.detail

    at(work)
