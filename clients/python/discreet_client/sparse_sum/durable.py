"""An agent with a folder: what it has claimed outlives its process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_client.federation.files import write_private
from discreet_client.secure_sum.errors import Refused, Tampered
from discreet_client.secure_sum.journal import FileJournal
from discreet_client.sparse_sum.agent import Agent
from discreet_client.sparse_sum.group import Candidate, Group, Member, digest
from discreet_client.sparse_sum.plan import SETUPS
from discreet_client.sparse_sum.roster import Roster
from discreet_client.sparse_sum.wire import members_from, members_to

RUN, SETUP, OPENED = "run", "setup", "opened"
"""Records of the journal beside those of rounds: the roster's digest; a setup's number and
commitment; its number and the digest of the list on which it was opened."""


class Asked(Protocol):
    """What an agent asks of a roster; `Demands` is one."""

    def check(self, roster: Roster) -> None:
        """Raises Unacceptable, with the figures."""


class DurableAgent:
    """One agent of a run. However often its process is killed and whatever it is asked, it begins
    at most 16 setups, opens each on one list, begins a round once, over all setups, and signs one
    set of survivors a round.

    `folder` is this run's and this agent's alone, and one process's at a time. It holds claims, on
    disk before what follows from them leaves, and the setup: an agent that comes back needs no new
    one. The secrets of a round are in memory alone. So a process that dies has dropped from its
    round, takes no part in what is left of it, and no disk tells of it later.

    A folder that was restored from a copy knows less than its agent has said, and would say it
    again: keep it out of backups. Raises Unacceptable where the roster falls short of `demands`,
    Tampered where it lacks this agent, Reused where another process has the folder, Refused where
    another run has.
    """

    def __init__(
        self, identity: Ed25519PrivateKey, folder: Path, roster: Roster, demands: Asked
    ) -> None:
        demands.check(roster)
        public = identity.public_key().public_bytes_raw()
        if public not in roster.keys:
            raise Tampered("this agent is not on the owner's roster")
        self.place = roster.keys.index(public)
        self.roster, self._identity, self._folder = roster, identity, folder
        self.agent: Agent | None = None
        self._candidate: Candidate | None = None
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._journal = FileJournal(folder / "claims")
        try:
            self._resume()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have the folder; this one answers nothing more."""
        self.agent = self._candidate = None
        self._journal.close()

    def sign(self, statement: bytes) -> bytes:
        """With the key that the roster has of this agent."""
        return self._identity.sign(statement)

    def commit(self, number: int) -> bytes:
        """The commitment of setup `number`, a new one or again that of the last. A new setup ends
        the one before. Raises Refused for an older one, and beyond 16."""
        last, commitment = self._last_setup()
        if number == last and self._candidate is not None:
            return commitment
        if not last < number < SETUPS:
            raise Refused(f"setup {number} is over, or beyond the {SETUPS} of a run")
        self.agent = None
        self._candidate = candidate = Candidate(self._identity, self.roster.digest)
        exchange, nonce = (one.hex() for one in candidate.kept)
        kept = {"number": number, "exchange": exchange, "nonce": nonce}
        self._write("setup", json.dumps(kept).encode())
        self._journal.claim(f"{SETUP} {number} {candidate.commitment.hex()}")
        return candidate.commitment

    def open(self, commitments: list[bytes]) -> Member:
        """What opens the commitment of this setup: on one list, whatever dies meanwhile. Raises
        Refused."""
        if self._candidate is None:
            raise Refused("this agent has no setup to open")
        member = self._candidate.open(self.roster.plan, commitments)
        if self._opened() is None:
            number, _ = self._last_setup()
            self._journal.claim(f"{OPENED} {number} {self._candidate.commitments.hex()}")
        return member

    def join(self, members: tuple[Member, ...]) -> bytes:
        """The digest of the group, of which this agent is now one. Raises Refused before it has
        opened its commitment, Tampered for another group than that."""
        candidate = self._candidate
        if candidate is None or candidate.plan is None:
            raise Refused("this agent has not opened its commitment")
        if tuple(member.identity for member in members) != self.roster.keys:
            raise Tampered("the members are not those of the owner's roster")
        if self.agent is None or self.agent.group.members != members:
            group = Group(self.roster.plan, members, self.roster.digest)
            agent = Agent(candidate, self.place, group, journal=self._journal)
            self._write("members", members_to(members))
            self.agent = agent
        return self.agent.group.context

    def _resume(self) -> None:
        """Take up what the process before has claimed. A setup whose secrets did not reach the disk
        is over."""
        records = self._journal.records()
        if not records:
            self._journal.claim(f"{RUN} {self.roster.digest.hex()}")
        elif records[0] != f"{RUN} {self.roster.digest.hex()}":
            raise Refused(f"{self._folder} is of another run")
        last, commitment = self._last_setup()
        candidate = self._kept_candidate(last)
        if candidate is None or candidate.commitment != commitment:
            return
        self._candidate = candidate
        listed = self._opened()
        if listed is None:
            return
        candidate.commitments, candidate.plan = listed, self.roster.plan
        try:
            members = members_from((self._folder / "members").read_bytes(), self.roster.plan.agents)
        except (FileNotFoundError, Refused):
            return
        if digest(b"commitments", *(member.commitment for member in members)) == listed:
            self.join(members)

    def _kept_candidate(self, number: int) -> Candidate | None:
        try:
            kept = json.loads((self._folder / "setup").read_bytes())
            secrets = bytes.fromhex(kept["exchange"]), bytes.fromhex(kept["nonce"])
            found = Candidate(self._identity, self.roster.digest, secrets)
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None
        return found if kept["number"] == number else None

    def _last_setup(self) -> tuple[int, bytes]:
        """Number and commitment; -1 before the first."""
        claimed = self._claims(SETUP)
        return max(claimed.items(), default=(-1, b""))

    def _opened(self) -> bytes | None:
        """Digest of the list on which the last setup was opened."""
        number, _ = self._last_setup()
        return self._claims(OPENED).get(number)

    def _claims(self, what: str) -> dict[int, bytes]:
        """A record that was cut short still counts: it has a number, and no digest that fits."""
        found = {}
        for record in self._journal.records():
            kind, *rest = record.split(" ")
            if kind == what and rest and rest[0].isdigit():
                found[int(rest[0])] = _from_hex(rest[1] if len(rest) > 1 else "")
        return found

    def _write(self, name: str, data: bytes) -> None:
        write_private(self._folder / name, data)


def _from_hex(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""
