"""Sources: created once and then filled with blocks, each a dataset charged to its own account
or to the source's."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import ValidationError

from discreet.errors import Conflict, InvalidInput, NotFound
from discreet.intake.field_issues import issues_of
from discreet.observability import faults
from discreet.privacy.filters import Cap
from discreet.problems import DATASETS
from discreet.problems.descriptions import completed, holds_names, is_described
from discreet.problems.sources import DatasetInBlocks, block_name
from discreet.storage import audit_log, ledger, sources, tamper_seals
from discreet.storage import datasets as dataset_rows
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases import dataset_accounts, datasets, source_rules
from discreet.usecases.access import require
from discreet.usecases.budgets import best_balance, cap_amounts, figures, filter_limits, units_of
from discreet.usecases.datasets import Registration, SealedContent
from discreet.usecases.places.rules import Located
from discreet.usecases.places.staying import keep_alike
from discreet.usecases.requests import SourceRequest
from discreet.usecases.rotation import still_known
from discreet.usecases.services import Services
from discreet.usecases.uploads import Upload

READERS = ("owner", "analyst", "auditor")
USUAL_BLOCKS = 32
"""That one child can hold as a whole, where a source says nothing of their size."""

Row = dict[str, Any]


async def create(
    services: Services, principal: Principal, asked: SourceRequest
) -> tuple[Row, bool]:
    """The source and whether it is new: the same name with the same fields is the same source.
    InvalidInput for data of which no source can be made, Conflict for a name that another
    source has."""
    require(principal, "owner")
    public = _public_part(asked)
    cap = cap_amounts(units_of(asked.cap))
    settings = services.settings
    usual = max(1024, settings.whole_bytes // USUAL_BLOCKS)
    block_bytes = usual if asked.block_bytes is None else asked.block_bytes
    if block_bytes > (most := settings.content_bytes):
        raise InvalidInput(f"a content takes at most {most} bytes here", pointer="/block_bytes")
    said = {
        "kind": asked.kind,
        "public": public,
        "mode": asked.mode,
        "block_by": asked.by,
        "cap_of": asked.cap_of,
        "cap": cap,
        "block_bytes": block_bytes,
        "retention_days": asked.retention_days,
    }
    async with services.database.transaction(principal.tenant_id) as connection:
        await sources.lock_name(connection, principal.tenant_id, asked.name)
        known = await sources.called(connection, principal.tenant_id, asked.name)
        if known is not None:
            if different := sorted(name for name, value in said.items() if known[name] != value):
                says = (
                    f"there is a source {asked.name} already ({known['id']}), with another "
                    f"{', '.join(different)}"
                )
                way = (
                    "choose another name; its public part can be corrected while nothing was given "
                    "away of a block (PATCH /v1/sources/{id}, discreet source correct)"
                )
                raise Conflict(f"{says}: {way}", code="name_taken")
            if asked.rule is not None:
                await source_rules.require_same(connection, known, asked.rule)
            return known, False
        account = chain = None
        if asked.cap_of == "source":
            account = await _open_account(connection, principal, cap, public["unit"])
        else:
            chain = new_id("acc")
            await ledger.open_chain(
                connection, chain, tenant_id=principal.tenant_id, unit=public["unit"]
            )
        source_id = new_id("src")
        row = await sources.add(
            connection,
            id=source_id,
            tenant_id=principal.tenant_id,
            name=asked.name,
            account_id=account,
            chain_id=chain,
            created_by=principal.name,
            **said,
        )
        await audit_log.note(
            connection, principal, "source.create", source_id, name=asked.name, kind=asked.kind
        )
        if asked.rule is not None:
            await source_rules.add(connection, principal, source_id, asked.rule)
    return row, True


def _public_part(asked: SourceRequest) -> dict[str, Any]:
    kind = DATASETS.get(asked.kind)
    if kind is None or not issubclass(kind, DatasetInBlocks):
        possible = ", ".join(
            name for name, one in DATASETS.items() if issubclass(one, DatasetInBlocks)
        )
        says = f"sources hold data of the kinds {possible}"
        if kind is not None:
            says += (
                f"; whoever is in data of {asked.kind} can be in every block, and caps of blocks "
                "would not protect them: register one dataset for all days"
            )
        raise InvalidInput(says, pointer="/kind")
    given = completed(asked.kind, asked.public)
    if holds_names(given):
        says = (
            "a source stores no names: name a stored network, "
            '{"zones": {"network": "net_…"}}, or give `zones` and `except` with each block (reader)'
        )
        raise InvalidInput(says, pointer="/public/reader")
    try:
        public = kind.read_public(given)
    except ValidationError as error:
        issues = issues_of(error.errors(include_url=False), asked.public)
        raise InvalidInput(issues).under("/public") from None
    if why := kind.not_in_blocks(public):
        raise InvalidInput(why, pointer="/public")
    said: dict[str, Any] = public.model_dump(mode="json", exclude_none=True)
    return said


async def find(services: Services, principal: Principal, source_id: str) -> Row:
    """A source of this tenant; NotFound for any other."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await sources.find(connection, principal.tenant_id, source_id)
    if row is None:
        raise NotFound("there is no such source")
    return row


