"""Which account a dataset may use: whose data it holds, and what was already spent there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.errors import Conflict, NotFound
from discreet.problems import DATASETS
from discreet.storage import datasets, ledger
from discreet.storage.tenants import Principal


async def require_movable(connection: Any, known: Mapping[str, Any]) -> None:
    """Conflict unless a content may move from its account to another: it was erased, nothing was
    spent or reserved there, and no other content is there, whose people would then have two
    budgets."""
    if known["deleted_at"] is None:
        says = (
            f"{_elsewhere(known)}, as {known['name']} ({known['id']}): while nothing is spent "
            "there, delete it first"
        )
        raise Conflict(says, code="content_known")
    await require_unspent(connection, known)
    if await datasets.has_others(connection, known["account_id"], known["digest"]):
        raise Conflict(
            f"{_elsewhere(known)}, together with other data about these people",
            code="content_known",
        )


async def require_unspent(connection: Any, known: Mapping[str, Any]) -> None:
    """Conflict when something was spent or reserved on the account of this content, which was
    erased."""
    account_id = known["account_id"]
    await datasets.lock_account(connection, account_id)
    balances = await ledger.balances(connection, [account_id])
    if any(balances[account_id].totals.values()):
        raise Conflict(
            f"{_elsewhere(known)}, where something was spent on it already", code="content_known"
        )


def _elsewhere(known: Mapping[str, Any]) -> str:
    return f"this content is registered on another account ({known['account_id']})"


async def check_account(
    connection: Any, principal: Principal, account_id: str, kind: str, public: dict[str, Any]
) -> None:
    """Conflict unless all entries of the account then speak of the same neighbours: their prices
    add up."""
    unit = public["unit"]
    found = await ledger.accounts(
        connection, principal.tenant_id, scope="data", account_id=account_id
    )
    if not found:
        raise NotFound("there is no such account", pointer="/account")
    if found[0]["unit"] != unit:
        raise Conflict(
            f"this account counts in the unit {found[0]['unit']}, the dataset in {unit}",
            code="unit_differs",
        )
    await datasets.lock_account(connection, account_id)
    ours = DATASETS[kind].relation(DATASETS[kind].read_public(public))
    for other in await datasets.publics_of_account(connection, account_id):
        model = DATASETS[other["kind"]]
        theirs = model.relation(model.read_public(other["public"]))
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] != theirs[name]:
                says = (
                    f"neighbours of datasets on this account differ: {name} is {theirs[name]}, "
                    f"here {ours[name]}"
                )
                raise Conflict(says, code="unit_differs")
