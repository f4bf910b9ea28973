"""Logging in to the pages by the identity provider: OpenID Connect's authorization code flow with
PKCE (RFC 7636).

What binds an answer to the browser that asked (`state`), to the ID token (`nonce`) and to the code
(the verifier) is derived from one random word in a cookie of that browser, by keys of this
installation. Nothing is kept here meanwhile, and who has only the address of an answer has nothing.
"""

from __future__ import annotations

import base64
import hmac
import secrets as random
import time
from collections.abc import Mapping
from dataclasses import dataclass

from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri, prepare_token_request
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from discreet.errors import Forbidden, Unauthenticated
from discreet.storage.tenants import Principal
from discreet.usecases import logins
from discreet.usecases.logins import Opened
from discreet.usecases.oidc import people, tokens
from discreet.usecases.oidc.grants import claim
from discreet.usecases.oidc.tokens import Provider, ProviderUnavailable, Vouched
from discreet.usecases.services import Services

MINUTES = 10
"""For the form of the provider; then the login begins anew."""
LONGEST_PLACE = 1000
FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Begun:
    """A login that has begun: where the browser goes, and the cookie that it brings back."""

    address: str
    cookie: str


@dataclass(frozen=True)
class Finished:
    """A login that has succeeded, and the page that the browser was on its way to."""

    opened: Opened
    person: Principal
    place: str


@dataclass(frozen=True)
class _Attempt:
    """What one login is bound to."""

    state: str
    nonce: str
    verifier: str


async def begin(services: Services, provider: Provider, place: str) -> Begun:
    """Send a browser to the provider, from which it comes back to `place`. ProviderUnavailable."""
    configuration = provider.configuration
    metadata = await provider.metadata()
    word = random.token_urlsafe(32)
    attempt = _attempt(services, word)
    address = prepare_grant_uri(
        metadata.authorization_endpoint,
        configuration.client_id,
        "code",
        configuration.redirect_uri,
        configuration.scopes,
        attempt.state,
        nonce=attempt.nonce,
        code_challenge=create_s256_code_challenge(attempt.verifier),
        code_challenge_method="S256",
    )
    kept = _written((place if len(place) <= LONGEST_PLACE else "/").encode())
    text = f"{word}.{int(time.time()) + 60 * MINUTES}.{kept}"
    return Begun(str(address), f"{text}.{logins.mac(services, 'sign-in', text).hex()}")


async def finish(
    services: Services, provider: Provider, cookie: str, answer: Mapping[str, str]
) -> Finished:
    """Log in who comes back from the provider with this cookie and these parameters.

    Forbidden where the answer belongs to no login of this browser, or gives no role here;
    Unauthenticated where the provider says no, or what it says does not count; ProviderUnavailable.
    """
    word, place = _read(services, cookie)
    attempt = _attempt(services, word)
    if not hmac.compare_digest(answer.get("state", "").encode(), attempt.state.encode()):
        raise _foreign()
    configuration = provider.configuration
    metadata = await provider.metadata()
    issuer = answer.get("iss")
    if issuer != configuration.issuer and (issuer is not None or metadata.says_issuer):
        raise Forbidden(
            "this answer is from another identity provider than the one that was asked",
            code="foreign_answer",
        )
    if "error" in answer or not answer.get("code"):
        raise Unauthenticated(_why(answer.get("error", "")), code="login_refused")
    granted = await _exchange(provider, answer["code"], attempt.verifier)
    id_token, access_token = granted.get("id_token"), granted.get("access_token")
    if not isinstance(id_token, str):
        raise ProviderUnavailable("the identity provider sent no ID token")
    access_token = access_token if isinstance(access_token, str) else None
    vouched = await tokens.id_token(
        provider, id_token, nonce=attempt.nonce, access_token=access_token
    )
    vouched = await _completed(provider, vouched, access_token)
    person = await people.find_or_create_person(services, configuration, vouched)
    sid = vouched.claims.get("sid")
    opened = await logins.open_for_person(
        services,
        person,
        issued_at=vouched.issued_at,
        sid=sid if isinstance(sid, str) else None,
        id_token=id_token,
    )
    return Finished(opened, person, place)


