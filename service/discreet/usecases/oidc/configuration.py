"""Which OpenID provider the installation trusts, and for what: the settings DISCREET_OIDC_…,
checked once."""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from discreet.errors import DiscreetError
from discreet.settings import Settings
from discreet.usecases.access import ROLES

ALGORITHMS = frozenset(
    {
        "RS256",
        "RS384",
        "RS512",
        "PS256",
        "PS384",
        "PS512",
        "ES256",
        "ES384",
        "ES512",
        "EdDSA",
        "Ed25519",
    }
)
"""Signatures by a public key. Never `none`, and never HS…: with a public key for a secret anybody
could make those."""

CALLBACK = "/sign-in/callback"
TENANT = "{tenant}"
"""Stands in a value for the part that names the tenant."""


@dataclass(frozen=True)
class Rule:
    """What one value of the roles' claim gives: a role in a tenant."""

    value: str
    tenant: str
    role: str

    def tenant_of(self, value: str) -> str | None:
        """The tenant that this value names; None when the rule is about another value."""
        if TENANT not in self.value:
            return self.tenant if value == self.value else None
        before, _, after = self.value.partition(TENANT)
        found = re.fullmatch(f"{re.escape(before)}(.+){re.escape(after)}", value)
        return None if found is None or not found[1].isprintable() else found[1]


@dataclass(frozen=True)
class Configuration:
    """The provider, this service as its client, and what tokens give."""

    issuer: str
    name: str
    client_id: str
    client_secret: str | None = field(repr=False)
    scopes: str
    audience: str | None
    callers: frozenset[str]
    roles_claim: str
    rules: tuple[Rule, ...]
    name_claim: str
    algorithms: frozenset[str]
    skew_seconds: int
    authorities: Path | None
    public_url: str
    logout: bool

    @property
    def redirect_uri(self) -> str:
        """Where the provider sends browsers back to: from the settings alone, whatever a request
        says of its host."""
        return self.public_url + CALLBACK


def configured(settings: Settings) -> Configuration | None:
    """The configuration; None where no provider is set. DiscreetError for what is missing or cannot
    be meant."""
    if settings.oidc_issuer is None:
        return None
    issuer = urlsplit(settings.oidc_issuer)
    if (
        not is_safe(settings.oidc_issuer)
        or issuer.query
        or issuer.fragment
        or len(settings.oidc_issuer) > 120
    ):
        raise DiscreetError(
            "DISCREET_OIDC_ISSUER: must be an https:// address without query and fragment (http "
            "on loopback)"
        )
    if settings.oidc_client_id is None:
        raise DiscreetError("DISCREET_OIDC_CLIENT_ID is needed beside DISCREET_OIDC_ISSUER")
    if settings.public_url is None or not is_safe(settings.public_url):
        raise DiscreetError(
            "DISCREET_PUBLIC_URL, https:// (http on loopback), is needed beside "
            "DISCREET_OIDC_ISSUER: the provider sends browsers back there"
        )
    algorithms = frozenset(
        filter(None, (word.strip() for word in settings.oidc_algorithms.split(",")))
    )
    if not algorithms or not algorithms <= ALGORITHMS:
        raise DiscreetError(
            f"DISCREET_OIDC_ALGORITHMS: must be some of {', '.join(sorted(ALGORITHMS))}, "
            "separated by commas"
        )
    if settings.oidc_audience in ("", settings.oidc_client_id):
        raise DiscreetError(
            "DISCREET_OIDC_AUDIENCE: must differ from the client's id, which is the audience of "
            "ID tokens: those are not access tokens"
        )
    return Configuration(
        issuer=settings.oidc_issuer,
        name=settings.oidc_name,
        client_id=settings.oidc_client_id,
        client_secret=_secret(settings),
        scopes=settings.oidc_scopes,
        audience=settings.oidc_audience,
        callers=frozenset(
            filter(None, (word.strip() for word in settings.oidc_callers.split(",")))
        ),
        roles_claim=settings.oidc_roles_claim,
        rules=_rules(settings.oidc_roles),
        name_claim=settings.oidc_name_claim,
        algorithms=algorithms,
        skew_seconds=settings.oidc_clock_skew_seconds,
        authorities=settings.oidc_authorities,
        public_url=settings.public_url,
        logout=settings.oidc_logout,
    )


def is_safe(url: str) -> bool:
    """Whether what goes to this address can be read by nobody on the way: TLS, or this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    if not host or parts.username is not None or parts.password is not None:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secret(settings: Settings) -> str | None:
    if settings.oidc_client_secret_file is None:
        return settings.oidc_client_secret
    if settings.oidc_client_secret is not None:
        raise DiscreetError(
            "set DISCREET_OIDC_CLIENT_SECRET or DISCREET_OIDC_CLIENT_SECRET_FILE, not both"
        )
    try:
        return settings.oidc_client_secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise DiscreetError(
            f"DISCREET_OIDC_CLIENT_SECRET_FILE cannot be read: {type(error).__name__}"
        ) from None


def _rules(written: str) -> tuple[Rule, ...]:
    wrong = DiscreetError(
        "DISCREET_OIDC_ROLES: a JSON object from values of the claim to tenant and role, such as "
        '{"dp-owners":'
        ' "north:owner"} or {"dp/{tenant}/owner": "{tenant}:owner"}'
    )

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise wrong
        return dict(pairs)

    try:
        found = json.loads(written, object_pairs_hook=once)
    except ValueError:
        raise wrong from None
    if not isinstance(found, dict) or not found:
        raise wrong
    rules = []
    for value, given in found.items():
        tenant, _, role = given.rpartition(":") if isinstance(given, str) else ("", "", "")
        if not value or not tenant or role not in ROLES or value.count(TENANT) > 1:
            raise wrong
        if (TENANT in value) != (tenant == TENANT):
            raise wrong
        rules.append(Rule(value, tenant, role))
    return tuple(rules)
