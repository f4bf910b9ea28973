"""Files that commands are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet_client import canonical


def strict(text: bytes) -> Any:
    """The value of strict JSON. InvalidInput names the place that is wrong."""
    from discreet.intake.strict_json import loads  # noqa: PLC0415 - loads NumPy, which the supervisor does without

    return loads(text)


def read_body(file: Path) -> Any:
    body = strict(file.read_bytes())
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: an object is needed")
    return body


def read_json(file: Path) -> dict[str, Any]:
    """Plain JSON: what is compared must keep the types that it was signed with. InvalidInput also for what two readers
    would read as two things: a key that stands twice, NaN, half of a surrogate pair."""
    try:
        body = json.loads(file.read_bytes(), object_pairs_hook=_once, parse_constant=_never)
        canonical.dumps(body)
    except (ValueError, OverflowError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: a JSON object is needed, in which no key stands twice")
    return body


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise ValueError("a key stands twice")
    return body


def _never(constant: str) -> Any:
    raise ValueError(constant)
