"""The contract as a page: made from the OpenAPI document, with nothing loaded from anywhere."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, select_autoescape
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse

from discreet.web.middleware import NOTHING

_environment = Environment(loader=PackageLoader("discreet.api"), autoescape=select_autoescape())

MOST_LETTERS = 4000
"""Characters of an example that are shown; longer ones are complete in the contract."""
_REFERENCE = re.compile(r'"#/components/schemas/(\w+)"')


class Field(NamedTuple):
    """One field of an object."""

    name: str
    kind: Markup
    needed: bool
    description: str


def documentation_page(document: dict[str, Any]) -> HTMLResponse:
    """Every operation with its roles, parameters, fields, examples and answers, and every
    schema."""
    schemas: Mapping[str, Any] = document["components"]["schemas"]
    page = _environment.get_template("documentation.html").render(
        document=document,
        pretty=pretty,
        example=example,
        words=words,
        kind=kind,
        fields=lambda schema: fields(_resolved(schema, schemas)),
        branches=lambda schema: _resolved(schema, schemas).get("oneOf", []),
    )
    policy = f"{NOTHING}; style-src 'sha256-{_style_digest(page)}'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})


def _style_digest(page: str) -> str:
    """Digest of the page's only style sheet: a browser applies that one and no other that a text
    might smuggle in."""
    (sheet,) = re.findall("<style>(.*?)</style>", page, re.DOTALL)
    return base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()


def pretty(value: Any) -> Markup:
    """JSON in which the names of schemas are links to them."""
    parts = _REFERENCE.split(json.dumps(value, indent=2, ensure_ascii=False))
    return Markup("").join(
        _link(part) if place % 2 else escape(part) for place, part in enumerate(parts)
    )


def example(value: Any) -> str:
    """JSON for reading, with long lists of numbers on one line; cut where it is very long."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    text = re.sub(r"\[[^\[\]{}\"]*\]", lambda found: f"[{' '.join(found[0][1:-1].split())}]", text)
    return text if len(text) <= MOST_LETTERS else f"{text[:MOST_LETTERS]}\n…"


def words(text: str) -> Markup:
    """A text with its `code` marked."""
    code = Markup("<code>{}</code>")
    return Markup("").join(
        code.format(part) if place % 2 else part for place, part in enumerate(text.split("`"))
    )


def fields(schema: Mapping[str, Any]) -> list[Field]:
    """The fields of an object's schema."""
    needed = schema.get("required", ())
    return [
        Field(name, kind(one), name in needed, said(one))
        for name, one in schema.get("properties", {}).items()
    ]


def said(schema: Mapping[str, Any]) -> str:
    """What a field means, with its unit, and when it may be asked again for a release."""
    parts = [schema.get("description", "")]
    parts += [f"unit: {schema['x-unit']}"] if "x-unit" in schema else []
    parts += (
        [f"may be asked again for a release: {schema['x-asked-again']}"]
        if "x-asked-again" in schema
        else []
    )
    return "; ".join(filter(None, parts))


def kind(schema: Mapping[str, Any]) -> Markup:
    """What a value may be, in words and links."""
    if "$ref" in schema:
        return _link(schema["$ref"].rpartition("/")[2])
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return Markup(" or ").join(kind(one) for one in schema[union])
    if "const" in schema:
        return Markup("<code>{}</code>").format(schema["const"])
    if "enum" in schema:
        return Markup(" or ").join(
            Markup("<code>{}</code>").format(value) for value in schema["enum"]
        )
    if schema.get("type") == "array" and "items" in schema:
        return Markup("array of {}").format(kind(schema["items"]))
    return escape(schema.get("type", "any JSON"))


def _link(name: str) -> Markup:
    return Markup('<a href="#schema-{0}">{0}</a>').format(name)


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    return schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
