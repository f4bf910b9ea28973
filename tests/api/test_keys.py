"""API keys: what is wrong with one, their end on every process, their use, and their quota over all
processes."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from discreet.errors import DiscreetError, TooManyRequests, Unauthenticated
from discreet.settings import Settings
from discreet.storage.database import libpq_url
from discreet.storage.tenants import Principal
from discreet.usecases import access
from discreet.usecases.keyring import TRUST_SECONDS, Keyring
from discreet.usecases.services import Services, open_services
from tests.cli import test_cli
from tests.conftest import DEADLINE_SECONDS, Installation, eventually


def status(running: Installation, key: str) -> tuple[int, str]:
    with running.http(key) as http:
        answer = http.get("/v1/jobs", params={"page_size": 1})
        return answer.status_code, "" if answer.is_success else answer.json()["code"]


# Over HTTP ----------------------------------------------------------------------------------------


def test_what_is_wrong_with_a_key_is_said(api_only: Installation) -> None:
    with api_only.client() as owner:
        made = owner.create_key(role="auditor", principal="typist")
        key = made["key"]
        position = len(key) - 20
        other = "b" if key[position] == "a" else "a"
        assert status(api_only, key) == (200, "")
        assert status(api_only, key[:position] + other + key[position + 1 :]) == (
            401,
            "key_malformed",
        )
        assert status(api_only, key[:-1]) == (401, "key_malformed")
        assert status(api_only, access.new_key()) == (401, "key_unknown")
        owner.revoke_key(made["id"])
        assert status(api_only, key) == (401, "key_revoked")
    with httpx.Client(base_url=api_only.url, trust_env=False) as http:
        for headers in ({}, {"Authorization": "Basic abc"}, {"Authorization": "Bearer"}):
            answer = http.get("/v1/jobs", headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated")
            assert answer.headers["www-authenticate"] == "Bearer"


def test_who_guesses_the_public_part_learns_nothing_of_the_key(api_only: Installation) -> None:
    """The same answer for a revoked key, a living one that the process keeps, and none: only the
    whole key tells."""
    with api_only.client() as owner:
        made = [owner.create_key(role="auditor", principal="target") for _ in range(2)]
        assert status(api_only, made[0]["key"]) == (200, "")
        owner.revoke_key(made[1]["id"])
    for one in made:
        body = one["key"][4:16] + access.new_key()[16:56]
        forged = access.PREFIX + body + access._checksum(body)
        assert status(api_only, forged) == (401, "key_unknown")


def test_expiry(api_only: Installation) -> None:
    with api_only.http() as http:

        def make(expires_at: Any) -> httpx.Response:
            return http.post(
                "/v1/keys", json={"role": "auditor", "principal": "brief", "expires_at": expires_at}
            )

        for wrong in (
            "2020-01-01T00:00:00Z",
            "2029-01-01T00:00:00",
            "9999-12-31T23:59:59-12:00",
            "soon",
            True,
        ):
            answer = make(wrong)
            assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (
                422,
                "/expires_at",
            ), wrong
        for seconds in (2, 8, 32, 128):  # until the machine is quick enough to use it in time
            soon = datetime.now(UTC) + timedelta(seconds=seconds)
            made = make(soon.isoformat()).json()
            assert datetime.fromisoformat(made["expires_at"]) == soon
            if status(api_only, made["key"]) == (200, ""):
                break
        else:
            raise AssertionError("no key was ever valid")
        eventually(lambda: status(api_only, made["key"]) == (401, "key_expired"), "the key expires")
        assert datetime.now(UTC) >= soon


def test_last_use_is_shown(api_only: Installation) -> None:
    with api_only.client() as owner:
        made = owner.create_key(role="auditor", principal="seldom")

        def used() -> str | None:
            (found,) = [one for one in owner.list_keys() if one["id"] == made["id"]]
            assert "key" not in found
            return found["last_used_at"]

        assert used() is None
        before = datetime.now(UTC)
        assert status(api_only, made["key"]) == (200, "")
        shown = used()
        assert shown is not None
        minute = timedelta(seconds=60)
        assert before - minute < datetime.fromisoformat(shown) < datetime.now(UTC) + minute


def test_the_command_line_makes_and_lists_keys(api_only: Installation) -> None:
    server = {"DISCREET_URL": api_only.url, "DISCREET_KEY": api_only.owner_key}

    def discreet(*arguments: str) -> subprocess.CompletedProcess[str]:
        return test_cli.discreet("key", *arguments, **server)

    made = json.loads(discreet("create", "--role", "analyst", "--expires", "90d", "--json").stdout)
    left = datetime.fromisoformat(made["expires_at"]) - datetime.now(UTC)
    assert timedelta(days=89) < left <= timedelta(days=90)
    listed = {one["id"]: one for one in json.loads(discreet("list", "--json").stdout)}
    assert listed[made["id"]]["expires_at"] == made["expires_at"]
    assert made["id"] in discreet("list").stdout
    assert discreet("create", "--role", "analyst", "--expires", "soon").returncode == 2


# Several processes: keyrings with pools of their own on one database ------------------------------


def run(
    settings: Settings,
    work: Callable[[list[Services], list[Keyring]], Awaitable[None]],
    count: int = 2,
) -> None:
    """`count` keyrings that listen, as in so many API processes."""

    async def all_of_it() -> None:
        async with AsyncExitStack() as stack:
            services = [
                await stack.enter_async_context(open_services(settings)) for _ in range(count)
            ]
            rings = [Keyring(one) for one in services]
            tasks = [asyncio.create_task(ring.listen()) for ring in rings]
            try:
                await work(services, rings)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(all_of_it())


async def trusted(*rings: Keyring) -> None:
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not all(time.monotonic() < ring._trusted_until for ring in rings):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def new_key(services: Services, **values: Any) -> tuple[str, str, Principal]:
    owner = await access.local_owner(services)
    made = await access.create_key(services, owner, role="auditor", name="ann", **values)
    return made["key"], made["id"], owner


async def refusal(work: Awaitable[object]) -> str:
    with pytest.raises(DiscreetError) as refused:
        await work
    return refused.value.code


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Keys that were looked up in the database."""
    from discreet.storage import tenants

    asked: list[str] = []
    original = tenants.find_key

    async def counted(database: Any, lookup: str) -> Any:
        asked.append(lookup)
        return await original(database, lookup)

    monkeypatch.setattr(tenants, "find_key", counted)
    return asked


