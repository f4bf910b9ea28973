"""Plans of rosters. With sparse masks and a thousand agents one takes seconds, and every look at a
session before its owner signs needs it: the last few are kept."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import anyio.to_thread

from discreet.errors import InvalidInput
from discreet.problems.federation import Member
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.usecases.sessions import records

PLANS_KEPT = 4
"""In one process; a plan with a thousand agents and what it was made from take about a megabyte."""


async def plan_of(
    job: Mapping[str, Any], agents: Sequence[Mapping[str, Any]], budget: Budget
) -> Plan | None:
    """The plan of the job with the agents of these rows, in this order; None where they can be on
    no roster together."""
    told = [
        [one["fingerprint"], one["name"], bytes(one["public_key"]).hex(), one["announcement"]]
        for one in agents
    ]
    return await anyio.to_thread.run_sync(
        _planned, job["kind"], json.dumps(job["problem"]), json.dumps(told), budget
    )


@lru_cache(maxsize=PLANS_KEPT)
def _planned(kind: str, problem: str, agents: str, budget: Budget) -> Plan | None:
    """A function of its arguments alone, and they hold all that the plan is made from: what is kept
    is never of another roster than the one asked for."""
    members = [
        Member(fingerprint, name, bytes.fromhex(key), announcement)
        for fingerprint, name, key, announcement in json.loads(agents)
    ]
    found = records.read_problem({"kind": kind, "problem": json.loads(problem)})
    try:
        return found.plan_federation(members, budget)
    except InvalidInput:
        return None
