"""Public objects: store, look up, delete. The same content of a tenant is the same object, whoever
stores it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, TypeVar

import anyio.to_thread

from discreet.errors import Conflict, InvalidInput, NotFound, PayloadTooLarge
from discreet.problems import JOBS
from discreet.problems.objects import PublicObject
from discreet.storage import audit_log, public_objects
from discreet.storage.identifiers import id_of
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.naming import filled, require_unaltered
from discreet.usecases.services import Services

MOST = 1000
"""The most objects of a tenant."""
MOST_BYTES = 1 << 30
"""The most bytes of all contents of a tenant, as canonical JSON."""
READERS = ("owner", "analyst", "auditor")

Object = TypeVar("Object", bound=PublicObject)


async def add(
    services: Services,
    principal: Principal,
    name: str,
    made: PublicObject,
    known: Mapping[str, int] | None = None,
) -> tuple[dict[str, Any], bool]:
    """Store an object; returns it, and whether it is new. The same content of the same tenant is
    the same object, and keeps its name. `known`: figures that lists show besides its own sizes.
    Conflict if the tenant would have too many objects, or too many bytes."""
    require(principal, "owner")
    if issues := await anyio.to_thread.run_sync(made.own_issues):
        raise InvalidInput(issues)
    content = await anyio.to_thread.run_sync(made.content)
    object_id = id_of(made.prefix, hashlib.sha256(content).digest())
    if len(content) > MOST_BYTES:
        raise PayloadTooLarge(f"the {made.type} has {len(content)} bytes, of at most {MOST_BYTES}")
    async with services.database.transaction(principal.tenant_id) as connection:
        await public_objects.lock_tenant(connection, principal.tenant_id)
        row = await public_objects.find(connection, principal.tenant_id, object_id, made.type)
        if row is not None:
            return row, False
        count, size = await public_objects.taken(connection, principal.tenant_id)
        if count >= MOST or size + len(content) > MOST_BYTES:
            says = (
                f"a tenant may store {MOST} public objects such as networks, and {MOST_BYTES} "
                "bytes in all"
            )
            raise Conflict(f"{says}; delete some that no job names", code="too_many_objects")
        row = await public_objects.add(
            connection,
            tenant_id=principal.tenant_id,
            id=object_id,
            type=made.type,
            name=name,
            sizes={**made.sizes(), **(known or {})},
            content=content,
            created_by=principal.name,
        )
        await audit_log.note(
            connection, principal, "object.add", object_id, type=made.type, name=name
        )
    return row, True


async def find(
    services: Services, principal: Principal, object_id: str, model: type[Object]
) -> tuple[dict[str, Any], bytes]:
    """The object and its content as canonical JSON."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await public_objects.find(connection, principal.tenant_id, object_id, model.type)
        found = await public_objects.contents(connection, principal.tenant_id, [object_id])
    if row is None or object_id not in found:
        raise NotFound(f"there is no such {model.type}")
    content = found[object_id][1]
    await anyio.to_thread.run_sync(require_unaltered, object_id, model, content)
    return row, content


async def page(
    services: Services,
    principal: Principal,
    model: type[PublicObject],
    after: tuple[Any, str] | None,
    size: int,
) -> list[dict[str, Any]]:
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await public_objects.page(connection, principal.tenant_id, model.type, after, size)


async def remove(
    services: Services, principal: Principal, object_id: str, model: type[PublicObject]
) -> None:
    """Delete an object that no job has ever named: what jobs name stays, so that their certificates
    can be checked."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        # Locked first, so that no job that names it is accepted after the check.
        if not await public_objects.lock(connection, principal.tenant_id, object_id, model.type):
            raise NotFound(f"there is no such {model.type}")
        if (
            job := await public_objects.job_naming(connection, principal.tenant_id, object_id)
        ) is not None:
            says = (
                f"{job} names this {model.type}: it is kept, so that the job's certificate can be "
                "checked"
            )
            raise Conflict(says, code="object_in_use")
        await public_objects.remove(connection, principal.tenant_id, object_id)
        await audit_log.note(connection, principal, "object.remove", object_id, type=model.type)


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """An object as it is listed."""
    return {
        "id": row["id"],
        "name": row["name"],
        **row["sizes"],
        "created_by": row["created_by"],
        "created_at": row["created_at"],
    }


async def of_job(services: Services, principal: Principal, job_id: str) -> list[dict[str, Any]]:
    """The objects that a job names, without contents."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await public_objects.of_job(connection, principal.tenant_id, job_id)


def names_any(stored: Mapping[str, Any]) -> bool:
    """Whether a stored problem names a public object."""
    kind = JOBS.get(stored["kind"])
    return kind is not None and any(isinstance(stored.get(field), str) for field in kind.objects)


async def filled_text(
    services: Services, principal: Principal, stored: dict[str, Any]
) -> dict[str, Any]:
    """A stored problem in which the public objects that it names stand in place of their ids, as
    drawing it needs."""
    kind = JOBS.get(stored["kind"])
    if kind is None or not names_any(stored):
        return stored
    problem = await filled(services.database, principal.tenant_id, kind.model_validate(stored))
    return {
        **stored,
        **{field: one.model_dump(mode="json") for field, one in problem.held().items()},
    }
