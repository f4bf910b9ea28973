"""Data keys, objects and retention of datasets; which pepper is under an API key; webhooks."""

from __future__ import annotations

import psycopg
import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

GRANTS = """
GRANT UPDATE (content_key_id, wrapped_key, sealed_bytes, object_name, expires_at, delete_after_job)
  ON datasets TO {role};
GRANT UPDATE (content_key_id, sealed) ON releases TO {role};
GRANT UPDATE (mac, pepper_id) ON keys TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON webhooks, webhook_deliveries TO {role};
"""
ROWS = """
ALTER TABLE {table} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {table} FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON {table} USING (current_setting('discreet.tenant', true) IN (tenant_id, '*'));
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    op.add_column("datasets", sa.Column("wrapped_key", sa.LargeBinary(), nullable=True))
    op.add_column("datasets", sa.Column("sealed_bytes", sa.BigInteger(), nullable=True))
    op.add_column("datasets", sa.Column("object_name", sa.Text(), nullable=True))
    op.add_column("datasets", sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(
        "datasets",
        sa.Column(
            "delete_after_job", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
    )
    op.create_index(
        "datasets_expiry",
        "datasets",
        ["expires_at"],
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "jobs_dataset", "jobs", ["dataset_id"], postgresql_where=sa.text("dataset_id IS NOT NULL")
    )
    op.add_column("keys", sa.Column("pepper_id", sa.Text(), nullable=True))
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("events", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("content_key_id", sa.Text(), nullable=False),
        sa.Column("sealed_secret", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("failing_since", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        sa.Column("disabled_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"]),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(op.f("ix_webhooks_tenant_id"), "webhooks", ["tenant_id"])
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("webhook_id", sa.Text(), nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("attempts", sa.Integer(), server_default="0", nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column(
            "next_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=True
        ),
        sa.Column("delivered_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["webhook_id"], ["webhooks.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "webhook_deliveries_due",
        "webhook_deliveries",
        ["webhook_id", "next_at"],
        postgresql_where=sa.text("next_at IS NOT NULL"),
    )
    op.create_index(
        "webhook_deliveries_subject",
        "webhook_deliveries",
        ["webhook_id", "event", "subject", "created_at"],
    )
    op.create_index("webhook_deliveries_age", "webhook_deliveries", ["created_at"])
    for table in ("webhooks", "webhook_deliveries"):
        execute_script(ROWS.format(table=table))
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(GRANTS.format(role=op.get_bind().dialect.identifier_preparer.quote(role)))


def downgrade() -> None:
    """Refused while a dataset's content has a key of its own: version 0001 could not read it."""
    op.execute("SELECT set_config('discreet.tenant', '*', true)")
    kept = op.get_bind().execute(
        sa.text(
            "SELECT count(*) FROM datasets WHERE wrapped_key IS NOT NULL AND deleted_at IS NULL"
        )
    )
    if number := kept.scalar_one():
        raise RuntimeError(
            f"{number} datasets are sealed in the form of this version; delete them first"
        )
    op.drop_table("webhook_deliveries")
    op.drop_table("webhooks")
    op.drop_column("keys", "pepper_id")
    op.drop_index("jobs_dataset", "jobs")
    op.drop_index("datasets_expiry", "datasets")
    for column in ("wrapped_key", "sealed_bytes", "object_name", "expires_at", "delete_after_job"):
        op.drop_column("datasets", column)
    role = context.config.attributes["application_role"]
    if role is not None:
        quoted = op.get_bind().dialect.identifier_preparer.quote(role)
        execute_script(
            f"REVOKE UPDATE (content_key_id) ON datasets FROM {quoted};"
            f"REVOKE UPDATE (content_key_id, sealed) ON releases FROM {quoted};"
            f"REVOKE UPDATE (mac) ON keys FROM {quoted};"
        )
