"""The secrets of one installation: a JSON file of mode 0600, one key for each purpose.

Each purpose has a key of its own, so that one can be rotated without the others, and every rotation
goes without downtime: what an old key made stays readable until the old key is retired.

    content_keys       master keys: the first that is not `staged` wraps data keys, all of them
                       unwrap
    job_keys           seal accepted jobs: the first that is not `staged` seals, all of them check
    pepper             under every stored API key; `other_peppers` still count, and are replaced
                       when a key is used
    signing_key        signs; `other_signing_keys` are public keys that signed before

What stands for a key is a text of its provider (`storage.keys`): the key in base64, or where it
lies. A staged key is known and not used yet: it lets all machines learn a key before the first of
them uses it.
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
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import structlog
from sqlalchemy import case, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import DiscreetError
from discreet.ledger.entries import Signer
from discreet.private_files import write_private
from discreet.storage.database import Impatience, Silent
from discreet.storage.jobs import FINAL
from discreet.storage.keys.opening import IN_FILE, Keys
from discreet.storage.keys.provider import (
    KEY_BYTES,
    KeysUnavailable,
    MasterKey,
    Purpose,
    SecretsError,
)
from discreet.storage.tables import (
    Dataset,
    FederatedSession,
    Job,
    JobResult,
    Key,
    Read,
    Release,
    Webhook,
)

Kind = Literal["content", "jobs", "pepper", "signing"]

"""The kind under which `retire` names the content key as a key of job seals."""

_LISTS = {"content": "content_keys", "jobs": "job_keys", "pepper": "other_peppers"}


@dataclass(frozen=True, repr=False)
class Secrets:
    """Keys by purpose, opened; 32 bytes each where they are in memory.

    `content_keys` are the master keys of content, `digest_key` names a dataset by its content,
    `pepper` is under every stored API key, `signer` (Ed25519) signs certificates and ledger heads.
    """

    content_keys: Mapping[str, MasterKey]
    content_key_id: str
    digest_key: bytes
    job_keys: Mapping[str, bytes]
    job_key_id: str
    """The one that seals jobs."""
    pepper: bytes
    signer: Signer = field(compare=False)
    other_peppers: tuple[bytes, ...] = ()
    other_signing_keys: tuple[str, ...] = ()
    """Public keys (base64) that signed before this one."""

    def __repr__(self) -> str:
        return "Secrets(…)"

    @property
    def peppers(self) -> tuple[bytes, ...]:
        """The one that is used, then those that still count."""
        return (self.pepper, *self.other_peppers)

    @property
    def pepper_id(self) -> str:
        return pepper_id(self.pepper)


def create(path: Path, keys: Keys = IN_FILE) -> None:
    """Write a new secrets file; refuses to replace one. Of several at once one makes keys."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with turn(path):
        if path.exists():
            raise SecretsError(f"{path} exists already")
        maker = keys.maker
        body = {
            "version": 1,
            "content_keys": [{"id": random.token_hex(4), "key": maker.new_master_key()}],
            "digest_key": maker.new_secret("digest"),
            "job_keys": [{"id": random.token_hex(4), "key": maker.new_secret("jobs")}],
            "pepper": maker.new_secret("pepper"),
            "signing_key": maker.new_signing_key(),
        }
        _opened(
            path, body, keys
        )  # a place that cannot give back what it took makes no installation
        # Written whole beside its place and linked into it: a crash leaves no secrets, or all.
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


def load(path: Path, keys: Keys = IN_FILE) -> Secrets:
    """Read the secrets file and open its keys; refuses a file that others can read. KeysUnavailable
    where keys lie elsewhere and that place does not answer."""
    return _opened(path, read_document(path), keys)


def _opened(path: Path, body: dict[str, Any], keys: Keys) -> Secrets:
    try:
        return Secrets(
            content_keys={
                entry["id"]: keys.master_key(entry["key"]) for entry in body["content_keys"]
            },
            content_key_id=next(
                entry["id"] for entry in body["content_keys"] if not entry.get("staged")
            ),
            digest_key=keys.secret("digest", body["digest_key"]),
            pepper=keys.secret("pepper", body["pepper"]),
            signer=keys.signer(body["signing_key"]),
            other_peppers=tuple(
                keys.secret("pepper", entry["key"]) for entry in body.get("other_peppers", [])
            ),
            other_signing_keys=tuple(
                str(entry["public_key"]) for entry in body.get("other_signing_keys", [])
            ),
            job_keys={entry["id"]: keys.secret("jobs", entry["key"]) for entry in body["job_keys"]},
            job_key_id=next(entry["id"] for entry in body["job_keys"] if not entry.get("staged")),
        )
    except (KeyError, StopIteration, TypeError, ValueError, AttributeError) as error:
        raise SecretsError(f"{path} is not a secrets file of this version") from error


