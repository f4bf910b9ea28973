"""Jobs, on a server or with none."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from discreet.cli.files import read_body, strict
from discreet.cli.options import (
    AnewFlag,
    EpsilonOption,
    FileArgument,
    JsonFlag,
    KeyOption,
    NameOption,
    PresetOption,
    ServerOption,
    StateOption,
    number,
)
from discreet.cli.plans import offered, show_plan
from discreet.cli.roads import in_the_fields_form, roads_of, roads_of_answer
from discreet.cli.servers import client_of, settings_of, with_id, with_network, without_a_server
from discreet.cli.servers import job_id as job_id_of
from discreet.cli.showing import progress_bar, show_jobs, show_submitted, tell
from discreet.cli.showing_answers import show_answer, show_comparison
from discreet.cli.texts import printable
from discreet.errors import DiscreetError, InvalidInput
from discreet_client.servers import kept_key, running

if TYPE_CHECKING:
    from discreet_client.client import Client


app = typer.Typer()


@app.command()
def solve(
    file: FileArgument,
    epsilon: EpsilonOption = None,
    preset: PresetOption = None,
    anew: AnewFlag = False,
    name: NameOption = None,
    out: Annotated[
        Path | None, typer.Option(help="Write result and certificate to this file")
    ] = None,
    state: StateOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run one job without leaving a server running; the ledger is in the state folder."""
    settings = settings_of(state)
    local = without_a_server(settings)
    body = asked(file, epsilon, preset, name=name)
    holder = running(settings.state)
    if holder is not None:
        with client_of(state, holder, kept_key(settings.state)) as client:
            answer = submitted(client, body, wait=True, anew=anew)
            roads, left = (
                (None, [])
                if as_json
                else (roads_of_answer(client, answer), charged(client, answer))
            )
    else:
        answer, left = local.solve(settings, body, progress_bar, partial(offered, anew=anew))
        roads = roads_of(body.get("problem"))
    if out is not None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    tell(answer, as_json, lambda: show_answer(answer, out, roads, left))


