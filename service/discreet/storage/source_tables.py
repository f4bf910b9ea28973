"""The tables of sources, whose blocks are datasets, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    BigInteger,
    Case,
    CheckConstraint,
    ForeignKey,
    Index,
    Integer,
    Numeric,
    Text,
    UniqueConstraint,
    case,
    column,
    func,
    table,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


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
