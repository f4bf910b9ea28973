"""`make hostile`: run every attack against an installation of its own and print what it reaches.

Exits with 1 where a defence did not hold. An attack that this machine does not allow is counted as
skipped, not as one that was held off.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import tempfile
from collections import Counter
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
    words: Counter[str] = Counter()
    with running() as service:
        for attack in attacks():
            if chosen not in f"{attack.section} {attack.name}":
                continue
            try:
                reached = attack.run(service)
            except Exception as error:  # an attack that cannot be run shows nothing
                reached = Reached(f"could not be run: {type(error).__name__}: {error}", held=False)
            word = {True: "held", False: "BROKEN", None: "skipped"}[reached.held]
            words[word] += 1
            print(
                f"{word:7} {attack.section:10} {attack.name}: {reached.figures} (allowed: "
                f"{attack.allowed})",
                flush=True,
            )
    print(f"{words['held']} held, {words['BROKEN']} broken, {words['skipped']} skipped")
    return 1 if words["BROKEN"] else 0


if __name__ == "__main__":
    sys.exit(main())
