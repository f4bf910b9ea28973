"""Jobs: price, submit, look up; `cancelling` cancels them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import anyio.to_thread
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.errors import Conflict, DiscreetError, InvalidInput, NotFound
from discreet.observability import faults, telemetry
from discreet.privacy import filters
from discreet.privacy.units import Price
from discreet.problems import DATASETS
from discreet.problems.base import Problem
from discreet.problems.federation import FederatedProblem, is_session
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import Plan
from discreet.storage import acceptance, jobs, ledger, sessions, tamper_seals, webhooks
from discreet.storage.acceptance import JobOrder
from discreet.storage.identifiers import new_id
from discreet.storage.ledger import AccountBalance
from discreet.storage.tenants import Principal
from discreet.usecases import (
    blocks,
    budgets,
    earlier,
    naming,
    outlook,
    planning,
    waiting,
    waiting_words,
)
from discreet.usecases.access import require
from discreet.usecases.facts import advice_undeclared, no_dataset
from discreet.usecases.services import Services
from discreet.usecases.sessions import records

# Cancelling ---------------------------------------------------------------------------------------
# Cancelling a job, and the outcome.


async def cancel(
    services: Services, principal: Principal, job_id: str
) -> tuple[dict[str, Any], Cancellation]:
    """Cancel a job: the job as it is now, and the outcome of the request.

    What has not touched data is released in full; what has is charged in full. A job whose release
    is stored is paid for and goes on to its result, unless it is a simulation, which costs nothing.
    What is said here holds: a worker's later steps look under the same lock (`running.touch`,
    `keep_release`, `publish`). Conflict when the job has ended otherwise than by a cancellation.
    """
    require(principal, *SUBMITTERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.lock(connection, job_id, principal.tenant_id)
        if row is None:
            raise NotFound("there is no such job")
        if row["state"] in jobs.FINAL:
            if row["state"] != "cancelled":
                raise Conflict(f"this job has {row['state']} already", code="job_ended")
        elif not row["cancel_requested"] and await _is_paid(connection, job_id):
            return row, CANCELLATIONS["too_late", "full"]
        elif not await jobs.request_cancel(connection, job_id):
            await ledger.settle(connection, job_id, principal.name)
            await jobs.end(connection, job_id, "cancelled")
        found = await jobs.find(connection, job_id)
        assert found is not None
        return found, await _cancellation(connection, found)


async def cancellation(
    services: Services, principal: Principal, job_id: str
) -> Cancellation | None:
    """The outcome of a cancellation, final or expected; None if nobody asked for one or the job
    ended otherwise."""
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.find(connection, job_id, principal.tenant_id)
        if row is None or (
            row["state"] != "cancelled"
            and (row["state"] in jobs.FINAL or not row["cancel_requested"])
        ):
            return None
        return await _cancellation(connection, row)


async def _is_paid(connection: AsyncConnection, job_id: str) -> bool:
    """Whether the job's release is stored, and costs something."""
    entries = await ledger.reservation(connection, job_id)
    return bool(entries) and await jobs.is_released(connection, job_id)


async def _cancellation(connection: AsyncConnection, row: dict[str, Any]) -> Cancellation:
    """The outcome of a cancellation, final or expected; the ledger says what it costs."""
    kinds = {entry["kind"] for entry in await ledger.reservation(connection, row["id"])}
    if row["state"] in jobs.FINAL:
        return CANCELLATIONS["done", "full" if "commit" in kinds else "none"]
    if "data_touched" in kinds:
        return CANCELLATIONS["requested", "full"]
    # An agent's message that is on its way touches data; a worker asks under the job's lock first.
    federated = is_session(row["problem"])
    return CANCELLATIONS["requested", "undecided" if federated and kinds else "none"]


# Jobs ---------------------------------------------------------------------------------------------

log = structlog.get_logger()

SUBMITTERS = ("owner", "analyst")


async def price(
    services: Services,
    principal: Principal,
    problem: Problem,
    privacy: Privacy | None,
    seed: int | None,
    wait: float | None = None,
) -> dict[str, Any]:
    """The plan, its price, and whether it would be admitted now; spends nothing."""
    body, _, _ = await priced(services, principal, problem, privacy, seed, wait)
    return body


