"""The base class of agent and operator."""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from discreet_agent import ed25519
from discreet_agent.federation.files import sync_folder, write_all
from discreet_agent.secure_sum.errors import Ended, Refused, Reused, Tampered
from discreet_agent.secure_sum.frames import HEADER, NOTHING, OPERATOR, PROTOCOL, SIGNATURE, Kind
from discreet_agent.secure_sum.masks import expand, extract
from discreet_agent.secure_sum.roster import Roster


class Party:
    """What agent and operator have in common: the roster, the progress of the run, and the context
    of signatures."""

    def __init__(
        self, identity: Ed25519PrivateKey, epoch: int, first_round: int, previous: bytes | None
    ) -> None:
        self.identity = identity
        self.epoch, self.round = epoch, first_round
        self._previous = previous
        self._exchange = X25519PrivateKey.generate()
        self._fingerprint = NOTHING
        self._shared: dict[int, bytes] = {}
        self._transcript = hashlib.sha256(PROTOCOL.encode()).digest()
        self._active: tuple[int, ...] = ()
        self._expected: tuple[Kind, ...] = ()
        self._heard = NOTHING
        self._bound = self._transcript
        """The transcript that the masks of this round, and the dealer's seals, are bound to."""
        self.ended: Exception | None = None
        self.finished = False
        self.roster: Roster | None = None

    @property
    def transcript(self) -> bytes:
        """Running hash of all broadcasts, 32 bytes: the same for all parties unless the operator
        has sent them different ones."""
        return self._transcript

    @property
    def last_broadcast(self) -> bytes:
        """Hash of the broadcast of the last sum, for `previous` of the next epoch."""
        assert self._previous is not None
        return self._previous

    @property
    def _who(self) -> Roster:
        assert self.roster is not None
        return self.roster

    def _begin(self, roster: Roster) -> None:
        self.roster = roster
        self._active = tuple(range(len(roster.members)))
        if self._previous is None:
            self._previous = roster.hash
        self._point = roster.parameters.fixed_point(len(roster.members))
        self._context = (
            PROTOCOL.encode() + hashlib.sha256(roster.job.encode()).digest() + roster.hash
        )

    def _statement(self, kind: Kind, sender: int, round_: int, payload: bytes) -> bytes:
        header = HEADER.pack(kind, self.epoch, round_, sender)
        return (
            self._context
            + header
            + self._fingerprint
            + self.last_broadcast
            + hashlib.sha256(payload).digest()
        )

    def _frame(self, kind: Kind, sender: int, payload: bytes, *, known: bool = False) -> bytes:
        """A signed frame; a payload that the receiver knows is signed but not sent."""
        signature = self.identity.sign(self._statement(kind, sender, self.round, payload))
        return (
            HEADER.pack(kind, self.epoch, self.round, sender)
            + (b"" if known else payload)
            + signature
        )

    def _verify(self, kind: Kind, sender: int, payload: bytes, signature: bytes) -> None:
        key = self._who.operator if sender == OPERATOR else self._who.members[sender]
        statement = self._statement(kind, sender, self.round, payload)
        if not ed25519.is_signed(key, statement, signature):
            name = "the operator" if sender == OPERATOR else f"agent {sender}"
            raise Refused(
                f"a {kind.name} frame of this round is not signed by {name}", "bad_signature"
            )

    def _verify_all(
        self, kind: Kind, signers: Sequence[int], signatures: bytes, payload: bytes
    ) -> None:
        if len(signatures) != SIGNATURE * len(signers):
            raise Tampered(f"there must be {len(signers)} signatures of {kind.name}")
        for place, signer in enumerate(signers):
            try:
                self._verify(
                    kind, signer, payload, signatures[SIGNATURE * place : SIGNATURE * (place + 1)]
                )
            except Refused:
                raise Tampered(f"agent {signer} has not signed the same {kind.name}") from None

    def _agree_with(self, other: int, public: bytes) -> None:
        """Agree on an X25519 secret with another party, and extract a key from it."""
        try:
            self._shared[other] = extract(
                self._exchange.exchange(X25519PublicKey.from_public_bytes(public))
            )
        except ValueError:
            raise Tampered(f"the X25519 key of {other} has small order") from None

    def _mask_key(self, me: int, other: int) -> bytes:
        """HKDF with `'discreet/mask/v2' ‖ job ‖ roster hash ‖ epoch ‖ round ‖ smaller id ‖ larger
        id ‖ transcript`: after other broadcasts it is another mask."""
        position = struct.pack(">IIHH", self.epoch, self.round, min(me, other), max(me, other))
        info = b"discreet/mask/v2" + self._context[len(PROTOCOL) :] + position + self._bound
        return expand(self._shared[other], info)

    def _sealing(self, dealer: int, recipient: int) -> tuple[ChaCha20Poly1305, bytes]:
        """The cipher between dealer and recipient, with a one-time key, and the associated
        data."""
        other = recipient if recipient in self._shared else dealer
        info = (
            b"discreet/deal/v2"
            + self._context
            + struct.pack(">IHH", self.epoch, dealer, recipient)
            + self._bound
        )
        return ChaCha20Poly1305(expand(self._shared[other], info)), info

    def _hear(self, broadcast: bytes) -> None:
        self._heard = hashlib.sha256(broadcast).digest()
        self._transcript = hashlib.sha256(self._transcript + self._heard).digest()

    def _saved(self) -> dict[str, Any]:
        """What both kinds of party need to go on in another process. Raises Ended for a machine
        that has ended, and with `allow_dropout`: an agent that resumed an older state could sign a
        second set."""
        if self.ended is not None:
            raise Ended(f"this machine has ended: {self.ended}")
        if self.roster is None or self.roster.parameters.allow_dropout:
            raise Ended("a machine without a roster, or with allow_dropout, cannot be saved")
        return {
            "document": self.roster.document.decode(),
            "epoch": self.epoch,
            "round": self.round,
            "previous": self.last_broadcast.hex(),
            "exchange": self._exchange.private_bytes_raw().hex(),
            "fingerprint": self._fingerprint.hex(),
            "shared": {str(other): secret.hex() for other, secret in self._shared.items()},
            "transcript": self._transcript.hex(),
            "heard": self._heard.hex(),
            "bound": self._bound.hex(),
            "expected": [int(kind) for kind in self._expected],
            "finished": self.finished,
        }

    def _resume(self, saved: dict[str, Any]) -> None:
        self._previous = bytes.fromhex(saved["previous"])
        self._begin(Roster.read(saved["document"].encode()))
        self.epoch, self.round = saved["epoch"], saved["round"]
        self._exchange = (
            X25519PrivateKey.from_private_bytes(bytes.fromhex(saved["exchange"]))
            if "exchange" in saved
            else X25519PrivateKey.generate()
        )
        self._fingerprint = bytes.fromhex(saved["fingerprint"])
        self._shared = {
            int(other): bytes.fromhex(secret) for other, secret in saved.get("shared", {}).items()
        }
        self._transcript, self._heard, self._bound = (
            bytes.fromhex(saved[name]) for name in ("transcript", "heard", "bound")
        )
        self._expected = tuple(Kind(kind) for kind in saved["expected"])
        self.finished = saved["finished"]


