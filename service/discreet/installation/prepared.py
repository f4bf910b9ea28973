"""Preparing a state folder for a program: secrets, the migrated database, and the environment of
the parts."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import resources
from importlib.metadata import version
from pathlib import Path
from typing import Any

from discreet.errors import Unavailable
from discreet.installation.parts import command
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.state import StateLock, claim_format
from discreet.isolation.processes import dies_with_parent, end
from discreet.private_files import kernel_cache, private_folder
from discreet.settings import CREDENTIALS, Settings

READY_FILE = "ready.json"


@contextmanager
def embedded(settings: Settings) -> Iterator[Settings]:
    """The state folder for one program without the service: takes its lock, makes its secrets, and
    migrates its database.

    Yields settings with the URLs set. If `settings` names a database, that is used instead of the
    embedded one.
    """
    # Imported here, because the supervisor, which never calls this, is to stay small.
    from discreet.storage.migrations import migrate  # noqa: PLC0415

    state = private_folder(settings.state)
    with StateLock(state) as lock, ExitStack() as stack:
        claim_format(state)
        settings = settings.model_copy(update={"state": state})
        ensure_secrets(settings)
        if settings.database_url is None:
            server = stack.enter_context(EmbeddedPostgres(state, lock=lock))
            settings = with_database(settings, server)
            if server.mark != (schema := schema_digest()):
                migrate(settings)
                server.mark = schema
        else:
            migrate(settings)
        yield settings


@contextmanager
def running(
    settings: Settings, host: str = "127.0.0.1", port: int = 0, rpc_port: int = 0
) -> Iterator[dict[str, Any]]:
    """`discreet up` as a child process, for demonstrations and tests; yields the content of
    `ready.json`."""
    ready = settings.state / READY_FILE
    process = subprocess.Popen(
        command("up", "--host", host, "--port", str(port), "--rpc-port", str(rpc_port)),
        env=environment_of(settings),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509  it calls prctl and getppid, nothing else
    )
    try:
        while True:
            if process.poll() is not None:
                raise Unavailable("discreet up ended before it was ready")
            with suppress(OSError, ValueError):
                answer: dict[str, Any] = json.loads(ready.read_text(encoding="utf-8"))
                if answer["pid"] == process.pid:
                    break
            time.sleep(0.05)
        yield answer
    finally:
        end(process, (signal.SIGTERM, 120.0))


def ensure_secrets(settings: Settings) -> None:
    """Create the secrets file where there is none, and refuse one that is broken."""
    from discreet.storage import secrets  # noqa: PLC0415  cryptography is not needed by most of this module's users
    from discreet.storage.keys.opening import Keys  # noqa: PLC0415
    from discreet.storage.keys.provider import KeysUnavailable  # noqa: PLC0415

    keys = Keys.of(settings)
    if not settings.secrets_path.exists():
        secrets.create(settings.secrets_path, keys)
    else:
        with suppress(KeysUnavailable):  # each part waits for them
            secrets.load(settings.secrets_path, keys)


def with_database(settings: Settings, server: EmbeddedPostgres) -> Settings:
    """Settings with the URLs of an embedded server."""
    return settings.model_copy(
        update={"database_url": server.app_url, "migration_database_url": server.owner_url}
    )


def schema_digest() -> str:
    """A digest of everything that `discreet migrate` would apply. A database that has it as its
    mark needs no migration, which saves the second that loading the migration tools takes."""
    package = resources.files("discreet")
    scripts = Path(str(package)) / "_migrations"  # in a wheel
    if not scripts.is_dir():
        scripts = Path(__file__).parents[3] / "migrations"  # in a source tree
    files = sorted(path for path in scripts.rglob("*") if path.suffix in (".py", ".sql", ".mako"))
    digest = hashlib.sha256(version("procrastinate").encode())  # it brings a schema of its own
    for path in (*files, Path(str(package / "storage" / "migrations.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def template_environment(settings: Settings) -> dict[str, str]:
    """This process's environment without any setting of discreet: libraries may read it when they
    are imported."""
    variables = {f"DISCREET_{name.upper()}" for name in Settings.model_fields}
    return kernel_cache(settings.state) | {
        name: value
        for name, value in os.environ.items()
        if name not in variables and name not in CREDENTIALS
    }


def environment_of(settings: Settings) -> dict[str, str]:
    """This process's environment with exactly these settings in it."""
    environment = dict(os.environ)
    for name, value in settings.model_dump(mode="json").items():
        variable = f"DISCREET_{name.upper()}"
        environment.pop(variable, None)
        if value is not None:
            environment[variable] = value if isinstance(value, str) else json.dumps(value)
    environment["DISCREET_SECRETS_FILE"] = str(settings.secrets_path)
    for variable in CREDENTIALS:  # credentials that are not in these settings are not for the child
        environment.pop(variable, None)
    return kernel_cache(settings.state) | environment
