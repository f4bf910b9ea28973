"""Jobs on sources whose budget has shares: granted, refused or waiting, and decided again.

A decision is a function of prices, blocks, names and times, which are public or follow from what
was asked before, and of nothing private (`privacy.scheduling`). It is made under the source's lock
and written in the same transaction; that nothing is overspent is the ledger's own rule, whatever is
decided here. Whoever frees budget leaves a wake in the transaction that frees it, and any worker
finds it, or a `next_try` that has come: a decider that dies in between leaves everything as it was.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from weakref import WeakValueDictionary

import structlog

from discreet.errors import InvalidInput
from discreet.observability import faults
from discreet.privacy import scheduling
from discreet.privacy.scheduling import (
    Granted,
    Refused,
    Request,
    Waits,
)
from discreet.problems.plans import Plan
from discreet.storage import acceptance, ledger, log_memory, queue, sources, waits
from discreet.storage.acceptance import JobOrder, Submission
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases import endings
from discreet.usecases.planning import Planned
from discreet.usecases.services import Services
from discreet.usecases.source_state import (
    decision_on,
    moment_of,
    request_of,
    seconds_of,
    state_of,
)
from discreet.usecases.waiting_words import held, held_sentence, view

log = structlog.get_logger()

USUAL_WAIT_DAYS = 3
MOST_PASSES = 1000
"""Grants and refusals of one source in one round."""
MOST_DUE = 100
"""Sources that are read at once in a round."""
SYSTEM_ACTOR = "discreet"
"""Ends a wait that is over."""
ENDINGS = {
    "share": "wait_over",
    "promised": "wait_overtaken",
    "spent": "wait_spent",
    "late": "wait_late",
}
"""The code of a job whose wait ended without a grant."""

_turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()


def _turn(source_id: str) -> asyncio.Lock:
    """Taken before a connection is: of this process one request at a time stands at a source's
    lock, so that a flood on one source leaves the pool's connections to all others."""
    lock = _turns.get(source_id)
    if lock is None:
        lock = _turns[source_id] = asyncio.Lock()
    return lock


def _days(planned: Planned, wait: float | None) -> float | None:
    """How long a job may wait; None: it cannot. InvalidInput where it was told to, and cannot."""
    if planned.may_wait:
        return USUAL_WAIT_DAYS if wait is None else wait
    if wait:
        says = (
            "only a job on private blocks of a source with a rule waits, since shares are lent "
            "there with time: here it is accepted or refused at once"
        )
        raise InvalidInput(says, pointer="/wait")
    return None


def _asked(planned: Planned) -> tuple[str, list[str]]:
    """The source and the blocks of a job that may wait."""
    assert planned.plan.source is not None
    source = planned.plan.source
    return source.id, [one.block for one in source.blocks]


async def submit(
    services: Services,
    principal: Principal,
    order: JobOrder,
    planned: Planned,
    wait: float | None,
) -> Submission:
    """Accept a job: at once, or, where shares of a source are lent in its time, waiting with
    nothing reserved.

    Conflict (`budget_held`) where it would not pass in its time; outcome `refused` where it does
    not fit at all. Idempotent as `acceptance.submit` is.
    """
    wait_days = _days(planned, wait)
    if wait_days is None:
        return await acceptance.submit(
            services.database,
            order,
            tenant_id=principal.tenant_id,
            principal=principal.name,
            accounts=planned.accounts,
        )
    source_id, names = _asked(planned)
    async with (
        _turn(source_id),
        services.database.transaction(principal.tenant_id) as connection,
    ):
        now = await waits.lock(connection, source_id)
        known = await acceptance.find_request(
            connection, principal.tenant_id, principal.name, order.key
        )
        source = await sources.find(connection, principal.tenant_id, source_id)
        rule = await waits.rule(connection, source_id)
        assert source is not None
        assert rule is not None
        payers = acceptance.Payers(principal.tenant_id, principal.name, tuple(planned.accounts))
        if known is not None:
            return await acceptance.accept(services.database, connection, payers, order)
        seen = await state_of(connection, principal.tenant_id, source, rule, principal.name, names)
        total = planned.plan.total
        request = request_of(seen, order.job_id, principal.name, total, names, now, wait_days)
        decision = decision_on(seen, request, now)
        if isinstance(decision, Refused) and decision.why != "spent":
            raise held(decision, seconds_of(now), seen.lent_days)
        if isinstance(decision, Waits):
            found = await _hold(
                services, connection, principal, order, source_id, request, decision
            )
        else:  # what does not fit at all is refused by the ledger itself
            found = await acceptance.accept(services.database, connection, payers, order)
            faults.point("wait.granted")
    if found.outcome == "accepted":
        acceptance.tell(services.database, order)
    return found


async def _hold(
    services: Services,
    connection: Any,
    principal: Principal,
    order: JobOrder,
    source_id: str,
    request: Request,
    decision: Waits,
) -> Submission:
    """Accept an order with nothing reserved, and let it wait."""
    # No accounts: nothing is charged to any.
    nobody = acceptance.Payers(principal.tenant_id, principal.name, ())
    found = await acceptance.accept(services.database, connection, nobody, order)
    if found.outcome != "accepted" or found.row is None:
        return found
    await waits.hold(
        connection,
        order.job_id,
        source_id=source_id,
        tenant_id=principal.tenant_id,
        place=request.key,
        until=moment_of(request.until),
        next_try=moment_of(decision.not_before),
        block=decision.block,
    )
    faults.point("wait.held")
    log.info("job waits", job=order.job_id, block=decision.block)
    shown = {
        "state": "waiting",
        "waits_until": moment_of(request.until),
        "waits_next": moment_of(decision.not_before),
        "waits_block": decision.block,
    }
    return replace(found, row={**found.row, **shown})