def test_a_key_is_looked_up_once(settings: Settings, statements: list[str]) -> None:
    async def work(services: list[Services], rings: list[Keyring]) -> None:
        key, _, _ = await new_key(services[0])
        await trusted(*rings)
        for ring in rings:
            for _ in range(20):
                assert (await ring.principal(key)).name == "ann"
        # A beat that comes late on a busy machine costs another look, and never more than one a
        # request.
        assert 2 <= len(statements) < 40

    run(settings, work)


def test_a_revoked_key_ends_on_every_process_by_notice(settings: Settings) -> None:
    async def work(services: list[Services], rings: list[Keyring]) -> None:
        key, key_id, owner = await new_key(services[0])
        await trusted(*rings)
        for ring in rings:
            await ring.principal(key)
        heard = [asyncio.Event() for _ in rings]
        for ring, event in zip(rings, heard, strict=True):
            ring._on_change = event.set
        await access.revoke_key(services[0], owner, key_id)
        for event in heard:
            async with asyncio.timeout(DEADLINE_SECONDS):
                await event.wait()
        for ring in rings:
            assert not ring._kept
            assert await refusal(ring.principal(key)) == "key_revoked"

    run(settings, work)


def test_a_process_that_hears_nothing_keeps_nothing(settings: Settings) -> None:
    """The connection that listens hangs, or is gone: what is kept counts for TRUST_SECONDS at
    most."""

    async def work(services: list[Services], rings: list[Keyring]) -> None:
        (ring,) = rings
        tasks = [task for task in asyncio.all_tasks() if "Keyring.listen" in repr(task.get_coro())]
        key, key_id, owner = await new_key(services[0])
        await trusted(ring)
        while not ring._kept:  # a beat that comes late on a busy machine lets nothing be kept
            await ring.principal(key)
        proved_at = ring._trusted_until - TRUST_SECONDS
        tasks[0].cancel()
        await access.revoke_key(services[0], owner, key_id)
        # As if the listener had been frozen, not ended.
        ring._trusted_until = proved_at + TRUST_SECONDS
        assert ring._kept  # nobody told
        await asyncio.sleep(max(0.0, ring._trusted_until - time.monotonic()))
        assert await refusal(ring.principal(key)) == "key_revoked"

    run(settings, work, count=1)


