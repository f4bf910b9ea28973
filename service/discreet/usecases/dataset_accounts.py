"""Which account a dataset may use: whose data it holds, and what was already spent there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discreet.errors import Conflict, NotFound
from discreet.problems import DATASETS
from discreet.problems.descriptions import alike
from discreet.storage import datasets, ledger
from discreet.storage.tenants import Principal
from discreet.usecases.known_contents import other_public_part

Row = dict[str, Any]


async def of_known(
    connection: Any, rows: Sequence[Row], public: Any, account: str | None
) -> tuple[Row | None, str | None]:
    """What a content already is, of `datasets.of_digest`, for whoever registers it with this public
    part, on this account or on one of its own: the dataset that has it with this very part, or had
    it until it was erased, if there is one, and the account it belongs on; None for one that is to
    be opened. Conflict where it would come to a second account, or is there with another part.
    """
    if not rows:
        return None, account
    first = rows[0]
    if account is not None and account != first["account_id"]:
        await require_movable(connection, first)
        return None, account
    here = [row for row in rows if row["account_id"] == first["account_id"]]
    for row in here:
        if not row["former"] and alike(row["public"], public):
            return row, row["account_id"]
    if first["former"] or account is not None:  # beside what is there
        return None, first["account_id"]
    is_free = await is_uncharged(connection, first)
    if first["deleted_at"] is None or not is_free:
        raise other_public_part(first, public, is_free=is_free and first["deleted_at"] is None)
    if not await datasets.has_others(connection, first["account_id"], first["digest"]):
        return None, None  # nothing holds it to an account whose unit or neighbours were mistaken
    return None, first["account_id"]


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
    if not await is_uncharged(connection, known):
        raise Conflict(
            f"{_elsewhere(known)}, where something was spent on it already", code="content_known"
        )


async def is_uncharged(connection: Any, row: Mapping[str, Any]) -> bool:
    """Whether nothing was spent or reserved on the account of this content. No other content comes
    to the account before this transaction ends."""
    account_id = row["account_id"]
    await datasets.lock_account(connection, account_id)
    balances = await ledger.balances(connection, [account_id])
    return not any(balances[account_id].totals.values())


def _elsewhere(known: Mapping[str, Any]) -> str:
    return f"this content is registered on another account ({known['account_id']})"


async def check_account(
    connection: Any,
    principal: Principal,
    account_id: str,
    kind: str,
    public: dict[str, Any],
    *,
    but: str | None = None,
) -> None:
    """Conflict unless all entries of the account then speak of the same neighbours: their prices
    add up. `but`: the dataset that gets this public part, whatever it has now."""
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
    for other in await datasets.publics_of_account(connection, account_id, but):
        model = DATASETS[other["kind"]]
        theirs = model.relation(model.read_public(other["public"]))
        for name in sorted(ours.keys() & theirs.keys()):
            if ours[name] != theirs[name]:
                says = (
                    f"neighbours of datasets on this account differ: {name} is {theirs[name]}, "
                    f"here {ours[name]}"
                )
                raise Conflict(says, code="unit_differs")
