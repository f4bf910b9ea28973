"""A request that asks jobs again: what they released, whether that answers the request, and the
plan, whose price is 0."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from discreet.errors import Conflict, FieldIssue, InvalidInput, NotFound, ReleaseDiffers
from discreet.problems import KINDS, read_as_one
from discreet.problems.base import Problem
from discreet.problems.federation import is_session
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Plan
from discreet.problems.reuse import MOST_RELEASES, ProblemOnData, differences, plan_of, unlike
from discreet.storage import jobs
from discreet.storage.database import Database
from discreet.storage.jobs import FINAL
from discreet.storage.tenants import Principal

POINTER = "/problem/release"
MOST_BYTES = 1 << 29
"""Of all releases that one answer is made of: the worker and its child hold them at once."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Asked:
    """Jobs that may be asked this: a function of what is stored, made into a plan without further
    looks."""

    problem: ProblemOnData
    """With the jobs that released, where a job was named that asked these itself."""
    public: Any
    firsts: tuple[Plan, ...]
    first: ProblemOnData
    """The problem of the first of these jobs, as it is stored."""

    def plan(self, whole: ProblemOnData) -> Plan:
        """`whole` is the problem with the public objects that it names."""
        return plan_of(whole, self.public, self.firsts, self.problem.first_jobs)

    def require_same_places(self, whole: ProblemOnData, first: ProblemOnData) -> None:
        """ReleaseDiffers where what was released means something else in `whole` than in `first`,
        both with the public objects that they name."""
        if issues := whole.means_otherwise(first, self.public):
            raise ReleaseDiffers(issues)


async def find(
    database: Database,
    principal: Principal,
    problem: ProblemOnData,
    privacy: Privacy | None,
    seed: int | None,
) -> Asked:
    """NotFound for jobs that this tenant does not have, Conflict for those without a release,
    ReleaseDiffers with pointers to fields that these fixed otherwise, InvalidInput for fields
    that a free question may not have."""
    given = []
    if privacy is not None:
        given.append(
            FieldIssue(
                "/privacy",
                "leave privacy out: the release is paid for, and this costs nothing",
            )
        )
    if seed is not None:
        given.append(
            FieldIssue("/seed", "no noise is drawn: it was drawn when the first job released")
        )
    if given:
        raise InvalidInput(given)
    async with database.transaction(principal.tenant_id) as connection:
        named = await jobs.to_ask_again(connection, principal.tenant_id, problem.first_jobs)
        for place, job_id in enumerate(problem.first_jobs):
            if job_id not in named:
                raise NotFound(f"there is no job {job_id}", pointer=_pointer(problem, place))
        # Whoever asked again has released nothing: meant are those whom it asked. Each once, or it
        # would count twice.
        roots = list(
            dict.fromkeys(
                one for name in problem.first_jobs for one in named[name]["released_by"] or [name]
            )
        )
        if len(roots) > MOST_RELEASES:  # before their rows are read, which may be large
            says = f"these are {len(roots)} releases; at most {MOST_RELEASES} can be combined"
            raise InvalidInput(says, pointer=POINTER)
        found = await jobs.to_ask_again(connection, principal.tenant_id, roots)
    for job_id in roots:
        if (why := nothing_released(found[job_id])) is not None:
            raise Conflict(f"{job_id} {why}", code="no_release")
    kinds = [FieldIssue("/problem/kind", f"{one} is of kind {found[one]['kind']}") for one in roots]
    if issues := [
        issue for issue, one in zip(kinds, roots, strict=True) if found[one]["kind"] != problem.kind
    ]:
        raise ReleaseDiffers(issues)
    first = found[roots[0]]
    if others := [one for one in roots if found[one]["dataset_id"] != first["dataset_id"]]:
        says = f"{others[0]} released of another dataset than {roots[0]}"
        raise ReleaseDiffers([FieldIssue(POINTER, says)])
    seeds = [row["seed"] for row in found.values() if row["seed"] is not None]
    if len(set(seeds)) < len(seeds):
        says = (
            "two of these are simulations with the same seed, so their noise is the same and "
            "combining them would not reduce it"
        )
        raise InvalidInput(says, pointer=POINTER)
    if (size := sum(one["bytes"] for one in found.values())) > MOST_BYTES:
        raise InvalidInput(
            f"these releases have {size} bytes, at most {MOST_BYTES} are combined", pointer=POINTER
        )
    return await anyio.to_thread.run_sync(
        _compared, problem, {job_id: found[job_id] for job_id in roots}
    )