def content_key_ids(path: Path) -> set[str]:
    """Which master keys the file knows; none is opened."""
    try:
        return {str(entry["id"]) for entry in read_document(path)["content_keys"]}
    except (KeyError, TypeError) as error:
        raise SecretsError(f"{path} is not a secrets file of this version") from error


def texts(path: Path) -> set[str]:
    """The texts that stand for keys in the file."""
    return {str(entry[member]) for _, entry, member in _places(read_document(path))}


# Rotation -----------------------------------------------------------------------------------------


def stage(path: Path, kind: Kind, keys: Keys = IN_FILE) -> str:
    """Add a key that is already accepted but not yet used; returns its id."""
    if kind == "signing":
        raise SecretsError("a signing key needs no staging: what it signs carries its public key")
    with changing(path) as body:
        return _add_staged(body, kind, keys)


def rotate(path: Path, kind: Kind, keys: Keys = IN_FILE) -> str:
    """Use the staged key of this kind, or a new one; returns its id. What the old one made stays
    valid until it is retired."""
    with changing(path) as body:
        return _rotate_signing(body, keys) if kind == "signing" else _rotate(body, kind, keys)


def _rotate_signing(body: dict[str, Any], keys: Keys) -> str:
    old, new = keys.signer(body["signing_key"]), keys.maker.new_signing_key()
    body.setdefault("other_signing_keys", []).append({"public_key": _public(old)})
    body["signing_key"] = new
    return _public(keys.signer(new))


def _rotate(body: dict[str, Any], kind: Kind, keys: Keys) -> str:
    name = _LISTS[kind]
    if not any(entry.get("staged") for entry in body.get(name, [])):
        _add_staged(body, kind, keys)
    entries = body[name]
    place = next(number for number, entry in enumerate(entries) if entry.get("staged"))
    chosen = entries.pop(place)
    del chosen["staged"]
    if kind != "pepper":
        entries.insert(0, chosen)
    else:
        entries.append(
            {"id": pepper_id(keys.secret("pepper", body["pepper"])), "key": body["pepper"]}
        )
        body["pepper"] = chosen["key"]
    return str(chosen["id"])


def _add_staged(body: dict[str, Any], kind: Kind, keys: Keys) -> str:
    if kind == "pepper":
        text = keys.maker.new_secret("pepper")
        key_id = pepper_id(keys.secret("pepper", text))
    else:
        key_id = random.token_hex(4)
        if kind == "content":
            text = keys.maker.new_master_key()
            keys.master_key(text)  # nothing is sealed under a key that does not open
        else:
            text = keys.maker.new_secret("jobs")
            keys.secret("jobs", text)
    body.setdefault(_LISTS[kind], []).append({"key": text, "staged": True, "id": key_id})
    return key_id


def wrap(path: Path, keys: Keys) -> list[str]:
    """Put every key whose secret can be told into the first place of `keys`, as it is; what those
    that moved are for. Nothing that they made changes. Keys of a token stay where they are. A place
    that does not give back what it took gets none: SecretsError, and the file stays as it is."""
    moved: list[str] = []
    with changing(path) as body:
        for purpose, entry, member in _places(body):
            text = entry[member]
            provider = keys.provider(text)
            if provider is not keys.maker and provider.is_known(text):
                secret = provider.unlock(purpose, text)
                entry[member] = keys.maker.lock(purpose, secret)
                if keys.maker.unlock(purpose, entry[member]) != secret:
                    raise SecretsError(
                        f"{keys.maker.name} gives back another key ({purpose}) than it took"
                    )
                moved.append(purpose)
    return moved


def _places(body: dict[str, Any]) -> Iterator[tuple[Purpose, dict[str, Any], str]]:
    """Every key of a file: what it is for, the object that it stands in, the member of its text."""
    yield "digest", body, "digest_key"
    yield "pepper", body, "pepper"
    yield "signing", body, "signing_key"
    lists: tuple[tuple[Purpose, str], ...] = (
        ("content", "content_keys"),
        ("jobs", "job_keys"),
        ("pepper", "other_peppers"),
    )
    for purpose, name in lists:
        for entry in body.get(name, []):
            yield purpose, entry, "key"


