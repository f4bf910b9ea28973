"""An agent's own ledger: what it let itself be charged, in a file that it alone writes.

One line an entry, JSON: `body`, `previous_hash`, `hash`, `signature` of the agent. With link =
SHA-256(previous hash || body) the hash of a charge is SHA-256(link || seq || digest of the charge),
that of a release the link itself. The body of a charge holds the server's own words and signature;
the server keeps link, seq and signature. So each side can prove what the other agreed to, and the
server learns nothing else of this ledger (`blind` in the body is random: what was spent elsewhere
cannot be guessed from the link). Charges without `blind` were written before 2026-11-23: their hash
is the link. The agent's limit is checked here, before anything is sent, whatever the server's caps
say. `opens` of a charge is how many numbers the job opens at most without noise, sums of how many
agents; an entry `opened` is how many they became, where they were fewer. Sums add epsilons and
deltas (basic composition), in the integers of the ledger: 1e-9 and 1e-18.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from discreet_agent.exposure import NOTHING_OPENED, Opens
from discreet_agent.federation import signing
from discreet_agent.federation.errors import AgentError, LedgerBroken, LimitExceeded, NotTrusted
from discreet_agent.federation.files import sync_folder, write_all
from discreet_agent.federation.identity import Identity

GENESIS = bytes(32)
EPSILON_UNIT, DELTA_UNIT = Decimal("1e-9"), Decimal("1e-18")
_UNITS = re.compile(r"-?[0-9]{1,38}")


@dataclass(frozen=True)
class Entry:
    """One line of the ledger."""

    seq: int
    link: bytes
    hash: bytes
    signature: bytes
    body: dict[str, Any]

    @property
    def spent(self) -> tuple[int, int]:
        """Epsilon and delta after this entry, in units."""
        return int(self.body["spent"]["epsilon"]), int(self.body["spent"]["delta"])


class Ledger:
    """The file of one agent. Limits are decimals; None is no limit."""

    def __init__(
        self,
        path: Path,
        identity: Identity,
        *,
        limit_epsilon: Decimal | None = None,
        limit_delta: Decimal | None = None,
    ) -> None:
        self.path = path
        self._identity = identity
        self._limits = (_units(limit_epsilon, EPSILON_UNIT), _units(limit_delta, DELTA_UNIT))

    def charge(
        self,
        document: bytes,
        signature: bytes,
        server_key: bytes,
        opens: Opens = NOTHING_OPENED,
    ) -> Entry:
        """Book a charge that the server signed, once for each job. LimitExceeded, and nothing
        written, over it.

        NotTrusted for a document that this ledger could not read again, or that the server has not
        signed: booked, it would break the ledger for every job.
        """
        job, price = _words(document)
        if min(price.values()) < 0:
            raise LimitExceeded("a charge is never negative")
        if not signing.is_signed(server_key, signing.charge(document), signature):
            raise NotTrusted("the charge is not signed by the server")
        with self._locked() as entries:
            booked = [entry for entry in entries if entry.body["job"] == job]
            if any(entry.body["kind"] == "release" for entry in booked):
                raise LimitExceeded(
                    "this job had ended and its charge was given back, so it cannot go on"
                )
            for entry in booked[:1]:
                if entry.body["charge"] != document.decode():
                    raise LimitExceeded(
                        "the server changed what this job costs after it was booked"
                    )
                return entry
            spent = _spent(entries)
            after = (spent[0] + price["epsilon"], spent[1] + price["delta"])
            for name, total, limit in zip(("epsilon", "delta"), after, self._limits, strict=True):
                if limit is not None and total > limit:
                    unit = EPSILON_UNIT if name == "epsilon" else DELTA_UNIT
                    raise LimitExceeded(
                        f"{name} {total * unit} would pass this agent's limit of {limit * unit}"
                    )
            return self._append(
                entries,
                kind="charge",
                job=job,
                spent=after,
                charge=document.decode(),
                server_key=base64.b64encode(server_key).decode(),
                server_signature=base64.b64encode(signature).decode(),
                blind=secrets.token_hex(16),
                **({"opens": vars(opens)} if opens.numbers else {}),
            )

    def release(self, job: str) -> None:
        """Take a charge back: the server says that the job ended before anything was touched, and
        nothing was sent."""
        with self._locked() as entries:
            booked = [entry for entry in entries if entry.body["job"] == job]
            if [entry.body["kind"] for entry in booked] != ["charge"]:
                return
            price = json.loads(booked[0].body["charge"])["price"]
            spent = _spent(entries)
            after = (spent[0] - int(price["epsilon"]), spent[1] - int(price["delta"]))
            self._append(entries, kind="release", job=job, spent=after)

    def opened(self, job: str, numbers: int) -> None:
        """Note that a job which has ended opened so many numbers, fewer than were booked."""
        with self._locked() as entries:
            booked = [entry.body for entry in entries if entry.body["job"] == job]
            known = [body["kind"] for body in booked] == ["charge"] and "opens" in booked[0]
            if known and numbers < booked[0]["opens"]["numbers"]:
                self._append(
                    entries, kind="opened", job=job, spent=_spent(entries), numbers=numbers
                )

    def exposed(self, *, but: str) -> Fraction:
        """The numbers for each agent that all jobs but one have opened of sums with this agent in
        them, without noise (`exposure.Opens`)."""
        of: dict[str, Opens] = {}
        for entry in self.entries():
            body = entry.body
            if body["kind"] == "charge":
                of[body["job"]] = Opens(**body.get("opens", vars(NOTHING_OPENED)))
            else:
                of[body["job"]] = Opens(int(body.get("numbers", 0)), of[body["job"]].agents)
        return sum((one.share for job, one in of.items() if job != but), Fraction(0))

    def has(self, job: str) -> bool:
        """Whether a charge for this job was booked, and not given back."""
        kinds = [entry.body["kind"] for entry in self.entries() if entry.body["job"] == job]
        return bool(kinds) and "release" not in kinds

    def receipt(self, job: str) -> dict[str, Any]:
        """The envelope (DSSE) by which this agent says what it let itself be charged for a job.
        AgentError where it has booked no such job, and for charges from before 2026-11-23: their
        hash commits to all that was spent before."""
        booked = [entry for entry in self.entries() if entry.body["job"] == job]
        if not booked:
            raise AgentError(f"this agent's ledger holds no charge for {job}")
        if "blind" not in booked[0].body:
            raise AgentError(
                f"the entry for {job} is of an older version: only the whole ledger can prove it"
            )
        from discreet_agent.federation import receipts  # noqa: PLC0415 - for this alone

        predicate = receipts.receipt(self._identity, booked[0], given_back=_given_back(booked))
        return receipts.seal(predicate, self._identity)

    def entries(self) -> list[Entry]:
        """All entries, checked: chain, sums, both sides' signatures. LedgerBroken names the first
        bad one."""
        try:
            lines = self.path.read_bytes().splitlines()
        except FileNotFoundError:
            return []
        return _check(lines, self._identity.public_key)

    @contextmanager
    def _locked(self) -> Iterator[list[Entry]]:
        """All entries, with no other process writing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            self._drop_torn_line(file)
            yield self.entries()
        finally:
            os.close(file)

    def _drop_torn_line(self, file: int) -> None:
        """A line without its end was never acknowledged to anybody: a power cut took its rest."""
        data = self.path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole != len(data):
            os.ftruncate(file, whole)

    def _append(self, entries: list[Entry], *, spent: tuple[int, int], **fields: Any) -> Entry:
        previous = entries[-1].hash if entries else GENESIS
        body = {
            "seq": len(entries) + 1,
            "at_ms": time.time_ns() // 1_000_000,
            "spent": {"epsilon": str(spent[0]), "delta": str(spent[1])},
            **fields,
        }
        text = _canonical(body)
        link, entry_hash = _hashes(previous, text, body)
        signature = self._identity.sign(signing.ledger_entry(entry_hash))
        line = {
            "body": text.decode(),
            "previous_hash": previous.hex(),
            "hash": entry_hash.hex(),
            "signature": base64.b64encode(signature).decode(),
        }
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        try:
            write_all(file, _canonical(line) + b"\n")
            os.fsync(file)
        finally:
            os.close(file)
        sync_folder(self.path.parent)
        return Entry(body["seq"], link, entry_hash, signature, body)


