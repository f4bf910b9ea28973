"""Foundation: tenants, keys, datasets, accounts, the ledger with its rules, jobs and their queue."""

from __future__ import annotations

from pathlib import Path

import psycopg
import sqlalchemy as sa
from alembic import context, op
from procrastinate.schema import SchemaManager
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None


# What the application role may do. It owns nothing; accounts and ledger entries are written by the ledger's functions.
GRANTS = """
GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role};
GRANT INSERT ON tenants TO {role};
GRANT INSERT, UPDATE (expires_at, revoked_at) ON keys TO {role};
GRANT INSERT, UPDATE (deleted_at) ON datasets TO {role};
GRANT INSERT, DELETE ON dataset_chunks TO {role};
GRANT INSERT, UPDATE ON jobs TO {role};
GRANT INSERT ON job_events, job_results, result_tables TO {role};
GRANT INSERT, DELETE ON releases, idempotent_requests TO {role};
GRANT INSERT, UPDATE ON sessions, session_agents TO {role};
GRANT INSERT, UPDATE (used_by, used_at) ON session_tokens TO {role};
GRANT INSERT, DELETE ON group_members TO {role};
GRANT EXECUTE ON FUNCTION
  ledger_open(text, text, text, text, text, jsonb, jsonb, text, text), ledger_grant(text, jsonb, jsonb, text, text),
  ledger_reserve(text, text[], jsonb, text, text), ledger_touch(text, text), ledger_settle(text, text),
  ledger_caps(text, text), find_key(text), fair_tag(text),
  submit_job(text, text, text, bytea, text, text, text, jsonb, jsonb, bigint, integer, text[], jsonb, text, text, text,
    text, text, jsonb, jsonb) TO {role};
GRANT ALL ON procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers, procrastinate_workers TO {role};
GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO {role};
"""


def execute_script(sql: str) -> None:
    """Run SQL of many statements as it stands: the raw connection reads no placeholders when it gets no parameters."""
    driver = op.get_bind().connection.driver_connection
    assert isinstance(driver, psycopg.Connection)
    driver.execute(sql.encode())


