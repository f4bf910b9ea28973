"""Attacks on jobs that wait: deciders that may not decide, people who left, floods, races with a
first rule. The API here has no worker: each test decides itself."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.entries import limits
from discreet.privacy import units
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.storage import ledger, waits
from discreet.storage.ledger import AccountBalance
from discreet.storage.log_memory import Seen
from discreet.usecases import endings, outlook, waiting
from discreet.usecases.services import Services, open_services
from tests.api.test_sources import day, job
from tests.api.test_waiting import Team, team_of
from tests.conftest import Installation, eventually

T = TypeVar("T")
RULE = {"shares": {"ada": 0.5, "bo": 0.5}, "lent_days": 10}


@pytest.fixture
def team(api_only: Installation, postgres: EmbeddedPostgres) -> Iterator[Team]:
    with team_of(api_only, postgres) as found:
        yield found


@pytest.fixture
def within(api_only: Installation) -> Callable[[Callable[[Services], Awaitable[T]]], T]:
    """Do something as a worker would, with the services of one."""

    def run(work: Callable[[Services], Awaitable[T]]) -> T:
        async def inside() -> T:
            async with open_services(api_only.settings) as services:
                return await work(services)

        return asyncio.run(inside())

    return run


def held(team: Team, source: dict[str, Any]) -> str:
    """A job of Ada's that waits for .3 beside the half that she has spent."""
    team.ada.submit(job(source, 0.5, blocks=day(1)))
    waits_for = team.ada.submit({**job(source, 0.3, blocks=day(1)), "wait": 8})
    assert waits_for["state"] == "waiting"
    return str(waits_for["id"])


def count(team: Team, statement: Any, *values: Any) -> int:
    with psycopg.connect(team.url) as connection:
        found = connection.execute(statement, values).fetchone()
    assert found is not None
    return int(found[0])


def at_least(team: Team, statement: str, number: int) -> bool:
    return count(team, statement) >= number


def reserved(team: Team, job_id: str) -> int:
    return count(team, "SELECT count(*) FROM ledger_entries WHERE job_id = %s", job_id)


def code(team: Team, job_id: str) -> str:
    """Why it failed."""
    failed: dict[str, Any] = dict(team.owner.job(job_id))
    return str(failed["error"]["code"])


def used(team: Team, source: dict[str, Any]) -> int:
    statement = "SELECT coalesce(sum(epsilon), 0) FROM source_uses WHERE source_id = %s"
    return count(team, statement, source["id"])


