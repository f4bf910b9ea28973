"""A job's page as one file that needs no server: answer, charts, numbers and certificate, to keep,
print and share."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import anyio.to_thread
from fastapi import APIRouter
from starlette.responses import Response

from discreet.dashboard import answers, assets, results, submissions
from discreet.dashboard.answers import Answer
from discreet.dashboard.pages import HEADERS, environment
from discreet.dashboard.sessions import Submitter
from discreet.errors import Conflict, Gone
from discreet.ledger.proofs import place_of
from discreet.usecases import transparency
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

LINK = re.compile(r'<a [^>]*href="/[^>]*>(.*?)</a>', re.DOTALL)
ACTIONS = re.compile(r'<span class="actions">.*?</span>', re.DOTALL)
"""Links and actions need the server and are left out. Templates escape all text, so no name can
match either pattern."""
HEAD, END = "</head>", "</body>"


@router.get("/jobs/{job_id}/page.html")
async def download_page(job_id: str, services: CurrentServices, viewer: Submitter) -> Response:
    """The file. Gone if the result was deleted, Conflict if there is none."""
    found = await answers.of_job(services, viewer, job_id)
    if found.gone is not None:
        raise Gone(found.gone, code="result_gone")
    if found.result is None:
        raise Conflict("there is no result to save", code="no_result")
    if found.certificate is not None:
        certificate = await transparency.proven(
            services, viewer.principal.tenant_id, found.certificate
        )
        found = replace(found, certificate=certificate)
    text = await anyio.to_thread.run_sync(whole, found)
    name = {"Content-Disposition": f'attachment; filename="{job_id}.html"'}
    return Response(text, media_type="text/html", headers={**HEADERS, **name})


def whole(found: Answer) -> bytes:
    """The page with its style, scripts and charts inside; its own Content-Security-Policy allows no
    requests."""
    page = environment.get_template("export.html").render(
        job=found.job,
        plan=found.row["plan"],
        problem_text=submissions.as_text(found.problem),
        result=found.result,
        told=found.told,
        headlines=found.headlines,
        mostly_noise=found.mostly_noise,
        not_converged=found.not_converged,
        certificate=found.certificate,
        place=None if found.certificate is None else place_of(found.certificate),
        charts=found.charts,
        has_pairs=False,
    )
    page = LINK.sub(r"\1", ACTIONS.sub("", page))
    held = assets.assets()
    style = f"<style>{held['style.css'].data.decode()}</style>"
    charts = "".join(
        '<script type="application/json" '
        f'data-source="/jobs/{found.job["id"]}/charts/{chart.name}.json">'
        f"{_inside(chart.to_json())}</script>"
        for chart in found.charts
    )
    plotly = results.plotly_text().replace("</script", "<\\/script")
    scripts = (
        f"{charts}<script>{plotly}</script><script "
        f'type="module">{held["charts.js"].data.decode()}</script>'
    )
    for place, more in ((HEAD, style), (END, scripts)):
        before, _, after = page.rpartition(place)
        page = f"{before}{more}{place}{after}"
    return page.encode()


def _inside(value: Any) -> str:
    """JSON for a script element, without `<`, which could end the element."""
    return json.dumps(value, allow_nan=False).replace("<", "\\u003c")