async def accounts(services: Services, principal: Principal) -> set[str]:
    """The accounts of all blocks of the tenant's sources."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await sources.accounts(connection, principal.tenant_id)


async def of_chains(services: Services, principal: Principal) -> dict[str, tuple[str, str]]:
    """Id and name of each source whose blocks share a chain of entries, by that chain's account."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await sources.of_chains(connection, principal.tenant_id)


async def page(
    services: Services, principal: Principal, after: tuple[Any, str] | None, size: int
) -> list[Row]:
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        return await sources.page(connection, principal.tenant_id, after, size)


async def blocks_of(
    services: Services, principal: Principal, source: Mapping[str, Any]
) -> list[Row]:
    """The blocks of a source as they are published: days and months in their order, labels as they
    came."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id) as connection:
        rows = await sources.blocks(connection, source["id"])
        balances = await ledger.balances(connection, sorted({row["account_id"] for row in rows}))
    if source["block_by"] != "label":
        rows.sort(key=lambda row: str(row["block"]))
    return [_block_view(row, balances[row["account_id"]]) for row in rows]


async def add_block(
    services: Services,
    principal: Principal,
    source: Mapping[str, Any],
    name: str,
    content: Upload | Located,
    *,
    accept_doubts: bool = False,
    already_read: bool = False,
    names: Mapping[str, Any] | None = None,
) -> tuple[Row, bool]:
    """The version of a block that has this content, or what lies there, and whether it is new.

    A block's first version opens its account, later ones are charged to the same: late records go
    to the block of their own date. The same content again is the same version. InvalidInput for
    records of other blocks, PayloadTooLarge for more than a block may have, Conflict for what is
    another block, or an older version, already; errors of `fetch`. `names`: rules of the source's
    reader that are not stored.
    """
    try:
        require(principal, "owner")
        block = block_name(source["block_by"], name)
        tenant = f"{principal.tenant_id}/{source['id']}"
        own = f"{tenant}/{block}"
        request = Registration(
            name=f"{source['name']}, {block}"[:200],
            kind=source["kind"],
            public=_with_names(source, names or {}),
            mode=source["mode"],
            cap=None,
            account=None,
            source=content,
            retention_days=source["retention_days"],
            # One content in two days is of other records, but under two labels it may be the same
            # file twice. Of no records there is one for each block.
            block={
                "by": source["block_by"],
                "name": block,
                "realm": tenant if source["block_by"] == "label" else own,
                "empty": f"{own}/empty",
            },
            most_bytes=source["block_bytes"],
            accept_doubts=accept_doubts,
            already_read=already_read,
        )
        async with datasets.sealed_content(services, principal, request) as sealed:
            if sealed.public != source["public"]:
                raise InvalidInput("the content's own public part differs from that of the source")
            row, new = await datasets.keep(
                services,
                sealed,
                partial(_store, services, principal, source, block, request, sealed),
            )
            return {**row, "notes": sealed.notes}, new
    finally:
        if isinstance(content, Upload):
            content.close()


def _with_names(source: Mapping[str, Any], names: Mapping[str, Any]) -> Any:
    """The public part by which a block's table is read. InvalidInput of names for no reader."""
    public = source["public"]
    if names and not is_described(public):
        says = "goes with a source whose public part has a reader"
        raise InvalidInput(says, pointer="/reader")
    if names:
        public = {**public, "reader": {**public["reader"], **names}}
    return DATASETS[source["kind"]].read_public(public)


