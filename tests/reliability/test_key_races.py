"""Master keys are rotated and retired while contents are written: no key goes that a row needs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from discreet.api.bodies import validate
from discreet.api.uploads import whole_registration
from discreet.errors import Conflict, Unavailable
from discreet.settings import Settings
from discreet.solve import _DATASET
from discreet.storage import datasets as rows
from discreet.storage import secrets
from discreet.storage.database import libpq_url
from discreet.storage.tenants import Principal
from discreet.usecases import datasets, rotation
from discreet.usecases.services import Services
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
            writer.execute("UPDATE datasets SET content_key_id = %s", (services.secrets.content_key_id,))
        await rotation.retire(services, path, "content", old)
        assert list(secrets.load(path).content_keys) == [services.secrets.content_key_id]

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
            await datasets.register(services, owner, whole_registration(validate(_DATASET, body).root))
        assert [row["id"] for row in await datasets.page(services, owner, None, 10)] == [dataset]

    attack(settings, go)


def test_who_rotates_hears_that_the_new_key_is_used(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    async def gone(_: Services) -> int:
        raise OperationalError("", {}, psycopg.errors.DiskFull())

    monkeypatch.setattr(rotation, "rewrap", gone)

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        path: Path = settings.secrets_path
        with pytest.raises(Unavailable) as told:
            await rotation.rotate(services, path, "content")
        assert f"{secrets.load(path).content_key_id} is used from now on" in told.value.detail

    attack(settings, go)
