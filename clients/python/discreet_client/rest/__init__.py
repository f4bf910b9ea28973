"""The contract of the HTTP API in types: `models` are the JSON documents, `operations` the
requests. No I/O here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Operation(Generic[T_co]):
    """One request that is not sent yet; its answer is a `T_co`."""

    method: str
    path: str
    """With its parameters, percent-encoded."""
    query: Mapping[str, Any] = field(default_factory=dict)
    """A parameter that is None is not sent: the service has its own default. So with `headers`."""
    headers: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    """A value to be sent as JSON, or None."""


def quoted(parameter: str) -> str:
    """A parameter as one segment of a path."""
    return quote(parameter, safe="")
