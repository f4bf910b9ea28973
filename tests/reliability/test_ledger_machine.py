"""The ledger in the database against a model of exact integers, through every order of grants,
reservations and ends.

The model is a dictionary of jobs and the filters of `discreet.privacy.filters`; it knows nothing of
the database. Every step runs in one transaction that is committed, rolled back, or lost with its
connection; only a commit may change anything. After each step both must tell the same, and at the
end the entries must sum up to the balances.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Awaitable, Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as profile
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.privacy import filters
from discreet.privacy.filters import Cap
from discreet.privacy.units import Price
from discreet.settings import Settings
from discreet.storage import ledger, tenants
from discreet.storage.database import SYSTEM, Database
from discreet.usecases.budgets import cap_amounts, filter_limits
from tests.reliability.chains import check_chain

ACCOUNTS = 4
NANO = 10**9
COLUMNS = tuple(Price.zero().columns())
_numbers = itertools.count(1)


@dataclass
class ModelAccount:
    """What an account must be."""

    cap: Cap
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    reserved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))

    def add(self, price: Price, sign: int, *columns: dict[str, int]) -> None:
        for amounts in columns:
            for name, units in price.columns().items():
                amounts[name] += sign * units


@dataclass
class ModelJob:
    """What a job has reserved, and how far it is."""

    accounts: list[int]
    price: Price
    touched: bool = False
    ended: bool = False


@dataclass
class Model:
    """The whole ledger as it must be. Operations answer what the database must answer."""

    accounts: list[ModelAccount]
    jobs: dict[str, ModelJob] = field(default_factory=dict)

    def grant(self, account: int, cap: Cap) -> bool:
        held = self.accounts[account]
        if not filters.admits(held.totals, Price.zero(), cap):
            return False
        held.cap = cap
        return True

    def reserve(self, job: str, accounts: list[int], price: Price) -> dict[int, bool] | None:
        """Admission by account; None: an error, because the job has reserved already."""
        held = {number: self.accounts[number] for number in accounts}
        admitted = {
            number: bool(filters.admits(one.totals, price, one.cap)) for number, one in held.items()
        }
        if not all(admitted.values()):
            return admitted
        if job in self.jobs:
            return None
        for one in held.values():
            one.add(price, 1, one.totals, one.reserved)
        self.jobs[job] = ModelJob(accounts, price)
        return admitted

    def touch(self, job: str) -> bool:
        """False: an error, because there is nothing that could be touched for."""
        found = self.jobs.get(job)
        if found is None or found.ended:
            return False
        found.touched = True
        return True

    def settle(self, job: str) -> dict[int, str]:
        """The kinds of the entries that end the job, by account."""
        found = self.jobs.get(job)
        if found is None or found.ended:
            return {}
        found.ended = True
        for one in (self.accounts[number] for number in found.accounts):
            one.add(found.price, -1, one.reserved)
            if not found.touched:
                one.add(found.price, -1, one.totals)
        return dict.fromkeys(found.accounts, "commit" if found.touched else "release")


class Undone(Exception):
    """The transaction ends without a commit."""


Operation = Callable[[Model, "LedgerMachine", AsyncConnection], Awaitable[bool]]
"""One call of the database, compared with the model; false when the transaction has failed as it
had to."""

FATES = st.sampled_from(["commit"] * 8 + ["rollback", "lost"])

caps = st.builds(
    Cap,
    st.sampled_from([0, NANO // 2, NANO, 3 * NANO, 10 * NANO]),
    st.sampled_from([0, 10**9, 4 * 10**12]),
)
small = st.integers(0, NANO // 8)
prices = st.one_of(
    st.builds(Price.pure, st.one_of(st.integers(0, 3), small, st.just(NANO // 2))),
    st.builds(Price.approximate, small, st.sampled_from([1, 10**8, 10**11])),
    # A Gaussian's: dear by basic composition, cheap by zCDP.
    st.builds(
        Price, st.integers(NANO // 4, NANO), st.just(10**11), st.integers(0, 10**16), st.just(0)
    ),
)
some_accounts = st.lists(st.integers(0, ACCOUNTS - 1), min_size=1, max_size=3, unique=True)


class LedgerMachine(RuleBasedStateMachine):
    """One tenant with four accounts, on a database that machines before it have used."""

    runner: asyncio.Runner
    database: Database

    @initialize(caps=st.lists(caps, min_size=ACCOUNTS, max_size=ACCOUNTS))
    def open(self, caps: list[Cap]) -> None:
        self.name = f"m{next(_numbers)}"
        self.model = Model([ModelAccount(cap) for cap in caps])

        async def fill() -> None:
            async with self.database.transaction(SYSTEM) as connection:
                await tenants.add_tenant(connection, self.name, self.name)
                for number, cap in enumerate(caps):
                    await ledger.open_account(
                        connection,
                        self.account(number),
                        tenant_id=self.name,
                        scope="data",
                        subject=self.account(number),
                        unit="request",
                        cap=cap_amounts(cap),
                        filters=filter_limits(cap),
                        actor="owner",
                    )

        self.runner.run(fill())

    def account(self, number: int) -> str:
        return f"{self.name}_acc_{number}"

    def job(self, number: int) -> str:
        return f"{self.name}_job_{number}"

    # -- operations --------------------------------------------------------------------------------

    def grant_of(self, account: int, cap: Cap) -> Operation:
        async def run(model: Model, _: LedgerMachine, connection: AsyncConnection) -> bool:
            granted = await ledger.grant(
                connection,
                self.account(account),
                cap=cap_amounts(cap),
                filters=filter_limits(cap),
                actor="owner",
                reason="as the machine wants",
            )
            assert granted == model.grant(account, cap)
            return True

        return run

    def reservation_of(self, job: str, accounts: list[int], price: Price) -> Operation:
        async def run(model: Model, _: LedgerMachine, connection: AsyncConnection) -> bool:
            before = deepcopy(model.accounts)
            expected = model.reserve(job, accounts, price)
            call = ledger.reserve(
                connection,
                job,
                [self.account(number) for number in accounts],
                price=price.to_json(),
                events=[{"mechanism": "discrete_laplace", "scale": 2.5}],
                actor="analyst",
            )
            if expected is None:
                with pytest.raises(DBAPIError, match="ledger_entries_once"):
                    await call
                return False
            answers = {one.account_id: one for one in await call}
            assert {name: one.admitted for name, one in answers.items()} == {
                self.account(number): admitted for number, admitted in expected.items()
            }
            for number in accounts:
                assert complete(answers[self.account(number)].totals) == before[number].totals
            return True

        return run

    def touch_of(self, job: str) -> Operation:
        async def run(model: Model, _: LedgerMachine, connection: AsyncConnection) -> bool:
            call = ledger.touch(connection, job, "worker")
            if not model.touch(job):
                with pytest.raises(DBAPIError, match=r"reserved nothing|settled already"):
                    await call
                return False
            await call
            return True

        return run

    def settlement_of(self, job: str) -> Operation:
        async def run(model: Model, _: LedgerMachine, connection: AsyncConnection) -> bool:
            expected = model.settle(job)
            settled = await ledger.settle(connection, job, "worker")
            assert {one.account_id: one.kind for one in settled} == {
                self.account(number): kind for number, kind in expected.items()
            }
            return True

        return run

    def transaction(self, operations: list[Operation], fate: str) -> None:
        """All operations in one transaction, with the model in step; the model keeps what the
        database commits."""
        model = deepcopy(self.model)

        async def run() -> None:
            async with self.database.transaction(SYSTEM) as connection:
                for operation in operations:
                    if not await operation(model, self, connection):
                        raise Undone
                if fate == "lost":  # the client is gone: the server finds the socket closed
                    await connection.invalidate()
                if fate != "commit":
                    raise Undone

        try:
            self.runner.run(run())
        except Undone:
            return
        self.model = model

    # -- rules -------------------------------------------------------------------------------------

    @rule(account=st.integers(0, ACCOUNTS - 1), cap=caps, fate=FATES)
    def grant(self, account: int, cap: Cap, fate: str) -> None:
        self.transaction([self.grant_of(account, cap)], fate)

    @rule(accounts=some_accounts, price=prices, fate=FATES)
    def reserve(self, accounts: list[int], price: Price, fate: str) -> None:
        self.transaction(
            [self.reservation_of(self.job(len(self.model.jobs)), accounts, price)], fate
        )

    @rule(accounts=some_accounts, fill=st.integers(-1, 1), fate=FATES)
    def reserve_to_the_edge(self, accounts: list[int], fill: int, fate: str) -> None:
        """The largest pure price that the first account admits, one unit less, and one more."""
        held = self.model.accounts[accounts[0]]
        epsilon = max(0, filters.largest_epsilon(held.totals, held.cap) + fill)
        operation = self.reservation_of(
            self.job(len(self.model.jobs)), accounts, Price.pure(epsilon)
        )
        self.transaction([operation], fate)

    @precondition(lambda self: self.model.jobs)
    @rule(data=st.data(), accounts=some_accounts, price=prices)
    def reserve_twice(self, data: st.DataObject, accounts: list[int], price: Price) -> None:
        """A job that has a reservation gets no second one on the same account."""
        job = data.draw(st.sampled_from(sorted(self.model.jobs)))
        shared = self.model.jobs[job].accounts[:1]
        self.transaction(
            [self.reservation_of(job, list(dict.fromkeys(shared + accounts))[:3], price)], "commit"
        )

    @rule(data=st.data(), fate=FATES)
    def touch(self, data: st.DataObject, fate: str) -> None:
        self.transaction([self.touch_of(self.any_job(data))], fate)

    @rule(data=st.data(), fate=FATES)
    def settle(self, data: st.DataObject, fate: str) -> None:
        self.transaction([self.settlement_of(self.any_job(data))], fate)

    @rule(
        data=st.data(),
        price=prices,
        cap=caps,
        accounts=some_accounts,
        stop=st.integers(1, 5),
        fate=FATES,
    )
    def several(
        self, data: st.DataObject, price: Price, cap: Cap, accounts: list[int], stop: int, fate: str
    ) -> None:
        """Several operations in one transaction, which ends after the first `stop` of them."""
        new, old = self.job(len(self.model.jobs)), self.any_job(data)
        operations = [
            self.reservation_of(new, accounts, price),
            self.settlement_of(old),
            self.grant_of(accounts[0], cap),
            self.touch_of(old),
            self.settlement_of(new),
        ]
        self.transaction(data.draw(st.permutations(operations))[:stop], fate)

    def any_job(self, data: st.DataObject) -> str:
        """A job that has reserved, or one that has not."""
        return self.job(data.draw(st.integers(0, len(self.model.jobs))))

    # -- what always holds -------------------------------------------------------------------------

    @invariant()
    def database_and_model_agree_and_nothing_is_overspent_or_negative(self) -> None:
        found = self.runner.run(self.balances())
        for number, held in enumerate(self.model.accounts):
            balance = found[self.account(number)]
            totals, reserved = complete(balance.totals), complete(balance.reserved)
            cap = Cap(balance.cap["epsilon"], balance.cap["delta"])
            assert (totals, reserved, cap) == (held.totals, held.reserved, held.cap)
            assert filters.admits(totals, Price.zero(), cap)
            assert all(0 <= reserved[name] <= totals[name] for name in COLUMNS)

    async def balances(self) -> dict[str, ledger.AccountBalance]:
        async with self.database.transaction(SYSTEM) as connection:
            return await ledger.balances(
                connection, [self.account(number) for number in range(ACCOUNTS)]
            )

    async def entries(self) -> list[list[dict[str, Any]]]:
        async with self.database.transaction(SYSTEM) as connection:
            return [
                await ledger.entries(connection, self.account(number), after=0, size=1000)
                for number in range(ACCOUNTS)
            ]

    def teardown(self) -> None:
        """Sums of entries are the balances, each job's entries are a life, and the chain holds."""
        if not hasattr(self, "model"):
            return
        for number, rows in enumerate(self.runner.run(self.entries())):
            held = self.model.accounts[number]
            sums = check_chain(rows)
            assert complete(sums.totals) == held.totals
            assert complete(sums.reserved) == held.reserved
            lives = {name: job for name, job in self.model.jobs.items() if number in job.accounts}
            assert set(sums.lives) == set(lives)
            for name, job in lives.items():
                end = ["commit" if job.touched else "release"] if job.ended else []
                assert sums.lives[name] == ["reserve", *["data_touched"] * job.touched, *end]
            assert json.loads(rows[-1]["body"])["cap"] == cap_amounts(held.cap)


