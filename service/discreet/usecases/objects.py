"""Public objects: store, look up, delete. The same content of a tenant is the same object, whoever
stores it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

import anyio.to_thread

from discreet.errors import Conflict, InvalidInput, Limit, NotFound, PayloadTooLarge
from discreet.isolation.children import Limits
from discreet.problems import JOBS
from discreet.problems.contents import PublicObject
from discreet.storage import audit_log, objects
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
        await objects.lock_tenant(connection, principal.tenant_id)
        row = await objects.find(connection, principal.tenant_id, object_id, made.type)
        if row is not None:
            return row, False
        count, size = await objects.taken(connection, principal.tenant_id)
        if count >= MOST or size + len(content) > MOST_BYTES:
            says = (
                f"a tenant may store {MOST} public objects such as networks, and {MOST_BYTES} "
                "bytes in all"
            )
            raise Conflict(f"{says}; delete some that no job names", code="too_many_objects")
        row = await objects.add(
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
        row = await objects.find(connection, principal.tenant_id, object_id, model.type)
        found = await objects.contents(connection, principal.tenant_id, [object_id])
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
        return await objects.page(connection, principal.tenant_id, model.type, after, size)


async def remove(
    services: Services, principal: Principal, object_id: str, model: type[PublicObject]
) -> None:
    """Delete an object that no job has ever named: what jobs name stays, so that their certificates
    can be checked."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        # Locked first, so that no job that names it is accepted after the check.
        if not await objects.lock(connection, principal.tenant_id, object_id, model.type):
            raise NotFound(f"there is no such {model.type}")
        if (
            job := await objects.job_naming(connection, principal.tenant_id, object_id)
        ) is not None:
            says = (
                f"{job} names this {model.type}: it is kept, so that the job's certificate can be "
                "checked"
            )
            raise Conflict(says, code="object_in_use")
        await objects.remove(connection, principal.tenant_id, object_id)
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
        return await objects.of_job(connection, principal.tenant_id, job_id)


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


# Network files ------------------------------------------------------------------------------------
# Road networks from files in the formats of the field, which a sandboxed child reads.

CPU_SECONDS, WALL_SECONDS = 120, 300.0
"""The longest that reading the files of one network may take."""
GROWTH_BYTES, A_BYTE = 1 << 28, 64
"""Memory that reading may take beyond what a child starts with: so much, and more for each byte."""
ANSWER_BYTES = 1 << 22
"""The most bytes of an answer besides the network's JSON."""


@dataclass(frozen=True)
class ReadNetwork:
    """A network that was read from files."""

    network: bytes
    """Its JSON, which has not been validated yet."""
    name: str
    zones: int | None
    notes: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class NotRead:
    """Why there is no network: the option that would help, if one is named, and the sentence; and
    the columns of the files, as `isolation.network_files` lists them."""

    faults: list[tuple[str, str]]
    columns: list[dict[str, Any]]


async def read(
    services: Services,
    files: Sequence[tuple[str, int]],
    content: bytes | bytearray,
    options: Mapping[str, Any],
    words: Mapping[str, Any],
    most: Limit,
    *,
    chosen: bool,
) -> ReadNetwork | NotRead:
    """Read a network from files, given as names and sizes; their bytes follow each other in
    `content`.

    `chosen`: a person has said what the columns mean; otherwise columns with unknown names are
    returned as a question. `words`: labels of the options, and choices with their words.
    PayloadTooLarge if the network's JSON would be larger than `most`, or
    reading exceeds its limits; Unavailable if there is no reader.
    """
    limits = Limits(
        services.settings.job_memory_bytes,
        CPU_SECONDS,
        WALL_SECONDS,
        answer_bytes=most.allowed + ANSWER_BYTES,
        growth_bytes=GROWTH_BYTES + A_BYTE * len(content),
    )
    arguments = {
        "files": [list(file) for file in files],
        "options": dict(options),
        **words,
        "chosen": chosen,
        "limit": asdict(most),
    }
    answer, network = await services.reader.call("read_network", arguments, content, limits)
    if "refused" in answer:
        return NotRead([(about, says) for about, says in answer["refused"]], answer["columns"])
    return ReadNetwork(
        network, answer["name"], answer["zones"], answer["notes"], answer["warnings"]
    )
