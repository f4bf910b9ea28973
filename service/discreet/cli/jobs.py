"""Jobs, on a server or with none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli import questions, submissions
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
from discreet.cli.showing_answers import show_answer
from discreet.errors import DiscreetError, InvalidInput
from discreet_client.servers import kept_key, running

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
    body = submissions.asked(file, epsilon, preset, name=name)
    holder = running(settings.state)
    if holder is not None:
        with client_of(state, holder, kept_key(settings.state)) as client:
            answer = submissions.submitted(client, body, wait=True, anew=anew)
            roads, left = (
                (None, [])
                if as_json
                else (roads_of_answer(client, answer), submissions.charged(client, answer))
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
    body = submissions.asked(file, epsilon, preset, accuracy)
    named = submissions.of_problem(body, "release") or submissions.of_problem(body, "source")
    data = submissions.of_problem(body, "dataset")
    if not (named or isinstance(data, str)):  # the data stand in the file, or are the agents'
        answer: Mapping[str, Any] = local.plan(body)
        mode = data.get("mode") if isinstance(data, dict) else None
    else:
        with client_of(state, server, key) as client:
            body = with_id(client, body)
            answer = client.plan(body)
            mode = (
                None
                if named or as_json
                else client.dataset(submissions.of_problem(body, "dataset"))["mode"]
            )
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
    body = submissions.asked(file, epsilon, preset, name=name)
    with client_of(state, server, key) as client:
        answer = submissions.submitted(client, body, wait=wait, anew=anew)
        told = wait and not as_json
        roads, left = (
            (roads_of_answer(client, answer), submissions.charged(client, answer))
            if told
            else (None, [])
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
    others = [pair for one in fields or [] for pair in questions.fields_of(one)]
    release: dict[str, Any] = {
        "dataset": None,
        "release": job_ids[0] if len(job_ids) == 1 else job_ids,
    }

    name = questions.name_of(close, fields)
    roads: Any = None

    def question(problem: Mapping[str, Any], network: str | None = None) -> dict[str, Any]:
        """`network`: the id by which it is named, where the problem holds it as a whole."""
        nonlocal roads
        asked = questions.changed(
            {name: value for name, value in problem.items() if name != "source"}, others
        )
        if network is not None:
            asked["network"] = problem["network"]
        roads = roads_of(asked)
        if not close:
            return {"problem": {**asked, **release}, **({"name": name} if name else {})}
        asked, told = questions.closed(asked, close)
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
            answer = submissions.submitted(
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
            help="Format of --out, which then holds only a part: link flows as csv, geojson, gmns "
            "(link.csv) or parquet; demand and skims as omx; the users of chosen links as "
            "select-link (CSV); of a demand response the signal as signal (CSV) or openadr-signal "
            "(an event), the expected load as openadr (a report)",
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
    if form is not None and out is None:
        raise typer.BadParameter("say into which file, with --out", param_hint="--format")
    with client_of(state, server, key) as client:
        answer = client.result(job_id_of(client, job_id))
        if form is not None and out is not None:
            out.write_bytes(in_the_fields_form(client, answer, form, decimal, start))
        roads = None if as_json else roads_of_answer(client, answer)
    if out is not None and form is None:
        out.write_text(json.dumps(answer, separators=(",", ":")))
    tell(answer, as_json, lambda: show_answer(answer, out, roads))


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
