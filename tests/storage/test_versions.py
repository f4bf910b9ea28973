"""A job on blocks keeps the set of their versions, and holds its source instead of each of them:
who erases and who accepts find each other's work, and no tenant another's."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, NotFound
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import acceptance, datasets, jobs, ledger, sources, tenants, waits
from discreet.storage.acceptance import JobOrder
from discreet.storage.database import SYSTEM, Database
from discreet.storage.ledger import named_together, ranges
from discreet.storage.tenants import Principal
from discreet.usecases import erasure
from discreet.usecases import jobs as cancelling
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.services import Services, open_services

CAP = Cap(10**9, 0)
PRICE = Price.pure(1000)
MANY = 1000
REGISTER = text(
    """
    INSERT INTO datasets (id, tenant_id, account_id, name, kind, public, mode, digest,
      content_key_id, wrapped_key, source_id, block, version)
    SELECT 'dst_' || :source || '_' || n, :tenant, 'acc_' || :source || '.' || n, 'block',
      'routing', '{}', 'private', sha256(CAST(:source || n AS bytea)), 'key', '\\x00',
      'src_' || :source, 'block ' || n, 1
    FROM generate_series(CAST(:first AS integer), CAST(:last AS integer)) AS n
    """
)
SOURCE = text(
    """
    INSERT INTO sources (id, tenant_id, name, kind, public, mode, block_by, cap_of, cap,
      block_bytes, chain_id, created_by)
    VALUES ('src_' || :source, :tenant, :source, 'routing', '{}', 'private', 'label', 'block',
      '{}', 1024, 'acc_' || :source, 'owner')
    """
)
ACCEPT = text(
    """
    SELECT outcome FROM accept_jobs(:tenant, 'p', CAST(:accounts AS text[]), 'jobs',
      'discreet.run_job', CAST(:orders AS jsonb))
    """
)
LOOKED_AT = text(
    """
    SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0), n_tup_ins + n_tup_upd
    FROM pg_stat_xact_user_tables WHERE relname IN ('datasets', 'jobs')
    """
)
RULE = {"source_id": "src_a", "tenant_id": "ten_1", "shares": {"p": 500_000}, "lent_days": 28}


async def fill(connection: AsyncConnection, tenant: str, source: str, blocks: int) -> None:
    """A source of this tenant, with so many blocks of one version each."""
    await ledger.open_chain(connection, f"acc_{source}", tenant_id=tenant, unit="request")
    await connection.execute(SOURCE, {"source": source, "tenant": tenant})
    await register(connection, tenant, source, 1, blocks)


async def register(
    connection: AsyncConnection, tenant: str, source: str, first: int, last: int
) -> None:
    amounts: dict[str, Any] = {"cap": cap_amounts(CAP), "filters": filter_limits(CAP)}
    for number in range(first, last + 1):
        reason = f"block {number}"
        await ledger.open_block(connection, f"acc_{source}", actor="o", reason=reason, **amounts)
    values = {"source": source, "tenant": tenant, "first": first, "last": last}
    await connection.execute(REGISTER, values)


def order(name: str, source: str, versions: Sequence[int]) -> JobOrder:
    return JobOrder(
        key=name,
        digest=b"\0" * 32,
        job_id=f"job_{name}",
        dataset_id=None,
        kind="routing",
        problem="{}",
        plan="{}",
        seed=None,
        steps=1,
        price=PRICE.to_json(),
        events="[]",
        source_id=f"src_{source}",
        versions=tuple(versions),
    )


def accounts(source: str, versions: Sequence[int]) -> list[str]:
    return [f"acc_{source}.{number}" for number in versions]


async def accept(
    connection: AsyncConnection, name: str, source: str, versions: Sequence[int]
) -> str:
    """Accept a job in a transaction that its caller ends."""
    payers = acceptance.Payers("ten_1", "p", tuple(accounts(source, versions)))
    orders = f"[{acceptance._order_text(order(name, source, versions))}]"
    values = {
        "tenant": payers.tenant_id,
        "accounts": named_together(payers.accounts),
        "orders": orders,
    }
    return str((await connection.execute(ACCEPT, values)).scalar_one())


async def submit(database: Database, one: JobOrder, payers: Sequence[str]) -> str:
    found = await acceptance.submit(
        database, one, tenant_id="ten_1", principal="p", accounts=payers
    )
    return found.outcome


@asynccontextmanager
async def filled(settings: Settings, *named: tuple[str, str, int]) -> AsyncIterator[Services]:
    """Sources (tenant, name, blocks) of two tenants."""
    async with open_services(settings) as services:
        async with services.database.transaction(SYSTEM) as connection:
            for tenant in ("ten_1", "ten_2"):
                await tenants.add_tenant(connection, tenant, tenant)
            for tenant, source, blocks in named:
                await fill(connection, tenant, source, blocks)
        yield services


def run(settings: Settings, work: Callable[[Services], Awaitable[None]], *named: Any) -> None:
    async def go() -> None:
        async with filled(settings, *named) as services:
            await work(services)

    asyncio.run(go())


async def waiting(database: Database, many: int, of: str = "advisory") -> None:
    """Until so many transactions wait for a lock that another has, of a type of PostgreSQL's."""
    asked = "SELECT count(*) FROM pg_locks WHERE locktype = :type AND NOT granted"
    async with asyncio.timeout(60):
        while True:
            async with database.transaction(SYSTEM) as connection:
                found = await connection.execute(text(asked), {"type": of})
                if found.scalar_one() == many:
                    return
            await asyncio.sleep(0.01)


