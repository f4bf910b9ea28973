"""What every use case needs: settings, secrets, the database, object storage, the reader of uploads
and the plans that were made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from discreet.isolation.children import Zygote
from discreet.isolation.tasks import READING
from discreet.settings import Settings
from discreet.storage.database import Database
from discreet.storage.keys.opening import Keys
from discreet.storage.keys.provider import KeysUnavailable
from discreet.storage.objects import Objects
from discreet.storage.secrets import Secrets, SecretsFile
from discreet.usecases.content_sizes import ContentSizes
from discreet.usecases.planning import Planner
from discreet.usecases.uploads import Reader, Turns

KEYS_SECONDS = 0.5
"""How often a process that waits for its keys looks whether they are there."""


@dataclass(frozen=True)
class Services:
    """The parts that use cases work with."""

    settings: Settings
    secrets_file: SecretsFile
    database: Database
    objects: Objects | None
    children: Zygote
    """Sandboxed children of this process that read and check what comes from outside."""
    reader: Reader
    turns: Turns
    """Uploads of each tenant."""
    planner: Planner = field(default_factory=Planner)

    @property
    def secrets(self) -> Secrets:
        """The secrets as they are now. Code that needs a key and its id reads this once, since a
        rotation may come between two reads."""
        return self.secrets_file.current


async def keys_open(services: Services) -> None:
    """Wait until the keys of the secrets file could be opened; at once where they lie in it."""
    while True:
        try:
            _ = services.secrets
        except KeysUnavailable:
            await asyncio.sleep(KEYS_SECONDS)
        else:
            return


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncIterator[Services]:
    """Services for the lifetime of a process or a command."""
    children = Zygote(settings.least_isolation, (READING,))
    secrets_file = SecretsFile(settings.secrets_path, Keys.of(settings))
    services = Services(
        settings=settings,
        secrets_file=secrets_file,
        database=Database(settings),
        objects=None if settings.object_url is None else Objects(settings.object_url),
        children=children,
        reader=Reader(children, settings.uploads_at_once),
        turns=Turns(settings.tenant_uploads),
        planner=Planner(ContentSizes.of(settings), lambda: secrets_file.current.digest_key),
    )
    try:
        yield services
    finally:
        await services.children.stop()
        await services.database.close()
