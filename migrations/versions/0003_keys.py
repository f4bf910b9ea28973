"""Keys: last used, requests in this window, news of their end; budgets in one statement."""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import context, op

revision = "0003"
down_revision = "0002"

GRANTS = """
GRANT UPDATE (last_used_at, used_window, used_requests) ON keys TO {role};
GRANT EXECUTE ON FUNCTION
  open_key(text), take_requests(text, integer, integer, integer), read_budgets(text, text) TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands: the raw connection reads no placeholders when it gets no parameters."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    op.add_column("keys", sa.Column("last_used_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("keys", sa.Column("used_window", sa.BigInteger(), nullable=True))
    op.add_column(
        "keys", sa.Column("used_requests", sa.Integer(), server_default="0", nullable=False)
    )
    execute_script(Path(__file__).with_name("0003_keys.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(GRANTS.format(role=op.get_bind().dialect.identifier_preparer.quote(role)))


def downgrade() -> None:
    execute_script(
        """
        DROP TRIGGER keys_changed ON keys;
        DROP FUNCTION
          open_key(text), take_requests(text, integer, integer, integer), tell_key(), read_budgets(text, text);
        """
    )
    for column in ("last_used_at", "used_window", "used_requests"):
        op.drop_column("keys", column)
