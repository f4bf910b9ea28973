"""Many clients at once on one budget: exactly as many are admitted as there is room for, whoever
serves them."""

from __future__ import annotations

import asyncio
import concurrent.futures
import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import ledger, tenants
from discreet.storage.database import SYSTEM, Database
from discreet.usecases.budgets import cap_amounts, filter_limits
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, installation
from tests.reliability.chains import check_chain, read_chains, superuser_url

CLIENTS = 200
ROOM = 37
EPSILON = 0.1


@contextmanager
def processes(running: Installation, count: int) -> Iterator[list[str]]:
    """Addresses of `count` API processes on the database of `running`, its own among them."""
    with ExitStack() as stack:
        others = [Installation(running.settings) for _ in range(count - 1)]
        for other in others:
            stack.callback(other.stop)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(Installation.start_api, others))
        yield [running.url, *(other.url for other in others)]


@pytest.fixture(scope="module")
def running(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with installation(postgres, template, tmp_path_factory.mktemp("crowd"), workers=0) as started:
        yield started


@pytest.mark.parametrize("count", [1, pytest.param(4, marks=pytest.mark.long)])
def test_200_clients_against_room_for_37(
    postgres: EmbeddedPostgres, running: Installation, count: int
) -> None:
    with processes(running, count) as urls, running.client() as client:
        dataset = client.register(bodies.dataset(epsilon=ROOM * EPSILON))
        body = json.dumps(bodies.job(dataset["id"], EPSILON))
        headers = {
            "Authorization": f"Bearer {running.owner_key}",
            "Content-Type": "application/json",
        }

        async def crowd() -> list[httpx.Response]:
            limits = httpx.Limits(max_connections=CLIENTS)
            async with httpx.AsyncClient(
                headers=headers, timeout=DEADLINE_SECONDS, limits=limits, trust_env=False
            ) as http:
                keys = [f"client {number} of {count} processes" for number in range(CLIENTS)]
                posts = (
                    http.post(f"{url}/v1/jobs", content=body, headers={"Idempotency-Key": key})
                    for key, url in zip(keys, itertools.cycle(urls), strict=False)
                )
                return await asyncio.gather(*posts)

        answers = asyncio.run(crowd())
        assert Counter(answer.status_code for answer in answers) == {202: ROOM, 409: CLIENTS - ROOM}
        refusals = [answer.json() for answer in answers if answer.status_code == 409]
        assert {refusal["code"] for refusal in refusals} == {"budget_exhausted"}
        assert {refusal["binding"]["largest"]["epsilon"] for refusal in refusals} == {0}
        accepted = {answer.json()["id"] for answer in answers if answer.status_code == 202}
        assert len(accepted) == ROOM
        budget = client.budget(dataset["account"])
        assert budget["remaining"]["epsilon"] == 0
        assert budget["reserved"]["epsilon"] == pytest.approx(ROOM * EPSILON, abs=1e-12)

        rows = read_chains(superuser_url(postgres, running.settings))[dataset["account"]]
        sums = check_chain(rows)
        assert sums.lives == {job: ["reserve"] for job in accepted}
        assert sums.totals["epsilon"] == ROOM * 10**8
        listed = client.jobs(page_size=200)["jobs"]
        assert {job["id"] for job in listed if job["dataset"] == dataset["id"]} == accepted


def test_reservations_on_several_accounts_never_deadlock(
    postgres: EmbeddedPostgres, settings: Settings
) -> None:
    """Accounts are named in random orders by 16 transactions at once; who is refused on one writes
    on none."""
    names = [f"acc_{number}" for number in range(5)]
    cap, price = Cap(20 * 10**8, 0), Price.pure(10**8)
    draw = random.Random(1)
    wishes = [draw.sample(names, draw.randint(1, 3)) for _ in range(160)]

    async def go() -> list[bool]:
        database = Database(settings.model_copy(update={"pool_size": 16}))
        async with database.transaction(SYSTEM) as connection:
            await tenants.add_tenant(connection, "ten_1", "one")
            for name in names:
                await ledger.open_account(
                    connection,
                    name,
                    tenant_id="ten_1",
                    scope="data",
                    subject=name,
                    unit="request",
                    cap=cap_amounts(cap),
                    filters=filter_limits(cap),
                    actor="owner",
                )

        async def one(number: int) -> bool:
            async with database.transaction(SYSTEM) as connection:
                balances = await ledger.reserve(
                    connection,
                    f"job_{number}",
                    wishes[number],
                    price=price.to_json(),
                    events=[],
                    actor="analyst",
                )
            return all(balance.admitted for balance in balances)

        try:
            return await asyncio.gather(*(one(number) for number in range(len(wishes))))
        finally:
            await database.close()

    admitted = asyncio.run(go())
    chains = read_chains(superuser_url(postgres, settings))
    lives = {name: set(check_chain(chains[name]).lives) for name in names}
    for number, (wish, passed) in enumerate(zip(wishes, admitted, strict=True)):
        assert {name for name in names if f"job_{number}" in lives[name]} == (
            set(wish) if passed else set()
        )
    assert {len(life) for life in lives.values()} <= set(range(21))
    refused = [wish for wish, passed in zip(wishes, admitted, strict=True) if not passed]
    assert refused, "there was room for all: this shows nothing"
    # A refusal is for want of room: one of the accounts that it names is full at the end.
    assert all(any(len(lives[name]) == 20 for name in wish) for wish in refused)
