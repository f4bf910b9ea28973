"""The tables of the transparency log, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Integer, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


class LogPending(Base):
    """A ledger entry that the log does not contain yet."""

    __tablename__ = "log_pending"
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    tenant_id: Mapped[str]
    account_id: Mapped[str]
    seq: Mapped[int] = mapped_column(BigInteger)


class LogLeaf(Base):
    """A leaf of the tree, and the ledger entry that it commits to."""

    __tablename__ = "log_leaves"
    __table_args__ = (UniqueConstraint("account_id", "seq", name="log_leaves_entry"),)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    tenant_id: Mapped[str]
    account_id: Mapped[str]
    seq: Mapped[int] = mapped_column(BigInteger)
    salt: Mapped[bytes]
    commitment: Mapped[bytes]


class LogNode(Base):
    """The root of a complete subtree with 256 to the power of `level` leaves."""

    __tablename__ = "log_nodes"
    level: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    hash: Mapped[bytes]


class LogCheckpoint(Base):
    """A signed checkpoint."""

    __tablename__ = "log_checkpoints"
    size: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    root: Mapped[bytes]
    note: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class LogCosignature(Base):
    """A witness's signature of a checkpoint."""

    __tablename__ = "log_cosignatures"
    size: Mapped[int] = mapped_column(
        ForeignKey("log_checkpoints.size"), primary_key=True, autoincrement=False
    )
    witness: Mapped[str] = mapped_column(primary_key=True)
    line: Mapped[str]
    created_at: Mapped[datetime] = mapped_column(server_default=NOW)


class LogOrigin(Base):
    """The name of the log, its origin line."""

    __tablename__ = "log_origin"
    origin: Mapped[str] = mapped_column(primary_key=True)
