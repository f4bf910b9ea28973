"""Running one job without a server: the same use cases, the same ledger and the same isolated
children, in this process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from discreet.errors import DiscreetError, InvalidInput
from discreet.installation.prepared import embedded
from discreet.isolation.children import Zygote
from discreet.problems import DATASETS
from discreet.problems.budgets import budgeted
from discreet.problems.datasets import Dataset
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import (
    access,
    budgets,
    datasets,
    jobs,
    naming,
    objects,
    published,
    rehearsals,
    transparency,
)
from discreet.usecases.requests import DatasetRequest, JobRequest, RehearsalRequest
from discreet.usecases.services import Services, open_services
from discreet.web.bodies import validate
from discreet.web.responses import plain
from discreet.web.uploads import whole_registration
from discreet.worker.runner import Runner

OnProgress = Callable[[str, int, int], None]
Progress = Callable[[], contextlib.AbstractContextManager[OnProgress]]
Question = Callable[[dict[str, Any]], dict[str, Any]]
BodyOf = Callable[[Services, Principal], Awaitable[dict[str, Any]]]
OnOffer = Callable[[Mapping[str, Any], str], None]

_JOB: TypeAdapter[JobRequest] = TypeAdapter(JobRequest)
_REHEARSAL: TypeAdapter[RehearsalRequest] = TypeAdapter(RehearsalRequest)
_DATASET: TypeAdapter[DatasetRequest] = TypeAdapter(DatasetRequest)
_POLL_SECONDS = 0.1


def plan(body: dict[str, Any]) -> dict[str, Any]:
    """Plan and price of a job body with its dataset inside; needs neither server nor database."""
    public: Any = None
    if _kind_of(body) in DATASETS and body["problem"].get("protocol") != "federated":
        whole = _inline_dataset(body)
        with _below_dataset():
            public = whole.described().public
        body = _with_dataset(body, "inline")
    request = validate(_JOB, body)
    naming.require_whole(request.problem)
    made = budgeted(request.problem, public, request.privacy)
    answer: dict[str, Any] = {
        "plan": jobs.plan_view(made.plan),
        "price": jobs.price_view(made.plan.total),
    }
    if public is not None:
        answer["asked_again"] = request.problem.questions(public)
    return plain({**answer, "privacy": made.figures} if made.in_other_words else answer)


def rehearse(
    body: dict[str, Any],
    epsilons: Sequence[Decimal] | None,
    units: int | None,
    seed: int,
    on_progress: OnProgress,
) -> dict[str, Any]:
    """The result of a rehearsal of a job body with its dataset inside, of which the public part
    alone is used."""
    with _below_dataset():
        public = _inline_dataset(body).described().public.model_dump(mode="json")
    said = {
        "epsilons": epsilons or body.get("epsilons"),
        "units": units or body.get("units"),
        "seed": seed,
    }
    given = {name: value for name, value in said.items() if value is not None}
    kept: dict[str, Any] = {name: body[name] for name in ("problem", "privacy") if name in body}
    asked = validate(_REHEARSAL, {**_with_dataset(kept, "rehearsed"), "public": public, **given})
    naming.require_whole(asked.problem)
    wrapper = rehearsals.made(asked, public)
    plan = wrapper.plan(None, wrapper.budget(None))
    result = wrapper.finish(None, plan, {}, lambda step, total: on_progress("running", step, total))
    on_progress("succeeded", plan.resources.steps, plan.resources.steps)
    return plain({"result": result.to_json()})


def solve(
    settings: Settings, body: dict[str, Any], progress: Progress, on_offer: OnOffer
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the job on the state folder's own database: `{job, result, certificate}`, and the budgets
    that it was charged to, as they are then.

    `on_offer` hears of jobs that have released what is asked, and of the dataset's mode, before it
    is submitted; `progress` is entered then.
    """

    async def given(services: Services, owner: Principal) -> dict[str, Any]:
        if isinstance(body.get("problem"), dict) and isinstance(
            body["problem"].get("dataset"), dict
        ):
            row, _ = await datasets.register(
                services, owner, whole_registration(_inline_dataset(body))
            )
            return _with_dataset(body, row["id"])
        return body

    with embedded(settings) as ready:
        return asyncio.run(_solve(ready, given, progress, on_offer))


def ask(
    settings: Settings, job_id: str, question: Question, progress: Progress, *, whole: bool = False
) -> dict[str, Any]:
    """The same of a job of the state folder, of whose problem `question` makes the body that asks
    it again; with the objects that it names in the place of their ids where it needs these
    `whole`."""

    async def asked(services: Services, owner: Principal) -> dict[str, Any]:
        problem = (await jobs.find(services, owner, job_id))["problem"]
        return question(await objects.filled_text(services, owner, problem) if whole else problem)

    with embedded(settings) as ready:
        answer, _ = asyncio.run(_solve(ready, asked, progress, lambda planned, mode: None))
        return answer


async def _solve(
    settings: Settings, body_of: BodyOf, progress: Progress, on_offer: OnOffer
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    async with open_services(settings) as services:
        owner = await access.local_owner(services)
        body = await body_of(services, owner)
        request = validate(_JOB, body)
        planned = await jobs.price(services, owner, request.problem, request.privacy, request.seed)
        if planned["reusable"]:
            _, dataset = await services.planner.data(services.database, owner, request.problem)
            on_offer(planned, dataset.mode)
        job = await jobs.submit(
            services,
            owner,
            idempotency_key=str(uuid.uuid4()),
            request=json.dumps(body).encode(),
            problem=request.problem,
            privacy=request.privacy,
            seed=request.seed,
            name=request.name,
            wait=0,
        )
        with progress() as on_progress:
            watching = asyncio.create_task(_watch(services, owner, job["id"], on_progress))
            zygote = Zygote(settings.least_isolation)
            try:
                await Runner(services, zygote).run(job["id"])
            finally:
                watching.cancel()
                await zygote.stop()
            ended = await jobs.find(services, owner, job["id"])
            if ended["state"] != "succeeded":
                raise DiscreetError(f"job {ended['id']} {ended['state']}: {ended['error_detail']}")
            on_progress("succeeded", ended["total"], ended["total"])
        row, result, certificate = await published.result(services, owner, job["id"])
        certificate = await transparency.proven(services, owner.tenant_id, certificate)
        left = [
            await budgets.one_budget(services, owner, one["account"])
            for one in certificate["ledger_entry"]
        ]
    return plain(
        {"job": jobs.view(row, owner), "result": json.loads(result), "certificate": certificate}
    ), left


async def _watch(
    services: Services, owner: Principal, job_id: str, on_progress: OnProgress
) -> None:
    while True:
        row = await jobs.find(services, owner, job_id)
        on_progress(row["state"], row["step"], row["total"])
        await asyncio.sleep(_POLL_SECONDS)


def _kind_of(body: dict[str, Any]) -> Any:
    problem = body.get("problem")
    return problem.get("kind") if isinstance(problem, dict) else None


def _inline_dataset(body: dict[str, Any]) -> Dataset:
    with _below_dataset():
        return validate(_DATASET, body["problem"].get("dataset")).root


@contextlib.contextmanager
def _below_dataset() -> Iterator[None]:
    """Pointers of issues begin at the dataset inside of the job."""
    try:
        yield
    except InvalidInput as error:
        raise error.under("/problem/dataset") from None


def _with_dataset(body: dict[str, Any], dataset_id: str) -> dict[str, Any]:
    return {**body, "problem": {**body["problem"], "dataset": dataset_id}}
