"""Acceptance of jobs: budgets reserved, job, queue entry and first event written together, or
nothing at all."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal
from weakref import WeakKeyDictionary, ref

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from discreet.storage.database import Database, GroupCommit
from discreet.storage.ledger import AccountBalance, account_balance, named_together, ranges
from discreet.storage.queue import QUEUE, RUN_JOB, WAKE_WORKERS
from discreet.storage.tables import IdempotentRequest

Row = dict[str, Any]

CHANNEL = "discreet_jobs"
"""Notified with a job's id at each of its events; of jobs that are accepted at about the same time,
with one's."""

MOST_TOGETHER = 16
"""Most that are accepted in one transaction: an account stays locked for all of them, and a problem
may be large."""


@dataclass(frozen=True)
class Submission:
    """The outcome of an order, as `accept_jobs` in `migrations/current/04_jobs.sql` names it."""

    outcome: Literal[
        "accepted",
        "known",
        "reused",
        "in_flight",
        "dataset_gone",
        "dataset_changed",
        "object_gone",
        "refused",
    ]
    job_id: str | None = None
    """When accepted or known."""
    row: Row | None = None
    """When accepted: the job as it was inserted, without problem and plan."""
    balances: tuple[AccountBalance, ...] = ()
    """When refused: every account that does not let the price pass, as it stands."""


@dataclass(frozen=True)
class JobOrder:
    """A job to accept, with everything that is stored about it."""

    key: str
    """The Idempotency-Key of the request."""
    digest: bytes
    """SHA-256 of the request: the same key with another one is refused."""
    job_id: str
    dataset_id: str | None
    kind: str
    problem: str
    """JSON."""
    plan: str
    """JSON."""
    seed: int | None
    steps: int
    price: Mapping[str, str]
    events: str
    """Canonical JSON."""
    session_id: str | None = None
    """The job is federated and waits for agents."""
    terms: Mapping[str, Any] | None = None
    budget: Mapping[str, str] | None = None
    traceparent: str | None = None
    """The trace of the request, which goes on with whoever runs the job."""
    release_key: bytes | None = None
    """Key of what its release will fix, so that the same question finds it."""
    released_by: tuple[str, ...] | None = None
    """The jobs that it asks again."""
    seal: str | None = None
    """The MAC that `tamper_seals` makes of the job; a federated job has none."""
    name: str | None = None
    """The name that its sender gave it."""
    objects: tuple[str, ...] = ()
    """Ids of the public objects that the problem names."""
    source_id: str | None = None
    """The source whose blocks it reads instead of a dataset."""
    versions: tuple[int, ...] = ()
    """The numbers, in their source, of the versions of blocks that it reads."""
    revision: int = 1
    """That of the dataset, or of the source, of which the plan was made."""


@dataclass(frozen=True)
class Payers:
    """The accounts that pay for an order: orders with the same payers need the same locks."""

    tenant_id: str
    principal: str
    accounts: tuple[str, ...]


_Acceptances = GroupCommit[Payers, JobOrder, Submission]
_acceptances: WeakKeyDictionary[Database, _Acceptances] = WeakKeyDictionary()


async def submit(
    database: Database, order: JobOrder, *, tenant_id: str, principal: str, accounts: Sequence[str]
) -> Submission:
    """Idempotency record, reservation on all accounts and caps, job, queue entry and first event:
    all or nothing.

    One statement, so one round trip and one transaction; orders with the same payers that arrive
    meanwhile go together in the next. Sent again where the connection breaks, which the idempotency
    key makes safe. Workers and listeners are told after the commit; should this process die before,
    workers find the job when they look by themselves.
    """
    payers = Payers(tenant_id, principal, tuple(accounts))
    if payers.accounts:
        acceptances = _acceptances.get(database)
        if acceptances is None:
            acceptances = _acceptances[database] = GroupCommit(
                partial(_accept, ref(database)), MOST_TOGETHER
            )
        found = await acceptances.call(payers, order)
    else:  # nothing is locked
        (found,) = await _accept(ref(database), payers, [order])
    if found.outcome == "accepted":
        tell(database, order)
    return found