async def ask(database: Database, statement: str, scope: str = SYSTEM, **values: Any) -> Any:
    async with database.transaction(scope) as connection:
        return (await connection.execute(text(statement), values)).scalar()


OWNER = Principal("ten_1", "owner", "owner", "key_1")


@pytest.mark.parametrize(
    "numbers", [[], [3], [1, 2, 3], [9, 1, 2, 2, 5, 4], list(range(40, 0, -1))]
)
def test_a_set_is_written_as_its_runs(numbers: list[int]) -> None:
    written = ranges(numbers)
    runs = [part.strip("[)").split(",") for part in written[1:-1].split("),") if part]
    assert [n for first, end in runs for n in range(int(first), int(end))] == sorted(set(numbers))
    assert all(int(a[1]) < int(b[0]) for a, b in itertools.pairwise(runs))


def test_who_erases_and_who_accepts_wait_for_each_other(settings: Settings) -> None:
    async def work(services: Services) -> None:
        database = services.database
        async with database.transaction("ten_1") as first, database.transaction("ten_1") as second:
            assert await accept(first, "a", "a", [1, 2]) == "accepted"
            erasing = asyncio.create_task(erasure.erase(services, OWNER, "dst_a_2"))
            await waiting(database, 1)
            # Another source is nobody's business here, and is neither waited for nor waits.
            assert await accept(second, "b", "b", [1]) == "accepted"
            await erasure.erase(services, OWNER, "dst_c_1")
        with pytest.raises(Conflict, match="still needs"):
            await erasing
        assert (
            await ask(database, "SELECT count(*) FROM datasets WHERE deleted_at > '-infinity'") == 1
        )

        async with database.transaction("ten_1") as connection:
            assert await datasets.erase(connection, "ten_1", "dst_a_3")
            late = asyncio.create_task(submit(database, order("c", "a", [3]), accounts("a", [3])))
            other = asyncio.create_task(submit(database, order("d", "a", [1]), accounts("a", [1])))
            await waiting(database, 2)
        assert (await late, await other) == ("dataset_gone", "accepted")
        assert (
            await ask(database, "SELECT count(*) FROM ledger_entries WHERE job_id = 'job_c'") == 0
        )

        # Expiry: what a job needs stays, what nobody needs goes, and the rest is still offered.
        async with database.transaction(SYSTEM) as connection:
            over = "UPDATE datasets SET expires_at = now() WHERE id IN ('dst_a_1', 'dst_a_4')"
            await connection.execute(text(over))
        assert await erasure.expire(services) == 1
        gone = "SELECT array_agg(id ORDER BY id) FROM datasets WHERE deleted_at IS NOT NULL"
        assert await ask(database, gone) == ["dst_a_3", "dst_a_4", "dst_c_1"]
        for number, (versions, outcome) in enumerate(
            (
                ([1], "dataset_gone"),
                ([2, 4], "dataset_gone"),
                ([5, 9], "dataset_gone"),
                ([2, 5], "accepted"),
            )
        ):
            asked = order(f"e{number}", "a", versions)
            assert await submit(database, asked, accounts("a", [2])) == outcome

    run(settings, work, ("ten_1", "a", 6), ("ten_1", "b", 1), ("ten_1", "c", 1))


