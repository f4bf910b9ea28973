"""`python -m discreet.api.contract`: the OpenAPI document, as it is committed in `openapi/openapi.json`."""

from __future__ import annotations

import json

from discreet.api.app import create_app
from discreet.settings import Settings


def contract() -> str:
    """The document as text, the same for the same code."""
    return json.dumps(create_app(Settings()).openapi(), indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    print(contract(), end="")
