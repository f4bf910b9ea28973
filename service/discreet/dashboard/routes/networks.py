"""Networks: the stored ones, one of them with its map, and a new one from files.

Networks are public, so files go to the server as they are; a sandboxed child reads them with the
code of `discreet network add`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    return _form(request, services, dict(network_forms.BLANK))


@router.post("/networks/new")
async def add(request: Request, services: CurrentServices, viewer: Owner) -> Response:
    """Read the files and store their network, or show the errors beside the fields."""
    most = bodies.of_job(services.settings)
    async with form_files.held(request, most) as sent:
        form = sent.fields
        asked = network_forms.asked(form)
        issues = list(asked.issues)
        if not sent.files:
            issues.append(FieldIssue(f"/{network_forms.FILES}", "choose the files of a network"))
        if issues:
            columns = network_forms.columns_before(form)
            return _form(request, services, form, InvalidInput(issues), columns)
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
            return _form(request, services, form, error, network_forms.columns_before(form))
        if isinstance(found, objects.NotRead):
            refused = InvalidInput(network_forms.issues_of(found.faults))
            return _form(request, services, form, refused, found.columns)
        try:
            name, zones = json.dumps(found.name).encode(), json.dumps(found.zones).encode()
            body = b'{"name":%s,"zones":%s,"network":%s}' % (name, zones, found.network)
            wanted = await bodies.parse(_REQUEST, body)
            row, new = await objects.add(
                services, viewer.principal, wanted.name, wanted.network, wanted.known
            )
        except (InvalidInput, Conflict) as error:
            return _form(request, services, form, error, network_forms.columns_before(form))
    told = Told(found.notes, found.warnings, new)
    content = await anyio.to_thread.run_sync(wanted.network.content)
    answer = await _page(request, row, content, told)
    answer.headers["Content-Location"] = f"/networks/{row['id']}"
    return answer


def _form(
    request: Request,
    services: Services,
    form: forms.Form,
    refused: DiscreetError | None = None,
    columns: Sequence[dict[str, Any]] = (),
) -> Response:
    form = network_forms.with_units(columns, form)
    issues = refused.issues if isinstance(refused, InvalidInput) else []
    beside: dict[str, list[str]] = {}
    for issue in issues:
        beside.setdefault(issue.pointer.strip("/"), []).append(issue.detail)
    shown = {*network_forms.BLANK, network_forms.COLUMNS, network_forms.FILES}
    return render(
        request,
        "network_new.html",
        status=200 if refused is None else submissions.status_of(refused),
        form={**dict.fromkeys(network_forms.BLANK, ""), **form},
        pairs=network_forms.PAIRS,
        ticks=network_forms.TICKS,
        tables=network_forms.tables(columns, form),
        most_bytes=bodies.of_job(services.settings).allowed,
        refused=refused,
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
