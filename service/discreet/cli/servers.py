"""The server that a command is for."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discreet.cli.texts import printable
from discreet.errors import InvalidInput
from discreet_client.servers import await_ready, found

if TYPE_CHECKING:
    from discreet.settings import Settings
    from discreet_client.client import Client

DATASET_ID = "dst_"
NETWORK_ID = "net_"
SOURCE_ID = "src_"
JOB_ID = "job_"
MOST_NAMES = 20
MOST_WAIT_SECONDS = 300.0
"""Seconds to wait for a `discreet up` that is starting."""


def settings_of(state: Path | None) -> Settings:
    """The settings of this process. InvalidInput names each that is not valid and says what it
    must be, without its value, which may hold a password."""
    from pydantic import ValidationError  # noqa: PLC0415 - half of the time that `discreet --help` would take

    from discreet.settings import Settings  # noqa: PLC0415

    try:
        return Settings() if state is None else Settings(state=state)
    except ValidationError as error:
        wrong = "; ".join(map(_wrong_setting, error.errors(include_url=False)))
        raise InvalidInput(f"settings that are not valid: {wrong}") from None


def _wrong_setting(error: Mapping[str, Any]) -> str:
    from discreet.intake.field_issues import sentence  # noqa: PLC0415
    from discreet.settings import Settings  # noqa: PLC0415

    name = str(error["loc"][0])
    if error["type"] == "string_pattern_mismatch":
        says = f"is not of the form that is needed ({Settings.model_fields[name].description})"
    else:
        says = sentence({**error, "input": ...})
    return f"DISCREET_{name.upper()}: {says}"


def client_of(
    state: Path | None, server: str | None, key: str | None, role: str = "owner"
) -> Client:
    """The server of `--server`/DISCREET_URL with DISCREET_KEY, else that of the state folder with
    its own key."""
    from discreet_client.client import Client  # noqa: PLC0415 - with all models of the API; the service needs none

    return Client(*address_and_key(state, server, key, role))


def address_and_key(
    state: Path | None, server: str | None, key: str | None, role: str = "owner"
) -> tuple[str, str]:
    """The server's address and the key to use. Waits for a `discreet up` that is still starting,
    and says so on stderr."""
    folder = settings_of(state).state
    if not server and not os.environ.get("DISCREET_URL"):
        told = (
            f"`discreet up` on {folder} is still starting, which takes a minute the first time: "
            "waiting for it"
        )
        await_ready(
            folder,
            MOST_WAIT_SECONDS,
            lambda: print(f"discreet: {told}", file=sys.stderr, flush=True),
        )
    return found(server or None, key or None, folder, role)


def dataset_id(client: Client, given: str) -> str:
    """The id of a dataset that is given by id or by name. InvalidInput if none has the name, or
    several have it."""
    if given.startswith(DATASET_ID):
        return given
    return _id_of(given, "dataset", client.datasets())


def network_id(client: Client, given: str) -> str:
    """The id of a stored network, given and refused like a dataset."""
    return (
        given if given.startswith(NETWORK_ID) else _id_of(given, "network", client.networks.list())
    )


def job_id(client: Client, given: str) -> str:
    """The id of a job; names are looked up among the newest jobs."""
    if given.startswith(JOB_ID):
        return given
    return _id_of(given, "recent job", client.jobs()["jobs"])


def source_id(client: Client, given: str) -> str:
    """The id of a source, given and refused like a dataset."""
    return given if given.startswith(SOURCE_ID) else _id_of(given, "source", client.sources.list())


def _id_of(given: str, what: str, stored: Iterable[Mapping[str, Any]]) -> str:
    everything = list(stored)
    ids = [one["id"] for one in everything if one.get("name") == given]
    if len(ids) == 1:
        return str(ids[0])
    if ids:
        raise InvalidInput(
            f"{len(ids)} {what}s are called {given}: {', '.join(ids)}. Choose one by its id"
        )
    named = [f"{one['name']} ({one['id']})" for one in everything if one.get("name")][:MOST_NAMES]
    if not named:
        why = "none has a name" if everything else f"there is no {what} yet"
        raise InvalidInput(f"no {what} is called {given}: {why}")
    raise InvalidInput(f"no {what} is called {given}. The names are: {printable(', '.join(named))}")


def with_id(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    """A job's body with ids in the place of the names of its dataset, source and stored network."""
    problem = body.get("problem")
    if not isinstance(problem, dict):
        return body
    ids: dict[str, Any] = {
        field: find(client, problem[field])
        for field, find in (("dataset", dataset_id), ("network", network_id))
        if isinstance(problem.get(field), str)
    }
    source = problem.get("source")
    if isinstance(source, dict) and isinstance(source.get("id"), str):
        ids["source"] = {**source, "id": source_id(client, source["id"])}
    return {**body, "problem": {**problem, **ids}} if ids else body


def with_network(client: Client, problem: Mapping[str, Any]) -> dict[str, Any]:
    """A problem with the network itself instead of the id or name of a stored one."""
    named = problem.get("network")
    if not isinstance(named, str):
        return dict(problem)
    return {**problem, "network": client.networks.get(network_id(client, named))["network"]}


def without_a_server(settings: Settings) -> Any:
    """The module that runs jobs in this process."""
    from discreet.observability.telemetry import configure  # noqa: PLC0415
    from discreet.private_files import kernel_cache  # noqa: PLC0415

    os.environ.update(kernel_cache(settings.state) | dict(os.environ))
    configure(level=logging.WARNING)
    from discreet.installation import local  # noqa: PLC0415 - loads numba

    return local
