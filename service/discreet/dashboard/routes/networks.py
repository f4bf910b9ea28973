"""Networks: the stored ones, one of them with its map, and a new one from files.

Networks are public, so files go to the server as they are; a sandboxed child reads them with the
code of `discreet network add`. The form of a job has its network's files read here too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from fastapi import APIRouter, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.dashboard import forms, job_forms, network_forms, paging, submissions
from discreet.dashboard.pages import HEADERS, render
from discreet.dashboard.results import chart_answer
from discreet.dashboard.sessions import Owner, Reader
from discreet.errors import (
    Conflict,
    DiscreetError,
    FieldIssue,
    InvalidInput,
    Limit,
    NotFound,
    PayloadTooLarge,
)
from discreet.figures.charts import Chart
from discreet.problems.road_networks.network import RoadNetwork, road_map
from discreet.usecases import objects
from discreet.usecases.requests import NetworkRequest
from discreet.usecases.services import Services
from discreet.web import bodies, form_files
from discreet.web.drawings import turns
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

PAGE = 50
LISTED_NODES = 300
"""Nodes of a network that its page lists, in the order of zones."""

_REQUEST: TypeAdapter[NetworkRequest] = TypeAdapter(NetworkRequest)


@router.get("/networks")
async def show_networks(
    request: Request, services: CurrentServices, viewer: Reader, after: str | None = None
) -> Response:
    """Networks, newest first."""
    rows = await objects.page(
        services, viewer.principal, RoadNetwork, paging.place(after), PAGE + 1
    )
    return render(
        request,
        "networks.html",
        networks=[objects.view(row) for row in rows[:PAGE]],
        more=paging.after(rows, PAGE),
    )


# A new one ----------------------------------------------------------------------------------------


@router.get("/networks/new")
async def show_form(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """The form of a new network."""
    return show_files(request, services, dict(network_forms.BLANK))


@router.post("/networks/new")
async def add(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Read the files and store their network, or show the errors beside the fields."""
    most = bodies.of_job(services.settings)
    async with form_files.held(request, most) as sent:
        found = await read_files(services, sent, most)
        if isinstance(found, Refused):
            return show_files(request, services, sent.fields, found)
        try:
            name, zones = json.dumps(found.name).encode(), json.dumps(found.zones).encode()
            body = b'{"name":%s,"zones":%s,"network":%s}' % (name, zones, found.network)
            wanted = await bodies.parse(_REQUEST, body)
            row, new = await objects.add(
                services, viewer.principal, wanted.name, wanted.network, wanted.known
            )
        except (InvalidInput, Conflict) as error:
            refused = Refused(error, network_forms.columns_before(sent.fields))
            return show_files(request, services, sent.fields, refused)
    told = Told(found.notes, found.warnings, new)
    content = await anyio.to_thread.run_sync(wanted.network.content)
    answer = await _page(request, row, content, told)
    answer.headers["Content-Location"] = f"/networks/{row['id']}"
    return answer


@dataclass(frozen=True)
class Refused:
    """Why files give no network, and the columns that are asked about."""

    error: DiscreetError
    columns: Sequence[dict[str, Any]] = ()


async def read_files(
    services: Services, sent: form_files.Sent, most: Limit
) -> objects.ReadNetwork | Refused:
    """The network in the files of a form, by its fields."""
    asked, before = network_forms.asked(sent.fields), network_forms.columns_before(sent.fields)
    issues = list(asked.issues)
    if not sent.files:
        issues.append(FieldIssue(f"/{network_forms.FILES}", "choose the files of a network"))
    if issues:
        return Refused(InvalidInput(issues), before)
    try:
        found = await objects.read(
            services,
            sent.files,
            sent.content,
            asked.options,
            network_forms.WORDS,
            most,
            chosen=asked.chosen,
        )
    except (InvalidInput, PayloadTooLarge) as error:
        return Refused(error, before)
    if isinstance(found, objects.NotRead):
        return Refused(InvalidInput(network_forms.issues_of(found.faults)), found.columns)
    return found


def show_files(
    request: Request,
    services: Services,
    form: forms.Form,
    refused: Refused | None = None,
    job: Mapping[str, str] | None = None,
) -> Response:
    """The form of a network's files; `job`: the fields of the form of a job that it is for."""
    columns = () if refused is None else refused.columns
    form = network_forms.with_units(columns, form)
    error = None if refused is None else refused.error
    issues = error.issues if isinstance(error, InvalidInput) else []
    beside: dict[str, list[str]] = {}
    for issue in issues:
        beside.setdefault(issue.pointer.strip("/"), []).append(issue.detail)
    shown = {*network_forms.BLANK, network_forms.COLUMNS, network_forms.FILES}
    return render(
        request,
        "network_new.html",
        status=200 if error is None else submissions.status_of(error),
        form={**dict.fromkeys(network_forms.BLANK, ""), **form},
        job=job,
        pairs=network_forms.PAIRS,
        ticks=network_forms.TICKS,
        tables=network_forms.tables(columns, form),
        most_bytes=bodies.of_job(services.settings).allowed,
        refused=error,
        beside=beside,
        elsewhere=[issue for issue in issues if issue.pointer.strip("/") not in shown],
    )


# One network --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """The reader's notes on the files, which are shown once, and whether their network is new."""

    notes: list[str]
    warnings: list[str]
    new: bool


@dataclass(frozen=True)
class Drawn:
    """A network as its page shows it; `chart` is its map if it has one."""

    network: RoadNetwork
    zones: int | None
    chart: Chart | None


@router.get("/networks/{network_id}")
async def show_network(
    network_id: str, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """One network: its figures, the order of its nodes, its map."""
    row, content = await objects.find(services, viewer.principal, network_id, RoadNetwork)
    return await _page(request, row, content)


@router.get("/networks/{network_id}/network.json")
async def download(network_id: str, services: CurrentServices, viewer: Reader) -> Response:
    """Its canonical JSON, as jobs and certificates know it."""
    _, content = await objects.find(services, viewer.principal, network_id, RoadNetwork)
    named = {"Content-Disposition": f'attachment; filename="{network_id}.json"'}
    return Response(content, media_type="application/json", headers={**HEADERS, **named})


@router.get("/networks/{network_id}/charts/map.json")
async def show_map(network_id: str, services: CurrentServices, viewer: Reader) -> Response:
    """The map as plotly.js reads it."""
    row, content = await objects.find(services, viewer.principal, network_id, RoadNetwork)
    chart = (await _drawn(row, content)).chart
    if chart is None:
        raise NotFound("this network has no map")
    return await chart_answer(chart)


async def _page(
    request: Request, row: dict[str, Any], content: bytes, told: Told | None = None
) -> Response:
    drawn = await _drawn(row, content)
    listed = min(drawn.network.nodes, drawn.zones or LISTED_NODES, LISTED_NODES)
    return render(
        request,
        "network.html",
        status=201 if told is not None and told.new else 200,
        network=objects.view(row),
        road=drawn.network,
        zones=drawn.zones,
        nodes=[drawn.network.called(node) for node in range(1, listed + 1)],
        charts=[] if drawn.chart is None else [drawn.chart],
        told=told,
        kind=job_forms.kind_of(RoadNetwork)[0],
    )


async def _drawn(row: dict[str, Any], content: bytes) -> Drawn:
    def draw() -> Drawn:
        network = RoadNetwork.model_validate_json(content)
        through = network.first_through_node - 1
        zones: int | None = row["sizes"].get("zones") or through or None
        return Drawn(network, zones, road_map(network, zones))

    async with turns():
        return await anyio.to_thread.run_sync(draw)
