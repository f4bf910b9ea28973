"""Problems that name stored public objects: replacing the ids by the objects.

An id is derived from the content's SHA-256, which is checked whenever a content is used: a row
that was changed outside the service no longer matches its id.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

import anyio.to_thread
import structlog

from discreet.errors import InvalidInput, NotFound, ResultAltered
from discreet.problems.base import Problem
from discreet.problems.contents import PublicObject
from discreet.storage import objects
from discreet.storage.database import Database
from discreet.storage.identifiers import id_of

log = structlog.get_logger()

LONGEST_ID = 64
"""Characters of an id that an error repeats."""

Object = TypeVar("Object", bound=PublicObject)
SomeProblem = TypeVar("SomeProblem", bound=Problem)


class ObjectAltered(ResultAltered):
    """What is stored under this id is not what was stored first: it was changed behind the
    service."""

    code = "object_altered"


async def filled(database: Database, tenant_id: str, problem: SomeProblem) -> SomeProblem:
    """The problem with its ids replaced by the objects that they name. NotFound with the
    field's pointer for what this tenant does not have, ObjectAltered for what was changed
    outside the service."""
    named = problem.named()
    if not named:
        return problem
    async with database.transaction(tenant_id) as connection:
        found = await objects.contents(connection, tenant_id, {name for name, _ in named.values()})
    for field, (name, model) in named.items():
        if name not in found or found[name][0] != model.type:
            raise no_object(field, name, model)

    def opened() -> SomeProblem:
        return problem.with_objects(
            {name: _opened(name, model, found[name][1]) for name, model in named.values()}
        )

    return await anyio.to_thread.run_sync(opened)


async def require_there(database: Database, tenant_id: str, problem: Problem) -> None:
    """NotFound with the field's pointer unless this tenant has what the problem names."""
    named = problem.named()
    if not named:
        return
    async with database.transaction(tenant_id) as connection:
        for field, (name, model) in named.items():
            if await objects.find(connection, tenant_id, name, model.type) is None:
                raise no_object(field, name, model)


def require_whole(problem: Problem) -> None:
    """InvalidInput if the problem names a stored object: without a database there is none."""
    for field, (name, model) in problem.named().items():
        says = (
            f"{name} is known to a server alone: put the {model.type} itself here, or name a "
            "registered dataset"
        )
        raise InvalidInput(says, pointer=f"/problem/{field}")


def deleted_error(problem: Problem) -> NotFound:
    """What a problem names was deleted while it was planned."""
    field, (name, model) = next(iter(problem.named().items()))
    return no_object(field, name, model)


def no_object(field: str, name: str, model: type[PublicObject]) -> NotFound:
    """The tenant has no object of this id, which may be any text: its beginning is said."""
    says = (
        f"there is no {model.type} {name if len(name) <= LONGEST_ID else name[:LONGEST_ID] + '…'}"
    )
    if not name.startswith(f"{model.prefix}_"):
        says += (
            f": an id is needed, which begins with {model.prefix}_; GET /v1/{model.type}s has "
            "those of all names"
        )
    return NotFound(says, pointer=f"/problem/{field}")


async def opened(
    database: Database, tenant_id: str, problem: SomeProblem
) -> tuple[SomeProblem, dict[str, dict[str, str]]]:
    """`filled` for a worker, and what a certificate says of all public objects that the problem
    holds then: SHA-256 by field, and the id where the request named one. ObjectAltered also for
    what is not there."""
    named = problem.named()
    try:
        whole = await filled(database, tenant_id, problem)
    except NotFound as error:
        raise ObjectAltered(error.detail) from None

    def digests() -> dict[str, dict[str, str]]:
        return {
            field: {
                **({"id": named[field][0]} if field in named else {}),
                "sha256": one.digest().hex(),
            }
            for field, one in whole.held().items()
        }

    return whole, await anyio.to_thread.run_sync(digests)


def _opened(object_id: str, model: type[Object], content: bytes) -> Object:
    require_unaltered(object_id, model, content)
    return model.of_content(content)


def require_unaltered(object_id: str, model: type[PublicObject], content: bytes) -> None:
    if id_of(model.prefix, hashlib.sha256(content).digest()) != object_id:
        log.error("a stored object is not the one of its id", object=object_id)
        raise ObjectAltered(
            f"what is stored as {object_id} is not what was stored first: it was changed"
        )
