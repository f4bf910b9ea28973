"""Finding a server, and its key."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from discreet.errors import NotFound

if TYPE_CHECKING:
    from discreet.settings import Settings
    from discreet_client.client import Client


def settings_of(state: Path | None) -> Settings:
    from discreet.settings import Settings  # noqa: PLC0415 - half of the time that `discreet --help` would take

    return Settings() if state is None else Settings(state=state)


def running_server(settings: Settings) -> str | None:
    """The address of the `discreet up` that holds this state folder, if one runs."""
    try:
        ready = json.loads((settings.state / "ready.json").read_text())
        os.kill(ready["pid"], 0)
    except (OSError, ValueError, KeyError):
        return None
    return str(ready["api"])


def kept_key(settings: Settings, role: str = "owner") -> str:
    path = settings.state / f"{role}.key"
    try:
        return path.read_text().strip()
    except OSError as error:
        raise NotFound(f"no key: set DISCREET_KEY, or let {path} be readable") from error


def client_of(state: Path | None, server: str | None, key: str | None, role: str = "owner") -> Client:
    """The server of `--server`/DISCREET_URL with DISCREET_KEY, else that of the state folder with its own key."""
    from discreet_client.client import Client  # noqa: PLC0415 - with all models of the API; the service needs none

    settings = settings_of(state)
    address = server or running_server(settings)
    if address is None:
        raise NotFound(
            f"no server: set DISCREET_URL, or run `discreet up` on {settings.state} and wait until it is ready"
        )
    return Client(address, key or kept_key(settings, role))
