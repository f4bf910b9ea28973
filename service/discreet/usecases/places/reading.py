"""What a read of a place may tell: whoever registers a content from there need not be allowed to
see it.

An owner who writes the query of a database decides what fails, and where: `pw AS count`, or `1 / 0`
where a row is as they guess. So nothing that came is repeated: neither a value nor a row, a count
or a size, but the first column that is not as it should be, and which kind of rule that breaks, in
words of this file; of a table of somebody's own also the rule of its description that would help.
Of more columns than the first each would tell a bit. That a read failed is a bit too, so failed
reads are noted in the audit log with their address, and a tenant has a number of them a day
(`place_failures`).

A query may be one thing when it is registered and another when a job reads its rows again: by the
clock, for instance. So jobs that failed to read rows again count as well. They are told by their
rows, which end at padded times, and not by the audit log, which would say when the read failed.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from math import ceil
from typing import Any

import anyio

from discreet.errors import (
    DiscreetError,
    FieldIssue,
    InvalidInput,
    Limit,
    PayloadTooLarge,
    TooManyUploads,
    Unavailable,
)
from discreet.problems import DATASETS
from discreet.storage import audit_log, jobs
from discreet.storage.tenants import Principal
from discreet.usecases.places.rules import DATABASE, POINTER, Located, parse
from discreet.usecases.services import Services
from discreet_client import cells, readers

WINDOW = timedelta(days=1)
NOT_TOLD = "of what is read from a place no row, value or number is told: look at it there"
RULES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("has mean 1",), "target / behaviour must have mean 1; to insist: accept_doubts"),
    (("differ in their columns",), "the files differ in their columns or types"),
    (("value is missing", "missing value"), "a value is missing"),
    (("no column", "stands twice"), "there is no such column, or there are two"),
    (("is missing", "not known here", "appears twice"), "the columns are not those of the kind"),
    (("is empty", "null"), "a value is missing"),
    (("zone of reader.zones", "knows"), "a name that the description does not know"),
    (("clocks",), "clocks skip this time or show it twice: it needs its offset"),
    (("time zone",), "a time without a time zone"),
    (("already",), "one time of the same unit stands twice"),
    (("outside of", "more than", "less than", " above "), "a value is out of its bounds"),
    (("needed", "holds", "must be a", "valid"), "a value is not of the type that is needed"),
    (("must be", "too large", "count from", "at least", "at most"), "a value is out of its bounds"),
    (("cannot be read as", "not JSON", "file is not read"), "the file is not what its name says"),
    (("date", "block"), "a date is not of this block, or none"),
)
"""What sentences of checks hold, and what is told in their place; the first that fits."""
OTHERWISE = "the rows break a rule of the kind"
WAYS_OUT = frozenset(
    (
        "columns",
        *(f"reader.{rule}" for rule in readers.RULES),
        *(f"public.{name}" for name in ("edges", "horizon", "least_reward", "max_ratio", "meters")),
        *(f"public.{name}" for name in ("periods", "reward_bound", "states", "steps", "zones")),
    )
)
"""Only these, for what a value holds may look like one."""
_QUOTED = re.compile(r"'.*'|\".*\"", re.DOTALL)
CAUSES = sorted({one.cause for one in vars(cells).values() if isinstance(one, cells.Refusal)})
"""What readers say of a text that means nothing: of the text they say no more."""


class TooManyFailedReads(TooManyUploads):
    """Too many reads of places failed for this tenant."""

    code = "too_many_failed_reads"

    def __init__(self, limit: Limit, seconds_left: int) -> None:
        DiscreetError.__init__(
            self,
            f"{limit.allowed} reads of places failed for this tenant within a day "
            f"({limit.setting}); again in {seconds_left} s",
        )
        self.limit, self.seconds_left = limit, seconds_left


@asynccontextmanager
async def tried(
    services: Services,
    principal: Principal,
    located: Located,
    kind: str,
    columns: Mapping[str, str] | None = None,
) -> AsyncIterator[None]:
    """Around all that reads a content of this kind from a place, where a description calls columns
    so: what goes wrong says nothing of the content, is noted, and counts. TooManyFailedReads where
    too many went wrong already."""
    parse(located.text)  # what is no address tells nothing
    about = {"address": shown(located.text)}
    async with _counted(services, principal, kind, about, columns):
        yield


@asynccontextmanager
async def checked(
    services: Services, principal: Principal, dataset_id: str, kind: str
) -> AsyncIterator[None]:
    """Around a check of a stored content by other public figures, which may have come from a place:
    what goes wrong says nothing of it, is noted, and counts as a failed read. Otherwise an owner
    would find by bisecting a bound what the place does not show."""
    try:
        async with _counted(services, principal, kind, {"dataset": dataset_id}):
            yield
    except InvalidInput as error:
        rule = error.issues[0].detail.removesuffix(f"; {NOT_TOLD}")
        says = (
            f"the stored rows do not fit the corrected figures: {rule}. They may have come from a "
            "place, so no row, value or number is told"
        )
        raise InvalidInput([FieldIssue("/public", says)], code=error.code) from None


@asynccontextmanager
async def _counted(
    services: Services,
    principal: Principal,
    kind: str,
    about: Mapping[str, str],
    columns: Mapping[str, str] | None = None,
) -> AsyncIterator[None]:
    await require_few(services, principal.tenant_id)
    try:
        yield
    except BaseException as error:
        with anyio.move_on_after(5, shield=True):
            await _note(services, principal, getattr(error, "code", "ended"), about)
        if isinstance(error, DiscreetError):
            raise untold(error, kind, columns) from None
        raise


def untold(
    error: DiscreetError, kind: str, columns: Mapping[str, str] | None = None
) -> DiscreetError:
    """The error without anything of the content. Errors of places themselves say nothing of it."""
    if isinstance(error, InvalidInput) and any(
        not issue.pointer.startswith(POINTER) for issue in error.issues
    ):
        return InvalidInput([_told(error.issues[0], kind, columns or {})], code=error.code)
    if isinstance(error, PayloadTooLarge):
        limit = error.limit
        known = None if limit is None else Limit(limit.setting, limit.unit, limit.allowed)
        return PayloadTooLarge(
            f"the content is more than this service reads; {NOT_TOLD}", limit=known
        )
    if isinstance(error, Unavailable) and error.code == "not_read":
        return Unavailable(
            f"the reader of the content ended without an answer; {NOT_TOLD}", code=error.code
        )
    return error


def _told(issue: FieldIssue, kind: str, columns: Mapping[str, str]) -> FieldIssue:
    """The column, where it is one of the kind's own or of its description, and the kind of rule; of
    a table of somebody's own also the rule of its description that would help."""
    own = {name for _, table in DATASETS[kind].sample_tables() for name in table}
    if kind in readers.READERS:
        own |= readers.READERS[kind].own
    found: Mapping[str, Any] = issue.more or {}
    said = str(found.get("cause") or issue.detail).partition("; ")[0]
    if found:
        column = found.get("column")
        column = column if column in {*columns.values(), *(own - columns.keys())} else None
    else:
        words = {*issue.pointer.split("/"), *said.split("'")}
        column = min(own & words, default=None)
        column = columns.get(column, column) if column is not None else None
    # Without what stands in cells, which may look like a sign: in quotes, or named by the pointer.
    plain, last = _QUOTED.sub("", said), issue.pointer.rpartition("/")[2]
    plain = plain.replace(last, "") if last and last not in own else plain
    rule = next((rule for signs, rule in RULES if any(one in plain for one in signs)), OTHERWISE)
    rule = next((cause for cause in CAUSES if said.startswith(cause)), rule) if found else rule
    more = {"column": column, "cause": rule}
    says = rule if column is None else f"column {column!r}: {rule}"
    way_out = found.get("way_out")
    if way_out in WAYS_OUT:
        more["way_out"] = way_out
        says += f" ({way_out} may help)"
    return FieldIssue(POINTER, f"{says}; {NOT_TOLD}", more)


