"""The tables of public objects, as SQLAlchemy models."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, ForeignKeyConstraint, Index
from sqlalchemy.orm import Mapped, mapped_column

from discreet.storage.tables import NOW, Base


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
