"""A job as its pages show it: what was asked, and its result with its uncertainty, if the viewer
may see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
import structlog

from discreet.dashboard import results
from discreet.dashboard.sessions import Viewer
from discreet.errors import Gone, ResultAltered, Unavailable
from discreet.figures.charts import Chart
from discreet.problems.answers import headlines_of
from discreet.problems.charts import charts_module
from discreet.problems.results import Headline
from discreet.usecases import budgets, jobs, objects, published
from discreet.usecases.services import Services
from discreet.web import drawings
from discreet_client import intervals
from discreet_client.certificates import charged_accounts

log = structlog.get_logger()

NOT_WHAT_WAS_PUBLISHED = ("result_altered", "object_altered", "signing_key_unknown")
"""Error codes of a stored result that is not the one that its certificate signed."""

MOST_BUDGETS = 3
"""Budgets that a job's page shows: its dataset's, and the caps of its tenant and principal. A job
with more is charged to agents or blocks, and its page shows none."""

Told = tuple[str, str, bool]
"""The uncertainty that a result states: the field, the statement in words, and whether the field is
a single number."""


@dataclass(frozen=True)
class Answer:
    """A job, and its result if there is one that the viewer may see."""

    row: Mapping[str, Any]
    job: dict[str, Any]
    problem: dict[str, Any]
    """The problem, without what the viewer may not read."""
    result: dict[str, Any] | None
    told: list[Told]
    headlines: list[Headline]
    """What it answers, in sentences; the answer itself first."""
    certificate: dict[str, Any] | None
    altered: str | None
    """Why a stored result is not shown."""
    gone: str | None
    """Why the result was deleted; its certificate remains."""
    charts: list[Chart]
    left: list[dict[str, Any]]
    """The budgets that it was charged to, as they are now; empty as of `_left`."""
    zone_names: list[str]
    """Names of the zones whose paths can be looked up; empty if they have only numbers, or if the
    result has no paths."""

    @property
    def mostly_noise(self) -> bool:
        return self.result is not None and intervals.is_mostly_noise(self.result)

    @property
    def not_converged(self) -> bool:
        return self.result is not None and intervals.is_not_converged(self.result)


def view(row: dict[str, Any], viewer: Viewer) -> dict[str, Any]:
    """The job as the API shows it, with a default for each optional field that templates read."""
    absent: dict[str, Any] = {
        "name": None,
        "dataset_name": None,
        "simulation": False,
        "mostly_noise": False,
        "headline": None,
        "release": [],
    }
    return {**absent, **jobs.view(row, viewer.principal), "asked_name": row["asked_name"]}


async def of_job(services: Services, viewer: Viewer, job_id: str) -> Answer:
    """The job and its answer. NotFound for a job of another tenant or one that never existed."""
    row = await jobs.find(services, viewer.principal, job_id)
    result: dict[str, Any] | None = None
    told: list[Told] = []
    headlines: list[Headline] = []
    zone_names: list[str] = []
    certificate: dict[str, Any] | None = None
    altered: str | None = None
    gone: str | None = None
    if row["state"] == "succeeded" and viewer.may(*jobs.SUBMITTERS):
        try:
            _, text, certificate = await published.result(services, viewer.principal, job_id)
            async with drawings.turns() if objects.names_any(row["problem"]) else nullcontext():
                problem = await objects.filled_text(services, viewer.principal, row["problem"])
                result, told, headlines, zone_names = await anyio.to_thread.run_sync(
                    _read, text, problem
                )
                del problem
        except Gone as error:
            gone = error.detail
            _, certificate = await published.certificate(services, viewer.principal, job_id)
        except (ResultAltered, Unavailable) as error:
            if error.code not in NOT_WHAT_WAS_PUBLISHED:
                raise
            altered = error.detail
    job = view(row, viewer)
    if certificate is not None and certificate["guarantee"]["type"] == "none":
        job["simulation"] = True  # also when its dataset is gone
    try:
        charts = [] if altered or gone else await results.charts_of(services, viewer, row)
    except Gone:  # the result was deleted since it was read above
        return await of_job(services, viewer, job_id)
    return Answer(
        row,
        job,
        jobs.problem_view(row, viewer.principal),
        result,
        told,
        headlines,
        certificate,
        altered,
        gone,
        charts,
        await _left(services, viewer, certificate),
        zone_names,
    )


async def _left(
    services: Services, viewer: Viewer, certificate: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """The budgets that a certificate's job was charged to; empty if they belong to agents or are
    more than MOST_BUDGETS."""
    entries = [] if certificate is None else certificate["ledger_entry"]
    names = [name for entry in entries for name in charged_accounts(entry)]
    if len(names) > MOST_BUDGETS:
        return []
    found = [await budgets.one_budget(services, viewer.principal, name) for name in names]
    return [one for one in found if one["scope"] != "agent"]


def _read(
    text: bytes, problem: dict[str, Any]
) -> tuple[dict[str, Any], list[Told], list[Headline], list[str]]:
    result: dict[str, Any] = json.loads(text)
    called = getattr(
        charts_module(problem["kind"]), "row_names", lambda problem, result, field: None
    )
    told = [
        (
            one.name,
            intervals.spelt_out(one.words(called(problem, result, one.name))),
            intervals.is_number(one.value),
        )
        for one in intervals.stated(result)
    ]
    try:
        headlines = headlines_of(problem, result)
    except Exception:  # a sentence that cannot be made is no reason to hide the result
        log.exception("a result has no headline", kind=problem["kind"])
        headlines = []
    return result, told, headlines, results.zone_names(problem, result)
