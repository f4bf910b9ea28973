"""Request bodies, read with limits and validated off the event loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import anyio.to_thread
from fastapi import Request
from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.strict_json import issues_of, loads

THREAD_BYTES = 1 << 16
"""Bodies above this size are parsed in a thread."""

Model = TypeVar("Model")


def validate(adapter: TypeAdapter[Model], value: Any) -> Model:
    """`value` as the model; InvalidInput with a pointer for each bad field."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        raise InvalidInput(issues_of(error.errors(include_url=False), value)) from error


async def read(request: Request, most: int) -> bytes:
    """The body, refused as soon as it is known to be over the limit."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > most:
        raise PayloadTooLarge(f"a JSON body may have {most} bytes, this one has {declared}")
    parts = bytearray()
    try:
        async for part in request.stream():
            parts += part
            if len(parts) > most:
                raise PayloadTooLarge(f"a JSON body may have {most} bytes")
    except ClientDisconnect as error:
        raise InvalidInput("the client went away before its body had come", code="invalid_json") from error
    return bytes(parts)


async def parse(adapter: TypeAdapter[Model], body: bytes) -> Model:
    """JSON bytes as a validated model."""

    def work() -> Model:
        return validate(adapter, loads(body))

    return await anyio.to_thread.run_sync(work) if len(body) > THREAD_BYTES else work()


def json_body(model: Any) -> Callable[[Request], Awaitable[Any]]:
    """A dependency that gives the validated JSON body."""
    adapter: TypeAdapter[Any] = TypeAdapter(model)

    async def dependency(request: Request) -> Any:
        return await parse(adapter, await read(request, request.app.state.services.settings.json_body_bytes))

    return dependency


def documented(*models: type[BaseModel], multipart: bool = False, **examples: Any) -> dict[str, Any]:
    """OpenAPI of a request body that routes read by themselves."""
    (model,) = models
    content: dict[str, Any] = {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    if examples:
        content["application/json"]["examples"] = {name: {"value": value} for name, value in examples.items()}
    if multipart:
        content["multipart/form-data"] = {
            "schema": {
                "type": "object",
                "required": ["metadata", "content"],
                "properties": {
                    "metadata": {"type": "string", "description": "The JSON body without its `content`"},
                    "content": {
                        "type": "string",
                        "format": "binary",
                        "x-private": True,
                        "description": "Parquet, CSV or JSON",
                    },
                },
            }
        }
    return {"requestBody": {"required": True, "content": content}}
