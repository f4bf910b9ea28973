"""The job that a command submits: its body from a file and options, its submission, its charges."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from discreet.cli.files import read_body, strict
from discreet.cli.options import number
from discreet.cli.plans import offered
from discreet.cli.servers import with_id
from discreet.cli.showing import progress_bar
from discreet.errors import DiscreetError

if TYPE_CHECKING:
    from discreet_client.client import Client


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
