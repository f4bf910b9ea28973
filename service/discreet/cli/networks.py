"""Networks on a server, from the field's own files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.datasets import pairs_of
from discreet.cli.options import JsonFlag, KeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of
from discreet.cli.showing import show_network, show_stored, tell
from discreet.errors import InvalidInput

app = typer.Typer(no_args_is_help=True, help="Networks: public roads that jobs name.")


@app.command("add")
def add(
    files: Annotated[
        list[Path],
        typer.Argument(
            exists=True,
            help="NAME_net.tntp [NAME_node.tntp]; link.csv node.csv [config.csv] of GMNS, or their folder; a .csv of "
            "links [and one of nodes]; .geojson",
        ),
    ],
    name: Annotated[str | None, typer.Option(help="What people call it; the file's name by default")] = None,
    columns: Annotated[
        str | None,
        typer.Option(
            help="Your names of columns: tail=from,head=to,free_flow_time=t,capacity=cap,node=id,x=lon,y=lat; "
            "length=l,speed=v in the place of the time"
        ),
    ] = None,
    units: Annotated[
        str | None,
        typer.Option(help="Of length and speed, in CSV and in GMNS without a config.csv: mi,mph or km,kph"),
    ] = None,
    period_minutes: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            help="The files' capacities are of an hour: make them of periods of so many minutes. Else GMNS's are of an "
            "hour, and others of a period, as they are",
        ),
    ] = None,
    toll_weight: Annotated[float | None, typer.Option(min=0, help="Time that a unit of toll is worth")] = None,
    distance_weight: Annotated[
        float | None, typer.Option(min=0, help="Time that a unit of TNTP's length is worth")
    ] = None,
    through_zones: Annotated[
        bool, typer.Option(help="Whether paths may lead through other zones; TNTP says it itself")
    ] = True,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Store a network. The same network again is the same object; jobs name it as `network: "net_…"`."""
    # No part of the service reads networks.
    from discreet_client.networks import read  # noqa: PLC0415
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
        )
    except TableError as error:
        raise InvalidInput(str(error)) from None
    notes = [*reading.notes, *reading.left_out]
    with client_of(state, server, key) as client:
        made: dict[str, Any] = dict(client.networks.add(reading.network, name=reading.name))
    tell({**made, "notes": notes}, as_json, lambda: show_network(made, notes))


@app.command("list")
def list_networks(
    state: StateOption = None, server: ServerOption = None, key: KeyOption = None, as_json: JsonFlag = False
) -> None:
    """All networks of the tenant, newest first."""
    with client_of(state, server, key) as client:
        found = list(client.networks.list())
    tell(found, as_json, lambda: show_stored(found))


@app.command("show")
def show(
    network_id: Annotated[str, typer.Argument(help="Id of a network")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """One network: its size and its digest; with --json all its links."""
    with client_of(state, server, key) as client:
        found = client.networks.get(network_id)
    tell(found, as_json, lambda: show_network(found))


@app.command("delete")
def delete(
    network_id: Annotated[str, typer.Argument(help="Id of a network")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Delete a network that no job has named."""
    with client_of(state, server, key) as client:
        client.networks.delete(network_id)
    tell({"deleted": network_id}, as_json, lambda: print(f"{network_id} is deleted"))