async def priced(
    services: Services,
    principal: Principal,
    problem: Problem,
    privacy: Privacy | None,
    seed: int | None,
    wait: float | None = None,
) -> tuple[dict[str, Any], list[AccountBalance], Price]:
    """What `price` answers; the accounts that would be charged, as they stand; the price."""
    require(principal, *SUBMITTERS)
    around = await earlier.of_accuracy(services, principal, problem, privacy)
    planned = await services.planner.plan(
        services.database, principal, problem, privacy, seed, around=around
    )
    total = planned.plan.total
    balances, reusable, noisy, key = [], [], frozenset[str](), planned.texts.release_key
    if key is not None or planned.accounts:
        async with services.database.transaction(principal.tenant_id) as connection:
            reusable = (
                [] if key is None else await jobs.reusable(connection, principal.tenant_id, key)
            )
            noisy = await jobs.mostly_noise(connection, reusable)
            caps = await ledger.caps(connection, principal.tenant_id, principal.name)
            found = await ledger.balances(connection, [*planned.accounts, *caps])
        balances = [
            replace(one, admitted=bool(filters.admits(one.totals, total, budgets.cap_of(one))))
            for one in found.values()
        ]
    body: dict[str, Any] = {
        "plan": plan_view(planned.plan),
        "price": price_view(total),
        "admitted": all(one.admitted for one in balances),
        "reusable": reusable,
        "reusable_noise": [one for one in reusable if one in noisy],
    }
    if planned.dataset is not None:
        body["asked_again"] = planned.problem.questions(planned.dataset.public)
    if planned.texts.made.in_other_words:
        body["privacy"] = planned.texts.made.figures
    if planned.dataset is not None and not any(
        any(one.totals.values()) for one in balances if one.scope == "data"
    ):
        data, source = planned.dataset, planned.dataset.source
        public = data.public.model_dump(mode="json", exclude_none=True)
        body["plan"]["advice"] += advice_undeclared(
            "dataset" if source is None else "source",
            str(data.dataset_id) if source is None else source.id,
            DATASETS[data.kind].undeclared(public),
            mode=data.mode,
        )
    held = await waiting.preview(services, principal, planned, wait)
    if body["admitted"] and held is not None:
        body["admitted"], body["waits"] = held.pop("admitted"), held
        return body, balances, total
    if body["admitted"] and planned.plan.source is not None and balances:
        named = await blocks.of_accounts(services.database, principal, balances)
        if (ends_filter := outlook.ends_zcdp(balances, total, named)) is not None:
            body["plan"]["advice"].append(ends_filter)
        if (ends := outlook.until_spent(balances, total, named)) is not None:
            body["until_spent"] = ends
    if not body["admitted"]:
        refusing = [one for one in balances if not one.admitted]
        named = await blocks.of_accounts(services.database, principal, refusing)
        body["binding"] = budgets.binding_of(balances, total, named)
    return body, balances, total


async def submit(
    services: Services,
    principal: Principal,
    *,
    idempotency_key: str,
    request: bytes,
    problem: Problem,
    privacy: Privacy | None,
    seed: int | None,
    name: str | None = None,
    wait: float | None = None,
) -> dict[str, Any]:
    """Accept a job: its row, its reservation and its place in the queue in one transaction.

    The same key with the same request answers the same job; with another request it is refused.
    If the budget does not allow the price nothing is written at all, unless enough is freed
    within `wait` days because shares of a source are lent: then the job waits. Where the dataset
    was corrected after its plan was made, it is planned once more.
    """
    again = partial(
        _submit,
        services,
        principal,
        idempotency_key=idempotency_key,
        request=request,
        problem=problem,
        privacy=privacy,
        seed=seed,
        name=name,
        wait=wait,
    )
    try:
        return await again()
    except _Corrected:  # perhaps by another process, long ago
        return await again()


class _Corrected(Conflict):
    """The public part was corrected while this was planned; nothing was written: send it again."""

    code = "dataset_changed"


