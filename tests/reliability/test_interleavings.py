"""Use cases that meet on the same rows, in an order that is forced: nobody waits in a circle,
nothing is lost."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.installation.local import _JOB
from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.verification import verify
from discreet.privacy.filters import Cap
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import access, budgets, jobs, ledger
from discreet.usecases.services import Services, open_services
from discreet.usecases.sessions import enrolment, rosters, rounds
from discreet.web.bodies import validate
from discreet_agent.federation import signing
from discreet_agent.federation.links import Link
from discreet_agent.federation.rosters import roster_document
from tests import bodies
from tests.conftest import DEADLINE_SECONDS
from tests.reliability.chains import superuser_url


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Services, Principal]]:
    async with open_services(settings) as services:
        yield services, await access.local_owner(services)


async def submit(services: Services, owner: Principal, key: str, body: dict[str, Any]) -> str:
    request = validate(_JOB, body)
    row = await jobs.submit(
        services,
        owner,
        idempotency_key=key,
        request=json.dumps(body).encode(),
        problem=request.problem,
        privacy=request.privacy,
        seed=request.seed,
    )
    return str(row["id"])


async def behind(url: str, job: str, *steps: Callable[[], Awaitable[Any]]) -> list[Any]:
    """What the steps come to that all begin while somebody else holds the row of the job: each
    waits in turn."""

    async def waiting(watch: psycopg.AsyncConnection[Any]) -> int:
        found = await watch.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0"
        )
        return int((await found.fetchone() or (0,))[0])

    async with await psycopg.AsyncConnection.connect(url) as holder:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as watch:
            await holder.execute("SELECT FROM jobs WHERE id = %s FOR UPDATE", (job,))
            tasks = []
            for number, step in enumerate(steps, start=1):
                tasks.append(asyncio.ensure_future(step()))
                async with asyncio.timeout(DEADLINE_SECONDS):
                    while await waiting(watch) < number:
                        assert not tasks[-1].done(), await tasks[-1]
                        await asyncio.sleep(0.01)
            await holder.rollback()
        return await asyncio.gather(*tasks, return_exceptions=True)


def test_agents_and_owner_of_a_session_lock_in_one_order(
    postgres: EmbeddedPostgres, settings: Settings
) -> None:
    """An owner signs the roster while more links are made and a coordinator takes the session: all
    of them touch job and session, and none may hold one while it waits for the other."""
    settings = settings.model_copy(update={"rpc_address": "127.0.0.1:1"})
    owner_key = Ed25519PrivateKey.generate()
    public = owner_key.public_key().public_bytes_raw()

    async def go() -> None:
        async with opened(settings) as (services, owner):
            job = await submit(services, owner, "one", bodies.federated())
            made = await enrolment.create_tokens(
                services, owner, job, owner=signing.fingerprint(public), count=2, group=None
            )
            enrolments = []
            for name, text in zip(("x1", "x2"), made["links"], strict=True):
                key = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
                enrolments.append(
                    enrolment.Enrolment(
                        session_id=made["session"],
                        fingerprint=signing.fingerprint(key),
                        public_key=key,
                        token=Link.parse(text).token or "",
                        name=name,
                        unit="trajectory",
                        cap_epsilon="10",
                        cap_delta="0.1",
                        announcement=b'{"lower": -1, "upper": 1, "radius": 0.1}',
                        speaks=("discreet/multi-agent/v1",),
                    )
                )
                await enrolment.enroll(services, enrolments[-1])
            shown = await rosters.show(services, owner, job)
            roster = roster_document(shown["id"], job, shown["kind"], shown["agents"])
            signature = owner_key.sign(signing.roster(roster))

            def approve() -> Awaitable[Any]:
                return rosters.approve(
                    services, owner, job, roster=roster, signature=signature, owner_key=public
                )

            approved, *rest = await behind(
                superuser_url(postgres, settings),
                job,
                approve,
                lambda: enrolment.create_tokens(
                    services, owner, job, owner=signing.fingerprint(public), count=1, group=None
                ),
                lambda: rounds.take(services, job, "a coordinator"),
            )
            assert approved["approved_at"] is not None
            links, taken = rest
            assert isinstance(links, dict) or links.code == "roster_signed", links
            assert not isinstance(taken, BaseException), taken

    asyncio.run(go())


def test_who_reads_an_export_slowly_is_in_nobodys_way(settings: Settings) -> None:
    """A connection and its snapshot belong to nobody while the client reads; the export is still of
    one moment."""
    settings = settings.model_copy(update={"pool_size": 1})

    async def go() -> bytes:
        async with opened(settings) as (services, owner):
            cap = Cap(10**9, 0)
            first, _ = await budgets.set_cap(
                services, owner, scope="tenant", name=None, cap=cap, reason="first"
            )
            lines = await ledger.export(services, owner)
            read = [await anext(lines)]
            # The pool's only connection: were it the reader's, the pool would give up.
            await budgets.grant(services, owner, first["id"], cap, "while somebody reads")
            await budgets.set_cap(
                services, owner, scope="principal", name="p", cap=cap, reason="also then"
            )
            async for part in lines:
                read.append(part)
            return b"".join(read)

    found = verify(io.BytesIO(asyncio.run(go())))
    assert (found.accounts, found.entries) == (1, 1)
