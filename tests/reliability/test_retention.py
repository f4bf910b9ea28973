"""What jobs have made goes when its time is over; certificate and ledger stay, and whoever asks is
told."""

from __future__ import annotations

import asyncio
import os
import signal
import sys

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Gone, ResultAltered
from discreet.observability import faults
from discreet.settings import Settings
from discreet.storage import jobs as job_rows
from discreet.storage import jobs as stored_releases
from discreet.storage import results, sessions
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases import asking, erasure, jobs, ledger, published
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet_client.errors import ApiError
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser
from tests.reliability.test_asking_again import question
from tests.reliability.test_forged_rows import attack, submit
from tests.reliability.test_swapped_results import RESULT, change, publish
from tests.storage.test_sessions import federated, keep

DAYS = 30
OLD = "UPDATE jobs SET finished_at = finished_at - make_interval(days => %s) WHERE id = %s"


def forget(settings: Settings, job: str) -> None:
    """Have a job ended long ago, and its result deleted."""
    change(settings, OLD, DAYS + 1, job)
    with psycopg.connect(settings.database_url or "", autocommit=True) as role:
        assert role.execute("SELECT forget_results(%s, 100)", (DAYS,)).fetchone() == (1,)


@pytest.fixture
def kept(settings: Settings) -> Settings:
    return settings.model_copy(update={"result_retention_days": DAYS})


async def rows_of(services: Services, job: str) -> dict[str, int]:
    """How many rows of a job there are by table."""
    found: dict[str, int] = {}
    async with services.database.transaction(SYSTEM) as connection:
        for table in ("job_events", "releases", "result_tables", "job_results", "ledger_entries"):
            counted = text(f"SELECT count(*) FROM {table} WHERE job_id = :job")  # noqa: S608
            found[table] = (await connection.execute(counted, {"job": job})).scalar_one()
    return found


