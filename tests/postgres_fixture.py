"""One PostgreSQL for a whole test session, and a fresh database of its own for a test.

For `conftest.py`: `pytest_plugins = ["tests.postgres_fixture"]` gives the fixture `postgres`;
`make_template` migrates once, `fresh_database` copies what it made.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from discreet.installation.database_roles import APP, OWNER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.storage import migrations, schema
from tests.processes import alive

TEMPLATE = "migrated"
MEMORY, ROOM_BYTES = Path("/dev/shm"), 6 << 30
FOLDER = "discreet-tests"
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Database:
    """A database of one test: `owner_url` may do everything in it, `app_url` is what the service
    gets."""

    name: str
    owner_url: str
    app_url: str


@contextmanager
def in_memory(otherwise: Path) -> Iterator[Path]:
    """A folder for a server that forgets everything, in memory where there is room: a database of
    its own for each test is some 900 files, which take a disk .6 s and memory .2 s. It is gone at
    the end, and what ended processes left behind is gone at the beginning."""
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < ROOM_BYTES:
        yield otherwise
        return
    for left in MEMORY.glob(f"{FOLDER}.*"):
        if not alive(int(left.name.split(".")[1])):
            shutil.rmtree(left, ignore_errors=True)
    place = Path(tempfile.mkdtemp(prefix=f"{FOLDER}.{os.getpid()}.", dir=MEMORY))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    """A server for the session; it forgets everything, and does not wait for the disk."""
    with (
        in_memory(tmp_path_factory.mktemp("postgres")) as folder,
        EmbeddedPostgres(folder, durable=False) as server,
    ):
        yield server


def database(server: EmbeddedPostgres, name: str) -> Database:
    return Database(name, server.url(OWNER, name), server.url(APP, name))


def make_template(
    server: EmbeddedPostgres, migrate: Callable[[Database], None], name: str = TEMPLATE
) -> str:
    """A database that `migrate` fills once; it must leave no connection open, or PostgreSQL refuses
    to copy."""
    server.create_database(name)
    migrate(database(server, name))
    return name


@contextmanager
def fresh_database(server: EmbeddedPostgres, template: str | None = TEMPLATE) -> Iterator[Database]:
    """A copy of `template` (None: an empty database), dropped at the end with whatever is still
    connected."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    server.create_database(name, template)
    try:
        yield database(server, name)
    finally:
        server.drop_database(name)


def next_revision(folder: Path, monkeypatch: pytest.MonkeyPatch, oldest: str | None = None) -> str:
    """While `monkeypatch` lasts, this process has the migrations of a version after this one, which
    adds a table and a column; returns its number. `oldest`: whose code it says may still run."""
    before = schema.revisions()[-1]
    number = f"{int(before) + 1:04}"
    place = shutil.copytree(schema.scripts(), folder / "migrations")
    (place / "versions" / f"{number}_next.py").write_text(
        "from alembic import op\n"
        f"revision, down_revision = {number!r}, {before!r}\n"
        + (f"OLDEST = {oldest!r}\n" if oldest else "")
        + "def upgrade():\n"
        '    op.execute("CREATE TABLE comes_next AS SELECT 1 AS number")\n'
        '    op.execute("ALTER TABLE jobs ADD COLUMN comes_next text")\n'
    )
    for module in (schema, migrations):
        monkeypatch.setattr(module, "scripts", lambda: place)
    return number
