"""The server that a command is for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from discreet_client.servers import found

if TYPE_CHECKING:
    from discreet.settings import Settings
    from discreet_client.client import Client


def settings_of(state: Path | None) -> Settings:
    from discreet.settings import Settings  # noqa: PLC0415 - half of the time that `discreet --help` would take

    return Settings() if state is None else Settings(state=state)


def client_of(state: Path | None, server: str | None, key: str | None, role: str = "owner") -> Client:
    """The server of `--server`/DISCREET_URL with DISCREET_KEY, else that of the state folder with its own key."""
    from discreet_client.client import Client  # noqa: PLC0415 - with all models of the API; the service needs none

    return Client(*found(server or None, key or None, settings_of(state).state, role))
