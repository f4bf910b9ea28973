"""What an agent speaks, as it says when it enrols: versions of protocols, methods, encryptions.

A session asks for some of it (`needed` of its kind). An agent that lacks any is refused by name
when it enrols, and the owner sees what each agent speaks before signing.
"""

from __future__ import annotations

from collections.abc import Iterable

MULTI_AGENT = "discreet/multi-agent/v1"
SPARSE_SUMS = "discreet/sparse-sum/v1"
SECURE_SUMS = "discreet/secure-sum/v2"
SHARES = "discreet-mpc-2"
MOST = 32
LONGEST = 64
"""Most names, and characters of one, that an enrolment may have."""

AGENT = (
    MULTI_AGENT,
    SPARSE_SUMS,
    SECURE_SUMS,
    SHARES,
    "masking",
    "paillier",
    "spds",
    "rpds",
    "auto",
)
"""What the Python agent speaks."""


def missing(needed: Iterable[str], speaks: Iterable[str]) -> tuple[str, ...]:
    """What a session needs and an agent does not speak, in the session's order."""
    known = frozenset(speaks)
    return tuple(one for one in needed if one not in known)


def refusal(name: str, needed: Iterable[str], speaks: Iterable[str]) -> str:
    """The sentence that refuses an agent; empty if it speaks all that is needed."""
    lacks = missing(needed, speaks)
    if not lacks:
        return ""
    said = ", ".join(speaks) or "nothing (its enrolment names nothing in `speaks`)"
    return f"agent {name} does not speak {', '.join(lacks)}, which this job needs; it speaks {said}"
