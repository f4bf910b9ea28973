"""Checkpoints of the transparency log: signed notes of its size and root (C2SP signed-note,
tlog-checkpoint), and the cosignatures of witnesses (C2SP tlog-cosignature, version 1)."""

from __future__ import annotations

import base64
import hashlib
import re
import struct
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.ledger.entries import Signer
from discreet_agent import ed25519
from discreet_agent.dsse import bytes_of

LONGEST_NOTE = 64_000
"""Characters of a note that is looked at."""

_ED25519, _COSIGNATURE = b"\x01", b"\x04"
"""What a key signs: notes as they are, or with the time at which a witness saw them."""

_NAME = re.compile(r"[^\s+]+")
_SIZE = re.compile(r"0|[1-9][0-9]{0,17}")


class BadNote(ValueError):
    """The text is not a note, checkpoint or verifier key in this format, or a signature is
    forged."""


@dataclass(frozen=True)
class Verifier:
    """Who may have signed a note: a name, a key, and whether it is a witness's."""

    name: str
    key: bytes
    """Ed25519, 32 bytes."""
    witness: bool = False

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + self._typed).digest()[:4]

    @property
    def text(self) -> str:
        """The key as tools take it: `name+id+key`."""
        return f"{self.name}+{self.key_id.hex()}+{base64.b64encode(self._typed).decode()}"

    @property
    def _typed(self) -> bytes:
        return (_COSIGNATURE if self.witness else _ED25519) + self.key

    @classmethod
    def read(cls, text: str) -> Verifier:
        """The verifier of a text `name+id+key`; BadNote."""
        name, _, rest = text.strip().partition("+")
        key_id, _, key = rest.partition("+")
        typed = decoded(key)
        if (
            not _NAME.fullmatch(name)
            or len(typed) != 33
            or typed[:1] not in {_ED25519, _COSIGNATURE}
        ):
            raise BadNote("a verifier key is `name+id+key`, of Ed25519")
        found = cls(name, typed[1:], typed[:1] == _COSIGNATURE)
        if found.key_id.hex() != key_id:
            raise BadNote("the id of the verifier key is not that of its name and key")
        return found


@dataclass(frozen=True)
class Checkpoint:
    """The state of a log at one moment, with its signatures."""

    origin: str
    size: int
    root: bytes
    text: str
    """What is signed; ends with a line break."""
    lines: tuple[str, ...]
    """The signature lines."""

    @property
    def note(self) -> str:
        """The whole note."""
        return self.text + "\n" + "".join(f"{line}\n" for line in self.lines)

    def signed_by(self, verifier: Verifier) -> bool:
        """Whether this verifier has signed it; BadNote when a signature that names this key is
        forged."""
        signatures = self._signatures(verifier)
        for signature in signatures:
            message = self.text.encode()
            if verifier.witness:
                if len(signature) != 72:  # the time, and what Ed25519 makes
                    raise BadNote(f"the signature of {verifier.name} is not of this format")
                message = _cosigned(self.text, struct.unpack(">Q", signature[:8])[0])
            if not ed25519.is_signed(verifier.key, message, signature[-64:]):
                raise BadNote(f"the signature of {verifier.name} is forged")
        return bool(signatures)

    def seen_at(self, witness: Verifier) -> int | None:
        """When this witness has signed it, in seconds since 1970; None when it has not. BadNote as
        `signed_by`."""
        if not self.signed_by(witness):
            return None
        return max(int.from_bytes(signature[:8], "big") for signature in self._signatures(witness))

    def cosigned(self, lines: Iterable[str]) -> Checkpoint:
        """The same with these signature lines as well."""
        return replace(self, lines=tuple(dict.fromkeys((*self.lines, *lines))))

    def _signatures(self, verifier: Verifier) -> list[bytes]:
        found = []
        for line in self.lines:
            name, blob = read_line(line)
            if name == verifier.name and blob[:4] == verifier.key_id:
                found.append(blob[4:])
        return found


def read_checkpoint(note: str) -> Checkpoint:
    """A checkpoint from a note's text; BadNote. No signature is looked at."""
    if len(note) > LONGEST_NOTE:
        raise BadNote("the note is too long")
    text, found, below = note.rpartition("\n\n")
    text += "\n"
    lines = below.split("\n")
    if not found or lines.pop() or not lines:
        raise BadNote("a note is a text, an empty line, and signature lines")
    for line in lines:
        read_line(line)
    head = text.split("\n")[:-1]
    if len(head) < 3 or not head[0] or "" in head or not _SIZE.fullmatch(head[1]):
        raise BadNote("a checkpoint begins with its origin, its size and its root, a line each")
    root = decoded(head[2])
    if len(root) != 32:
        raise BadNote("the root of a checkpoint has 32 bytes")
    return Checkpoint(head[0], int(head[1]), root, text, tuple(lines))


def read_line(line: str) -> tuple[str, bytes]:
    """Name and bytes (4 of the key's id, then the signature) of a signature line; BadNote."""
    dash, _, rest = line.partition(" ")
    name, _, encoded = rest.partition(" ")
    blob = decoded(encoded)
    if dash != "—" or not _NAME.fullmatch(name) or len(blob) < 5:
        raise BadNote("a signature line is `— name signature`")
    return name, blob


def sign_checkpoint(origin: str, size: int, root: bytes, key: Signer) -> Checkpoint:
    """A checkpoint of a log, signed by its key under the log's own name."""
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    verifier = Verifier(origin, public_bytes(key))
    return Checkpoint(origin, size, root, text, (_line(verifier, key.sign(text.encode())),))


def cosign(checkpoint: Checkpoint, name: str, key: Signer, seconds: int) -> str:
    """The signature line of a witness that saw the checkpoint at this time, in seconds since
    1970."""
    signature = key.sign(_cosigned(checkpoint.text, seconds))
    return _line(
        Verifier(name, public_bytes(key), witness=True), struct.pack(">Q", seconds) + signature
    )


def signers(checkpoint: Checkpoint, known: Collection[Verifier]) -> list[Verifier]:
    """Those of `known` that have signed the checkpoint; BadNote when one of their signatures is
    forged."""
    return [one for one in known if checkpoint.signed_by(one)]


def public_bytes(key: Signer) -> bytes:
    """The 32 bytes of the public key."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def hashes_text(path: Sequence[bytes]) -> list[str]:
    """Hashes as JSON and requests carry them."""
    return [base64.b64encode(one).decode() for one in path]


def joined(hashes: Sequence[bytes]) -> str:
    """Hashes in one text: base64 of all of them, one behind the other."""
    return base64.b64encode(b"".join(hashes)).decode()


def read_joined(text: str) -> list[bytes]:
    """Hashes from such a text; BadNote."""
    found = decoded(text)
    if len(found) % 32:
        raise BadNote("a hash has 32 bytes")
    return [found[at : at + 32] for at in range(0, len(found), 32)]


def read_hashes(path: Iterable[str]) -> list[bytes]:
    """Hashes from their base64; BadNote."""
    found = [decoded(one) for one in path]
    if any(len(one) != 32 for one in found):
        raise BadNote("a hash has 32 bytes")
    return found


def decoded(text: str) -> bytes:
    """What base64 stands for; BadNote unless it is the one text of these bytes."""
    try:
        return bytes_of(text)
    except (ValueError, TypeError):
        raise BadNote("this is not base64") from None


def _line(verifier: Verifier, signature: bytes) -> str:
    return f"— {verifier.name} {base64.b64encode(verifier.key_id + signature).decode()}"


def _cosigned(text: str, seconds: int) -> bytes:
    return f"cosignature/v1\ntime {seconds}\n{text}".encode()
