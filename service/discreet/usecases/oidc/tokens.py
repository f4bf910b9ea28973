"""What of a token is believed: its signature by a key that the provider publishes, and then each
claim that says whom it was made for, by whom, when, and for which login.

Three kinds of token have the same form, and none may stand for another: ID tokens are for the
client's id and one login (`nonce`), access tokens for the API's own audience, logout tokens have
`events`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import structlog
from authlib.oauth2.claims import JWTClaims
from authlib.oidc.core import CodeIDToken
from cryptography.exceptions import UnsupportedAlgorithm
from joserfc import jws, jwt
from joserfc.errors import ClaimError, ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key

from discreet import outbound
from discreet.errors import Unauthenticated, Unavailable
from discreet.usecases.oidc.configuration import Configuration, is_safe

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


# Provider -----------------------------------------------------------------------------------------
# What the OpenID provider publishes: its addresses (discovery) and the keys that its tokens are
# signed with.
#
# Calls go to the provider that the settings name and to addresses that it publishes, through the
# client of `discreet.outbound`, over TLS; they have a short time and short answers. Keys are kept
# for KEYS_SECONDS. A token that names an unknown key has them fetched again, but not within
# UNKNOWN_SECONDS of the last time: strangers cannot make this service ask more often.

log = structlog.get_logger()

SECONDS = 5.0
LONGEST_ANSWER = 1 << 18
AT_ONCE = 16
METADATA_SECONDS = 3600.0
KEYS_SECONDS = 300.0
STALE_SECONDS = 3600.0
"""Keys that cannot be fetched again count for so long: the provider may be away for a while."""
UNKNOWN_SECONDS = 5.0
MOST_KEYS = 50
LEAST_RSA_BITS = 2048
KEY_TYPES: dict[str, tuple[type[Key], str | None]] = {
    **{f"{family}{bits}": (RSAKey, None) for family in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": (ECKey, "P-256"),
    "ES384": (ECKey, "P-384"),
    "ES512": (ECKey, "P-521"),
    "EdDSA": (OKPKey, "Ed25519"),
    "Ed25519": (OKPKey, "Ed25519"),
}
"""By algorithm: the type and curve of its keys. A key is used for nothing else, whatever a token
says."""


class ProviderUnavailable(Unavailable):
    """The identity provider does not answer; try again."""

    code = "provider_unavailable"


@dataclass(frozen=True)
class Metadata:
    """Addresses of the provider, as far as they are used here."""

    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None
    end_session_endpoint: str | None
    says_issuer: bool
    """Its answers to browsers name it (RFC 9207), so that one without that name is not its own."""
    client_methods: tuple[str, ...]
    """How a client may show its secret."""


class Provider:
    """The provider of this installation, in one process."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration
        self._asking = asyncio.Semaphore(AT_ONCE)
        self._metadata: Metadata | None = None
        self._metadata_at = self._keys_at = self._tried_at = self._tried_metadata_at = float("-inf")
        self._keys: tuple[Key, ...] = ()
        self._metadata_lock, self._keys_lock = asyncio.Lock(), asyncio.Lock()

    async def metadata(self) -> Metadata:
        """The provider's addresses. ProviderUnavailable when they cannot be had, or are not those
        of this issuer."""
        if time.monotonic() - self._metadata_at < METADATA_SECONDS:
            assert self._metadata is not None
            return self._metadata
        async with self._metadata_lock:
            now = time.monotonic()
            if (
                now - self._metadata_at >= METADATA_SECONDS
                and now - self._tried_metadata_at >= UNKNOWN_SECONDS
            ):
                try:
                    self._metadata = await self._discover()
                    self._metadata_at = now
                except ProviderUnavailable as error:
                    log.warning(
                        "the identity provider's metadata cannot be fetched", detail=error.detail
                    )
                finally:
                    # From its end: a provider that says nothing for longer than this would be asked
                    # anew by each request that waited meanwhile, one after the other.
                    self._tried_metadata_at = time.monotonic()
        if self._metadata is None:
            raise ProviderUnavailable()
        return self._metadata

    async def key(self, kid: str | None, algorithm: str) -> Key | None:
        """The published key of this name for this algorithm; None when there is none.

        A token without a name counts where the provider has one key of its type alone.
        """
        if time.monotonic() - self._keys_at >= KEYS_SECONDS:
            await self._fetch_keys(KEYS_SECONDS)
        found = self._fitting(kid, algorithm)
        if found is None:
            await self._fetch_keys(UNKNOWN_SECONDS)
            found = self._fitting(kid, algorithm)
        return found

    async def ask(
        self,
        method: str,
        url: str,
        *,
        data: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, Any]]:
        """Status and JSON object of an answer. ProviderUnavailable where there is none, or another
        thing."""
        if not is_safe(url):
            raise ProviderUnavailable(
                "the identity provider publishes an address that is not https"
            )
        asks = outbound.Asks(
            method,
            url,
            {"Accept": "application/json", **(headers or {})},
            (data or "").encode(),
            authority=self.configuration.authorities,
            silent_seconds=SECONDS,
        )
        reach = outbound.Reach("private", http=True)  # where `is_safe` lets http be loopback's
        try:
            async with asyncio.timeout(2 * SECONDS), self._asking:
                answer = await outbound.fetch(asks, reach, LONGEST_ANSWER, 2 * SECONDS)
        except (TimeoutError, outbound.OutboundError) as error:
            log.warning("the identity provider does not answer", error=type(error).__name__)
            raise ProviderUnavailable() from None
        try:
            found = json.loads(answer.body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise ProviderUnavailable("the identity provider's answer is not a JSON object")
        return answer.status, found

    async def _discover(self) -> Metadata:
        issuer = self.configuration.issuer
        status, found = await self.ask(
            "GET", issuer.rstrip("/") + "/.well-known/openid-configuration"
        )
        if status != 200 or found.get("issuer") != issuer:
            raise ProviderUnavailable("the metadata there is that of another issuer")
        needed: list[Any] = [
            found.get(name) for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
        ]
        wanted: list[Any] = [
            found.get(name) for name in ("userinfo_endpoint", "end_session_endpoint")
        ]
        given = [*needed, *(one for one in wanted if one is not None)]
        if not all(isinstance(one, str) and is_safe(one) for one in given):
            raise ProviderUnavailable(
                "the identity provider publishes an address that is not https, or lacks one"
            )
        methods = found.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        return Metadata(
            authorization_endpoint=needed[0],
            token_endpoint=needed[1],
            jwks_uri=needed[2],
            userinfo_endpoint=wanted[0],
            end_session_endpoint=wanted[1],
            says_issuer=found.get("authorization_response_iss_parameter_supported") is True,
            client_methods=tuple(
                filter(
                    lambda one: isinstance(one, str), methods if isinstance(methods, list) else []
                )
            ),
        )

    async def _fetch_keys(self, age: float) -> None:
        """Fetch the keys unless that was tried within so many seconds. ProviderUnavailable where
        none are known."""
        metadata = await self.metadata()
        async with self._keys_lock:
            now = time.monotonic()
            if now - self._tried_at >= min(age, UNKNOWN_SECONDS) and now - self._keys_at >= age:
                try:
                    status, found = await self.ask("GET", metadata.jwks_uri)
                    if status != 200 or not isinstance(found.get("keys"), list):
                        raise ProviderUnavailable("the identity provider publishes no keys")
                    self._keys, self._keys_at = _usable(found["keys"]), now
                except ProviderUnavailable as error:
                    log.warning(
                        "the identity provider's keys cannot be fetched", detail=error.detail
                    )
                finally:
                    self._tried_at = time.monotonic()  # from its end, as of the metadata
        if time.monotonic() - self._keys_at >= STALE_SECONDS:
            raise ProviderUnavailable()

    def _fitting(self, kid: str | None, algorithm: str) -> Key | None:
        kind, curve = KEY_TYPES[algorithm]
        fitting = [
            key
            for key in self._keys
            if isinstance(key, kind)
            and (curve is None or key.get("crv") == curve)
            and key.get("alg") in (None, algorithm)
            and (kid is None or key.get("kid") == kid)
        ]
        return fitting[0] if len(fitting) == 1 else None


def _usable(published: list[Any]) -> tuple[Key, ...]:
    """Public keys for signatures among these; what cannot be read, or is none, is passed over."""
    found = []
    for one in published[:MOST_KEYS]:
        if (
            not isinstance(one, dict)
            or one.get("kty") not in ("RSA", "EC", "OKP")
            or one.get("use", "sig") != "sig"
        ):
            continue
        try:
            key = import_key(one)
        except (JoseError, UnsupportedAlgorithm, ValueError, TypeError, KeyError, OverflowError):
            continue
        if isinstance(key, RSAKey) and key.public_key.key_size < LEAST_RSA_BITS:
            continue
        found.append(key)
    return tuple(found)
