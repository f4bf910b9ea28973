"""Jobs as people write them in a form: the example that it begins with, and its text on the way to
price and submission."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import anyio.to_thread
from pydantic import TypeAdapter

from discreet.dashboard import rounding
from discreet.errors import DiscreetError, InvalidInput, NotFound
from discreet.problems import DATASETS, KINDS
from discreet.problems.reuse import WHERE_THE_DATA_ARE
from discreet.storage.tenants import Principal
from discreet.usecases import objects
from discreet.usecases.requests import JobRequest, RehearsalRequest
from discreet.usecases.services import Services
from discreet.web import bodies
from discreet.web.problem_details import of_error

NO_DATASET = "dst_…"
MOST_STORED = 50
"""Newest stored objects of each type that an example may name."""
SMALL = 1e-4
"""A remaining epsilon of at most this is too small to be asked for."""

_REHEARSAL: TypeAdapter[RehearsalRequest] = TypeAdapter(RehearsalRequest)
_REQUEST: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)


class Example(NamedTuple):
    """A job that a form begins with."""

    text: str
    named: list[str]
    """The names of the stored objects that it names."""
    needs: list[str]
    """What it lacks, since it may not be made up, and what to do."""


def example_text(kind: str, chosen: Mapping[str, Mapping[str, Any]] | None = None) -> str:
    """The kind's own example, used while there is no dataset of the kind. `chosen`: the stored
    objects that its fields are to name."""
    body = copy.deepcopy(KINDS[kind].example())
    body["problem"] |= {field: row["id"] for field, row in (chosen or {}).items()}
    if isinstance(body["problem"].get("dataset"), dict):
        body["problem"]["dataset"] = NO_DATASET
    return as_text(body)


async def example_on(
    services: Services,
    principal: Principal,
    dataset: Mapping[str, Any],
    largest: float,
    data: Mapping[str, Any] | None = None,
    chosen: Mapping[str, dict[str, Any]] | None = None,
) -> Example:
    """An example for a registered dataset, with stored objects where some fit its public part. It
    asks for at most half of `largest`, the largest epsilon that still passes,
    unless that is at most SMALL.

    `data`: the fields that name the data, if not the dataset's id, such as blocks of a source.
    `chosen`: the stored objects that fields are to name, even if they do not fit, which the price
    then reports.
    """
    kind, chosen = KINDS[dataset["kind"]], chosen or {}
    read_public = DATASETS[dataset["kind"]].read_public
    public = await anyio.to_thread.run_sync(read_public, dataset["public"])
    stored = dict[str, list[dict[str, Any]]]()
    for field, model in kind.objects.items():
        if field in chosen:
            stored[field] = [chosen[field]]
            continue
        stored[field] = rows = await objects.page(services, principal, model, None, MOST_STORED)
        first = kind.named_for(field, public)
        if first is not None and first not in [row["id"] for row in rows]:
            with suppress(NotFound):
                row, _ = await objects.find(services, principal, first, model)
                stored[field] = [row, *rows]
    names = {row["id"]: row["name"] for rows in stored.values() for row in rows}
    sized = {
        field: [{"id": row["id"], **row["sizes"]} for row in rows] for field, rows in stored.items()
    }

    def examples() -> list[dict[str, Any]]:
        return list(kind.examples_for(public, sized))

    for body in await anyio.to_thread.run_sync(examples):
        problem, privacy = dict(body["problem"]), dict(body["privacy"])
        if SMALL < largest < 2 * privacy["epsilon"]:
            privacy["epsilon"] = float(rounding.down(largest / 2))
        whole = {"kind": problem.pop("kind"), **(data or {"dataset": dataset["id"]}), **problem}
        named = [value for field in kind.objects if isinstance(value := problem.get(field), str)]
        if not named or await _planned(services, principal, {"problem": whole, "privacy": privacy}):
            break
    whole |= {field: row["id"] for field, row in chosen.items()}
    named = [*dict.fromkeys([*named, *(row["id"] for row in chosen.values())])]
    return Example(
        await shown({"problem": whole, "privacy": privacy}),
        [names[one] for one in named],
        [kind.needs_own(field, public) for field in stored if field not in whole],
    )


async def _planned(services: Services, principal: Principal, body: Mapping[str, Any]) -> bool:
    """Whether a job can be planned: a stored network may lack a path between two zones. Plans are
    cached, so the price that the page asks for afterwards needs no second one."""
    try:
        asked = await anyio.to_thread.run_sync(bodies.validate, _REQUEST, body)
        await services.planner.plan(
            services.database, principal, asked.problem, asked.privacy, None
        )
    except (InvalidInput, NotFound):
        return False
    return True


def again_text(problem: Mapping[str, Any], job_id: str) -> str:
    """The body that asks a job again, with every field of its problem that is set."""
    said = {
        name: value
        for name, value in problem.items()
        if value is not None and name not in WHERE_THE_DATA_ARE - {"kind"}
    }
    return as_text({"problem": {"kind": said.pop("kind"), "release": job_id, **said}})


def around_text(problem: Mapping[str, Any], job_id: str) -> str:
    """The body that plans the same job for an accuracy, as judged on what that job released."""
    said = {
        name: value for name, value in problem.items() if value is not None and name != "release"
    }
    accuracy = {"within": "5%", "around": job_id}
    return as_text(
        {"problem": {"kind": said.pop("kind"), **said}, "privacy": {"accuracy": accuracy}}
    )


def tells_figures(
    problem: Mapping[str, Any],
    plan: Mapping[str, Any],
    certificate: Mapping[str, Any] | None,
) -> bool:
    """Whether other jobs can be planned and rehearsed around what this job itself released."""
    kind = problem["kind"]
    if certificate is None or "release_digest" not in certificate or kind not in DATASETS:
        return False
    return KINDS[kind].profiles(problem, plan["parameters"])


def rehearsal(job: JobRequest, around: str | None, units: str | None) -> RehearsalRequest:
    """The rehearsal of a form's job. InvalidInput for an `around` or `units` that is not valid."""
    asked: dict[str, Any] = {"problem": job.problem, "around": around, "name": job.name}
    if units is not None:
        asked["units"] = int(units) if units.isascii() and units.isdigit() else units
    return bodies.validate(_REHEARSAL, asked)


