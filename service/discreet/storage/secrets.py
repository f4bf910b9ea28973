"""The secrets of one installation: a JSON file of mode 0600, one key for each purpose.

Each purpose has a key of its own, so that one can be rotated without the others, and every rotation
goes without downtime: what an old key made stays readable until the old key is retired.

    content_keys       master keys: the first that is not `staged` wraps data keys, all of them
                       unwrap
    job_keys           seal accepted jobs: the first that is not `staged` seals, all of them check.
                       Files of before have none: there the key that names contents seals, which the
                       reader of uploads knows too, and `digest_seals` is false once such seals
                       count no more
    pepper             under every stored API key; `other_peppers` still count, and are replaced
                       when a key is used
    signing_key        signs; `other_signing_keys` are public keys that signed before

A staged key is known and not used yet: it lets all machines learn a key before the first of them
uses it.
"""

from __future__ import annotations

import base64
import contextlib
import copy
import fcntl
import hashlib
import hmac
import json
import os
import secrets as random
import stat
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.errors import DiscreetError
from discreet.private_files import write_private

KEY_BYTES = 32

Kind = Literal["content", "jobs", "pepper", "signing"]

DIGEST = "digest"
"""What `retire` names the key of contents by, where it sealed jobs."""

_LISTS = {"content": "content_keys", "jobs": "job_keys", "pepper": "other_peppers"}


class SecretsError(DiscreetError):
    """The secrets file cannot be used."""

    code = "secrets"


@dataclass(frozen=True, repr=False)
class Secrets:
    """Keys by purpose, 32 bytes each.

    `content_keys` are the master keys of content (AES-256-GCM), `digest_key` names a dataset by its
    content, `pepper` is under every stored API key, `signing_key` (Ed25519 seed) signs certificates
    and ledger heads.
    """

    content_keys: dict[str, bytes]
    content_key_id: str
    digest_key: bytes
    pepper: bytes
    signing_key: bytes
    other_peppers: tuple[bytes, ...] = ()
    other_signing_keys: tuple[str, ...] = ()
    """Public keys (base64) that signed before this one."""
    job_keys: Mapping[str, bytes] = field(default_factory=dict)
    job_key_id: str | None = None
    """The one that seals jobs; None: `digest_key` does, as in older versions."""
    digest_seals: bool = True
    """Whether seals by `digest_key` still count."""

    def __repr__(self) -> str:
        return "Secrets(…)"

    @property
    def signer(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing_key)

    @property
    def peppers(self) -> tuple[bytes, ...]:
        """The one that is used, then those that still count."""
        return (self.pepper, *self.other_peppers)

    @property
    def pepper_id(self) -> str:
        return pepper_id(self.pepper)


class SecretsFile:
    """The secrets as they stand in their file now: a rotation reaches running processes by
    itself."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._loaded = self._read()

    @property
    def current(self) -> Secrets:
        """Looks at the file's date. A file that cannot be read now, in the middle of being
        replaced, is read later."""
        with self._lock:
            try:
                if self._stamp() != self._seen:
                    self._loaded = self._read()
            except (OSError, SecretsError):
                pass
            return self._loaded

    def _read(self) -> Secrets:
        seen = self._stamp()  # before: a file that is replaced meanwhile is read again
        found = load(self._path)
        self._seen = seen
        return found

    def _stamp(self) -> tuple[int, int, int] | None:
        """None where there is no file: `load` says so."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


