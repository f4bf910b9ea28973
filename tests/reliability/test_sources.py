"""kill -9 around the registration of a block and a job over thirty of them: nothing is lost, no
block charged alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability.faults import SWITCH
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, installation
from tests.reliability.chains import check_chain, read_chains, superuser_url

DAYS = 30
WORKER_POINTS = ("touch.written", "release.committed", "publish.settled", "publish.ended")


def day(number: int) -> str:
    return f"2026-10-{number:02}"


def block(number: int) -> dict[str, Any]:
    trip = {"date": day(number), "period": 0, "origin": 1, "destination": 2, "count": number}
    return {"block": day(number), "content": {"trips": [trip]}}


def killed_by(
    running: Installation, point: str, path: str, body: dict[str, Any], **headers: str
) -> None:
    """A request to an API that dies at this point, beside the one that goes on."""
    faulty = Installation(running.settings, owner_key=running.owner_key)
    faulty.extra = {"DISCREET_FAULTS_SWITCH": SWITCH, "DISCREET_FAULTS": f"{point}=1"}
    try:
        faulty.start_api()
        with faulty.http() as client:
            try:
                answered = client.post(path, json=body, headers=headers)
            except httpx.TransportError:
                answered = None
        assert answered is None, answered
        assert faulty.api is not None
        assert faulty.api.wait(DEADLINE_SECONDS) == -9
    finally:
        faulty.stop()


def assert_blocks_follow(url: str, rows: list[dict[str, Any]]) -> dict[int, tuple[int, int]]:
    """Epsilon spent and reserved on each block, which are what the entries add up to."""
    counted: dict[int, list[int]] = {}
    for row in rows:
        body = json.loads(row["body"])
        units = int(body["price"].get("epsilon", 0))
        for first, last in body["blocks"]:
            for number in range(first, last + 1):
                block = counted.setdefault(number, [0, 0])
                block[0] += {"reserve": units, "release": -units}.get(body["kind"], 0)
                block[1] += {"reserve": units}.get(body["kind"], -units)
    with psycopg.connect(url) as connection:
        kept = connection.execute("SELECT number, epsilon, reserved_epsilon FROM block_sums")
        found = {number: (spent, held) for number, spent, held in kept}
    assert found == {number: tuple(block) for number, block in counted.items()}
    return found


@pytest.mark.long
def test_kill_9_around_blocks_and_a_job_over_thirty(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    with installation(
        postgres, template, tmp_path / "state", workers=0, lease_seconds=2.0, max_attempts=9
    ) as running:
        url = superuser_url(postgres, running.settings)
        public = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
        with running.client() as client:
            made = {
                "name": "s",
                "kind": "routing",
                "public": public,
                "by": "day",
                "cap": {"epsilon": 1, "delta": 0},
            }
            source = client.sources.create(made)["id"]
        path = f"/v1/sources/{source}/blocks"
        for point, there in (("block.opened", 0), ("block.written", 0), ("block.committed", 1)):
            killed_by(running, point, path, block(1))
            chains = read_chains(url)
            # Its entry is there with the block, or not at all.
            assert sum(map(len, chains.values())) == there, point
            with running.client() as client:
                assert len(client.sources.get(source)["blocks"] or []) == there, point
        with running.client() as client:
            # The one that was committed.
            assert client.sources.add(source, day(1), block(1)["content"])["version"] == 1
            for number in range(2, DAYS + 1):
                client.sources.add(source, day(number), block(number)["content"])

        problem = {
            "kind": "routing",
            "source": {"id": source, "last": DAYS},
            "network": bodies.network(),
        }
        job = {"problem": problem, "privacy": {"epsilon": 0.1}}
        killed_by(running, "submit.committed", "/v1/jobs", job, **{"Idempotency-Key": "once"})
        with running.client() as client:
            client.sources.add(
                source, day(DAYS), {**block(DAYS)["content"], "trips": []}
            )  # another version meanwhile
            submitted = client.submit(job, idempotency_key="once")["id"]
            pinned = client.job(submitted)["problem"]["source"]["versions"]
        chains = read_chains(url)
        (chain,) = chains  # one for all blocks
        assert [row["kind"] for row in chains[chain]] == ["open"] * DAYS + ["reserve"]

        for point in WORKER_POINTS:
            running.extra |= {"DISCREET_FAULTS_SWITCH": SWITCH, "DISCREET_FAULTS": f"{point}=1"}
            worker = running.start_worker()
            del running.extra["DISCREET_FAULTS"]
            eventually(lambda dead=worker: dead.poll() is not None, f"the worker dies at {point}")
            last = read_chains(url)[chain][-1]
            assert json.loads(last["body"])["blocks"] == [[1, DAYS]], point
            assert_blocks_follow(url, read_chains(url)[chain])
        running.start_worker()
        with running.client() as client:
            assert client.wait(submitted)["state"] == "succeeded"
            certificate = client.result(submitted)["certificate"]
        assert [one["version"] for one in certificate["source"]["blocks"]] == pinned
        chains = read_chains(url)
        assert [one["account"] for one in certificate["ledger_entry"]] == [chain] == list(chains)
        sums = check_chain(chains[chain])
        assert sums.lives == {submitted: ["reserve", "data_touched", "commit"]}
        assert sums.committed["epsilon"] == 10**8
        assert not any(sums.reserved.values())
        standing = assert_blocks_follow(url, chains[chain])
        assert standing == dict.fromkeys(range(1, DAYS + 1), (10**8, 0))
