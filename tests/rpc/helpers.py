"""What tests of sessions share."""

from __future__ import annotations

from typing import Any

from tests.conftest import eventually
from tests.rpc.conftest import AgentProcess, Federation


def final(where: Federation, job: str) -> dict[str, Any]:
    found: dict[str, Any] = eventually(
        lambda: (now := where.job(job))["finished_at"] is not None and now, "the job ends"
    )
    return found


def run(where: Federation, job: str, count: int, **problems: Any) -> list[AgentProcess]:
    """Agents 1…count with the value 10 n, joined and approved. `problems`: further fields by agent,
    `a1={…}`."""
    tokens = where.invite(job, count)
    agents = [
        where.agent(token, value=10 * n, name=f"{job}-{n}", **problems.get(f"a{n}", {}))
        for n, token in enumerate(tokens, start=1)
    ]
    where.joined(job, count)
    where.approve(job)
    return agents


def sums(count: int, rounds: int) -> list[int]:
    return [10 * count * (count + 1) // 2 + count * number for number in range(rounds)]


def once_each(agent: AgentProcess, rounds: int) -> bool:
    """Every round was decided once, with the state of the one before."""
    return [(number, size) for number, size, _ in agent.answers] == [(n, n) for n in range(rounds)]


def entries(where: Federation, job: str) -> dict[str, list[str]]:
    """Kinds of ledger entries by agent's fingerprint."""
    with where.client() as client:
        return {
            one["fingerprint"]: [
                entry["kind"]
                for entry in client.entries(one["account"])
                if entry["job"] in (job, None)
            ]
            for one in client.session(job)["agents"]
        }
