"""An agent with a folder: its journal and its setup survive its process."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from pathlib import Path
from typing import Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet_agent.federation.files import write_private
from discreet_agent.secure_sum.errors import Refused, Tampered
from discreet_agent.secure_sum.party import FileJournal
from discreet_agent.sparse_sum.agent import Agent
from discreet_agent.sparse_sum.group import Candidate, Group, Member, digest
from discreet_agent.sparse_sum.plan import SETUPS
from discreet_agent.sparse_sum.roster import Roster
from discreet_agent.sparse_sum.wire import members_from, members_to

RUN, SETUP, OPENED = "run", "setup", "opened"
"""Kinds of records beside those of rounds: the roster's digest; a setup's number and commitment; a
setup's number and the digest of the list of commitments on which it was opened."""


MEMORIES = ("/dev/shm", "/run/user/{user}")  # noqa: S108  # kept in memory, by design
"""Folders that no copy of a disk holds, and that a start of the machine empties."""


class Count:
    """How many records a run's journal had when its agent last claimed one, in a file that is kept
    in memory: a folder that comes back from a copy has fewer.

    `read` gives None where there is no such file: the machine has started again since, or this is
    another one, or it has no such folders.
    """

    def __init__(self, folder: Path, public_key: bytes) -> None:
        about = b"discreet/claims" + public_key + os.fsencode(folder.resolve())
        name = hashlib.sha256(about).hexdigest()[:32]
        folders = (Path(one.format(user=os.geteuid())) for one in MEMORIES)
        memory = next((one for one in folders if os.access(one, os.W_OK)), None)
        file = f"discreet-{os.geteuid()}-{name}"
        self._file: Path | None = None if memory is None else memory / file

    def read(self) -> int | None:
        if self._file is None:
            return None
        try:
            found = self._file.stat(follow_symlinks=False)
            own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
            return int(self._file.read_text()) if own else None
        except (FileNotFoundError, ValueError):
            return None

    def write(self, records: int) -> None:
        if self._file is not None:
            write_private(self._file, str(records).encode())

    def forget(self) -> None:
        """Of a run that has ended: its folder answers nothing more."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


class CountedJournal(FileJournal):
    """A journal whose length is counted in memory too, after each record is on disk and before what
    follows from it is sent. Refused if it holds fewer records than were counted, or some and nobody
    has counted: then this folder may be an older copy."""

    def __init__(self, path: Path, count: Count) -> None:
        super().__init__(path)
        self._count = count
        held, counted = len(self.records()), count.read()
        if held < (counted or 0) or (held and counted is None):
            self.close()
            why = (
                "this machine has started again since, or another one has written it"
                if counted is None
                else f"it holds {held} claims, and this agent has made {counted}"
            )
            raise Refused(
                f"{path} may come from an older copy ({why}): this agent answers nothing more in "
                "this run"
            )

    def claim(self, record: str) -> None:
        super().claim(record)
        self._count.write(len(self.records()))

    def forget(self) -> None:
        """Of a run that has ended."""
        self._count.forget()


class Asked(Protocol):
    """What an agent asks of a roster; `Demands` is one."""

    def check(self, roster: Roster) -> None:
        """Raises Unacceptable, with the figures."""


class DurableAgent:
    """One agent of a run. However often its process is killed, and whatever it is asked, it begins
    at most 16 setups, opens each on one list of commitments, begins each round once, over all
    setups, and signs one set of survivors per round.

    `folder` belongs to this run and this agent only, and to one process at a time. It holds the
    journal, on disk before what follows from a record is sent, and the setup, so that a restarted
    agent needs no new one. The secrets of a round are in memory only: an agent whose process ends
    has dropped from the round, and no disk reveals its secrets later.

    A folder that comes back from a copy is refused: the number of claims is kept in memory as well
    (`Count`), so an agent belongs to one start of one machine. Only a snapshot of the whole machine
    with its memory brings both back. Raises Unacceptable if the roster falls short of `demands`,
    Tampered if it lacks this agent, Reused if another process holds the folder, Refused if the
    folder belongs to another run, may be an older copy, or is open to other users: whoever can take
    claims away makes this agent answer again.
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
        found = folder.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise Refused(f"{folder} must be this user's own, and no other's to enter (chmod 700)")
        self._journal = CountedJournal(folder / "claims", Count(folder, public))
        try:
            self._resume()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Release the folder to other processes; this object answers nothing more."""
        self.agent = self._candidate = None
        self._journal.close()

    def finish(self) -> None:
        """End the run: the setup's secrets are erased, and this folder answers nothing more."""
        self.close()
        self._journal.forget()
        (self._folder / "setup").unlink(missing_ok=True)

    def sign(self, statement: bytes) -> bytes:
        """Sign with the key that the roster lists for this agent."""
        return self._identity.sign(statement)

    def commit(self, number: int) -> bytes:
        """The commitment of setup `number`: a new one, or again that of the last setup. A new setup
        ends the one before. Raises Refused for an older setup, and beyond 16."""
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
        """The entry that opens the commitment of this setup. Raises Refused for a second list of
        commitments, also after a restart, and without a setup."""
        if self._candidate is None:
            raise Refused("this agent has no setup to open")
        member = self._candidate.open(self.roster.plan, commitments)
        if self._opened() is None:
            number, _ = self._last_setup()
            self._journal.claim(f"{OPENED} {number} {self._candidate.commitments.hex()}")
        return member

    def join(self, members: tuple[Member, ...]) -> bytes:
        """Join the group; returns its digest. Raises Refused before this agent has opened its
        commitment, Tampered for a group other than the one for which it was opened."""
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
        """Continue from the records of an earlier process. A setup whose secrets did not reach the
        disk is over."""
        records = self._journal.records()
        if not records:
            self._journal.claim(f"{RUN} {self.roster.digest.hex()}")
        elif records[0] != f"{RUN} {self.roster.digest.hex()}":
            raise Refused(f"{self._folder} belongs to another run")
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
        """Number and commitment of the last setup; -1 before the first."""
        claimed = self._claims(SETUP)
        return max(claimed.items(), default=(-1, b""))

    def _opened(self) -> bytes | None:
        """Digest of the list on which the last setup was opened; None if it was not."""
        number, _ = self._last_setup()
        return self._claims(OPENED).get(number)

    def _claims(self, what: str) -> dict[int, bytes]:
        """Digests of the records of this kind, by number. A record that was cut short still counts:
        its digest fits nothing."""
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