async def _submit(
    services: Services,
    principal: Principal,
    *,
    idempotency_key: str,
    request: bytes,
    problem: Problem,
    privacy: Privacy | None,
    seed: int | None,
    name: str | None,
    wait: float | None,
) -> dict[str, Any]:
    """One attempt of `submit`."""
    require(principal, *SUBMITTERS)
    digest = hashlib.sha256(request).digest()
    try:
        with telemetry.span("plan", problem=problem.kind):
            around = await earlier.of_accuracy(services, principal, problem, privacy)
            planned = await services.planner.plan(
                services.database,
                principal,
                problem,
                privacy,
                seed,
                offered=False,
                large=len(request) > planning.SMALL_CHARACTERS,
                around=around,
            )
    except (
        DiscreetError
    ):  # what was accepted before is answered so, also when its dataset is gone by now
        known = await _known_request(services, principal, idempotency_key, digest)
        if known is None:
            raise
        return known
    planned.texts.made.require_figures(privacy)
    data, total = planned.dataset, planned.plan.total
    terms = problem.terms if isinstance(problem, FederatedProblem) else None
    large = len(request) > planning.SMALL_CHARACTERS
    accepted: dict[str, Any] = {
        "id": new_id("job"),
        "tenant_id": principal.tenant_id,
        "dataset_id": None if data is None else data.dataset_id,
        "kind": problem.kind,
        "problem": planned.texts.problem_seal,
        "plan": planned.texts.plan_seal,
        "price": total.to_json(),
        "seed": seed,
    }
    seal = None
    if (
        terms is None
    ):  # a federated job gets another plan with its roster, which agents check for themselves
        if large:
            seal = await anyio.to_thread.run_sync(
                tamper_seals.seal_text, services.secrets, accepted
            )
        else:
            seal = tamper_seals.seal_text(services.secrets, accepted)
    order = JobOrder(
        key=idempotency_key,
        digest=digest,
        job_id=accepted["id"],
        dataset_id=accepted["dataset_id"],
        kind=problem.kind,
        problem=planned.texts.problem,
        plan=planned.texts.plan_text,
        seed=seed,
        steps=planned.plan.resources.steps,
        price=accepted["price"],
        events=planned.texts.events,
        session_id=None if terms is None else new_id("ses"),
        terms=None if terms is None else terms.model_dump(mode="json"),
        budget=None if terms is None else _budget(planned.texts.made.budget),
        traceparent=telemetry.traceparent(),
        release_key=planned.texts.release_key,
        released_by=planned.plan.released_by or None,
        seal=seal,
        name=name,
        source_id=None if data is None or data.source is None else data.source.id,
        versions=() if data is None else data.numbers,
        revision=1 if data is None else data.revision,
        objects=tuple(sorted({named for named, _ in problem.named().values()})),
    )
    found = await waiting.submit(services, principal, order, planned, wait)
    faults.point("submit.committed")
    if found.outcome == "in_flight":
        raise Conflict("a request with this Idempotency-Key is in flight", code="request_in_flight")
    if found.outcome == "reused":
        raise _key_reused()
    if found.outcome == "dataset_gone":
        raise blocks.gone() if order.source_id else no_dataset(str(order.dataset_id))
    if found.outcome == "dataset_changed":
        services.planner.forget(principal, order.dataset_id)
        raise _Corrected()
    if found.outcome == "object_gone":
        raise naming.deleted_error(problem)
    if found.outcome == "refused":
        await _tell_exhausted(services, principal, found.balances)
        named = await blocks.of_accounts(services.database, principal, found.balances)
        raise budgets.refusal(found.balances, total, named)
    if found.row is not None:
        log.info("job accepted", job=found.job_id, kind=problem.kind)
        return {**found.row, "simulated": planned.simulation}
    assert found.job_id is not None
    return await find(services, principal, found.job_id)


def _budget(budget: Budget) -> dict[str, str]:
    """The inputs from which a session's plan is made again once its agents are known."""
    return {"epsilon": str(budget.epsilon), "delta": str(budget.delta)}


async def _tell_exhausted(
    services: Services, principal: Principal, balances: tuple[ledger.AccountBalance, ...]
) -> None:
    """Tell webhooks of every account that refused a request, at most once an hour. The refused
    request itself has written nothing, so this is a transaction of its own."""
    async with services.database.transaction(principal.tenant_id) as connection:
        for one in balances:
            if not one.admitted:
                await webhooks.announce(
                    connection,
                    principal.tenant_id,
                    "budget.exhausted",
                    one.account_id,
                    {"account": one.account_id, "scope": one.scope},
                    quiet_seconds=3600,
                )


async def find(services: Services, principal: Principal, job_id: str) -> dict[str, Any]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.find(connection, job_id, principal.tenant_id)
        if row is not None and row["error_code"] is not None and is_session(row["problem"]):
            row["blamed"] = await sessions.blamed(connection, job_id)
    if row is None:
        raise NotFound("there is no such job")
    return row


async def page(
    services: Services,
    principal: Principal,
    *,
    state: str | None,
    after: tuple[Any, str] | None,
    size: int,
) -> list[dict[str, Any]]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        return await jobs.page(connection, principal.tenant_id, state=state, after=after, size=size)


async def events(
    services: Services, principal: Principal, job_id: str, after: int
) -> tuple[list[dict[str, Any]], bool]:
    """Events after a number, and whether the stream ends with them."""
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await jobs.find(connection, job_id, principal.tenant_id)
        rows = await jobs.events(connection, job_id, after)
    if row is None:
        raise NotFound("there is no such job")
    return rows, row["state"] in jobs.FINAL