async def _store(
    services: Services,
    principal: Principal,
    source: Mapping[str, Any],
    block: str,
    request: Registration,
    sealed: SealedContent,
    object_name: str | None,
) -> tuple[Row, bool]:
    """Account, row and content of a version in one transaction: a block is there with its account,
    or not at all."""
    expires_at, secrets = datasets.expiry(services, request), services.secrets
    async with services.database.transaction(principal.tenant_id) as connection:
        await sources.lock(connection, source["id"])
        await dataset_rows.lock_digest(connection, sealed.digest)
        now = await sources.find(connection, principal.tenant_id, source["id"])
        if now is None or now["revision"] != source["revision"]:
            says = "the source was corrected while this was read: send it again"
            raise Conflict(says, code="dataset_changed")
        newest = await sources.newest(connection, source["id"], block)
        rows = await dataset_rows.of_digest(connection, principal.tenant_id, sealed.digest)
        known = rows[0] if rows else None
        if known is not None and known["deleted_at"] is None:
            await keep_alike(connection, services, principal, known, sealed.stay)
            if newest is not None and newest["id"] == known["id"]:
                # Its owner has it still: from now on as long as a new one.
                await audit_log.note(connection, principal, "dataset.retention", known["id"])
                return await dataset_rows.set_retention(
                    connection, known["id"], expires_at, False
                ), False
            which = (
                f"block {known['block']}"
                if known["block"] != block
                else f"version {known['version']} of this block"
            )
            raise Conflict(
                f"this content is registered as {which} already ({known['id']})",
                code="content_known",
            )
        if newest is not None:
            account = newest["account_id"]
        elif source["account_id"] is not None:
            account = source["account_id"]
        else:
            account = None
        if known is not None and known["account_id"] != account:
            # Erased, it had another label: on another account what was spent on it would not count
            # any more.
            await dataset_accounts.require_unspent(connection, known)
        if account is None and source["chain_id"] is not None:
            account = await ledger.open_block(
                connection,
                source["chain_id"],
                cap=source["cap"],
                filters=_filters(source["cap"]),
                actor=principal.name,
                reason=f"block {block}",
            )
            faults.point("block.opened")
        elif account is None:  # its source was made before sources had chains
            account = await _open_account(
                connection, principal, source["cap"], source["public"]["unit"]
            )
            faults.point("block.opened")
        decided = {
            "id": sealed.dataset_id,
            "tenant_id": principal.tenant_id,
            "account_id": account,
            "kind": source["kind"],
            "public": sealed.public,
            "mode": source["mode"],
            "digest": sealed.digest,
            "source_id": source["id"],
            "block": block,
            "version": 1 if newest is None else newest["version"] + 1,
        }
        row = await dataset_rows.add(
            connection,
            sealed.parts() if object_name is None else (),
            **decided,
            name=request.name,
            content_key_id=secrets.content_key_id,
            wrapped_key=tamper_seals.wrap(secrets, decided, sealed.data_key),
            sealed_bytes=sealed.sealed_bytes,
            object_name=object_name,
            expires_at=expires_at,
            delete_after_job=False,
            **sealed.columns(),
        )
        still_known(services, secrets)
        await audit_log.note(
            connection,
            principal,
            "dataset.register",
            row["id"],
            account=account,
            kind=source["kind"],
            block=block,
        )
        faults.point("block.written")
    faults.point("block.committed")
    return row, True


async def _open_account(
    connection: Any, principal: Principal, cap: Mapping[str, str], unit: str
) -> str:
    account_id = new_id("acc")
    await ledger.open_account(
        connection,
        account_id,
        tenant_id=principal.tenant_id,
        scope="data",
        subject=account_id,
        unit=unit,
        cap=cap,
        filters=_filters(cap),
        actor=principal.name,
    )
    return account_id


def view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A source as it is published."""
    cap = {name: int(units) for name, units in row["cap"].items()}
    return {
        **{
            name: row[name]
            for name in (
                *("id", "name", "kind", "public", "revision", "mode", "cap_of", "block_bytes"),
            )
        },
        "by": row["block_by"],
        "cap": figures(cap["epsilon"], cap["delta"]),
        "retention_days": row["retention_days"],
        "account": row["account_id"],
        "created_by": row["created_by"],
        "created_at": row["created_at"],
    }


def _block_view(row: Mapping[str, Any], balance: ledger.AccountBalance) -> dict[str, Any]:
    cap = balance.cap
    return {
        "block": row["block"],
        "version": row["version"],
        "dataset": row["id"],
        "account": row["account_id"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
        "erased": not row["offered"],
        **datasets.place_view(row),
        "cap": figures(cap["epsilon"], cap["delta"]),
        **best_balance(balance).to_json(),
    }


def version_view(row: Mapping[str, Any]) -> dict[str, Any]:
    """A version of a block that was registered; never its content, nor its size."""
    return {
        "block": row["block"],
        "version": row["version"],
        "dataset": row["id"],
        "account": row["account_id"],
        "created_at": row["created_at"],
        "expires_at": row["expires_at"],
        **datasets.place_view(row),
        **({"notes": list(row["notes"])} if row.get("notes") else {}),
    }


def _filters(cap: Mapping[str, str]) -> dict[str, dict[str, str]]:
    return filter_limits(Cap(int(cap["epsilon"]), int(cap["delta"])))