def _hashes(previous: bytes, text: bytes, body: dict[str, Any]) -> tuple[bytes, bytes]:
    """Link and hash of an entry."""
    link = hashlib.sha256(previous + text).digest()
    if "blind" not in body:
        return link, link
    return link, signing.booked(link, body["seq"], signing.digest(body["charge"].encode()))


def _check(lines: list[bytes], public_key: bytes) -> list[Entry]:
    entries: list[Entry] = []
    previous, spent = GENESIS, (0, 0)
    charges: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(lines, start=1):
        try:
            read = json.loads(line)
            text = read["body"].encode()
            body = json.loads(text)
            link, entry_hash = _hashes(previous, text, body)
            signature = base64.b64decode(read["signature"])
            sound = read["hash"] == entry_hash.hex() and read["previous_hash"] == previous.hex()
            sound = sound and body["seq"] == number
            sound = sound and signing.is_signed(
                public_key, signing.ledger_entry(entry_hash), signature
            )
            if body["kind"] == "charge":
                document = body["charge"].encode()
                key, by_server = (
                    base64.b64decode(body["server_key"]),
                    base64.b64decode(body["server_signature"]),
                )
                sound = sound and signing.is_signed(key, signing.charge(document), by_server)
                sound = sound and body["job"] not in charges
                price = json.loads(document)["price"]
                charges[body["job"]] = price
                spent = (spent[0] + int(price["epsilon"]), spent[1] + int(price["delta"]))
                if "opens" in body:
                    sound = sound and all(type(one) is int for one in body["opens"].values())
                    sound = sound and body["opens"].keys() == vars(NOTHING_OPENED).keys()
            elif body["kind"] == "opened":
                sound = sound and body["job"] in charges and type(body["numbers"]) is int
            else:
                price = charges[body["job"]]
                spent = (spent[0] - int(price["epsilon"]), spent[1] - int(price["delta"]))
            entry = Entry(number, link, entry_hash, signature, body)
            sound = sound and entry.spent == spent
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
            sound = False
        if not sound:
            raise LedgerBroken(f"entry {number} does not hold")
        entries.append(entry)
        previous = entry_hash
    return entries


def _given_back(entries: list[Entry]) -> bool:
    return any(entry.body["kind"] == "release" for entry in entries)


def _words(document: bytes) -> tuple[str, dict[str, int]]:
    """Job and price of a charge, exactly as the check of the ledger will read them."""
    try:
        words = json.loads(document.decode())
        job, asked = words["job"], words["price"]
        price = {name: asked[name] for name in ("epsilon", "delta")}
        sound = isinstance(job, str) and all(
            isinstance(one, str) and _UNITS.fullmatch(one) for one in price.values()
        )
        job.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound:
        raise NotTrusted("the server's charge cannot be read")
    return job, {name: int(units) for name, units in price.items()}


def _spent(entries: list[Entry]) -> tuple[int, int]:
    return entries[-1].spent if entries else (0, 0)


def _units(amount: Decimal | None, unit: Decimal) -> int | None:
    return None if amount is None else int((amount / unit).to_integral_value(ROUND_DOWN))


def _canonical(value: dict[str, Any]) -> bytes:
    """Strings and integers only, so that this is RFC 8785 as well for ASCII names."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()
