"""The tables, as SQLAlchemy models. Migrations make them; a test holds the two equal.

What else there is stands in `…_tables`. `migrations/current` explains every table and column, and
says what else the database owns: row-level security, functions and rights.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, get_args

from sqlalchemy import (
    BigInteger,
    Case,
    CheckConstraint,
    DateTime,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Text,
    UniqueConstraint,
    case,
    column,
    func,
    table,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, INT4MULTIRANGE, JSONB
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

NOW = func.now()

JobState = Literal[
    "queued", "awaiting_agents", "waiting", "running", "succeeded", "failed", "cancelled"
]
"""The state of a job; the last three are final."""
UNFINISHED, FINAL = get_args(JobState)[:4], get_args(JobState)[4:]


class Base(DeclarativeBase):
    """Declared schema of discreet."""

    type_annotation_map = {  # noqa: RUF012 - SQLAlchemy's own name
        str: Text,
        datetime: DateTime(timezone=True),
        bytes: LargeBinary,
        dict[str, Any]: JSONB,
        list[Any]: JSONB,
    }


class Tenant(Base):
    """One customer; every other row belongs to one."""

    __tablename__ = "tenants"
    id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(unique=True)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Key(Base):
    """An API key of a principal: its public part and a MAC of the whole, never the key."""

    __tablename__ = "keys"
    __table_args__ = (
        CheckConstraint("role IN ('operator', 'owner', 'analyst', 'auditor')", name="keys_role"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    principal: Mapped[str]
    role: Mapped[str]
    lookup: Mapped[str] = mapped_column(unique=True)
    mac: Mapped[bytes]
    pepper_id: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime | None]
    revoked_at: Mapped[datetime | None]
    last_used_at: Mapped[datetime | None]
    used_window: Mapped[int | None] = mapped_column(BigInteger)
    used_requests: Mapped[int] = mapped_column(Integer, server_default="0")


class WebSession(Base):
    """A login of the dashboard. It ends with the key, or the person's access, that it came from."""

    __tablename__ = "web_sessions"
    __table_args__ = (
        CheckConstraint("(key_id IS NULL) <> (identity_id IS NULL)", name="web_sessions_whose"),
        CheckConstraint("(identity_id IS NULL) = (role IS NULL)", name="web_sessions_role"),
        Index("web_sessions_age", "expires_at"),
        Index(
            "web_sessions_identity", "identity_id", postgresql_where=text("identity_id IS NOT NULL")
        ),
    )
    mac: Mapped[bytes] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    key_id: Mapped[str | None] = mapped_column(ForeignKey("keys.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime]
    identity_id: Mapped[str | None] = mapped_column(ForeignKey("identities.id"))
    role: Mapped[str | None]
    issued_at: Mapped[datetime | None]
    sid: Mapped[str | None]
    hint: Mapped[bytes | None]


class LoginLink(Base):
    """A link that logs in once. The row goes when the link is used."""

    __tablename__ = "login_links"
    __table_args__ = (Index("login_links_age", "expires_at"),)
    mac: Mapped[bytes] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    key_id: Mapped[str] = mapped_column(ForeignKey("keys.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime]


class Account(Base):
    """What a privacy budget is charged to."""

    __tablename__ = "accounts"
    __table_args__ = (
        CheckConstraint(
            "scope IN ('data', 'tenant', 'principal', 'agent', 'source')", name="accounts_scope"
        ),
        UniqueConstraint("tenant_id", "scope", "subject", name="accounts_subject"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    scope: Mapped[str]
    subject: Mapped[str]
    unit: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class LedgerEntry(Base):
    """One line of an account's hash chain."""

    __tablename__ = "ledger_entries"
    __table_args__ = (
        CheckConstraint(
            "kind IN ('open', 'grant', 'reserve', 'data_touched', 'commit', 'release')",
            name="ledger_entries_kind",
        ),
        UniqueConstraint("job_id", "account_id", "kind", name="ledger_entries_once"),
        Index(
            "ledger_entries_rare",
            "account_id",
            "kind",
            "seq",
            postgresql_where=text("kind IN ('open', 'grant', 'release')"),
        ),
        Index("ledger_entries_time", "account_id", "at", "seq"),
    )
    account_id: Mapped[str] = mapped_column(primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    tenant_id: Mapped[str]
    kind: Mapped[str]
    job_id: Mapped[str | None]
    body: Mapped[str]
    hash: Mapped[bytes]
    previous_hash: Mapped[bytes]
    totals: Mapped[dict[str, Any]]
    reserved: Mapped[dict[str, Any]]
    cap: Mapped[dict[str, Any]]
    filters: Mapped[str]
    at: Mapped[datetime]
    blocks: Mapped[Any | None] = mapped_column(INT4MULTIRANGE)


class Dataset(Base):
    """A registered dataset. Erasing forgets `wrapped_key`: what copies of the content remain cannot
    be read."""

    __tablename__ = "datasets"
    __table_args__ = (
        CheckConstraint("mode IN ('private', 'simulation')", name="datasets_mode"),
        CheckConstraint(
            "(source_id IS NULL) = (block IS NULL) AND (source_id IS NULL) = (version IS NULL) "
            "AND (source_id IS NULL) = (number IS NULL)",
            name="datasets_in_source",
        ),
        CheckConstraint(
            "(stays IS NULL OR stays IN ('file', 'https', 's3') AND object_name IS NULL) AND "
            "(stays IS NULL) = (seen_at IS NULL) AND (place IS NULL OR stays IS NOT NULL)",
            name="datasets_stays",
        ),
        Index(
            "datasets_block",
            "source_id",
            "block",
            "version",
            unique=True,
            postgresql_where=text("source_id IS NOT NULL"),
        ),
        Index(
            "datasets_live",
            "tenant_id",
            "digest",
            postgresql_where=text("deleted_at IS NULL"),
        ),
        Index(
            "datasets_number",
            "source_id",
            "number",
            unique=True,
            postgresql_where=text("source_id IS NOT NULL"),
        ),
        Index(
            "datasets_gone",
            "source_id",
            "number",
            postgresql_where=text("source_id IS NOT NULL AND deleted_at IS NOT NULL"),
        ),
        Index(
            "datasets_ends",
            "source_id",
            "expires_at",
            postgresql_where=text(
                "source_id IS NOT NULL AND deleted_at IS NULL AND expires_at IS NOT NULL"
            ),
        ),
        Index("datasets_page", "tenant_id", "created_at", "id"),
        Index("datasets_expiry", "expires_at", postgresql_where=text("deleted_at IS NULL")),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), index=True)
    name: Mapped[str]
    kind: Mapped[str]
    public: Mapped[dict[str, Any]]
    mode: Mapped[str]
    digest: Mapped[bytes]
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes | None]
    sealed_bytes: Mapped[int | None] = mapped_column(BigInteger)
    object_name: Mapped[str | None]
    expires_at: Mapped[datetime | None]
    delete_after_job: Mapped[bool] = mapped_column(server_default=text("false"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    deleted_at: Mapped[datetime | None]
    source_id: Mapped[str | None] = mapped_column(ForeignKey("sources.id"))
    block: Mapped[str | None]
    version: Mapped[int | None]
    number: Mapped[int | None]
    stays: Mapped[str | None]
    place: Mapped[bytes | None]
    seen_at: Mapped[datetime | None]
    revision: Mapped[int] = mapped_column(server_default=text("1"))
    zone_names: Mapped[bytes | None]


class DatasetRevision(Base):
    """What a dataset was before a correction: its digest still finds the account."""

    __tablename__ = "dataset_revisions"
    __table_args__ = (Index("dataset_revisions_digest", "tenant_id", "digest"),)
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    revision: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    digest: Mapped[bytes]
    public: Mapped[dict[str, Any]]
    corrected_by: Mapped[str]
    corrected_at: Mapped[datetime] = mapped_column(server_default=NOW)


class DatasetChunk(Base):
    """A sealed piece of a dataset's content."""

    __tablename__ = "dataset_chunks"
    dataset_id: Mapped[str] = mapped_column(ForeignKey("datasets.id"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sealed: Mapped[bytes]


class Read(Base):
    """A file that was sent to be looked at."""

    __tablename__ = "reads"
    __table_args__ = (Index("reads_age", "expires_at"),)
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    principal: Mapped[str]
    format: Mapped[str]
    plain_bytes: Mapped[int] = mapped_column(BigInteger)
    sealed_bytes: Mapped[int] = mapped_column(BigInteger)
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes]
    object_name: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime]


class ReadChunk(Base):
    """A sealed piece of such a file."""

    __tablename__ = "read_chunks"
    read_id: Mapped[str] = mapped_column(
        ForeignKey("reads.id", ondelete="CASCADE"), primary_key=True
    )
    index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    sealed: Mapped[bytes]


class Job(Base):
    """A job. `attempt` is the fencing token, `lease_until` the lease of the worker that holds
    it."""

    __tablename__ = "jobs"
    __table_args__ = (
        CheckConstraint(f"state IN {get_args(JobState)}", name="jobs_state"),
        CheckConstraint(
            "(source_id IS NULL) = (versions IS NULL) AND "
            "(source_id IS NULL OR dataset_id IS NULL)",
            name="jobs_versions",
        ),
        Index("jobs_page", "tenant_id", "created_at", "id"),
        Index("jobs_state", "tenant_id", "state", "created_at", "id"),
        Index(
            "jobs_fair",
            "tenant_id",
            "fair_tag",
            postgresql_where=text("started_at IS NOT NULL OR state = 'queued'"),
        ),
        Index("jobs_turn", "fair_tag", postgresql_where=text("started_at IS NOT NULL")),
        Index("jobs_active", "fair_tag", postgresql_where=text("state IN ('queued', 'running')")),
        Index("jobs_dataset", "dataset_id", postgresql_where=text("dataset_id IS NOT NULL")),
        Index("jobs_source", "source_id", "state", postgresql_where=text("source_id IS NOT NULL")),
        Index(
            "jobs_open",
            "tenant_id",
            "dataset_id",
            postgresql_include=("state", "kind", "created_at", "lease_until"),
            postgresql_where=text(f"state IN {UNFINISHED}"),
        ),
        Index(
            "jobs_ended",
            "finished_at",
            postgresql_where=text("finished_at IS NOT NULL AND result_gone_at IS NULL"),
        ),
        Index("jobs_lease", "lease_until", postgresql_where=text("state = 'running'")),
        Index(
            "jobs_released",
            "tenant_id",
            "release_key",
            text("((price ->> 'rho'::text)::numeric) DESC"),
            text("created_at DESC"),
            postgresql_where=text("release_key IS NOT NULL AND state = 'succeeded'"),
        ),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    dataset_id: Mapped[str | None] = mapped_column(ForeignKey("datasets.id"))
    principal: Mapped[str]
    kind: Mapped[str]
    problem: Mapped[dict[str, Any]]
    plan: Mapped[dict[str, Any]]
    price: Mapped[dict[str, Any]]
    seed: Mapped[int | None] = mapped_column(BigInteger)
    tamper_seal: Mapped[str | None]
    traceparent: Mapped[str | None]
    state: Mapped[str] = mapped_column(server_default="queued")
    attempt: Mapped[int] = mapped_column(Integer, server_default="0")
    failures: Mapped[int] = mapped_column(Integer, server_default="0")
    lease_until: Mapped[datetime | None]
    cancel_requested: Mapped[bool] = mapped_column(server_default=text("false"))
    step: Mapped[int] = mapped_column(Integer, server_default="0")
    total: Mapped[int] = mapped_column(Integer, server_default="1")
    fair_tag: Mapped[int] = mapped_column(Integer, server_default="0")
    error_code: Mapped[str | None]
    error_detail: Mapped[str | None]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    released_by: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    release_key: Mapped[bytes | None]
    name: Mapped[str | None]
    mostly_noise: Mapped[bool] = mapped_column(server_default=text("false"))
    headline: Mapped[str | None]
    result_gone_at: Mapped[datetime | None]
    source_id: Mapped[str | None]
    versions: Mapped[Any | None] = mapped_column(INT4MULTIRANGE)


class IdempotentRequest(Base):
    """An accepted request by its key: the same key answers the same job again."""

    __tablename__ = "idempotent_requests"
    __table_args__ = (Index("idempotent_requests_age", "created_at"),)
    tenant_id: Mapped[str] = mapped_column(primary_key=True)
    principal: Mapped[str] = mapped_column(primary_key=True)
    key: Mapped[str] = mapped_column(primary_key=True)
    request_digest: Mapped[bytes]
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"))
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Webhook(Base):
    """An address that is told of events. Its signing secret lies sealed under its id."""

    __tablename__ = "webhooks"
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), index=True)
    url: Mapped[str]
    events: Mapped[list[Any]]
    content_key_id: Mapped[str]
    sealed_secret: Mapped[bytes]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    failing_since: Mapped[datetime | None]
    last_error: Mapped[str | None]
    disabled_at: Mapped[datetime | None]


class WebhookDelivery(Base):
    """A message to a webhook, written with what it tells of."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (
        Index(
            "webhook_deliveries_due",
            "webhook_id",
            "next_at",
            postgresql_where=text("next_at IS NOT NULL"),
        ),
        Index("webhook_deliveries_subject", "webhook_id", "event", "subject", "created_at"),
        Index("webhook_deliveries_age", "created_at"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]
    webhook_id: Mapped[str] = mapped_column(ForeignKey("webhooks.id", ondelete="CASCADE"))
    event: Mapped[str]
    subject: Mapped[str]
    body: Mapped[str]
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    next_at: Mapped[datetime | None] = mapped_column(server_default=NOW)
    delivered_at: Mapped[datetime | None]


# Object tables ------------------------------------------------------------------------------------
# The tables of public objects, as SQLAlchemy models.


class PublicObject(Base):
    """A public object that jobs name: its id is made of its content, and neither ever changes."""

    __tablename__ = "public_objects"
    __table_args__ = (Index("public_objects_page", "tenant_id", "type", "created_at", "id"),)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    type: Mapped[str]
    name: Mapped[str]
    sizes: Mapped[dict[str, Any]]
    content: Mapped[bytes]
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class JobObject(Base):
    """A public object that a job names."""

    __tablename__ = "job_objects"
    __table_args__ = (
        ForeignKeyConstraint(
            ["tenant_id", "object_id"], ["public_objects.tenant_id", "public_objects.id"]
        ),
        Index("job_objects_object", "tenant_id", "object_id"),
    )
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    object_id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str]


# Operation tables ---------------------------------------------------------------------------------
# The tables of what operators look at, as SQLAlchemy models.


class Process(Base):
    """A process of the service, as it reports itself."""

    __tablename__ = "processes"
    __table_args__ = (
        CheckConstraint("part IN ('api', 'rpc', 'worker')", name="processes_part"),
        CheckConstraint("isolation IN ('full', 'partial', 'none')", name="processes_isolation"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    part: Mapped[str]
    host: Mapped[str]
    version: Mapped[str]
    schema: Mapped[str]
    places: Mapped[int | None] = mapped_column(Integer)
    queue_worker: Mapped[int | None] = mapped_column(BigInteger)
    isolation: Mapped[str | None]
    reached: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    walls: Mapped[list[str] | None] = mapped_column(ARRAY(Text))
    started_at: Mapped[datetime] = mapped_column(server_default=NOW)
    seen_at: Mapped[datetime] = mapped_column(server_default=NOW)


class Backup(Base):
    """A backup that was reported."""

    __tablename__ = "backups"
    __table_args__ = (
        CheckConstraint("made_with IN ('discreet', 'other')", name="backups_made_with"),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    made_at: Mapped[datetime]
    made_with: Mapped[str]
    schema: Mapped[str]


class JobCount(Base):
    """A part of the number of a tenant's jobs of a kind that have not ended, by state."""

    __tablename__ = "job_counts"
    __table_args__ = (Index("job_counts_of", "tenant_id", "kind"),)
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    tenant_id: Mapped[str]
    kind: Mapped[str]
    queued: Mapped[int] = mapped_column(server_default=text("0"))
    awaiting_agents: Mapped[int] = mapped_column(server_default=text("0"))
    waiting: Mapped[int] = mapped_column(server_default=text("0"))
    running: Mapped[int] = mapped_column(server_default=text("0"))
    queued_since: Mapped[Decimal] = mapped_column(Numeric, server_default=text("0"))


# Result tables ------------------------------------------------------------------------------------
# The tables of what jobs tell, release and publish, as SQLAlchemy models.


class JobEvent(Base):
    """The events of a job's stream, in order."""

    __tablename__ = "job_events"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    event: Mapped[str]
    details: Mapped[dict[str, Any]]


class Release(Base):
    """What a job's mechanisms released, sealed: written before `finish` starts, and kept as long as
    the result."""

    __tablename__ = "releases"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    attempt: Mapped[int]
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes | None]
    terms: Mapped[bytes | None]
    digest: Mapped[bytes | None]
    sealed: Mapped[bytes]
    at: Mapped[datetime] = mapped_column(server_default=NOW)


class JobShare(Base):
    """A share of a running release that other workers may read, with what they found, sealed."""

    __tablename__ = "job_shares"
    __table_args__ = (
        CheckConstraint("number >= 0 AND number < shares", name="job_shares_number"),
        Index(
            "job_shares_open",
            "job_id",
            postgresql_where=text("taken_by IS NULL AND wrapped_key IS NOT NULL"),
        ),
    )
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    shares: Mapped[int]
    attempt: Mapped[int]
    content_key_id: Mapped[str]
    wrapped_key: Mapped[bytes | None]
    taken_by: Mapped[int | None] = mapped_column(BigInteger)
    sealed: Mapped[bytes | None]


class JobResult(Base):
    """A published result and its certificate, as JSON text; the result may go, the certificate
    stays."""

    __tablename__ = "job_results"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    result: Mapped[bytes | None]
    certificate: Mapped[dict[str, Any]]
    at: Mapped[datetime] = mapped_column(server_default=NOW)


class ResultTable(Base):
    """A large field of a result, as Parquet."""

    __tablename__ = "result_tables"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    name: Mapped[str] = mapped_column(primary_key=True)
    parquet: Mapped[bytes]


# Session tables -----------------------------------------------------------------------------------
# The tables of federated sessions, as SQLAlchemy models.


class FederatedSession(Base):
    """The session of a federated job."""

    __tablename__ = "sessions"
    __table_args__ = (Index("sessions_lease", "lease_until"),)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    id: Mapped[str] = mapped_column(unique=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    terms: Mapped[dict[str, Any]]
    budget: Mapped[dict[str, Any]]
    owner: Mapped[str | None]
    roster: Mapped[bytes | None]
    roster_signature: Mapped[bytes | None]
    owner_key: Mapped[bytes | None]
    approved_at: Mapped[datetime | None]
    holder: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    wanted: Mapped[str | None]
    round: Mapped[int] = mapped_column(BigInteger, server_default="0")
    content_key_id: Mapped[str | None]
    sealed: Mapped[bytes | None]
    transcript: Mapped[bytes | None]


class SessionToken(Base):
    """A one-time token for enrolment."""

    __tablename__ = "session_tokens"
    mac: Mapped[bytes] = mapped_column(primary_key=True)
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), index=True)
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    expires_at: Mapped[datetime]
    used_by: Mapped[str | None]
    used_at: Mapped[datetime | None]
    name: Mapped[str | None]


class SessionAgent(Base):
    """An agent in a session, by the fingerprint of its key."""

    __tablename__ = "session_agents"
    job_id: Mapped[str] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    unit: Mapped[str]
    announcement: Mapped[dict[str, Any]]
    enrolled_at: Mapped[datetime] = mapped_column(server_default=NOW)
    receipt: Mapped[dict[str, Any] | None]
    speaks: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    cause: Mapped[str | None]


class GroupMember(Base):
    """A member of a standing group of agents, which enrols in sessions without a token."""

    __tablename__ = "group_members"
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"), primary_key=True)
    group_name: Mapped[str] = mapped_column(primary_key=True)
    fingerprint: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    public_key: Mapped[bytes]
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"))
    unit: Mapped[str]
    announcement: Mapped[dict[str, Any]]
    speaks: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))


# Source tables ------------------------------------------------------------------------------------
# The tables of sources, whose blocks are datasets, as SQLAlchemy models.


class Source(Base):
    """A source of data that arrive in blocks. Of the row only the public part is ever corrected."""

    __tablename__ = "sources"
    __table_args__ = (
        UniqueConstraint("tenant_id", "name", name="sources_name"),
        CheckConstraint("mode IN ('private', 'simulation')", name="sources_mode"),
        CheckConstraint("block_by IN ('day', 'month', 'label')", name="sources_block_by"),
        CheckConstraint(
            "cap_of IN ('block', 'source') AND (cap_of = 'source') = (account_id IS NOT NULL)",
            name="sources_cap_of",
        ),
        Index("sources_page", "tenant_id", "created_at", "id"),
    )
    id: Mapped[str] = mapped_column(primary_key=True)
    tenant_id: Mapped[str] = mapped_column(ForeignKey("tenants.id"))
    name: Mapped[str]
    kind: Mapped[str]
    public: Mapped[dict[str, Any]]
    mode: Mapped[str]
    block_by: Mapped[str]
    cap_of: Mapped[str]
    cap: Mapped[dict[str, Any]]
    block_bytes: Mapped[int] = mapped_column(BigInteger)
    retention_days: Mapped[int | None]
    account_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id"))
    chain_id: Mapped[str | None] = mapped_column(ForeignKey("accounts.id"))
    created_by: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)
    revision: Mapped[int] = mapped_column(server_default="1")


class BlockCap(Base):
    """The cap of a block, of a source whose blocks share one chain of ledger entries."""

    __tablename__ = "block_caps"
    chain_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    account_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), unique=True)
    tenant_id: Mapped[str]
    cap: Mapped[dict[str, Any]]
    limits: Mapped[list[Decimal | None]] = mapped_column(ARRAY(Numeric))