def as_text(value: Any, indent: int = 0) -> str:
    """JSON for people: a value that fits on one line stays there, others are broken into lines."""
    flat = json.dumps(value, ensure_ascii=False)
    if len(flat) + indent <= 88 or not isinstance(value, dict | list) or not value:
        return flat
    inner = " " * (indent + 2)
    if isinstance(value, dict):
        parts = [
            f"{json.dumps(key, ensure_ascii=False)}: {as_text(item, indent + 2)}"
            for key, item in value.items()
        ]
        opening, closing = "{", "}"
    else:
        parts = [as_text(item, indent + 2) for item in value]
        opening, closing = "[", "]"
    return f"{opening}\n{inner}" + f",\n{inner}".join(parts) + f"\n{' ' * indent}{closing}"


async def shown(value: Any) -> str:
    """`as_text` in a thread, so that other requests do not wait for a problem with a hundred
    thousand links."""
    return await anyio.to_thread.run_sync(as_text, value)


def in_figures(text: str, figures: Mapping[str, Any]) -> str:
    """The same text with the privacy figures of a plan, which a job is charged by."""
    body = json.loads(text)
    unit = {"unit": body["privacy"]["unit"]} if body["privacy"].get("unit") else {}
    return as_text({**body, "privacy": {**figures, **unit}})


def with_network(text: str, network: bytes) -> str:
    """The same text with this network, JSON, in its problem. InvalidInput for a text that holds no
    problem."""
    body = bodies.value_of(text.encode())
    if not isinstance(body, dict) or not isinstance(body.get("problem"), dict):
        raise InvalidInput("the text of the job is no object with a problem", pointer="/problem")
    body["problem"]["network"] = json.loads(network)
    return as_text(body)


async def read(text: str) -> JobRequest:
    """The job in a form's text. InvalidInput with pointers into it."""
    return await bodies.parse(_REQUEST, text.encode())


def fingerprint(text: str) -> str:
    """A digest that tells whether a text is the one that was priced. Line ends do not count, since
    forms send CR LF and scripts send LF."""
    return hashlib.sha256(text.replace("\r\n", "\n").encode()).hexdigest()


def status_of(error: DiscreetError) -> int:
    """The status that the API would answer with."""
    return of_error(error).status_code
