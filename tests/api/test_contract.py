"""The committed contract is the served one, and keeps its own conventions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from discreet.api.contract import contract

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"


def operations() -> list[tuple[str, str, dict[str, Any]]]:
    paths = json.loads(contract())["paths"]
    return [
        (path, method, call) for path, methods in paths.items() for method, call in methods.items()
    ]


def test_the_committed_document_is_the_served_one() -> None:
    assert COMMITTED.read_text() == contract(), "run `make openapi` and review the changes"


def test_every_call_has_a_verb_and_words() -> None:
    names = [call["operationId"] for _, _, call in operations()]
    assert len(names) == len(set(names))
    for path, method, call in operations():
        assert "_" in call["operationId"], path
        assert call.get("description"), (path, method)


def test_every_reference_leads_somewhere() -> None:
    document = json.loads(contract())

    def references(value: Any) -> list[str]:
        if isinstance(value, dict):
            own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
            return own + [found for child in value.values() for found in references(child)]
        return (
            [found for child in value for found in references(child)]
            if isinstance(value, list)
            else []
        )

    found = references(document)
    assert found
    for reference in found:
        assert (
            reference.removeprefix("#/components/schemas/") in document["components"]["schemas"]
        ), reference


def test_calls_with_a_key_say_how_they_refuse() -> None:
    for path, _, call in operations():
        if path.startswith("/v1/"):
            keyed = {"401", "403"} if call["x-roles"] else set()
            assert {"503", *keyed} <= set(call["responses"]), path
            for status, response in call["responses"].items():
                if status >= "400" and status != "422":
                    assert "application/problem+json" in response["content"], (path, status)
