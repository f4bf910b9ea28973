"""Login through the identity provider, and its back-channel logout."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from discreet.dashboard import cookies, forms, sessions
from discreet.dashboard.pages import go_to, render
from discreet.dashboard.routes.login import local, login_page
from discreet.errors import Forbidden, NotFound, Unauthenticated
from discreet.usecases.oidc import login, people
from discreet.usecases.oidc.configuration import CALLBACK
from discreet.usecases.oidc.tokens import Provider, ProviderUnavailable
from discreet.web.codes import NOTHING_HERE
from discreet.web.security import CurrentServices

router = APIRouter(include_in_schema=False)


def _provider(request: Request) -> Provider:
    found: Provider | None = request.app.state.provider
    if found is None:
        raise NotFound(NOTHING_HERE)
    return found


CurrentProvider = Annotated[Provider, Depends(_provider)]


@router.get("/sign-in")
async def sign_in(
    request: Request,
    services: CurrentServices,
    provider: CurrentProvider,
    next: str = "/",  # noqa: A002 - the parameter's name
) -> Response:
    """Redirect to the provider. Any site may link here, since whoever follows the link can only log
    in as themselves."""
    try:
        begun = await login.begin(services, provider, local(next))
    except ProviderUnavailable as error:
        return login_page(request, next, status=503, problem=error.detail)
    response = go_to(begun.address)
    age = 60 * login.MINUTES
    cookies.put(
        request, response, sessions.SIGN_IN_COOKIE, begun.cookie, age=age, from_elsewhere=True
    )
    return response


@router.get(CALLBACK)
async def come_back(
    request: Request, services: CurrentServices, provider: CurrentProvider
) -> Response:
    """Begin a session for whoever comes back from the provider.

    The response is a page that goes on by itself and not a redirect: browsers do not send the
    session's cookie (SameSite=Strict) with a redirect that began at another site.
    """
    cookie = cookies.read(request, sessions.SIGN_IN_COOKIE)
    given = request.query_params
    answer = dict(given)
    if len(answer) != len(given.multi_items()):  # RFC 6749, 3.1: no parameter is repeated
        answer = {}
    try:
        finished = await login.finish(services, provider, cookie, answer)
    except (Forbidden, Unauthenticated, ProviderUnavailable) as error:
        status = {Forbidden: 403, Unauthenticated: 401}.get(type(error), 503)
        response = login_page(request, "/", status=status, problem=error.detail)
        # After an answer to somebody else's login, the browser's own may still come back.
        if not isinstance(error, Forbidden) or error.code != "foreign_answer":
            cookies.drop(request, response, sessions.SIGN_IN_COOKIE)
        return response
    response = render(request, "signed_in.html", place=local(finished.place))
    cookies.drop(request, response, sessions.SIGN_IN_COOKIE)
    sessions.remember(request, response, finished.opened)
    return response


@router.post("/sign-in/ended")
async def end(request: Request, services: CurrentServices, provider: CurrentProvider) -> Response:
    """Called by the provider when somebody is logged out or disabled there (OpenID Connect
    Back-Channel Logout)."""
    form = await forms.read(request)
    try:
        await people.ended_by_provider(services, provider, form.get("logout_token", ""))
    except Unauthenticated as error:
        return Response(
            error.detail,
            status_code=400,
            media_type="text/plain",
            headers={"Cache-Control": "no-store"},
        )
    return Response(status_code=200, headers={"Cache-Control": "no-store"})
