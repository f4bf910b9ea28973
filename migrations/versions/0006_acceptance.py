"""Jobs are accepted together where they would wait for each other, and workers are told after the commit."""

from __future__ import annotations

from pathlib import Path

import psycopg
from alembic import context, op

revision = "0006"
down_revision = "0005"

SIGNATURE = "accept_jobs(text, text, text[], text, text, jsonb)"
TRIGGER = """
CREATE OR REPLACE TRIGGER procrastinate_jobs_notify_queue_job_inserted_v1
  AFTER INSERT ON procrastinate_jobs FOR EACH ROW WHEN (NEW.status = 'todo')
  EXECUTE FUNCTION procrastinate_notify_queue_job_inserted_v1();
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def script(name: str) -> str:
    return Path(__file__).with_name(f"{name}.sql").read_text()


def upgrade() -> None:
    execute_script(script("0006_acceptance"))
    execute_script(script("0006_accept_jobs"))
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(f"GRANT EXECUTE ON FUNCTION {SIGNATURE} TO {quoted}")


def downgrade() -> None:
    """`submit_job`, which stayed for older processes, is there as it was."""
    execute_script(TRIGGER)
    execute_script("ALTER FUNCTION read_budgets(text, text) RESET enable_sort")
    execute_script(f"DROP FUNCTION {SIGNATURE}")
    execute_script(script("0001_ledger_reserve"))
