"""Secure aggregation over a sparse graph of masks, from which agents may drop in every round.

After Bell, Bonawitz, Gascón, Lepoint and Raykova (CCS 2020), "Secure Single-Server Aggregation with
(Poly)Logarithmic Overhead". Each agent shares masks with only k neighbours, k of the order of log
n, and neighbours hold Shamir shares of the secrets that the server needs when an agent drops. The
rules against a malicious server, and why they suffice, are in docs/decisions/0025-sparse-masks.md;
in short:

- A `Plan` derives k, the threshold t and a jury from n, the fraction of corrupt agents and the
  fraction of those that drop, by exact hypergeometric tails.
- A `Group` is the set of members: their keys, and a seed of the graph that the commitments of all
  fix before anybody knows it.
- In each round an `Agent` shares two fresh secrets, sends one masked vector, and releases for each
  neighbour a share of one of the two: that of the neighbour's own mask if it is among the survivors
  that the jury has signed, else that of its masks with others. It answers a round once.
- The `Server` opens the sum over the survivors, or says why it cannot.
- An owner signs a `Roster` before a run, and an agent checks its `Demands` against it.
- A `DurableAgent` has its journal on disk: restarted after a crash, it answers nothing twice.
- A `Conductor` and `answer` exchange all this as messages; `python -m discreet_agent.sparse_sum`
  sends them between real processes.

- `exchanges` counts the same messages as exchanges of a federated session (`multi_agent` with
  masks).

The server sees the sum, unlike in `discreet_agent.secure_sum`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet_agent.sparse_sum.agent import Agent
    from discreet_agent.sparse_sum.conversation import Conductor, Step, answer
    from discreet_agent.sparse_sum.durable import DurableAgent
    from discreet_agent.sparse_sum.group import Candidate, Group, Member
    from discreet_agent.sparse_sum.plan import Plan
    from discreet_agent.sparse_sum.roster import Demands, Roster
    from discreet_agent.sparse_sum.server import Server

__all__ = [
    "Agent",
    "Candidate",
    "Conductor",
    "Demands",
    "DurableAgent",
    "Group",
    "Member",
    "Plan",
    "Roster",
    "Server",
    "Step",
    "answer",
]

_MODULES = {
    "Agent": "agent",
    "Candidate": "group",
    "Conductor": "conversation",
    "Demands": "roster",
    "DurableAgent": "durable",
    "Group": "group",
    "Member": "group",
    "Plan": "plan",
    "Roster": "roster",
    "Server": "server",
    "Step": "conversation",
    "answer": "conversation",
}
"""Where the names are; loaded when they are first used: an agent needs nothing of the server."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
