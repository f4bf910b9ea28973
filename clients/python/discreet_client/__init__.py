"""Client of the discreet service.

`Client` and `AsyncClient` speak HTTP; `discreet_agent` takes part in federated jobs. The
names below are loaded when they are first used: an agent on a small computer needs none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from discreet_client.aio import AsyncClient
    from discreet_client.answers import Answer
    from discreet_client.client import Client
    from discreet_client.errors import (
        AlreadyReleased,
        ApiError,
        BudgetExhausted,
        ClientError,
        Conflict,
        Forbidden,
        InvalidInput,
        JobFailed,
        LeftOut,
        MissingExtra,
        NotFound,
        OtherAccounts,
        RateLimited,
        ResultAltered,
        RoundedDown,
        ServerError,
        Unauthenticated,
        Unreachable,
    )

__all__ = [
    "AlreadyReleased",
    "Answer",
    "ApiError",
    "AsyncClient",
    "BudgetExhausted",
    "Client",
    "ClientError",
    "Conflict",
    "Forbidden",
    "InvalidInput",
    "JobFailed",
    "LeftOut",
    "MissingExtra",
    "NotFound",
    "OtherAccounts",
    "RateLimited",
    "ResultAltered",
    "RoundedDown",
    "ServerError",
    "Unauthenticated",
    "Unreachable",
]

_MODULES = {"Answer": "answers", "AsyncClient": "aio", "Client": "client"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"discreet_client.{_MODULES.get(name, 'errors')}"), name)
