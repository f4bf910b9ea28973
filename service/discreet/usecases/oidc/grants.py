"""Which tenant and role the claims of a token give. Nothing but the mapping of the settings gives
any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from discreet.errors import Forbidden
from discreet.usecases.oidc.configuration import Configuration


@dataclass(frozen=True)
class Grant:
    """A role in a tenant, which is named or given by its id."""

    tenant: str
    role: str


def granted(configuration: Configuration, claims: Mapping[str, Any]) -> Grant:
    """What these claims give: of a person's roles the one whose rule stands first.

    Forbidden where they give none, and where they give roles in several tenants: a role in one
    never counts in another, and which one was meant is not guessed.
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