def complete(amounts: dict[str, int]) -> dict[str, int]:
    """All columns: an account that was never charged names none."""
    return {name: amounts.get(name, 0) for name in COLUMNS}


KINDS = {"open", "grant", "reserve", "data_touched", "commit", "release"}


async def kinds_written(database: Database) -> set[str]:
    async with database.transaction(SYSTEM) as connection:
        return set(
            (await connection.execute(text("SELECT DISTINCT kind FROM ledger_entries"))).scalars()
        )


@pytest.mark.parametrize("machines", [6, pytest.param(25, marks=pytest.mark.long)])
def test_the_ledger_is_its_model(settings: Settings, machines: int) -> None:
    with asyncio.Runner() as runner:
        opened = Database(settings)

        class Machine(LedgerMachine):
            pass

        Machine.runner, Machine.database = runner, opened
        try:
            run_state_machine_as_test(  # type: ignore[no-untyped-call]
                Machine,
                settings=profile(
                    max_examples=machines,
                    stateful_step_count=40,
                    deadline=None,
                    derandomize=True,
                    suppress_health_check=list(HealthCheck),
                ),
            )
            # A machine that never came to reserve, touch and end something would have agreed with
            # anything.
            assert runner.run(kinds_written(opened)) == KINDS
        finally:
            runner.run(opened.close())
