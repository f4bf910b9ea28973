"""Attacks on what is signed: results under certificates, tables, exports."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg

from discreet.ledger.entries import Broken, head_line
from discreet.ledger.verification import verify
from discreet.storage.database import libpq_url
from tests import bodies
from tests.conftest import Installation
from tests.hostile import Attack, Reached

SECTION = "4. What is signed"


def finished(service: Installation, number: int = 1) -> list[dict[str, Any]]:
    """Answers of jobs that have succeeded."""
    with service.client() as client:
        jobs = [
            client.submit(bodies.job(client.register(bodies.dataset())["id"]))
            for _ in range(number)
        ]
        return [client.result(client.wait(job["id"])["id"]) for job in jobs]


@contextmanager
def rows(service: Installation) -> Iterator[psycopg.Connection[Any]]:
    """The database as the owner of its tables."""
    with psycopg.connect(
        libpq_url(service.settings.migration_database_url or ""), autocommit=True
    ) as connection:
        connection.execute("SET discreet.tenant = '*'")
        yield connection


def swapped_results(service: Installation) -> Reached:
    mine, other = (answer["job"]["id"] for answer in finished(service, 2))
    changes = (
        ("UPDATE job_results SET result = '{}' WHERE job_id = %s", (mine,)),
        (
            "UPDATE job_results SET result = (SELECT result FROM job_results WHERE job_id = %s) "
            "WHERE job_id = %s",
            (other, mine),
        ),
        (
            "UPDATE job_results AS a SET result = b.result, certificate = b.certificate FROM "
            "job_results AS b"
            " WHERE b.job_id = %s AND a.job_id = %s",
            (other, mine),
        ),
        (
            "UPDATE job_results SET certificate = certificate - 'result_digest' - 'tables' WHERE "
            "job_id = %s",
            (mine,),
        ),
    )
    taken, codes = 0, set()
    with rows(service) as connection, service.http() as http:
        found = connection.execute(
            "SELECT result, certificate FROM job_results WHERE job_id = %s", (mine,)
        ).fetchone()
        assert found is not None
        for statement, values in changes:
            assert connection.execute(statement, values).rowcount == 1
            answer = http.get(f"/v1/jobs/{mine}/result")
            taken += answer.status_code == 200
            codes.add(answer.json().get("code"))
            restored = (found[0], json.dumps(found[1]), mine)
            connection.execute(
                "UPDATE job_results SET result = %s, certificate = %s WHERE job_id = %s", restored
            )
        assert http.get(f"/v1/jobs/{mine}/result").status_code == 200
    return Reached(
        f"{taken} of {len(changes)} given out, {codes}", taken == 0 and codes == {"result_altered"}
    )


def foreign_table(service: Installation) -> Reached:
    (answer,) = finished(service)
    job = answer["job"]["id"]
    with rows(service) as connection, service.http() as http:
        connection.execute("INSERT INTO result_tables VALUES (%s, 'link_flows', 'PAR1')", (job,))
        got = http.get(f"/v1/jobs/{job}/result/link_flows")
        connection.execute("DELETE FROM result_tables WHERE job_id = %s", (job,))
    return Reached(f"{got.status_code} {got.json().get('code')}", got.status_code == 500)


def exported(service: Installation) -> bytes:
    out = io.BytesIO()
    with service.client() as client:
        client.export_ledger(out)
    return out.getvalue()


def takes(export: bytes) -> bool:
    try:
        verify(io.BytesIO(export))
    except Broken:
        return False
    return True


def flipped_bytes(service: Installation) -> Reached:
    """All of the head's bytes and of the first entries', a sample of 4,000 of the others."""
    finished(service)
    export = exported(service)
    assert takes(export)
    step = max(1, len(export) // 4000)
    places = [*range(min(4000, len(export))), *range(4000, len(export), step)]
    free = sum(takes(export[:at] + bytes([export[at] ^ 1]) + export[at + 1 :]) for at in places)
    return Reached(f"{free} of {len(places)} taken", free == 0)


def inserted_members(service: Installation) -> Reached:
    finished(service)
    export = exported(service)
    head, rest = export.split(b"\n", 1)
    forged = [
        head_line({**json.loads(head), "note": "true"}) + rest,
        head.replace(b'"format"', b'"format":"","format"', 1) + b"\n" + rest,
        head + b"\n" + rest.replace(b"}\n", b',"note":1}\n', 1),
        head + b"\n" + rest.replace(b'{"account"', b'{"a":1,"account"', 1),
        head + b"\n" + rest.replace(b'"seq":1,', b'"seq":1.0,', 1),
        export + b"\n",
        export.replace(b"\n", b"\r\n", 1),
        b" " + export,
    ]
    taken = sum(takes(one) for one in forged)
    return Reached(f"{taken} of {len(forged)} taken", taken == 0)


ATTACKS = [
    Attack(SECTION, "another result under a valid certificate", "0 given out", swapped_results),
    Attack(SECTION, "a table that was never published", "500 result_altered", foreign_table),
    Attack(SECTION, "bytes of an export flipped", "0 taken", flipped_bytes),
    Attack(SECTION, "members, spaces and numbers put into an export", "0 taken", inserted_members),
]
