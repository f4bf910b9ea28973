"""Backups of your own PostgreSQL server in an object storage; PostgreSQL itself calls two of the
commands."""

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
    help="Back up your own PostgreSQL server to an object storage, and restore it "
    "as of any moment.",
)


@app.command("wal")
def archive_wal(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="The file, which PostgreSQL passes as %p"),
    ],
    as_json: JsonFlag = False,
) -> None:
    """Archive a file of the write-ahead log: PostgreSQL's archive_command."""
    from discreet.installation import archived_log  # noqa: PLC0415

    new = archived_log.put_wal(settings_of(None), file)
    tell({"name": file.name, "new": new}, as_json, lambda: None)


@app.command("fetch")
def fetch_wal(
    name: Annotated[str, typer.Argument(help="The file's name, which PostgreSQL passes as %f")],
    target: Annotated[
        Path, typer.Argument(dir_okay=False, help="Where to put it, which PostgreSQL passes as %p")
    ],
    server: Annotated[
        int | None,
        typer.Option(help="System identifier of the server that must have written the log"),
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Restore an archived file of the log: PostgreSQL's restore_command."""
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
    """Copy the whole server into the archive while it runs; with the log written from then on, any
    later moment can be restored."""
    from discreet.installation import archive  # noqa: PLC0415

    settings = settings_of(None)
    made = archive.copy_base(settings)
    noted = settings.database_url is not None and asyncio.run(
        _note(settings, datetime.fromisoformat(made["began"]))
    )
    if not noted:
        print(
            "the database could not record it: tell it with `discreet note-backup`", file=sys.stderr
        )
    told = (
        f"copied as of {made['began']}, {made['bytes']:,} bytes; contents are sealed in it, the "
        "keys are not there"
    )
    tell({**made, "noted": noted}, as_json, lambda: print(told))


@app.command("list")
def list_bases(as_json: JsonFlag = False) -> None:
    """List the copies of the server in the archive: any moment after the end of one can be
    restored."""
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
        typer.Argument(
            help="The PostgreSQL data folder to create; run this as the user that will "
            "run PostgreSQL"
        ),
    ],
    at: Annotated[
        str | None,
        typer.Option(help="The moment to restore (RFC 3339); by default the end of the archive"),
    ] = None,
    command: Annotated[
        str, typer.Option(help="The command by which PostgreSQL calls this program")
    ] = "discreet",
    as_json: JsonFlag = False,
) -> None:
    """Create a data folder with which PostgreSQL, once started on it, replays the archive up to a
    moment. Run `discreet adopt` afterwards."""
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
