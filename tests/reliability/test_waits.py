"""kill -9 of whoever lets a job wait, grants it or refuses it, at each line; and two deciders at
once. A job waits, or has its budget and a place on the queue, or has ended: nothing in between."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from tests import bodies
from tests.conftest import Installation, eventually, installation
from tests.reliability.chains import check_chain, read_chains, superuser_url
from tests.reliability.test_sources import block, day, killed_by

ROOT = Path(__file__).parents[2]


def ask(source: str, epsilon: float, wait: float = 9) -> dict[str, Any]:
    problem = {
        "kind": "routing",
        "source": {"id": source, "last": 2},
        "network": bodies.network(),
    }
    return {"problem": problem, "privacy": {"epsilon": epsilon}, "wait": wait}


def later(url: str, days: float) -> None:
    """As if all this had been so long ago."""
    with psycopg.connect(url) as connection:
        for statement in (
            "UPDATE datasets SET created_at = created_at - %(days)s * interval '1 day'",
            "UPDATE job_waits SET until = until - %(days)s * interval '1 day', "
            "next_try = next_try - %(days)s * interval '1 day'",
        ):
            connection.execute(statement, {"days": days})


def standing(url: str, job_id: str) -> tuple[str, bool, bool, bool]:
    """Its state; whether it waits, is on the queue, and has reserved."""
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT state, EXISTS (SELECT FROM job_waits WHERE job_id = j.id), "
            "EXISTS (SELECT FROM procrastinate_jobs WHERE queueing_lock = j.id), "
            "EXISTS (SELECT FROM ledger_entries WHERE job_id = j.id) FROM jobs AS j WHERE id = %s",
            [job_id],
        ).fetchone()
    assert found is not None
    return found


def killed_everywhere(running: Installation, job_id: str, url: str, end: str) -> int:
    """Decide with a decider that is killed at its first point, then at its second and so on, until
    one lives: the number of kills. After each the job waits, or is as it is at the end."""
    program = subprocess.Popen(
        [sys.executable, "-m", "tests.reliability.decider"],
        cwd=ROOT,
        env=running.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        for number in itertools.count(1):
            program.stdin.write(f"{number}\n")
            program.stdin.flush()
            if (said := program.stdout.readline()) != "killed\n":
                assert said == "done\n"
                program.stdin.close()
                break
            state, waits, queued, reserved = standing(url, job_id)
            assert (state, waits) in (("waiting", True), (end, False)), number
            assert queued == reserved == (state == "queued"), number
    return number - 1


@pytest.mark.long
def test_kill_9_around_every_wait_and_two_deciders(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    with installation(
        postgres, template, tmp_path / "state", workers=0, lease_seconds=2.0, max_attempts=9
    ) as running:
        url = superuser_url(postgres, running.settings)
        with running.client() as client:
            made = {
                "name": "s",
                "kind": "routing",
                "public": {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60},
                "by": "day",
                "cap": {"epsilon": 1, "delta": 0},
                "rule": {"shares": {"owner": 0.5, "bo": 0.5}, "lent_days": 10},
            }
            source = client.sources.create(made)["id"]
            for number in (1, 2):
                client.sources.add(source, day(number), block(number)["content"])
        # Submitting: nothing is there, or all of it is.
        killed_by(running, "wait.granted", "/v1/jobs", ask(source, 0.5), **{"Idempotency-Key": "a"})
        assert {row["kind"] for rows in read_chains(url).values() for row in rows} == {"open"}
        with running.client() as client:
            first = client.submit(ask(source, 0.5), idempotency_key="a")["id"]
        waits = ask(source, 0.3)
        killed_by(running, "wait.held", "/v1/jobs", waits, **{"Idempotency-Key": "b"})
        killed_by(running, "submit.committed", "/v1/jobs", waits, **{"Idempotency-Key": "b"})
        with running.client() as client:
            second = client.submit(waits, idempotency_key="b")
            assert second["state"] == "waiting"
            assert len(list(client.jobs())) == 2
        assert standing(url, second["id"]) == ("waiting", True, False, False)
        later(url, 7)
        assert killed_everywhere(running, second["id"], url, "queued") > 20
        assert standing(url, second["id"]) == ("queued", False, True, True)
        # Refusing: 0.2 are left and asked for, but Bo spends of his share meanwhile.
        with running.client() as client:
            third = client.submit(ask(source, 0.2))
            assert third["state"] == "waiting"
            bo = client.create_key(role="analyst", principal="bo")["key"]
        with running.client(bo) as analyst:
            fourth = analyst.submit(ask(source, 0.1, 0))["id"]
        later(url, 3.1)
        assert killed_everywhere(running, third["id"], url, "failed") > 10
        for _ in range(2):  # both decide
            running.start_worker()
        with running.client() as client:
            ended = client.wait(third["id"])
            assert (ended["state"], ended["error"]["code"]) == ("failed", "wait_spent")
            for job_id in (first, second["id"], fourth):
                assert client.wait(job_id)["state"] == "succeeded"
        for rows in read_chains(url).values():
            sums = check_chain(rows)
            assert sums.committed["epsilon"] == 9 * 10**8
            assert set(sums.lives) == {first, second["id"], fourth}
            assert not any(sums.reserved.values())
        with psycopg.connect(url) as connection:
            uses = connection.execute("SELECT principal, epsilon FROM source_uses ORDER BY 1, 2")
            assert set(uses) == {("bo", 10**8), ("owner", 8 * 10**8)}
            wakes = "SELECT (SELECT count(*) FROM job_waits) + (SELECT count(*) FROM source_wakes)"
            eventually(lambda: connection.execute(wakes).fetchone() == (0,), "all is decided")
