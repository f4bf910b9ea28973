"""Keys of the installation, and their rotation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from discreet.cli.options import JsonFlag, StateOption
from discreet.cli.servers import settings_of
from discreet.cli.showing import tell
from discreet.errors import StateHeld

if TYPE_CHECKING:
    from discreet.settings import Settings
    from discreet.storage.keys.opening import Keys

KindArgument = Annotated[
    Literal["content", "jobs", "pepper", "signing"], typer.Argument(help="Which keys")
]
ForceFlag = Annotated[
    bool, typer.Option("--force", help="Go on although something still depends on the old key")
]

app = typer.Typer(no_args_is_help=True, help="Keys of the installation, and their rotation.")


@app.command("show")
def show_secrets(state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Show ids and states of the keys that can be rotated, never a key itself."""
    from discreet.storage import secrets  # noqa: PLC0415

    settings = settings_of(state)
    rows = secrets.overview(settings.secrets_path, _keys(settings))
    tell(
        {"keys": rows},
        as_json,
        lambda: [
            print(f"{row['kind']:8} {row['state']:7} {row['place']:7} {row['id']}") for row in rows
        ],
    )


@app.command("rotate")
def rotate_secrets(
    kind: KindArgument,
    stage: Annotated[
        bool, typer.Option("--stage", help="Only announce the next key, to be used later")
    ] = False,
    force: ForceFlag = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Use a new key from now on. `content` rewraps every data key and touches no content."""
    from discreet.storage import secrets  # noqa: PLC0415
    from discreet.usecases import rotation  # noqa: PLC0415

    settings = settings_of(state)
    if stage:
        key_id = secrets.stage(settings.secrets_path, kind, _keys(settings))
        tell(
            {"kind": kind, "staged": key_id},
            as_json,
            lambda: print(f"{kind} key {key_id} is known, and not used yet"),
        )
        return
    done = _with_services(
        settings,
        lambda services: rotation.rotate(services, settings.secrets_path, kind, force=force),
    )
    tell(
        done,
        as_json,
        lambda: print(f"{kind} key {done['used']} is used now; {done['moved']} rows moved to it"),
    )


@app.command("rewrap")
def rewrap_secrets(state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Rewrap what an old content key still protects with the one in use; this continues an
    interrupted rotation."""
    from discreet.usecases import rotation  # noqa: PLC0415

    moved = _with_services(settings_of(state), rotation.rewrap)
    tell({"moved": moved}, as_json, lambda: print(f"{moved} rows moved"))


@app.command("retire")
def retire_secret(
    kind: KindArgument,
    key_id: Annotated[
        str, typer.Argument(help="The key's id, as `discreet secrets show` prints it")
    ],
    force: ForceFlag = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Forget an old key that nothing needs any more."""
    from discreet.usecases import rotation  # noqa: PLC0415

    settings = settings_of(state)
    path = settings.secrets_path
    done = _with_services(
        settings, lambda services: rotation.retire(services, path, kind, key_id, force=force)
    )
    tell(done, as_json, lambda: print(f"{kind} key {key_id} is forgotten"))


@app.command("trust")
def trust_signing_key(
    public_key: Annotated[
        str, typer.Argument(help="Public key (base64), as certificates carry it")
    ],
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Accept a retired signing key again: results that it certified are served again. No secret is
    needed."""
    from discreet.storage import secrets  # noqa: PLC0415

    settings = settings_of(state)
    secrets.trust(settings.secrets_path, public_key, _keys(settings))
    tell({"trusted": public_key}, as_json, lambda: print(f"what {public_key} signed counts"))


@app.command("wrap")
def wrap_secrets(state: StateOption = None, as_json: JsonFlag = False) -> None:
    """Move the keys from the secrets file into the first place named in DISCREET_KEYS,
    unchanged."""
    from discreet.storage import secrets  # noqa: PLC0415

    settings = settings_of(state)
    keys = _keys(settings)
    moved = secrets.wrap(settings.secrets_path, keys)
    place = keys.maker.name
    tell(
        {"moved": moved, "place": place},
        as_json,
        lambda: print(f"{len(moved)} keys moved to {place}"),
    )


def _keys(settings: Settings) -> Keys:
    from discreet.storage.keys.opening import Keys  # noqa: PLC0415

    return Keys.of(settings)


def _with_services(settings: Settings, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
    """What `work` gives on the database: the one that is set, that of a running `discreet up`, or
    the embedded one."""
    from discreet.installation.database_roles import APP  # noqa: PLC0415
    from discreet.installation.postgres import running_url  # noqa: PLC0415
    from discreet.installation.prepared import embedded  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    async def run_on(ready: Settings) -> Any:
        async with open_services(ready) as services:
            return await work(services)

    if settings.database_url is not None:
        return asyncio.run(run_on(settings))
    try:
        with embedded(settings) as ready:
            return asyncio.run(run_on(ready))
    except StateHeld:
        url = running_url(settings.state, APP)
    return asyncio.run(run_on(settings.model_copy(update={"database_url": url})))
