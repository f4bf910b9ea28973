"""Somebody writes rows who may: the service's own database role in other hands, or the database's
administrator.

Without the secrets they must not get a release that nobody paid for: neither by a plan with less
noise than the ledger charges for, nor by a private dataset that calls itself a simulation.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import psycopg
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from discreet.installation.local import _DATASET, _JOB
from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems import JOBS
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet.storage import sealing, secrets, tamper_seals
from discreet.storage.database import SYSTEM, libpq_url
from discreet.storage.tenants import Principal
from discreet.usecases import access, datasets, jobs, running
from discreet.usecases.services import Services, open_services
from discreet.web.bodies import validate
from discreet.web.uploads import whole_registration
from tests import bodies
from tests.reliability.chains import superuser_url


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[tuple[Services, Principal, str, str]]:
    """Services, an owner, a dataset of its, and a job on it that waits."""
    async with open_services(settings) as services:
        owner = await access.local_owner(services)
        row, _ = await datasets.register(
            services,
            owner,
            whole_registration(validate(_DATASET, bodies.dataset(mode="private")).root),
        )
        yield services, owner, row["id"], await submit(services, owner, row["id"])


async def submit(services: Services, owner: Principal, dataset: str, **more: Any) -> str:
    request = validate(_JOB, {**bodies.job(dataset), **more})
    row = await jobs.submit(
        services,
        owner,
        idempotency_key=str(uuid.uuid4()),
        request=uuid.uuid4().bytes,
        problem=request.problem,
        privacy=request.privacy,
        seed=request.seed,
    )
    return str(row["id"])


async def outcome(services: Services, owner: Principal, job: str) -> tuple[str, str | None]:
    row = await jobs.find(services, owner, job)
    return row["state"], row["error_code"]


def attack(
    settings: Settings, go: Callable[[Services, Principal, str, str], Awaitable[None]]
) -> None:
    async def run() -> None:
        async with opened(settings) as parts:
            await go(*parts)

    asyncio.run(run())


CHANGES = (
    """UPDATE jobs SET plan = jsonb_set(plan, '{events,0,scale}', '0.000001')""",
    """UPDATE jobs SET plan = jsonb_set(plan, '{parameters}', '{"scale": 0.000001}')""",
    """UPDATE jobs SET price = jsonb_set(price, '{epsilon}', '"1"')""",
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_job_that_was_changed_does_not_run(settings: Settings, change: str) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as other:
            other.execute("SET discreet.tenant = '*'")
            assert other.execute(change).rowcount == 1
        assert await running.claim(services, job) is None
        assert await outcome(services, owner, job) == ("failed", "job_altered")
        (account,) = {row["account_id"] for row in await _entries(services, job)}
        assert [row["kind"] for row in await _entries(services, job)] == ["reserve", "release"], (
            account
        )

    attack(settings, go)


def test_a_job_of_a_version_whose_requests_are_not_taken_any_more(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends at once with its true cause: a worker that stumbled over it would have it again, for
    ever."""

    class Narrower(Routing):
        relative_gap: Literal[1] = 1

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        monkeypatch.setitem(JOBS, "routing", Narrower)
        assert await running.claim(services, job) is None
        assert await outcome(services, owner, job) == ("failed", "job_outdated")
        assert [row["kind"] for row in await _entries(services, job)] == ["reserve", "release"]

    attack(settings, go)


