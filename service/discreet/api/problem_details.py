"""Errors as RFC 9457 problem documents: the one table from what discreet refuses to what HTTP says."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from discreet.errors import (
    BudgetExhausted,
    Conflict,
    DiscreetError,
    FieldIssue,
    Forbidden,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    Unauthenticated,
    Unavailable,
)
from discreet.strict_json import pointer

log = structlog.get_logger()

STATUS: tuple[tuple[type[DiscreetError], int], ...] = (
    (InvalidInput, 422),
    (Unauthenticated, 401),
    (Forbidden, 403),
    (NotFound, 404),
    (Conflict, 409),
    (PayloadTooLarge, 413),
    (Unavailable, 503),
    (DiscreetError, 500),
)
BAD_REQUEST_CODES = ("invalid_json", "idempotency_key_missing", "invalid_multipart")
"""Codes of requests that could not be read at all: 400, not 422."""

HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "2"}}
TITLES = {
    400: "The request could not be read",
    401: "Authentication is needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    422: "A field is not valid",
    500: "Internal error",
    503: "Not available now",
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


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:discreet:problem: and the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of the error")
    errors: list[Issue] | None = None
    binding: Binding | None = None


def document(
    status: int, code: str, detail: str, issues: Iterable[FieldIssue] = (), extra: Mapping[str, Any] | None = None
) -> JSONResponse:
    body: dict[str, Any] = {
        "type": f"urn:discreet:problem:{code}",
        "title": TITLES.get(status, "Error"),
        "status": status,
        "detail": detail,
        "code": code,
    }
    errors = [{"pointer": issue.pointer, "detail": issue.detail} for issue in issues]
    if errors:
        body["errors"] = errors
    body.update(extra or {})
    return JSONResponse(body, status_code=status, headers=HEADERS.get(status), media_type="application/problem+json")


def of_error(error: DiscreetError) -> JSONResponse:
    """The problem document of a refusal."""
    status = 400 if error.code in BAD_REQUEST_CODES else next(s for kind, s in STATUS if isinstance(error, kind))
    extra = {"binding": error.binding} if isinstance(error, BudgetExhausted) else None
    issues = error.issues if isinstance(error, InvalidInput | NotFound) else ()
    return document(status, error.code, error.detail, issues, extra)


def install(app: FastAPI) -> None:
    """Every error of the application leaves as a problem document."""

    @app.exception_handler(DiscreetError)
    async def refused(request: Request, error: DiscreetError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # Bodies are validated by `bodies`; what FastAPI itself refuses are parameters of path, query and header.
        issues = [FieldIssue(pointer(issue["loc"]), issue["msg"]) for issue in error.errors()]
        return document(422, "invalid_parameter", f"{issues[0].pointer}: {issues[0].detail}", issues)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> JSONResponse:
        code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "http_error")
        return document(error.status_code, code, str(error.detail))

    async def unavailable(request: Request, error: Exception) -> JSONResponse:
        log.warning("database does not answer", error=type(error).__name__)
        return of_error(Unavailable("the database does not answer; try again"))

    for kind in (OperationalError, PoolTimeout, psycopg.OperationalError, ConnectionError):
        app.add_exception_handler(kind, unavailable)

    @app.exception_handler(DBAPIError)
    async def database(request: Request, error: DBAPIError) -> JSONResponse:
        if error.connection_invalidated:
            return await unavailable(request, error)
        # The statement's parameters are left out: they may be private.
        log.error("database error", error=type(error.orig).__name__, sqlstate=getattr(error.orig, "sqlstate", None))
        return document(500, "internal", "something went wrong; nothing was charged by this request")

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        # Where, and of which type; not the message, which may carry a value of private content.
        trace = "".join(traceback.format_tb(error.__traceback__))
        log.error("unexpected error", error=type(error).__name__, path=request.url.path, trace=trace)
        return document(500, "internal", "something went wrong; nothing was charged by this request")
