"""The task of a child, and its answer."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from discreet.errors import (
    DiscreetError,
    FieldIssue,
    InvalidInput,
    Limit,
    PayloadTooLarge,
    Unavailable,
)
from discreet.isolation.frames import send

SOLVING = "discreet.isolation.solving"
"""The program of workers and sessions."""
READING = "discreet.isolation.reading"
"""The program of uploads."""


@dataclass(frozen=True)
class Task:
    """What a child was asked to do, inside the walls. Answers go to `channel`."""

    channel: socket.socket
    header: dict[str, Any]
    payload: bytes
    descriptors: tuple[int, ...]
    """Those that were given along, in their order."""


Step = Callable[[Task], None]
Function = Callable[[dict[str, Any], bytes, tuple[int, ...]], tuple[dict[str, Any], bytes]]


def answers(function: Function) -> Step:
    """The step that calls `function` with what `Zygote.call` was given (arguments, payload,
    descriptors) and answers what it returns, or the refusal that it raises: InvalidInput,
    PayloadTooLarge, Unavailable."""

    def step(task: Task) -> None:
        try:
            answer, payload = function(task.header["arguments"], task.payload, task.descriptors)
        except (InvalidInput, PayloadTooLarge, Unavailable) as error:
            send(task.channel, {"refused": _told(error)})
        else:
            send(task.channel, {"answer": answer}, payload)

    return step


def _told(error: InvalidInput | PayloadTooLarge | Unavailable) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "code": error.code,
        "detail": error.detail,
        "issues": [[issue.pointer, issue.detail, issue.more] for issue in error.issues]
        if isinstance(error, InvalidInput)
        else [],
        "limit": None if error.limit is None else asdict(error.limit),
    }


def refusal(told: dict[str, Any]) -> DiscreetError:
    """The refusal that a child tells of."""
    limit = None if told["limit"] is None else Limit(**told["limit"])
    match told["class"]:
        case "InvalidInput":
            return InvalidInput(
                (FieldIssue(*issue) for issue in told["issues"]), code=told["code"], limit=limit
            )
        case "PayloadTooLarge":
            return PayloadTooLarge(told["detail"], code=told["code"], limit=limit)
    return Unavailable(told["detail"], code=told["code"])
