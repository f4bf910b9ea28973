"""The service on keys that lie elsewhere: a place that goes at any step loses no charge and makes
none twice."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from discreet.api.app import create_app
from discreet.errors import Conflict
from discreet.isolation import children
from discreet.isolation.children import Zygote
from discreet.isolation.processes import plain_environment
from discreet.ledger import certificates
from discreet.settings import Settings
from discreet.storage import ledger, secrets
from discreet.storage.database import SYSTEM
from discreet.storage.keys.provider import KeysUnavailable, SecretsError
from discreet.storage.tenants import Principal
from discreet.usecases import jobs, published, rotation, running
from discreet.usecases.services import Services, keys_open, open_services
from discreet.worker.runner import Runner
from tests import bodies, causes
from tests.conftest import settings_for
from tests.keys.places import CREDENTIALS, PIN, Kms, SoftToken, new_key
from tests.keys.test_providers import keys_of
from tests.postgres_fixture import Database
from tests.reliability.test_forged_rows import opened, submit

CHARGED = list(causes.CHARGED)
TOLD = {
    **CREDENTIALS,
    "AWS_SESSION_TOKEN": "session",
    "DISCREET_KEYS_PIN": PIN,
    "DISCREET_KEYS": "awskms:///x",
}
"""What the environment of a process may hold."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    causes.hasten(monkeypatch)


@pytest.fixture
def with_token(token: SoftToken, database: Database, tmp_path: Path) -> Settings:
    return with_keys(database, tmp_path, token.uri())


def with_keys(database: Database, place: Path, uri: str) -> Settings:
    """Settings of an installation whose keys are there from the beginning."""
    state = place / "state"
    state.mkdir()
    secrets.create(state / "secrets.json", keys_of(uri))
    return settings_for(database, state, keys=uri, keys_pin=PIN, max_attempts=1)


async def kinds(services: Services, job: str) -> list[str]:
    """Of the job's entries in the ledger."""
    async with services.database.transaction(SYSTEM) as connection:
        return [entry["kind"] for entry in await ledger.reservation(connection, job)]


async def succeeded(services: Services, owner: Principal, job: str) -> None:
    """It ended well, at one price, and its certificate is this installation's."""
    row, _, certificate = await published.result(services, owner, job)
    assert (row["state"], row["failures"]) == ("succeeded", 0)
    assert await kinds(services, job) == CHARGED
    assert certificates.is_signed(certificate)
    assert certificate["public_key"] == certificates.public_key(services.secrets.signer)