async def free(database: Database, principal: Principal, row: Row) -> tuple[frozenset[str], Any]:
    """The fields that may have another value when a job, as `jobs.find` gives it, is asked again,
    and the public part of the data that were released; no fields where nothing is kept that could
    be asked."""
    problem, public = await _kept(database, principal, row)
    return (frozenset() if problem is None else problem.free(public)), public


async def questions(database: Database, principal: Principal, row: Row) -> list[str] | None:
    """The fields by which a job, as `jobs.find` gives it, is asked something else; None where
    nothing is kept of it."""
    problem, public = await _kept(database, principal, row)
    return None if problem is None else problem.questions(public)


async def _kept(database: Database, principal: Principal, row: Row) -> tuple[Problem | None, Any]:
    """The problem of a job and the public part of the data of which its release is kept; None where
    none is."""
    root = (row["released_by"] or [row["id"]])[0]
    async with database.transaction(principal.tenant_id) as connection:
        first = (await jobs.to_ask_again(connection, principal.tenant_id, [root])).get(root)
    if first is None or nothing_released(first) is not None:
        return None, None

    def read() -> tuple[Problem, Any]:
        public = read_as_one(row["kind"], first["publics"])
        return KINDS[row["kind"]].model_validate(row["problem"]), public

    return await anyio.to_thread.run_sync(read)


def _compared(problem: ProblemOnData, firsts: Mapping[str, Row]) -> Asked:
    public = read_as_one(problem.kind, next(iter(firsts.values()))["publics"])
    for job_id, row in firsts.items():
        if issues := differences(
            KINDS[problem.kind].model_validate(row["problem"]), problem, public, job_id
        ):
            raise ReleaseDiffers(issues)
    plans = tuple(Plan.model_validate(row["plan"]) for row in firsts.values())
    if len(plans) > 1 and not problem.noised_sums(plans[0]):
        says = (
            "these releases cannot be combined: only sums with added noise can, and this method "
            "releases something else"
        )
        raise InvalidInput(says, pointer=POINTER)
    if issues := unlike(plans, list(firsts)):
        raise ReleaseDiffers(issues)
    first = KINDS[problem.kind].model_validate(next(iter(firsts.values()))["problem"])
    assert isinstance(first, ProblemOnData)
    return Asked(problem.model_copy(update={"asked_of": tuple(firsts)}), public, plans, first)


def nothing_released(row: Row) -> str | None:
    """Why a job has nothing that can be asked again, after its id."""
    if is_session(row["problem"]):
        return "was solved by agents, and their session's release is not kept here"
    if row["state"] not in FINAL:
        return f"is {row['state']}: it has no result yet"
    if row["state"] != "succeeded":
        return f"has ended as {row['state']}: it has no result, and no release is kept"
    if row["kept"]:
        return None
    if row["result_gone_at"] is not None:
        return (
            f"ended long ago: its result and its release were deleted on "
            f"{row['result_gone_at']:%Y-%m-%d}, at the end of the operator's retention period "
            "(DISCREET_RESULT_RETENTION_DAYS)"
        )
    if row["mode"] == "simulation" and row["deleted_at"] is not None:
        return (
            "was a simulation on a dataset that was erased, and its release, which holds its "
            "data, with it"
        )
    if row["mode"] == "simulation" and row["corrected"]:
        return (
            "was a simulation on a dataset that was corrected since, and its release, which is of "
            "what that was, was deleted"
        )
    if row["dataset_id"] is None:
        return "has no dataset, so it released nothing about one"
    return "ended under an older version, which did not keep what it released"


def _pointer(problem: ProblemOnData, place: int) -> str:
    return POINTER if isinstance(problem.asked_of, str) else f"{POINTER}/{place}"