def retire(path: Path, kind: Kind, key_id: str) -> None:
    """Forget a key that is not in use. The caller has made sure that nothing needs it."""
    with changing(path) as body:
        name, member = {
            "content": ("content_keys", "id"),
            "jobs": ("job_keys", "id"),
            "pepper": ("other_peppers", "id"),
            "signing": ("other_signing_keys", "public_key"),
        }[kind]
        entries = body.get(name, [])
        if kind in ("content", "jobs") and key_id == _used(body, name):
            raise SecretsError("this key is in use; rotate first")
        kept = [entry for entry in entries if entry[member] != key_id]
        if len(kept) == len(entries):
            raise SecretsError(f"there is no {kind} key {key_id} that can be retired")
        body[name] = kept


def trust(path: Path, public_key: str, keys: Keys = IN_FILE) -> None:
    """Count what this signing key (public, base64) signed as this installation's own: one that was
    retired."""
    try:
        if len(base64.b64decode(public_key, validate=True)) != KEY_BYTES:
            raise ValueError
    except ValueError as error:
        raise SecretsError("this is not a public key: 32 bytes in base64 are needed") from error
    with changing(path) as body:
        entries = body.setdefault("other_signing_keys", [])
        if public_key not in (
            _public(keys.signer(body["signing_key"])),
            *(entry["public_key"] for entry in entries),
        ):
            entries.append({"public_key": public_key})


def overview(path: Path, keys: Keys = IN_FILE) -> list[dict[str, str]]:
    """Kind, id, state (used, staged, old) and place of every key that can be rotated; no key."""
    body, loaded = read_document(path), load(path, keys)

    def row(kind: Kind, key_id: str, state: str, text: str = "") -> dict[str, str]:
        return {
            "kind": kind,
            "id": key_id,
            "state": state,
            "place": keys.provider(text).name if text else "",
        }

    rows = []
    kinds: tuple[tuple[Kind, str, str | None], ...] = (
        ("content", "content_keys", loaded.content_key_id),
        ("jobs", "job_keys", loaded.job_key_id),
    )
    for kind, name, used in kinds:
        for entry in body.get(name, []):
            state = "used" if entry["id"] == used else "staged" if entry.get("staged") else "old"
            rows.append(row(kind, entry["id"], state, entry["key"]))
    rows.append(row("pepper", loaded.pepper_id, "used", body["pepper"]))
    for entry in body.get("other_peppers", []):
        rows.append(
            row("pepper", entry["id"], "staged" if entry.get("staged") else "old", entry["key"])
        )
    rows.append(row("signing", _public(loaded.signer), "used", body["signing_key"]))
    return rows + [row("signing", key, "old") for key in loaded.other_signing_keys]


def _used(body: dict[str, Any], name: str) -> str | None:
    """Id of the key of this list that is in use."""
    return next((str(entry["id"]) for entry in body.get(name, []) if not entry.get("staged")), None)


def pepper_id(pepper: bytes) -> str:
    """The id by which rows name a pepper; it reveals nothing about it."""
    return hmac.digest(pepper, b"discreet/pepper-id/v1", hashlib.sha256)[:4].hex()


def _public(key: Signer) -> str:
    return base64.b64encode(key.public_key().public_bytes_raw()).decode()


# Secrets document ---------------------------------------------------------------------------------
# The secrets file as a document: JSON of mode 0600 that is read whole, and changed by one process
# at a time.


def read_document(path: Path) -> dict[str, Any]:
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
def changing(path: Path) -> Iterator[dict[str, Any]]:
    """The content of the file, to be changed: it is written in one step when the block ends
    without an error. Two changes come one after the other: writing back content read before
    another change would remove that change's key, with all that it seals."""
    read_document(path)
    with turn(path):
        body = read_document(path)
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


