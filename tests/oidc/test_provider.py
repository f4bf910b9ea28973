"""What is believed of the provider itself, and which settings can be meant."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from joserfc.jwk import OctKey, RSAKey

from discreet.errors import DiscreetError, Forbidden
from discreet.settings import Settings
from discreet.usecases.oidc import grants
from discreet.usecases.oidc.configuration import Configuration, configured
from discreet.usecases.oidc.tokens import (
    KEYS_SECONDS,
    Metadata,
    Provider,
    ProviderUnavailable,
    _usable,
)
from tests.oidc.running import RunningProvider

T = TypeVar("T")
GOOD: dict[str, Any] = {
    "oidc_issuer": "https://login.example",
    "oidc_client_id": "discreet",
    "public_url": "https://discreet.example",
    "oidc_roles": '{"dp-owners": "north:owner"}',
}


def configuration(**values: Any) -> Configuration:
    found = configured(Settings(**{**GOOD, **values}))
    assert found is not None
    return found


def with_provider(issuer: str, work: Callable[[Provider], Awaitable[T]]) -> T:
    async def run() -> T:
        return await work(Provider(configuration(oidc_issuer=issuer)))

    return asyncio.run(run())


def test_nothing_is_configured_by_default() -> None:
    assert configured(Settings()) is None
    assert configuration().redirect_uri == "https://discreet.example/sign-in/callback"


@pytest.mark.parametrize(
    "wrong",
    [
        {"oidc_issuer": "http://login.example"},
        {"oidc_issuer": "https://login.example?x=1"},
        {"oidc_issuer": "https://user:password@login.example"},
        {"oidc_issuer": "ftp://login.example"},
        {"oidc_client_id": None},
        {"public_url": None},
        {"public_url": "http://discreet.example"},
        {"oidc_algorithms": ""},
        {"oidc_algorithms": "none"},
        {"oidc_algorithms": "RS256,HS256"},
        {"oidc_audience": "discreet"},
        {"oidc_audience": ""},
        {"oidc_roles": ""},
        {"oidc_roles": "{}"},
        {"oidc_roles": "dp-owners=north:owner"},
        {"oidc_roles": '{"dp-owners": "north"}'},
        {"oidc_roles": '{"dp-owners": ":owner"}'},
        {"oidc_roles": '{"": "north:owner"}'},
        {"oidc_roles": '{"dp-owners": "north:king"}'},
        {"oidc_roles": '{"a": "north:owner", "a": "south:owner"}'},
        {"oidc_roles": '{"dp/{tenant}": "north:owner"}'},
        {"oidc_roles": '{"dp-owners": "{tenant}:owner"}'},
        {"oidc_roles": '{"{tenant}{tenant}": "{tenant}:owner"}'},
        {"oidc_client_secret_file": Path("/nonexistent/secret")},
    ],
)
def test_settings_that_cannot_be_meant(wrong: dict[str, Any]) -> None:
    with pytest.raises(DiscreetError, match="DISCREET_"):
        configuration(**wrong)


def test_a_secret_is_not_shown() -> None:
    settings = Settings(**GOOD, oidc_client_secret="hush hush")
    assert "hush" not in repr(settings)
    assert "hush" not in repr(configured(settings))


def test_a_public_url_is_an_origin() -> None:
    for wrong in (
        "https://discreet.example/",
        "https://discreet.example/x",
        "https://a@discreet.example",
        "discreet",
    ):
        with pytest.raises(ValueError, match="public_url"):
            Settings(**{**GOOD, "public_url": wrong})


ROLES = json.dumps(
    {"boss": "north:owner", "dp/{tenant}/auditor": "{tenant}:auditor", "staff": "north:analyst"}
)


@pytest.mark.parametrize(
    ("claims", "given"),
    [
        ({"groups": ["staff"]}, ("north", "analyst")),
        ({"groups": "staff"}, ("north", "analyst")),
        ({"groups": ["staff", "boss"]}, ("north", "owner")),  # whose rule stands first
        ({"groups": ["x", 7, None, "dp/south pole/auditor"]}, ("south pole", "auditor")),
        ({"groups": ["dp/north/auditor", "staff"]}, ("north", "auditor")),
        ({"groups": ["staff", "dp/south/auditor"]}, "several_tenants"),
        ({"groups": ["dp//auditor"]}, "no_role"),
        ({"groups": ["dp/south/owner"]}, "no_role"),
        ({"groups": {"staff": True}}, "no_role"),
        ({"groups": ["Staff"]}, "no_role"),
        ({}, "no_role"),
    ],
)
def test_what_claims_give(claims: dict[str, Any], given: tuple[str, str] | str) -> None:
    chosen = configuration(oidc_roles=ROLES)
    if isinstance(given, str):
        with pytest.raises(Forbidden) as refused:
            grants.granted(chosen, claims)
        assert refused.value.code == given
    else:
        assert grants.granted(chosen, claims) == grants.Grant(*given)


def test_claims_inside_others() -> None:
    claims = {"realm_access": {"roles": ["staff"]}, "https://example.org/roles": ["boss"], "a/b": 1}
    assert grants.claim(claims, "/realm_access/roles") == ["staff"]
    assert grants.claim(claims, "https://example.org/roles") == ["boss"]
    assert grants.claim(claims, "/a~1b") == 1
    assert grants.claim(claims, "/realm_access/roles/0") is None
    assert grants.claim(claims, "/nothing/here") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"issuer": "https://login.evil.example"},
        {"issuer": None},
        {"token_endpoint": "http://login.example/token"},
        {"jwks_uri": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"end_session_endpoint": "http://login.example/end"},
        {"padding": "x" * 300_000},
    ],
)
def test_discovery_of_another_provider(op: RunningProvider, wrong: dict[str, Any]) -> None:
    with op.faulty(discovery=wrong), pytest.raises(ProviderUnavailable):
        with_provider(op.issuer, lambda provider: provider.metadata())
    assert (
        with_provider(op.issuer, lambda provider: provider.metadata()).token_endpoint
        == f"{op.issuer}/token"
    )


def test_a_provider_that_is_away_is_not_asked_again_at_once(op: RunningProvider) -> None:
    async def work(provider: Provider) -> None:
        for _ in range(20):
            with pytest.raises(ProviderUnavailable):
                await provider.metadata()

    before = op.asked("discovery")
    with op.faulty(discovery={"issuer": None}):
        with_provider(op.issuer, work)
    assert op.asked("discovery") - before <= 2


def test_a_provider_that_says_nothing_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for an attempt that comes to nothing begins none of their own: twenty requests
    would else wait for twenty silences, one after the other, while the keys that are known still
    count."""
    where = "discreet.usecases.oidc.tokens"
    monkeypatch.setattr(f"{where}.SECONDS", 0.2)
    monkeypatch.setattr(
        f"{where}.UNKNOWN_SECONDS", 0.1
    )  # as of the real ones: a silence lasts longer

    async def run() -> tuple[int, int, list[str]]:
        asked = [0, 0]
        key = RSAKey.generate_key(2048, {"kid": "k"})

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            asked[silent_about] += 1
            try:
                await reader.read(-1)
            finally:
                writer.close()

        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        issuer = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        provider = Provider(configuration(oidc_issuer=issuer))
        try:
            silent_about = 0
            outcomes = await asyncio.gather(
                *(provider.metadata() for _ in range(20)), return_exceptions=True
            )
            assert all(isinstance(one, ProviderUnavailable) for one in outcomes)
            silent_about = 1
            provider._metadata = Metadata(issuer, issuer, issuer, None, None, False, ())
            provider._metadata_at = time.monotonic()
            provider._keys, provider._keys_at = (key,), time.monotonic() - KEYS_SECONDS - 1
            found = await asyncio.gather(*(provider.key("k", "RS256") for _ in range(20)))
            return asked[0], asked[1], [one.kid or "" for one in found if one is not None]
        finally:
            server.close()

    about_metadata, about_keys, kids = asyncio.run(run())
    assert kids == ["k"] * 20
    assert (about_metadata, about_keys) == (1, 1)


