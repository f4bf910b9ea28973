"""Sources: data that keep arriving, and their blocks."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import TypeAdapter
from starlette.responses import Response

from discreet.api import examples
from discreet.api.operations import EVERYBODY, operation
from discreet.api.source_schemas import BlockAnswer, RuleAnswer, SourceAnswer, SourcePage
from discreet.problems.sources import SourceRule
from discreet.usecases import corrections, source_rules, sources
from discreet.usecases.requests import (
    BlockRequest,
    DraftBlockRequest,
    PlacedBlockRequest,
    SourceCorrection,
    SourceRequest,
)
from discreet.web import bodies, uploads
from discreet.web.responses import Pages, answer, resource
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1/sources", tags=["sources"])

_REQUEST: TypeAdapter[SourceRequest] = TypeAdapter(SourceRequest)
_RULE: TypeAdapter[SourceRule] = TypeAdapter(SourceRule)
_CORRECTION: TypeAdapter[SourceCorrection] = TypeAdapter(SourceCorrection)


@router.post(
    "",
    **operation(
        "create_source",
        roles=["owner"],
        answers={201: SourceAnswer, 200: SourceAnswer},
        codes=["name_taken"],
        body=SourceRequest,
        examples=examples.sources(),
        location=True,
    ),
)
async def create_source(
    request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Create a source. Creating the same source again, by its name, returns it with 200."""
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        asked = await bodies.parse(_REQUEST, body)
        row, new = await sources.create(services, principal, asked)
    rule = await source_rules.newest(services, principal, row["id"])
    shown = sources.view(row) | ({} if rule is None else {"rule": rule})
    return answer(shown, 201 if new else 200, {"Location": f"/v1/sources/{row['id']}"})


@router.get(
    "",
    **operation(
        "list_sources",
        roles=EVERYBODY,
        answers={200: SourcePage},
        codes=["invalid_page_token"],
    ),
)
async def list_sources(
    services: CurrentServices,
    principal: CurrentPrincipal,
    page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    page_token: str | None = None,
) -> Response:
    """Sources of the tenant without their blocks, newest first."""
    pages = Pages(services.secrets, principal.tenant_id, "sources")
    rows = await sources.page(services, principal, pages.moment(page_token), page_size + 1)
    return pages.answer("sources", rows, page_size, sources.view)


@router.get(
    "/{source_id}",
    **operation(
        "get_source", roles=EVERYBODY, answers={200: SourceAnswer}, codes=["not_found"], etag=True
    ),
)
async def get_source(
    source_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """One source with its blocks: the newest version of each, and what is spent, reserved and
    left."""
    row = await sources.find(services, principal, source_id)
    blocks = await sources.blocks_of(services, principal, row)
    rule = await source_rules.newest(services, principal, source_id)
    shown = sources.view(row) | ({} if rule is None else {"rule": rule})
    return resource(request, {**shown, "blocks": blocks})


@router.patch(
    "/{source_id}",
    **operation(
        "correct_source",
        roles=["owner"],
        answers={200: SourceAnswer},
        codes=[
            *("not_found", "released", "dataset_in_use", "dataset_changed", "content_changed"),
            *("storage_unavailable", "reader_not_started", "not_read", "not_isolated"),
            *("spool_unavailable", "too_many_uploads", "too_many_failed_reads"),
        ],
        body=SourceCorrection,
        examples=examples.CORRECTIONS,
    ),
)
async def correct_source(
    source_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Correct the public part of all blocks while nothing was spent or reserved on any of them and
    no job on them waits or runs; of a simulation while none waits or runs."""
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        asked = await bodies.parse(_CORRECTION, body)
    with services.turns.turn(principal.tenant_id):
        row = await corrections.correct_source(services, principal, source_id, asked.public)
    rule = await source_rules.newest(services, principal, source_id)
    return answer(sources.view(row) | ({} if rule is None else {"rule": rule}))


@router.put(
    "/{source_id}/rule",
    **operation(
        "set_source_rule",
        roles=["owner"],
        answers={200: RuleAnswer},
        codes=["not_found"],
        body=SourceRule,
        examples=examples.rules(),
    ),
)
async def set_source_rule(
    source_id: str, request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """Set who may spend which share of each block. Waiting jobs are decided anew; what was
    granted stays. Setting the same rule again changes nothing."""
    async with bodies.held(request, bodies.of_job(services.settings)) as body:
        asked = await bodies.parse(_RULE, body)
        return answer(await source_rules.change(services, principal, source_id, asked))


@router.post(
    "/{source_id}/blocks",
    **operation(
        "add_block",
        roles=["owner"],
        answers={201: BlockAnswer, 200: BlockAnswer},
        codes=[
            *("not_found", "invalid_multipart", "content_known"),
            *(
                "storage_unavailable",
                "storage_full",
                "storage_denied",
                "spool_unavailable",
                "reader_not_started",
            ),
            *("not_read", "not_isolated", "too_many_uploads", "too_many_failed_reads"),
            *("place_refused", "query_refused", "place_unavailable", "places_unreadable"),
            *("content_changed", "reads_no_names"),
        ],
        body=BlockRequest,
        or_body=(PlacedBlockRequest, DraftBlockRequest),
        examples=examples.blocks(),
        multipart=True,
        location=True,
    ),
)
async def add_block(source_id: str, request: Request, principal: CurrentPrincipal) -> Response:
    """Register a block, or a later version of one: complete, with its late records, on the same
    account. Registering the same content again returns the same version, with 200."""
    row, new = await uploads.add_block(request, principal, source_id)
    return answer(
        sources.version_view(row), 201 if new else 200, {"Location": f"/v1/datasets/{row['id']}"}
    )