def create(path: Path) -> None:
    """Write a new secrets file; refuses to replace one."""
    body = {
        "version": 1,
        "content_keys": [{"id": random.token_hex(4), "key": _new()}],
        "digest_key": _new(),
        "job_keys": [{"id": random.token_hex(4), "key": _new()}],
        "digest_seals": False,
        "pepper": _new(),
        "signing_key": _new(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written whole beside its place and linked into it: a crash leaves either no secrets or all of
    # them.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            json.dump(body, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.link(draft, path)
    except FileExistsError as error:
        raise SecretsError(f"{path} exists already") from error
    finally:
        draft.unlink(missing_ok=True)


def load(path: Path) -> Secrets:
    """Read the secrets file; refuses one that others can read."""
    body = _body(path)
    try:
        used = [entry for entry in body["content_keys"] if not entry.get("staged")]
        job_keys = body.get("job_keys", [])
        return Secrets(
            content_keys={entry["id"]: _key(entry["key"]) for entry in body["content_keys"]},
            content_key_id=used[0]["id"],
            digest_key=_key(body["digest_key"]),
            pepper=_key(body["pepper"]),
            signing_key=_key(body["signing_key"]),
            other_peppers=tuple(_key(entry["key"]) for entry in body.get("other_peppers", [])),
            other_signing_keys=tuple(
                str(entry["public_key"]) for entry in body.get("other_signing_keys", [])
            ),
            job_keys={entry["id"]: _key(entry["key"]) for entry in job_keys},
            job_key_id=next((entry["id"] for entry in job_keys if not entry.get("staged")), None),
            digest_seals=body.get("digest_seals", True) is not False,
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise SecretsError(f"{path} is not a secrets file of this version") from error


# Rotation -----------------------------------------------------------------------------------------


def stage(path: Path, kind: Kind) -> str:
    """Add a key that counts already and is not used yet; its id."""
    if kind == "signing":
        raise SecretsError("a signing key needs no staging: what it signs carries its public key")
    with _changing(path) as body:
        return _add_staged(body, kind)


def rotate(path: Path, kind: Kind) -> str:
    """Use the staged key of this kind, or a new one; its id. What the old one made stays good until
    it is retired."""
    with _changing(path) as body:
        return _rotate_signing(body) if kind == "signing" else _rotate(body, kind)


def _rotate_signing(body: dict[str, Any]) -> str:
    old = Ed25519PrivateKey.from_private_bytes(_key(body["signing_key"]))
    body.setdefault("other_signing_keys", []).append({"public_key": _public(old)})
    body["signing_key"] = _new()
    return _public(Ed25519PrivateKey.from_private_bytes(_key(body["signing_key"])))


def _rotate(body: dict[str, Any], kind: Kind) -> str:
    name = _LISTS[kind]
    if not any(entry.get("staged") for entry in body.get(name, [])):
        _add_staged(body, kind)
    entries = body[name]
    place = next(number for number, entry in enumerate(entries) if entry.get("staged"))
    chosen = entries.pop(place)
    del chosen["staged"]
    if kind != "pepper":
        entries.insert(0, chosen)
    else:
        entries.append({"id": pepper_id(_key(body["pepper"])), "key": body["pepper"]})
        body["pepper"] = chosen["key"]
    return str(chosen["id"])


def _add_staged(body: dict[str, Any], kind: Kind) -> str:
    entry = {"key": _new(), "staged": True}
    entry["id"] = pepper_id(_key(str(entry["key"]))) if kind == "pepper" else random.token_hex(4)
    body.setdefault(_LISTS[kind], []).append(entry)
    return str(entry["id"])


def retire(path: Path, kind: Kind, key_id: str) -> None:
    """Forget a key that is not in use. Whoever calls this has made sure that nothing needs it."""
    with _changing(path) as body:
        loaded = load(path)
        if kind == "jobs" and loaded.job_key_id is None:
            raise SecretsError("the key of contents seals jobs as yet; rotate first")
        if kind == "jobs" and key_id == DIGEST and loaded.digest_seals:
            body["digest_seals"] = False
            return
        name, member = {
            "content": ("content_keys", "id"),
            "jobs": ("job_keys", "id"),
            "pepper": ("other_peppers", "id"),
            "signing": ("other_signing_keys", "public_key"),
        }[kind]
        entries = body.get(name, [])
        if (kind, key_id) in (("content", loaded.content_key_id), ("jobs", loaded.job_key_id)):
            raise SecretsError("this key is in use; rotate first")
        kept = [entry for entry in entries if entry[member] != key_id]
        if len(kept) == len(entries):
            raise SecretsError(f"there is no {kind} key {key_id} that can be retired")
        body[name] = kept


def upgrade(path: Path) -> None:
    """Give a file of an older version the key that seals jobs. Only where no process of that
    version runs beside: it knows no such seal. A file that cannot be written stays as it is."""
    with contextlib.suppress(OSError), _changing(path) as body:
        if load(path).job_key_id is None:
            _rotate(body, "jobs")


def trust(path: Path, public_key: str) -> None:
    """Count what this signing key (public, base64) signed as this installation's own: one that was
    retired."""
    try:
        if len(base64.b64decode(public_key, validate=True)) != KEY_BYTES:
            raise ValueError
    except ValueError as error:
        raise SecretsError("this is no public key: 32 bytes in base64 are needed") from error
    with _changing(path) as body:
        entries = body.setdefault("other_signing_keys", [])
        if public_key not in (
            _public(load(path).signer),
            *(entry["public_key"] for entry in entries),
        ):
            entries.append({"public_key": public_key})


def overview(path: Path) -> list[dict[str, str]]:
    """Kind, id and state (used, staged, old) of every key that can be rotated; no key."""
    body, loaded = _body(path), load(path)
    rows = [
        {
            "kind": "content",
            "id": entry["id"],
            "state": "used"
            if entry["id"] == loaded.content_key_id
            else "staged"
            if entry.get("staged")
            else "old",
        }
        for entry in body["content_keys"]
    ]
    rows += [
        {
            "kind": "jobs",
            "id": entry["id"],
            "state": "used"
            if entry["id"] == loaded.job_key_id
            else "staged"
            if entry.get("staged")
            else "old",
        }
        for entry in body.get("job_keys", [])
    ]
    if loaded.digest_seals:
        rows.append(
            {"kind": "jobs", "id": DIGEST, "state": "used" if loaded.job_key_id is None else "old"}
        )
    rows.append({"kind": "pepper", "id": loaded.pepper_id, "state": "used"})
    rows += [
        {"kind": "pepper", "id": entry["id"], "state": "staged" if entry.get("staged") else "old"}
        for entry in body.get("other_peppers", [])
    ]
    rows.append({"kind": "signing", "id": _public(loaded.signer), "state": "used"})
    rows += [{"kind": "signing", "id": key, "state": "old"} for key in loaded.other_signing_keys]
    return rows


def pepper_id(pepper: bytes) -> str:
    """What rows name a pepper by; tells nothing of it."""
    return hmac.digest(pepper, b"discreet/pepper-id/v1", hashlib.sha256)[:4].hex()


def _body(path: Path) -> dict[str, Any]:
    try:
        mode = path.stat().st_mode
        body = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise SecretsError(
            f"there is no secrets file at {path}; `discreet up` makes one"
        ) from error
    except ValueError as error:
        raise SecretsError(f"{path} is not JSON") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SecretsError(f"{path} must be readable by its owner alone (chmod 600)")
    if not isinstance(body, dict):
        raise SecretsError(f"{path} is not a secrets file of this version")
    return body


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[dict[str, Any]]:
    """What stands in the file, to be changed: when the block ends well the file holds it, in one
    step. Two at once come one after the other, by a lock on the folder, which falls with its
    process: who wrote what it had read before another's change would take that key away, with all
    that it seals."""
    _body(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        body = _body(path)
        before = copy.deepcopy(body)
        yield body
        if body != before:
            owner = path.stat()
            # Root rotates for a service that must still be able to read the file.
            write_private(
                path,
                json.dumps(body, indent=1),
                (owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None,
            )
    finally:
        os.close(folder)


def _public(key: Ed25519PrivateKey) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


def _new() -> str:
    return base64.urlsafe_b64encode(random.token_bytes(KEY_BYTES)).decode()


def _key(text: str) -> bytes:
    key = base64.urlsafe_b64decode(text)
    if len(key) != KEY_BYTES:
        raise ValueError("wrong length")
    return key
