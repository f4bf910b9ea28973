"""Errors as RFC 9457 problem documents: the one table from what discreet refuses to what HTTP says."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.routing import Match

from discreet.errors import (
    BudgetExhausted,
    Conflict,
    DiscreetError,
    FieldIssue,
    Forbidden,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    TooManyRequests,
    TooManyUploads,
    Unauthenticated,
    Unavailable,
)
from discreet.intake.field_issues import pointer, sentence
from discreet.storage.database import trouble
from discreet.storage.schema import schema_trouble
from discreet.usecases.keyring import Rate

log = structlog.get_logger()

STATUS: tuple[tuple[type[DiscreetError], int], ...] = (
    (InvalidInput, 422),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (PayloadTooLarge, 413),
    (TooManyRequests, 429),
    (TooManyUploads, 429),
    (Unavailable, 503),
    (DiscreetError, 500),
)


@dataclass(frozen=True)
class Code:
    """What a code means: its status, what always holds of it, and a detail as an example."""

    status: int
    title: str
    example: str
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Further members of the example."""


INTERNAL = (
    "something went wrong; whether a change was made is not known here: look at the object, or send the same"
    " Idempotency-Key again"
)

_POINTED = {"errors": [{"pointer": "/privacy/epsilon", "detail": "must be greater than 0"}]}

