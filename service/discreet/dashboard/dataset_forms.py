"""What the form of a new dataset shows for each kind."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from discreet.dashboard import forms
from discreet.errors import InvalidInput
from discreet.problems import DATASETS
from discreet.storage.tenants import Principal
from discreet.usecases.places import rules
from discreet.usecases.places.rules import PlacesUnreadable
from discreet.usecases.services import Services
from discreet_client.contents import rows_of


async def places_of(services: Services, principal: Principal) -> dict[str, Any]:
    """What the form of an address says: the `places` that the operator allows this owner, and why
    they are not known (`trouble`), if they are not."""
    try:
        return {"places": await rules.addresses(services, principal), "trouble": ""}
    except PlacesUnreadable as error:
        return {"places": [], "trouble": error.detail}


def typed_place(form: forms.Form) -> dict[str, Any]:
    """The fields of the form of an address, as they were typed."""
    return {
        "content_from": form.get("content_from", ""),
        "content_query": form.get("content_query", "").replace("\r\n", "\n"),
        "content_stays": "content_stays" in form,
    }


def located(form: forms.Form) -> dict[str, Any]:
    """The fields of the form of an address, as the API has them. InvalidInput if a query stands
    beside an address that is no database's."""
    typed = typed_place(form)
    query = typed.pop("content_query").strip()
    if not query:
        return typed
    try:
        return {**typed, "content_from": rows_of(typed["content_from"].strip(), query)}
    except ValueError as error:
        raise InvalidInput(f"beside a query, {error}", pointer="/content_from") from None


def has_example(kind: str, public: Any) -> bool:
    """Whether the content of the kind's example may fit this public part, since it has every field
    that is made up for the example."""
    return isinstance(public, dict) and all(name in public for name in DATASETS[kind].MADE_UP)


def hint_of(kind: str, public: Any) -> str:
    """What to do with a file that has other columns; empty if the kind has no advice."""
    try:
        return DATASETS[kind].other_files(DATASETS[kind].read_public(public))
    except (KeyError, ValueError):
        return ""


@cache
def schema_of(kind: str) -> str:
    """The JSON schema of a kind's public part, as text for the page's script."""
    public: Any = DATASETS[kind].model_fields["public"].annotation
    return json.dumps(public.model_json_schema())


def described(kind: str) -> dict[str, list[dict[str, str]]]:
    """The fields of a kind's public part and of its private content, from the schema itself."""
    schema = DATASETS[kind].model_json_schema()

    def fields(name: str) -> list[dict[str, str]]:
        found = _resolved(schema, schema["properties"][name])
        required = set(found.get("required", ()))
        return [
            {
                "name": field,
                "type": _type(schema, one),
                "needed": "needed" if field in required else "optional",
                "description": one.get("description", ""),
            }
            for field, one in found.get("properties", {}).items()
        ]

    return {"public": fields("public"), "private": fields("content")}


def _resolved(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """A part of a schema, with its reference resolved."""
    name = part.get("$ref", "").rpartition("/")[2]
    return schema["$defs"][name] if name else part


def _type(schema: dict[str, Any], part: dict[str, Any]) -> str:
    part = _resolved(schema, part)
    if "enum" in part:
        return " or ".join(f"“{value}”" for value in part["enum"])
    if "const" in part:
        return f"“{part['const']}”"
    if "anyOf" in part:
        kinds = [_type(schema, one) for one in part["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if part.get("type") == "array":
        return (
            f"list of {_type(schema, part['items'])}"
            if isinstance(part.get("items"), dict)
            else "list"
        )
    if part.get("type") == "object" and "properties" in part:
        return "{" + ", ".join(part["properties"]) + "}"
    return str(part.get("type", "value"))
