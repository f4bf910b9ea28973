"""What of a token is believed: its signature by a key that the provider publishes, and then each
claim that says whom it was made for, by whom, when, and for which login.

Three kinds of token have the same form, and none may stand for another: ID tokens are for the
client's id and one login (`nonce`), access tokens for the API's own audience, logout tokens have
`events`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from authlib.oauth2.claims import JWTClaims
from authlib.oidc.core import CodeIDToken
from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError

from discreet.errors import Unauthenticated
from discreet.usecases.oidc.configuration import Configuration
from discreet.usecases.oidc.provider import Provider

LONGEST = 16_384
LONGEST_SUBJECT = 200
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
ACCESS_TYPES = ("at+jwt", "application/at+jwt", "jwt", "")
"""Types of access tokens: RFC 9068's, and those of providers from before it."""
ID_TYPES = ("jwt", "")
LOGOUT_TYPES = ("logout+jwt", "application/logout+jwt", "jwt", "")


@dataclass(frozen=True)
class Vouched:
    """Who a token is about, until when it counts, and all that it says."""

    subject: str
    issued_at: datetime
    expires_at: datetime
    claims: Mapping[str, Any]


def looks_like_one(bearer: str) -> bool:
    """Whether this is a JWT in its compact form, as no API key is."""
    return bearer.count(".") == 2 and bearer.startswith("ey")


async def access_token(provider: Provider, token: str) -> Vouched:
    """Who shows this access token. Unauthenticated with a code that says whether it has expired or
    does not count."""
    configuration = provider.configuration
    if configuration.audience is None:
        raise _refused("this API accepts no access tokens: DISCREET_OIDC_AUDIENCE is not set")
    header, claims = await _signed(provider, token, ACCESS_TYPES)
    found = _vouched(
        JWTClaims(claims, header, _options(configuration, configuration.audience)), configuration
    )
    typed = str(header.get("typ", "")).lower() in ACCESS_TYPES[:2]
    audience = claims["aud"]
    for_the_client = configuration.client_id in audience and isinstance(audience, list)
    # What binds an ID token to an answer: of a client that is called as the audience it has the
    # audience too.
    of_an_answer = "at_hash" in claims or "c_hash" in claims
    if "events" in claims or (not typed and (for_the_client or of_an_answer)):
        raise _refused("this is not an access token")
    callers = [one for one in (claims.get("azp"), claims.get("client_id")) if one is not None]
    if not all(isinstance(one, str) for one in callers):
        raise _refused("the client in this token (azp, client_id) is not text")
    if configuration.callers and (not callers or not set(callers) <= configuration.callers):
        raise _refused("this token was made for a client that is not among DISCREET_OIDC_CALLERS")
    return found


async def id_token(
    provider: Provider, token: str, *, nonce: str, access_token: str | None
) -> Vouched:
    """Who logged in, in answer to the request with this nonce. Unauthenticated when the token is no
    such answer."""
    configuration = provider.configuration
    assert nonce
    header, claims = await _signed(provider, token, ID_TYPES)
    if "events" in claims:
        raise _refused("this is not an ID token")
    params = {"nonce": nonce, "client_id": configuration.client_id, "access_token": access_token}
    return _vouched(
        CodeIDToken(claims, header, _options(configuration, configuration.client_id), params),
        configuration,
    )


async def logout_token(provider: Provider, token: str) -> tuple[str | None, str | None, datetime]:
    """Subject, session (`sid`) and time of a logout that the provider announces (OIDC Back-Channel
    Logout)."""
    configuration = provider.configuration
    header, claims = await _signed(provider, token, LOGOUT_TYPES)
    options = _options(configuration, configuration.client_id)
    del options["sub"]
    _check(JWTClaims(claims, header, options), configuration)
    subject, session = claims.get("sub"), claims.get("sid")
    events = claims.get("events")
    told = isinstance(events, dict) and LOGOUT_EVENT in events and "nonce" not in claims
    if (
        not told
        or not all(
            one is None or (isinstance(one, str) and one.isprintable())
            for one in (subject, session)
        )
        or not (subject or session)
    ):
        raise _refused("this is not a logout token")
    return subject, session, _moment(claims["iat"])


async def _signed(
    provider: Provider, token: str, types: tuple[str, ...]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of a token that the provider has signed; nothing else of it is checked."""
    allowed = provider.configuration.algorithms
    if len(token) > LONGEST or not token.isascii():
        raise _refused("this token is too long")
    try:
        header = jws.extract_compact(token.encode()).headers()
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise _refused("this is not a token (JWT)") from None
    algorithm, kid, kind = header.get("alg"), header.get("kid"), header.get("typ", "")
    if algorithm not in allowed or "crit" in header or not (kid is None or isinstance(kid, str)):
        raise _refused(
            "this token's signature algorithm is not accepted here (DISCREET_OIDC_ALGORITHMS)"
        )
    if not isinstance(kind, str) or kind.lower() not in types:
        raise _refused("this is a token of another kind")
    key = await provider.key(kid, algorithm)
    if key is None:
        raise _refused("this token is signed by a key that the identity provider does not publish")
    registry = jws.JWSRegistry(algorithms=[algorithm], strict_check_header=False)
    try:
        found = jwt.decode(token, key, algorithms=[algorithm], registry=registry)
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise _refused("this token's signature is wrong") from None
    return dict(found.header), dict(found.claims)


def _options(configuration: Configuration, audience: str) -> dict[str, Any]:
    return {
        "iss": {"essential": True, "value": configuration.issuer},
        "aud": {"essential": True, "value": audience},
        "sub": {"essential": True},
        "exp": {"essential": True},
        "iat": {"essential": True},
    }


def _check(claims: JWTClaims, configuration: Configuration) -> None:
    try:
        claims.validate(leeway=configuration.skew_seconds)
    except ExpiredTokenError:
        raise Unauthenticated("this token has expired", code="token_expired") from None
    except ClaimError as error:
        raise _refused(
            f"this token is not for this service, or not valid now: {error.description}"
        ) from None
    except (TypeError, ValueError):  # a claim of another type than it has
        raise _refused(
            "this token is not for this service: one of its claims has a wrong type"
        ) from None


def _vouched(claims: JWTClaims, configuration: Configuration) -> Vouched:
    _check(claims, configuration)
    subject = claims["sub"]
    if not subject.isprintable() or len(configuration.issuer) + 1 + len(subject) > LONGEST_SUBJECT:
        raise _refused("the name (sub) in this token is too long, or not printable")
    return Vouched(subject, _moment(claims["iat"]), _moment(claims["exp"]), claims)


def _moment(seconds: float) -> datetime:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        raise _refused("this token holds an invalid time") from None


def _refused(detail: str) -> Unauthenticated:
    return Unauthenticated(detail, code="token_invalid")
