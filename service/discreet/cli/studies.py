"""What needs no server: attacks on the mechanisms, the papers' figures, files of other formats."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import beginning
from discreet.cli.dataset_files import pairs_of
from discreet.cli.files import read_body
from discreet.cli.options import DecimalOption, EncodingOption, JsonFlag, StateOption
from discreet.cli.servers import settings_of
from discreet.cli.showing import show_audit, show_networks, show_report, tell
from discreet.cli.texts import printable
from discreet.errors import InvalidInput, NotFound

app = typer.Typer()
converters = typer.Typer(no_args_is_help=True, help="Read other formats.")


@app.command()
def audit(
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Parts of mechanisms' or kinds' names; all by default"),
    ] = None,
    short: Annotated[bool, typer.Option("--short", help="A tenth of the samples")] = False,
    faults: Annotated[
        bool,
        typer.Option("--faults", help="Also attack planted faults, all of which must be caught"),
    ] = False,
    save: Annotated[
        bool, typer.Option("--save", help="Save the table for the dashboard of this state folder")
    ] = False,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Attack every mechanism and every kind's whole release; a lower bound above the price is a
    fault. Exits with 1 then."""
    from discreet.private_files import private_folder  # noqa: PLC0415
    from discreet.usecases import audits  # noqa: PLC0415

    rows = list(audits.run_audits(names or [], short=short, faults=faults))
    if not rows:
        raise NotFound("there is no such mechanism or kind")
    if save:
        audits.save(private_folder(settings_of(state).state), rows, short=short, names=names or [])
    tell([row.to_json() for row in rows], as_json, lambda: show_audit(rows))
    if not all(row.as_expected for row in rows):
        raise typer.Exit(1)


@app.command()
def reproduce(
    papers: Annotated[
        list[str] | None,
        typer.Argument(
            help="hassan, hale, xie, tsao, huo; all by default. Or: networks FOLDER, of TNTP files"
        ),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="All sizes and seeds: minutes to an hour for each paper")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for tables (CSV) and pictures (PNG)")
    ] = None,
    markdown: Annotated[Path | None, typer.Option(help="File for the tables as Markdown")] = None,
    threads: Annotated[
        int,
        typer.Option(
            min=1,
            max=64,
            help="With networks: threads for shortest paths; the flows are the same",
        ),
    ] = 1,
    as_json: JsonFlag = False,
) -> None:
    """Reproduce the papers' figures: as printed, as their methods truly give them, and ours at the
    same guarantee."""
    from discreet import reproduce as studies  # noqa: PLC0415

    if papers and papers[0] == "networks":
        _reproduce_networks(papers[1:], threads=threads, as_json=as_json)
        return
    chosen = papers or list(studies.NAMES)
    if unknown := sorted(set(chosen) - set(studies.NAMES)):
        raise NotFound(
            f"there is no paper {', '.join(unknown)}; there are {', '.join(studies.NAMES)}"
        )
    reports = []
    for name in chosen:
        found = studies.reproduce(name, full=full)
        reports.append(found)
        if out is not None:
            found.write(out)
        if not as_json:
            show_report(found)
    if markdown is not None:
        markdown.write_text(studies.document(reports, full=full))
    if as_json:
        tell([found.to_json() for found in reports], as_json, lambda: None)


def _reproduce_networks(folders: list[str], *, threads: int, as_json: bool) -> None:
    """Exit 1 when none was loaded: what is refused has its reason in its row."""
    from discreet.reproduce.road_networks import road_networks  # noqa: PLC0415

    if len(folders) != 1:
        raise typer.BadParameter("networks needs one folder of TNTP files")
    if not (folder := Path(folders[0])).is_dir():
        raise NotFound(f"there is no folder {folder}")
    rows = list(road_networks(folder, threads))
    if not rows:
        raise NotFound(f"there is no network, a file NAME_net.tntp, in {folder}")
    tell([row.to_json() for row in rows], as_json, lambda: show_networks(rows))
    if all(row.status == "refused" for row in rows):
        raise typer.Exit(1)


