"""An installation that keeps contents as objects and may call loopback addresses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import Installation, settings_for
from tests.postgres_fixture import Database, fresh_database

# `python -m discreet`, but open to its own user: beside root, nobody else could count its memory
# and open files.
OPEN = ("-c", "from discreet.cli import run; raise SystemExit(run())")


@contextmanager
def stored_installation(
    postgres: EmbeddedPostgres, template: str, state: Path, *, workers: int = 1
) -> Iterator[tuple[Installation, Database]]:
    """API and workers with object storage in `state/objects`, uploads in `state/spool`."""
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        values = {
            "object_url": f"file://{state}/objects",  # fsspec reads no %20
            "object_bytes": 0,
            "spool": state / "spool",
            "json_body_bytes": 8_000_000,
            "webhook_allow_http": True,
            "webhook_allow_private": True,
            "webhook_ports": "1024-65535",
            "webhook_backoff_seconds": 0.2,
            "webhook_seconds": 60,
            "expiry_seconds": 0.3,
        }
        running = Installation(settings_for(database, state, **values), api_command=OPEN)
        running.extra |= {
            f"DISCREET_{name.upper()}": str(value).lower() for name, value in values.items()
        }
        running.extra |= {
            "DISCREET_OBJECT_URL": values["object_url"],
            "DISCREET_SPOOL": str(values["spool"]),
        }
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        for _ in range(workers):
            running.start_worker()
        yield running, database
