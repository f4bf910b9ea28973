"""Master keys are rotated and retired while contents are written: no key goes that a row needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy.exc import OperationalError

from discreet.errors import Conflict, Unavailable
from discreet.installation.local import _DATASET
from discreet.settings import Settings
from discreet.storage import datasets as rows
from discreet.storage import jobs, reads, sealing, secrets
from discreet.storage import sessions as session_rows
from discreet.storage import webhooks as webhook_rows
from discreet.storage.database import SYSTEM, libpq_url
from discreet.storage.tenants import Principal
from discreet.usecases import datasets, releases, rotation, running, webhooks
from discreet.usecases.services import Services
from discreet.usecases.sessions import rounds
from discreet.web.bodies import validate
from discreet.web.uploads import whole_registration
from tests import bodies
from tests.reliability.test_forged_rows import attack


def test_a_key_stays_while_somebody_writes(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path, old = settings.secrets_path, services.secrets.content_key_id
        await rotation.rotate(services, path, "content")
        with psycopg.connect(libpq_url(settings.migration_database_url or "")) as writer:
            writer.execute("SET discreet.tenant = '*'")
            assert writer.execute("UPDATE datasets SET content_key_id = %s", (old,)).rowcount
            with pytest.raises(Conflict, match="being written"):
                await rotation.retire(services, path, "content", old)
            writer.commit()
            with pytest.raises(Conflict, match="1 rows cannot be read"):
                await rotation.retire(services, path, "content", old)
            writer.execute(
                "UPDATE datasets SET content_key_id = %s", (services.secrets.content_key_id,)
            )
        await rotation.retire(services, path, "content", old)
        assert list(secrets.load(path).content_keys) == [services.secrets.content_key_id]

    attack(settings, go)


def test_a_file_that_is_looked_at_moves_to_the_new_key(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path, old, data_key = settings.secrets_path, services.secrets.content_key_id, bytes(32)
        async with services.database.transaction(owner.tenant_id) as connection:
            await reads.add(
                connection,
                [b"sealed"],
                id="read_1",
                tenant_id=owner.tenant_id,
                principal=owner.name,
                format="csv",
                plain_bytes=1,
                sealed_bytes=6,
                content_key_id=old,
                wrapped_key=sealing.wrap(services.secrets, "read_1", data_key),
                expires_at=datetime.now(UTC) + timedelta(hours=1),
            )
        secrets.rotate(path, "content")
        with pytest.raises(Conflict, match="2 rows cannot be read"):  # the dataset's and this
            await rotation.retire(services, path, "content", old)
        await rotation.rewrap(services)
        await rotation.retire(services, path, "content", old)
        async with services.database.transaction(owner.tenant_id) as connection:
            row = await reads.find(connection, owner.tenant_id, owner.name, "read_1")
        assert row is not None
        key, wrapped = row["content_key_id"], bytes(row["wrapped_key"])
        assert sealing.unwrap(services.secrets, key, "read_1", wrapped) == data_key

    attack(settings, go)


def test_a_content_is_not_stored_under_a_key_that_was_retired(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path, old, add = settings.secrets_path, services.secrets.content_key_id, rows.add

        async def late(*arguments: Any, **values: Any) -> Any:
            secrets.rotate(path, "content")
            secrets.retire(path, "content", old)
            return await add(*arguments, **values)

        monkeypatch.setattr(rows, "add", late)
        body = bodies.dataset(mode="private", name="another")
        body["content"]["trips"][0]["count"] = 77
        with pytest.raises(Unavailable, match="retired"):
            await datasets.register(
                services, owner, whole_registration(validate(_DATASET, body).root)
            )
        assert [row["id"] for row in await datasets.page(services, owner, None, 10)] == [dataset]

    attack(settings, go)


@contextmanager
def retiring_before(place: Any, name: str, path: Path, patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The master key goes between a writer's look at it and its row, once: as behind a `retire`
    that is waited for."""
    write, old = getattr(place, name), secrets.load(path).content_key_id

    async def late(*arguments: Any, **values: Any) -> Any:
        if old in secrets.load(path).content_keys:
            secrets.rotate(path, "content")
            secrets.retire(path, "content", old)
        return await write(*arguments, **values)

    with patch.context() as patched:
        patched.setattr(place, name, late)
        yield
    assert old not in secrets.load(path).content_keys


def test_nothing_is_left_under_a_key_that_was_retired(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases, rounds and ends of sessions and webhooks are sealed again, under the key in use,
    and open."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path = settings.secrets_path
        held = await running.claim(services, job)
        assert held is not None
        with psycopg.connect(
            libpq_url(settings.migration_database_url or ""), autocommit=True
        ) as database:
            database.execute("SET discreet.tenant = '*'")

            def opened(table: str, column: str, name: str) -> bytes:
                """What the one row holds that has anything sealed."""
                (row,) = database.execute(
                    SQL("SELECT content_key_id, {0} FROM {1} WHERE {0} IS NOT NULL").format(
                        Identifier(column), Identifier(table)
                    )
                ).fetchall()
                assert row[0] == services.secrets.content_key_id
                return sealing.unseal_whole(services.secrets, row[0], name, row[1])

            with retiring_before(webhook_rows, "add", path, monkeypatch):
                hook = await webhooks.create(
                    services, owner, url="https://8.8.8.8/", events=["job.succeeded"], secret=None
                )
            assert opened("webhooks", "sealed_secret", hook["id"]).decode() == hook["secret"]

            with retiring_before(jobs, "store_release", path, monkeypatch):
                await running.keep_release(services, held, b"released")
            async with services.database.transaction(SYSTEM) as connection:
                row = await jobs.find_release(connection, job)
            assert row is not None
            assert row["content_key_id"] == services.secrets.content_key_id
            assert releases.unseal(services.secrets, row, held.terms) == b"released"

            database.execute("DELETE FROM releases")
            database.execute(
                "INSERT INTO sessions (job_id, id, tenant_id, terms, budget)"
                " SELECT id, 'ses_1', tenant_id, '{}', '{}' FROM jobs WHERE id = %s",
                (job,),
            )
            session: Any = SimpleNamespace(
                job_id=job, attempt=held.attempt
            )  # all that is asked of it here
            round_: Any = {"number": 1, "broadcast": b"all", "transcript": b"t"}
            with retiring_before(session_rows, "keep_round", path, monkeypatch):
                await rounds.keep(services, session, state=b"state", **round_)
            assert (
                opened("sessions", "sealed", f"session/{job}")
                == (5).to_bytes(8, "big") + b"stateall"
            )

            with retiring_before(jobs, "store_release", path, monkeypatch):
                await rounds.keep_last(services, session, released=b"the end", **round_)
            assert opened("sessions", "sealed", f"session/{job}") == bytes(8) + b"all"
            assert opened("releases", "sealed", f"release/{job}") == b"the end"

    attack(settings, go)


def test_who_rotates_hears_that_the_new_key_is_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gone(_: Services) -> int:
        raise OperationalError("", {}, psycopg.errors.DiskFull())

    monkeypatch.setattr(rotation, "rewrap", gone)

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path: Path = settings.secrets_path
        with pytest.raises(Unavailable) as told:
            await rotation.rotate(services, path, "content")
        assert f"{secrets.load(path).content_key_id} is used from now on" in told.value.detail

    attack(settings, go)
