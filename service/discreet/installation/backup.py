"""Backup and restore of an embedded installation: `discreet backup DIR`, `discreet restore DIR`.

A backup is a folder of mode 0700, there whole or not at all:

    database.dump    pg_dump's own format, one snapshot; PostgreSQL of the same or a newer major
                     version reads it
    state/…          secrets, first keys, certificates, objects: what the state folder holds beside
                     its database
    manifest.json    versions, size and SHA-256 of each file, and the signed head of every tenant's
                     ledger

It works on a running service and on a stopped one. It holds the keys of all data: keep it like the
data themselves. A restore makes a new state folder, verifies every ledger against the backup's
heads and those that were kept elsewhere (`--head`), and ends what could touch data twice (see
`usecases.restoring`). A folder where it did not come to its end is refused by everything else.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from discreet.errors import DiscreetError, StateHeld
from discreet.installation.binaries import Binaries
from discreet.installation.database_roles import APP, DATABASE, OWNER, SUPERUSER
from discreet.installation.postgres import ENVIRONMENT, EmbeddedPostgres, running_url
from discreet.installation.state import RESTORING, StateLock, claim_format
from discreet.private_files import private_folder, sync_folder, write_private
from discreet.settings import CONNECT_SECONDS, Settings
from discreet.storage import secrets
from discreet.storage.schema import revisions
from discreet.usecases import operations
from discreet.usecases.services import open_services

FORMAT = 1
DUMP, MANIFEST = "database.dump", "manifest.json"
SECRETS = "secrets.json"

VOLATILE = frozenset(
    (
        "cache",
        "format.json",
        "lock",
        "logs",
        "metrics.json",
        "postgres",
        "postgres.json",
        "postgres.lock",
        "postgres.new",
        "ready.json",
        RESTORING,
        "run",
        "temporary",
    )
)
"""Files of a state folder that belong to its processes or its database; a backup holds all
others."""

EXTERNAL = (
    "DISCREET_DATABASE_URL names a PostgreSQL of your own: back it up with its own tools "
    "(docs/backup.md), and keep a copy of the secrets file"
)


class BadBackup(DiscreetError):
    """This backup cannot be used."""

    code = "bad_backup"


def backup(settings: Settings, place: Path) -> dict[str, Any]:
    """Write a backup of the state folder to `place`, which must not exist; returns the manifest,
    with `noted`: whether the database knows of it (the page of operators shows the last one that it
    knows of)."""
    if settings.database_url is not None:
        raise DiscreetError(EXTERNAL)
    place = Path(os.path.abspath(place))
    if place.exists():
        raise DiscreetError(f"{place} exists already")
    if not (settings.state / "postgres").is_dir():
        raise DiscreetError(f"{settings.state} holds no database")
    draft = place.with_name(f".{place.name}.{os.getpid()}")
    private_folder(draft)
    try:
        with _database(settings) as (ready, superuser):
            # First the heads: the snapshot that follows has all that they name.
            heads = asyncio.run(_heads(ready))
            began = datetime.now(UTC)
            needed = secrets.content_key_ids(settings.secrets_path)
            _program("pg_dump", superuser, "--format=custom", f"--file={draft / DUMP}")
            _copy(settings, draft / "state")
            if needed - secrets.content_key_ids(draft / "state" / SECRETS):
                raise DiscreetError(
                    "a master key that the copied database needs was retired meanwhile: start again"
                )
            _close(draft)
            manifest = {
                "format": FORMAT,
                "discreet": version("discreet"),
                "schema": revisions()[-1],
                "postgres": Binaries.find().major,
                "created_at": began.isoformat().replace("+00:00", "Z"),
                "files": {name: _described(draft / name) for name in _files(draft)},
                "heads": heads,
            }
            write_private(draft / MANIFEST, json.dumps(manifest, indent=1))
            for folder in (path for path in (draft, *draft.rglob("*")) if path.is_dir()):
                sync_folder(folder)
            draft.rename(place)
            sync_folder(place.parent)
            noted = asyncio.run(_note(ready, began))
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return {**manifest, "noted": noted}


def restore(
    settings: Settings, place: Path, heads: Sequence[Any] = (), *, forget_spending: bool = False
) -> dict[str, Any]:
    """Make a state folder, which must not exist or be empty, from a backup.

    Refuses, and leaves nothing, when the backup is damaged or of a newer version, when a ledger
    does not hold, and when it lacks what one of `heads` names (as `discreet ledger head --json`
    printed it). Of a tenant that has spent and whose head is not among them nobody knows what was
    spent after the backup: SpendingUnknown, unless `forget_spending` says that this may be spent
    again.
    """
    if settings.database_url is not None:
        raise DiscreetError(EXTERNAL)
    manifest = _manifest(place)
    if settings.state.exists() and any(settings.state.iterdir()):
        raise DiscreetError(f"{settings.state} is not empty: restore into a new folder (--state)")
    if not forget_spending:
        operations.require_heads(
            [str(head["tenant"]) for head in manifest["heads"] if head["seq"]], heads
        )
    made = not settings.state.exists()
    state = private_folder(settings.state)
    settings = settings.model_copy(update={"state": state, "secrets_file": None})
    try:
        with StateLock(state) as lock:
            write_private(state / RESTORING, manifest["created_at"])
            shutil.copytree(place / "state", state, dirs_exist_ok=True)
            _close(state)
            with EmbeddedPostgres(state, lock=lock) as server:
                _program(
                    "pg_restore",
                    server.url(SUPERUSER),
                    "--exit-on-error",
                    "--single-transaction",
                    str(place / DUMP),
                )
                ready = settings.model_copy(
                    update={
                        "database_url": server.app_url,
                        "migration_database_url": server.owner_url,
                    }
                )
                found = asyncio.run(_check(ready, manifest, heads))
            (state / RESTORING).unlink()
            claim_format(state)
            sync_folder(state)
    except BaseException:
        _empty(state)
        if made:
            state.rmdir()
        raise
    return found


async def _note(settings: Settings, made_at: datetime) -> bool:
    """Keep in the database that there is a backup with its state of `made_at`, for operators to
    see; False where it does not take that: the backup is none the worse."""
    try:
        async with open_services(settings) as services:
            await operations.note_backup(services, made_at, "discreet")
    except Exception:  # a schema from before, a disk that is full
        return False
    return True


async def _heads(settings: Settings) -> list[Any]:
    async with open_services(settings) as services:
        return await operations.heads(services)


async def _check(
    settings: Settings, manifest: dict[str, Any], heads: Sequence[Any]
) -> dict[str, Any]:
    async with open_services(settings) as services:
        verified = await operations.check_ledger(services, [*manifest["heads"], *heads])
        ended = await operations.end_unfinished(services)
    await _note(settings, datetime.fromisoformat(manifest["created_at"]))
    return {
        "created_at": manifest["created_at"],
        "ledgers": [
            {"tenant": one.tenant, "accounts": one.accounts, "entries": one.entries}
            for one in verified
        ],
        "ended_jobs": ended,
        "heads": len(heads),
    }


@contextmanager
def _database(settings: Settings) -> Iterator[tuple[Settings, str]]:
    """The state folder's database, whether somebody runs it or not: settings with its addresses,
    the superuser's."""
    state = settings.state.resolve()
    try:
        with StateLock(state) as lock:
            claim_format(state)
            with EmbeddedPostgres(state, lock=lock) as server:
                urls = {"database_url": server.app_url, "migration_database_url": server.owner_url}
                yield settings.model_copy(update=urls), server.url(SUPERUSER)
    except StateHeld:
        urls = {
            "database_url": running_url(state, APP),
            "migration_database_url": running_url(state, OWNER),
        }
        yield settings.model_copy(update=urls), running_url(state, SUPERUSER)


