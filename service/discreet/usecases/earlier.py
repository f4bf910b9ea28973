"""Earlier jobs around whose releases others are planned or rehearsed, free for everybody who may
read them."""

from __future__ import annotations

import anyio.to_thread

from discreet.errors import Conflict, InvalidInput, NotFound
from discreet.problems import KINDS, read_as_one
from discreet.problems.around import EarlierRelease, profiled
from discreet.problems.base import Problem
from discreet.problems.contents import unpack
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Plan
from discreet.storage import jobs
from discreet.storage.tenants import Principal
from discreet.usecases import releases
from discreet.usecases.asking import nothing_released
from discreet.usecases.endings import FAILURES
from discreet.usecases.services import Services

POINTER = "/privacy/accuracy/around"
MOST_BYTES = 1 << 26
"""Of a release: this process opens it, and makes figures of it."""


async def of_accuracy(
    services: Services, principal: Principal, problem: Problem, privacy: Privacy | None
) -> EarlierRelease | None:
    """The job that an accuracy names, if it names one."""
    if privacy is None or privacy.accuracy is None or privacy.accuracy.around is None:
        return None
    return await find(services, principal, privacy.accuracy.around, problem.kind, POINTER)


async def find(
    services: Services, principal: Principal, job_id: str, kind: str, pointer: str
) -> EarlierRelease:
    """NotFound for a job that this tenant has not, Conflict for one without a release, InvalidInput
    for one of another kind, or whose release tells no figures. Of a job that asked others again the
    first of these is meant."""
    async with services.database.transaction(principal.tenant_id) as connection:
        named = (await jobs.to_ask_again(connection, principal.tenant_id, [job_id])).get(job_id)
        if named is None:
            raise NotFound(f"there is no job {job_id}", pointer=pointer)
        root = (named["released_by"] or [job_id])[0]
        row = (
            named
            if root == job_id
            else (await jobs.to_ask_again(connection, principal.tenant_id, [root]))[root]
        )
    if row["kind"] != kind:
        raise InvalidInput(f"{job_id} is of kind {row['kind']}, not {kind}", pointer=pointer)
    if (why := nothing_released(row)) is not None:
        raise Conflict(f"{root} {why}", code="no_release")
    if row["bytes"] > MOST_BYTES:
        raise InvalidInput(
            f"what {root} released has {row['bytes']} bytes, at most {MOST_BYTES} are",
            pointer=pointer,
        )
    try:
        ((first,), _) = await releases.firsts(services, principal.tenant_id, [root])
    except releases.NotAsked as error:
        raise Conflict(f"{root}: {FAILURES[error.code]}", code="no_release") from None
    except releases.MasterKeyAbsent:
        raise Conflict(f"{root}: {FAILURES['master_key_unknown']}", code="no_release") from None

    def figures() -> EarlierRelease:
        public = read_as_one(kind, row["publics"])
        problem, plan = KINDS[kind].model_validate(row["problem"]), Plan.model_validate(row["plan"])
        return profiled(problem, public, plan, unpack(first.released), root, pointer)

    return await anyio.to_thread.run_sync(figures)
