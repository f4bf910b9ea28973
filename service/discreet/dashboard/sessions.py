"""Who looks at a page: the session cookie, and what every form must prove.

A POST passes when its `Origin` is this server, the session's cookie came with it (SameSite=Strict),
and it carries the form token of that cookie. `viewer` checks all three, so a route that takes a
viewer cannot forget one.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request
from starlette.responses import Response

from discreet.dashboard import cookies, forms
from discreet.errors import Forbidden, Unauthenticated, Unavailable
from discreet.storage.tenants import Principal
from discreet.usecases import logins
from discreet.usecases.access import require
from discreet.usecases.keyring import Keyring
from discreet.usecases.logins import Opened
from discreet.usecases.services import Services

SESSION_COOKIE = "discreet_session"
SIGN_IN_COOKIE = "discreet_sign_in"
"""Of a browser that is on its way to the identity provider and back."""
VISITOR_COOKIE = "discreet_visitor"
"""Of somebody who is not logged in yet: what the login form's token belongs to."""

FORM_TOKEN = "csrf"  # noqa: S105 - the name of a field
TOKEN_HEADER = "x-csrf-token"  # noqa: S105 - the name of a header


@dataclass(frozen=True)
class Viewer:
    """Who looks at the page."""

    principal: Principal
    tenant_name: str
    csrf: str
    """The token of this session's forms."""
    called: str
    """What people call who it is."""

    @property
    def tenant(self) -> str:
        return self.principal.tenant_id

    @property
    def role(self) -> str:
        return self.principal.role

    def may(self, *roles: str) -> bool:
        return self.role in roles


def _services(request: Request) -> Services:
    found = request.app.state.services
    assert isinstance(found, Services)
    return found


async def viewer(request: Request) -> Viewer:
    """Who is logged in, with this request counted against the quota of the key that the session
    came from.

    Unauthenticated when nobody is, TooManyRequests, and Forbidden for a POST that no form of ours
    has sent.
    """
    cookie = cookies.read(request, SESSION_COOKIE)
    login = await logins.find(_services(request), cookie) if cookie else None
    if login is None:
        raise Unauthenticated("log in first")
    found = Viewer(
        login.principal, login.tenant, logins.form_token(_services(request), cookie), login.called
    )
    request.state.viewer, request.state.tenant_id = found, login.principal.tenant_id
    keyring = request.app.state.keyring
    assert isinstance(keyring, Keyring)
    request.state.rate = await keyring.count(login.principal)
    if request.method not in ("GET", "HEAD"):
        await check_form(request, found.csrf)
    return found


async def visitor(request: Request) -> Viewer | None:
    """Who is logged in, if anybody is and that can be known: for pages that are open to all."""
    try:
        return await viewer(request)
    except (Unauthenticated, Unavailable):
        return None


async def is_logged_in(request: Request) -> bool:
    """Whether the session still counts: asked by streams, which outlive the look at the
    beginning."""
    return await logins.find(_services(request), cookies.read(request, SESSION_COOKIE)) is not None


async def check_form(request: Request, expected: str) -> None:
    """Forbidden unless the request came from a page of this server and of this session.

    The token comes in the header of a script, or else in the form. In the address it comes only
    with a multipart upload, whose body is streamed and not read here.
    """
    if not is_own_origin(request):
        raise Forbidden("this form was sent from another site", code="foreign_origin")
    sent = request.headers.get(TOKEN_HEADER)
    if sent is None and forms.is_multipart(request):
        sent = request.query_params.get(FORM_TOKEN, "")
    if sent is None:
        sent = (await forms.read(request)).get(FORM_TOKEN)
    if sent is None or not hmac.compare_digest(sent.encode(), expected.encode()):
        raise Forbidden(
            "this form is of another session: go back, load the page again and send it once more",
            code="stale_form",
        )


def is_own_origin(request: Request) -> bool:
    """Every browser says where a POST comes from; a proxy may end TLS, so that only the host is
    compared."""
    origin = request.headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc == request.headers.get("host", "")


def visitor_token(request: Request) -> tuple[str, str]:
    """The cookie of somebody who is not logged in, made when there is none, and the token of the
    login form."""
    cookie = cookies.read(request, VISITOR_COOKIE) or secrets.token_urlsafe(16)
    return cookie, logins.form_token(_services(request), cookie)


async def check_visitor(request: Request) -> None:
    """The same check as `viewer` makes, for the login form: nobody is logged in by a form of
    another site."""
    cookie = cookies.read(request, VISITOR_COOKIE)
    # a browser that sent no Sec-Fetch-Site with the page got a plain one; `Origin` guards the form
    # too
    if not cookie:
        cookie = request.cookies.get(VISITOR_COOKIE, "")
    await check_form(request, logins.form_token(_services(request), cookie))


def remember(request: Request, response: Response, opened: Opened) -> None:
    """Hand the session's cookie over."""
    cookies.put(request, response, SESSION_COOKIE, opened.token)
    cookies.drop(request, response, VISITOR_COOKIE)


CurrentViewer = Annotated[Viewer, Depends(viewer)]
Visitor = Annotated[Viewer | None, Depends(visitor)]


def only(*roles: str) -> Callable[[Viewer], Awaitable[Viewer]]:
    """A dependency: the viewer, if of one of these roles; Forbidden otherwise."""

    async def dependency(found: CurrentViewer) -> Viewer:
        require(found.principal, *roles)
        return found

    return dependency


Owner = Annotated[Viewer, Depends(only("owner"))]
Operator = Annotated[Viewer, Depends(only("operator"))]
Submitter = Annotated[Viewer, Depends(only("owner", "analyst"))]
Reader = Annotated[Viewer, Depends(only("owner", "analyst", "auditor"))]
"""Everybody of a tenant who may look at its budgets, jobs and datasets."""
Auditor = Annotated[Viewer, Depends(only("owner", "auditor"))]