def test_a_first_rule_counts_each_job_once(settings: Settings) -> None:
    """A job that is accepted while the first rule is set is counted by the one who comes second."""

    async def work(services: Services) -> None:
        database = services.database
        uses = "SELECT string_agg(block || ' ' || epsilon, ',' ORDER BY block) FROM source_uses"

        async def set_rule(source: str) -> None:
            rule = RULE | {"source_id": source}
            async with database.transaction("ten_1") as connection:
                await waits.add_rule(connection, version=1, created_by="owner", **rule)

        # A job that is cancelled meanwhile, by who sees no rule, is counted by nobody.
        assert await submit(database, order("e", "b", [1]), accounts("b", [1])) == "accepted"
        async with database.transaction("ten_1") as connection:
            assert await jobs.lock(connection, "job_e", "ten_1") is not None
            await ledger.settle(connection, "job_e", "p")
            await jobs.end(connection, "job_e", "cancelled")
            setting = asyncio.create_task(set_rule("src_b"))
            await waiting(database, 1, of="transactionid")
        await setting
        assert await ask(database, uses) is None

        async with database.transaction("ten_1") as connection:
            assert await accept(connection, "a", "a", [1, 2]) == "accepted"
            setting = asyncio.create_task(set_rule("src_a"))
            await waiting(database, 1)
        await setting
        assert await ask(database, uses) == "block 1 1000,block 2 1000"
        assert await submit(database, order("b", "a", [2]), accounts("a", [2])) == "accepted"
        assert await ask(database, uses) == "block 1 1000,block 2 2000"
        async with database.transaction("ten_1") as connection:
            await connection.execute(text("UPDATE jobs SET state = 'cancelled' WHERE id = 'job_a'"))
        assert await ask(database, uses) == "block 1 0,block 2 1000"

    run(settings, work, ("ten_1", "a", 3), ("ten_1", "b", 1))