def tell(database: Database, order: JobOrder) -> None:
    """Notify workers and listeners of an accepted order, after the commit."""
    database.tell({CHANNEL: order.job_id, **({} if order.session_id else WAKE_WORKERS)})


async def _accept(
    database: ref[Database], payers: Payers, orders: Sequence[JobOrder]
) -> list[Submission]:
    here = database()
    assert here is not None
    rows = await here.ask(_ACCEPT, _values(here, payers, orders))
    return [_submission(payers, order, row) for order, row in zip(orders, rows, strict=True)]


async def accept(
    database: Database, connection: AsyncConnection, payers: Payers, order: JobOrder
) -> Submission:
    """One order in the caller's transaction, as `submit` otherwise; the caller tells of it after
    the commit."""
    rows = await connection.execute(_ACCEPT, _values(database, payers, [order]))
    return _submission(payers, order, rows.mappings().one())


def _values(here: Database, payers: Payers, orders: Sequence[JobOrder]) -> dict[str, Any]:
    seen = here.log_memory.last
    return {
        "tenant": payers.tenant_id,
        "principal": payers.principal,
        "accounts": named_together(payers.accounts),
        "queue": QUEUE,
        "task": RUN_JOB,
        "orders": f"[{','.join(_order_text(one) for one in orders)}]",
        "seen_size": seen.size,
        "seen_root": seen.root,
    }


def _order_text(order: JobOrder) -> str:
    """An order as `accept_jobs` reads it; problem and plan, which may be large, as the text that
    they are."""
    small = {
        "key": order.key,
        "digest": order.digest.hex(),
        "job": order.job_id,
        "dataset": order.dataset_id,
        "kind": order.kind,
        "seed": order.seed,
        "total": order.steps,
        "price": dict(order.price),
        "events": order.events,
        "session": order.session_id,
        "terms": None if order.terms is None else dict(order.terms),
        "budget": None if order.budget is None else dict(order.budget),
        "traceparent": order.traceparent,
        "release_key": None if order.release_key is None else order.release_key.hex(),
        "released_by": order.released_by,
        "seal": order.seal,
        "name": order.name,
        "objects": order.objects,
        "source": order.source_id,
        "versions": None if order.source_id is None else ranges(order.versions),
        "revision": order.revision,
    }
    return f'{json.dumps(small)[:-1]}, "problem": {order.problem}, "plan": {order.plan}}}'


def _submission(payers: Payers, order: JobOrder, row: Mapping[Any, Any]) -> Submission:
    if row["outcome"] != "accepted":
        balances = tuple(account_balance(one) for one in row["standings"] or ())
        return Submission(row["outcome"], row["job_id"], balances=balances)
    inserted = {
        "id": order.job_id,
        "tenant_id": payers.tenant_id,
        "dataset_id": order.dataset_id,
        "principal": payers.principal,
        "kind": order.kind,
        "price": dict(order.price),
        "seed": order.seed,
        "state": "queued" if order.session_id is None else "awaiting_agents",
        "step": 0,
        "total": order.steps,
        "error_code": None,
        "error_detail": None,
        "created_at": row["created_at"],
        "started_at": None,
        "finished_at": None,
        "released_by": None if order.released_by is None else list(order.released_by),
        "reusable": list(row["reusable"] or ()),
        "name": order.name,
        "mostly_noise": False,
        "headline": None,
    }
    return Submission("accepted", order.job_id, inserted)


async def find_request(
    connection: AsyncConnection, tenant_id: str, principal: str, key: str
) -> tuple[bytes, str] | None:
    """Digest of the body and job of a request that was accepted under this key."""
    statement = select(IdempotentRequest.request_digest, IdempotentRequest.job_id).where(
        IdempotentRequest.tenant_id == tenant_id,
        IdempotentRequest.principal == principal,
        IdempotentRequest.key == key,
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else (bytes(row[0]), row[1])


_ACCEPT = text(
    """
    SELECT outcome, job_id, created_at, standings, reusable
    FROM accept_jobs(
      log_require(:tenant, :seen_size, :seen_root),
      :principal, CAST(:accounts AS text[]), :queue, :task, CAST(:orders AS jsonb)
    )
    """
)