async def require_few(services: Services, tenant_id: str) -> None:
    """TooManyFailedReads where too many reads went wrong for this tenant within a day."""
    most, now = services.settings.place_failures, datetime.now(UTC)
    async with services.database.transaction(tenant_id) as connection:
        noted = await audit_log.page(
            connection, tenant_id, action="place.fail", since=now - WINDOW, size=most
        )
        unread = await jobs.unread_rows(connection, tenant_id, now - WINDOW, most)
    failed = sorted([*unread, *(entry["at"] for entry in noted)], reverse=True)
    if len(failed) >= most:
        left = ceil((failed[most - 1] + WINDOW - now).total_seconds())
        raise TooManyFailedReads(Limit("place_failures", "failed reads", most), max(1, left))


async def _note(
    services: Services, principal: Principal, code: str, about: Mapping[str, str]
) -> None:
    async with services.database.transaction(principal.tenant_id) as connection:
        await audit_log.note(connection, principal, "place.fail", code=code, **about)


def shown(text: str) -> str:
    """An address as its owners may see it: of a web server without a query, which may be a
    signature. In addresses of files and objects a question mark is a wildcard; behind one of a
    database there is SQL."""
    try:
        scheme = parse(text).scheme
    except InvalidInput:
        scheme = ""
    return text if scheme in ("file", "s3", DATABASE) else text.partition("?")[0][:200]