def upgrade() -> None:
    op.create_table(
        "tenants",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "accounts",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.CheckConstraint(
            "scope IN ('data', 'tenant', 'principal', 'agent')", name="accounts_scope"
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("tenant_id", "scope", "subject", name="accounts_subject"),
    )
    op.create_table(
        "keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("lookup", sa.Text(), nullable=False),
        sa.Column("mac", sa.LargeBinary(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("revoked_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("role IN ('operator', 'owner', 'analyst', 'auditor')", name="keys_role"),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("lookup"),
    )
    op.create_index(op.f("ix_keys_tenant_id"), "keys", ["tenant_id"], unique=False)
    op.create_table(
        "datasets",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("public", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("mode", sa.Text(), nullable=False),
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("content_key_id", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("deleted_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("mode IN ('private', 'simulation')", name="datasets_mode"),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "datasets_live",
        "datasets",
        ["tenant_id", "digest"],
        unique=True,
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index("datasets_page", "datasets", ["tenant_id", "created_at", "id"], unique=False)
    op.create_index(op.f("ix_datasets_account_id"), "datasets", ["account_id"], unique=False)
    op.create_table(
        "ledger_entries",
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=True),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("previous_hash", sa.LargeBinary(), nullable=False),
        sa.Column("totals", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("reserved", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("cap", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("filters", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.CheckConstraint(
            "kind IN ('open', 'grant', 'reserve', 'data_touched', 'commit', 'release')",
            name="ledger_entries_kind",
        ),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
        ),
        sa.PrimaryKeyConstraint("account_id", "seq"),
        sa.UniqueConstraint("job_id", "account_id", "kind", name="ledger_entries_once"),
    )
    op.create_table(
        "dataset_chunks",
        sa.Column("dataset_id", sa.Text(), nullable=False),
        sa.Column("index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
        ),
        sa.PrimaryKeyConstraint("dataset_id", "index"),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("dataset_id", sa.Text(), nullable=True),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("problem", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("plan", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("price", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("state", sa.Text(), server_default="queued", nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column(
            "cancel_requested", sa.Boolean(), server_default=sa.text("false"), nullable=False
        ),
        sa.Column("step", sa.Integer(), server_default="0", nullable=False),
        sa.Column("total", sa.Integer(), server_default="1", nullable=False),
        sa.Column("fair_tag", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error_code", sa.Text(), nullable=True),
        sa.Column("error_detail", sa.Text(), nullable=True),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint(
            "state IN ('queued', 'awaiting_agents', 'running', 'succeeded', 'failed', 'cancelled')",
            name="jobs_state",
        ),
        sa.ForeignKeyConstraint(
            ["dataset_id"],
            ["datasets.id"],
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"],
            ["tenants.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index(
        "jobs_active",
        "jobs",
        ["fair_tag"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_index("jobs_fair", "jobs", ["tenant_id", "fair_tag"], unique=False)
    op.create_index(
        "jobs_lease",
        "jobs",
        ["lease_until"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_index("jobs_newest", "jobs", ["fair_tag"], unique=False)
    op.create_index("jobs_page", "jobs", ["tenant_id", "created_at", "id"], unique=False)
    op.create_table(
        "idempotent_requests",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("tenant_id", "principal", "key"),
    )
    op.create_index("idempotent_requests_age", "idempotent_requests", ["created_at"], unique=False)
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("data", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job_id", "seq"),
    )
    op.create_table(
        "job_results",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("result", sa.LargeBinary(), nullable=False),
        sa.Column("certificate", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_table(
        "releases",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("content_key_id", sa.Text(), nullable=False),
        sa.Column("sealed", sa.LargeBinary(), nullable=False),
        sa.Column(
            "at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job_id"),
    )
    op.create_table(
        "result_tables",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("parquet", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["jobs.id"],
        ),
        sa.PrimaryKeyConstraint("job_id", "name"),
    )
    op.create_table(
        "sessions",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("terms", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("budget", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("roster", sa.LargeBinary(), nullable=True),
        sa.Column("roster_signature", sa.LargeBinary(), nullable=True),
        sa.Column("owner_key", sa.LargeBinary(), nullable=True),
        sa.Column("approved_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("holder", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("wanted", sa.Text(), nullable=True),
        sa.Column("round", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("content_key_id", sa.Text(), nullable=True),
        sa.Column("sealed", sa.LargeBinary(), nullable=True),
        sa.Column("transcript", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"]),
        sa.PrimaryKeyConstraint("job_id"),
        sa.UniqueConstraint("id"),
    )
    op.create_index("sessions_lease", "sessions", ["lease_until"], unique=False)
    op.create_table(
        "session_tokens",
        sa.Column("mac", sa.LargeBinary(), nullable=False),
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("used_by", sa.Text(), nullable=True),
        sa.Column("used_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("mac"),
    )
    op.create_index(op.f("ix_session_tokens_job_id"), "session_tokens", ["job_id"], unique=False)
    op.create_table(
        "session_agents",
        sa.Column("job_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("announcement", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.Column(
            "enrolled_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("receipt", postgresql.JSONB(astext_type=sa.Text()), nullable=True),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"]),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"]),
        sa.PrimaryKeyConstraint("job_id", "fingerprint"),
    )
    op.create_table(
        "group_members",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("public_key", sa.LargeBinary(), nullable=False),
        sa.Column("account_id", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("announcement", postgresql.JSONB(astext_type=sa.Text()), nullable=False),
        sa.ForeignKeyConstraint(["account_id"], ["accounts.id"]),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"]),
        sa.PrimaryKeyConstraint("tenant_id", "group_name", "fingerprint"),
    )
    execute_script(SchemaManager.get_schema())
    # What a later migration replaces has a file of its own, with which that one is undone.
    for name in ("ledger_reserve", "ledger", "rows", "find_key", "fair_tag", "submit_job"):
        execute_script(Path(__file__).with_name(f"0001_{name}.sql").read_text())
    role = context.config.attributes["application_role"]
    if role is not None:
        execute_script(GRANTS.format(role=op.get_bind().dialect.identifier_preparer.quote(role)))


def downgrade() -> None:
    """There is nothing below the foundation: drop the database instead, and with it the ledger."""
    raise RuntimeError("the foundation cannot be undone")