# Journal ------------------------------------------------------------------------------------------
# The records that must survive an agent's process, so that it answers no round twice.


class Journal(Protocol):
    """An append-only set of records; each is claimed before what it allows is sent."""

    def claim(self, record: str) -> None:
        """Add a record, durably. Raises Reused if it is there already."""

    def records(self) -> Sequence[str]:
        """All records, oldest first."""


class MemoryJournal:
    """A journal for simulations: it ends with the process."""

    def __init__(self) -> None:
        self._records: dict[str, None] = {}

    def claim(self, record: str) -> None:
        if record in self._records:
            raise Reused(f"{record} was claimed before")
        self._records[record] = None

    def records(self) -> Sequence[str]:
        return list(self._records)


class FileJournal(MemoryJournal):
    """A file with one record per line, synced to the disk. One process at a time may hold it (else
    Reused); a last line that was cut short counts as a record."""

    def __init__(self, path: Path) -> None:
        import fcntl  # noqa: PLC0415  # absent on Windows, where the rest of the client runs

        super().__init__()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._file)
            raise Reused(f"another process holds {path}") from None
        text = path.read_text()
        if text and not text.endswith("\n"):
            os.write(self._file, b"\n")
        self._records = dict.fromkeys(text.splitlines())
        sync_folder(path.parent)

    def claim(self, record: str) -> None:
        super().claim(record)
        write_all(self._file, record.encode() + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)
