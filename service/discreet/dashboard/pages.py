"""Renders templates, with the headers that every page has."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import Any

from fastapi import Request
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import HTMLResponse, RedirectResponse, Response

from discreet.dashboard import assets, cookies, help_links, rounding, words
from discreet.dashboard.labels import as_labelled, place
from discreet.figures.charts import distribution
from discreet_client import intervals

MENU = (
    ("/operations", "Operations", ("operator",)),
    ("/", "Budgets", ("owner", "analyst", "auditor")),
    ("/jobs", "Jobs", ("owner", "analyst", "auditor")),
    ("/datasets", "Datasets", ("owner", "analyst", "auditor")),
    ("/networks", "Networks", ("owner", "analyst", "auditor")),
    ("/ledger", "Ledger", ("owner", "analyst", "auditor")),
    ("/audit", "Audit", ("owner", "analyst", "auditor", "operator")),
    ("/changes", "Changes", ("owner", "auditor", "operator")),
    ("/admin", "Admin", ("owner", "operator")),
)
"""Address and name of each entry, and the roles that see it."""

THEMES = ("auto", "light", "dark")
THEME_COOKIE = "discreet_theme"

API_PATHS = ("/v1", "/docs", "/openapi.json", "/healthz", "/readyz")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'{images}; connect-src "
    "'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # with `no-referrer` browsers send `Origin: null` with our own forms
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


def render(
    request: Request, template: str, *, status: int = 200, charts: object = (), **context: Any
) -> Response:
    """The page. With `charts`, those drawn on it, its policy also allows what plotly.js needs."""
    viewer = getattr(request.state, "viewer", None)
    text = environment.get_template(template).render(
        request=request,
        path=request.url.path,
        help=help_links.of(template),
        viewer=viewer,
        csrf="" if viewer is None else viewer.csrf,
        menu=[]
        if viewer is None
        else [(link, name) for link, name, roles in MENU if viewer.may(*roles)],
        theme=theme_of(request),
        themes=THEMES,
        charts=charts,
        **context,
    )
    return HTMLResponse(
        text,
        status_code=status,
        headers={**HEADERS, "Content-Security-Policy": policy(charts=bool(charts))},
    )


def policy(*, charts: bool) -> str:
    """The Content-Security-Policy. With charts it allows `data:` images, as which plotly.js draws
    heatmaps; `static/charts.js` avoids everything else that plotly.js would need."""
    return POLICY.format(images=" data:" if charts else "")


def go_to(address: str) -> Response:
    """A redirect (303) after a form was handled, so that a reload does not send the form again."""
    return RedirectResponse(address, status_code=303, headers=HEADERS)


def theme_of(request: Request) -> str:
    chosen = cookies.read(request, THEME_COOKIE)
    return chosen if chosen in THEMES else "auto"


def wants_page(request: Request) -> bool:
    """Whether the answer is to be a page. Requests to the API, and those of scripts that accept
    JSON or an event stream, get JSON, and errors as problem documents."""
    path = request.url.path
    of_api = any(path == known or path.startswith(f"{known}/") for known in API_PATHS)
    accepted = request.headers.get("accept", "")
    return not of_api and not any(
        kind in accepted for kind in ("application/json", "text/event-stream")
    )


# Filters ------------------------------------------------------------------------------------------


def moment(value: datetime | str | None) -> Markup:
    """A time in UTC, to the second, in an element that has the exact time for programs."""
    if value is None:
        return Markup("–")
    when = datetime.fromisoformat(value) if isinstance(value, str) else value
    when = when.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        when.isoformat().replace("+00:00", "Z"), when.strftime("%Y-%m-%d %H:%M:%S UTC")
    )


def lasting(seconds: float) -> str:
    """A duration in its two largest units: `3 min 20 s`."""
    left = int(seconds)
    parts: list[str] = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if left >= size or (size == 1 and not parts):
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2])


def short(value: str) -> str:
    """The beginning of an id or a hash, for tables."""
    prefix, mark, rest = value.partition("_")
    return f"{prefix}_{rest[:8]}…" if mark else f"{value[:12]}…"


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def with_code(text: str) -> Markup:
    """A text of ours, with code between backticks as the API and commands write it, as HTML."""
    parts = enumerate(text.split("`") if text.count("`") % 2 == 0 else [text])
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else part for place, part in parts
    )


def first_up(text: str) -> str:
    """A sentence with a capital; one that begins with the name of a field, such as `reader.start`,
    stays."""
    return text if re.match(r"\w+[._]\w", text) else text[:1].upper() + text[1:]


environment = Environment(
    loader=PackageLoader("discreet.dashboard"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
environment.globals.update(
    asset=assets.address,
    fields_help=help_links.of_fields,
    round_epsilon=rounding.epsilon,
    round_delta=rounding.delta,
    not_converged_sentence=intervals.NOT_CONVERGED,
    mostly_noise_sentence=intervals.MOSTLY_NOISE,
    at_place=words.at_place,
)
environment.filters.update(
    up=rounding.up,
    down=rounding.down,
    exact=rounding.exact,
    moment=moment,
    lasting=lasting,
    short=short,
    pretty=pretty,
    event_words=words.event,
    change=words.change,
    state=words.state,
    kind=words.kind,
    made_up=words.made_up,
    words=lambda text: str(text).replace("_", " "),
    who=words.who,
    distribution=distribution,
    iterations=words.iterations,
    mending=words.mending,
    field=words.field,
    factor=rounding.factor,
    gained=intervals.combined,
    spelt_out=intervals.spelt_out,
    with_code=with_code,
    place=place,
    as_labelled=as_labelled,
    first_up=first_up,
)