async def preview(
    services: Services,
    principal: Principal,
    planned: Planned,
    wait: float | None,
) -> dict[str, Any] | None:
    """What would become of such a job now, where it would not be granted at once though the caps
    would let it pass; None elsewhere."""
    wait_days = _days(planned, wait)
    if wait_days is None:
        return None
    source_id, names = _asked(planned)
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        source = await sources.find(connection, principal.tenant_id, source_id)
        rule = await waits.rule(connection, source_id)
        if source is None or rule is None:
            return None
        seen = await state_of(connection, principal.tenant_id, source, rule, principal.name, names)
    now = datetime.now(UTC)
    request = request_of(seen, "", principal.name, planned.plan.total, names, now, wait_days)
    decision = decision_on(seen, request, now)
    if isinstance(decision, Granted) or (isinstance(decision, Refused) and decision.why == "spent"):
        return None
    if isinstance(decision, Refused):
        not_before = None if decision.not_before is None else moment_of(decision.not_before)
        detail = held_sentence(decision, seconds_of(now), seen.lent_days)
        return {"admitted": False, "not_before": not_before, "until": None, "detail": detail}
    row = {
        "waits_next": moment_of(decision.not_before),
        "waits_until": moment_of(request.until),
        "waits_block": decision.block,
    }
    return {"admitted": True, **view(row)}


async def decide(services: Services) -> int:
    """Decide who waits and is due, on all sources; how many sources that were. Called by every
    worker, as often as it likes.

    Each source has its turn once in a round, so that those of one tenant, woken again and again,
    keep nobody else's from theirs; nor does one that cannot be decided.
    """
    number, last = 0, ""
    while True:
        async with services.database.transaction(SYSTEM) as connection:
            due = await waits.due(connection, last, MOST_DUE)
        for source_id, tenant_id in due:
            try:
                for _ in range(MOST_PASSES):
                    if not await decide_source(services, tenant_id, source_id):
                        break
            except Exception as error:
                log.warning(
                    "waiting jobs could not be decided",
                    source=source_id,
                    error=type(error).__name__,
                )
        number += len(due)
        if len(due) < MOST_DUE:
            return number
        last = due[-1][0]


async def decide_source(services: Services, tenant_id: str, source_id: str) -> bool:
    """Decide who waits on a source, up to the first that is granted; whether there may be more.
    DBAPIError where the ledger was taken back: nothing is granted then, as nothing is accepted.

    One is granted in each transaction: a reservation locks accounts in the order of their ids, and
    a second one would not keep to it.
    """
    async with services.database.transaction(tenant_id) as connection:
        moment = await waits.lock(connection, source_id)
        await log_memory.require(connection, services.database.log_memory.last)
        now = seconds_of(moment)
        woken = await waits.take_wakes(connection, source_id)
        source = await sources.find(connection, tenant_id, source_id)
        rule = await waits.rule(connection, source_id)
        if source is None or rule is None:
            return False
        seen = await state_of(connection, tenant_id, source, rule)
        if await _end_left(connection, tenant_id, seen.waiting):
            return True
        due = [(request, now if woken else next_try) for request, next_try in seen.waiting]
        for request, decision in scheduling.decide_due(due, seen.blocks, seen.rule, now):
            job = await waits.lock_waiting(connection, request.id)
            if job is None:  # cancelled meanwhile: that left a wake
                continue
            if isinstance(decision, Waits):
                moment = moment_of(decision.not_before)
                await waits.put_off(connection, request.id, moment, decision.block)
            elif isinstance(decision, Refused):
                await endings.fail(connection, request.id, ENDINGS[decision.why], SYSTEM_ACTOR)
                faults.point("wait.refused")
            else:
                accounts = [seen.accounts[name] for name in request.blocks]
                more = await _grant(connection, job, accounts, request, now)
                await waits.wake(connection, tenant_id, source_id)  # the others, next
                faults.point("wait.reserved")
                break
        else:
            return False
    faults.point("wait.committed")
    return more


async def _end_left(
    connection: Any, tenant_id: str, waiting: Sequence[tuple[Request, int]]
) -> bool:
    """End the waits of those who may ask for nothing any more; whether there were any. What they
    were promised is free then, which their ends leave a wake of."""
    names = sorted({request.analyst for request, _ in waiting})
    left = await waits.left(connection, tenant_id, names)
    ended = False
    for request, _ in waiting:
        if request.analyst in left and await waits.lock_waiting(connection, request.id):
            await endings.fail(connection, request.id, "wait_left", SYSTEM_ACTOR)
            ended = True
    return ended


async def _grant(
    connection: Any, job: Mapping[str, Any], accounts: Sequence[str], request: Request, now: int
) -> bool:
    """Reserve for a job that waits, and put it on the queue; whether it is decided. Where the
    ledger refuses what shares let pass, since a cap was lowered just now, the next round decides
    all anew."""
    if await waits.gone(connection, request.id):
        await endings.fail(connection, request.id, "data_erased", SYSTEM_ACTOR)
        return True
    found = await ledger.reserve(
        connection,
        request.id,
        accounts,
        price=job["price"],
        events=[one.model_dump(mode="json") for one in Plan.model_validate(job["plan"]).events],
        actor=job["principal"],
    )
    if all(one.admitted for one in found):
        tag = await waits.granted(connection, request.id)
        await queue.enqueue(connection, request.id, priority=-tag)
        log.info("job granted after a wait", job=request.id)
        return True
    if now >= request.until:
        await endings.fail(connection, request.id, ENDINGS["spent"], SYSTEM_ACTOR)
    return now >= request.until
