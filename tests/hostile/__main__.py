"""`make hostile`: run every attack against an installation of its own and print what it reaches.

Exits with 1 where a defence did not hold.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage.migrations import migrate
from tests import hostile
from tests.conftest import Installation, installation
from tests.hostile import Attack, Reached
from tests.postgres_fixture import make_template


def attacks() -> list[Attack]:
    """Those of every module of this package, in the order of their sections."""
    names = sorted(
        module.name
        for module in pkgutil.iter_modules(hostile.__path__)
        if module.name != "__main__"
    )
    modules = [importlib.import_module(f"tests.hostile.{name}") for name in names]
    found = [attack for module in modules for attack in getattr(module, "ATTACKS", ())]
    return sorted(found, key=lambda attack: attack.section)


@contextmanager
def running() -> Iterator[Installation]:
    """An API and a worker on a PostgreSQL of their own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-hostile-")))
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", durable=False))
        template = make_template(
            postgres,
            lambda database: migrate(
                Settings(database_url=database.app_url, migration_database_url=database.owner_url)
            ),
        )
        yield stack.enter_context(installation(postgres, template, folder / "state", workers=1))


def main() -> int:
    parser = argparse.ArgumentParser(prog="make hostile", description=__doc__)
    parser.add_argument(
        "-k", dest="word", default="", help="only attacks whose name or section holds this word"
    )
    chosen = parser.parse_args().word
    # Attacks that run parts of the service in this process: what these tell is beside the table.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    held = True
    with running() as service:
        for attack in attacks():
            if chosen not in f"{attack.section} {attack.name}":
                continue
            try:
                reached = attack.run(service)
            except Exception as error:  # an attack that cannot be run shows nothing
                reached = Reached(f"could not be run: {type(error).__name__}: {error}", held=False)
            held = held and reached.held
            word = "held  " if reached.held else "BROKEN"
            print(
                f"{word} {attack.section:10} {attack.name}: {reached.figures} (allowed: "
                f"{attack.allowed})",
                flush=True,
            )
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