def test_keys_outlast_a_provider_that_is_away(
    op: RunningProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(provider: Provider) -> tuple[bool, bool]:
        kid = op.control()["kid"]
        found = await provider.key(kid, "RS256")
        monkeypatch.setattr("discreet.usecases.oidc.tokens.KEYS_SECONDS", 0.0)
        monkeypatch.setattr("discreet.usecases.oidc.tokens.UNKNOWN_SECONDS", 0.0)
        with op.faulty(jwks=[{"padding": "x" * 300_000}]):
            again = await provider.key(kid, "RS256")
            monkeypatch.setattr("discreet.usecases.oidc.tokens.STALE_SECONDS", 0.0)
            with pytest.raises(ProviderUnavailable):
                await provider.key(kid, "RS256")
        return found is not None, again is found

    assert with_provider(op.issuer, work) == (True, True)


@pytest.mark.filterwarnings(
    "ignore::joserfc.errors.SecurityWarning"
)  # of the short one, which is passed over
def test_which_published_keys_are_used() -> None:
    good = RSAKey.generate_key(2048, {"kid": "good"}).as_dict(private=False)
    published = [
        good,
        OctKey.generate_key(
            256, {"kid": "secret"}
        ).as_dict(),  # never: HS256 by what everybody can read
        RSAKey.generate_key(1024, {"kid": "short"}).as_dict(private=False),
        {**good, "kid": "for encryption", "use": "enc"},
        {"kty": "RSA", "n": "AQAB"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "AKP", "kid": "of the future"},
        "no key",
        None,
    ]
    assert [key.kid for key in _usable(published)] == ["good"]


def test_a_key_serves_its_own_algorithm_alone(op: RunningProvider) -> None:
    kid = op.control()["kid"]

    async def work(provider: Provider) -> list[bool]:
        names = ("RS256", "RS512", "PS256", "ES256", "EdDSA")
        return [await provider.key(kid, name) is not None for name in names]

    assert with_provider(op.issuer, work) == [True, False, False, False, False]
