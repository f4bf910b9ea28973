"""Workers may vacuum contents, so that what was erased does not wait for autovacuum. From PostgreSQL 17 on.

Before 17 only the owner may; there autovacuum does it.
"""

from __future__ import annotations

import psycopg
from alembic import context, op

revision = "0007"
down_revision = "0006"

FIRST_WITH_MAINTAIN = 170000


def _say(verb: str) -> None:
    role = context.config.attributes["application_role"]
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    if role is not None and driver.info.server_version >= FIRST_WITH_MAINTAIN:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        direction = "TO" if verb == "GRANT" else "FROM"
        driver.execute(f"{verb} MAINTAIN ON datasets, dataset_chunks {direction} {quoted}".encode())


def upgrade() -> None:
    _say("GRANT")


def downgrade() -> None:
    _say("REVOKE")
