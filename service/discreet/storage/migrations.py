"""Bring a database to this version's schema, and give the application role what it needs and no more."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.pool import NullPool

from discreet.settings import Settings
from discreet.storage.database import engine_url

# One migration at a time on one database, whoever starts it.
_MIGRATION_LOCK = 7_365_208_514


def scripts() -> Path:
    """The folder of the migrations: inside the wheel, or at the top of a source tree."""
    shipped = Path(str(resources.files("discreet"))) / "_migrations"
    return shipped if shipped.is_dir() else Path(__file__).parents[3] / "migrations"


def migrate(settings: Settings, revision: str = "head") -> None:
    """Apply the migrations up to `revision` with the owner role, then the grants of the application role."""
    owner = settings.migration_database_url or settings.database_url
    if owner is None or settings.database_url is None:
        raise ValueError("a database URL is needed")
    application_role = make_url(settings.database_url).username
    engine = create_engine(engine_url(owner), poolclass=NullPool)
    config = Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    try:
        with engine.connect() as connection:
            connection.execute(text("SELECT pg_advisory_lock(:key)"), {"key": _MIGRATION_LOCK})
            connection.commit()
            config.attributes["connection"] = connection
            current = connection.execute(text("SELECT current_user")).scalar_one()
            config.attributes["application_role"] = None if application_role == current else application_role
            command.upgrade(config, revision)
            connection.commit()
    finally:
        engine.dispose()