def test_results_go_and_certificates_stay(kept: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        young = await submit(services, owner, dataset)
        unfinished = await submit(services, owner, dataset)
        await publish(services, job)
        await publish(services, young)
        before = await rows_of(services, job)
        _, _, certificate = await published.result(services, owner, job)
        assert await erasure.forget_results(services) == 0
        change(kept, OLD, DAYS + 1, job)
        change(kept, OLD, DAYS - 1, young)
        assert await erasure.forget_results(services) == 1
        assert await erasure.forget_results(services) == 0

        with pytest.raises(Gone, match="at the end of the operator's retention period") as gone:
            await published.result(services, owner, job)
        assert gone.value.code == "result_gone"
        with pytest.raises(Gone):
            await published.result_table(services, owner, job, "link_flows")
        row, signed = await published.certificate(services, owner, job)
        assert signed == certificate
        shown = jobs.view(row, owner)
        assert (shown["state"], shown["result_gone_at"]) == ("succeeded", row["result_gone_at"])
        assert "headline" not in shown
        told, ended = await jobs.events(services, owner, job, 0)
        assert ended
        assert [one["details"] for one in told] == [{"state": "succeeded"}]
        assert await rows_of(services, job) == {
            **dict.fromkeys(("releases", "result_tables"), 0),
            **{"job_events": 1, "job_results": 1},
            "ledger_entries": before["ledger_entries"],
        }
        verdict = await ledger.check_certificate(services, owner, certificate)
        assert verdict["valid"], verdict
        async with services.database.transaction(SYSTEM) as connection:
            asked = await stored_releases.to_ask_again(connection, owner.tenant_id, [job])
        assert "were deleted on" in str(asking.nothing_released(asked[job]))

        assert (await published.result(services, owner, young))[1] == RESULT
        assert (await jobs.find(services, owner, unfinished))["state"] == "queued"

    attack(kept, go)


def test_without_the_setting_all_is_kept(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        change(settings, OLD, 40_000, job)
        assert await erasure.forget_results(services) == 0
        assert (await published.result(services, owner, job))[1] == RESULT

    attack(settings, go)


def test_what_somebody_asks_again_waits_for_that(kept: Settings) -> None:
    """A job that waits to be answered from a release finds it, however old that is."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        again = await submit(services, owner, dataset)
        await publish(services, job)
        change(kept, OLD, DAYS + 1, job)
        change(kept, "UPDATE jobs SET released_by = ARRAY[%s] WHERE id = %s", job, again)
        assert await erasure.forget_results(services) == 0
        change(kept, "UPDATE jobs SET state = 'cancelled' WHERE id = %s", again)
        assert await erasure.forget_results(services) == 1

    attack(kept, go)


def test_a_table_that_goes_while_it_is_asked_for_has_gone(
    kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result was there a moment before: nobody is told that it was altered."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        change(kept, OLD, DAYS + 1, job)
        look = results.table

        async def late(connection: AsyncConnection, job_id: str, name: str) -> bytes | None:
            await erasure.forget_results(services)
            return await look(connection, job_id, name)

        monkeypatch.setattr(results, "table", late)
        with pytest.raises(Gone, match="at the end of the operator's retention period"):
            await published.result_table(services, owner, job, "link_flows")

    attack(kept, go)


def test_what_a_session_told_at_last_goes_too(kept: Settings) -> None:
    """An agent that comes after that is told so, and not an empty message that it would take for a
    cloud's deceit."""

    async def go() -> None:
        async with federated(kept) as (services, job, attempt):
            assert await keep(services, job, attempt, 1)
            async with services.database.transaction(SYSTEM) as connection:
                row = await sessions.find(connection, job)
            assert row is not None
            ended = "UPDATE jobs SET state = 'succeeded', finished_at = now() WHERE id = %s"
            change(kept, ended, job)
            change(kept, OLD, DAYS + 1, job)
            assert await erasure.forget_results(services) == 1
            with pytest.raises(Gone, match="at the end of the operator's retention period"):
                await rounds.farewell(services, row["id"])
            async with services.database.transaction(SYSTEM) as connection:
                row = await sessions.find(connection, job)
            assert row is not None
            assert (row["sealed"], row["content_key_id"]) == (None, None)

    asyncio.run(go())


def test_they_go_in_batches_and_by_many_at_once(
    kept: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        monkeypatch.setattr(erasure, "RESULTS_AT_ONCE", 2)
        names = [job, *[await submit(services, owner, dataset) for _ in range(4)]]
        for name in names:
            await publish(services, name)
            change(kept, OLD, DAYS + 1, name)
        async with services.database.transaction(SYSTEM) as connection:
            locked = await job_rows.lock(connection, names[0], owner.tenant_id)
            assert locked is not None
            assert await erasure.forget_results(services) == 4  # a row that is held holds up nobody
        assert await erasure.forget_results(services) == 1

    attack(kept, go)


FORGETTER = """
import asyncio
from discreet.settings import Settings
from discreet.usecases import erasure
from discreet.usecases.services import open_services

async def go():
    async with open_services(Settings()) as services:
        await erasure.forget_results(services)

erasure.RESULTS_AT_ONCE = 2
asyncio.run(go())
"""


@pytest.mark.parametrize(("point", "left"), [("results.forgotten", 3), ("forgetting.committed", 1)])
def test_who_dies_among_batches_leaves_whole_ones(kept: Settings, point: str, left: int) -> None:
    """Killed before a batch is committed, nothing of it has gone; after, all of it, and nothing
    else. The next worker goes on."""
    fatal = {
        **{name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")},
        "DISCREET_DATABASE_URL": kept.database_url or "",
        "DISCREET_STATE": str(kept.state),
        "DISCREET_RESULT_RETENTION_DAYS": str(DAYS),
        "DISCREET_FAULTS": f"{point}=1",
        "DISCREET_FAULTS_SWITCH": faults.SWITCH,
    }

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        names = [job, *[await submit(services, owner, dataset) for _ in range(2)]]
        for name in names:
            await publish(services, name)
            change(kept, OLD, DAYS + 1, name)
        died = await asyncio.create_subprocess_exec(sys.executable, "-c", FORGETTER, env=fatal)
        assert await died.wait() == -signal.SIGKILL
        rows = [await rows_of(services, name) for name in names]
        assert sum(one["job_events"] > 1 for one in rows) == left
        gone = [(await jobs.find(services, owner, name))["result_gone_at"] for name in names]
        assert sum(at is None for at in gone) == left
        assert await erasure.forget_results(services) == left

    attack(kept, go)


def test_the_service_itself_can_take_nothing_younger_than_a_day(kept: Settings) -> None:
    """Whoever has the service's role gets neither a row nor a certificate out of the way."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        with psycopg.connect(kept.database_url or "", autocommit=True) as service:
            service.execute("SET discreet.tenant = '*'")
            for days in (0, -1, None):
                with pytest.raises(psycopg.Error, match="for a day at least"):
                    service.execute("SELECT forget_results(%s, 10)", (days,))
            assert service.execute("SELECT forget_results(1, 10)").fetchone() == (0,)
            for statement in (
                "UPDATE job_results SET result = NULL",
                "DELETE FROM job_results",
                "DELETE FROM job_events",
                "UPDATE jobs SET result_gone_at = now()",
            ):
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    service.execute(statement)
        change(kept, "UPDATE job_results SET result = NULL WHERE job_id = %s", job)
        with pytest.raises(ResultAltered, match="is missing"):
            await published.result(services, owner, job)

    attack(kept, go)


def test_api_and_page_say_that_it_has_gone(service: Installation) -> None:
    key = service.owner_of("retention")
    with service.client(key) as client, service.http(key) as http:
        dataset = client.register(bodies.dataset())["id"]
        job = client.submit(bodies.job(dataset))["id"]
        assert client.wait(job)["state"] == "succeeded"
        known = http.get(f"/v1/jobs/{job}/result").headers["ETag"]
        forget(service.settings, job)
        for ask in (client.result, client.answer):
            with pytest.raises(ApiError, match="at the end of the operator's retention") as told:
                ask(job)
            assert told.value.code == "result_gone"
        answer = http.get(f"/v1/jobs/{job}/result", headers={"If-None-Match": known})
        assert (answer.status_code, answer.json()["code"]) == (410, "result_gone")
        assert "its certificate and its entries in the ledger are kept" in answer.json()["detail"]
        assert http.get(f"/v1/jobs/{job}/charts").status_code == 410
        assert http.get(f"/v1/jobs/{job}/certificate").status_code == 200
        assert http.get(f"/v1/jobs/{job}").json()["result_gone_at"]
        assert "succeeded" in http.get(f"/v1/jobs/{job}/events").text
        asked = http.post("/v1/jobs", json=question(job), headers={"Idempotency-Key": "again"})
        assert (asked.status_code, asked.json()["code"]) == (409, "no_release")
        assert "were deleted on" in asked.json()["detail"]
        (listed,) = http.get("/v1/jobs").json()["jobs"]
        assert (listed["id"], listed["state"]) == (job, "succeeded")
        assert "headline" not in listed
    with Browser.logged_in(service, key) as browser:
        page = browser.get(f"/jobs/{job}")
        assert page.status == 200
        assert "The result of this job was deleted on" in page.text
        assert "Results are shown to" not in page.text  # it is an owner who asks
        assert "the one that was certified" not in page.text
        assert browser.get(f"/jobs/{job}/certificate").status == 200
        assert browser.get(f"/jobs/{job}/page.html").status == 410
        assert browser.get(f"/jobs/{job}/ask").status == 410
        assert browser.get(f"/jobs/compare?job={job}&job={job}").status < 500
