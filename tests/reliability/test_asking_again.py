"""Asking again when something goes wrong: rows that somebody wrote, keys that changed, workers that
died at any line.

Whatever happens, nothing is charged, no data are touched, and nobody gets what another tenant's job
released.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import InvalidInput, ReleaseDiffers
from discreet.installation.local import _DATASET
from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems import KINDS
from discreet.settings import Settings
from discreet.storage import jobs as stored_releases
from discreet.storage.database import SYSTEM
from discreet.storage.ledger import of_job
from discreet.storage.tenants import Principal
from discreet.usecases import (
    asking,
    datasets,
    endings,
    erasure,
    jobs,
    operations,
    published,
    rotation,
    running,
)
from discreet.usecases.running import CancelRequested
from discreet.usecases.services import Services
from discreet.web.bodies import validate
from discreet.web.uploads import whole_registration
from tests import bodies
from tests.reliability.chains import superuser_url
from tests.reliability.test_forged_rows import attack, submit
from tests.reliability.test_swapped_results import change, publish, signed_by


async def registered(services: Services, owner: Principal, body: dict[str, Any]) -> str:
    row, _ = await datasets.register(
        services, owner, whole_registration(validate(_DATASET, body).root)
    )
    return str(row["id"])


def question(first: str | list[str], **problem: Any) -> dict[str, Any]:
    """More of a body, so that it asks a job again."""
    body = bodies.job("", objective="user_equilibrium", release=first, **problem)
    del body["problem"]["dataset"]
    return {**body, "privacy": None}


async def ended(services: Services, owner: Principal, job: str) -> tuple[str, str | None]:
    row = await jobs.find(services, owner, job)
    async with services.database.transaction(SYSTEM) as connection:
        assert await of_job(connection, job) == []
    if row["error_code"] is not None:
        assert (
            row["error_detail"]
            == f"{endings.FAILURES[row['error_code']]}; {endings.NOTHING_RESERVED}"
        )
    return row["state"], row["error_code"]


FAULTS = {
    "the release is gone": ("DELETE FROM releases WHERE job_id = %(job)s", "first_release_gone"),
    "its bytes were changed": (
        "UPDATE releases SET sealed = set_byte(sealed, 3, (get_byte(sealed, 3) + 1) %% 256) WHERE "
        "job_id = %(job)s",
        "first_release_altered",
    ),
    "it is another job's": (
        "UPDATE releases SET (sealed, wrapped_key, terms, digest) ="
        " (SELECT sealed, wrapped_key, terms, digest FROM releases WHERE job_id = %(other)s) WHERE "
        "job_id = %(job)s",
        "first_release_altered",
    ),
    "what was asked of it was changed": (
        "UPDATE jobs SET problem = jsonb_set(problem, '{relative_gap}', '1e-3') WHERE id = %(job)s",
        "first_release_altered",
    ),
    "its noise was changed": (
        "UPDATE jobs SET plan = jsonb_set(plan, '{noise,0,scale}', '1e-3') WHERE id = %(job)s",
        "first_release_altered",
    ),
    "its certificate was changed": (
        "UPDATE job_results SET certificate = jsonb_set(certificate, '{price}', '{}') WHERE job_id "
        "= %(job)s",
        "first_release_altered",
    ),
    "its certificate is of another release": (
        "UPDATE job_results SET certificate = (SELECT certificate FROM job_results WHERE job_id = "
        "%(other)s)"
        " WHERE job_id = %(job)s",
        "first_release_altered",
    ),
    "it was given to another tenant": (
        "UPDATE jobs SET tenant_id = (SELECT id FROM tenants WHERE name = 'other') WHERE id = "
        "%(job)s",
        "first_release_gone",
    ),
    "its dataset was changed": (
        "UPDATE datasets SET mode = 'simulation' WHERE id = %(dataset)s",
        "first_release_altered",
    ),
}


def test_what_cannot_be_asked_any_more(postgres: EmbeddedPostgres, settings: Settings) -> None:
    """Rows that changed after a job that asks again was accepted: all that it would be made of is
    looked at."""

    async def go(services: Services, owner: Principal, dataset: str, other: str) -> None:
        await publish(services, other)
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            administrator.execute("INSERT INTO tenants (id, name) VALUES ('ten_other', 'other')")
            administrator.execute("SET session_replication_role = replica")
            for why, (statement, code) in FAULTS.items():
                job = await submit(services, owner, dataset)
                await publish(services, job)
                asked = await submit(services, owner, dataset, **question(job))
                done = administrator.execute(
                    statement.encode(), {"job": job, "other": other, "dataset": dataset}
                )
                assert done.rowcount == 1, why
                assert await running.claim(services, asked) is None, why
                assert await ended(services, owner, asked) == ("failed", code), why

    attack(settings, go)


def test_private_releases_are_asked_beside_no_simulation(
    postgres: EmbeddedPostgres, settings: Settings
) -> None:
    """Somebody who writes rows makes both seem of one dataset until the job is accepted. It would
    be a simulation's."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        public = await registered(services, owner, bodies.dataset(mode="simulation"))
        simulated = await submit(services, owner, public)
        await publish(services, simulated)
        with psycopg.connect(superuser_url(postgres, settings), autocommit=True) as administrator:
            administrator.execute("SET session_replication_role = replica")
            move = "UPDATE jobs SET dataset_id = %s WHERE id = %s"
            administrator.execute(move, (dataset, simulated))
            asked = await submit(services, owner, dataset, **question([job, simulated]))
            administrator.execute(move, (public, simulated))
        assert await running.claim(services, asked) is None
        assert await ended(services, owner, asked) == ("failed", "first_release_altered")

    attack(settings, go)


