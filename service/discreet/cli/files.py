"""Reads the files that commands are given."""

from __future__ import annotations

import json
import math
import re
import tomllib
from datetime import date, time
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet_agent import canonical

_PERHAPS_NOT_FINITE = re.compile(rb"NaN|Infinity|[eE]\+?\d{3}")


def strict(text: bytes) -> Any:
    """The value of strict JSON without NaN and infinite numbers, which no request can carry.
    InvalidInput names the place of the error."""
    from discreet.intake.strict_json import loads  # noqa: PLC0415 - loads NumPy, which the supervisor does without

    value = loads(text)
    if _PERHAPS_NOT_FINITE.search(text):
        _refuse_not_finite(value)
    return value


def _refuse_not_finite(value: Any) -> None:
    from discreet.intake.field_issues import pointer  # noqa: PLC0415 - as above
    from discreet.intake.strict_json import walk  # noqa: PLC0415

    for path, one in walk([((), value)]):
        if isinstance(one, float) and not math.isfinite(one):
            raise InvalidInput("a finite number is needed", pointer=pointer(path))


def read_body(file: Path) -> Any:
    """An object from strict JSON, or from TOML if the name ends in `.toml`. InvalidInput names the
    place of the error."""
    body = _toml(file) if file.suffix.lower() == ".toml" else strict(file.read_bytes())
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: an object is needed")
    return body


def _toml(file: Path) -> dict[str, Any]:
    """Numbers keep their digits, as in strict JSON; dates are refused, since no field is one."""
    from discreet.intake.strict_json import Number  # noqa: PLC0415

    try:
        body = tomllib.loads(file.read_text(encoding="utf-8-sig"), parse_float=Number)
        _refuse_dates(body, "")
        _refuse_not_finite(body)
    except ValueError as error:
        raise InvalidInput(f"{file}: not TOML: {error}") from error
    except RecursionError:
        raise InvalidInput(f"{file}: not TOML: it is nested too deep") from None
    return body


def _refuse_dates(value: Any, pointer: str) -> None:
    if isinstance(value, date | time):
        raise InvalidInput(
            f'a date of TOML: write it as text, in quotes: "{value.isoformat()}"', pointer=pointer
        )
    if isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            _refuse_dates(one, f"{pointer}/{name}")


def read_json(file: Path) -> dict[str, Any]:
    """An object of plain JSON, whose values keep the types that they were signed with. InvalidInput
    also for what parsers read differently: a duplicate key, NaN, a lone surrogate."""
    try:
        body = json.loads(file.read_bytes(), object_pairs_hook=_once, parse_constant=_never)
        canonical.dumps(body)
    except (ValueError, OverflowError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: a JSON object without duplicate keys is needed")
    return body


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    body = dict(pairs)
    if len(body) < len(pairs):
        raise ValueError("duplicate key")
    return body


def _never(constant: str) -> Any:
    raise ValueError(constant)
