"""A run within a federated session: which exchange of the session is which step of which round.

A session counts every exchange of a broadcast and its answers. The first three set up, then each
round has four; what single agents are told travels beside the broadcast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from discreet_agent.secure_sum.errors import Unacceptable
from discreet_agent.sparse_sum.conversation import Step
from discreet_agent.sparse_sum.group import PROTOCOL
from discreet_agent.sparse_sum.plan import Plan
from discreet_agent.sparse_sum.roster import Roster

SETTING_UP = 3
"""Exchanges before the first round: COMMIT, OPEN, JOIN."""
IN_A_ROUND = 4
"""Exchanges of a round: SHARES, CONTRIBUTE, VOTE, RELEASE."""


def exchanges(rounds: int) -> int:
    """Of a whole run."""
    return SETTING_UP + IN_A_ROUND * rounds


def step_of(number: int) -> tuple[Step, int]:
    """The step and the round of an exchange; before the first round that of the only setup, 0."""
    if number < SETTING_UP:
        return Step(Step.COMMIT + number), 0
    return (
        Step(Step.SHARES + (number - SETTING_UP) % IN_A_ROUND),
        (number - SETTING_UP) // IN_A_ROUND,
    )


def signed_plan(plan: Plan) -> dict[str, Any]:
    """A plan as the owner signs it, within the parameters of a session."""
    return {"protocol": PROTOCOL.decode(), "plan": asdict(plan)}


def plan_of(signed: Mapping[str, Any]) -> Plan:
    """The plan that the owner has signed. Raises Unacceptable for one of another version, or that
    hides nobody."""
    try:
        figures = dict(signed["plan"])
        known = signed["protocol"] == PROTOCOL.decode() and figures.keys() == {
            field.name for field in fields(Plan)
        }
    except (LookupError, TypeError, ValueError):
        known = False
    if not known or any(type(figure) is not int for figure in figures.values()):
        raise Unacceptable("the owner has signed no plan of sums that this version knows")
    plan = Plan(**figures)
    plan.check()
    return plan


def roster_of(roster_digest: bytes, plan: Plan, keys: Sequence[bytes]) -> Roster:
    """The roster of sums of a session. The owner has signed it in signing the session's, whose
    digest is its name: `keys` and plan are of that. Raises Unacceptable."""
    found = Roster(roster_digest.hex(), plan, tuple(keys))
    found.check()
    return found
