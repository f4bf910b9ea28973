"""The ledger as a whole, certificates, and caps over all data."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field
from starlette.responses import Response, StreamingResponse

from discreet.api import examples
from discreet.api.operations import EVERYBODY, operation
from discreet.api.schemas import BudgetAnswer, CapList, HeadAnswer
from discreet.usecases import budgets, ledger
from discreet.usecases.requests import CapRequest, CertificateRequest
from discreet.web.bodies import CERTIFICATE_BYTES, json_body
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

# Certificate schemas ------------------------------------------------------------------------------
# Answers about certificates: the verdict on one, and the envelope it comes in.


class EnvelopeSignature(BaseModel):
    """A signature over the type and the bytes of an envelope's payload (DSSE's pre-authentication
    encoding)."""

    keyid: str = Field(description="SHA-256 of the public key's 32 bytes, hexadecimal")
    sig: str = Field(description="Ed25519, base64")


class EnvelopeAnswer(BaseModel):
    """An in-toto statement in an envelope (DSSE)."""

    payload: str = Field(
        description="The statement in base64; its predicate is the requested certificate or head"
    )
    payloadType: str = Field(description="application/vnd.in-toto+json")  # noqa: N815 - DSSE calls it so
    signatures: list[EnvelopeSignature]


class CertificateCheck(BaseModel):
    """One check; `holds` is null when it could not be made."""

    name: Literal[
        "signature",
        "price",
        "guarantee",
        "transcript",
        "release",
        "result",
        "table",
        "inclusion",
        "log",
        "witnesses",
    ]
    holds: bool | None
    detail: str


class CertificateVerdict(BaseModel):
    """The verdict on a certificate: valid when no check failed."""

    valid: bool
    checks: list[CertificateCheck]


# Ledger -------------------------------------------------------------------------------------------

router = APIRouter(prefix="/v1", tags=["ledger"])


@router.get(
    "/ledger/head", **operation("get_ledger_head", roles=ledger.READERS, answers={200: HeadAnswer})
)
async def get_ledger_head(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The signed head of the tenant's ledger. Keep copies elsewhere: nobody can then undo the
    entries that they cover."""
    return answer(await ledger.head(services, principal))


@router.get(
    "/ledger/head/statement",
    **operation("get_ledger_head_statement", roles=ledger.READERS, answers={200: EnvelopeAnswer}),
)
async def get_ledger_head_statement(
    services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """The same head as an in-toto statement in a signed envelope (DSSE), for tools that read
    these."""
    return answer(await ledger.head_statement(services, principal))


@router.get(
    "/ledger/export",
    response_class=Response,
    **operation("export_ledger", roles=ledger.READERS, answers={200: "application/jsonl"}),
)
async def export_ledger(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The whole ledger at one moment as JSON Lines, its signed head first, for `discreet ledger
    verify`."""
    lines = await ledger.export(services, principal)
    return StreamingResponse(lines, media_type="application/jsonl")


@router.post(
    "/certificates:verify",
    **operation(
        "verify_certificate",
        roles=EVERYBODY,
        answers={200: CertificateVerdict},
        body=CertificateRequest,
        examples=examples.CERTIFICATES,
    ),
)
async def verify_certificate(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[
        CertificateRequest, Depends(json_body(CertificateRequest, CERTIFICATE_BYTES))
    ],
) -> Response:
    """Recompute the price from the events, compare it with the guarantee, and check the
    signature and the ledger entries; given `result` and `tables`, check that they are those
    certified."""
    body: dict[str, Any] = request.certificate
    found = await ledger.check_certificate(
        services, principal, body, result=request.result, tables=request.tables
    )
    return answer(found)


@router.get("/caps", **operation("list_caps", roles=budgets.READERS, answers={200: CapList}))
async def list_caps(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The caps on the tenant and on its principals."""
    return answer({"caps": await budgets.caps(services, principal)})


@router.post(
    "/caps",
    **operation(
        "set_cap",
        roles=["owner"],
        answers={201: BudgetAnswer, 200: BudgetAnswer},
        codes=["cap_below_spent"],
        body=CapRequest,
        examples=examples.CAPS,
    ),
)
async def set_cap(
    services: CurrentServices,
    principal: CurrentPrincipal,
    request: Annotated[CapRequest, Depends(json_body(CapRequest))],
) -> Response:
    """Cap what the whole tenant or one principal may spend over all data; 200 if there was such
    a cap. From now on every job is charged there too. Such a cap adds up prices over datasets
    with different privacy units.
    """
    cap = budgets.units_of(request.cap)
    made, new = await budgets.set_cap(
        services,
        principal,
        scope=request.scope,
        name=request.principal,
        cap=cap,
        reason=request.reason,
    )
    return answer(made, 201 if new else 200)