CODES: dict[str, Code] = {
    # Requests that cannot be read at all
    "invalid_http": Code(400, "The request is no HTTP", "this is no request of HTTP/1.1"),
    "invalid_json": Code(400, "The body is no strict JSON", "not JSON at line 1, column 2: Expecting property name"),
    "invalid_multipart": Code(400, "The body is no multipart form", "not a multipart form"),
    "idempotency_key_missing": Code(
        400, "An idempotency key is needed", "send the header Idempotency-Key with 1 to 255 characters"
    ),
    # Keys
    "unauthenticated": Code(401, "An API key is needed", "send an API key: `Authorization: Bearer dsc_…`"),
    "key_malformed": Code(
        401,
        "This is no API key",
        "this is not a discreet API key: its form or its checksum is wrong, perhaps by a typing error",
    ),
    "key_unknown": Code(401, "The API key is unknown", "this API key is unknown"),
    "key_revoked": Code(401, "The API key was revoked", "this API key was revoked"),
    "key_expired": Code(401, "The API key has expired", "this API key has expired"),
    "forbidden": Code(
        403, "The key's role does not allow this", "this needs the role owner; this key has the role analyst"
    ),
    "rate_limited": Code(
        429,
        "The key has used up its requests for now",
        "this key may ask 30000 times in 60 s (rate_limit_requests); again in 12 s",
        {"limit": {"setting": "rate_limit_requests", "unit": "requests", "allowed": 30000, "came": 30001}},
    ),
    "too_many_uploads": Code(
        429,
        "So many contents of this tenant are being registered already",
        "4 contents of this tenant are being registered (tenant_uploads); send this one again when one of them is done",
        {"limit": {"setting": "tenant_uploads", "unit": "uploads", "allowed": 4, "came": 5}},
    ),
    # Fields
    "invalid_input": Code(422, "A field is not valid", "/privacy/epsilon: must be greater than 0", _POINTED),
    "invalid_parameter": Code(
        422,
        "A parameter is not valid",
        "/query/page_size: must be at most 200",
        {"errors": [{"pointer": "/query/page_size", "detail": "must be at most 200"}]},
    ),
    "invalid_page_token": Code(
        422,
        "The page token is not valid here",
        "/query/page_token: not a page token that this service gave for this list",
        {
            "errors": [
                {"pointer": "/query/page_token", "detail": "not a page token that this service gave for this list"}
            ]
        },
    ),
    "idempotency_key_reused": Code(
        422, "The idempotency key was used with another body", "this Idempotency-Key was used with another body"
    ),
    "payload_too_large": Code(
        413,
        "The request is too large",
        "a request may have 32000000 bytes (json_body_bytes), this one has 40000000",
        {"limit": {"setting": "json_body_bytes", "unit": "bytes", "allowed": 32000000, "came": 40000000}},
    ),
    "not_found": Code(404, "There is no such object", "there is no such job"),
    "method_not_allowed": Code(405, "Method not allowed", "PUT is not possible here; possible: GET, POST"),
    # States
    "too_many_webhooks": Code(409, "The tenant has as many webhooks as it may", "a tenant may have 20 webhooks"),
    "budget_exhausted": Code(
        409,
        "The privacy budget does not allow this",
        "epsilon 0.5 and delta 0.0 were asked for, the largest request that passes is epsilon 0.1 at delta 0.0;"
        " nothing was charged",
        {
            "binding": {
                "account": "acc_1DkLuJ3mW4pS",
                "cap": {"epsilon": 1.0, "delta": 0.0},
                "spent": {"epsilon": 0.9, "delta": 0.0},
                "reserved": {"epsilon": 0.0, "delta": 0.0},
                "requested": {"epsilon": 0.5, "delta": 0.0},
                "largest": {"epsilon": 0.1, "delta": 0.0},
            }
        },
    ),
    "request_in_flight": Code(
        409, "The same request is being answered", "a request with this Idempotency-Key is in flight"
    ),
    "no_result": Code(409, "The job has no result", "this job is queued and has no result"),
    "job_ended": Code(409, "The job has ended", "this job has succeeded already"),
    "content_known": Code(409, "The content is registered otherwise", "this content is registered with another mode"),
    "unit_differs": Code(
        409,
        "The privacy units differ",
        "this account counts in the unit request, the dataset in person",
    ),
    "dataset_in_use": Code(409, "A job needs the dataset", "a job still needs this dataset; cancel it first"),
    "cap_below_spent": Code(409, "The cap is below what is spent", "more than this cap is spent or reserved already"),
    "name_taken": Code(409, "The name is taken", "there is a tenant north already"),
    "conflict": Code(
        409, "The object's state does not allow this", "the object is in a state that does not allow this"
    ),
    # Sessions of agents
    "not_awaiting_agents": Code(409, "The job waits for no agents", "this job is running"),
    "owner_pinned": Code(409, "The links pin another owner", "the links of this session pin another owner's key"),
    "owner_differs": Code(403, "Another owner's key", "the links of this session pin another owner's key"),
    "roster_signature": Code(403, "The roster's signature is wrong", "the roster is not signed by this key"),
    "roster_signed": Code(409, "The roster is signed", "the roster is signed already"),
    "roster_stale": Code(409, "The roster is out of date", "an agent announced something else meanwhile"),
    "session_full": Code(409, "The session is full", "as many agents as the job's terms allow have joined"),
    "no_rpc": Code(503, "gRPC is not set up", "this API does not know where gRPC is: set DISCREET_RPC_ADDRESS"),
    "not_read": Code(
        503,
        "The upload could not be read",
        "the reader of the upload ended without an answer: the child was ended by SIGSEGV",
    ),
    "not_isolated": Code(
        503,
        "Uploads are not read on this machine",
        "a child is shut in to level partial here, not full: it reaches local sockets (DISCREET_LEAST_ISOLATION, "
        "docs/security.md)",
    ),
    # The service
    "unavailable": Code(503, "The service cannot answer now", "a part that discreet needs does not answer; try again"),
    "database_unavailable": Code(
        503,
        "The database does not answer",
        "the database does not answer; whether a change was made is not known here: look at the object, or send the"
        " same Idempotency-Key again",
    ),
    "database_busy": Code(
        503,
        "The database is too busy",
        "the database is too busy; what this would have changed is as it was; try again",
    ),
    "database_full": Code(
        503,
        "The database's disk is full",
        "the disk of the database is full; what this would have changed is as it was",
    ),
    "database_read_only": Code(
        503,
        "The database takes no changes",
        "the database takes no changes now (read-only, as a standby is); what this would have changed is as it was",
    ),
    "wrong_schema": Code(
        503,
        "The database has the schema of another version",
        "the database has schema 0006, this version needs 0007: run `discreet migrate`",
    ),
    "storage_unavailable": Code(
        503,
        "The object storage does not answer",
        "the object storage said nothing for 10 s; try again",
    ),
    "storage_full": Code(503, "The object storage is full", "the object storage has no room for more"),
    "storage_denied": Code(
        503, "The object storage refuses this service", "the object storage does not let this service in"
    ),
    "spool_unavailable": Code(
        503,
        "There is no room for the upload",
        "no room for the upload while it is read (DISCREET_SPOOL): No space left on device; nothing was registered",
    ),
    "reader_not_started": Code(
        503, "Uploads cannot be read now", "the reader of uploads does not start; nothing was registered"
    ),
    "not_ready": Code(503, "The process is not ready", "database: the database does not answer"),
    "result_altered": Code(
        500,
        "The stored result is not what was published",
        "what is stored is not what was published: the result is not the one that was certified: it was changed or"
        " exchanged",
    ),
    "signing_key_unknown": Code(
        503,
        "The certificate is signed by an unknown key",
        "the certificate of this job is signed by 11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=, which is no key of this"
        " installation: a rotation has not reached this machine, the key was retired (`discreet secrets trust` takes it"
        " back), or the result was exchanged",
    ),
    "internal": Code(500, "Internal error", INTERNAL),
}
"""Every code that the HTTP API answers with. A code has one status for ever, and is never used for anything else."""

NOTHING_HERE = "there is nothing at this address; /docs lists the calls"

HEADERS: dict[str, dict[str, str]] = {
    **{code: {"Retry-After": "2"} for code, known in CODES.items() if known.status == HTTPStatus.SERVICE_UNAVAILABLE},
    "request_in_flight": {"Retry-After": "1"},
}


