"""The chain of a source, in the database: one entry for all blocks, and no block beyond its cap."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.entries import Broken, Chain, entry_line
from discreet.ledger.verification import verify
from discreet.privacy.events import EVENTS, to_json
from discreet.privacy.filters import Cap
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import ledger, tenants
from discreet.storage.database import Database
from discreet.storage.ledger import named_together
from discreet.storage.tenants import Principal
from discreet.usecases import ledger as exports
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.services import open_services
from discreet.usecases.verification import Verifier
from tests.ledgers import EVENT, PRICE
from tests.reliability.chains import superuser_url

BLOCKS = 30
CAP = Cap(10 * PRICE.epsilon, 0)
CHAIN = "acc_s"
ALL = [f"{CHAIN}.{number}" for number in range(1, BLOCKS + 1)]


async def opened(database: Database, cap: Cap = CAP, many: int = BLOCKS) -> None:
    async with database.transaction("*") as connection:
        await tenants.add_tenant(connection, "ten_1", "one")
        await tenants.add_tenant(connection, "ten_2", "two")
    async with database.transaction("ten_1") as connection:
        await ledger.open_chain(connection, CHAIN, tenant_id="ten_1", unit="request")
        for number in range(1, many + 1):
            name = await ledger.open_block(
                connection,
                CHAIN,
                cap=cap_amounts(cap),
                filters=filter_limits(cap),
                actor='ow"ner\\é',
                reason=f"block {number}",
            )
            assert name == f"{CHAIN}.{number}"
        await ledger.open_account(
            connection,
            "acc_1",
            tenant_id="ten_1",
            scope="data",
            subject="acc_1",
            unit="request",
            cap=cap_amounts(cap),
            filters=filter_limits(cap),
            actor="owner",
        )


async def reserve(
    database: Database,
    job: str,
    accounts: Sequence[str],
    price: Price = PRICE,
    tenant: str = "ten_1",
    event: dict[str, Any] = EVENT,
) -> list[ledger.AccountBalance]:
    async with database.transaction(tenant) as connection:
        return await ledger.reserve(
            connection, job, accounts, price=price.to_json(), events=[event], actor="analyst"
        )


async def touch(database: Database, job: str) -> None:
    async with database.transaction("ten_1") as connection:
        await ledger.touch(connection, job, "worker")


async def settle(database: Database, job: str) -> list[ledger.Settlement]:
    async with database.transaction("ten_1") as connection:
        return await ledger.settle(connection, job, "worker")


async def grant(database: Database, account: str, cap: Cap) -> bool:
    async with database.transaction("ten_1") as connection:
        return await ledger.grant(
            connection,
            account,
            cap=cap_amounts(cap),
            filters=filter_limits(cap),
            actor="owner",
            reason="more",
        )


async def spent(database: Database, accounts: Sequence[str] = ALL) -> list[tuple[int, int]]:
    """Totals and reserved epsilon of each account, in prices."""
    async with database.transaction("ten_1") as connection:
        found = await ledger.balances(connection, accounts)
    return [
        (
            found[one].totals["epsilon"] // PRICE.epsilon,
            found[one].reserved["epsilon"] // PRICE.epsilon,
        )
        for one in accounts
    ]


async def entries(database: Database, account: str = CHAIN) -> list[dict[str, Any]]:
    async with database.transaction("ten_1") as connection:
        return await ledger.entries(connection, account, after=0, size=10_000)


async def verified(database: Database) -> Chain:
    """The chain as an auditor reads it; its sums are those that are kept."""
    chain = Chain("ten_1", CHAIN)
    for row in await entries(database):
        chain.follow(entry_line(row["body"], bytes(row["hash"]), bytes(row["previous_hash"])))
    async with database.transaction("ten_1") as connection:
        kept = await ledger.sums(connection, CHAIN)
    assert kept == {
        number: (
            {name: str(units) for name, units in block.totals.items()},
            {name: str(units) for name, units in block.reserved.items()},
            block.cap,
        )
        for number, block in chain.blocks.items()
    }
    return chain


def run(settings: Settings, steps: Any) -> None:
    async def go() -> None:
        database = Database(settings)
        try:
            await steps(database)
        finally:
            await database.close()

    asyncio.run(go())


def test_three_entries_a_job_however_many_blocks(settings: Settings) -> None:
    async def steps(database: Database) -> None:
        await opened(database)
        before = len(await entries(database))
        some = [*ALL[4:20], ALL[29]]
        assert all(one.admitted for one in await reserve(database, "job_1", some[::-1]))
        async with database.transaction("ten_1") as connection:
            assert await ledger.charged_accounts(connection, "job_1") == sorted(some)
        await touch(database, "job_1")
        await touch(database, "job_1")
        settled = await settle(database, "job_1")
        assert [(one.account_id, one.kind) for one in settled] == [(CHAIN, "commit")]
        assert await settle(database, "job_1") == []
        assert len(await entries(database)) == before + 3
        expected = [(1, 0) if name in some else (0, 0) for name in ALL]
        assert await spent(database) == expected
        await reserve(database, "job_2", ALL)
        assert [one.kind for one in await settle(database, "job_2")] == ["release"]
        assert await spent(database) == expected
        chain = await verified(database)
        assert chain.blocks[5].totals == PRICE.columns()
        # What a page shows of one block: its opening, and the jobs that read it.
        assert [row["seq"] for row in await entries(database, ALL[4])] == [5, *range(31, 36)]
        assert [row["seq"] for row in await entries(database, ALL[0])] == [1, 34, 35]
        assert await entries(database, f"{CHAIN}.99999999999999999999") == []

    run(settings, steps)


def test_all_blocks_or_none(settings: Settings) -> None:
    async def steps(database: Database) -> None:
        await opened(database)
        assert await grant(database, ALL[6], Cap(PRICE.epsilon, 0))
        await reserve(database, "job_1", ALL)
        before = len(await entries(database))
        refused = await reserve(database, "job_2", [*ALL, "acc_1"])
        assert sorted(one.account_id for one in refused) == sorted([*ALL, "acc_1"])
        (full,) = [one for one in refused if not one.admitted]
        assert (full.account_id, full.scope, full.totals) == (ALL[6], "data", PRICE.columns())
        assert len(await entries(database)) == before
        assert await spent(database, [*ALL, "acc_1"]) == [(1, 1)] * BLOCKS + [(0, 0)]
        assert not await grant(database, ALL[6], Cap(1, 0))  # below what is spent
        assert await grant(database, ALL[6], CAP)
        assert all(one.admitted for one in await reserve(database, "job_2", [*ALL, "acc_1"]))
        await touch(database, "job_2")
        assert len(await settle(database, "job_2")) == 2
        assert await spent(database, [*ALL, "acc_1"]) == [(2, 1)] * BLOCKS + [(1, 0)]
        # An account beside them that is full keeps all blocks free.
        assert await grant(database, "acc_1", Cap(PRICE.epsilon, 0))
        refused = await reserve(database, "job_3", [*ALL, "acc_1"])
        assert [one.account_id for one in refused if not one.admitted] == ["acc_1"]
        assert await spent(database, ALL) == [(2, 1)] * BLOCKS
        await verified(database)

    run(settings, steps)


@pytest.mark.parametrize(
    "accounts",
    [
        [CHAIN],
        [CHAIN, ALL[0]],
        [ALL[0], ALL[0]],
        [ALL[0], f"{CHAIN}.31"],
        [f"{CHAIN}.0"],
        [f"{CHAIN}.01"],
        [f"{CHAIN}.1.1"],
        [f"{CHAIN}.0-3"],
        [f"{CHAIN}.01-3"],
        [f"{CHAIN}.3-2"],
        [f"{CHAIN}.3-2", ALL[4], ALL[4]],
        [f"{CHAIN}.1-31"],
        [f"{CHAIN}.1-3", ALL[2]],
        [f"{CHAIN}.1-3-5"],
        [f"{CHAIN}.-3"],
        [f"{CHAIN}.1-"],
        [f"{CHAIN}.1-999999999"],
        [f"{CHAIN}."],
        [f"{CHAIN}.4294967297"],
        [".1"],
        ["acc_1.1"],
        ["acc_none.1"],
        ["acc_1", "acc_none", ALL[0]],
    ],
)
def test_only_blocks_that_are_there_and_once(settings: Settings, accounts: list[str]) -> None:
    async def steps(database: Database) -> None:
        await opened(database)
        before = len(await entries(database))
        with pytest.raises(DBAPIError, match=r"missing or named twice|has no entry"):
            await reserve(database, "job_1", accounts)
        assert len(await entries(database)) == before

    run(settings, steps)


def test_no_other_tenant_and_no_other_way(settings: Settings) -> None:
    async def steps(database: Database) -> None:
        await opened(database)
        with pytest.raises(DBAPIError, match="missing or named twice"):
            await reserve(database, "job_1", ALL, tenant="ten_2")
        async with database.transaction("ten_2") as connection:
            assert await ledger.balances(connection, ALL) == {}
            assert await ledger.sums(connection, CHAIN) == {}
        values = {"cap": cap_amounts(CAP), "filters": filter_limits(CAP), "actor": "x"}
        for name, scope in ((f"{CHAIN}.31", "data"), ("acc_2", "source")):
            with pytest.raises(DBAPIError, match="are opened otherwise"):
                async with database.transaction("ten_1") as connection:
                    await ledger.open_account(
                        connection,
                        name,
                        tenant_id="ten_1",
                        scope=scope,
                        subject=name,
                        unit="request",
                        **values,
                    )
        for account in (CHAIN, f"{CHAIN}.31"):
            with pytest.raises(DBAPIError):
                await grant(database, account, CAP)
        with pytest.raises(DBAPIError):
            async with database.transaction("ten_2") as connection:
                await ledger.open_block(connection, CHAIN, reason="b", **values)

    run(settings, steps)


def test_sixteen_submitters_on_overlapping_windows_never_overspend_a_block(
    settings: Settings,
) -> None:
    """Each of 16 asks for windows of ten days until none is admitted any more."""

    async def steps(database: Database) -> None:
        await opened(database)
        admitted = [0] * BLOCKS

        async def submitter(number: int) -> None:
            for turn in range(14):
                first = (number * 5 + turn * 7) % (BLOCKS - 9)
                window = ALL[first : first + 10]
                job = f"job_{number}_{turn}"
                found = await reserve(database, job, window)
                if not all(one.admitted for one in found):
                    continue
                if turn % 3 == 0:
                    await settle(database, job)  # gives it back
                    continue
                await touch(database, job)
                await settle(database, job)
                for block in range(first, first + 10):
                    admitted[block] += 1

        await asyncio.gather(*(submitter(number) for number in range(16)))
        assert await spent(database) == [(count, 0) for count in admitted]
        assert max(admitted) == 10, "the attack has filled no block"
        await verified(database)

    run(settings, steps)


def test_neighbours_are_named_together() -> None:
    """Nothing that the database refuses by itself becomes a name that it takes."""
    assert named_together(ALL) == [f"{CHAIN}.1-30"]
    accounts = ["a.1", "a.2", "b", "a.3", "c.4", "c.5", "c.5", "c.4", ".0", ".1", "x.01", "x.2"]
    assert named_together(accounts) == [
        *("a.1-2", "b", "a.3", "c.4-5", "c.5", "c.4"),
        *(".0-1", "x.01-2"),  # the database refuses both
    ]


def test_blocks_that_stand_at_the_same_share_their_sums(settings: Settings) -> None:
    """A page of 32 has one element where it can, and whoever reads sees no difference."""

    async def shared(database: Database) -> list[int]:
        async with database.transaction("ten_1") as connection:
            found = await connection.execute(
                text("SELECT cardinality(epsilon) FROM block_pages ORDER BY page")
            )
            return list(found.scalars())

    async def one_more(database: Database) -> None:
        async with database.transaction("ten_1") as connection:
            await ledger.open_block(
                connection,
                CHAIN,
                cap=cap_amounts(CAP),
                filters=filter_limits(CAP),
                actor="owner",
                reason="after others were charged",
            )

    async def steps(database: Database) -> None:
        await opened(database, many=72)
        assert await shared(database) == [1, 1, 1]
        blocks = [f"{CHAIN}.{number}" for number in range(1, 73)]
        await reserve(database, "job_1", blocks)
        assert await shared(database) == [1, 1, 1]
        await reserve(database, "job_2", blocks[4:67])  # cuts the first page and the last
        assert await shared(database) == [32, 1, 8]
        wanted = [(1 + (5 <= number <= 67),) * 2 for number in range(1, 73)]
        assert await spent(database, blocks) == wanted
        await reserve(database, "job_3", [*blocks[:2], *blocks[6:9], *blocks[40:42]])
        assert await shared(database) == [32, 32, 8]
        for job in ("job_2", "job_3"):
            await settle(database, job)
        assert await shared(database) == [1, 1, 1]
        assert await spent(database, blocks) == [(1, 1)] * 72
        await one_more(database)
        assert await shared(database) == [1, 1, 9]
        await touch(database, "job_1")
        await settle(database, "job_1")
        assert await spent(database, [blocks[71], f"{CHAIN}.73"]) == [(1, 0), (0, 0)]
        # A job over whole pages, after which the last one grows.
        await reserve(database, "job_4", [*blocks, f"{CHAIN}.73"])
        await one_more(database)
        stands = [(2, 1), (1, 1), (0, 0)]
        last = [blocks[71], f"{CHAIN}.73", f"{CHAIN}.74"]
        assert await spent(database, last) == stands
        await verified(database)

    run(settings, steps)


def test_the_smallest_cap_of_a_page_is_that_of_one_block(settings: Settings) -> None:
    """Caps differ within a page, and are the same again: each block is held to its own."""

    async def steps(database: Database) -> None:
        await opened(database)
        small = Cap(2 * PRICE.epsilon, 0)
        assert await grant(database, ALL[7], small)
        for job, accounts, admitted in (
            ("job_1", ALL, True),
            ("job_2", ALL[:16], True),
            ("job_3", ALL[:16], False),
            ("job_4", [*ALL[:7], *ALL[8:]], True),
            ("job_5", [ALL[7]], False),
        ):
            found = await reserve(database, job, accounts)
            refused = [one.account_id for one in found if not one.admitted]
            assert refused == ([] if admitted else [ALL[7]]), job
        assert await grant(database, ALL[7], CAP)
        assert all(one.admitted for one in await reserve(database, "job_6", ALL))
        await verified(database)

    run(settings, steps)


@pytest.mark.parametrize("seed", range(4))
def test_pages_stand_where_a_plain_model_does(settings: Settings, seed: int) -> None:
    """Reservations of any blocks, in any order, touched, settled, released; caps that are raised,
    lowered, differ within a page and have one filter or two; blocks that are added: all against
    three dictionaries."""
    chance = random.Random(seed)
    unit = PRICE.epsilon
    smooth = DiscreteGaussian(
        sensitivity=1,
        scale=50,
        neighbours="one trip",
        charged_epsilon=2 * unit,
        charged_delta=10**8,
    )  # the filter of rho lets more of it pass
    events = [EVENT] if seed % 2 else [EVENT, *[to_json(smooth)] * 4]
    deltas = [0] if seed % 2 else [0, 10**9]

    def passes(total: Price, cap: Cap) -> bool:
        return any(
            all(total.columns()[column] <= int(most) for column, most in one.items())
            for one in filter_limits(cap).values()
        )

    def some_cap(*units: int) -> Cap:
        return Cap(chance.choice(units) * unit, chance.choice(deltas))

    async def steps(database: Database) -> None:
        many = chance.choice([31, 32, 33, 64])
        cap = Cap(3 * unit, deltas[-1])
        await opened(database, cap, many)
        caps = dict.fromkeys(range(1, many + 1), cap)
        nothing = Price(0, 0, 0, 0)
        totals, pending = dict.fromkeys(caps, nothing), dict.fromkeys(caps, nothing)
        jobs: dict[str, tuple[list[int], Price, bool]] = {}
        passed_by_rho = False
        for step in range(60):
            match chance.choice(["reserve"] * 5 + ["touch", "settle", "settle", "grant", "open"]):
                case "reserve":
                    first = chance.randint(1, len(caps))
                    last = min(len(caps), first + chance.choice([0, 1, 5, 31, 32, 40]))
                    if chance.random() < 0.2:  # whole pages
                        first, last = 1, len(caps)
                    further = chance.sample(sorted(caps), 3)
                    named = sorted({*range(first, last + 1), *further})
                    if chance.random() < 0.3:
                        chance.shuffle(named)
                    event = chance.choice(events)
                    price = EVENTS.validate_python((event,))[0].price()
                    found = await reserve(
                        database, f"job_{step}", [f"{CHAIN}.{n}" for n in named], price, event=event
                    )
                    refused = {one.account_id for one in found if not one.admitted}
                    full = [n for n in named if not passes(totals[n] + price, caps[n])]
                    assert refused == {f"{CHAIN}.{n}" for n in full}
                    if not full:
                        jobs[f"job_{step}"] = named, price, False
                        for n in named:
                            totals[n], pending[n] = totals[n] + price, pending[n] + price
                            passed_by_rho |= totals[n].epsilon > caps[n].epsilon
                case "touch" if jobs:
                    job = chance.choice(sorted(jobs))
                    await touch(database, job)
                    jobs[job] = *jobs[job][:2], True
                case "settle" if jobs:
                    job = chance.choice(sorted(jobs))
                    await settle(database, job)
                    named, price, touched = jobs.pop(job)
                    for n in named:
                        pending[n] = less(pending[n], price)
                        totals[n] = totals[n] if touched else less(totals[n], price)
                case "grant":
                    n, cap = chance.choice(sorted(caps)), some_cap(0, 1, 2, 3, 5)
                    given = await grant(database, f"{CHAIN}.{n}", cap)
                    assert given == passes(totals[n], cap)
                    caps[n] = cap if given else caps[n]
                case "open":
                    n, cap = len(caps) + 1, some_cap(2, 3)
                    async with database.transaction("ten_1") as connection:
                        await ledger.open_block(
                            connection,
                            CHAIN,
                            cap=cap_amounts(cap),
                            filters=filter_limits(cap),
                            actor="owner",
                            reason="one more",
                        )
                    caps[n], totals[n], pending[n] = cap, nothing, nothing
        async with database.transaction("ten_1") as connection:
            stands = await ledger.balances(connection, [f"{CHAIN}.{n}" for n in caps])
        assert {
            n: (stands[f"{CHAIN}.{n}"].totals, stands[f"{CHAIN}.{n}"].reserved) for n in caps
        } == {n: (totals[n].columns(), pending[n].columns()) for n in caps}
        assert passed_by_rho == (seed % 2 == 0), "the second filter was not needed"
        chain = await verified(database)
        async with open_services(settings) as services:
            auditor = Principal("ten_1", "a", "auditor", "key_a")
            parts = [part async for part in await exports.export(services, auditor)]
        checked = verify(b"".join(parts).splitlines(keepends=True))
        assert checked.entries == chain.seq + 1  # that of acc_1

    run(settings, steps)


def less(total: Price, price: Price) -> Price:
    return Price(**{name: units - price.columns()[name] for name, units in total.columns().items()})


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE block_pages SET epsilon[1] = epsilon[1] - 1 WHERE page = 0",
        "UPDATE block_pages SET added.rho = 1 WHERE page = 0",
        "UPDATE block_pages SET reserved_delta = array_fill(NULL::numeric, ARRAY[many])",
    ],
)
def test_a_page_that_somebody_has_changed_is_found(
    postgres: EmbeddedPostgres, settings: Settings, change: str
) -> None:
    async def steps(database: Database) -> None:
        await opened(database)
        await reserve(database, "job_1", ALL)
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            administrator.execute(change.encode())
        auditor = Principal("ten_1", "a", "auditor", "key_a")
        async with open_services(settings) as services:
            found = await Verifier().look(services, auditor)
        assert "were changed" in str(found.broken)

    run(settings, steps)


def test_sums_that_somebody_has_changed_are_found(
    postgres: EmbeddedPostgres, settings: Settings
) -> None:
    """At once by whoever compares them with the chain, and from the export after the next entry."""

    async def steps(database: Database) -> None:
        await opened(database)
        await reserve(database, "job_1", ALL)
        await reserve(database, "job_0", ALL[1:4])
        auditor = Principal("ten_1", "a", "auditor", "key_a")
        async with open_services(settings) as services:
            verifier = Verifier()
            assert (await verifier.look(services, auditor)).state == "whole"
            with psycopg.connect(
                superuser_url(postgres, settings), autocommit=True
            ) as administrator:
                administrator.execute("UPDATE block_pages SET epsilon[3] = 0 WHERE page = 0")
            found = await verifier.look(services, auditor)
            assert found.broken is not None
            assert "the sums of block 3 were changed" in str(found.broken)
        await reserve(database, "job_2", ALL[1:4])
        with pytest.raises(Broken, match="the sums of its blocks are not those of their prices"):
            await verified(database)

    run(settings, steps)