@contextlib.contextmanager
def turn(path: Path) -> Iterator[None]:
    """One at a time, by a lock on the folder, which falls with its process."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        # Whoever died in its turn has left its draft, perhaps as a second name of the file itself.
        for left in path.parent.glob(f".{path.name}.*"):
            left.unlink()
        yield
    finally:
        os.close(folder)


# Secrets file -------------------------------------------------------------------------------------
# The secrets as they stand in their file now: a rotation reaches running processes by itself.

log = structlog.get_logger()

RETRY_SECONDS = 2.0
"""Wait before keys are asked for again in a place that did not answer."""

LATE_SECONDS = 1.0
"""Seconds after which a place that has not opened the keys of a changed file is asked in the
background, since the caller may be an event loop."""

Stamp = tuple[int, int, int] | None


class SecretsFile:
    """The secrets of one process. Keys that lie elsewhere are opened once and stay in memory.

    A place that does not answer when the file has changed, or when the process starts, is asked
    again beside the work: until then what was opened before is used, but no master key that the
    file names no longer, so that nothing is written under a key that was retired."""

    def __init__(self, path: Path, keys: Keys = IN_FILE) -> None:
        """SecretsError when the file, or a key in it, cannot be used. A place that does not answer
        raises nothing here: `current` does, until it answers."""
        self.path, self.keys = path, keys
        self._lock = threading.Lock()
        self._impatience = Impatience("keys")
        self._seen: Stamp = None
        self._loaded: Secrets | None = None
        self._trouble: DiscreetError | None = None
        self._unread: SecretsError | None = None
        """Why this process cannot use the current file and continues with the last one."""
        with self._lock:
            try:
                self._take(*self._read())
            except KeysUnavailable as error:
                self._ask_again(error)

    @property
    def current(self) -> Secrets:
        """Looks at the file's date. A file that cannot be read now, in the middle of being
        replaced, is read later. KeysUnavailable while no keys could be opened yet."""
        with self._lock:
            try:
                stamp = self._stamp()
                if self._trouble is not None:
                    self._forget_retired()
                elif stamp != self._seen:
                    known = self.keys.are_open(texts(self.path))
                    within = self._impatience.within
                    self._take(*(self._read() if known else within(LATE_SECONDS, self._read)))
            except Silent:
                self._ask_again(KeysUnavailable("keys of the changed secrets file do not open yet"))
            except KeysUnavailable as error:
                self._ask_again(error)
            except (OSError, SecretsError) as error:
                self._unread = error if isinstance(error, SecretsError) else None
                self._forget_retired()
            if self._loaded is None:
                assert self._trouble is not None
                raise KeysUnavailable(self._trouble.detail)
            return self._loaded

    def check(self) -> None:
        """DiscreetError where this process lacks keys that the file names, or cannot use those of a
        token."""
        _ = self.current
        if (trouble := self._trouble or self._unread) is not None:
            raise KeysUnavailable(trouble.detail)
        self.keys.check()

    def _read(self) -> tuple[Stamp, Secrets]:
        seen = self._stamp()  # before: a file that is replaced meanwhile is read again
        return seen, load(self.path, self.keys)

    def _take(self, seen: Stamp, loaded: Secrets) -> None:
        """Under the lock."""
        self._loaded, self._seen, self._trouble, self._unread = loaded, seen, None, None
        self.keys.forget_others(texts(self.path))

    def _forget_retired(self) -> None:
        """Where the file can be read at all."""
        if self._loaded is None:
            return
        with contextlib.suppress(OSError, SecretsError):
            named = content_key_ids(self.path)
            kept = {name: key for name, key in self._loaded.content_keys.items() if name in named}
            if len(kept) < len(self._loaded.content_keys):
                self._loaded = replace(self._loaded, content_keys=kept)

    def _ask_again(self, error: KeysUnavailable) -> None:
        """Under the lock."""
        log.warning("keys cannot be opened", why=error.detail)
        self._trouble = error
        self._forget_retired()
        threading.Thread(target=self._keep_asking, name="keys", daemon=True).start()

    def _keep_asking(self) -> None:
        while True:
            time.sleep(RETRY_SECONDS)
            try:
                found = self._read()
                with self._lock:
                    self._take(*found)
            except (OSError, DiscreetError) as error:
                if isinstance(error, DiscreetError):
                    self._trouble = error
                continue
            log.info("keys are open again")
            return

    def _stamp(self) -> Stamp:
        """None where there is no file: `load` says so."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size


# Rotation -----------------------------------------------------------------------------------------
# Rows sealed under a master key, for its rotation: they are locked, read and written again.

Row = dict[str, Any]