def view(row: dict[str, Any], principal: Principal) -> dict[str, Any]:
    """A job as it is published. Attempts, leases and workers are not: they could tell about the
    data. Its headline, and that its answer is mostly noise, are only for those who may see
    answers."""
    body = {
        "id": row["id"],
        "kind": row["kind"],
        "dataset": row["dataset_id"],
        "state": row["state"],
        "progress": {"step": row["step"], "total": row["total"]},
        "price": price_view(Price.from_json(row["price"])),
        "created_by": row["principal"],
        "created_at": row["created_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "cancel_requested": row["state"] not in jobs.FINAL and row.get("cancel_requested", False),
    }
    optional = ("name", "dataset_name", "result_gone_at")
    body |= {name: row[name] for name in optional if row.get(name) is not None}
    if row.get("simulated"):
        body["simulation"] = True
    if row["mostly_noise"] and principal.role in SUBMITTERS:
        body["mostly_noise"] = True
    if row["headline"] is not None and principal.role in SUBMITTERS:
        body["headline"] = row["headline"]
    if row["state"] == "waiting" and row.get("waits_until") is not None:
        body["waiting"] = waiting_words.view(row)
    if row["released_by"] is not None:
        body["release"] = row["released_by"]
    if "reusable" in row:  # of one that was accepted just now
        body["reusable"] = row["reusable"]
    if row["error_code"] is not None:
        body["error"] = {"code": row["error_code"], "detail": row["error_detail"]}
        if row.get("blamed"):
            body["error"]["agents"] = records.blame(row["blamed"])
    return body


def problem_view(row: dict[str, Any], principal: Principal) -> dict[str, Any]:
    """What was asked. What the operator of a session holds (`operator` of a federated problem)
    is shown only to owners and to whoever submitted it; in a simulation it is public."""
    problem: dict[str, Any] = row["problem"]
    own = principal.role == "owner" or principal.name == row["principal"]
    if own or not is_session(problem) or "operator" not in problem:
        return problem
    return {**problem, "operator": "not shown"}


def price_view(price: Price) -> dict[str, float]:
    return {**budgets.figures(price.epsilon, price.delta), "rho": price.rho / 10**18}


def plan_view(plan: Plan) -> dict[str, Any]:
    """A plan as it is published."""
    shown = {
        "events",
        "noise",
        "iterations",
        "resources",
        "unit",
        "neighbours",
        "assumptions",
        "not_covered",
        "model",
        "advice",
    }
    beside = {"released_by", "exposure", "source", "parts_by", "sampled_by", "public_digest"}
    body = plan.model_dump(mode="json", include=shown | beside)
    # What was charged before stands in the plans and certificates of the jobs that were charged.
    return {**body, "events": [] if plan.released_by else body["events"]}


async def _known_request(
    services: Services, principal: Principal, key: str, digest: bytes
) -> dict[str, Any] | None:
    """The job of a request that was accepted under this key."""
    async with services.database.transaction(principal.tenant_id) as connection:
        found = await acceptance.find_request(connection, principal.tenant_id, principal.name, key)
        if found is None:
            return None
        if found[0] != digest:
            raise _key_reused()
        return await jobs.find(connection, found[1])


def _key_reused() -> InvalidInput:
    return InvalidInput(
        "this Idempotency-Key was used with another body", code="idempotency_key_reused"
    )


# Cancellations ------------------------------------------------------------------------------------
# The outcomes of a request to cancel a job, and their sentences.


@dataclass(frozen=True)
class Cancellation:
    """The outcome of a request to cancel a job, its cost, and both as a sentence."""

    cancel: Literal["done", "requested", "too_late"]
    charge: Literal["none", "full", "undecided"]
    detail: str


CANCELLATIONS = {
    (one.cancel, one.charge): one
    for one in (
        Cancellation("done", "none", "the job is cancelled; nothing was charged"),
        Cancellation(
            "done",
            "full",
            "the job is cancelled; data were touched before, so it was charged in full",
        ),
        Cancellation(
            "requested",
            "none",
            "the job is being stopped; no data were touched: nothing will be charged",
        ),
        Cancellation(
            "requested",
            "full",
            "the job is being stopped; data were touched, so it is charged in full",
        ),
        Cancellation(
            "requested",
            "undecided",
            "the session is being stopped; it is charged in full if an agent's message comes "
            "before that",
        ),
        Cancellation(
            "too_late",
            "full",
            "it is too late: what the job released is stored and will be charged in full, so it "
            "goes on to its result",
        ),
    )
}
"""All there are."""
