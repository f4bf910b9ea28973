"""The command line. Every command takes `--json`; it exits with 0 when done, 1 when refused or
failed, with the reason in one line, and 2 for bad usage.

There is one module per subject. The parts of the service start through it as well, so no module
imports at its top what a part does not need, above all the client of the HTTP API, which
`servers.client_of` loads when a command asks a server.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Annotated, Any

import typer

from discreet.cli import (
    access,
    beginning,
    datasets,
    installation,
    jobs,
    ledger,
    log,
    networks,
    secrets,
    sessions,
    sources,
    studies,
)
from discreet.errors import DiscreetError
from discreet_client.errors import ApiError, Unreachable

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version  # noqa: PLC0415

        print(f"discreet {version('discreet')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Private optimization as a service. `discreet up` starts everything; `discreet solve FILE`
    runs one job."""


# In the order of `discreet --help`.
for commands in (
    installation.app,
    installation.app,
    beginning.app,
    jobs.app,
    jobs.app,
    studies.app,
    access.app,
):
    app.add_typer(commands)
app.add_typer(datasets.app, name="dataset")
app.add_typer(sources.app, name="source")
app.add_typer(networks.app, name="network")
app.add_typer(access.tenants, name="tenant")
app.add_typer(access.keys, name="key")
app.add_typer(access.people, name="people")
app.add_typer(ledger.app, name="ledger")
app.add_typer(ledger.certificates, name="certificate")
app.add_typer(log.app, name="log")
app.add_typer(log.witnesses)
app.add_typer(access.caps, name="cap")
app.add_typer(sessions.app, name="session")
app.add_typer(studies.converters, name="convert")
app.add_typer(secrets.app, name="secrets")


@cache
def program() -> Any:
    """All commands, built once: a process may fork after it."""
    return typer.main.get_command(app)


def run(arguments: list[str] | None = None) -> int:
    """The exit code of one command line."""
    try:
        program()(args=arguments, prog_name="discreet")  # ends in SystemExit, with 2 for bad usage
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except (DiscreetError, ApiError, Unreachable) as error:
        issues = getattr(error, "errors", ())
        lines = [f"{one.pointer or '/'}: {one.detail}" for one in issues] or [str(error)]
        print("\n".join(f"discreet: {line}" for line in lines), file=sys.stderr)
        return 1
    except Exception as error:
        found = _table_trouble(error) or _database_trouble(error)
        if found is None:
            raise
        print(f"discreet: {found}", file=sys.stderr)
        return 1
    return 0


def _table_trouble(error: Exception) -> str | None:
    """What is wrong with somebody's table or its description, a mistake a line."""
    tables = sys.modules.get("discreet_client.tables")  # loads NumPy, where a command reads one
    return None if tables is None or not isinstance(error, tables.TableError) else str(error)


def _database_trouble(error: Exception) -> DiscreetError | None:
    """What an error says about the database that a command uses directly, without a server."""
    import asyncio  # noqa: PLC0415

    from discreet.cli.servers import settings_of  # noqa: PLC0415
    from discreet.storage.database import Database, trouble  # noqa: PLC0415
    from discreet.storage.schema import schema_trouble  # noqa: PLC0415

    async def schema() -> DiscreetError | None:
        settings = settings_of(None)
        if settings.database_url is None:  # the embedded one has gone with the command
            return None
        database = Database(settings)
        try:
            return await schema_trouble(database, error)
        finally:
            await database.close()

    return trouble(error) or asyncio.run(schema())