def test_releases_of_unlike_sums_are_not_combined(settings: Settings) -> None:
    """A clip `auto` is another at another budget: the counts are then of other histograms, in other
    units."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        body = KINDS["dr_ensemble"].example()
        states, of = 12, {"states": 12, "participants": 120, "steps": 97}
        records = [[(load + step) % states for step in range(97)] for load in range(120)]
        declared = body["problem"]["dataset"]
        declared["public"] |= of
        problem = {
            **body["problem"],
            "dataset": await registered(
                services, owner, {**declared, "content": {"trajectories": records}}
            ),
            "power": [1.0] * states,
            "initial": [1.0] + [0.0] * (states - 1),
            "clip": "auto",
        }
        named = []
        for epsilon in (1, 1, 0.1):
            privacy = {"epsilon": epsilon, "delta": 1e-6}
            named.append(await submit(services, owner, dataset, problem=problem, privacy=privacy))
            await publish(services, named[-1])
        del problem["dataset"]

        async def ask(*release: str) -> str:
            return await submit(
                services, owner, dataset, problem={**problem, "release": release}, privacy=None
            )

        with pytest.raises(
            ReleaseDiffers, match=rf"clip is 0\.18 in {named[0]}, null in {named[2]}"
        ) as refused:
            await ask(named[0], named[2])
        assert {one.pointer for one in refused.value.issues} == {"/problem/release"}
        for release in (named[:2], named[2:]):
            assert await running.claim(services, await ask(*release)) is not None

    attack(settings, go)


def test_noise_of_one_seed_is_no_gain(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        public = await registered(services, owner, bodies.dataset(mode="simulation"))
        named = [await submit(services, owner, public, seed=seed) for seed in (5, 5, 6, None, None)]
        for one in named:
            await publish(services, one)
        with pytest.raises(InvalidInput, match="same seed"):
            await submit(services, owner, public, **question(named))
        assert await submit(services, owner, public, **question(named[1:]))

    attack(settings, go)


def test_more_releases_than_are_combined_are_not_read(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that asked a hundred is named as one: their problems and plans may be large."""
    read: list[int] = []
    look = stored_releases.to_ask_again

    async def counted(connection: Any, tenant: str, names: Sequence[str]) -> Any:
        read.append(len(names))
        return await look(connection, tenant, names)

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        named = [job, await submit(services, owner, dataset)]
        for one in named:
            await publish(services, one)
        asked = await submit(services, owner, dataset, **question(named))
        monkeypatch.setattr(stored_releases, "to_ask_again", counted)
        monkeypatch.setattr(asking, "MOST_RELEASES", 1)
        with pytest.raises(InvalidInput, match="2 releases; at most 1"):
            await submit(services, owner, dataset, **question(asked))
        assert read == [1]

    attack(settings, go)


