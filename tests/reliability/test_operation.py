"""Faults in operation: workers whose clocks are wrong, a worker that is replaced in the middle of a
job, a database whose clock jumps, workers that are killed while they share a release.
Restarts of PostgreSQL under load are in `chaos.py`."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, LiteralString

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability.faults import SWITCH
from discreet.storage.migrations import migrate
from discreet_client.client import Client
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, installation
from tests.postgres_fixture import next_revision
from tests.processes import alive, command, family
from tests.reliability.books import check_books
from tests.reliability.chains import superuser_url

HOURS = 3
ZONES = 30

WRONG_CLOCK = """
import time
_time, _time_ns = time.time, time.time_ns
time.time = lambda: _time() + {seconds}
time.time_ns = lambda: _time_ns() + {seconds} * 10**9
"""


@pytest.fixture
def running(postgres: EmbeddedPostgres, template: str, tmp_path: Path) -> Iterator[Installation]:
    with installation(
        postgres, template, tmp_path / "state", workers=0, lease_seconds=2.0
    ) as started:
        yield started


def start_worker(running: Installation, folder: Path, hours: int) -> int:
    """A worker that believes that it is so many hours later."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(WRONG_CLOCK.format(seconds=3600 * hours))
    running.extra = {
        "PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    }
    return running.start_worker().pid


def child_of(worker: int) -> int | None:
    """A solver's child: what the worker's zygote has forked."""
    zygote = next(
        (pid for pid in family(worker)[1:] if "discreet.isolation.zygote" in command(pid)), None
    )
    return None if zygote is None else next(iter(family(zygote)[1:]), None)


def has_begun(client: Client, job: str) -> bool:
    return bool(client.job(job)["state"] != "queued")


def hold(
    client: Client, body: dict[str, Any], worker: int, jobs: dict[str, set[str]]
) -> tuple[str, int]:
    """A job, and its child, which is stopped in the middle of the work. Those that were too quick
    are in `jobs` too."""
    for _ in range(5):
        key = f"job {len(jobs)}"
        job = client.submit(body, idempotency_key=key)["id"]
        jobs[key] = {job}
        # Not before it runs: a new zygote tries on a child of its own how well children are shut
        # in.
        eventually(partial(has_begun, client, job), "the job runs")
        while client.job(job)["finished_at"] is None:
            for _ in range(200):
                if (child := child_of(worker)) is not None:
                    os.kill(child, signal.SIGSTOP)
                    # One that was stopped after its last word is ended by the worker soon.
                    time.sleep(0.5)
                    if alive(child) and client.job(job)["finished_at"] is None:
                        return job, child
                    with suppress(ProcessLookupError):
                        os.kill(child, signal.SIGCONT)
    raise AssertionError("every job was over before it could be held")


@pytest.mark.long
def test_an_upgrade_in_mid_job_between_workers_with_wrong_clocks(
    postgres: EmbeddedPostgres, running: Installation, tmp_path: Path
) -> None:
    """The old worker's clock is hours ahead, the new one's hours behind; leases are by the
    database's clock. Then the database's clock jumps, as the worker sees it: its lease ends hours
    ago."""
    url = superuser_url(postgres, running.settings)
    old = start_worker(running, tmp_path / "ahead", HOURS)
    jobs: dict[str, set[str]] = {}
    with running.client() as client:
        dataset = client.register(bodies.dataset(zones=ZONES))["id"]
        body = bodies.job(dataset, network=bodies.grid(25), relative_gap=1e-6)
        first, _ = hold(client, body, old, jobs)
        os.kill(old, signal.SIGTERM)
        assert running.workers[0].wait(DEADLINE_SECONDS) == 0
        found = client.job(first)
        assert (found["state"], found["finished_at"]) == ("queued", None), (
            "the job was not handed back"
        )

        new = start_worker(running, tmp_path / "behind", -HOURS)
        assert client.wait(first)["state"] == "succeeded"
        second, child = hold(client, body, new, jobs)
        with psycopg.connect(url, autocommit=True) as connection:
            moved = (
                "UPDATE jobs SET lease_until = lease_until - interval '3 hours' WHERE id = %s "
                "AND state = 'running'"
            )
            assert connection.execute(moved, (second,)).rowcount == 1
        os.kill(child, signal.SIGCONT)
        assert client.wait(second)["state"] == "succeeded"
    books = check_books(url, jobs)
    assert books.outcomes == {"succeeded, charged": len(jobs)}
    row = books.jobs[first]
    assert (row["attempt"], row["failures"]) == (2, 0), "an upgrade is no failure of the job"


SHARED_ROWS = 40_000

SHARING = """
import asyncio, os
from discreet.__main__ import main
from discreet.usecases import spooling
from discreet.worker import releasing

async def later(self):
    while os.path.exists({waits!r}):
        await asyncio.sleep(0.05)
    await until_all(self)

spooling.PART_BYTES, releasing.OFFERED_PARTS = 1 << 16, 8
until_all = releasing._Helped._until_all
releasing._Helped._until_all = later
main()
"""
"""A worker that shares contents of more than 512 KiB, and while a file exists takes none of the
shares that it offers: others have time to help."""

NOTED = """
CREATE TABLE shares_noted (job_id text, worker bigint);
CREATE FUNCTION note_share() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS
  'BEGIN INSERT INTO public.shares_noted VALUES (NEW.job_id, NEW.taken_by); RETURN NEW; END';
CREATE TRIGGER noted AFTER UPDATE ON job_shares
  FOR EACH ROW WHEN (NEW.sealed IS NOT NULL) EXECUTE FUNCTION note_share();
"""


def many_trips(mode: str) -> io.BytesIO:
    """Trips of persons, as a Parquet file, others for each mode."""
    row = np.arange(SHARED_ROWS)
    columns = {"person": row // 20, "period": row % 10, "origin": 1 + row % 3}
    columns |= {"destination": 1 + (row + 1) % 3, "count": 1 + row % len(mode)}
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    file.seek(0)
    return file


@pytest.mark.long
def test_kill_9_of_whoever_reads_shares(
    postgres: EmbeddedPostgres, running: Installation, tmp_path: Path
) -> None:
    """1 and 2 workers release the same bits. The worker that dies when it has all sums costs an
    attempt, with help and without, and a helper that dies as it hands back its sums nothing; none
    of their sums stay."""
    url = superuser_url(postgres, running.settings)
    waits = tmp_path / "waits"
    running.worker_command = ("-c", SHARING.format(waits=str(waits)))
    running.extra = {"DISCREET_SHARE_PROCESSES": "1"}
    public = {"unit": "person", "zones": 3, "periods": 10, "period_minutes": 60}
    public |= {"max_rows": SHARED_ROWS}
    about = {"kind": "routing", "public": public, "cap": {"epsilon": 1, "delta": 0}}
    jobs: dict[str, set[str]] = {}

    def one_of(client: Client, dataset: str, **values: Any) -> str:
        body = bodies.job(dataset, max_trips_per_person=5) | values
        job = str(client.submit(body, idempotency_key=f"job {len(jobs)}")["id"])
        jobs[f"job {len(jobs)}"] = {job}
        return job

    def dying_at(point: str) -> list[Any]:
        """Two workers that die there."""
        running.stop_workers()
        running.extra |= {"DISCREET_FAULTS_SWITCH": SWITCH, "DISCREET_FAULTS": f"{point}=1"}
        waits.touch()
        return [running.start_worker() for _ in range(2)]

    def there(query: LiteralString, *values: Any) -> list[Any]:
        with psycopg.connect(url, autocommit=True) as connection:
            return [row[0] for row in connection.execute(query, values)]

    def dead(workers: list[Any]) -> int:
        return [one.poll() for one in workers].count(-signal.SIGKILL)

    helpers: LiteralString = "SELECT DISTINCT worker FROM shares_noted WHERE job_id = %s"
    left: LiteralString = "SELECT count(*) FROM job_shares"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(NOTED)
    with running.client() as client:
        public_data, data = (
            client.upload({"name": mode, "mode": mode, **about}, many_trips(mode), "t.parquet")[
                "id"
            ]
            for mode in ("simulation", "private")
        )
        digests = set()
        for workers in (1, 2):
            waits.touch()
            while len(running.workers) < workers:
                running.start_worker()
            job = one_of(client, public_data, seed=7)
            if workers > 1:
                eventually(partial(there, helpers, job), "somebody has helped")
            waits.unlink()
            assert client.wait(job)["state"] == "succeeded"
            digests.add(client.result(job)["certificate"]["release_digest"])
            assert bool(there(helpers, job)) == (workers > 1)
            assert there(left) == [0]
        assert len(digests) == 1

        both = dying_at("shares.gathered")
        job = one_of(client, data, privacy={"epsilon": 0.2})
        eventually(partial(there, helpers, job), "the first has help")
        waits.unlink()
        eventually(lambda: dead(both) == 2, "both have led, and died")
        assert there(left) == [16]
        assert there("SELECT attempt FROM jobs WHERE id = %s", job) == [2]
        with running.client(running.operator_key) as operator:
            told = [one["helping"] for one in operator.operations()["processes"]]
        assert told.count(True) == 0, "the second had no help, and the first one's has gone"

        both = dying_at("share.returned")
        eventually(lambda: dead(both) == 1, "the helper has died")
        waits.unlink()
        assert client.wait(job)["state"] == "succeeded"
        assert dead(both) == 1
    assert there(left) == [0]
    outcomes = check_books(url, jobs).outcomes
    assert outcomes == {"succeeded, public data": 2, "succeeded, charged": 1}


@pytest.mark.long
def test_a_lease_that_ended_by_a_jump_of_the_clock_is_fenced(
    postgres: EmbeddedPostgres, running: Installation
) -> None:
    """Two workers hold one job, since the clock has jumped between their claims: only the second
    can publish."""
    import asyncio

    from discreet.usecases import running as steps
    from discreet.usecases.services import open_services

    url = superuser_url(postgres, running.settings)
    with running.client() as client:
        dataset = client.register(bodies.dataset())["id"]
        job = client.submit(bodies.job(dataset), idempotency_key="only")["id"]

    async def go() -> None:
        async with open_services(running.settings) as services:
            early = await steps.claim(services, job)
            assert early is not None
            await steps.touch(services, early)
            assert await steps.claim(services, job) is None, "the lease holds"
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("UPDATE jobs SET lease_until = lease_until - interval '3 hours'")
            late = await steps.claim(services, job)
            assert late is not None
            assert late.attempt == early.attempt + 1
            for step in (
                lambda: steps.renew(services, early),
                lambda: steps.touch(services, early),
                lambda: steps.keep_release(services, early, b"early"),
                lambda: steps.publish(services, early, b"{}", {}),
                lambda: steps.count_failure(services, early, "solver_failed"),
                lambda: steps.hand_back(services, early),
                lambda: steps.cancel(services, early),
            ):
                with pytest.raises(steps.LostJob):
                    await step()
            await steps.touch(services, late)
            await steps.keep_release(services, late, b"late")
            await steps.publish(services, late, b'{"late":true}', {})

    asyncio.run(go())
    with running.client() as client:
        assert client.result(job)["result"] == {"late": True}
    assert check_books(url, {"only": {job}}).outcomes == {"succeeded, charged": 1}


def test_a_worker_that_can_make_no_children_charges_nobody(
    postgres: EmbeddedPostgres,
    running: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process that makes them does not start, as with packages that do not fit each other: no
    data are touched."""
    import asyncio

    from discreet.isolation import children
    from discreet.usecases.services import open_services
    from discreet.worker.runner import Runner

    monkeypatch.setattr(children, "template", None)  # it starts itself
    (tmp_path / "broken" / "discreet").mkdir(parents=True)
    (tmp_path / "broken" / "discreet" / "__init__.py").write_text("raise SystemExit(1)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "broken"))
    with running.client() as client:
        job = client.submit(
            bodies.job(client.register(bodies.dataset())["id"]), idempotency_key="only"
        )["id"]

    async def go() -> None:
        async with open_services(running.settings) as services:
            await Runner(services, children.Zygote()).run(job)

    asyncio.run(go())
    with running.client() as client:
        ended = client.job(job)
    assert (ended["state"], ended["error"]["code"]) == ("failed", "child_not_started")
    assert ended["error"]["detail"].endswith("; nothing was charged")
    books = check_books(superuser_url(postgres, running.settings), {"only": {job}}, failed={job})
    assert books.outcomes == {"failed, released": 1}


@pytest.mark.long
def test_a_migration_under_jobs_that_run_and_wait(
    postgres: EmbeddedPostgres,
    running: Installation,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """This version's processes, jobs in the middle of their work and in the queue: the next schema
    comes under them, then other processes. Nothing is lost, repeated or charged twice."""
    url = superuser_url(postgres, running.settings)
    running.alone = True  # a worker's children are found below it
    old = running.start_worker().pid
    jobs: dict[str, set[str]] = {}
    with running.client() as client:
        dataset = client.register(bodies.dataset(zones=ZONES, epsilon=100))["id"]
        body = bodies.job(dataset, network=bodies.grid(25), relative_gap=1e-6)
        small = bodies.job(dataset, 0.01, network=bodies.grid(25))
        held, child = hold(client, body, old, jobs)
        for number in range(3):
            key = f"waits {number}"
            jobs[key] = {client.submit(small, idempotency_key=key)["id"]}
        with monkeypatch.context() as patched:
            after = next_revision(tmp_path, patched)
            assert migrate(running.settings) == after
        assert client.job(held)["state"] == "running"
        again = client.submit(small, idempotency_key="waits 0")["id"]
        assert jobs["waits 0"] == {again}, (
            "a request that is sent again after the upgrade is the same job"
        )
        os.kill(child, signal.SIGCONT)
        eventually(
            lambda: client.job(held)["state"] == "succeeded", "what was at work comes to its end"
        )
        os.kill(old, signal.SIGTERM)
        assert running.workers[0].wait(DEADLINE_SECONDS) == 0
        key = "after the upgrade"
        jobs[key] = {client.submit(small, idempotency_key=key)["id"]}
        running.start_worker()
        for found in jobs.values():
            for job in found:
                assert client.wait(job)["state"] == "succeeded"
    books = check_books(url, jobs)
    assert books.outcomes == {"succeeded, charged": len(jobs)}
    assert {row["failures"] for row in books.jobs.values()} == {0}
