"""Which schema a database has, and whether code of this version may run on it.

Revisions are numbered. One after which older code cannot run any more says so by `OLDEST =
"<number>"`, the oldest schema whose code still may. The database keeps the highest such number as
the comment of its version table, where running processes find it. They need no more than this; what
changes a schema, and Alembic with it, is in `migrations`.
"""

from __future__ import annotations

import importlib.util
from importlib import resources
from pathlib import Path

from sqlalchemy import text

from discreet.errors import Unavailable
from discreet.storage.database import SYSTEM, Database, may_be_other_schema

_STATUS = text(
    "SELECT version_num, obj_description('alembic_version'::regclass) FROM alembic_version"
)


class WrongSchema(Unavailable):
    """The database has the schema of another version."""

    code = "wrong_schema"


def scripts() -> Path:
    """The folder of the migrations: inside the wheel, or at the top of a source tree."""
    shipped = Path(str(resources.files("discreet"))) / "_migrations"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "migrations"


def revisions() -> tuple[str, ...]:
    """The numbers of the revisions that this version knows, oldest first. WrongSchema where its
    files are not there."""
    found = sorted(
        path.name.partition("_")[0] for path in (scripts() / "versions").glob("[0-9]*.py")
    )
    if not found:
        raise WrongSchema(
            "this installation is incomplete: its migrations are missing; install it again"
        )
    return tuple(found)


def oldest_code() -> str:
    """The oldest schema whose code may run on a database of this version's."""
    found = revisions()[0]
    for path in (scripts() / "versions").glob("[0-9]*.py"):
        spec = importlib.util.spec_from_file_location(f"_revision_{path.stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found = max(found, str(getattr(module, "OLDEST", found)))
    return found


async def check_schema(database: Database) -> None:
    """`WrongSchema` unless this process may work on the database as it is."""
    async with database.transaction(SYSTEM) as connection:
        there = (
            await connection.execute(text("SELECT to_regclass('alembic_version') IS NOT NULL"))
        ).scalar_one()
        if not there:
            raise WrongSchema("the database has no tables of discreet: run `discreet migrate`")
        row = (await connection.execute(_STATUS)).one_or_none()
    judge(revisions()[-1], None if row is None else row[0], None if row is None else row[1])


async def schema_trouble(database: Database, error: BaseException) -> WrongSchema | None:
    """WrongSchema if it explains why a statement failed: the database does not have what this
    version's code names."""
    if may_be_other_schema(error):
        try:
            await check_schema(database)
        except WrongSchema as found:
            return found
        except Exception:  # it is gone meanwhile; the statement's own error stays
            return None
    return None


def judge(ours: str, present: str | None, oldest: str | None) -> None:
    """`WrongSchema` unless code of schema `ours` may run on a database of schema `present` that
    needs `oldest`."""
    if present is None or present < ours:
        raise WrongSchema(
            f"the database has schema {present or 'none'}, this version needs {ours}: run "
            "`discreet migrate`"
        )
    if oldest is not None and ours < oldest:
        raise WrongSchema(
            f"the database has schema {present} of a newer version, which older ones than {oldest} "
            f"cannot use; this process has {ours}: start the newer version instead"
        )