def _program(name: str, url: str, *arguments: str, database: str = DATABASE) -> None:
    """Run one of PostgreSQL's programs on the database; its password is not on the command line."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    environment = {
        **ENVIRONMENT,
        "PGHOST": query["host"][0],
        "PGPORT": query["port"][0],
        "PGUSER": parts.username or "",
        "PGPASSWORD": unquote(parts.password or ""),
        "PGCONNECT_TIMEOUT": str(CONNECT_SECONDS),
        "PGOPTIONS": "-c statement_timeout=0 -c lock_timeout=60s",
    }
    done = subprocess.run(
        [Binaries.find().program(name), "--no-password", f"--dbname={database}", *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise DiscreetError(f"{name} failed: {lines[0]}")


def _copy(settings: Settings, target: Path) -> None:
    private_folder(target)
    for path in sorted(settings.state.iterdir()):
        if path.name in VOLATILE or path.name.endswith(".new") or path.is_symlink():
            continue
        if path.is_dir():
            shutil.copytree(path, target / path.name, copy_function=_copy_file)
        else:
            _copy_file(path, target / path.name)
    if not (target / SECRETS).exists():  # they lie elsewhere, or under another name
        shutil.copy2(settings.secrets_path, target / SECRETS)


def _copy_file(source: str | Path, target: str | Path) -> None:
    """A file that is erased at this moment, as the object of a deleted dataset, is in the backup or
    is not."""
    with contextlib.suppress(FileNotFoundError):
        shutil.copy2(source, target)


def _manifest(place: Path) -> dict[str, Any]:
    """The manifest of a backup whose files are all there as they were written."""
    try:
        manifest: dict[str, Any] = json.loads((place / MANIFEST).read_text(encoding="utf-8"))
        number, schema, files = (
            int(manifest["format"]),
            str(manifest["schema"]),
            dict(manifest["files"]),
        )
    except FileNotFoundError:
        raise BadBackup(f"{place} is not a backup: it has no {MANIFEST}") from None
    except (ValueError, TypeError, KeyError) as error:
        raise BadBackup(f"{place / MANIFEST} cannot be read") from error
    if number != FORMAT or schema > revisions()[-1]:
        raise BadBackup(
            f"{place} was made by discreet {manifest['discreet']}, a newer version: restore with "
            "that one"
        )
    for name, described in files.items():
        try:
            whole = _described(place / name) == described
        except OSError:
            whole = False
        if not whole:
            raise BadBackup(f"{place / name} is not as it was written: the backup is damaged")
    return manifest


def _close(folder: Path) -> None:
    """Close everything in a folder to others, whatever the umask is and its source was. The folder
    itself is closed already, so that nobody gets in meanwhile."""
    for path in folder.rglob("*"):
        if not path.is_symlink():
            path.chmod(0o700 if path.is_dir() else 0o600)


def _files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
    return {"bytes": path.stat().st_size, "sha256": digest}


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