@converters.command("tntp")
def convert_tntp(
    net: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Network file")],
    trips: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Trips file")],
    epsilon: Annotated[str, typer.Option(help="Epsilon of the job")] = "0.1",
    round_trips: Annotated[
        bool,
        typer.Option(help="Round trip counts that are not integers, or not whole parts of a trip"),
    ] = False,
    trip_scale: Annotated[
        int,
        typer.Option(
            min=1, help="Keep fractions of trips: parts per trip (100 for hundredths); public"
        ),
    ] = 1,
    toll_weight: Annotated[
        float | None,
        typer.Option(
            min=0, help="Time that a unit of toll is worth; needed where links have tolls"
        ),
    ] = None,
    distance_weight: Annotated[
        float | None, typer.Option(min=0, help="Time that a unit of length is worth")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file")] = None,
) -> None:
    """Convert TNTP files to the body of a job with its dataset."""
    from discreet.problems.routing.dataset import convert, read_network, read_trips  # noqa: PLC0415
    from discreet_client.trips import rounded  # noqa: PLC0415

    body = convert(
        net.read_text(),
        trips.read_text(),
        epsilon=epsilon,
        round_trips=round_trips,
        trip_scale=trip_scale,
        toll_weight=toll_weight,
        distance_weight=distance_weight,
    )
    if round_trips:
        kept = sum(row["count"] for row in body["problem"]["dataset"]["content"]["trips"])
        file = read_trips(trips.read_text(), read_network(net.read_text()).numbers)
        written = sum(row.trips for row in file.rows)
        typer.echo(rounded(kept, written, trip_scale), err=True)
    text = json.dumps(body, separators=(",", ":"))
    if out is None:
        print(text)
    else:
        out.write_text(text)


@converters.command("openadr")
def convert_openadr(
    events: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="JSON of an event, or of a list of them"),
    ],
    start: Annotated[
        str,
        typer.Option(help="When step 0 of the problem begins, such as 2026-01-15T00:00:00+01:00"),
    ],
    steps: Annotated[int, typer.Option(min=2, help="How many steps it has")],
    interval_seconds: Annotated[int, typer.Option(min=1, help="How long a step is")],
    otherwise: Annotated[
        float | None, typer.Option(help="The price per kWh in steps that no event prices")
    ] = None,
    job: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A job file whose problem gets these fields, written to --out",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Write to this file")] = None,
) -> None:
    """Convert OpenADR 3 events to `price`, `event` and `limits` of a demand response; with --job to
    the whole job."""
    from discreet_client.openadr import fields_of_events  # noqa: PLC0415 - loads NumPy
    from discreet_client.tables import TableError  # noqa: PLC0415

    try:
        fields = fields_of_events(
            events, start=start, steps=steps, interval_seconds=interval_seconds, otherwise=otherwise
        )
    except TableError as error:
        raise InvalidInput(str(error)) from None
    _write(fields, job, out)


@converters.command("prices")
def convert_prices(
    prices: Annotated[
        Path, typer.Argument(exists=True, dir_okay=False, help="Prices by time: .csv or .parquet")
    ],
    interval_seconds: Annotated[
        int, typer.Option(min=1, help="How long a step is: that of the dataset's meters")
    ],
    day: Annotated[
        str | None,
        typer.Option(help="All steps of this day, such as 2026-10-25; or --start and --steps"),
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="When step 0 begins, such as 2026-10-25T18:00")
    ] = None,
    steps: Annotated[
        int | None, typer.Option(min=2, help="How many steps there are from --start on")
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Time zone of times without one: the market's, such as Europe/Berlin"),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="What your columns are called: time=…,price=…")
    ] = None,
    per: Annotated[
        str | None, typer.Option(help="kWh or MWh, if the name of the price column does not say")
    ] = None,
    dates: Annotated[
        str | None, typer.Option(help="day_first or month_first, for dates such as 01/02/2026")
    ] = None,
    encoding: EncodingOption = None,
    decimal: DecimalOption = None,
    job: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A job file whose problem gets this price, written to --out",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write to this file; .toml keeps the comments of `init`")
    ] = None,
) -> None:
    """Convert day-ahead prices, as exchanges publish them, to `price` of a demand response; with
    --job to the whole job."""
    from discreet_client import tariffs  # noqa: PLC0415 - loads NumPy
    from discreet_client.tables import TableError  # noqa: PLC0415

    try:
        begin: Any = start
        if day is not None and start is None and steps is None:
            begin, steps = tariffs.steps_of_day(day, time_zone, interval_seconds)
        if begin is None or steps is None or (day is not None and start is not None):
            raise typer.BadParameter(
                "give the time: either --day, or --start and --steps", param_hint="--day"
            )
        found = tariffs.tariff_of(
            prices,
            start=begin,
            steps=steps,
            interval_seconds=interval_seconds,
            time_zone=time_zone,
            columns=pairs_of(columns),
            per=per,
            dates=dates,
            encoding=encoding,
            decimal=decimal,
        )
    except TableError as error:
        raise InvalidInput(f"{prices.name}: {error}") from None
    for note in found.notes:
        typer.echo(f"{prices.name}: {printable(note)}", err=True)
    _write({"price": found.price}, job, out)


def _write(fields: dict[str, Any], job: Path | None, out: Path | None) -> None:
    """These fields, or the job whose problem has them in the place of its own; TOML into a file
    that ends so."""
    body = fields
    if job is not None:
        body = read_body(job)
        if not isinstance(body.get("problem"), dict):
            raise InvalidInput(f"{job.name}: a job has a problem")
        gone = {"utility"} if "price" in fields else set()
        kept = {name: one for name, one in body["problem"].items() if name not in gone}
        body = {**body, "problem": {**kept, **fields}}
    if out is not None and out.suffix.lower() == ".toml":
        if job is None:
            raise typer.BadParameter("a job file goes with --job", param_hint="--out")
        out.write_text(beginning.written(body, fields), encoding="utf-8")
        return
    text = json.dumps(body, separators=(",", ":"))
    if out is None:
        print(text)
    else:
        out.write_text(text)
