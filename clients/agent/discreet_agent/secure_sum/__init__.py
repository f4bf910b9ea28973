"""Secure sums: only the agents learn the sum of their vectors, and nobody learns a single vector.
The parties are state machines that take and return bytes.

n >= 3 agents hold vectors v_i, the operator holds v_0 (the paper's c and d). In each round every
agent learns `Σ v_i + v_0` and nothing else; the operator learns only whether the sums have settled,
and that only if the owner asks for it; eavesdroppers, agents among them, learn nothing. Assumed
are at least two honest agents, at most t colluding ones with or without the operator, and an owner
who signs the right roster.

One phase is one broadcast of the operator and one answer of each agent, so a transport only moves
bytes and decides when to stop waiting:

    broadcast = operator.open()
    while broadcast is not None:
        for answer in answers_of_the_agents(broadcast):  # agent.answer(broadcast)
            operator.collect(answer)
        broadcast = operator.advance()  # raises Missing when it cannot go on without an agent

How the protocol protects the vectors (reasons in docs/decisions/0007-secure-sum.md):

- Ed25519 signatures cover protocol, kind, job, roster hash, epoch, round, sender, key fingerprint,
  the hash of the last sum that was broadcast, and the payload's digest. Most of that is known to
  both sides and does not travel.
- Pairwise masks from fresh X25519 keys, bound to epoch, round and all broadcasts so far, cancel
  only in the sum over all agents.
- A sum is of the agents alone, without v_0, where every agent says so by the kind of its frame; if
  some say so and some do not, nothing is opened and the job ends.
- A link mask between agent and operator: without it, an agent that overhears all the others could
  sum their messages to `Σ v_i`, and so find the operator's v_0.
- `scheme="paillier"`: what agents send and receive is encrypted under a key that one of them, the
  dealer, has generated; the operator multiplies ciphertexts. `scheme="masking"`: instead each agent
  adds a pad from a group key that the operator does not know.
- Without `allow_dropout` the set of summands is the roster, nothing is ever unmasked, and a missing
  agent ends the job. With it the operator proposes a set U, agents sign one U per round, and reveal
  the seed of their own mask and the masks with the missing only once they hold the signatures of
  all of U on that U.

A machine ends at its first error; a frame that is not authentic is refused and changes nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet_agent.secure_sum.agent import Agent, MakeObfuscators, Update
    from discreet_agent.secure_sum.draws import Draws
    from discreet_agent.secure_sum.errors import (
        Complained,
        Ended,
        Excluded,
        Missing,
        Refused,
        Reused,
        SecureSumError,
        Tampered,
        Unacceptable,
    )
    from discreet_agent.secure_sum.evidence import guarantee, unsigned
    from discreet_agent.secure_sum.frames import OPERATOR, PROTOCOL, Kind, Verdict, parse
    from discreet_agent.secure_sum.in_process import Outcome, Wire, assemble, run_in_process
    from discreet_agent.secure_sum.masks import longest_answer
    from discreet_agent.secure_sum.noise import NOISE_TAIL, discrete_gaussian
    from discreet_agent.secure_sum.operator import Operator
    from discreet_agent.secure_sum.party import FileJournal, Journal, MemoryJournal
    from discreet_agent.secure_sum.roster import Parameters, Roster, Scheme, Trust

__all__ = [
    "NOISE_TAIL",
    "OPERATOR",
    "PROTOCOL",
    "Agent",
    "Complained",
    "Draws",
    "Ended",
    "Excluded",
    "FileJournal",
    "Journal",
    "Kind",
    "MakeObfuscators",
    "MemoryJournal",
    "Missing",
    "Operator",
    "Outcome",
    "Parameters",
    "Refused",
    "Reused",
    "Roster",
    "Scheme",
    "SecureSumError",
    "Tampered",
    "Trust",
    "Unacceptable",
    "Update",
    "Verdict",
    "Wire",
    "assemble",
    "discrete_gaussian",
    "guarantee",
    "longest_answer",
    "parse",
    "run_in_process",
    "unsigned",
]

_MODULES = {
    "Agent": "agent",
    "Complained": "errors",
    "Draws": "draws",
    "Ended": "errors",
    "Excluded": "errors",
    "FileJournal": "party",
    "Journal": "party",
    "Kind": "frames",
    "MakeObfuscators": "agent",
    "MemoryJournal": "party",
    "Missing": "errors",
    "NOISE_TAIL": "noise",
    "OPERATOR": "frames",
    "Operator": "operator",
    "Outcome": "in_process",
    "PROTOCOL": "frames",
    "Parameters": "roster",
    "Refused": "errors",
    "Reused": "errors",
    "Roster": "roster",
    "Scheme": "roster",
    "SecureSumError": "errors",
    "Tampered": "errors",
    "Trust": "roster",
    "Unacceptable": "errors",
    "Update": "agent",
    "Verdict": "frames",
    "Wire": "in_process",
    "assemble": "in_process",
    "discrete_gaussian": "noise",
    "guarantee": "evidence",
    "longest_answer": "masks",
    "parse": "frames",
    "run_in_process": "in_process",
    "unsigned": "evidence",
}
"""Where the names are; loaded when they are first used: an agent needs nothing of the operator."""


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