class Issue(BaseModel):
    """One bad field."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the request body")
    detail: str


class Binding(BaseModel):
    """The cap that does not let a request pass. Figures are {epsilon, delta}."""

    account: str
    cap: dict[str, float]
    spent: dict[str, float]
    reserved: dict[str, float]
    requested: dict[str, float]
    largest: dict[str, float] = Field(description="The largest request that would pass")
    scope: str | None = Field(default=None, description="`tenant` or `principal` where such a cap binds")
    subject: str | None = Field(default=None, description="Whose cap it is")


class LimitAnswer(BaseModel):
    """A limit that the request went over."""

    setting: str = Field(description="The setting that holds it (`DISCREET_…`), or its fixed name")
    unit: str
    allowed: int
    came: int | None = Field(default=None, description="Null where reading stopped at the limit")


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:discreet:problem: and the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of the error")
    errors: list[Issue] | None = None
    binding: Binding | None = None
    limit: LimitAnswer | None = None


def body_of(
    status: int, code: str, detail: str, issues: Iterable[FieldIssue] = (), extra: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A problem document."""
    body: dict[str, Any] = {
        "type": f"urn:discreet:problem:{code}",
        "title": CODES[code].title if code in CODES else HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    errors = [{"pointer": issue.pointer, "detail": issue.detail} for issue in issues]
    if errors:
        body["errors"] = errors
    body.update(extra or {})
    return body


def example(code: str) -> dict[str, Any]:
    """A problem document of this code, for the contract."""
    known = CODES[code]
    return body_of(known.status, code, known.example, (), known.extra)


def document(
    status: int,
    code: str,
    detail: str,
    issues: Iterable[FieldIssue] = (),
    extra: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    sent = {**HEADERS.get(code, {}), **({"WWW-Authenticate": "Bearer"} if status == 401 else {}), **(headers or {})}
    return JSONResponse(
        body_of(status, code, detail, issues, extra),
        status_code=status,
        headers=sent,
        media_type="application/problem+json",
    )


def of_error(error: DiscreetError) -> JSONResponse:
    """The problem document of a refusal."""
    known = CODES.get(error.code)
    status = next(s for kind, s in STATUS if isinstance(error, kind)) if known is None else known.status
    extra: dict[str, Any] = {}
    if isinstance(error, BudgetExhausted):
        extra["binding"] = error.binding
    if error.limit is not None:
        extra["limit"] = asdict(error.limit)
    issues = error.issues if isinstance(error, InvalidInput | NotFound) else ()
    headers = None
    if isinstance(error, TooManyRequests):
        spent = Rate(error.limit.allowed if error.limit else 0, error.window_seconds, 0, error.seconds_left)
        headers = {"Retry-After": str(error.seconds_left), **rate_headers(spent)}
    if isinstance(error, TooManyUploads):
        headers = {"Retry-After": str(error.seconds_left)}
    return document(status, error.code, error.detail, issues, extra, headers)


def _methods(request: Request) -> str:
    """What the address of this request can be asked for. The framework names only the first route that it finds."""
    routes = (route for route in request.app.router.routes if route.matches(request.scope)[0] is not Match.NONE)
    return ", ".join(sorted({method for route in routes for method in getattr(route, "methods", None) or ()}))


def rate_headers(rate: Rate) -> dict[str, str]:
    """What is left of a key's quota, as draft-ietf-httpapi-ratelimit-headers-10 writes it."""
    return {
        "RateLimit-Policy": f'"requests";q={rate.quota};w={rate.window_seconds}',
        "RateLimit": f'"requests";r={rate.remaining};t={rate.seconds_left}',
    }


def install(app: FastAPI) -> None:
    """Every error of the application leaves as a problem document."""

    @app.exception_handler(DiscreetError)
    async def refused(request: Request, error: DiscreetError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Bodies are validated by `bodies`; what FastAPI itself refuses are parameters of path, query and header.
        issues = [FieldIssue(pointer(issue["loc"]), sentence(issue)) for issue in error.errors()]
        return document(422, "invalid_parameter", f"{issues[0].pointer}: {issues[0].detail}", issues)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == HTTPStatus.NOT_FOUND:
            return document(404, "not_found", NOTHING_HERE)
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            possible = _methods(request)
            detail = f"{request.method} is not possible here; possible: {possible}"
            return document(405, "method_not_allowed", detail, headers={"Allow": possible})
        return document(error.status_code, "http_error", str(error.detail), headers=error.headers)

    async def database(request: Request, error: Exception) -> JSONResponse:
        services = request.app.state.services
        found = trouble(error) or await schema_trouble(services.database, error)
        cause = getattr(error, "orig", error)
        # The statement's parameters are left out: they may be private.
        named = {"error": type(cause).__name__, "sqlstate": getattr(cause, "sqlstate", None)}
        if found is not None:
            log.warning("database trouble", code=found.code, **named)
            return of_error(found)
        log.error("database error", **named)
        return document(500, "internal", INTERNAL)

    for kind in (DBAPIError, PoolTimeout, psycopg.Error, ConnectionError):
        app.add_exception_handler(kind, database)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        # Where, and of which type; not the message, which may carry a value of private content.
        trace = "".join(traceback.format_tb(error.__traceback__))
        log.error("unexpected error", error=type(error).__name__, path=request.url.path, trace=trace)
        return document(500, "internal", INTERNAL)
