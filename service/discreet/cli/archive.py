"""Backups of a PostgreSQL of one's own in an object storage; two commands are for PostgreSQL itself
to call."""

from __future__ import annotations

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from discreet.cli.options import JsonFlag
from discreet.cli.servers import settings_of
from discreet.cli.showing import tell
from discreet.errors import DiscreetError, InvalidInput

if TYPE_CHECKING:
    from discreet.settings import Settings

GIVE_UP = 130
"""PostgreSQL takes a status above 125 for a failure, and any other for a file that is not in the
archive: it would end its recovery before the moment that was asked for."""

app = typer.Typer(
    no_args_is_help=True,
    help="Backups of a PostgreSQL of your own in an object storage, to restore any moment of it.",
)


@app.command("wal")
def archive_wal(
    file: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="As PostgreSQL names it: %p")
    ],
    as_json: JsonFlag = False,
) -> None:
    """Archive a file of the write-ahead log: PostgreSQL's archive_command."""
    from discreet.installation import archived_log  # noqa: PLC0415

    new = archived_log.put_wal(settings_of(None), file)
    tell({"name": file.name, "new": new}, as_json, lambda: None)


@app.command("fetch")
def fetch_wal(
    name: Annotated[str, typer.Argument(help="As PostgreSQL names it: %f")],
    target: Annotated[Path, typer.Argument(dir_okay=False, help="Where it wants it: %p")],
    server: Annotated[
        int | None, typer.Option(help="System identifier of the server whose log it must be")
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Give an archived file of the log back: PostgreSQL's restore_command."""
    from discreet.installation import archived_log  # noqa: PLC0415

    try:
        archived_log.fetch_wal(settings_of(None), name, target, server)
    except archived_log.NotArchived:
        raise
    except DiscreetError as error:
        print(f"discreet: {error}", file=sys.stderr)
        raise typer.Exit(GIVE_UP) from None
    tell({"name": name}, as_json, lambda: None)


@app.command("base")
def copy_base(as_json: JsonFlag = False) -> None:
    """Copy the whole server into the archive while it runs; the log from then on leads to any later
    moment."""
    from discreet.installation import archive  # noqa: PLC0415

    settings = settings_of(None)
    made = archive.copy_base(settings)
    noted = settings.database_url is not None and asyncio.run(
        _note(settings, datetime.fromisoformat(made["began"]))
    )
    if not noted:
        print(
            "the database took no note of it: tell it with `discreet note-backup`", file=sys.stderr
        )
    told = (
        f"copied as of {made['began']}, {made['bytes']:,} bytes; contents are sealed in it, the "
        "keys are not there"
    )
    tell({**made, "noted": noted}, as_json, lambda: print(told))


@app.command("list")
def list_bases(as_json: JsonFlag = False) -> None:
    """The copies of the server in the archive: any moment after the end of one can be restored."""
    from discreet.installation import archive  # noqa: PLC0415

    found = archive.bases(settings_of(None))
    tell(
        {"bases": found},
        as_json,
        lambda: [print(f"{one['ended']}  {one['bytes']:>16,} bytes") for one in found],
    )


@app.command("restore")
def restore_base(
    folder: Annotated[
        Path,
        typer.Argument(help="A data folder of PostgreSQL to make, as the user that will run it"),
    ],
    at: Annotated[
        str | None,
        typer.Option(help="The moment (RFC 3339); the end of the archive when not given"),
    ] = None,
    command: Annotated[
        str, typer.Option(help="How that user's PostgreSQL calls this program")
    ] = "discreet",
    as_json: JsonFlag = False,
) -> None:
    """Make a data folder that replays the archive up to a moment when PostgreSQL is started on it.
    Then: adopt."""
    from discreet.installation import archive  # noqa: PLC0415

    try:
        moment = None if at is None else datetime.fromisoformat(at)
    except ValueError:
        raise InvalidInput(
            f"--at: {at} is no time in RFC 3339, such as 2026-11-24T03:00:00Z"
        ) from None
    if moment is not None and moment.tzinfo is None:
        raise InvalidInput(f"--at: {at} has no offset from UTC")
    taken = archive.restore_base(settings_of(None), folder.absolute(), moment, command)
    told = (
        f"{folder}: the copy of {taken['began']}. Start PostgreSQL on it, and before any process "
        "of discreet run `discreet adopt`"
    )
    tell({**taken, "folder": str(folder)}, as_json, lambda: print(told))


async def _note(settings: Settings, made_at: datetime) -> bool:
    from discreet.usecases import operations  # noqa: PLC0415
    from discreet.usecases.services import open_services  # noqa: PLC0415

    try:
        async with open_services(settings) as services:
            await operations.note_backup(services, made_at, "other")
    except Exception:  # no database from here, no secrets: the copy is none the worse
        return False
    return True
