"""Which tenant and role the claims of a token grant: only the rules in the settings grant any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.errors import Forbidden
from discreet.usecases.oidc.configuration import Configuration


@dataclass(frozen=True)
class Grant:
    """A role in a tenant, which is given by its name or id."""

    tenant: str
    role: str


def granted(configuration: Configuration, claims: Mapping[str, Any]) -> Grant:
    """The role that these claims grant: of several, the one whose rule comes first.

    Forbidden if they grant none, or roles in several tenants: a role in one tenant never counts in
    another, and there is no guess which tenant was meant.
    """
    values = [
        one for one in _listed(claim(claims, configuration.roles_claim)) if isinstance(one, str)
    ]
    found = [
        Grant(tenant, rule.role)
        for rule in configuration.rules
        for value in values
        if (tenant := rule.tenant_of(value)) is not None
    ]
    if not found:
        raise Forbidden("the identity provider gives this person no role here", code="no_role")
    if len({one.tenant for one in found}) > 1:
        raise Forbidden(
            "the identity provider gives this person roles in several tenants; one is needed",
            code="several_tenants",
        )
    return found[0]


def claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of this name, or at this JSON pointer (RFC 6901); None where there is none."""
    if not name.startswith("/"):
        return claims.get(name)
    place: Any = claims
    for word in name.removeprefix("/").split("/"):
        if not isinstance(place, Mapping):
            return None
        place = place.get(word.replace("~1", "/").replace("~0", "~"))
    return place


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
