"""The viewer of a page: the session cookie, and what every form must prove.

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
from discreet.storage.database import act_for
from discreet.storage.tenants import Principal
from discreet.usecases import logins
from discreet.usecases.access import require
from discreet.usecases.keyring import Keyring
from discreet.usecases.logins import Opened
from discreet.usecases.services import Services
from discreet.web.security import SESSION_COOKIE

SIGN_IN_COOKIE = "discreet_sign_in"
"""Cookie of a browser that is on its way to the identity provider and back."""
VISITOR_COOKIE = "discreet_visitor"
"""Cookie of a visitor who is not logged in, to which the token of the login form is bound."""

FORM_TOKEN = "csrf"  # noqa: S105 - the name of a field
TOKEN_HEADER = "x-csrf-token"  # noqa: S105 - the name of a header


@dataclass(frozen=True)
class Viewer:
    """The person or key that is logged in."""

    principal: Principal
    tenant_name: str
    csrf: str
    """The token of this session's forms."""
    called: str
    """The name that pages show."""

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
    """Who is logged in. The request counts against the quota of the key that the session came from.

    Unauthenticated if nobody is logged in, TooManyRequests above the quota, and Forbidden for a
    POST that no form of this session sent.
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
    act_for(login.principal.key_id)
    if request.method not in ("GET", "HEAD"):
        await check_form(request, found.csrf)
    return found


async def visitor(request: Request) -> Viewer | None:
    """Who is logged in, None if nobody is or it cannot be known: for pages that are open to all."""
    try:
        return await viewer(request)
    except (Unauthenticated, Unavailable):
        return None


async def is_logged_in(request: Request) -> bool:
    """Whether the session is still valid: streams ask, since they outlive the check at their
    beginning."""
    return await logins.find(_services(request), cookies.read(request, SESSION_COOKIE)) is not None


async def check_form(request: Request, expected: str) -> None:
    """Forbidden unless the request came from a page of this server and of this session.

    The token comes in a header from scripts, in the form otherwise, and in the address only with a
    multipart upload, whose body is streamed and not read here.
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
            "this form belongs to another session: go back, load the page again and send it once "
            "more",
            code="stale_form",
        )


def is_own_origin(request: Request) -> bool:
    """Whether the `Origin` that browsers send with a POST is this server. Only the host is
    compared, since a proxy may end TLS."""
    origin = request.headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc == request.headers.get("host", "")


def visitor_token(request: Request) -> tuple[str, str]:
    """The cookie of a visitor who is not logged in, made if there is none, and the token of the
    login form."""
    cookie = cookies.read(request, VISITOR_COOKIE) or secrets.token_urlsafe(16)
    return cookie, logins.form_token(_services(request), cookie)


async def check_visitor(request: Request) -> None:
    """Check the login form as `viewer` checks others, so that no form of another site logs anybody
    in."""
    cookie = cookies.read(request, VISITOR_COOKIE)
    # A browser that sends no Sec-Fetch-Site was given the cookie under its plain name; `Origin`
    # protects the form as well.
    if not cookie:
        cookie = request.cookies.get(VISITOR_COOKIE, "")
    await check_form(request, logins.form_token(_services(request), cookie))


def remember(request: Request, response: Response, opened: Opened) -> None:
    """Set the session's cookie and remove the visitor's."""
    cookies.put(request, response, SESSION_COOKIE, opened.token)
    cookies.drop(request, response, VISITOR_COOKIE)


CurrentViewer = Annotated[Viewer, Depends(viewer)]
Visitor = Annotated[Viewer | None, Depends(visitor)]


def only(*roles: str) -> Callable[[Viewer], Awaitable[Viewer]]:
    """A dependency: the viewer if it has one of these roles; Forbidden otherwise."""

    async def dependency(found: CurrentViewer) -> Viewer:
        require(found.principal, *roles)
        return found

    return dependency


Owner = Annotated[Viewer, Depends(only("owner"))]
Operator = Annotated[Viewer, Depends(only("operator"))]
Submitter = Annotated[Viewer, Depends(only("owner", "analyst"))]
Reader = Annotated[Viewer, Depends(only("owner", "analyst", "auditor"))]
"""The roles of a tenant that may read its budgets, jobs and datasets."""
Auditor = Annotated[Viewer, Depends(only("owner", "auditor"))]