async def logout_address(provider: Provider, id_token: str) -> str | None:
    """Where the browser ends the provider's own session (OpenID Connect RP-Initiated Logout); None
    where it has no such place, or the settings want none."""
    configuration = provider.configuration
    try:
        place = (await provider.metadata()).end_session_endpoint if configuration.logout else None
    except ProviderUnavailable:
        return None
    if place is None:
        return None
    fields = {
        "id_token_hint": id_token,
        "post_logout_redirect_uri": configuration.public_url + "/login",
    }
    return str(prepare_grant_uri(place, configuration.client_id, "none", **fields)).replace(
        "response_type=none&", ""
    )


async def _exchange(provider: Provider, code: str, verifier: str) -> dict[str, object]:
    """What the provider gives for a code. Unauthenticated where it gives nothing."""
    configuration, metadata = provider.configuration, await provider.metadata()
    body = prepare_token_request(
        "authorization_code", "", configuration.redirect_uri, code=code, code_verifier=verifier
    )
    method = "none"
    if configuration.client_secret is not None:
        basic = (
            "client_secret_basic" in metadata.client_methods
            or "client_secret_post" not in metadata.client_methods
        )
        method = "client_secret_basic" if basic else "client_secret_post"
    client = ClientAuth(configuration.client_id, configuration.client_secret, method)
    url, headers, body = client.prepare(
        "POST", metadata.token_endpoint, {"Content-Type": FORM}, body
    )
    status, found = await provider.ask("POST", url, data=body, headers=headers)
    if status != 200:
        raise Unauthenticated(_why(str(found.get("error", ""))), code="login_refused")
    return found


async def _completed(provider: Provider, vouched: Vouched, access_token: str | None) -> Vouched:
    """With the provider's userinfo, where the ID token lacks the claim that gives roles."""
    endpoint = (await provider.metadata()).userinfo_endpoint
    if (
        claim(vouched.claims, provider.configuration.roles_claim) is not None
        or endpoint is None
        or not access_token
    ):
        return vouched
    status, found = await provider.ask(
        "GET", endpoint, headers={"Authorization": f"Bearer {access_token}"}
    )
    if status != 200 or found.get("sub") != vouched.subject:
        raise Unauthenticated(
            "the identity provider's user information is about another person", code="login_refused"
        )
    return Vouched(
        vouched.subject, vouched.issued_at, vouched.expires_at, {**found, **vouched.claims}
    )


def _attempt(services: Services, word: str) -> _Attempt:
    state, nonce, verifier = (
        _written(logins.mac(services, f"sign-in {use}", word))
        for use in ("state", "nonce", "verifier")
    )
    return _Attempt(state, nonce, verifier)


def _read(services: Services, cookie: str) -> tuple[str, str]:
    """The word of a cookie that `begin` made, and the page that the browser was on its way to."""
    text, _, mac = cookie.rpartition(".")
    if not hmac.compare_digest(mac.encode(), logins.mac(services, "sign-in", text).hex().encode()):
        raise _foreign()
    word, until, place = text.split(".")
    if time.time() > int(until):
        raise _foreign()
    return word, base64.urlsafe_b64decode(place + "==").decode()


def _written(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).rstrip(b"=").decode()


def _foreign() -> Forbidden:
    return Forbidden(
        "this login was begun in another browser or more than ten minutes ago; begin it again",
        code="foreign_answer",
    )


def _why(error: str) -> str:
    """The provider's error code in words; its own sentences, which could be anybody's, are not
    repeated."""
    known = (
        error
        if error.isascii() and error.replace("_", "").isalnum() and len(error) <= 60
        else "no reason"
    )
    return f"the identity provider refused this login ({known})"
