"""Results on pages: charts as JSON, paths of one pair of zones, downloads, and plotly.js itself.

plotly.js comes from the installed plotly package. Only `static/charts.js` loads it, when a chart
comes into view.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from discreet.dashboard import assets
from discreet.dashboard.pages import HEADERS, environment, render
from discreet.dashboard.sessions import CurrentViewer, Viewer
from discreet.errors import Conflict, InvalidInput, NotFound
from discreet.figures.charts import Chart
from discreet.figures.timelines import session_chart
from discreet.problems.charts import charts_module
from discreet.problems.federation import is_session
from discreet.usecases import jobs, published
from discreet.usecases.services import Services
from discreet.usecases.sessions import records, rosters
from discreet.web.drawings import Drawn, drawn
from discreet.web.responses import resource
from discreet.web.results import result_text
from discreet.web.security import CurrentServices

EXCEL = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"

router = APIRouter(include_in_schema=False)


async def charts_of(services: Services, viewer: Viewer, row: Mapping[str, Any]) -> list[Chart]:
    """Every chart of a job's page: the agents of its session, and its result if there is one that
    this viewer may see."""
    charts: list[Chart] = []
    if is_session(row["problem"]) and (session := await _session(services, viewer, row)).table.rows:
        charts.append(session)
    if row["state"] == "succeeded" and viewer.may(*jobs.SUBMITTERS):
        charts += (await drawn(services, viewer.principal, row["id"])).charts
    return charts


async def _session(services: Services, viewer: Viewer, row: Mapping[str, Any]) -> Chart:
    shown = await rosters.show(services, viewer.principal, row["id"])
    problem = records.stored_problem(row)
    return session_chart(shown, row, "" if problem is None else problem.server_sees)


async def chart_answer(chart: Chart) -> Response:
    """A chart for the page's script."""
    text = await anyio.to_thread.run_sync(lambda: json.dumps(chart.to_json(), allow_nan=False))
    return Response(text, media_type="application/json", headers=HEADERS)


@router.get("/jobs/{job_id}/charts/{name}.json")
async def show_chart(
    job_id: str,
    name: str,
    services: CurrentServices,
    viewer: CurrentViewer,
    origin: Annotated[int | None, Query(ge=1)] = None,
    destination: Annotated[int | None, Query(ge=1)] = None,
) -> Response:
    """One chart as plotly.js reads it; the map also with the paths of a pair of zones."""
    row = await jobs.find(services, viewer.principal, job_id)
    if name == "session" and is_session(row["problem"]):
        return await chart_answer(await _session(services, viewer, row))
    found = await drawn(services, viewer.principal, job_id)
    has_map = any(chart.name == "network" for chart in found.charts)
    if name == "network" and has_map and origin is not None and destination is not None:
        chosen = await _paths(services, viewer, found, origin, destination)
        return await chart_answer(await anyio.to_thread.run_sync(_pair_map, found, chosen))
    for chart in found.charts:
        if chart.name == name:
            return await chart_answer(chart)
    raise NotFound("there is no such chart")


# The policy of one pair of zones ------------------------------------------------------------------


@router.get("/jobs/{job_id}/policy")
async def show_policy(
    request: Request,
    job_id: str,
    services: CurrentServices,
    viewer: CurrentViewer,
    origin: Annotated[int | None, Query(ge=1)] = None,
    destination: Annotated[int | None, Query(ge=1)] = None,
    part: str = "",
) -> Response:
    """The paths of one pair with their shares: a page, or with `part=answer` the part of it that a
    script inserts."""
    found = await drawn(services, viewer.principal, job_id)
    if not has_pairs(found.row["kind"]):
        raise NotFound("this kind of result has no paths")
    drawing = charts_module(found.row["kind"])
    zones = drawing.pairs(found.row["problem"], found.result)
    context: dict[str, Any] = {
        "job": jobs.view(found.row, viewer.principal),
        "zones": zones,
        "zone_names": zone_names(found.row["problem"], found.result),
        "origin": origin,
        "destination": destination,
        "paths": None,
        "refused": None,
    }
    charts: list[Chart] = []
    if origin is not None and destination is not None:
        try:
            paths = await _paths(services, viewer, found, origin, destination)
        except InvalidInput as refused:
            context["refused"] = refused.issues[0].detail
        else:
            context["paths"] = drawing.pair_paths(found.row["problem"], paths)
            if not part and any(chart.name == "network" for chart in found.charts):
                charts.append(await anyio.to_thread.run_sync(_pair_map, found, paths))
    if part == "answer":
        text = environment.get_template("results/policy_answer.html").render(**context)
        return Response(text, media_type="text/html", headers=HEADERS)
    return render(request, "results/policy.html", charts=charts, **context)


def zone_names(problem: dict[str, Any], result: dict[str, Any]) -> list[str]:
    """Names of the zones between which a result has paths; empty if they have only numbers, or if
    the result has no paths."""
    if not has_pairs(problem["kind"]):
        return []
    names: list[str] | None = charts_module(problem["kind"]).zone_names(problem, result)
    return names or []


