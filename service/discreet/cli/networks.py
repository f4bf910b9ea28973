"""Networks on a server, from the field's own files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.dataset_files import pairs_of
from discreet.cli.options import (
    DecimalOption,
    EncodingOption,
    JsonFlag,
    KeyOption,
    ServerOption,
    StateOption,
)
from discreet.cli.servers import client_of, network_id
from discreet.cli.showing import show_network, show_stored, tell
from discreet.cli.texts import printable
from discreet.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Networks: public road networks that jobs name.")

NetworkArgument = Annotated[str, typer.Argument(metavar="NETWORK", help="Id or name of a network")]


@app.command("add")
def add(
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            help="NAME_net.tntp (and NAME_node.tntp); link.csv and node.csv of GMNS (and "
            "config.csv), or their folder; a .csv of links (and one of nodes); .geojson",
        ),
    ],
    name: Annotated[
        str | None, typer.Option(help="What people call it; the file's name by default")
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="The names of your columns: "
            "tail=from,head=to,free_flow_time=t,capacity=cap,name=street,node=id,x=lon,"
            "y=lat; length=l,speed=v instead of the time"
        ),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(
            help="Units of length (km, m, mi, ft) and speed (kph, mph, mps), in CSV, GeoJSON and "
            "GMNS without a config.csv: km,kph"
        ),
    ] = None,
    period_minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="The files' capacities are per hour: convert them to periods of this many "
            "minutes. By default they are not converted: GMNS's are per hour and others per "
            "period",
        ),
    ] = None,
    toll_weight: Annotated[
        float | None, typer.Option(min=0, help="The time that one unit of toll is worth")
    ] = None,
    distance_weight: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="The time that one unit of the file's length is worth (a km with --units km,kph)",
        ),
    ] = None,
    through_zones: Annotated[
        bool,
        typer.Option(
            help="Whether paths may lead through other zones; TNTP files say so themselves"
        ),
    ] = True,
    both_ways: Annotated[
        bool,
        typer.Option(
            "--both-ways",
            help="Add the opposite direction to links without one: for files without a "
            "column `directed`",
        ),
    ] = False,
    lane_capacity: Annotated[
        float | None,
        typer.Option(
            help="CSV and GeoJSON without capacities: the capacity of one lane, multiplied by the "
            "column `lanes` if there is one"
        ),
    ] = None,
    speed: Annotated[
        float | None,
        typer.Option(help="CSV and GeoJSON with lengths but no speeds: the speed on all links"),
    ] = None,
    doubled: Annotated[
        str,
        typer.Option(
            help="What to do with duplicate links of the same ends, name and figures: refuse, "
            "keep-first, or sum (one link with their total capacity)"
        ),
    ] = "refuse",
    encoding: EncodingOption = None,
    decimal: DecimalOption = None,
    time_unit: Annotated[
        str | None,
        typer.Option(
            help="Unit of free_flow_time, for answers to state: seconds, minutes or hours; minutes "
            "if it comes from length and speed"
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Store a network. The same network again is the same object; jobs name it as `network:
    "net_…"`."""
    # No part of the service reads networks.
    from discreet_client.networks import read  # noqa: PLC0415
    from discreet_client.option_words import COMMAND_LINE  # noqa: PLC0415
    from discreet_client.tables import TableError  # noqa: PLC0415

    try:
        reading = read(
            *files,
            name=name,
            columns=pairs_of(columns),
            units=units,
            period_minutes=period_minutes,
            toll_weight=toll_weight,
            distance_weight=distance_weight,
            through_zones=through_zones,
            both_ways=both_ways,
            time_unit=time_unit,
            encoding=encoding,
            decimal=decimal,
            lane_capacity=lane_capacity,
            speed=speed,
            doubled=doubled,
            words=COMMAND_LINE,
        )
    except TableError as error:
        raise InvalidInput(str(error)) from None
    notes = [*reading.notes, *reading.left_out]
    for warning in reading.warnings:
        typer.echo(f"warning: {printable(warning)}", err=True)
    quiet = replace(reading, left_out=[], warnings=[])  # they are told here
    with client_of(state, server, key) as client:
        before = [one["id"] for one in client.networks.list() if one["name"] == reading.name]
        made: dict[str, Any] = dict(client.networks.add(quiet))
    if made["name"] != reading.name:
        notes.append(f"the same network is stored as {made['name']} already")
    if others := [one for one in before if one != made["id"]]:
        says = (
            f"{others[0]} is called {reading.name} too, so jobs must name them by their ids: "
            "--name says another name"
        )
        typer.echo(f"warning: {printable(says)}", err=True)
    tell(
        {**made, "notes": notes, "warnings": reading.warnings},
        as_json,
        lambda: show_network(made, notes),
    )


@app.command("list")
def list_networks(
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List all networks of the tenant, newest first."""
    with client_of(state, server, key) as client:
        found = list(client.networks.list())
    tell(found, as_json, lambda: show_stored(found))


@app.command("show")
def show(
    given: NetworkArgument,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show one network: its size and digest; with --json all its links."""
    with client_of(state, server, key) as client:
        found = client.networks.get(network_id(client, given))
    tell(found, as_json, lambda: show_network(found))


@app.command("delete")
def delete(
    given: NetworkArgument,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete a network that no job has named."""
    with client_of(state, server, key) as client:
        deleted = network_id(client, given)
        client.networks.delete(deleted)
    tell({"deleted": deleted}, as_json, lambda: print(f"{deleted} is deleted"))
