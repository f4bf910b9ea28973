"""Errors as RFC 9457 problem documents: the only table from discreet's exceptions to HTTP."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from dataclasses import asdict
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
    DiscreetError,
    Exposed,
    FieldIssue,
    InvalidInput,
    NotFound,
    ReleaseDiffers,
    TooManyAtOnce,
    TooManyRequests,
)
from discreet.intake.field_issues import pointer, sentence
from discreet.storage.database import trouble
from discreet.storage.schema import schema_trouble
from discreet.usecases.keyring import Rate
from discreet.web.codes import CODES, HEADERS, INTERNAL, NOTHING_HERE, STATUS

log = structlog.get_logger()


class Issue(BaseModel):
    """One bad field."""

    pointer: str = Field(description="JSON pointer (RFC 6901) into the request body")
    detail: str
    row: int | None = Field(
        default=None, description="Of a table: the line of a CSV file, else the number of the row"
    )
    column: str | None = Field(default=None, description="Of a table: the column, as it is called")
    cause: str | None = Field(default=None, description="What is wrong, without place and value")
    found: str | None = Field(default=None, description="The first such value")
    expected: str | None = Field(default=None, description="How it is written to be read")
    way_out: str | None = Field(
        default=None, description="The rule that would help, such as `reader.decimal`"
    )
    count: int | None = Field(default=None, description="Of how many rows the same is true")
    last: int | None = Field(default=None, description="The last of these rows")


class Binding(BaseModel):
    """The cap that a request would exceed. Figures are {epsilon, delta}."""

    account: str
    cap: dict[str, float]
    spent: dict[str, float]
    reserved: dict[str, float]
    requested: dict[str, float]
    largest: dict[str, float] = Field(description="The largest request that would pass")
    scope: str | None = Field(
        default=None, description="`tenant` or `principal` if such a cap binds"
    )
    subject: str | None = Field(default=None, description="Whose cap it is")
    source: str | None = Field(
        default=None, description="The name of the source, if the cap is that of a block"
    )
    block: str | None = Field(default=None, description="The block")


class LimitAnswer(BaseModel):
    """A limit that the request exceeded."""

    setting: str = Field(description="The setting of the limit (`DISCREET_…`), or its fixed name")
    unit: str
    allowed: int
    came: int | None = Field(default=None, description="null if reading stopped at the limit")


class ProblemDocument(BaseModel):
    """An error (RFC 9457)."""

    type: str = Field(description="urn:discreet:problem: followed by the code")
    title: str
    status: int
    detail: str
    code: str = Field(description="Stable name of the error")
    errors: list[Issue] | None = None
    binding: Binding | None = None
    limit: LimitAnswer | None = None


def body_of(
    status: int,
    code: str,
    detail: str,
    issues: Iterable[FieldIssue] = (),
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A problem document."""
    body: dict[str, Any] = {
        "type": f"urn:discreet:problem:{code}",
        "title": CODES[code].title if code in CODES else HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
    }
    errors = [
        {"pointer": issue.pointer, "detail": issue.detail}
        | {name: one for name, one in (issue.more or {}).items() if one is not None}
        for issue in issues
    ]
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
    sent = {
        **HEADERS.get(code, {}),
        **({"WWW-Authenticate": "Bearer"} if status == 401 else {}),
        **(headers or {}),
    }
    return JSONResponse(
        body_of(status, code, detail, issues, extra),
        status_code=status,
        headers=sent,
        media_type="application/problem+json",
    )


def of_error(error: DiscreetError) -> JSONResponse:
    """The problem document of a refusal."""
    known = CODES.get(error.code)
    status = (
        next(s for kind, s in STATUS if isinstance(error, kind)) if known is None else known.status
    )
    extra: dict[str, Any] = {}
    if isinstance(error, BudgetExhausted):
        extra["binding"] = error.binding
    if error.limit is not None:
        extra["limit"] = asdict(error.limit)
    issues = (
        error.issues
        if isinstance(error, InvalidInput | NotFound | Exposed | ReleaseDiffers)
        else ()
    )
    headers = None
    if isinstance(error, TooManyRequests):
        spent = Rate(
            error.limit.allowed if error.limit else 0, error.window_seconds, 0, error.seconds_left
        )
        headers = {"Retry-After": str(error.seconds_left), **rate_headers(spent)}
    if isinstance(error, TooManyAtOnce):
        headers = {"Retry-After": str(error.seconds_left)}
    return document(status, error.code, error.detail, issues, extra, headers)


def _methods(request: Request) -> str:
    """The methods that the path of this request allows. The framework names only those of the
    first route that it finds."""
    routes = (
        route
        for route in request.app.router.routes
        if route.matches(request.scope)[0] is not Match.NONE
    )
    return ", ".join(
        sorted({method for route in routes for method in getattr(route, "methods", None) or ()})
    )


def rate_headers(rate: Rate) -> dict[str, str]:
    """Headers with what is left of a key's quota (draft-ietf-httpapi-ratelimit-headers-10)."""
    return {
        "RateLimit-Policy": f'"requests";q={rate.quota};w={rate.window_seconds}',
        "RateLimit": f'"requests";r={rate.remaining};t={rate.seconds_left}',
    }


def install(app: FastAPI) -> None:
    """Answer every error of the application with a problem document."""

    @app.exception_handler(DiscreetError)
    async def refused(request: Request, error: DiscreetError) -> JSONResponse:
        return of_error(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        # `bodies` validates bodies, so FastAPI itself refuses only parameters of path, query and
        # header.
        issues = [FieldIssue(pointer(issue["loc"]), sentence(issue)) for issue in error.errors()]
        return document(
            422, "invalid_parameter", f"{issues[0].pointer}: {issues[0].detail}", issues
        )

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
        log.error(
            "unexpected error", error=type(error).__name__, path=request.url.path, trace=trace
        )
        return document(500, "internal", INTERNAL)
