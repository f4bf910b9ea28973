"""Datasets: register, look up, erase."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from discreet.errors import Conflict, FieldIssue, InvalidInput, NotFound, PayloadTooLarge
from discreet.privacy.filters import Cap
from discreet.problems import DATASETS
from discreet.problems.base import Content, canonical_bytes, pack
from discreet.storage import datasets, jobs, ledger, sealing
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.budgets import cap_amounts, filter_limits
from discreet.usecases.services import Services


@dataclass(frozen=True)
class Registration:
    """What an owner registers, with its content still to be read (in a thread: it may be large)."""

    name: str
    kind: str
    public: Any
    mode: str
    cap: Cap | None
    account: str | None
    read: Callable[[], Content]


async def register(services: Services, principal: Principal, request: Registration) -> tuple[dict[str, Any], bool]:
    """The dataset and whether it is new.

    The same content of the same tenant is the same dataset on the same account, in whatever order or format it comes,
    and a deleted dataset leaves its account behind. With another kind, public part, mode or account it is a Conflict:
    a second account for the same people would be a second budget.
    """
    require(principal, "owner")
    if (request.cap is None) == (request.account is None):
        raise InvalidInput([FieldIssue("/cap", "either a cap or the account of an earlier version is needed")])

    def prepare() -> tuple[bytes, list[bytes], str, dict[str, Any]]:
        content = request.read()
        # A release that ran out of memory would tell how much there is; so its owner is told now.
        size, most = sum(array.nbytes for array in content.values()), services.settings.content_bytes
        if size > most:
            raise PayloadTooLarge(f"the content takes {size} bytes in memory, of at most {most}")
        digest = datasets.digest(services.secrets, principal.tenant_id, canonical_bytes(content))
        dataset_id = new_id("dst")
        described = DATASETS[request.kind].describe(request.public, content)
        public = described.model_dump(mode="json", exclude_none=True)
        return digest, list(sealing.seal(services.secrets, dataset_id, pack(content))), dataset_id, public

    digest, chunks, dataset_id, public = await anyio.to_thread.run_sync(prepare)
    async with services.database.transaction(principal.tenant_id) as connection:
        await datasets.lock_digest(connection, digest)
        known = await datasets.find_digest(connection, principal.tenant_id, digest)
        if known is not None:
            for name, value in (("kind", request.kind), ("public", public), ("mode", request.mode)):
                if known[name] != value:
                    raise Conflict(f"this content is registered with another {name}", code="content_known")
            if request.account is not None and request.account != known["account_id"]:
                raise Conflict("this content is registered on another account", code="content_known")
            if known["deleted_at"] is None:
                return known, False
        account_id = known["account_id"] if known is not None else request.account
        if account_id is None:
            account_id = new_id("acc")
            assert request.cap is not None
            await ledger.open_account(
                connection,
                account_id,
                tenant_id=principal.tenant_id,
                scope="data",
                subject=account_id,
                unit=public["unit"],
                cap=cap_amounts(request.cap),
                filters=filter_limits(request.cap),
                actor=principal.name,
            )
        else:
            await _check_account(connection, principal, account_id, public["unit"])
        row = await datasets.add(
            connection,
            chunks,
            id=dataset_id,
            tenant_id=principal.tenant_id,
            account_id=account_id,
            name=request.name,
            kind=request.kind,
            public=public,
            mode=request.mode,
            digest=digest,
            content_key_id=services.secrets.content_key_id,
        )
    return row, True


async def _check_account(connection: Any, principal: Principal, account_id: str, unit: str) -> None:
    found = await ledger.accounts(connection, principal.tenant_id, scope="data", account_id=account_id)
    if not found:
        raise NotFound("there is no such account", pointer="/account")
    if found[0]["unit"] != unit:
        raise Conflict(
            f"this account counts in the unit {found[0]['unit']}, the dataset in {unit}", code="unit_differs"
        )


async def find(services: Services, principal: Principal, dataset_id: str) -> dict[str, Any]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await datasets.find(connection, principal.tenant_id, dataset_id)
    if row is None:
        raise NotFound("there is no such dataset")
    return row


async def page(
    services: Services, principal: Principal, after: tuple[Any, str] | None, size: int
) -> list[dict[str, Any]]:
    require(principal, "owner", "analyst", "auditor")
    async with services.database.transaction(principal.tenant_id) as connection:
        return await datasets.page(connection, principal.tenant_id, after, size)


async def erase(services: Services, principal: Principal, dataset_id: str) -> None:
    """Erase the content. Account, ledger and the memory of the content's digest stay."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        # The row is locked first, so that no job can be accepted between the look and the erasure.
        if not await datasets.erase(connection, principal.tenant_id, dataset_id):
            raise NotFound("there is no such dataset")
        if await jobs.active_of_dataset(connection, dataset_id):
            raise Conflict("a job still needs this dataset; cancel it first", code="dataset_in_use")


def view(row: dict[str, Any]) -> dict[str, Any]:
    """A dataset as it is published: never its content, never its digest."""
    return {
        "id": row["id"],
        "name": row["name"],
        "kind": row["kind"],
        "public": row["public"],
        "mode": row["mode"],
        "account": row["account_id"],
        "created_at": row["created_at"],
    }
