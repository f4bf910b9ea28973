"""Files that commands are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discreet.errors import InvalidInput
from discreet.strict_json import loads


def read_body(file: Path) -> Any:
    body = loads(file.read_bytes())
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: an object is needed")
    return body


def read_json(file: Path) -> dict[str, Any]:
    """Plain JSON: what is compared must keep the types that it was signed with."""
    try:
        body = json.loads(file.read_bytes())
    except ValueError:
        body = None
    if not isinstance(body, dict):
        raise InvalidInput(f"{file}: a JSON object is needed")
    return body