@pytest.mark.long
def test_a_token_that_goes_at_any_step_is_waited_for(
    with_token: Settings, token: SoftToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a job whose release cannot be opened now goes back, without an attempt that counts."""
    seen: list[str] = []
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(children, "template", None)  # its environment is looked at

    def late(take: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def step(*arguments: Any, **named: Any) -> Any:
            if not seen:
                token.remove()
            try:
                return await take(*arguments, **named)
            except KeysUnavailable as error:
                seen.append(error.detail)
                if len(seen) == 2:
                    token.put_back()
                raise

        return step

    async def go() -> None:
        zygote = Zygote()
        async with opened(with_token) as (services, owner, dataset, job):
            work = Runner(services, zygote)
            try:
                for name in ("open_content", "keep_release", "publish"):
                    seen.clear()
                    with monkeypatch.context() as patched:
                        patched.setattr(running, name, late(getattr(running, name)))
                        one = await submit(services, owner, dataset)
                        await work.run(one)
                    assert len(seen) == 2, name
                    await succeeded(services, owner, one)
                held = await running.claim(services, job)
                assert held is not None
                content = await running.open_content(services, held)
                await running.touch(services, held)
                output = await zygote.run(
                    work._header(held, "release"), content, work._limits(held, 60.0)
                )
                held = await running.keep_release(services, held, output.payload)
                await running.hand_back(services, held)
                token.remove()
                for _ in range(3):  # max_attempts is 1
                    await work.run(job)
                    row = await jobs.find(services, owner, job)
                    assert (row["state"], row["failures"]) == ("queued", 0)
                assert await kinds(services, job) == CHARGED[:2]
                token.put_back()
                await work.run(job)
                await succeeded(services, owner, job)
                if os.geteuid() == 0:  # whom processes show their environment to
                    assert zygote._process is not None
                    place = Path(f"/proc/{zygote._process.pid}/environ")
                    environment = await asyncio.to_thread(place.read_bytes)
                    assert b"PATH=" in environment
                    assert not [value for value in TOLD.values() if value.encode() in environment]
            finally:
                await zygote.stop()

    asyncio.run(go())
    waits = REGISTRY.get_sample_value(
        "discreet_worker_database_waits_total", {"code": "keys_unavailable"}
    )
    assert waits is not None
    assert waits >= 6


def test_what_the_api_says_without_its_token(with_token: Settings, token: SoftToken) -> None:
    async def go() -> None:
        async with causes.served(with_token) as client:
            body = bodies.dataset(mode="private")
            dataset = (await client.post("/v1/datasets", json=body)).json()
            assert (await client.get("/readyz")).json()["checks"]["keys"] == "ok"
            token.remove()
            ready = await client.get("/readyz")
            assert ready.status_code == 503
            assert ready.json()["detail"].startswith(
                ("keys: token discreet does", "keys: the token has")
            )
            assert "nothing was done, try again" in ready.json()["detail"]
            body["content"]["trips"][0]["count"] = 77
            body["name"] = "another"
            for answer in (
                await client.post("/v1/datasets", json=body),
                await client.get("/v1/ledger/head"),
            ):
                assert (answer.status_code, answer.json()["code"]) == (503, "keys_unavailable")
                assert answer.headers["Retry-After"]
            # What needs no key of the token goes on, and is charged once whoever asks again.
            assert len((await client.get("/v1/datasets")).json()["datasets"]) == 1
            asked = [await causes.ask_for_job(client, dataset["id"]) for _ in range(2)]
            assert len({one.json()["id"] for one in asked}) == 1
            token.put_back()
            assert (await client.get("/v1/ledger/head")).status_code == 200
            assert (await client.post("/v1/datasets", json=body)).status_code == 201
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["checks"]["keys"]) == (200, "ok")
            lines = (await client.get("/v1/ledger/export")).text.splitlines()
            assert len([one for one in lines if '"kind":"reserve"' in one.replace("\\", "")]) == 1

    asyncio.run(go())


def test_an_api_that_starts_while_kms_is_away(aws: Kms, database: Database, tmp_path: Path) -> None:
    settings = with_keys(database, tmp_path, aws.uri(new_key(aws)))

    async def go() -> None:
        async with causes.served(settings) as first:
            headers = {"Authorization": first.headers["Authorization"]}
        aws.mode = "gone"
        app = create_app(settings)
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
                ready = await client.get("/readyz")
                assert ready.status_code == 503
                assert ready.json()["checks"]["keys"].startswith(
                    "AWS KMS does not answer (decrypt: "
                )
                answer = await client.get("/v1/datasets", headers=headers)
                assert (answer.status_code, answer.json()["code"]) == (503, "keys_unavailable")
                waiting = asyncio.create_task(
                    keys_open(app.state.services)
                )  # as workers and rpc do
                aws.mode = "open"
                await asyncio.wait_for(waiting, 30)
                assert (await client.get("/readyz")).status_code == 200
                assert (await client.get("/v1/datasets", headers=headers)).status_code == 200

    asyncio.run(go())


def test_moving_an_installation_into_a_token(token: SoftToken, settings: Settings) -> None:
    """The way of docs/keys.md: nothing stops, and at the end the file holds no key that opens
    anything."""

    both = settings.model_copy(update={"keys": f"{token.uri()} file", "keys_pin": PIN})
    alone = both.model_copy(update={"keys": token.uri()})
    path = settings.secrets_path

    async def go(zygote: Zygote) -> None:
        async with opened(settings) as (
            before,
            owner,
            dataset,
            job,
        ):  # a process that was not restarted yet
            old = before.secrets.content_key_id
            with pytest.raises(SecretsError, match="does not name"):
                async with open_services(alone):
                    pass
            async with open_services(both) as services:
                assert secrets.wrap(path, services.secrets_file.keys)
                assert ":" in json.loads(path.read_text())["pepper"]
                # The old process, which cannot read that, works on with what it has.
                assert before.secrets.content_key_id == old
                await Runner(before, zygote).run(job)
                await succeeded(before, owner, job)
                done = await rotation.rotate(services, path, "content")
                assert done["moved"] >= 1
                await rotation.rotate(services, path, "jobs")
                await rotation.rotate(services, path, "signing")
                await rotation.retire(services, path, "content", old)
                assert not before.secrets.content_keys  # it writes nothing under a key that is gone
                with pytest.raises(KeysUnavailable, match="does not name"):
                    before.secrets_file.check()
                public = services.secrets.other_signing_keys[0]
                with pytest.raises(Conflict, match="would no longer be returned"):
                    await rotation.retire(services, path, "signing", public)
            async with open_services(alone) as services:
                assert [
                    row["place"]
                    for row in secrets.overview(path, services.secrets_file.keys)
                    if row["place"]
                ] == ["pkcs11"] * 5
                await published.result(services, owner, job)  # certified by the key of before
                again = await submit(services, owner, dataset)
                await Runner(services, zygote).run(again)
                await succeeded(services, owner, again)

    async def with_children() -> None:
        zygote = Zygote()
        try:
            await go(zygote)
        finally:
            await zygote.stop()

    asyncio.run(with_children())


def test_children_learn_nothing_of_where_keys_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does the process that they are forked from: `a_token_that_goes` looks at a running
    one."""
    for name, value in TOLD.items():
        monkeypatch.setenv(name, value)
    assert not set(TOLD) & set(plain_environment())
