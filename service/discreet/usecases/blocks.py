"""Blocks of sources that a request names: resolved to versions once, when it is planned or
accepted, and pinned."""

from __future__ import annotations

from collections.abc import Sequence

from discreet.errors import NotFound
from discreet.problems import read_as_one
from discreet.problems.plans import PlannedBlock, PlannedSource
from discreet.problems.sources import POINTER, ProblemOnBlocks, SourceBlocks, chosen
from discreet.storage import sources, waits
from discreet.storage.database import Database
from discreet.storage.ledger import AccountBalance
from discreet.storage.tenants import Principal
from discreet.usecases.facts import LONGEST_ID, DatasetFacts

MOST_NAMED = 20


def gone() -> NotFound:
    """A block was erased between planning and acceptance."""
    return NotFound(
        "the content of a block that is asked for was erased just now", pointer=f"{POINTER}/blocks"
    )


async def pinned(
    database: Database,
    principal: Principal,
    problem: ProblemOnBlocks,
    asked: SourceBlocks,
) -> tuple[ProblemOnBlocks, DatasetFacts]:
    """The problem with the versions of the blocks that it names, and what is public of them as one
    dataset.

    What is stored of a job is this problem: a later version of a block changes nothing of it.
    NotFound for sources and blocks that are not there. Whether a job may read so many is for its
    plan to say (`ContentSizes.check`).
    """
    async with database.transaction(principal.tenant_id) as connection:
        source = await sources.find(connection, principal.tenant_id, asked.id)
        if source is None:
            raise no_source(asked.id)
        shared = await waits.rule(connection, asked.id) is not None
        newest = {row["block"]: row for row in await sources.blocks(connection, asked.id)}
        names = chosen(asked, source["block_by"], list(newest))
        read = [newest[name] for name in names]
        if asked.versions is not None:
            assert isinstance(asked.blocks, tuple)
            given = dict(zip(asked.blocks, asked.versions, strict=True))
            found = await sources.versions(connection, asked.id, list(given.values()))
            for name, version in given.items():
                if version not in found or found[version]["block"] != name:
                    says = f"{version[:LONGEST_ID]} is no version of block {name}"
                    raise NotFound(says, pointer=f"{POINTER}/versions")
            read = [found[given[name]] for name in names]
    if erased := [row["block"] for row in read if not row["offered"]]:
        says = f"the content is erased of {', '.join(erased[:MOST_NAMED])}"
        raise NotFound(says, pointer=f"{POINTER}/blocks")
    planned = PlannedSource(
        id=source["id"],
        name=source["name"],
        by=source["block_by"],
        cap_of=source["cap_of"],
        blocks=tuple(PlannedBlock(block=row["block"], version=row["id"]) for row in read),
    )
    pins = {"blocks": tuple(names), "last": None, "versions": tuple(row["id"] for row in read)}
    facts = DatasetFacts(
        dataset_id=None,
        kind=source["kind"],
        mode=source["mode"],
        accounts=tuple(dict.fromkeys(row["account_id"] for row in read)),
        unit=source["public"]["unit"],
        public=read_as_one(source["kind"], [source["public"]] * len(read)),
        source=planned,
        numbers=tuple(row["number"] for row in read),
        block_bytes=source["block_bytes"],
        shared=shared,
        revision=source["revision"],
    )
    return problem.model_copy(update={"source": asked.model_copy(update=pins)}), facts


def no_source(source_id: str) -> NotFound:
    shown = source_id if len(source_id) <= LONGEST_ID else source_id[:LONGEST_ID] + "…"
    says = f"there is no source {shown}"
    if not source_id.startswith("src_"):
        says += ": an id is needed, which begins with src_; GET /v1/sources has those of all names"
    return NotFound(says, pointer=f"{POINTER}/id")


async def of_accounts(
    database: Database, principal: Principal, balances: Sequence[AccountBalance]
) -> dict[str, tuple[str, str]]:
    """Of those of these accounts that are of one block: the source's name and the block's."""
    of_data = [one.account_id for one in balances if one.scope == "data"]
    if not of_data:
        return {}
    async with database.transaction(principal.tenant_id) as connection:
        return await sources.blocks_of_accounts(connection, of_data)