def test_nothing_is_granted_where_the_ledger_was_taken_back(
    team: Team, within: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admission is closed then, also for who waited before."""
    source = team.source()
    job_id = held(team, source)
    team.later(7, source)
    with monkeypatch.context() as patched:
        patched.setattr(
            "discreet.storage.log_memory.LogMemory.last", property(lambda _: Seen(10**9, b"x" * 32))
        )
        within(waiting.decide)
    assert team.ada.job(job_id)["state"] == "waiting"
    assert not reserved(team, job_id)
    within(waiting.decide)
    assert team.ada.job(job_id)["state"] == "queued"


def test_a_wait_that_nobody_decided_in_time_is_not_granted_late(team: Team, within: Any) -> None:
    """Who asked was told that it is refused by then, and may have asked otherwise since."""
    source = team.source()
    job_id = held(team, source)
    team.later(8.1, source)
    within(waiting.decide)
    assert code(team, job_id) == "wait_late"
    assert not reserved(team, job_id)


def test_who_left_waits_no_more(team: Team, api_only: Installation, within: Any) -> None:
    """Who has another key waits on; with the last one the wait ends, and what it was promised is
    free. A removed person's ends as well."""
    source = team.source()
    with api_only.client(team.ada_key) as ada:
        job_id = held(team, source)
        second = team.owner.create_key(role="analyst", principal="ada")
        auditor = team.owner.create_key(role="auditor", principal="ada")
        with psycopg.connect(team.url) as connection:
            row = connection.execute(
                "SELECT k.id FROM keys AS k JOIN jobs AS j USING (tenant_id, principal) "
                "WHERE j.id = %s AND k.id NOT IN (%s, %s)",
                [job_id, second["id"], auditor["id"]],
            ).fetchone()
        assert row is not None
        first = str(row[0])
        assert ada.job(job_id)["state"] == "waiting"
    team.owner.revoke_key(first)
    within(waiting.decide)
    assert team.owner.job(job_id)["state"] == "waiting"
    team.owner.revoke_key(second["id"])
    within(waiting.decide)  # long before its time: the revocation left a wake
    assert code(team, job_id) == "wait_left"
    assert not reserved(team, job_id)

    async def left(services: Services, tenant: str, *names: str) -> frozenset[str]:
        async with services.database.transaction(tenant) as connection:
            return await waits.left(connection, tenant, names)

    with psycopg.connect(team.url) as connection:
        row = connection.execute("SELECT tenant_id FROM jobs WHERE id = %s", [job_id]).fetchone()
        assert row is not None
        tenant = str(row[0])
        connection.execute(
            "INSERT INTO identities (id, tenant_id, issuer, subject, role, removed_at) VALUES "
            "(%s || '1', %s, 'https://a', %s, 'analyst', now()), "
            "(%s || '2', %s, 'https://b', %s, 'analyst', NULL)",
            [tenant] * 6,
        )
    names = ("ada", "bo", "nobody", f"https://a#{tenant}", f"https://b#{tenant}")
    found = within(lambda services: left(services, tenant, *names))
    assert found == {"ada", f"https://a#{tenant}"}


def test_a_source_that_cannot_be_decided_keeps_nobody_elses_from_their_turn(
    team: Team, within: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = sorted((team.source(), team.source()), key=lambda one: str(one["id"]))
    broken, other = (held(team, one) for one in sources)
    for one in sources:
        team.later(7, one)
    decide = waiting.decide_source

    async def decided(services: Services, tenant_id: str, source_id: str) -> bool:
        if source_id == sources[0]["id"]:
            raise RuntimeError("never")
        return await decide(services, tenant_id, source_id)

    monkeypatch.setattr(waiting, "decide_source", decided)
    monkeypatch.setattr(waiting, "MOST_DUE", 1)  # the broken one is the first of each round
    within(waiting.decide)
    assert team.ada.job(other)["state"] == "queued"
    assert team.ada.job(broken)["state"] == "waiting"
    team.ada.cancel(broken)


def test_a_ledger_that_refuses_what_shares_let_pass_is_asked_once_a_round(
    team: Team, within: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = team.source()
    job_id = held(team, source)
    team.later(7, source)
    asked = []

    async def refuse(*given: Any, **more: Any) -> list[AccountBalance]:
        asked.append(given)
        return [AccountBalance("act", "data", "", {}, {}, {}, admitted=False)]

    with monkeypatch.context() as patched:
        patched.setattr(ledger, "reserve", refuse)
        within(waiting.decide)
    assert len(asked) == 1
    assert team.ada.job(job_id)["state"] == "waiting"
    within(waiting.decide)  # and is asked again: the wake was kept
    assert team.ada.job(job_id)["state"] == "queued"


def test_how_a_job_ended_that_touched_data_moves_nobodys_decision(team: Team, within: Any) -> None:
    """Nothing comes free with it, and that it failed may tell of the data: there is no wake. One
    that touched none frees what it had reserved."""
    source = team.source()
    for touched, code in ((True, "solver_failed"), (False, "job_altered")):
        job_id = team.ada.submit(job(source, 0.1, blocks=day(1)))["id"]
        within(waiting.decide)

        async def fail(services: Services, job: str = job_id, data: bool = touched) -> None:
            async with services.database.transaction("*") as connection:
                if data:
                    await ledger.touch(connection, job, "w")
                await endings.fail(connection, job, code, "w")  # noqa: B023

        within(fail)
        wakes = "SELECT count(*) FROM source_wakes WHERE source_id = %s"
        assert count(team, wakes, source["id"]) == (not touched)
        assert used(team, source) == 10**8


@pytest.mark.parametrize("first", ["rule", "job"])
def test_a_first_rule_misses_no_job_that_is_being_accepted(
    team: Team, api_only: Installation, first: str
) -> None:
    """A job that was planned without the rule is accepted before it or after it: its use is counted
    once."""
    source = team.source(rule=None)
    body = job(source, 0.4, blocks=day(1))
    blocked = "SELECT count(*) FROM pg_locks WHERE NOT granted"
    if first == "job":  # it keeps the source, and waits for the chain of its blocks' accounts
        lock = (
            "SELECT FROM accounts WHERE id = (SELECT chain_id FROM sources WHERE id = %s) "
            "FOR UPDATE"
        )
    else:  # both wait for the source
        lock = "SELECT source_alone(%s)"
    with ThreadPoolExecutor(2) as pool, psycopg.connect(team.url) as holder:
        holder.execute(lock, [source["id"]])
        before = count(team, blocked)
        works: list[Callable[[], Any]] = [
            lambda: team.ada.submit(body),
            lambda: team.owner.sources.set_rule(source["id"], RULE),
        ]
        if first == "rule":
            works.reverse()
        # What shares are planned with is read before any lock: the job's plan knows no rule.
        done = []
        for number, work in enumerate(works, 1):
            done.append(pool.submit(work))
            most = before + number
            eventually(partial(at_least, team, blocked, most), "it waits")
        holder.rollback()
        for one in done:
            one.result(60)
    assert used(team, source) == 4 * 10**8


def test_a_flood_on_one_source_holds_one_connection_at_its_lock(
    team: Team, api_only: Installation
) -> None:
    source = team.source()
    at_the_lock = (
        "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = 'advisory' "
        "AND ((classid::bigint << 32) | objid::bigint) = hashtextextended(%s, 23)"
    )
    with ThreadPoolExecutor(24) as pool, psycopg.connect(team.url) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 23))", [source["id"]])
        asked = [pool.submit(team.ada.submit, job(source, 0.001, blocks=day(1))) for _ in range(24)]
        eventually(lambda: count(team, at_the_lock, source["id"]), "one waits")
        elsewhere = team.source()  # others are served meanwhile
        assert team.bo.submit(job(elsewhere, 0.1, blocks=day(1)))["state"] == "queued"
        assert count(team, at_the_lock, source["id"]) == 1
        holder.rollback()
        assert {one.result(60)["state"] for one in asked} == {"queued"}


def test_a_key_that_is_sent_again_finds_its_wait_and_its_end(team: Team, within: Any) -> None:
    source = team.source()
    team.ada.submit(job(source, 0.5, blocks=day(1)))
    body = {**job(source, 0.3, blocks=day(1)), "wait": 8}
    made = [team.ada.submit(body, idempotency_key="again") for _ in range(2)]
    assert [one["state"] for one in made] == ["waiting", "waiting"]
    assert made[0]["id"] == made[1]["id"]
    team.later(8.1, source)
    within(waiting.decide)
    ended = team.ada.submit(body, idempotency_key="again")
    assert (ended["id"], ended["state"]) == (made[0]["id"], "failed")
    assert not reserved(team, made[0]["id"])


def test_the_plan_says_what_ends_the_zcdp_filter(team: Team) -> None:
    source = team.source(rule=None, cap={"epsilon": 1, "delta": 1e-6})
    ends = team.ada.plan(job(source, 0.9, blocks=day(1)))["plan"]["advice"]
    assert sum("ends the zCDP filter of block 2026-10-01" in one for one in ends) == 1
    small = team.ada.plan(job(source, 0.01, blocks=day(1)))["plan"]["advice"]
    assert not any("zCDP filter" in one for one in small)
    # What lies beyond already is ended by nobody.
    cap = Cap(10**9, 10**12)
    most = units.largest_rho(cap.epsilon, cap.delta // 4)
    beyond = AccountBalance(
        "act",
        "data",
        "",
        {"epsilon": 1, "delta": 0, "rho": most + 1, "delta_z": 0},
        {},
        {"epsilon": cap.epsilon, "delta": cap.delta},
    )
    assert int(limits(cap)["zcdp"]["rho"]) == most
    price = Price(1, 0, 1, 0)
    assert outlook.ends_zcdp([beyond], price, {}) is None
    within_it = replace(beyond, totals={**beyond.totals, "rho": most})
    assert "ends the zCDP filter:" in (outlook.ends_zcdp([within_it], price, {}) or "")


def test_operators_see_how_many_wait_for_budget(team: Team, api_only: Installation) -> None:
    with api_only.client(api_only.operator_key) as operator:
        before = operator.operations()["queue"]["waiting_for_budget"]
        job_id = held(team, team.source())
        assert operator.operations()["queue"]["waiting_for_budget"] == before + 1
        team.ada.cancel(job_id)
