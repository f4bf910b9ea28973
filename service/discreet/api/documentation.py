"""The contract as a page: made from the OpenAPI document, with nothing loaded from anywhere."""

from __future__ import annotations

import json
from typing import Any

from jinja2 import Environment, PackageLoader, select_autoescape
from starlette.responses import HTMLResponse

_environment = Environment(loader=PackageLoader("discreet.api"), autoescape=select_autoescape())


def documentation_page(document: dict[str, Any]) -> HTMLResponse:
    """Every operation with its parameters, answers and schemas."""
    page = _environment.get_template("documentation.html").render(
        document=document, pretty=lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"})
