"""The roster: who takes part, as the owner signs it. Neither the server nor an agent can change who is on it.

A roster is JSON with sorted names and no spaces; its bytes travel as they were signed and are never written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

VERSION = 1


def roster_document(
    session: str,
    job: str,
    kind: str,
    agents: Iterable[Mapping[str, Any]],
    parameters: Mapping[str, Any] | None = None,
) -> bytes:
    """The bytes to sign, from what `GET /v1/sessions/{job}` says of the agents that shall take part, and of the
    parameters where it says any."""
    listed = [
        {name: agent[name] for name in ("name", "fingerprint", "key", "announcement")}
        for agent in sorted(agents, key=lambda agent: str(agent["fingerprint"]))
    ]
    body: dict[str, Any] = {"version": VERSION, "session": session, "job": job, "kind": kind, "agents": listed}
    if parameters is not None:
        body["parameters"] = parameters
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