def test_a_crowd_that_accepts_erases_and_adds_ends(settings: Settings) -> None:
    """Nobody waits in a circle, no job reads what is erased, and each is charged to all of its
    blocks, once, or to none where it is cancelled; those that wait are counted."""
    blocks, rounds = 12, 10

    async def work(services: Services) -> None:
        database = services.database
        outcomes: Counter[str] = Counter()
        chosen: list[tuple[str, list[int]]] = []

        async def analyst(who: int) -> None:
            luck = random.Random(who)
            for turn in range(rounds):
                source = luck.choice("ab")
                first = luck.randint(1, blocks - 2)
                versions = list(range(first, luck.randint(first, blocks) + 1))
                name = f"{who}_{turn}"
                outcome = await submit(
                    database, order(name, source, versions), accounts(source, versions)
                )
                outcomes[outcome] += 1
                if outcome == "accepted" and luck.random() < 0.5:
                    await cancelling.cancel(services, OWNER, f"job_{name}")
                elif outcome == "accepted":
                    chosen.append((source, versions))

        async def owner(who: int) -> None:
            luck = random.Random(1000 + who)
            for _ in range(rounds):
                one = f"dst_{luck.choice('ab')}_{luck.randint(1, blocks)}"
                try:
                    await erasure.erase(services, OWNER, one)
                    outcomes["erased"] += 1
                except (Conflict, NotFound) as error:
                    outcomes[type(error).__name__] += 1

        async def registrar(source: str) -> None:
            for number in range(blocks + 1, blocks + 1 + rounds):
                async with database.transaction("ten_1") as connection:
                    await sources.lock(connection, f"src_{source}")
                    await register(connection, "ten_1", source, number, number)
                await erasure.expire(services)

        await asyncio.gather(
            *(analyst(who) for who in range(6)),
            *(owner(who) for who in range(3)),
            *(registrar(source) for source in "ab"),
        )
        assert outcomes["accepted"] > len(chosen) > 0
        counted = "SELECT sum(queued) || ' ' || sum(queued_since) FROM job_counts"
        queued = "count(*) || ' ' || sum(extract(epoch FROM created_at)) FROM jobs"
        assert await ask(database, counted) == await ask(
            database, f"SELECT {queued} WHERE state = 'queued'"
        )
        assert outcomes["accepted"] + outcomes["dataset_gone"] == 6 * rounds
        assert outcomes["erased"] + outcomes["Conflict"] + outcomes["NotFound"] == 3 * rounds
        read_and_gone = (
            "SELECT count(*) FROM job_blocks AS b JOIN datasets AS d ON d.id = b.dataset_id "
            "JOIN jobs AS j ON j.id = b.job_id "
            "WHERE d.deleted_at IS NOT NULL AND j.state = 'queued'"
        )
        assert await ask(database, read_and_gone) == 0
        expected = Counter(f"acc_{s}.{n}" for s, versions in chosen for n in versions)
        async with database.transaction(SYSTEM) as connection:
            rows = await connection.execute(text("SELECT account_id, epsilon FROM block_sums"))
            spent = {name: int(units) // PRICE.epsilon for name, units in rows if units}
        assert spent == dict(expected)
        numbers = "SELECT array_agg(number ORDER BY number) FROM datasets WHERE source_id = 'src_a'"
        assert await ask(database, numbers) == list(range(1, blocks + rounds + 1))

    run(settings, work, ("ten_1", "a", blocks), ("ten_1", "b", blocks))


def test_a_tenants_jobs_read_its_own_sources_alone(settings: Settings) -> None:
    async def work(services: Services) -> None:
        database = services.database
        foreign = [
            order("a", "theirs", [1]),
            order("b", "theirs", [1, 2]),
            order("c", "nobodys", [1]),
            order("d", "ours", [0, 1]),
            order("e", "ours", [2, 3]),
        ]
        for one in foreign:
            assert await submit(database, one, accounts("ours", [1])) == "dataset_gone"
        kept = order("old", "ours", [1, 2])
        assert await submit(database, kept, accounts("ours", [1])) == "accepted"
        # A row that says otherwise, written past the rules, reads and holds nothing of theirs.
        async with database.transaction("ten_1") as connection:
            await connection.execute(
                text(
                    "INSERT INTO jobs (id, tenant_id, principal, kind, problem, plan, price, "
                    "source_id, versions) VALUES ('job_sly', 'ten_1', 'p', 'routing', '{}', '{}', "
                    "'{}', 'src_theirs', '{[1,9)}')"
                )
            )
        named = "SELECT array_agg(dataset_id ORDER BY dataset_id) FROM job_blocks"
        ours = ["dst_ours_1", "dst_ours_2"]
        assert [await ask(database, named, scope) for scope in (SYSTEM, "ten_1", "ten_2")] == [
            ours,
            ours,
            None,
        ]
        with pytest.raises(DBAPIError, match="permission denied"):
            await ask(database, "UPDATE jobs SET versions = '{[1,2)}'", "ten_1")
        theirs = Principal("ten_2", "owner", "owner", "key_2")
        await erasure.erase(services, theirs, "dst_theirs_1")
        with pytest.raises(Conflict):
            await erasure.erase(services, OWNER, "dst_ours_1")

    run(settings, work, ("ten_1", "ours", 2), ("ten_1", "also", 1), ("ten_2", "theirs", 2))


async def looked_at(connection: AsyncConnection) -> tuple[int, int, int]:
    """Rows of datasets that this connection has read and written so far, and jobs."""
    rows = {name: counts for name, *counts in await connection.execute(LOOKED_AT)}
    return (*rows["datasets"], rows["jobs"][1])


def test_a_job_over_many_blocks_looks_at_none_of_their_rows(settings: Settings) -> None:
    """Counted in rows: as many for a thousand blocks, of which others were erased, as for one."""

    async def work(services: Services) -> None:
        database = services.database
        async with database.transaction(SYSTEM) as connection:
            await connection.execute(text("ANALYZE datasets"))
        counted = []
        for name, versions in (("one", [1]), ("many", list(range(1, MANY + 1)))):
            async with database.transaction("ten_1") as connection:
                before = await looked_at(connection)
                assert await accept(connection, name, "a", versions) == "accepted"
                after = await looked_at(connection)
                counted.append([now - then for now, then in zip(after, before, strict=True)])
        assert counted[0] == counted[1]
        read, *written = counted[1]
        assert (read < 5, written) == (True, [0, 1])
        assert await ask(database, "SELECT count(*) FROM job_blocks") == MANY + 1

    run(settings, work, ("ten_1", "a", MANY))
