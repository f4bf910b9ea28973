"""What a route declares: its name, who may call it, what it answers, and its error codes. The
declaration is the only source: the contract is made from it, `security.principal` enforces its
roles, and tests compare the answers with it. `roles=None` is for calls without a key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from email.utils import format_datetime
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from discreet.errors import FieldIssue, InvalidInput
from discreet.intake.field_issues import MOST_ISSUES, place, unknown_name
from discreet.web import problem_details
from discreet.web.codes import CODES

Answers = Mapping[int, type[BaseModel] | str | None]
"""By status: the model of a JSON answer, a media type, or None for no body."""

EVERYBODY = ("owner", "analyst", "auditor")
KEY_CODES = (
    "unauthenticated",
    "key_malformed",
    "key_unknown",
    "key_revoked",
    "key_expired",
    "token_invalid",
    "token_expired",
    "token_ended",
    "person_removed",
    "forbidden",
    "no_role",
    "several_tenants",
    "provider_unavailable",
    "rate_limited",
)
DATABASE_CODES = (
    "unavailable",
    "database_unavailable",
    "database_busy",
    "database_full",
    "database_read_only",
    "ledger_rolled_back",
    "wrong_schema",
    "keys_unavailable",
)
BODY_CODES = ("invalid_json", "invalid_input", "payload_too_large", "too_many_bodies")

_TEXT = {"schema": {"type": "string"}}
_HEADERS: dict[str, dict[str, Any]] = {
    "ETag": {
        **_TEXT,
        "description": "Name of this state of the object; send it as If-None-Match to get 304",
    },
    "Location": {**_TEXT, "description": "Where the object is"},
    "Retry-After": {
        "schema": {"type": "integer"},
        "description": "Seconds to wait before asking again",
    },
    "RateLimit": {
        **_TEXT,
        "description": '`"requests";r=…;t=…`: what is left of the quota, and for how many seconds',
    },
    "RateLimit-Policy": {
        **_TEXT,
        "description": '`"requests";q=…;w=…`: the quota of a key and its window in seconds',
    },
}


def operation(
    operation_id: str,
    *,
    roles: Sequence[str] | None,
    answers: Answers,
    codes: Sequence[str] = (),
    body: type[BaseModel] | None = None,
    or_body: type[BaseModel] | tuple[type[BaseModel], ...] = (),
    examples: Mapping[str, Any] | None = None,
    multipart: bool = False,
    etag: bool = False,
    location: bool = False,
    deprecated: tuple[datetime, datetime] | None = None,
) -> dict[str, Any]:
    """Arguments of a route's decorator. `deprecated`: its date of deprecation and its sunset
    (`docs/api.md`)."""
    refusals = [*codes, "invalid_parameter", *DATABASE_CODES]
    if roles is not None:
        refusals += KEY_CODES
    if body is not None:
        refusals += BODY_CODES
    extra: dict[str, Any] = {"x-roles": [] if roles is None else list(roles)}
    if body is not None:
        extra["requestBody"] = _request_body(
            (body, *(or_body if isinstance(or_body, tuple) else (or_body,))),
            examples or {},
            multipart,
        )
    arguments: dict[str, Any] = {"operation_id": operation_id, "openapi_extra": extra}
    if deprecated is not None:
        since, sunset = deprecated
        extra["x-deprecated-since"] = int(since.timestamp())
        extra["x-sunset"] = format_datetime(sunset, usegmt=True)
        arguments["deprecated"] = True
    responses: dict[int | str, dict[str, Any]] = {
        status: _answer(what, _headers(roles, status, etag=etag, location=location))
        for status, what in answers.items()
    }
    if etag:
        responses[304] = {"description": "Unchanged since the state that If-None-Match names"}
    return {
        **arguments,
        "status_code": next(iter(answers)),
        "responses": {**responses, **problems(*refusals)},
    }


def strict_query(route: APIRoute) -> None:
    """Let a route refuse parameters of its query that it does not know, or has twice: `?sttae=` was
    answered with everything."""
    known = sorted(_parameters(route.dependant))
    inner = route.app

    async def strict(scope: Scope, receive: Receive, send: Send) -> None:
        given = [name for name, _ in QueryParams(scope["query_string"]).multi_items()]
        issues = []
        for name in dict.fromkeys(given):
            where, says = place(("query", name), unknown_name(name, known, "parameter"))
            if name in known:
                says = "this parameter may be given once"
            if name not in known or given.count(name) > 1:
                issues.append(FieldIssue(where, says))
        if issues:
            raise InvalidInput(issues[:MOST_ISSUES], code="invalid_parameter")
        await inner(scope, receive, send)

    route.app = strict


def _parameters(dependant: Dependant) -> Iterator[str]:
    """Of a route's query, those of what it depends on included."""
    yield from (field.alias for field in dependant.query_params)
    for other in dependant.dependencies:
        yield from _parameters(other)


def problems(*codes: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI for the problem documents with these codes, with an example of each."""
    by_status: dict[int, list[str]] = {}
    for code in dict.fromkeys(codes):
        by_status.setdefault(CODES[code].status, []).append(code)
    return {status: _problem(status, sorted(by_status[status])) for status in sorted(by_status)}


def _problem(status: int, codes: list[str]) -> dict[str, Any]:
    response: dict[str, Any] = {
        "description": "; ".join(f"`{code}`: {CODES[code].title}" for code in codes),
        "content": {
            "application/problem+json": {
                "schema": {"$ref": "#/components/schemas/ProblemDocument"},
                "examples": {code: {"value": problem_details.example(code)} for code in codes},
            }
        },
        "x-codes": codes,
    }
    if status in (429, 503):
        response["headers"] = {"Retry-After": _HEADERS["Retry-After"]}
    return response


def _answer(what: type[BaseModel] | str | None, headers: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = {"headers": headers} if headers else {}
    if isinstance(what, str):
        schema = (
            {"type": "string"}
            if what.startswith("text/")
            else {"type": "string", "format": "binary"}
        )
        answer["content"] = {what: {"schema": schema}}
    elif what is not None:
        answer["model"] = what
    return answer


def _headers(
    roles: Sequence[str] | None, status: int, *, etag: bool, location: bool
) -> dict[str, Any]:
    names = ["RateLimit", "RateLimit-Policy"] if roles is not None else []
    if etag:
        names.append("ETag")
    if location:
        names.append("Location")
    if status == 202:
        names.append("Retry-After")
    return {name: _HEADERS[name] for name in names}


def _request_body(
    models: Sequence[type[BaseModel]], examples: Mapping[str, Any], multipart: bool
) -> dict[str, Any]:
    named = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in models]
    content: dict[str, Any] = {
        "application/json": {"schema": named[0] if len(named) == 1 else {"anyOf": named}}
    }
    if examples:
        content["application/json"]["examples"] = {
            name: {"value": value} for name, value in examples.items()
        }
    if multipart:
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "required": ["metadata", "content"],
                "properties": {
                    "metadata": {
                        "type": "string",
                        "description": "The JSON body without its `content`",
                    },
                    "content": {
                        "type": "string",
                        "format": "binary",
                        "x-private": True,
                        "description": "Parquet, CSV or JSON; by `reader` and `columns` of the "
                        "public part also Excel and OMX",
                    },
                },
            }
        }
    return {"required": True, "content": content}
