"""The ledger: entries with filters, one entry in words, verification of the chain, the export."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from fastapi import APIRouter, Request
from starlette.responses import Response, StreamingResponse

from discreet.dashboard import forms, paging, words
from discreet.dashboard.pages import HEADERS, go_to, render
from discreet.dashboard.sessions import Auditor, Reader
from discreet.errors import InvalidInput, NotFound
from discreet.ledger.entries import ENTRIES
from discreet.usecases import budgets, ledger, sources
from discreet.usecases.verification import Verification, Verifier
from discreet.web.responses import answer
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)

PAGE = 50

verifier = Verifier()
"""What this process has verified so far."""


@router.get("/ledger")
async def show_ledger(
    request: Request,
    services: CurrentServices,
    viewer: Reader,
    account: str = "",
    kind: str = "",
    job: str = "",
    since: str = "",
    until: str = "",
    after: str | None = None,
    verify: str = "",
) -> Response:
    """Entries that match the filters, newest first. With `verify` the request verifies more of the
    chain, for browsers without JavaScript."""
    for name, text in (("account", account), ("job", job)):
        forms.refuse_nul(f"/query/{name}", text)
    last_day = _day("until", until)
    rows = await budgets.search(
        services,
        viewer.principal,
        account_id=account or None,
        kinds=(kind,) if kind in ENTRIES else (),
        job_id=job.strip() or None,
        since=_day("since", since),
        until=None if last_day is None else last_day + timedelta(days=1),
        after=paging.entry_place(after),
        size=PAGE + 1,
    )
    last = rows[:PAGE][-1] if rows else None
    more = (
        paging.token(last["at"], last["account"], last["seq"])
        if last and len(rows) > PAGE
        else None
    )
    filters = {"account": account, "kind": kind, "job": job.strip(), "since": since, "until": until}
    return render(
        request,
        "ledger.html",
        entries=rows[:PAGE],
        more=more,
        filters={name: value for name, value in filters.items() if value},
        first=after is None,
        accounts=await budgets.all_budgets(services, viewer.principal),
        chains=await sources.of_chains(services, viewer.principal),
        kinds=ENTRIES,
        verified=await verifier.look(services, viewer.principal, passing=not verify)
        if viewer.may(*ledger.READERS)
        else None,
    )


@router.get("/ledger/verification.json")
async def read_verification(services: CurrentServices, viewer: Auditor) -> Response:
    """Verify more of the chain and report how far it holds; the page asks until all is verified."""
    return answer(_told(await verifier.look(services, viewer.principal)))


@router.post("/ledger/verification")
async def verify_again(services: CurrentServices, viewer: Auditor) -> Response:
    """Forget what was verified and begin again with the first entry."""
    await verifier.look(services, viewer.principal, again=True)
    return go_to("/ledger")


@router.get("/ledger/export")
async def download_export(services: CurrentServices, viewer: Auditor) -> Response:
    """The whole ledger, as a file."""
    lines = await ledger.export(services, viewer.principal)
    headers = {**HEADERS, "Content-Disposition": 'attachment; filename="ledger.jsonl"'}
    return StreamingResponse(lines, media_type="application/jsonl", headers=headers)


@router.get("/ledger/head.json")
async def download_head(services: CurrentServices, viewer: Auditor) -> Response:
    """The signed head, to be kept where this service cannot reach it."""
    return answer(
        await ledger.head(services, viewer.principal),
        headers={"Content-Disposition": 'attachment; filename="ledger-head.json"'},
    )


@router.get("/ledger/{account_id}/{seq}")
async def show_entry(
    account_id: str, seq: int, request: Request, services: CurrentServices, viewer: Reader
) -> Response:
    """One entry: what happened, what was published with which noise, whom that protects, and its
    place in the chain."""
    if not 0 < seq < 2**63:
        raise NotFound("there is no such entry")
    found = await budgets.entries(services, viewer.principal, account_id, after=seq - 1, size=2)
    if not found or found[0]["seq"] != seq:
        raise NotFound("there is no such entry")
    entry, chains = found[0], await sources.of_chains(services, viewer.principal)
    of_blocks = "blocks" in entry
    chain = chains.get(entry["account"])
    return render(
        request,
        "entry.html",
        entry=entry,
        budget=None
        if of_blocks
        else await budgets.one_budget(services, viewer.principal, account_id),
        source=None if chain is None else {"id": chain[0], "name": chain[1]},
        title=words.title(entry["kind"]),
        meaning=words.meaning(entry),
        events=[words.event(event) for event in entry["events"]],
        has_next=len(found) > 1,
    )


def _told(found: Verification) -> dict[str, object]:
    return {
        "state": found.state,
        "entries": found.entries,
        "total": found.total,
        "head": found.head["hash"],
        "at": found.at,
        "broken": None if found.broken is None else str(found.broken),
    }


def _day(name: str, text: str) -> datetime | None:
    """The beginning of a day in UTC."""
    if not text:
        return None
    try:
        day = date.fromisoformat(text)
        if not 1970 <= day.year < 9999:
            raise ValueError
    except ValueError as error:
        raise InvalidInput("a date like 2026-11-21 is needed", pointer=f"/query/{name}") from error
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