async def datasets_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    """Datasets with content whose key is under another master key than this one; locked."""
    statement = (
        select(Dataset)
        .where(Dataset.deleted_at.is_(None), Dataset.content_key_id != key_id)
        .order_by(Dataset.id)
        .limit(most)
        .with_for_update(of=Dataset)
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def rewrapped_dataset(
    connection: AsyncConnection, dataset_id: str, key_id: str, wrapped: bytes
) -> None:
    """Note the new wrapped key of a dataset."""
    statement = update(Dataset).where(Dataset.id == dataset_id)
    await connection.execute(statement.values(content_key_id=key_id, wrapped_key=wrapped))


async def reads_by_others(connection: AsyncConnection, key_id: str, most: int = 100) -> list[Row]:
    statement = (
        select(Read.id, Read.content_key_id, Read.wrapped_key)
        .where(Read.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def rewrapped_read(
    connection: AsyncConnection, read_id: str, key_id: str, wrapped: bytes
) -> None:
    statement = update(Read).where(Read.id == read_id)
    await connection.execute(statement.values(content_key_id=key_id, wrapped_key=wrapped))


async def releases_by_others(
    connection: AsyncConnection, key_id: str, most: int = 1000
) -> list[Row]:
    """Releases under another master key: their own keys, and what was released where there is no
    such key."""
    sealed = case((Release.wrapped_key.is_(None), Release.sealed)).label("sealed")
    statement = (
        select(Release.job_id, Release.content_key_id, Release.wrapped_key, Release.terms, sealed)
        .where(Release.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def moved_release(
    connection: AsyncConnection, job_id: str, key_id: str, **values: bytes
) -> None:
    """Note the new `wrapped_key`, or what was `sealed` anew."""
    await connection.execute(
        update(Release).where(Release.job_id == job_id).values(content_key_id=key_id, **values)
    )


async def sessions_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    statement = (
        select(FederatedSession.job_id, FederatedSession.content_key_id, FederatedSession.sealed)
        .where(FederatedSession.sealed.is_not(None), FederatedSession.content_key_id != key_id)
        .limit(most)
        .with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def resealed_session(
    connection: AsyncConnection, job_id: str, key_id: str, sealed: bytes
) -> None:
    await connection.execute(
        update(FederatedSession)
        .where(FederatedSession.job_id == job_id)
        .values(content_key_id=key_id, sealed=sealed)
    )


async def webhooks_by_others(
    connection: AsyncConnection, key_id: str, most: int = 100
) -> list[Row]:
    statement = (
        select(Webhook).where(Webhook.content_key_id != key_id).limit(most).with_for_update()
    )
    return [dict(row) for row in (await connection.execute(statement)).mappings()]


async def resealed_webhook(
    connection: AsyncConnection, webhook_id: str, key_id: str, sealed: bytes
) -> None:
    await connection.execute(
        update(Webhook)
        .where(Webhook.id == webhook_id)
        .values(content_key_id=key_id, sealed_secret=sealed)
    )


HOLD_SECONDS = 2
"""How long `needing` waits for writers that are under way, while others wait behind it."""


async def needing(connection: AsyncConnection, key_id: str) -> int:
    """How many rows cannot be read without this master key. Those that are being written are waited
    for, and no others come until this transaction ends; a DBAPIError (55P03) where that takes too
    long."""
    await connection.execute(text(f"SET LOCAL lock_timeout = '{HOLD_SECONDS}s'"))
    names = ", ".join(
        table.__tablename__ for table in (Dataset, FederatedSession, Read, Release, Webhook)
    )
    await connection.execute(text(f"LOCK TABLE {names} IN SHARE MODE"))
    count = 0
    for table, live in (
        (Dataset, Dataset.deleted_at.is_(None)),
        (Release, None),
        (FederatedSession, FederatedSession.sealed.is_not(None)),
        (Read, None),
        (Webhook, None),
    ):
        statement = select(func.count()).select_from(table).where(table.content_key_id == key_id)
        if live is not None:
            statement = statement.where(live)
        count += int((await connection.execute(statement)).scalar_one())
    return count


async def sealed_jobs(connection: AsyncConnection, key_id: str) -> int:
    """How many jobs that have not ended this key has sealed."""
    by_this = Job.tamper_seal.startswith(f"{key_id}:", autoescape=True)
    statement = select(func.count()).select_from(Job).where(Job.state.not_in(FINAL), by_this)
    return int((await connection.execute(statement)).scalar_one())


async def signed_results(connection: AsyncConnection, public_key: str) -> int:
    """How many certificates this signing key has signed."""
    statement = select(func.count()).where(
        JobResult.certificate["public_key"].as_string() == public_key
    )
    return int((await connection.execute(statement)).scalar_one())


async def is_read_only(connection: AsyncConnection) -> bool:
    """Whether this server is a standby, or refuses changes for another reason."""
    return (
        str(
            (
                await connection.execute(select(func.current_setting("transaction_read_only")))
            ).scalar_one()
        )
        == "on"
    )


async def keys_without_pepper(connection: AsyncConnection, known: str) -> int:
    """Living API keys that are not known to be under this pepper."""
    statement = select(func.count()).where(
        Key.revoked_at.is_(None),
        (Key.expires_at.is_(None)) | (Key.expires_at > func.now()),
        Key.pepper_id != known,
    )
    return int((await connection.execute(statement)).scalar_one())


async def open_sessions(connection: AsyncConnection, states: Sequence[str]) -> int:
    """Federated jobs in one of these states."""
    statement = (
        select(func.count())
        .select_from(FederatedSession)
        .join(Job, Job.id == FederatedSession.job_id)
        .where(Job.state.in_(states))
    )
    return int((await connection.execute(statement)).scalar_one())