@pytest.mark.parametrize(
    "change",
    [
        "problem = jsonb_set(problem, '{objective}', '\"user_equilibrium\"')",
        "seed = 1",
        "tamper_seal = NULL",
        "tamper_seal = (SELECT tamper_seal FROM jobs AS other WHERE other.id <> jobs.id LIMIT 1)",
    ],
)
def test_what_was_accepted_is_changed_by_the_administrator_only_and_does_not_run(
    postgres: EmbeddedPostgres, settings: Settings, change: str
) -> None:
    """Also without its MAC, or with another job's."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        names = (job, await submit(services, owner, dataset))
        statement = f"UPDATE jobs SET {change}".encode()  # noqa: S608
        with psycopg.connect(libpq_url(settings.database_url or "")) as service:
            service.execute("SET discreet.tenant = '*'")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                service.execute(statement)
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            assert administrator.execute(statement).rowcount == 2
        for name in names:
            assert await running.claim(services, name) is None
            assert await outcome(services, owner, name) == ("failed", "job_altered")

    attack(settings, go)


def test_a_job_that_was_never_accepted_does_not_run(settings: Settings) -> None:
    """A row of one's own, with a reservation on an account of one's own, and also with the seal of
    another job."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as other:
            other.execute("SET discreet.tenant = '*'")
            for name in ("job_mine1", "job_mine2"):
                other.execute(
                    "INSERT INTO jobs (id, tenant_id, dataset_id, principal, kind, problem, plan, "
                    "price, tamper_seal)"
                    " SELECT %s, tenant_id, dataset_id, principal, kind, problem, plan, price,"
                    " CASE WHEN %s THEN tamper_seal END FROM jobs WHERE id = %s",
                    (name, name == "job_mine2", job),
                )
                amounts = json.dumps({"epsilon": "1", "delta": "1"})
                other.execute(
                    "SELECT ledger_open(%s, %s, 'data', %s, 'request', %s, %s, 'me', NULL)",
                    (
                        f"acc_{name}",
                        owner.tenant_id,
                        name,
                        amounts,
                        json.dumps({"basic": {"delta": "1"}}),
                    ),
                )
                price = json.dumps(dict.fromkeys(("epsilon", "delta", "rho", "delta_z"), "0"))
                other.execute(
                    "SELECT ledger_reserve(%s, %s, %s, '[]', 'me')", (name, [f"acc_{name}"], price)
                )
        for name in ("job_mine1", "job_mine2"):
            assert await running.claim(services, name) is None
            assert await outcome(services, owner, name) == ("failed", "job_altered")
        held = await running.claim(services, job)  # and the one that was accepted does
        assert held is not None
        assert await running.open_content(services, held)

    attack(settings, go)


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE datasets SET mode = 'simulation'",
        """UPDATE datasets SET public = jsonb_set(public, '{period_minutes}', '30')""",
        "UPDATE datasets SET digest = sha256('')",
    ],
)
def test_a_dataset_that_was_changed_does_not_open(
    postgres: EmbeddedPostgres, settings: Settings, change: str
) -> None:
    """Not even for a job that the service itself accepts afterwards."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            assert administrator.execute(change).rowcount == 1
        for name in (job, await submit(services, owner, dataset)):
            held = await running.claim(services, name)
            if held is None:  # planned for what the dataset was before: ended as altered
                assert "public =" in change
            else:
                with pytest.raises(sealing.SealBroken):
                    await running.open_content(services, held)
            assert "data_touched" not in {row["kind"] for row in await _entries(services, name)}

    attack(settings, go)


def test_what_no_seal_binds_opens_nothing(postgres: EmbeddedPostgres, settings: Settings) -> None:
    """A job without a seal, and a data key that is bound to no terms."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        late = await submit(services, owner, dataset)
        async with services.database.transaction(SYSTEM) as connection:
            from discreet.storage import datasets as rows

            row = await rows.held(connection, dataset)
        assert row is not None
        data_key = tamper_seals.unwrap(services.secrets, row)
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            administrator.execute("UPDATE jobs SET tamper_seal = NULL WHERE id = %s", (job,))
            administrator.execute(
                "UPDATE datasets SET wrapped_key = %s",
                (sealing.wrap(services.secrets, dataset, data_key),),
            )
        assert await running.claim(services, job) is None
        assert await outcome(services, owner, job) == ("failed", "job_altered")
        held = await running.claim(services, late)
        assert held is not None
        with pytest.raises(sealing.SealBroken):
            await running.open_content(services, held)

    attack(settings, go)


NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 1e22, 1e23, 5e-324, 1.7e308, 2**53, 10**400])
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
VALUES = st.recursive(
    NUMBERS | TEXTS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def test_a_seal_holds_for_what_comes_back_from_the_database(settings: Settings) -> None:
    keys = secrets.load(settings.secrets_path)
    job = {
        "id": "job_1",
        "tenant_id": "ten_1",
        "dataset_id": None,
        "kind": "k",
        "price": {},
        "seed": 2**63 - 1,
    }

    with psycopg.connect(libpq_url(settings.database_url or ""), autocommit=True) as connection:

        @examples(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(VALUES)
        def check(value: Any) -> None:
            (back,) = connection.execute(
                "SELECT %s::text::jsonb", (json.dumps(value),)
            ).fetchone() or (None,)
            sent, read = ({**job, "problem": one, "plan": {}} for one in (value, back))
            assert tamper_seals.seal_job(keys, sent) == tamper_seals.seal_job(keys, read)

        check()


async def _entries(services: Services, job: str) -> list[dict[str, Any]]:
    from discreet.storage import ledger

    async with services.database.transaction(SYSTEM) as connection:
        return await ledger.reservation(connection, job)
