"""Sources on a server: data that keep coming, in blocks."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.dataset_files import check_ending, described, pairs_of, public_part
from discreet.cli.jobs import changed, field_of
from discreet.cli.options import (
    AcceptDoubtsFlag,
    JsonFlag,
    KeyOption,
    LocalFlag,
    QueryOption,
    ServerOption,
    StateOption,
    StaysFlag,
    asked_of,
    number,
    require_address,
)
from discreet.cli.servers import client_of, source_id
from discreet.cli.showing import show_block, show_source, show_sources, tell
from discreet_client.errors import ClientError

app = typer.Typer(
    no_args_is_help=True, help="Sources: data that keep arriving, in blocks with a budget each."
)

NAMED = {"day": re.compile(r"\d{4}-\d{2}-\d{2}"), "month": re.compile(r"\d{4}-\d{2}")}
SharesOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME=SHARE,…",
        help="Who may spend which share of each block: ada=0.5,bo=0.3. The rest is open to "
        "everybody at once; without this option all of it is",
    ),
]
LentOption = Annotated[
    int, typer.Option(help="Lend the unused part of each share to everybody over this many days")
]
SourceArgument = Annotated[str, typer.Argument(metavar="SOURCE", help="Id or name of a source")]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Its name, which no other source may have")],
    kind: Annotated[
        str, typer.Option(help="The kind of problem that the data are for, such as routing")
    ],
    by: Annotated[
        str,
        typer.Option(
            help="What a block is: the records of a day or month, by their date, or a label"
        ),
    ],
    epsilon: Annotated[
        str, typer.Option(help="Cap of each block: epsilon that may be spent on it in all")
    ],
    public: Annotated[
        str,
        typer.Option(
            help="The public part of each block: JSON text, or a file that holds it "
            "(docs/problems); or its fields, each by --set"
        ),
    ] = "{}",
    delta: Annotated[
        str, typer.Option(help="Cap of each block: delta that may be spent on it in all")
    ] = "0",
    cap_of: Annotated[
        str,
        typer.Option(
            help="block: an account for each block. source: one account for all blocks, "
            "charged once by each job"
        ),
    ] = "block",
    block_bytes: Annotated[
        int | None,
        typer.Option(
            help="The most memory that the content of a block may take; a job reads as "
            "many blocks as fit"
        ),
    ] = None,
    retention_days: Annotated[
        int | None, typer.Option(help="Erase the content of a block after this many days")
    ] = None,
    mode: Annotated[
        str, typer.Option(help="private, or simulation for data that are public")
    ] = "private",
    columns: Annotated[
        str | None,
        typer.Option(
            help="What the columns of its files are called: origin=from_zone,date=day,…; with "
            "these, or with rules in reader, all of its blocks are read"
        ),
    ] = None,
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of the public part, such as reader.time_zone=Europe/Berlin; may be "
            "repeated",
        ),
    ] = None,
    shares: SharesOption = None,
    lent_days: LentOption = 28,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Create a source. Creating the same source again returns it."""
    said = changed(public_part(public), map(field_of, fields or ()))
    body: dict[str, Any] = {
        "name": name,
        "kind": kind,
        "public": described({"public": said}, pairs_of(columns), {})["public"],
        "by": by,
        "cap": {"epsilon": number(epsilon, "--epsilon"), "delta": number(delta, "--delta")},
        "cap_of": cap_of,
        "block_bytes": block_bytes,
        "retention_days": retention_days,
        "mode": mode,
        "rule": None if shares is None else _rule(shares, lent_days),
    }
    with client_of(state, server, key) as client:
        made = client.sources.create(
            {name: value for name, value in body.items() if value is not None}
        )
    tell(made, as_json, lambda: show_source(made))


