"""Whether anything was lost or charged twice: every invariant, read from the database as it stands.

The reader is an auditor: the superuser, who trusts no code of the service.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.reliability.chains import Sums, check_chain, read_chains

FINAL = ("succeeded", "failed", "cancelled")
LIVES = (["reserve", "data_touched", "commit"], ["reserve", "release"])


@dataclass
class Books:
    """What came of the jobs."""

    outcomes: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    entries: int = 0
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)


def check_books(
    url: str,
    accepted: Mapping[str, Set[str]],
    *,
    cancelled: Set[str] = frozenset(),
    failed: Set[str] = frozenset(),
) -> Books:
    """AssertionError when an invariant is broken. `accepted`: the jobs that clients were told of,
    by idempotency key.

    Jobs in `cancelled` may have been cancelled, those in `failed` may have failed; all others must
    have succeeded.
    """
    with psycopg.connect(url, row_factory=dict_row) as connection:
        jobs = {row["id"]: row for row in connection.execute("SELECT * FROM jobs")}
        datasets = {row["id"]: row for row in connection.execute("SELECT * FROM datasets")}
        requests = connection.execute(
            "SELECT tenant_id, key, job_id FROM idempotent_requests"
        ).fetchall()
        results = {row["job_id"]: row for row in connection.execute("SELECT * FROM job_results")}
        released = connection.execute("SELECT job_id FROM releases").fetchall()
        states: dict[str, list[str]] = {}
        for row in connection.execute(
            "SELECT job_id, details FROM job_events WHERE event = 'state' ORDER BY seq"
        ):
            states.setdefault(row["job_id"], []).append(row["details"]["state"])

    assert all(len(ids) == 1 for ids in accepted.values()), "one key, two jobs"
    assert {row["key"]: {row["job_id"]} for row in requests} == accepted
    assert set(jobs) == set().union(*accepted.values()), (
        "a job that nobody was told of, or one that is lost"
    )
    books = Books(jobs=jobs)
    lives: dict[str, list[list[str]]] = {}
    for rows in read_chains(url).values():
        sums = check_chain(rows)  # hashes and balances
        books.entries += len(rows)
        _check_account(sums, jobs)
        _check_certificates(sums, rows, results)
        for job, life in sums.lives.items():
            lives.setdefault(job, []).append(life)
    assert set(lives) <= set(jobs)
    for job, row in jobs.items():
        state = row["state"]
        assert state in FINAL, f"{job} is {state} for ever"
        allowed = (
            {"succeeded"}
            | ({"cancelled"} if job in cancelled else set())
            | ({"failed"} if job in failed else set())
        )
        assert state in allowed, f"{job} is {state}"
        assert (state == "succeeded") == (job in results)
        assert sum(one in FINAL for one in states[job]) == 1, (
            f"{job} ended more than once: {states[job]}"
        )
        assert states[job][-1] == state
        ends = {life[-1] for life in lives.get(job, [])}
        assert all(life in LIVES for life in lives.get(job, [])), f"{job}: {lives[job]}"
        assert len(ends) <= 1, f"{job} was charged here and released there"
        if row["released_by"] is not None:
            assert not ends, f"{job} was charged for what it asks again"
            charged = "asked again"
        elif _is_public(row, datasets) or (row["kind"] in FEDERATED and state != "succeeded"):
            charged = "public data" if not ends else "charged" if ends == {"commit"} else "released"
        else:
            assert ends, f"{job} reserved nothing"
            charged = "charged" if ends == {"commit"} else "released"
            assert charged == "charged" or state != "succeeded", f"{job} was free"
        books.outcomes[f"{state}, {charged}"] += 1
        books.attempts += row["attempt"]
    kept = {
        job
        for job, row in jobs.items()
        if row["state"] == "succeeded" and row["dataset_id"] is not None
    }
    assert {row["job_id"] for row in released} == kept, (
        "what was released is kept as long as the result, and no longer"
    )
    return books


FEDERATED = ("noisy_sum", "multi_agent", "coupled_qp")
"""Kinds that may end before any account is known."""


def _is_public(job: Mapping[str, Any], datasets: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the job's data are public, so that nothing is charged."""
    if job["dataset_id"] is not None:
        return bool(datasets[job["dataset_id"]]["mode"] == "simulation")
    return bool(
        job["problem"].get("mode") == "simulation"
        or not any(int(units) for units in job["price"].values())
    )


def _check_account(sums: Sums, jobs: Mapping[str, Mapping[str, Any]]) -> None:
    assert not any(sums.reserved.values()), "a reservation is left pending"
    expected = Counter(dict.fromkeys(sums.totals, 0))
    for job, life in sums.lives.items():
        if life[-1] == "commit":
            expected.update({name: int(units) for name, units in jobs[job]["price"].items()})
    assert sums.totals == expected, "totals are not the sum of the committed prices"


def _check_certificates(
    sums: Sums, rows: list[dict[str, Any]], results: Mapping[str, Mapping[str, Any]]
) -> None:
    """The certificate of a success names the entry that committed it."""
    by_hash = {row["hash"].hex(): row for row in rows}
    for job in sums.lives.keys() & results.keys():
        named = [
            by_hash[one["hash"]]
            for one in results[job]["certificate"]["ledger_entry"]
            if one["hash"] in by_hash
        ]
        assert [(entry["job_id"], entry["kind"]) for entry in named] == [(job, "commit")]
