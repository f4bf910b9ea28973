"""Logins of the dashboard: sessions and one-time links."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import context, op

revision = "0004"
down_revision = "0003"

TABLES = ("web_sessions", "login_links")


def upgrade() -> None:
    for name in TABLES:
        op.create_table(
            name,
            sa.Column("mac", sa.LargeBinary(), nullable=False),
            sa.Column("tenant_id", sa.Text(), nullable=False),
            sa.Column("key_id", sa.Text(), nullable=False),
            sa.Column(
                "created_at",
                sa.DateTime(timezone=True),
                server_default=sa.text("now()"),
                nullable=False,
            ),
            sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
            sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"]),
            sa.ForeignKeyConstraint(["key_id"], ["keys.id"]),
            sa.PrimaryKeyConstraint("mac"),
        )
        op.create_index(f"{name}_age", name, ["expires_at"])
        op.execute(f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY")
        op.execute(f"ALTER TABLE {name} FORCE ROW LEVEL SECURITY")
        op.execute(
            f"CREATE POLICY own_tenant ON {name} USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'))"
        )
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        op.execute(f"GRANT SELECT, INSERT, DELETE ON {', '.join(TABLES)} TO {quoted}")


def downgrade() -> None:
    """Everybody has to log in again."""
    for name in TABLES:
        op.drop_table(name)