@app.command("add")
def add(
    given: SourceArgument,
    contents: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE…|URL]",
            help="All records of the block: .csv, .parquet or .json (of a source with a reader "
            "also .xlsx and .omx), or the address of one that the service reads (file:///…, "
            "https://…, s3://…, of Parquet also with *; postgresql://host/database with --query); "
            "several files are a block each, by the days or months in their names; none with "
            "--empty",
        ),
    ] = None,
    block: Annotated[
        str | None,
        typer.Option(
            help="Its day, month or label; by default the day or month in the file's name"
        ),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(
            help="Trips of a source with a reader: the names of your zones, as a CSV file "
            "id,number; the source does not store them"
        ),
    ] = None,
    empty: Annotated[
        bool,
        typer.Option("--empty", help="Register the block although it has no records"),
    ] = False,
    accept_doubts: AcceptDoubtsFlag = False,
    local: LocalFlag = False,
    stays: StaysFlag = False,
    query: QueryOption = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Register a block, or several. If a block exists, this is a later version that includes late
    records, on the same account."""
    files = contents or []
    if empty == bool(files):
        raise typer.BadParameter("a file with the block's records, or --empty", param_hint="FILE")
    if len(files) > 1 and (block is not None or any("://" in one for one in files)):
        says = "several files are told by the days or months in their names"
        raise typer.BadParameter(says, param_hint="--block")
    first = files[0] if files else None
    where = asked_of(first if first is not None and "://" in first else None, query)
    require_address(where, stays)
    if where is not None and local:
        raise typer.BadParameter("goes with files on this machine", param_hint="--local")
    for file in [] if where is not None else map(Path, files):
        if not file.is_file():
            raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
        check_ending(file)
    with client_of(state, server, key) as client:
        source = client.sources.get(source_id(client, given))
        each: list[str | None] = [*files] or [None]
        blocks = [block or _named(source["by"], one) for one in each]
        if len(set(blocks)) < len(blocks):
            raise typer.BadParameter("two files are of one block", param_hint="FILE")
        reader = None if zones is None else _names_in(zones, source)
        made = list[Any]()
        for name, one in zip(blocks, each, strict=True):
            try:
                with warnings.catch_warnings(record=True) as warned:
                    added = client.sources.add(
                        source["id"],
                        name,
                        where or (None if one is None else Path(one)),
                        stays=stays,
                        accept_doubts=accept_doubts,
                        local=local,
                        reader=reader,
                    )
            except (ClientError, ValueError):
                if len(each) > 1:  # what stands and what does not
                    before = ", ".join(blocks[: len(made)]) or "none"
                    says = f"{one} is refused; registered before it: {before}; those behind it wait"
                    typer.echo(says, err=True)
                raise
            notes = [*added.get("notes", ())]
            warned_of = [str(one.message) for one in warned]
            for note in [*notes, *(one for one in warned_of if one != "; ".join(notes))]:
                typer.echo(f"{name}: {note}", err=True)
            made.append(added)
    said: Any = made[0] if len(made) == 1 else {"blocks": made}

    def show() -> None:
        for one in made:
            show_block(one)

    tell(said, as_json, show)


def _names_in(zones: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """The zones that a file names, for the reader."""
    from discreet_client import readers  # noqa: PLC0415 - loads NumPy

    rules = {**(source["public"].get("reader") or {}), "zones": zones}
    try:
        found, notes = readers.sendable({"reader": rules})
    except (OSError, ValueError) as error:
        raise typer.BadParameter(str(error), param_hint="--zones") from None
    for note in notes:
        typer.echo(note, err=True)
    return {"zones": found["reader"]["zones"]}


def _named(by: str, content: str | None) -> str:
    """The one day or month that the name of a file, or the last part of an address, has."""
    named = "" if content is None else content.partition("?")[0].rpartition("/")[2]
    found = NAMED[by].findall(named) if by in NAMED else []
    if len(set(found)) != 1:
        says = "say which block it is"
        if by in NAMED:
            says += f", or name the file by its {by}; blocks of this source are {by}s, a file each"
        raise typer.BadParameter(says, param_hint="--block")
    return str(found[0])


@app.command("share")
def share(
    given: SourceArgument,
    shares: SharesOption = None,
    lent_days: LentOption = 28,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Set who may spend which share of each block from now on."""
    if shares is None:
        raise typer.BadParameter("who may spend how much: ada=0.5,bo=0.3", param_hint="--shares")
    with client_of(state, server, key) as client:
        found = source_id(client, given)
        client.sources.set_rule(found, _rule(shares, lent_days))
        source = client.sources.get(found)
    tell(source, as_json, lambda: show_source(source))


@app.command("correct")
def correct(
    given: SourceArgument,
    fields: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="A field of the public part, such as max_total=5000; null takes it away; may be "
            "repeated",
        ),
    ],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Correct what is public of all blocks, while nothing was given away of any. Registered blocks
    are checked anew; where a field decides how rows are read, none may be registered."""
    with client_of(state, server, key) as client:
        found = source_id(client, given)
        client.sources.correct(found, changed({}, map(field_of, fields)))
        source = client.sources.get(found)
    tell(source, as_json, lambda: show_source(source))


def _rule(shares: str, lent_days: int) -> dict[str, Any]:
    """A rule as it is sent."""
    pairs = [part.partition("=") for part in shares.split(",")]
    named = {name.strip(): number(part.strip(), "--shares") for name, _, part in pairs}
    if len(named) < len(pairs):
        raise typer.BadParameter("an analyst stands twice", param_hint="--shares")
    return {"shares": named, "lent_days": lent_days}


@app.command("list")
def list_sources(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List all sources of the tenant, newest first."""
    with client_of(state, server, key) as client:
        found = list(client.sources.list())
    tell(found, as_json, lambda: show_sources(found))


@app.command("show")
def show(
    given: SourceArgument,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one source: what is spent, reserved and left of each of its blocks."""
    with client_of(state, server, key) as client:
        found = client.sources.get(source_id(client, given))
    tell(found, as_json, lambda: show_source(found))
