"""What an agent says to whoever operates it: what it is doing, what it gave to whom and at what
price, and which jobs it refuses.

All of it is read from the agent's own ledger and the folder of its sessions; no server is asked.
"""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

from discreet_agent.federation.errors import AgentError
from discreet_agent.federation.files import write_private
from discreet_agent.federation.identity import Identity
from discreet_agent.federation.signing import fingerprint
from discreet_agent.ledger import DELTA_UNIT, EPSILON_UNIT, Entry, Ledger
from discreet_agent.memory import REFUSED, Memory, refused

Limits = tuple[Decimal | None, Decimal | None]
SHOWN_DIGITS = 16
"""Of a fingerprint, on a terminal."""


def refuse(folder: Path, name: str) -> None:
    """Take no part in a job or session. AgentError where this agent has answered in it: what it
    gave cannot be taken back."""
    if not name or any(character.isspace() for character in name):
        raise AgentError(f"{name!r} names no job")
    for memory in _sessions(folder):
        if memory.sent is not None and name in (_job(memory), memory.path.stem):
            raise AgentError(f"this agent has answered in {name}; stop its process to leave it")
    names = sorted(refused(folder) | {name})
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(folder / REFUSED, "".join(f"{one}\n" for one in names).encode())


def status(identity: Identity, ledger: Ledger, folder: Path, limits: Limits) -> dict[str, Any]:
    """Fingerprint, sessions that have not ended, what was spent and what is left."""
    running = [_session(memory) for memory in _sessions(folder) if memory.ended is None]
    return {
        "fingerprint": identity.fingerprint,
        "sessions": running,
        "refused": sorted(refused(folder)),
        **_spent(ledger.entries(), limits),
    }


def status_text(found: dict[str, Any]) -> str:
    lines = [f"agent {found['fingerprint']}"]
    for one in found["sessions"]:
        answered = "no round answered yet" if one["rounds"] == 0 else f"{one['rounds']} rounds"
        lines.append(f"{one['session']}  {one['job'] or 'not signed yet'}  {answered}")
    lines += [f"refuses {name}" for name in found["refused"]]
    return "\n".join([*lines, _left_text(found)])


def history(ledger: Ledger, folder: Path, limits: Limits) -> dict[str, Any]:
    """Each job that was charged, oldest first: to which server, of what kind and among how many
    agents, how many rounds were answered, how it ended, what it cost and opened; then what is
    left. What the folder no longer holds is None."""
    sessions = {_job(memory): memory for memory in _sessions(folder) if memory.roster}
    entries = ledger.entries()
    jobs: dict[str, dict[str, Any]] = {}
    for entry in entries:
        body = entry.body
        if body["kind"] == "charge":
            price = json.loads(body["charge"])["price"]
            job = body["job"]
            jobs[job] = {
                "job": job,
                "at_ms": body["at_ms"],
                "server": fingerprint(base64.b64decode(body["server_key"])),
                "epsilon": _decimal(int(price["epsilon"]), EPSILON_UNIT),
                "delta": _decimal(int(price["delta"]), DELTA_UNIT),
                "given_back": False,
                "opened": body.get("opens", {}).get("numbers", 0),
                **_ended(sessions.get(job)),
            }
        elif body["kind"] == "release":
            jobs[body["job"]]["given_back"] = True
        else:
            jobs[body["job"]]["opened"] = body["numbers"]
    return {"jobs": list(jobs.values()), **_spent(entries, limits)}


def history_text(found: dict[str, Any]) -> str:
    from datetime import datetime  # noqa: PLC0415 - for this alone

    lines = []
    for one in found["jobs"]:
        when = datetime.fromtimestamp(one["at_ms"] / 1000).astimezone()
        among = "" if one["kind"] is None else f"{one['kind']} among {one['agents']} agents, "
        rounds = "" if one["rounds"] is None else f", {one['rounds']} rounds answered"
        opened = f", {one['opened']} numbers opened without noise at most" if one["opened"] else ""
        cost = f"epsilon {one['epsilon']}, delta {one['delta']}"
        lines.append(
            f"{when:%Y-%m-%d %H:%M}  {one['job']}  {among}server {one['server'][:SHOWN_DIGITS]}"
            f"{rounds}, {one['state'] or 'not ended'}{opened}; {cost}"
            + (" (given back)" if one["given_back"] else "")
        )
    return "\n".join([*(lines or ["nothing was given yet"]), _left_text(found)])


def _sessions(folder: Path) -> list[Memory]:
    return [Memory.load(path) for path in sorted(folder.glob("*.json"))]


def _job(memory: Memory) -> str | None:
    return str(json.loads(memory.roster)["job"]) if memory.roster else None


def _session(memory: Memory) -> dict[str, Any]:
    return {"session": memory.path.stem, "job": _job(memory), "rounds": _rounds(memory)}


def _rounds(memory: Memory) -> int:
    return 0 if memory.sent is None else memory.sent.number + 1


def _ended(memory: Memory | None) -> dict[str, Any]:
    if memory is None:
        return dict.fromkeys(("kind", "agents", "rounds", "state", "code"))
    roster, ended = json.loads(memory.roster), memory.ended
    return {
        "kind": roster["kind"],
        "agents": len(roster["agents"]),
        "rounds": _rounds(memory),
        "state": None if ended is None else ended.state,
        "code": None if ended is None else ended.code,
    }


def _spent(entries: list[Entry], limits: Limits) -> dict[str, Any]:
    spent = entries[-1].spent if entries else (0, 0)
    found: dict[str, Any] = {"spent": {}, "left": {}}
    names = (("epsilon", EPSILON_UNIT), ("delta", DELTA_UNIT))
    for (name, unit), units, limit in zip(names, spent, limits, strict=True):
        found["spent"][name] = _decimal(units, unit)
        left = None if limit is None else limit - units * unit
        found["left"][name] = None if left is None else _text(left)
    return found


def _left_text(found: dict[str, Any]) -> str:
    spent, left = found["spent"], found["left"]
    return (
        f"spent epsilon {spent['epsilon']}, delta {spent['delta']}; "
        f"left epsilon {left['epsilon']}, delta {left['delta']}"
    )


def _decimal(units: int, unit: Decimal) -> str:
    return _text(units * unit)


def _text(number: Decimal) -> str:
    return format(number.normalize(), "f")
