"""Rehearsals, on a server or with none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from discreet.cli.files import read_body
from discreet.cli.options import (
    FileArgument,
    JsonFlag,
    KeyOption,
    ServerOption,
    StateOption,
    number,
)
from discreet.cli.servers import client_of, with_id
from discreet.cli.showing import progress_bar, tell
from discreet.cli.showing_answers import show_answer

app = typer.Typer()


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
            help="Of how many units the synthetic data are, where their number is not public",
        ),
    ] = None,
    around: Annotated[
        str | None,
        typer.Option("--around", help="A job: the synthetic data are made of what it released"),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the synthetic data and of the noise")] = 0,
    out: Annotated[Path | None, typer.Option(help="Write the whole result to this file")] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
    as_json: JsonFlag = False,
) -> None:
    """Run a job on synthetic data of the public shape, for several values of epsilon; no budget, no
    private data."""
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
