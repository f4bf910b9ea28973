"""Alembic's entry: runs on the connection that `discreet.storage.migrations` opens, in one
transaction."""

from __future__ import annotations

from alembic import context

from discreet.storage import log_tables, people_tables, wait_tables  # noqa: F401  they define tables
from discreet.storage.tables import Base


def include_name(name: str | None, kind: str, parents: object) -> bool:
    """The queue's tables belong to procrastinate."""
    return not (kind == "table" and name is not None and name.startswith("procrastinate_"))


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=Base.metadata,
    include_name=include_name,
)
with context.begin_transaction():
    context.run_migrations()
