"""Rehearsals: jobs without a price that solve a problem on synthetic data with the public shape of
its dataset."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.intake.field_issues import issues_of
from discreet.problems import DATASETS, KINDS
from discreet.problems.around import EarlierRelease
from discreet.problems.rehearsals.job import Earlier, Rehearsal
from discreet.storage.tenants import Principal
from discreet.usecases import earlier, jobs
from discreet.usecases.access import require
from discreet.usecases.requests import RehearsalRequest
from discreet.usecases.services import Services

AROUND = "/around"


async def rehearsal(services: Services, principal: Principal, asked: RehearsalRequest) -> Rehearsal:
    """The rehearsal that a request asks for. NotFound if its dataset does not exist; the content of
    the dataset is never read."""
    require(principal, *jobs.SUBMITTERS)
    public = asked.public
    if getattr(asked.problem, "protocol", "job") != "job":
        raise InvalidInput(
            "a rehearsal runs in one process: protocol `job`", pointer="/problem/protocol"
        )
    if public is None and asked.problem.kind in DATASETS:
        if (
            getattr(asked.problem, "dataset", None) is None
            and getattr(asked.problem, "source", None) is None
        ):
            says = "a rehearsal needs the dataset whose public shape is rehearsed, or `public`"
            raise InvalidInput(says, pointer="/problem/dataset")
        _, found = await services.planner.data(services.database, principal, asked.problem)
        if found.kind != asked.problem.kind:
            raise InvalidInput(
                f"data of kind {found.kind}, not {asked.problem.kind}", pointer=found.pointer
            )
        public = found.public.model_dump(mode="json")
    around = None
    if asked.around is not None:
        around = await earlier.find(services, principal, asked.around, asked.problem.kind, AROUND)
    return made(asked, public or {}, around)


def made(
    asked: RehearsalRequest, public: dict[str, Any], around: EarlierRelease | None = None
) -> Rehearsal:
    """The rehearsal that a request asks for, on this public part. InvalidInput if the public part
    is not valid for the kind."""
    if asked.problem.kind in DATASETS:
        try:
            DATASETS[asked.problem.kind].read_public(public)
        except ValidationError as error:
            issues = issues_of(error.errors(include_url=False), public)
            raise InvalidInput(issues).under("/public") from None
    if around is not None:
        around.shaped(DATASETS[asked.problem.kind].read_public(public), AROUND)
    return Rehearsal(
        problem=asked.problem.model_dump(mode="json"),
        public=public,
        epsilons=asked.epsilons,
        delta=None if asked.privacy is None else asked.privacy.delta,
        of_units=asked.units,
        around=None if around is None else _stored(around),
        seed=asked.seed,
    )


def _stored(around: EarlierRelease) -> Earlier:
    problem, public, plan = (
        one.model_dump(mode="json") for one in (around.problem, around.public, around.plan)
    )
    return Earlier(job=around.job_id, problem=problem, public=public, plan=plan)


async def submit(
    services: Services,
    principal: Principal,
    *,
    idempotency_key: str,
    request: bytes,
    asked: RehearsalRequest,
) -> dict[str, Any]:
    """Accept a rehearsal as a job: it is queued like any other, costs nothing, and its certificate
    says `none`."""
    return await jobs.submit(
        services,
        principal,
        idempotency_key=idempotency_key,
        request=b"rehearsal " + request,  # the same body is a job elsewhere
        problem=await rehearsal(services, principal, asked),
        privacy=None,
        seed=None,
        name=asked.name or f"Rehearsal: {KINDS[asked.problem.kind].title}",
    )
