"""Public objects, road networks first, are stored once and named by jobs.

Code of the version before runs on: its jobs name none.
"""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0011"
down_revision = "0010"

DOWNGRADE = """
DROP FUNCTION accept_jobs(text, text, text[], text, text, jsonb);
DROP TABLE job_objects;
DROP TABLE public_objects;
"""
GRANTS = """
GRANT SELECT, INSERT, DELETE, UPDATE (name) ON public_objects TO {role};
GRANT SELECT, INSERT ON job_objects TO {role};
"""
GRANTS_OF_BOTH = """
GRANT EXECUTE ON FUNCTION accept_jobs(text, text, text[], text, text, jsonb) TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def grant(statements: str) -> None:
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(
            statements.format(role=op.get_bind().dialect.identifier_preparer.quote(role))
        )


def upgrade() -> None:
    execute_script(script("0011_public_objects"))
    execute_script(script("0011_accept_jobs"))
    grant(GRANTS + GRANTS_OF_BOTH)


def downgrade() -> None:
    execute_script(DOWNGRADE)
    execute_script(script("0010_accept_jobs"))
    grant(GRANTS_OF_BOTH)