class BlockPage(Base):
    """What was spent on 32 consecutive blocks of such a source."""

    __tablename__ = "block_pages"
    chain_id: Mapped[str] = mapped_column(ForeignKey("accounts.id"), primary_key=True)
    page: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    tenant_id: Mapped[str]
    many: Mapped[int]
    added: Mapped[str] = mapped_column(Text)
    """A value of the SQL type `block_amounts`, which only the view reads."""
    limits: Mapped[list[Decimal | None] | None] = mapped_column(ARRAY(Numeric))
    delta: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    delta_z: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    epsilon: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    rho: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    reserved_delta: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    reserved_delta_z: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    reserved_epsilon: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))
    reserved_rho: Mapped[list[Decimal]] = mapped_column(ARRAY(Numeric))


_AMOUNTS = ("delta", "delta_z", "epsilon", "rho")
_BLOCK_SUMS = table(
    "block_sums",
    column("chain_id", Text),
    column("number", Integer),
    column("account_id", Text),
    column("cap", JSONB),
    *(column(f"{part}{name}", Numeric) for part in ("", "reserved_") for name in _AMOUNTS),
)


class BlockSums:
    """The view that joins both tables, with one row for each block."""

    view = _BLOCK_SUMS
    chain_id = _BLOCK_SUMS.c.chain_id
    number = _BLOCK_SUMS.c.number
    account_id = _BLOCK_SUMS.c.account_id
    cap = _BLOCK_SUMS.c.cap

    @classmethod
    def totals(cls) -> Case[Any]:
        """Prices that were reserved so far and not released, as in an account's last entry."""
        return cls._amounts("")

    @classmethod
    def reserved(cls) -> Case[Any]:
        """The part of the totals that is reserved and not yet committed."""
        return cls._amounts("reserved_")

    @classmethod
    def _amounts(cls, part: str) -> Case[Any]:
        columns = (_BLOCK_SUMS.c[f"{part}{name}"] for name in _AMOUNTS)
        amounts = func.ledger_amounts(*columns, type_=JSONB)
        return case((cls.account_id.is_not(None), amounts))
