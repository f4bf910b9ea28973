"""Corrections: another public part for data of which nothing was given away.

A public part is chosen without looking at the data, and mistakes are found late: with the first
plan, or with the first look at what was read. While nothing was spent or reserved on its account
and no job on it waits or runs, a dataset gets another one; of a simulation only a job that waits or
runs stands in the way. Id, account and unit stay.

What is stored are arrays that a reader made of rows, here or on the machine of whoever sent them.
Most public fields decide how rows are read: with others of them the content is sent again, or
fetched again from the place where it stays. `Dataset.FIGURES` only bound what the arrays may be or
say what they mean: with others of these the stored arrays are checked anew, in the sandbox of
uploads, and stay. Either way what is refused is told to the owner alone, as at registration.

A job is accepted for the revision of which its plan was made: who accepts it holds the dataset's
row shared (of blocks the source), who corrects it alone. So each sees what the other has committed:
the job is planned anew, or the correction is refused. And no content comes to a second budget by a
correction: what a dataset was before stays known by its digest, and leads to the same account.

That something was corrected is in the audit log. It is no entry of the ledger: entries are what
changes an amount, and no amount changes. Plans and certificates name the public part that they are
of by its digest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import anyio.to_thread
from pydantic import ValidationError

from discreet.errors import (
    Conflict,
    DiscreetError,
    FieldIssue,
    InvalidInput,
    NotFound,
    Unavailable,
)
from discreet.intake.field_issues import issues_of
from discreet.isolation.children import Limits
from discreet.observability import faults
from discreet.problems import DATASETS
from discreet.problems.descriptions import FIELDS, alike, completed, undone
from discreet.problems.sources import DatasetInBlocks
from discreet.storage import audit_log, ledger, sealing, sources, tamper_seals
from discreet.storage import datasets as dataset_rows
from discreet.storage import jobs as job_rows
from discreet.storage.identifiers import new_id
from discreet.storage.objects import StorageTrouble
from discreet.storage.tenants import Principal
from discreet.usecases import datasets
from discreet.usecases.access import require
from discreet.usecases.content_sizes import ContentSizes
from discreet.usecases.dataset_accounts import check_account, is_uncharged
from discreet.usecases.datasets import Registration, SealedContent
from discreet.usecases.known_contents import named, require_same_use, to_register_beside
from discreet.usecases.places.reading import checked
from discreet.usecases.places.rules import Located
from discreet.usecases.places.staying import PlaceFails, address_of, fetch_again
from discreet.usecases.rotation import still_known
from discreet.usecases.services import Services
from discreet.usecases.uploads import CPU_SECONDS, WALL_SECONDS, Upload

CHECKED_BYTES = 256 << 20
"""The longest stored content that is checked anew: this process opens it as a whole. Larger ones
are sent again."""

Row = dict[str, Any]
Patch = Mapping[str, Any]
"""What is different in a public part, as JSON Merge Patch (RFC 7396): null takes a field away."""


class Released(Conflict):
    """Something was given away of these data, or is about to be: their public part stays."""

    code = "released"


async def open_to(services: Services, principal: Principal, dataset_id: str) -> Row:
    """A dataset that may be corrected now, by its owner. NotFound, Forbidden, Conflict."""
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        row = await dataset_rows.find(connection, principal.tenant_id, dataset_id)
        if row is None:
            raise NotFound("there is no such dataset")
        if row["source_id"] is not None:
            says = f"this is block {row['block']} of a source, which is corrected as a whole"
            raise Conflict(f"{says}: PATCH /v1/sources/{row['source_id']}")
        await _require_open(connection, row)
    return row


async def correct(
    services: Services,
    principal: Principal,
    dataset_id: str,
    patch: Patch,
    content: Upload | Located | None = None,
    *,
    already_read: bool = False,
) -> Row:
    """The dataset with another public part, and with this content where one is given, or where it
    stays at a place.

    InvalidInput where the new public part is none, or is none of the content, and where fields
    differ that decide how rows are read and no content is given; Conflict (`released`,
    `dataset_in_use`) where it may not be corrected, (`content_known`) where another dataset has, or
    had, this content, (`dataset_changed`) where somebody else corrected it meanwhile. Other errors
    as of `datasets.register`.
    """
    try:
        row = await open_to(services, principal, dataset_id)
        public = _corrected(row, patch)
        fields = _differing(row["public"], _dumped(public))
        if content is None and not fields:
            return row
        if content is None and row["stays"] is not None:
            content = Located(await address_of(services, row), stays=True)
        if content is None:
            said = await _checked(services, principal, row, public, fields)
            corrected = await _store(services, principal, row, said, None, None)
        else:
            corrected = await _replaced(services, principal, row, public, content, already_read)
    finally:
        if isinstance(content, Upload):
            content.close()
    services.planner.forget(principal, dataset_id)
    old = row["object_name"]
    if old is not None and old != corrected["object_name"] and services.objects is not None:
        # Its key is gone with the row; the sweep takes what is left here.
        with suppress(StorageTrouble):
            await anyio.to_thread.run_sync(services.objects.erase, old)
    return corrected


async def _replaced(
    services: Services,
    principal: Principal,
    row: Row,
    public: Any,
    content: Upload | Located,
    already_read: bool,
) -> Row:
    """With a content that is read by the new public part."""
    request = Registration(
        name=row["name"],
        kind=row["kind"],
        public=public,
        mode=row["mode"],
        cap=None,
        account=row["account_id"],
        source=content,
        already_read=already_read,
    )
    try:
        async with datasets.sealed_content(services, principal, request, row["id"]) as sealed:

            async def store(object_name: str | None) -> tuple[Row, bool]:
                found = await _store(services, principal, row, sealed.public, sealed, object_name)
                return found, True

            corrected, _ = await datasets.keep(services, sealed, store, new_id("dst"))
    finally:
        if isinstance(content, Upload):
            content.close()
    return corrected


async def _store(
    services: Services,
    principal: Principal,
    row: Row,
    public: dict[str, Any],
    sealed: SealedContent | None,
    object_name: str | None,
) -> Row:
    """The correction of a dataset that was looked at as `row`, in one transaction."""
    secrets, digest = services.secrets, row["digest"] if sealed is None else sealed.digest
    async with services.database.transaction(principal.tenant_id) as connection:
        await dataset_rows.lock_digest(connection, bytes(digest))
        current = await dataset_rows.lock_to_correct(connection, principal.tenant_id, row["id"])
        if current is None:
            raise NotFound("there is no such dataset")
        if current["revision"] != row["revision"]:
            says = "somebody corrected this dataset at the same moment: look at it, and correct it"
            raise Conflict(f"{says} again", code="dataset_changed")
        await _require_open(connection, current)
        known = await dataset_rows.of_digest(connection, principal.tenant_id, bytes(digest))
        _require_unknown(current, [one for one in known if one["id"] != row["id"]], public)
        await check_account(
            connection, principal, current["account_id"], row["kind"], public, but=row["id"]
        )
        decided = {**current, "public": public, "digest": digest}
        values: dict[str, Any] = {
            "public": public,
            "digest": digest,
            "content_key_id": secrets.content_key_id,
        }
        if sealed is None:
            data_key = tamper_seals.unwrap(secrets, current)
        else:
            data_key = sealed.data_key
            values |= {"sealed_bytes": sealed.sealed_bytes, "object_name": object_name}
            values |= {"stays": None, "place": None, "seen_at": None} | sealed.columns()
        chunks = None
        if sealed is not None:
            chunks = sealed.parts() if object_name is None else ()
        corrected = await dataset_rows.correct(
            connection,
            current,
            principal.name,
            chunks,
            **values,
            wrapped_key=tamper_seals.wrap(secrets, decided, data_key),
        )
        still_known(services, secrets)
        await audit_log.note(
            connection,
            principal,
            "dataset.correct",
            row["id"],
            account=row["account_id"],
            revision=corrected["revision"],
            fields=_differing(current["public"], public),
            content="stays" if sealed is None else "replaced",
        )
        faults.point("correction.written")
    faults.point("correction.committed")
    return corrected


async def _checked(
    services: Services, principal: Principal, row: Row, public: Any, fields: Sequence[str]
) -> dict[str, Any]:
    """The public part as it is published, if it is one of the stored content. InvalidInput, which
    names the column and the rule alone, as the content may have come from a place."""
    if needed := [name for name in fields if name not in DATASETS[row["kind"]].FIGURES]:
        says = (
            f"{', '.join(needed)} decided how the rows were read: send the content again with "
            "this, which is then read by the new public part (discreet dataset correct "
            f"{row['id']} FILE --set …)"
        )
        raise InvalidInput([FieldIssue("/content", says)])
    if row["content_key_id"] not in services.secrets.content_keys:
        says = "a rotation of the master key has not reached this machine: ask again"
        raise Unavailable(says, code="keys_unavailable")
    if row["wrapped_key"] is None or row["sealed_bytes"] > CHECKED_BYTES:
        raise InvalidInput(
            "the stored content is too large to be checked anew as a whole: send it again",
            pointer="/content",
        )
    content = await datasets.open_content(services, row["id"])
    job = {
        "kind": row["kind"],
        "public": public.model_dump(mode="json"),
        "mode": row["mode"],
        "content_bytes": ContentSizes.of(services.settings).max_bytes(row["kind"], public),
    }
    limits = Limits(services.settings.job_memory_bytes, CPU_SECONDS, WALL_SECONDS)
    async with checked(services, principal, row["id"], row["kind"]):
        found, _ = await services.reader.call("check", job, content, limits)
    said: dict[str, Any] = found["public"]
    return said


def _corrected(row: Mapping[str, Any], patch: Patch) -> Any:
    """The public part of a dataset, or of a source, as the patch says, as its kind's model.
    InvalidInput."""
    merged = merged_into(row["public"], patch)
    if FIELDS & patch.keys():
        merged = merged_into(undone(row["kind"], row["public"]), patch)
        merged = completed(row["kind"], merged)
    if merged.get("unit") != row["public"]["unit"]:
        says = (
            f"the unit stays, since the account counts in it: {row['public']['unit']}. Erase this "
            "and register it again with the unit that it has"
        )
        raise InvalidInput(says, pointer="/public/unit")
    try:
        return DATASETS[row["kind"]].read_public(merged)
    except ValidationError as error:
        issues = issues_of(error.errors(include_url=False), merged)
        raise InvalidInput(issues).under("/public") from None


def merged_into(value: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """JSON Merge Patch (RFC 7396) of an object."""
    found = dict(value)
    for name, new in patch.items():
        if new is None:
            found.pop(name, None)
        elif isinstance(new, Mapping):
            old = found.get(name)
            found[name] = merged_into(old if isinstance(old, Mapping) else {}, new)
        else:
            found[name] = new
    return found


def _dumped(public: Any) -> dict[str, Any]:
    said: dict[str, Any] = public.model_dump(mode="json", exclude_none=True)
    return said


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


async def _require_open(connection: Any, row: Mapping[str, Any]) -> None:
    """Conflict where something was, or may yet be, given away of a dataset."""
    active = await job_rows.active_of_dataset(connection, row["id"])
    if row["mode"] != "simulation" and not await is_uncharged(connection, row):
        if active:
            says = (
                "a job on these data has reserved its price: cancel it first (discreet cancel "
                "JOB); once it has touched data, "
            )
        else:
            says = (
                f"something was spent or reserved on the account of these data "
                f"({row['account_id']}), so their public part stays: "
            )
        raise Released(says + to_register_beside(row))
    if active:
        says = "a job on this dataset waits or runs: cancel it first, or wait until it has ended"
        raise Conflict(says, code="dataset_in_use")


def _require_unknown(row: Row, others: Sequence[Row], public: dict[str, Any]) -> None:
    """Conflict where other datasets have, or had, what would be the content of this one, and it
    would come to a second budget, or be there twice."""
    require_same_use(others, row["kind"], row["mode"])
    for one in others:
        if one["account_id"] != row["account_id"]:
            says = (
                f"read so this content is that of {named(one)}, on another account "
                f"({one['account_id']}), and no content has two budgets: submit jobs on that "
                "dataset and erase this one, or register it on that account"
            )
            raise Conflict(says, code="content_known")
        if one["deleted_at"] is None and not one["former"] and alike(one["public"], public):
            says = f"read so this is {named(one)}, on the same account: submit jobs on that one"
            raise Conflict(says, code="content_known")


# Sources ------------------------------------------------------------------------------------------


async def correct_source(
    services: Services, principal: Principal, source_id: str, patch: Patch
) -> Row:
    """The source with another public part, while nothing was spent or reserved on any of its
    blocks. Their contents are checked anew, each; where fields differ that decide how rows are
    read, none may be there.

    NotFound, InvalidInput, Conflict as of `correct`.
    """
    require(principal, "owner")
    async with services.database.transaction(principal.tenant_id) as connection:
        source = await sources.find(connection, principal.tenant_id, source_id)
        if source is None:
            raise NotFound("there is no such source")
        await _require_source_open(connection, source)
        versions = await sources.live(connection, source_id)
    public = _corrected(source, patch)
    kind = DATASETS[source["kind"]]
    assert issubclass(kind, DatasetInBlocks)
    if why := kind.not_in_blocks(public):
        raise InvalidInput(why, pointer="/public")
    said = _dumped(public)
    fields = _differing(source["public"], said)
    if not fields:
        return source
    if versions and (needed := [name for name in fields if name not in kind.FIGURES]):
        says = (
            f"decided how the rows of {len(versions)} registered versions of blocks were read: "
            "erase these (discreet dataset delete), correct the source, and register the blocks "
            "again"
        )
        raise InvalidInput([FieldIssue(f"/public/{name}", says) for name in needed])
    for row in versions:
        described = await _checked_block(services, principal, source, row, public, fields)
        if described != said:
            raise InvalidInput(f"block {row['block']} has another public part: {described}")
    async with services.database.transaction(principal.tenant_id) as connection:
        await sources.lock(connection, source_id)
        current = await sources.find(connection, principal.tenant_id, source_id)
        now = await sources.live(connection, source_id, locked=True)
        await sources.alone(connection, source_id)
        if (
            current is None
            or current["revision"] != source["revision"]
            or {row["id"] for row in now} - {row["id"] for row in versions}
        ):
            says = "the source was corrected, or a block registered, at the same moment: look at it"
            raise Conflict(f"{says}, and correct it again", code="dataset_changed")
        await _require_source_open(connection, current)
        secrets = services.secrets
        for row in now:
            data_key = tamper_seals.unwrap(secrets, row)
            await dataset_rows.correct(
                connection,
                row,
                principal.name,
                None,
                public=said,
                content_key_id=secrets.content_key_id,
                wrapped_key=tamper_seals.wrap(secrets, {**row, "public": said}, data_key),
            )
        corrected = await sources.correct(connection, source_id, said)
        still_known(services, secrets)
        await audit_log.note(
            connection,
            principal,
            "source.correct",
            source_id,
            revision=corrected["revision"],
            fields=fields,
        )
        faults.point("correction.written")
    faults.point("correction.committed")
    return corrected


async def _require_source_open(connection: Any, source: Row) -> None:
    """Conflict where something was, or may yet be, given away of a block."""
    accounts = await sources.accounts_of(connection, source)
    if source["mode"] != "simulation" and accounts:
        balances = await ledger.balances(connection, accounts)
        charged = [name for name in accounts if any(balances[name].totals.values())]
        if charged:
            says = (
                f"something was spent or reserved on blocks of this source ({charged[0]}), so its "
                "public part stays: create a source beside it, with the public part that is "
                "needed, for the days to come. Days that are registered in both have two budgets, "
                "which add up"
            )
            raise Released(says)
    if await sources.active(connection, source["id"]):
        says = "a job on this source waits or runs: cancel it first, or wait until it has ended"
        raise Conflict(says, code="dataset_in_use")


async def _checked_block(
    services: Services,
    principal: Principal,
    source: Row,
    row: Row,
    public: Any,
    fields: Sequence[str],
) -> dict[str, Any]:
    """The public part of a version of a block, if its content is one of it."""
    try:
        if row["stays"] is None:
            return await _checked(services, principal, row, public, fields)
        async with checked(services, principal, row["id"], row["kind"]):
            fetched = await fetch_again(services, row, public)
        fetched.file.close()
    except InvalidInput as error:
        raise InvalidInput(
            [FieldIssue(one.pointer, f"block {row['block']}: {one.detail}") for one in error.issues]
        ) from None
    except PlaceFails as error:
        says = f"block {row['block']} is not at its place as it was registered: {error.code}"
        raise Conflict(says, code="content_changed") from error
    except sealing.SealBroken as error:
        raise DiscreetError(f"block {row['block']} does not open") from error
    return dict(source["public"]) | _dumped(public)
