"""The ledger's rules hold in the database itself."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, LiteralString, TypeVar

import psycopg
import pytest
import rfc8785
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import ledger, tenants
from discreet.storage.database import SYSTEM, Database, libpq_url, sync_engine
from discreet.storage.tables import Base
from discreet.usecases.budgets import cap_amounts, filter_limits

T = TypeVar("T")
CAP = Cap(10**9, 10**12)
PRICE = Price.pure(400_000_000)
EVENTS = [{"mechanism": "discrete_laplace", "scale": 2.5, "neighbours": 'a "quoted" ünit\n'}]


def run(settings: Settings, *steps: Callable[[AsyncConnection], Awaitable[T]]) -> list[T]:
    """Run each step in a transaction of its own."""

    async def go() -> list[T]:
        database = Database(settings)
        try:
            results = []
            for step in steps:
                async with database.transaction(SYSTEM) as connection:
                    results.append(await step(connection))
            return results
        finally:
            await database.close()

    return asyncio.run(go())


async def open_accounts(connection: AsyncConnection) -> None:
    await tenants.add_tenant(connection, "ten_1", "one")
    for name in ("acc_1", "acc_2"):
        await ledger.open_account(
            connection,
            name,
            tenant_id="ten_1",
            scope="data",
            subject=name,
            unit="request",
            cap=cap_amounts(CAP),
            filters=filter_limits(CAP),
            actor='ow"ner\\é',
        )


def reserve(
    job: str, accounts: list[str], price: Price = PRICE
) -> Callable[[AsyncConnection], Awaitable[Any]]:
    return lambda connection: ledger.reserve(
        connection, job, accounts, price=price.to_json(), events=EVENTS, actor="analyst"
    )


def touch(job: str) -> Callable[[AsyncConnection], Awaitable[Any]]:
    return lambda connection: ledger.touch(connection, job, "worker")


def settle(job: str) -> Callable[[AsyncConnection], Awaitable[Any]]:
    return lambda connection: ledger.settle(connection, job, "worker")


def balances_of_both(connection: AsyncConnection) -> Awaitable[Any]:
    return ledger.balances(connection, ["acc_1", "acc_2"])


def entries(connection: AsyncConnection) -> Awaitable[Any]:
    return ledger.entries(connection, "acc_1", after=0, size=100)


@pytest.mark.filterwarnings("ignore:Did not recognize type 'block_amounts'")
def test_migrated_schema_equals_the_declared_one(settings: Settings) -> None:
    assert settings.migration_database_url is not None
    engine = sync_engine(settings.migration_database_url)
    with engine.connect() as connection:
        options = {
            "include_name": lambda name, kind, _: (
                not (kind == "table" and name.startswith("procrastinate_"))
            )
        }
        found = compare_metadata(
            MigrationContext.configure(connection, opts=options), Base.metadata
        )
    differences = (
        one for entry in found for one in (entry if isinstance(entry, list) else [entry])
    )
    assert [
        one for one in differences if not one[0].endswith("_comment")
    ] == []  # `test_current` compares those
    engine.dispose()


def test_life_of_reservations(settings: Settings) -> None:
    *_, settled, released, again, after = run(
        settings,
        open_accounts,
        reserve("job_1", ["acc_1", "acc_2"]),
        reserve("job_2", ["acc_1"]),
        touch("job_1"),
        touch("job_1"),
        settle("job_1"),
        settle("job_2"),
        settle("job_1"),
        balances_of_both,
    )
    assert [entry.kind for entry in settled] == ["commit", "commit"]
    assert [entry.kind for entry in released] == ["release"]
    assert again == []
    for account in ("acc_1", "acc_2"):
        assert after[account].totals["epsilon"] == PRICE.epsilon
        assert after[account].totals["rho"] == PRICE.rho
        assert after[account].reserved["epsilon"] == 0


def test_all_accounts_or_none(settings: Settings) -> None:
    *_, refused, after = run(
        settings,
        open_accounts,
        reserve("job_1", ["acc_2"]),
        reserve("job_2", ["acc_2"]),
        reserve("job_3", ["acc_2", "acc_1"]),
        balances_of_both,
    )
    assert {one.account_id: one.admitted for one in refused} == {"acc_1": True, "acc_2": False}
    assert set(after["acc_1"].totals.values()) == {0}
    assert after["acc_2"].totals["epsilon"] == 2 * PRICE.epsilon


def test_either_filter_admits(settings: Settings) -> None:
    """Many small Laplace releases pass by zCDP long after their epsilons have passed the cap."""
    small = Price.pure(10_000_000)
    steps = [reserve(f"job_{number}", ["acc_1"], small) for number in range(150)]
    *_, last, after = run(settings, open_accounts, *steps, balances_of_both)
    assert last[0].admitted
    assert after["acc_1"].totals["epsilon"] == 1_500_000_000 > CAP.epsilon


def test_chain_is_canonical_json(settings: Settings) -> None:
    *_, rows = run(
        settings,
        open_accounts,
        reserve("job_1", ["acc_1"]),
        touch("job_1"),
        settle("job_1"),
        lambda connection: ledger.grant(
            connection,
            "acc_1",
            cap=cap_amounts(Cap(2 * 10**9, 0)),
            filters=filter_limits(Cap(2 * 10**9, 0)),
            actor="owner",
            reason='more "data"\t\u2028 \x7f \x01 /',
        ),
        entries,
    )
    previous = bytes(32)
    for number, row in enumerate(rows, start=1):
        body = json.loads(row["body"])
        assert rfc8785.dumps(body) == row["body"].encode()
        assert body["seq"] == row["seq"] == number
        assert bytes(row["previous_hash"]) == previous
        previous = hashlib.sha256(previous + row["body"].encode()).digest()
        assert bytes(row["hash"]) == previous
    assert [json.loads(row["body"])["kind"] for row in rows] == [
        "open",
        "reserve",
        "data_touched",
        "commit",
        "grant",
    ]
    assert json.loads(rows[1]["body"])["events"] == EVENTS


def test_grant_never_below_what_is_spent(settings: Settings) -> None:
    def grant(epsilon: int) -> Callable[[AsyncConnection], Awaitable[Any]]:
        cap = Cap(epsilon, 0)
        return lambda connection: ledger.grant(
            connection,
            "acc_1",
            cap=cap_amounts(cap),
            filters=filter_limits(cap),
            actor="owner",
            reason="less",
        )

    *_, below, equal, after = run(
        settings,
        open_accounts,
        reserve("job_1", ["acc_1"]),
        grant(PRICE.epsilon - 1),
        grant(PRICE.epsilon),
        reserve("job_2", ["acc_1"], Price.pure(1)),
    )
    assert (below, equal) == (False, True)
    assert not after[0].admitted


@pytest.mark.parametrize(
    "amounts",
    [
        {"epsilon": "-1"},
        {"epsilon": "1.5"},
        {"epsilon": "1e9"},
        {"epsilon": ""},
        {"epsilon": None},
        {"epsilon": "NaN"},
    ],
)
def test_prices_that_are_no_counts_are_refused(settings: Settings, amounts: dict[str, Any]) -> None:
    with pytest.raises(DBAPIError, match="non-negative integers"):
        run(
            settings,
            open_accounts,
            lambda connection: ledger.reserve(
                connection, "job_1", ["acc_1"], price=amounts, events=[], actor="x"
            ),
        )


@pytest.mark.parametrize("accounts", [[], ["acc_1", "acc_9"], ["acc_1", "acc_1"]])
def test_accounts_must_exist(settings: Settings, accounts: list[str]) -> None:
    with pytest.raises(DBAPIError, match="missing or named twice"):
        run(settings, open_accounts, reserve("job_1", accounts))


def test_one_reservation_a_job_and_no_touch_without_one(settings: Settings) -> None:
    with pytest.raises(DBAPIError, match="ledger_entries_once"):
        run(settings, open_accounts, reserve("job_1", ["acc_1"]), reserve("job_1", ["acc_1"]))
    with pytest.raises(DBAPIError, match="reserved nothing"):
        run(settings, touch("job_2"))
    with pytest.raises(DBAPIError, match="settled already"):
        run(settings, settle("job_1"), touch("job_1"))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE ledger_entries SET body = ''",
        "DELETE FROM ledger_entries",
        "TRUNCATE ledger_entries",
        "INSERT INTO ledger_entries SELECT * FROM ledger_entries",
        "UPDATE accounts SET unit = 'x'",
        "DELETE FROM accounts",
        "INSERT INTO accounts (id, tenant_id, scope, subject, unit) VALUES ('a', 'ten_1', 'data', "
        "'s', 'u')",
        "ALTER TABLE ledger_entries DISABLE TRIGGER ALL",
        "DROP TABLE ledger_entries",
        "CREATE TABLE mine (x int)",
        "SELECT ledger_write(NULL, NULL, 'grant', NULL, NULL, NULL, '[]', '{}', '{}', '{}', '{}', "
        "'', NULL, NULL)",
        "UPDATE block_caps SET limits = '{}'",
        "DELETE FROM block_caps",
        "UPDATE block_pages SET epsilon = '{0}'",
        "DELETE FROM block_pages",
        "INSERT INTO block_pages SELECT * FROM block_pages",
        "SELECT ledger_write_blocks(NULL, NULL, 'reserve', NULL, NULL, '[]', '{}', 1, 1, NULL, '', "
        "NULL)",
        "SELECT ledger_blocks_after('acc_1', NULL, '{}', 0, 0)",
        "SELECT ledger_grant_block('acc_1.1', '{}', '{}', '', '')",
        "CREATE OR REPLACE FUNCTION ledger_passes(totals jsonb, filters text) RETURNS boolean"
        " LANGUAGE sql AS 'SELECT true'",
        "SET ROLE discreet_owner",
    ],
)
def test_application_role_cannot_rewrite(settings: Settings, statement: str) -> None:
    run(settings, open_accounts, reserve("job_1", ["acc_1"]))
    assert settings.database_url is not None
    with psycopg.connect(libpq_url(settings.database_url), autocommit=True) as connection:
        connection.execute("SET discreet.tenant = '*'")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute(statement.encode())
        row = connection.execute(
            "SELECT count(*), min(length(body)) FROM ledger_entries"
        ).fetchone()
    assert row is not None
    assert row[0] == 3
    assert row[1] > 100


@pytest.mark.parametrize(
    "statement", ["UPDATE ledger_entries SET body = ''", "DELETE FROM ledger_entries"]
)
def test_the_owner_role_is_stopped_by_triggers(settings: Settings, statement: str) -> None:
    run(settings, open_accounts)
    assert settings.migration_database_url is not None
    with (
        psycopg.connect(libpq_url(settings.migration_database_url)) as connection,
        pytest.raises(psycopg.DatabaseError, match="append-only"),
    ):
        connection.execute(statement.encode())


def test_a_budget_is_read_from_the_end_of_its_chain(settings: Settings) -> None:
    """Few rows, however many entries there are and whatever the statistics of the table say of
    them: none were made."""
    small = Price.pure(1)
    run(
        settings,
        open_accounts,
        *(reserve(f"job_{number}", ["acc_1"], small) for number in range(200)),
    )
    with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as connection:

        def rows_read() -> int:
            connection.execute("SELECT pg_stat_force_next_flush()")
            counted = connection.execute(
                "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = "
                "'ledger_entries'"
            ).fetchone()
            assert counted is not None
            return int(counted[0])

        before = rows_read()
        for _ in range(10):  # the first plans are made for their values, later ones for any
            found = connection.execute(
                "SELECT totals FROM read_budgets('ten_1', 'acc_1')"
            ).fetchone()
            assert found is not None
            assert json.loads(found[0])["epsilon"] == "200"
        assert rows_read() - before <= 20


BLOCKS = """
SELECT sum(pg_stat_get_xact_blocks_fetched(oid))::int FROM pg_class
WHERE relname IN ('accounts', 'accounts_pkey', 'ledger_entries', 'ledger_entries_pkey',
  'ledger_entries_once')