def test_whoever_changes_the_row_is_heard(settings: Settings) -> None:
    """Not only our own use case: a trigger tells of SQL by hand as well."""

    async def work(services: list[Services], rings: list[Keyring]) -> None:
        key, key_id, _ = await new_key(services[0])
        await trusted(*rings)
        for ring in rings:
            await ring.principal(key)
        assert settings.migration_database_url is not None
        with psycopg.connect(
            libpq_url(settings.migration_database_url), autocommit=True
        ) as connection:
            connection.execute("SET discreet.tenant = '*'")
            connection.execute("UPDATE keys SET expires_at = now() WHERE id = %s", (key_id,))

        async def ended(ring: Keyring) -> bool:
            try:
                await ring.principal(key)
            except Unauthenticated as error:
                return error.code == "key_expired"
            return False

        async with asyncio.timeout(DEADLINE_SECONDS):
            for ring in rings:
                while not await ended(ring):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    run(settings, work)


def test_the_quota_is_one_for_all_processes(settings: Settings) -> None:
    quota = 120
    seconds = 10**9  # windows begin at multiples of it: the next in 2033
    limited = settings.model_copy(
        update={"rate_limit_requests": quota, "rate_limit_seconds": seconds}
    )

    async def work(services: list[Services], rings: list[Keyring]) -> None:
        key, _, _ = await new_key(services[0])
        passed = 0
        last = quota
        refusals: list[TooManyRequests] = []

        async def caller(ring: Keyring) -> None:
            nonlocal passed, last
            while True:
                try:
                    _, rate = await ring.admit(key)
                except TooManyRequests as refused:
                    refusals.append(refused)
                    return
                passed += 1
                assert 0 <= rate.remaining < quota
                last = min(last, rate.remaining)

        await asyncio.gather(*(caller(ring) for ring in rings for _ in range(4)))
        assert passed == quota
        assert last == 0
        for refused in refusals:
            assert refused.limit is not None
            assert refused.limit.setting == "rate_limit_requests"
            assert 0 < refused.seconds_left <= seconds
        other, _, _ = await new_key(services[0])
        assert (await rings[0].admit(other))[1].remaining == quota - 1

    run(limited, work, count=3)


def test_a_window_ends(settings: Settings) -> None:
    limited = settings.model_copy(update={"rate_limit_requests": 2, "rate_limit_seconds": 1})

    async def work(services: list[Services], rings: list[Keyring]) -> None:
        key, _, _ = await new_key(services[0])
        waits: list[float] = []
        async with asyncio.timeout(DEADLINE_SECONDS):
            while len(waits) < 2:
                try:
                    await rings[0].admit(key)
                except TooManyRequests as refused:
                    waits.append(refused.seconds_left)
                    while True:  # the next window opens
                        await asyncio.sleep(0.05)
                        try:
                            await rings[0].admit(key)
                            break
                        except TooManyRequests:
                            continue
        assert all(0 < wait <= 1 for wait in waits), "no window is longer than a second"

    run(limited, work, count=1)


def test_the_key_file_of_the_installation_works(api_only: Installation, tmp_path: Path) -> None:
    assert access.is_well_formed(api_only.owner_key)
    assert status(api_only, api_only.owner_key) == (200, "")
