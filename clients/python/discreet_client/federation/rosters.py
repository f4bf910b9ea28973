"""The roster: who takes part, as the owner signs it. Neither the server nor an agent can change who
is on it.

A roster is JSON with sorted names and no spaces; its bytes travel as they were signed and are never
written anew.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from discreet_client.federation.errors import NotTrusted
from discreet_client.federation.signing import fingerprint

VERSION = 1
SHORTEST_BEGINNING = 16
"""Hexadecimal digits of a fingerprint that name an agent: keys whose fingerprints begin with fewer
can be made."""


def chosen(
    agents: Sequence[Mapping[str, Any]], beginnings: Sequence[str] | None
) -> list[Mapping[str, Any]]:
    """Of the agents that a server shows those whose fingerprints begin like this, one each; all
    where None is given.

    What the server says is not believed: NotTrusted when a key is not the one of its fingerprint,
    or a beginning is too short, or not that of exactly one agent.
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
    """What an owner signs, line by line, to be read before. Nothing in it moves a terminal's
    cursor."""
    lines = [
        f"{one['fingerprint']}  {one['name']}  {json.dumps(one['announcement'])}" for one in agents
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
    """The bytes to sign, from what `GET /v1/sessions/{job}` says of the agents that shall take
    part, and of the parameters where it says any."""
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