"""
SHARED = ["acc_1", "acc_2"]


def blocks_of_a_life(connection: psycopg.Connection[Any], job: str) -> dict[str, int]:
    """The blocks of the ledger, its indexes among them, that each step of a job's life looks at."""
    values = {"job": job, "accounts": SHARED, "price": json.dumps(Price.pure(1).to_json())}
    steps: dict[str, LiteralString] = {
        "reserve": "SELECT ledger_reserve(%(job)s, %(accounts)s, %(price)s, '[]', 'analyst')",
        "touch": "SELECT ledger_touch(%(job)s, 'worker')",
        "touch again": "SELECT ledger_touch(%(job)s, 'worker')",
        "settle": "SELECT ledger_settle(%(job)s, 'worker')",
        "settle again": "SELECT ledger_settle(%(job)s, 'worker')",
    }
    found = {}
    for name, statement in steps.items():
        with connection.transaction():
            connection.execute("SET LOCAL discreet.tenant = '*'")
            ((before,),) = connection.execute(
                BLOCKS
            ).fetchall()  # of what the session did not report yet
            connection.execute(statement, values)
            ((after,),) = connection.execute(BLOCKS).fetchall()
        found[name] = after - before
    return found


@pytest.mark.parametrize("statistics", ["none", "of accounts just opened", "of one job"])
def test_a_job_costs_the_same_after_a_long_history(settings: Settings, statistics: str) -> None:
    """Whatever the tables' statistics say, and for sessions whose plans are older than the
    history."""
    run(settings, open_accounts)
    app, owner = (
        psycopg.connect(libpq_url(url or ""), autocommit=True)
        for url in (settings.database_url, settings.migration_database_url)
    )
    with owner, app:
        for table in ("accounts", "ledger_entries"):
            owner.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
        if (
            statistics == "of accounts just opened"
        ):  # an account seems to have one entry, and no entry a job
            owner.execute("ANALYZE accounts, ledger_entries")
        young = [blocks_of_a_life(app, f"job_young_{number}") for number in range(10)][-1]
        if statistics == "of one job":
            owner.execute("ANALYZE accounts, ledger_entries")
        for number in range(100):
            blocks_of_a_life(app, f"job_{number}")
        with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as later:
            for connection in (app, later):
                old = [
                    blocks_of_a_life(connection, f"job_old_{id(connection)}_{number}")
                    for number in range(10)
                ][-1]
                assert {name for name in old if not 0 < old[name] <= 2 * young[name]} == set(), (
                    young,
                    old,
                )