def has_pairs(kind: str) -> bool:
    """Whether results of a kind have paths between pairs of zones."""
    return hasattr(charts_module(kind), "pairs")


async def _paths(
    services: Services, viewer: Viewer, found: Drawn, origin: int, destination: int
) -> list[dict[str, Any]]:
    """The paths of a pair, largest share first. InvalidInput for a pair that is not in the
    policy."""
    if origin == destination:
        raise InvalidInput(
            "origin and destination are the same zone: nothing to route", pointer="/destination"
        )
    if "policy" in found.result:
        pairs = found.result["policy"]
        paths = next(
            (
                p["paths"]
                for p in pairs
                if p["origin"] == origin and p["destination"] == destination
            ),
            None,
        )
    else:
        table = await published.result_table(services, viewer.principal, found.row["id"], "policy")
        paths = await anyio.to_thread.run_sync(_paths_of_table, table, origin, destination)
    if not paths:
        raise InvalidInput(
            f"the policy has no paths from zone {origin} to zone {destination}", pointer="/origin"
        )
    return sorted(paths, key=lambda path: -path["share"])


def _paths_of_table(parquet: bytes, origin: int, destination: int) -> list[dict[str, Any]]:
    # Loaded here: most results have no tables, and these two take 19 MB.
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    table = pq.read_table(io.BytesIO(parquet))
    chosen = table.filter((pc.field("origin") == origin) & (pc.field("destination") == destination))
    return [{"links": row["links"], "share": row["share"]} for row in chosen.to_pylist()]


def _pair_map(found: Drawn, paths: Sequence[dict[str, Any]]) -> Chart:
    chart: Chart = charts_module(found.row["kind"]).pair_map(
        found.row["problem"], found.plan, found.result, paths
    )
    return chart


# Downloads ----------------------------------------------------------------------------------------


@router.get("/jobs/{job_id}/result.json")
async def download_result(
    job_id: str, request: Request, services: CurrentServices, viewer: CurrentViewer
) -> Response:
    """The result with its certificate, as the API gives it."""
    response = resource(request, await result_text(services, viewer.principal, job_id))
    response.headers.update(_download(f"{job_id}.json"))
    return response


@router.get("/jobs/{job_id}/result.xlsx")
async def download_workbook(
    job_id: str, services: CurrentServices, viewer: CurrentViewer
) -> Response:
    """The result as an Excel workbook, a sheet for each of its tables."""
    found = await drawn(services, viewer.principal, job_id)
    job = jobs.view(found.row, viewer.principal)
    workbook = await anyio.to_thread.run_sync(_workbook, found, job)
    return Response(workbook, media_type=EXCEL, headers=_download(f"{job_id}.xlsx"))


def _workbook(found: Drawn, job: Mapping[str, Any]) -> bytes:
    from discreet_client.answers import answer_of  # noqa: PLC0415 - few ask for it
    from discreet_client.flows import NotWritten  # noqa: PLC0415
    from discreet_client.results import written  # noqa: PLC0415

    answer = answer_of({"job": job, "result": found.result}, {})
    answer.network = found.row["problem"].get("network") or {}
    try:
        return written(answer, "xlsx")
    except NotWritten as error:
        raise Conflict(str(error), code="no_result") from None


@router.get("/jobs/{job_id}/result/{table}.parquet")
async def download_table(
    job_id: str, table: str, services: CurrentServices, viewer: CurrentViewer
) -> Response:
    """A large field of the result."""
    parquet = await published.result_table(services, viewer.principal, job_id, table)
    return Response(
        parquet,
        media_type="application/vnd.apache.parquet",
        headers=_download(f"{job_id}-{table}.parquet"),
    )


def _download(name: str) -> dict[str, str]:
    return {**HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}


# plotly.js ----------------------------------------------------------------------------------------


@cache
def _plotly_file() -> tuple[bytes, str]:
    """plotly.js of the installed package, and the digest that names it."""
    data = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    return data, hashlib.sha256(data).hexdigest()[:16]


def plotly_text() -> str:
    """plotly.js itself, for a page that carries it."""
    return _plotly_file()[0].decode()


@cache
def plotly() -> assets.Asset:
    """The file, compressed once when the first chart is drawn, in some tenths of a second."""
    data, version = _plotly_file()
    return assets.Asset(data, gzip.compress(data, mtime=0), version, "text/javascript")


def plotly_address() -> str:
    """The address from which charts.js loads it."""
    return f"/plotly.js?v={_plotly_file()[1]}"


@router.get("/plotly.js")
async def read_plotly(request: Request) -> Response:
    """plotly.js, which browsers may cache for ever under its version."""
    return assets.answer(request, await anyio.to_thread.run_sync(plotly))


environment.globals.update(plotly_address=plotly_address)