@app.command()
def plan(
    file: FileArgument,
    epsilon: EpsilonOption = None,
    preset: PresetOption = None,
    within: Annotated[
        str | None,
        typer.Option(
            "--within",
            help="Instead of epsilon, how accurate the answer must be: ± a number in its "
            "unit, or a percentage (5%)",
        ),
    ] = None,
    quantity: Annotated[
        str | None,
        typer.Option(
            "--quantity",
            help="With --within: the field of the result that it is about; by default the "
            "kind's first",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence", help="With --within: the probability with which the accuracy must hold"
        ),
    ] = 0.9,
    around: Annotated[
        str | None,
        typer.Option(
            "--around",
            help="With --within: a job; the data are assumed to be like those that it released",
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the price and the noise of a job, or the smallest epsilon for an accuracy; nothing is
    spent and no data are touched. Exits with 1 when the budget does not allow it."""
    from discreet.installation import local  # noqa: PLC0415

    accuracy: dict[str, Any] | None = None
    if within is not None:
        near = within if within.endswith("%") else float(number(within, "--within"))
        accuracy = {
            "quantity": quantity,
            "within": near,
            "confidence": confidence,
            "around": around,
        }
    elif around is not None:
        raise typer.BadParameter("only with --within", param_hint="--around")
    body = asked(file, epsilon, preset, accuracy)
    named = of_problem(body, "release") or of_problem(body, "source")
    data = of_problem(body, "dataset")
    if not (named or isinstance(data, str)):  # the data stand in the file, or are the agents'
        answer: Mapping[str, Any] = local.plan(body)
        mode = data.get("mode") if isinstance(data, dict) else None
    else:
        with client_of(state, server, key) as client:
            body = with_id(client, body)
            answer = client.plan(body)
            mode = None if named or as_json else client.dataset(of_problem(body, "dataset"))["mode"]
    tell(answer, as_json, lambda: show_plan(answer, simulation=mode == "simulation"))
    if not answer.get("admitted", True):
        raise typer.Exit(1)


@app.command()
def submit(
    file: FileArgument,
    epsilon: EpsilonOption = None,
    preset: PresetOption = None,
    anew: AnewFlag = False,
    name: NameOption = None,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the result, with a progress bar")
    ] = False,
    out: Annotated[
        Path | None, typer.Option(help="Write result and certificate to this file")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Submit a job to a server. If an earlier job has already released the same, asking it again at
    price 0 is offered first."""
    body = asked(file, epsilon, preset, name=name)
    with client_of(state, server, key) as client:
        answer = submitted(client, body, wait=wait, anew=anew)
        told = wait and not as_json
        roads, left = (
            (roads_of_answer(client, answer), charged(client, answer)) if told else (None, [])
        )
    if out is not None and wait:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    if wait:
        tell(answer, as_json, lambda: show_answer(answer, out, roads, left))
    else:
        tell(answer, as_json, lambda: show_submitted(answer))


@app.command()
def ask(
    job_ids: Annotated[
        list[str],
        typer.Argument(
            metavar="JOB...",
            help="The job whose release is asked again, by id or name; several are combined",
        ),
    ],
    fields: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="FIELD=VALUE",
            help="Another value for a field of the problem: JSON, text, or @FILE; may be repeated. "
            "latency.b=0.2 changes one figure of a field; @FILE alone takes all of another job",
        ),
    ] = None,
    close: Annotated[
        list[str] | None,
        typer.Option(
            "--close",
            metavar="LINK",
            help="Routing: close this link, given by its name or the nodes at its ends (A->B); "
            "'High St*' closes all whose names begin so; may be repeated",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Write result and certificate to this file")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Ask another question about what a job released, at price 0: nothing new is released and no
    data are touched."""
    others = [pair for one in fields or [] for pair in fields_of(one)]
    release: dict[str, Any] = {
        "dataset": None,
        "release": job_ids[0] if len(job_ids) == 1 else job_ids,
    }

    name = name_of(close, fields)
    roads: Any = None

    def question(problem: Mapping[str, Any], network: str | None = None) -> dict[str, Any]:
        """`network`: the id by which it is named, where the problem holds it as a whole."""
        nonlocal roads
        asked = changed(
            {name: value for name, value in problem.items() if name != "source"}, others
        )
        if network is not None:
            asked["network"] = problem["network"]
        roads = roads_of(asked)
        if not close:
            return {"problem": {**asked, **release}, **({"name": name} if name else {})}
        asked, told = closed(asked, close)
        typer.echo(told, err=True)
        if network is not None:
            asked["network"] = network
        return {"problem": {**asked, **release}, "name": name}

    settings = settings_of(state)
    if server is None and running(settings.state) is None:  # of what `discreet solve` has released
        local = without_a_server(settings)
        answer = local.ask(settings, job_ids[0], question, progress_bar, whole=bool(close))
    else:
        with client_of(state, server, key) as client:
            job_ids = [job_id_of(client, one) for one in job_ids]
            release["release"] = job_ids[0] if len(job_ids) == 1 else job_ids
            problem: Mapping[str, Any] = client.job(job_ids[0])["problem"] or {}
            named = dict(one for one in others if one[0] == "network").get(
                "network", problem.get("network")
            )
            if close:
                problem = with_network(client, {**problem, "network": named})
            answer = submitted(
                client,
                question(problem, named if close and isinstance(named, str) else None),
                wait=True,
            )
            roads = None if as_json else roads or roads_of_answer(client, answer)
    if out is not None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    tell(answer, as_json, lambda: show_answer(answer, out, roads))


@app.command()
def jobs(
    job_state: Annotated[
        str | None, typer.Option("--job-state", help="Only jobs in this state")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """List the tenant's newest jobs."""
    with client_of(state, server, key) as client:
        found = client.jobs(**({"state": job_state} if job_state else {}))["jobs"]
    tell(found, as_json, lambda: show_jobs(found))


@app.command()
def result(
    job_id: Annotated[str, typer.Argument(help="Id or name of a job")],
    out: Annotated[
        Path | None, typer.Option(help="Write result and certificate to this file")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="Format of --out, for every result xlsx (all tables), csv or parquet (one table); "
            "of routing also link flows as geojson or gmns (link.csv), demand and skims as omx, "
            "the users of chosen links as select-link (CSV); of a demand response the signal as "
            "signal (CSV) or openadr-signal (an event), the expected load as openadr (a report)",
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(
            help="With --format csv, parquet or xlsx: which table, such as figures; the refusal "
            "of an unknown name says which there are"
        ),
    ] = None,
    decimal: Annotated[
        str,
        typer.Option(
            help="With --format csv: the decimal sign; with a comma, columns are separated by ;"
        ),
    ] = ".",
    start: Annotated[
        str | None,
        typer.Option(
            help="With --format openadr or openadr-signal: when step 0 begins, such as "
            "2026-01-15T00:00:00+01:00"
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Show the result and the certificate of a job."""
    if (form or table) is not None and out is None:
        raise typer.BadParameter("say into which file, with --out", param_hint="--format")
    if table is not None and form is None:
        raise typer.BadParameter("say the format, with --format", param_hint="--table")
    with client_of(state, server, key) as client:
        answer = client.result(job_id_of(client, job_id))
        if form is not None and out is not None:
            out.write_bytes(in_the_fields_form(client, answer, form, decimal, start, table))
        roads = None if as_json else roads_of_answer(client, answer)
    if out is not None and form is None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    tell(answer, as_json, lambda: show_answer(answer, out, roads))


@app.command()
def compare(
    before: Annotated[str, typer.Argument(help="Id or name of a job")],
    now: Annotated[str, typer.Argument(help="Id or name of another job of the same kind")],
    out: Annotated[
        Path | None, typer.Option(help="Write all differences to this file, as CSV")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Compare the answers of two jobs, such as those of two months: every figure and, of routing,
    every link. Differences have intervals where both answers are of releases of their own."""
    from discreet_client.comparison import compare as differences  # noqa: PLC0415 - for this alone

    with client_of(state, server, key) as client:
        try:
            found = differences(*(client.answer(job_id_of(client, one)) for one in (before, now)))
        except ValueError as error:
            raise InvalidInput(str(error)) from None
    if out is not None:
        out.write_bytes(found.as_csv())
    tell(found.as_json(), as_json, lambda: show_comparison(found))


@app.command()
def cancel(
    job_id: Annotated[str, typer.Argument(help="Id of a job")],
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Cancel a job: this is free before data are touched and charged in full afterwards. Exits with
    1 when it is too late."""
    with client_of(state, server, key) as client:
        answer = client.cancel(job_id)
    if answer["cancel"] != "too_late" or as_json:
        tell(answer, as_json, lambda: print(answer["detail"]))
    if answer["cancel"] == "too_late":
        raise DiscreetError(answer["detail"])


@app.command()
def draw(
    file: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="A result that was written with --out"),
    ],
    out: Annotated[Path, typer.Option(help="Picture file: .png, .svg or .pdf")],
    problem: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The job file that it answers; by default the server is asked",
        ),
    ] = None,
    coordinates: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="JSON pairs x, y of the nodes, or an object whose `nodes` are that",
        ),
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Draw a result: a network map with link flows, the load with and without control, values by
    state."""
    from discreet.problems.charts import draw_result  # noqa: PLC0415

    places = None if coordinates is None else strict(coordinates.read_bytes())
    if isinstance(places, dict):
        places = places.get("nodes")
    answer = read_body(file)
    asked = None if problem is None else read_body(problem)["problem"]
    if asked is None or isinstance(asked.get("network"), str):
        with client_of(state, server, key) as client:
            asked = with_network(
                client, client.job(answer["job"]["id"])["problem"] or {} if asked is None else asked
            )
    if "kind" not in asked:
        raise InvalidInput(
            "the server does not know any more what was asked: say the job file, --problem"
        )
    draw_result(asked, answer["result"], out, coordinates=places)


# Questions ----------------------------------------------------------------------------------------
# Changes of a problem: fields set to other values by `--set`, and roads closed by `--close`.

LONGEST_NAME = 200
"""Characters of a job's name."""
DATA = ("kind", "dataset", "source", "release")
"""Fields of a problem that name its kind and its data: `--set @FILE` leaves them as they are."""


def name_of(closed: Sequence[str] | None, changes: Sequence[str] | None) -> str:
    """The name of a job with these roads closed and these changes of fields."""
    without = [f"Without {', '.join(closed)}"] if closed else []
    return "; ".join([*without, *(changes or [])])[:LONGEST_NAME].strip()


def changed(problem: Mapping[str, Any], values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The problem with these values instead of its own. `latency.b` sets one member of a field
    that is an object and keeps the others; another `type` drops them, since each type has its own
    members."""
    asked = dict(problem)
    for name, value in values:
        field, *inner = name.split(".")
        if not inner:
            asked[field] = value
            continue
        asked[field] = _within(asked.get(field), inner, value, name)
    return asked


def fields_of(text: str) -> list[tuple[str, Any]]:
    """The fields that one `--set` changes, with their values: FIELD=VALUE is one, @FILE all fields
    of that file, which is a job or what `discreet convert` wrote, but for those in DATA."""
    if not text.startswith("@"):
        return [field_of(text)]
    try:
        body = read_body(Path(text[1:]))
    except OSError as error:
        says = f"{text}: the file cannot be read"
        raise typer.BadParameter(says, param_hint="--set") from error
    fields = body.get("problem", body)
    if not isinstance(fields, dict):
        raise typer.BadParameter(f"{text}: a job is needed", param_hint="--set")
    return [pair for pair in fields.items() if pair[0] not in DATA]


def field_of(text: str) -> tuple[str, Any]:
    """The field and the value of `--set FIELD=VALUE`. With `FIELD=@FILE` the file holds the value,
    or an object with just this field."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text}: FIELD=VALUE is needed", param_hint="--set")
    if value.startswith("@"):
        try:
            found = strict(Path(value[1:]).read_bytes())
        except OSError as error:
            raise typer.BadParameter(
                f"{text}: the file cannot be read", param_hint="--set"
            ) from error
        alone = isinstance(found, dict) and found.keys() == {name}
        return name, found[name] if alone else found
    try:
        return name, strict(value.encode())
    except InvalidInput:  # text that needs no quotes
        if value.endswith(".json"):
            says = f"{text}: to read the value from a file, write {name}=@{value}"
            raise typer.BadParameter(says, param_hint="--set") from None
        return name, value if (numbers := _numbers(value)) is None else numbers


def _numbers(text: str) -> list[Any] | None:
    """A list of numbers as people type it: at least three separated by commas, or at least two by
    semicolons, where decimal commas are allowed; None for any other text. Two numbers and one comma
    are no list, since they may be one number with a decimal comma."""
    from discreet_client.reading import is_figure  # noqa: PLC0415 - loads NumPy

    parts = text.split(";") if ";" in text else text.split(",")
    if len(parts) < (2 if ";" in text else 3):
        return None
    try:
        found = [strict(part.strip().replace(",", ".").encode()) for part in parts]
    except InvalidInput:
        return None
    return found if all(map(is_figure, found)) else None


def _within(own: Any, path: Sequence[str], value: Any, name: str) -> dict[str, Any]:
    if own is not None and not isinstance(own, Mapping):
        raise InvalidInput(
            f"--set {name}: the problem's value is not an object, so it has no {path[0]}"
        )
    kept = dict(own or {})
    if len(path) > 1:
        return {**kept, path[0]: _within(kept.get(path[0]), path[1:], value, name)}
    return (
        {"type": value}
        if path[0] == "type" and kept.get("type") != value
        else {**kept, path[0]: value}
    )


def closed(problem: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The problem with the links of these names closed too, and a sentence on what is closed. The
    problem must hold its network itself, not an id. InvalidInput for a name of no link, or of
    several."""
    from discreet_client import closing  # noqa: PLC0415 - for this alone

    network = problem.get("network")
    if not isinstance(network, Mapping):
        raise InvalidInput("--close is for problems on a network, of kind routing")
    try:
        found = closing.links_of(network, names)
    except closing.UnknownLink as error:
        raise InvalidInput(f"--close: {printable(str(error))}") from None
    told = f"closed: {', '.join(found.names)}"
    if found.open_ways:
        told += (
            f"; the opposite direction stays open: {', '.join(found.open_ways)}; --close that too "
            "if it is closed"
        )
    return {
        **problem,
        "closed_links": sorted({*(problem.get("closed_links") or ()), *found.links}),
    }, printable(told)


# Rehearsals ---------------------------------------------------------------------------------------
# Rehearsals, on a server or with none.


@app.command()
def rehearse(
    file: FileArgument,
    epsilon: Annotated[
        list[str] | None,
        typer.Option(
            "--epsilon", help="An epsilon to try; may be repeated (default 0.1, 0.3, 1, 3)"
        ),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(
            "--units",
            help="How many units the synthetic data have, where their number is not public",
        ),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option("--around", help="A job: the synthetic data follow what it released"),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the synthetic data and of the noise")
    ] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the whole result to this file")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a job on synthetic data of the public shape at several epsilons; this uses no budget and
    no private data."""
    body: dict[str, Any] = read_body(file)
    ladder = [number(one, "--epsilon") for one in epsilon] if epsilon else None
    problem = body.get("problem")
    with progress_bar() as on_progress:
        inline = isinstance(problem, dict) and isinstance(problem.get("dataset"), dict)
        if inline and around is None:  # its public part stands in the file
            from discreet.installation import local  # noqa: PLC0415 - loads numba

            answer = local.rehearse(body, ladder, units, seed, on_progress)
        else:
            with client_of(state, server, key) as client:
                answer = client.rehearse(
                    with_id(client, body),
                    epsilons=ladder,
                    units=units,
                    around=around,
                    seed=seed,
                    progress=on_progress,
                ).document
    if out is not None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    fields = None if as_json else _fields(problem)
    tell(answer, as_json, lambda: show_answer(answer, out, fields=fields))


def _fields(problem: Any) -> dict[str, Any]:
    """What is published of each field of the result: how people call it, and its unit."""
    from discreet.problems import KINDS  # noqa: PLC0415 - loads SciPy
    from discreet.problems.results import properties_of  # noqa: PLC0415

    kind = problem.get("kind") if isinstance(problem, dict) else None
    return properties_of(KINDS[kind].Fields) if kind in KINDS else {}


# Submissions --------------------------------------------------------------------------------------
# The job that a command submits: its body from a file and options, its submission, its charges.


def of_problem(body: dict[str, Any], field: str) -> Any:
    problem = body.get("problem")
    return problem.get(field) if isinstance(problem, dict) else None


def asked(
    file: Path,
    epsilon: str | None,
    preset: str | None,
    accuracy: dict[str, Any] | None = None,
    *,
    name: str | None = None,
) -> dict[str, Any]:
    """The body in the file. A name, and one of epsilon, preset and accuracy, replace what the file
    says. BadParameter if several of the three are given."""
    from discreet_client.calls import job_body  # noqa: PLC0415

    body: dict[str, Any] = {**read_body(file), **({} if name is None else {"name": name})}
    given: dict[str, Any] = {"epsilon": epsilon, "preset": preset, "accuracy": accuracy}
    given = {name: value for name, value in given.items() if value is not None}
    if not given:
        return body
    if len(given) > 1:
        raise typer.BadParameter(
            "give only one of them", param_hint="--epsilon, --preset, --within"
        )
    if epsilon is not None:
        given["epsilon"] = strict(
            f"{number(epsilon, '--epsilon'):f}".encode()
        )  # with the digits that were typed
    return job_body(body, **given)


def submitted(
    client: Client, body: dict[str, Any], *, wait: bool, anew: bool = False
) -> Mapping[str, Any]:
    """Register an inline dataset, submit, and wait for the result if asked to."""
    body = with_id(client, body)
    dataset = of_problem(body, "dataset")
    if isinstance(dataset, dict):
        body = {**body, "problem": {**body["problem"], "dataset": client.register(dataset)["id"]}}
    planned = client.plan(body)
    if planned["reusable"]:
        source = of_problem(body, "source")
        data = (
            client.sources.get(source["id"])
            if source
            else client.dataset(of_problem(body, "dataset"))
        )
        offered(planned, data["mode"], anew=anew)
    job = client.submit(body, idempotency_key=str(uuid.uuid4()))
    if not wait:
        return job
    with progress_bar() as on_progress:
        ended = client.wait(job["id"], on_progress)
    if ended["state"] != "succeeded":
        error = ended.get("error")
        why = f": {error['detail']}" if error else ""
        raise DiscreetError(f"job {ended['id']} {ended['state']}{why}")
    return client.result(job["id"])


def charged(client: Client, answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The budgets that an answer's job was charged to, as they are now."""
    from discreet_client.certificates import charged_accounts  # noqa: PLC0415

    entries = answer["certificate"]["ledger_entry"]
    return [client.budget(name) for entry in entries for name in charged_accounts(entry)]
