"""Login with a key or a link, logout, and the choice of light or dark. Login through an identity
provider is in `sign_in.py`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from discreet.dashboard import cookies, forms, sessions
from discreet.dashboard.pages import THEME_COOKIE, THEMES, go_to, render
from discreet.dashboard.sessions import CurrentViewer
from discreet.errors import Forbidden, Unauthenticated
from discreet.usecases import access, logins
from discreet.usecases.oidc import login
from discreet.usecases.oidc.tokens import Provider
from discreet.web.responses import answer
from discreet.web.security import SESSION_COOKIE, CurrentPrincipal, CurrentServices

router = APIRouter(include_in_schema=False)

YEAR_SECONDS = 365 * 86400


@router.get("/login")
async def show_login(request: Request, next: str = "/") -> Response:  # noqa: A002 - the parameter's name
    """The form for an API key."""
    return login_page(request, next)


@router.post("/login")
async def log_in(request: Request, services: CurrentServices) -> Response:
    """Check the key and begin a session."""
    await sessions.check_visitor(request)
    form = await forms.read(request)
    place = local(form.get("next", "/"))
    try:
        opened = await logins.open_session(services, form.get("key", "").strip())
    except Unauthenticated as error:
        return login_page(request, place, status=401, problem=error.detail)
    response = go_to(place)
    sessions.remember(request, response, opened)
    return response


@router.post("/login/links", openapi_extra={"x-roles": list(access.ROLES)})
async def create_link(
    request: Request, services: CurrentServices, principal: CurrentPrincipal
) -> Response:
    """A link that logs the key's holder in once, which `discreet login` prints. Needs an API key; a
    cookie does not do."""
    opened = await logins.create_link(services, principal)
    return answer({"path": f"/login/{opened.token}", "expires_at": opened.expires_at}, 201)


@router.get("/login/{token}")
async def show_link(token: str, request: Request, services: CurrentServices) -> Response:
    """Show whom this link logs in. This does not use the link up, since mail programs and scanners
    open links too."""
    holder = await logins.link_holder(services, token)
    return _page(request, "login_link.html", token=token, holder=holder)


@router.post("/login/{token}")
async def use_link(token: str, request: Request, services: CurrentServices) -> Response:
    """Begin a session with a link, which works only once."""
    await sessions.check_visitor(request)
    opened = await logins.use_link(services, token)
    response = go_to("/")
    sessions.remember(request, response, opened)
    return response


@router.post("/logout")
async def log_out(request: Request, services: CurrentServices, viewer: CurrentViewer) -> Response:
    """End the session here and on the server."""
    id_token = await logins.end_session(
        services, cookies.read(request, SESSION_COOKIE), viewer.principal
    )
    provider: Provider | None = request.app.state.provider
    place = (
        None
        if provider is None or id_token is None
        else await login.logout_address(provider, id_token)
    )
    if place is None:
        response = go_to("/login")
    else:  # a page, not a redirect: `form-action` lets forms lead to this server only
        request.state.viewer = None
        response = render(request, "logged_out.html", place=place, provider=provider)
    cookies.drop(request, response, SESSION_COOKIE)
    return response


@router.post("/theme")
async def choose_theme(request: Request) -> Response:
    """Choose light, dark, or what the system prefers. Needs no login, since only a cookie of this
    browser is set."""
    if not sessions.is_own_origin(request):
        raise Forbidden("this form was sent from another site", code="foreign_origin")
    form = await forms.read(request)
    response = go_to(local(form.get("next", "/")))
    if form.get("theme") in THEMES:
        cookies.put(request, response, THEME_COOKIE, form["theme"], age=YEAR_SECONDS)
    return response


def login_page(
    request: Request, place: str, *, status: int = 200, problem: str | None = None
) -> Response:
    """The page with the ways to log in, after which the browser goes to `place` on this server."""
    provider: Provider | None = request.app.state.provider
    return _page(
        request, "login.html", status=status, next=local(place), problem=problem, provider=provider
    )


def _page(request: Request, template: str, **context: Any) -> Response:
    """A page for visitors who are not logged in; its forms are bound to a cookie of their own."""
    cookie, token = sessions.visitor_token(request)
    response = render(request, template, visitor=token, **context)
    cookies.put(request, response, sessions.VISITOR_COOKIE, cookie)
    return response


def local(place: str) -> str:
    """The address if it is one of this server, else its front page: a login leads nowhere else."""
    safe = (
        place.startswith("/")
        and not place.startswith(("//", "/\\"))
        and place.isprintable()
        and "\\" not in place
    )
    return place if safe else "/"
