"""What every use case needs: settings, secrets and the database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from discreet.settings import Settings
from discreet.storage import secrets
from discreet.storage.database import Database
from discreet.storage.secrets import Secrets


@dataclass(frozen=True)
class Services:
    """The parts that use cases work with."""

    settings: Settings
    secrets: Secrets
    database: Database


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Services for the lifetime of a process or a command."""
    services = Services(settings, secrets.load(settings.secrets_path), Database(settings))
    try:
        yield services
    finally:
        await services.database.close()