def test_a_first_certificate_of_an_unknown_key(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        _, _, certificate = await published.result(services, owner, job)
        asked = await submit(services, owner, dataset, **question(job))
        update = "UPDATE job_results SET certificate = %s WHERE job_id = %s"
        change(
            settings, update, json.dumps(signed_by(Ed25519PrivateKey.generate(), certificate)), job
        )
        assert await running.claim(services, asked) is None
        assert await ended(services, owner, asked) == ("failed", "first_signing_key_unknown")
        change(settings, update, json.dumps(certificate), job)
        assert await claimed(services, owner, dataset, job) == b"released"  # as it was

    attack(settings, go)


async def claimed(services: Services, owner: Principal, dataset: str, first: str) -> bytes | None:
    """What a worker gets that takes a new question about a job; which is then answered."""
    asked = await submit(services, owner, dataset, **question(first))
    held = await running.claim(services, asked)
    assert held is not None
    await running.publish(services, held, b"{}", {})
    assert await ended(services, owner, asked) == ("succeeded", None)
    return held.released


def test_keys_may_change(settings: Settings) -> None:
    """What was released opens after a rotation and the retirement of the master key, and of the key
    of jobs' seals."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        path = settings.secrets_path
        content, seals = services.secrets.content_key_id, str(services.secrets.job_key_id)
        assert (await rotation.rotate(services, path, "content"))[
            "moved"
        ] == 2  # the dataset's key, and the release's
        await rotation.retire(services, path, "content", content)
        await rotation.rotate(services, path, "jobs")
        await rotation.retire(services, path, "jobs", seals)
        await rotation.rotate(services, path, "signing")
        assert content not in services.secrets.content_keys
        assert seals not in services.secrets.job_keys
        assert await claimed(services, owner, dataset, job) == b"released"

    attack(settings, go)


def test_a_simulation_that_is_erased_meanwhile(settings: Settings) -> None:
    """Its release holds its data. What private data were made to release stays, whatever becomes of
    them."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        public = await registered(services, owner, bodies.dataset(mode="simulation"))
        simulated = await submit(services, owner, public)
        await publish(services, simulated)
        asked = await submit(services, owner, public, **question(simulated))
        for name in (dataset, public):
            await erasure.erase(services, owner, name)
        assert await running.claim(services, asked) is None
        assert await ended(services, owner, asked) == ("failed", "first_release_gone")
        assert await claimed(services, owner, dataset, job) == b"released"

    attack(settings, go)


def test_it_is_cancelled_until_it_is_published(settings: Settings) -> None:
    """Also when its answer is made: nothing was paid for it."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        waiting, taken = [await submit(services, owner, dataset, **question(job)) for _ in range(2)]
        _, found = await jobs.cancel(services, owner, waiting)
        assert (found.cancel, found.charge) == ("done", "none")
        held = await running.claim(services, taken)
        assert held is not None
        _, found = await jobs.cancel(services, owner, taken)
        assert (found.cancel, found.charge) == ("requested", "none")
        with pytest.raises(CancelRequested):
            await running.publish(services, held, b"{}", {})
        await running.cancel(services, held)
        for name in (waiting, taken):
            assert await ended(services, owner, name) == ("cancelled", None)
        assert await claimed(services, owner, dataset, job) == b"released"

    attack(settings, go)


def test_a_backup_loses_no_question(settings: Settings) -> None:
    """After a restore what could touch data again ends, charged; a job that asks again touches
    none, and goes on."""

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        asked, fresh = (
            await submit(services, owner, dataset, **question(job)),
            await submit(services, owner, dataset),
        )
        assert await operations.end_unfinished(services) == 1
        assert (await jobs.find(services, owner, fresh))["error_code"] == "restored"
        held = await running.claim(services, asked)
        assert held is not None
        assert held.released == b"released"

    attack(settings, go)
