"""The roster: who takes part, as the owner signs it. Neither the server nor an agent can change who
is on it.

A roster is JSON with sorted names and no spaces; its bytes are sent as they were signed and never
serialized again.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet_agent.federation.errors import NotTrusted
from discreet_agent.federation.signing import fingerprint

VERSION = 1
SHORTEST_BEGINNING = 16
"""Fewest hexadecimal digits of a fingerprint that name an agent: a key whose fingerprint begins
with fewer given digits can be found by search."""


def chosen(
    agents: Sequence[Mapping[str, Any]], beginnings: Sequence[str] | None
) -> list[Mapping[str, Any]]:
    """The agents in a server's list whose fingerprints begin with these digits, one for each; all
    if `beginnings` is None.

    The server's list is not trusted: NotTrusted if a key does not have its fingerprint, or a
    beginning is too short or does not match exactly one agent.
    """
    for one in agents:
        if fingerprint(base64.b64decode(one["key"])) != one["fingerprint"]:
            raise NotTrusted(
                f"the server shows another key under the fingerprint {one['fingerprint']}"
            )
    if beginnings is None:
        return list(agents)
    found: dict[str, Mapping[str, Any]] = {}
    for beginning in beginnings:
        like = [one for one in agents if one["fingerprint"].startswith(beginning)]
        if len(beginning) < SHORTEST_BEGINNING:
            raise NotTrusted(
                f"{beginning!r} is too short: give {SHORTEST_BEGINNING} digits of a fingerprint, "
                "or more"
            )
        if len(like) != 1:
            raise NotTrusted(f"{len(like)} agents have a fingerprint that begins with {beginning}")
        found[like[0]["fingerprint"]] = like[0]
    return list(found.values())


def told(agents: Iterable[Mapping[str, Any]], parameters: Mapping[str, Any] | None) -> list[str]:
    """Lines that show an owner what they are about to sign. Characters that are not printable
    become "?", so that no line can control the terminal."""
    lines = [
        f"{one['fingerprint']}  {one['name']}  {json.dumps(one['announcement'])}"
        + (f"  speaks {', '.join(one['speaks'])}" if one.get("speaks") else "")
        for one in agents
    ]
    for name, figure in sorted((parameters or {}).items()):
        lines.append(f"{name}: {json.dumps(figure, sort_keys=True)}")
    return ["".join(letter if letter.isprintable() else "?" for letter in line) for line in lines]


def roster_document(
    session: str,
    job: str,
    kind: str,
    agents: Iterable[Mapping[str, Any]],
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """The bytes to sign, from the agents that are to take part and the parameters, if any, as `GET
    /v1/sessions/{job}` shows them."""
    listed = [
        {name: agent[name] for name in ("name", "fingerprint", "key", "announcement")}
        for agent in sorted(agents, key=lambda agent: str(agent["fingerprint"]))
    ]
    body: dict[str, Any] = {
        "version": VERSION,
        "session": session,
        "job": job,
        "kind": kind,
        "agents": listed,
    }
    if parameters is not None:
        body["parameters"] = parameters
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
