"""People of the identity provider here: who a token's subject is, and removing them.

A person is (issuer, subject); their name in budgets, caps and the ledger is `issuer#subject`.
Rights come from each token anew. A removal ends the person's sessions of the pages and access
tokens on every process within a second: of those that a process knows it hears by the notice of a
trigger, as of revoked keys (`keyring`). The API keys that the person has made are revoked with it,
and those that were made with these. Whoever removes stays: nobody removes themselves, or the key
they ask with, so somebody who can undo it is always left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import Conflict, Forbidden, InvalidInput, NotFound, Unauthenticated
from discreet.storage import audit_log, tenants
from discreet.storage.database import SYSTEM
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Known, Principal, principal_name
from discreet.usecases.access import KEEPERS, REMOVED, hold, require
from discreet.usecases.oidc import tokens
from discreet.usecases.oidc.configuration import Configuration
from discreet.usecases.oidc.grants import claim, granted
from discreet.usecases.oidc.tokens import Provider, Vouched
from discreet.usecases.services import Services

LONGEST_NAME = 200


async def bearer(services: Services, provider: Provider, token: str) -> tuple[Principal, Vouched]:
    """Who shows this access token. Unauthenticated, Forbidden where it gives no role here,
    ProviderUnavailable."""
    vouched = await tokens.access_token(provider, token)
    return await find_or_create_person(services, provider.configuration, vouched), vouched


async def find_or_create_person(
    services: Services, configuration: Configuration, vouched: Vouched
) -> Principal:
    """The person that a token vouches for, with the role that it gives.

    Unauthenticated for who was removed, or when the provider has ended what this token is of;
    Forbidden without a role.
    """
    grant = granted(configuration, vouched.claims)
    coming = {
        "tenant": grant.tenant,
        "issuer": configuration.issuer,
        "subject": vouched.subject,
        "name": called(configuration, vouched),
        "role": grant.role,
    }
    known = await tenants.meet(services.database, new=new_id("per"), **coming)
    if (
        known.removed
        and grant.role == "operator"
        and await _lift(services, configuration.issuer, known, vouched)
    ):
        known = await tenants.meet(services.database, new=new_id("per"), **coming)
    if known.tenant_id is None:
        raise Forbidden(
            "the identity provider gives this person a role in a tenant that does not exist here",
            code="no_role",
        )
    if known.removed or known.id is None:
        raise Unauthenticated(
            "this person was removed here; an owner or operator can undo that", code=REMOVED
        )
    if known.ended_at is not None and vouched.issued_at <= known.ended_at:
        raise Unauthenticated(
            "this person was logged out at the identity provider: log in again", code="token_ended"
        )
    name = principal_name(configuration.issuer, vouched.subject)
    return Principal(
        known.tenant_id, name, grant.role, known.id, configuration.issuer, vouched.subject
    )


def called(configuration: Configuration, vouched: Vouched) -> str | None:
    """What people call this person, if the token says so."""
    found = claim(vouched.claims, configuration.name_claim)
    return (
        found[:LONGEST_NAME]
        if isinstance(found, str) and found.isprintable() and found.strip()
        else None
    )


async def page(
    services: Services, principal: Principal, subject: str | None = None
) -> list[dict[str, Any]]:
    """Who came here by the identity provider: people of the own tenant, for an operator of all."""
    require(principal, *KEEPERS)
    tenant_id = None if principal.role == "operator" else principal.tenant_id
    async with services.database.transaction(tenant_id or SYSTEM) as connection:
        return [_view(row) for row in await tenants.page(connection, tenant_id, subject)]


@dataclass(frozen=True)
class Removal:
    """What became of the keys that a person has made, by their ids."""

    revoked: list[str]
    kept: list[str]


async def remove(
    services: Services, principal: Principal, identity_id: str, *, keep_keys: bool = False
) -> Removal:
    """Remove a person who was here: from the own tenant; by an operator from all, and those to
    come. NotFound; other refusals as `set_active`."""
    require(principal, *KEEPERS)
    tenant_id = None if principal.role == "operator" else principal.tenant_id
    async with services.database.transaction(tenant_id or SYSTEM) as connection:
        found = await tenants.find(connection, identity_id, tenant_id)
        if found is None:
            raise NotFound("there is no such person")
        whom = found["tenant_id"], found["issuer"], found["subject"]
        return await _remove(connection, principal, *whom, keep_keys=keep_keys)


async def set_active(
    services: Services,
    principal: Principal,
    issuer: str | None,
    subject: str,
    *,
    active: bool,
    keep_keys: bool = False,
) -> dict[str, Any]:
    """Remove a person by the provider's name of them, whether they were here or not, or let them in
    again.

    Owners decide for their tenant, operators for all; what an operator has removed, no owner brings
    back. NotFound when there is nobody to let in again; Forbidden for an owner who would remove an
    operator; Conflict for who would remove themselves.
    """
    require(principal, *KEEPERS)
    issuer = services.settings.oidc_issuer if issuer is None else issuer
    if issuer is None:
        raise InvalidInput(
            "needed if no identity provider is set (DISCREET_OIDC_ISSUER)", pointer="/issuer"
        )
    operator, removal = principal.role == "operator", Removal([], [])
    async with services.database.transaction(SYSTEM) as connection:
        if active:
            await hold(connection, principal)
            await tenants.lock(connection, issuer, subject)
            if not operator and await tenants.is_removed_everywhere(connection, issuer, subject):
                raise Forbidden("an operator has removed this person everywhere")
            changed = await tenants.restore(
                connection, None if operator else principal.tenant_id, issuer, subject
            )
            if not changed:
                raise NotFound("no such person was removed", pointer="/subject")
            who = principal_name(issuer, subject)
            await audit_log.note(connection, principal, "person.restore", who, everywhere=operator)
        else:
            whom = principal.tenant_id, issuer, subject
            removal = await _remove(connection, principal, *whom, keep_keys=keep_keys)
    known = {"issuer": issuer, "subject": subject, "active": active}
    return {**known, "revoked_keys": removal.revoked, "kept_keys": removal.kept}


async def _remove(
    connection: Any,
    principal: Principal,
    tenant_id: str,
    issuer: str,
    subject: str,
    *,
    keep_keys: bool,
) -> Removal:
    everywhere = principal.role == "operator"
    await hold(connection, principal)
    await tenants.lock(connection, issuer, subject)
    if (principal.issuer, principal.subject) == (issuer, subject):
        raise Conflict(
            "nobody removes themselves: another owner or an operator does", code="oneself"
        )
    if (
        not everywhere
        and await tenants.role_of(connection, tenant_id, issuer, subject) == "operator"
    ):
        raise Forbidden("an owner cannot remove an operator")
    made = await tenants.keys_made_by(
        connection, issuer, subject, None if everywhere else tenant_id
    )
    revoked = [] if keep_keys else [one for one in made if everywhere or one["role"] != "operator"]
    if any(one["id"] == principal.key_id for one in revoked):
        raise Conflict(
            "this person made the key of this request: use another key, or keep their keys",
            code="oneself",
        )
    await tenants.remove(
        connection, new_id("per"), tenant_id, issuer, subject, everywhere=everywhere
    )
    who = principal_name(issuer, subject)
    await audit_log.note(
        connection, principal, "person.remove", who, tenant_id=tenant_id, everywhere=everywhere
    )
    for one in revoked:
        await tenants.revoke_key(connection, one["id"], one["tenant_id"])
        await audit_log.note(
            connection, principal, "key.revoke", one["id"], tenant_id=one["tenant_id"], made_by=who
        )
    return Removal(
        [one["id"] for one in revoked], [one["id"] for one in made if one not in revoked]
    )


async def _lift(services: Services, issuer: str, known: Known, vouched: Vouched) -> bool:
    """Undo what an owner has decided of a person who comes as an operator: that is the provider's
    word, and above an owner's. False where an operator has removed them, and for a token from
    before the removal."""
    subject = vouched.subject
    if known.ended_at is not None and vouched.issued_at <= known.ended_at:
        return False
    async with services.database.transaction(SYSTEM) as connection:
        await tenants.lock_access(connection)
        await tenants.lock(connection, issuer, subject)
        if known.tenant_id is None or await tenants.is_removed_everywhere(
            connection, issuer, subject
        ):
            return False
        if await tenants.restore(connection, known.tenant_id, issuer, subject):
            who = principal_name(issuer, subject)
            person = Principal(known.tenant_id, who, "operator", known.id or who, issuer, subject)
            await audit_log.note(connection, person, "person.restore", who, everywhere=False)
    return True


async def ended_by_provider(services: Services, provider: Provider, token: str) -> None:
    """End what a person has from before the logout that the provider announces: sessions and access
    tokens.

    Unauthenticated when the token is no announcement of this provider's. A token that comes again
    ends no more.
    """
    subject, session, moment = await tokens.logout_token(provider, token)
    issuer = provider.configuration.issuer
    async with services.database.transaction(SYSTEM) as connection:
        subjects = (
            [subject]
            if subject is not None
            else await tenants.subjects_of(connection, issuer, session or "")
        )
        for one in subjects:
            for row in await tenants.end(connection, issuer, one, moment):
                who = principal_name(issuer, one)
                person = Principal(row["tenant_id"], who, row["role"], row["id"], issuer, one)
                await audit_log.note(connection, person, "login.end_by_provider", who)


def _view(row: dict[str, Any]) -> dict[str, Any]:
    names = (
        "id",
        "tenant",
        "issuer",
        "subject",
        "name",
        "role",
        "created_at",
        "last_used_at",
        "removed_at",
    )
    principal = principal_name(row["issuer"], row["subject"])
    return {
        **{name: row[name] for name in names},
        "principal": principal,
        "everywhere": row["everywhere"],
    }
