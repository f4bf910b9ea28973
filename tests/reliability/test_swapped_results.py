"""Somebody writes rows of results who may: what is stored is answered only as it was published."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import Conflict, DiscreetError, NotFound
from discreet.ledger import certificates
from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.database import libpq_url
from discreet.storage.tenants import Principal
from discreet.usecases import published, rotation, running
from discreet.usecases.services import Services
from discreet_agent import canonical
from tests import bodies
from tests.conftest import Installation
from tests.reliability.test_forged_rows import attack, submit

RESULT = canonical.dumps({"total_travel_time": 4.5, "tables": ["link_flows"]})
PARQUET = b"PAR1 flows PAR1"


async def publish(services: Services, job: str, result: bytes = RESULT) -> None:
    held = await running.claim(services, job)
    assert held is not None
    await running.touch(services, held)
    held = await running.keep_release(services, held, b"released")
    await running.publish(services, held, result, {"link_flows": PARQUET})


def change(settings: Settings, statement: str, *values: Any) -> None:
    """A statement of the tables' owner: the service's own role may add results and change none."""
    with psycopg.connect(
        libpq_url(settings.migration_database_url or ""), autocommit=True
    ) as other:
        other.execute("SET discreet.tenant = '*'")
        assert other.execute(statement, values).rowcount >= 1  # type: ignore[call-overload]


def signed_by(key: Ed25519PrivateKey, certificate: dict[str, Any], **values: Any) -> dict[str, Any]:
    body = {
        name: value
        for name, value in certificate.items()
        if name not in ("signature", "public_key")
    }
    return certificates.sign({**body, **values}, key)


async def refusals(services: Services, owner: Principal, job: str) -> tuple[str, str]:
    """Codes of what the result and its table are answered with; "" where they are given out."""
    found = []
    for ask in (
        published.result(services, owner, job),
        published.result_table(services, owner, job, "link_flows"),
    ):
        try:
            await ask
            found.append("")
        except DiscreetError as error:
            found.append(error.code)
    return found[0], found[1]


def test_a_certificate_names_what_was_released_whatever_the_row_says(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        held = await running.claim(services, job)
        assert held is not None
        await running.touch(services, held)
        held = await running.keep_release(services, held, b"released")
        change(settings, "UPDATE releases SET digest = sha256('other') WHERE job_id = %s", job)
        await running.publish(services, held, RESULT, {})
        _, _, certificate = await published.result(services, owner, job)
        assert certificate["release_digest"] == hashlib.sha256(b"released").hexdigest()

    attack(settings, go)


def test_what_was_exchanged_is_not_given_out(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        other = await submit(services, owner, dataset)
        await publish(services, job)
        await publish(
            services, other, canonical.dumps({"total_travel_time": 9, "tables": ["link_flows"]})
        )
        _, text, certificate = await published.result(services, owner, job)
        assert text == RESULT
        assert certificate["result_digest"] == hashlib.sha256(RESULT).hexdigest()
        assert certificate["tables"] == {"link_flows": hashlib.sha256(PARQUET).hexdigest()}
        assert await published.result_table(services, owner, job, "link_flows") == PARQUET
        with pytest.raises(NotFound):
            await published.result_table(services, owner, job, "policy")

        stranger = Ed25519PrivateKey.generate()
        mine = b'{"total_travel_time":1}'
        mine_digest = hashlib.sha256(mine).hexdigest()
        swaps: list[tuple[str, tuple[Any, ...], tuple[str, str]]] = [
            (
                "UPDATE job_results SET result = %s WHERE job_id = %s",
                (mine, job),
                ("result_altered", "result_altered"),
            ),
            (  # also where only the writing of it differs
                "UPDATE job_results SET result = %s WHERE job_id = %s",
                (RESULT.replace(b":", b": "), job),
                ("result_altered", "result_altered"),
            ),
            (  # all of another job, which was published too
                "UPDATE job_results AS a SET result = b.result, certificate = b.certificate FROM "
                "job_results AS b"
                " WHERE b.job_id = %s AND a.job_id = %s",
                (other, job),
                ("result_altered", "result_altered"),
            ),
            (  # a certificate that binds nothing any more
                "UPDATE job_results SET result = %s, certificate = certificate - 'result_digest' - "
                "'tables'"
                " WHERE job_id = %s",
                (mine, job),
                ("result_altered", "result_altered"),
            ),
            (  # the same, signed with a key of one's own
                "UPDATE job_results SET result = %s, certificate = %s WHERE job_id = %s",
                (
                    mine,
                    json.dumps(signed_by(stranger, certificate, result_digest=mine_digest)),
                    job,
                ),
                ("signing_key_unknown", "signing_key_unknown"),
            ),
            *(  # what is no certificate at all, and numbers that no double holds
                (
                    "UPDATE job_results SET certificate = %s WHERE job_id = %s",
                    (text, job),
                    ("result_altered",) * 2,
                )
                for text in (
                    "[]",
                    "null",
                    '"signed"',
                    json.dumps(certificate)[:-1] + ', "version": 1e400}',
                )
            ),
            (
                "UPDATE result_tables SET parquet = %s WHERE job_id = %s",
                (b"PAR1 mine PAR1", job),
                ("", "result_altered"),
            ),
            ("DELETE FROM result_tables WHERE job_id = %s", (job,), ("", "result_altered")),
        ]
        for statement, values, expected in swaps:
            change(settings, statement, *values)
            assert await refusals(services, owner, job) == expected, statement
            change(
                settings,
                "UPDATE job_results SET result = %s, certificate = %s WHERE job_id = %s",
                RESULT,
                json.dumps(certificate),
                job,
            )
            change(
                settings,
                "INSERT INTO result_tables (job_id, name, parquet) VALUES (%s, 'link_flows', %s)"
                " ON CONFLICT (job_id, name) DO UPDATE SET parquet = excluded.parquet",
                job,
                PARQUET,
            )
            assert await refusals(services, owner, job) == ("", "")

    attack(settings, go)


def test_results_of_an_older_version_are_given_out_and_bound_by_nothing(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        _, _, certificate = await published.result(services, owner, job)
        body = {
            name: value
            for name, value in certificate.items()
            if name not in ("result_digest", "tables")
        }
        old = signed_by(services.secrets.signer, body)
        text = b'{"total_travel_time": 4.5, "tables": ["link_flows"]}'
        change(
            settings, "UPDATE job_results SET result = %s, certificate = %s", text, json.dumps(old)
        )
        assert (await published.result(services, owner, job))[1:] == (text, old)
        assert await published.result_table(services, owner, job, "link_flows") == PARQUET

    attack(settings, go)


def test_a_signing_key_that_certified_results_is_kept(settings: Settings) -> None:
    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await publish(services, job)
        path, old = settings.secrets_path, certificates.public_key(services.secrets.signer)
        await rotation.rotate(services, path, "signing")
        assert await refusals(services, owner, job) == ("", "")
        with pytest.raises(Conflict, match="1 results were certified"):
            await rotation.retire(services, path, "signing", old)
        await rotation.retire(services, path, "signing", old, force=True)
        assert await refusals(services, owner, job) == (
            "signing_key_unknown",
            "signing_key_unknown",
        )
        for wrong in ("", "x", base64.b64encode(b"short").decode()):
            with pytest.raises(secrets.SecretsError, match="not a public key"):
                secrets.trust(path, wrong)
        for _ in range(2):
            secrets.trust(path, old)
        assert services.secrets.other_signing_keys == (old,)
        assert await refusals(services, owner, job) == ("", "")

    attack(settings, go)


def test_over_http(service: Installation) -> None:
    """A clear code in place of a result, on real processes."""
    with service.client() as client, service.http() as http:
        dataset = client.register(bodies.dataset())
        job = client.wait(client.submit(bodies.job(dataset["id"]))["id"])["id"]
        assert client.result(job)["certificate"]["result_digest"]
        change(service.settings, "UPDATE job_results SET result = %s WHERE job_id = %s", b"{}", job)
        for path in (f"/v1/jobs/{job}/result", f"/v1/jobs/{job}/result/link_flows"):
            answer = http.get(path)
            assert (answer.status_code, answer.json()["code"]) == (500, "result_altered")
            assert "not what was published" in answer.json()["detail"]
        assert client.job(job)["state"] == "succeeded"
