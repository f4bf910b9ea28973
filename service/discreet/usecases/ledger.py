"""The ledger as a whole: its signed head, its export, and whether it confirms a certificate."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

import anyio.to_thread

from discreet.ledger import certificates, envelopes
from discreet.ledger.entries import Head, entry_line, head_line, sign_head
from discreet.ledger.proofs import check_proofs
from discreet.storage import ledger, results
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.services import Services
from discreet_agent import canonical

READERS = ("owner", "auditor")
PAGE = 1000
"""Entries that an export fetches at once."""


async def head(services: Services, principal: Principal) -> Head:
    """The tenant's signed head. Keep copies elsewhere, so that nobody can undo the entries that
    it covers."""
    require(principal, *READERS)
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        last = await ledger.heads(connection, principal.tenant_id)
    return sign_head(principal.tenant_id, last, services.secrets.signer)


async def head_statement(services: Services, principal: Principal) -> dict[str, Any]:
    """The same as an in-toto statement in a signed envelope."""
    return envelopes.sign_head(await head(services, principal), services.secrets.signer)


async def export(services: Services, principal: Principal) -> AsyncIterator[bytes]:
    """The lines of an export in the format of `ledger.verification`, all of one moment, as they are
    read.

    The first line is made before this returns, so that a refusal comes before anything was sent.
    """
    require(principal, *READERS)
    lines = _lines(services, principal)
    first = await anext(lines)
    return _chain(first, lines)


async def check_certificate(
    services: Services,
    principal: Principal,
    body: Any,
    *,
    result: Any = None,
    tables: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Signature by a key of this service, the one in use or one before it; price from the events,
    guarantee, the result (and SHA-256 of its tables by name) where there is one, and inclusion in
    the tenant's ledger; of what was asked again also the first jobs' certificates, which are looked
    up here."""
    require(principal, "owner", "analyst", "auditor")
    secrets = services.secrets
    keys = (certificates.public_key(secrets.signer), *secrets.other_signing_keys)
    checks = await anyio.to_thread.run_sync(certificates.check, body, keys)
    if isinstance(body, Mapping):
        digest = (
            None if result is None else await anyio.to_thread.run_sync(canonical.digest, result)
        )
        checks += certificates.check_result(body, digest=digest, tables=tables)
    job = body.get("job") if isinstance(body, dict) else None
    if isinstance(job, str):
        async with services.database.transaction(principal.tenant_id) as connection:
            rows = await ledger.of_job(connection, job)
        checks.append(certificates.check_inclusion(body, _entries(rows)))
    if isinstance(body, Mapping):
        checks += await anyio.to_thread.run_sync(check_proofs, body, keys)
    if isinstance(body, Mapping) and checks[0].holds and "follows_from" in body:
        firsts = []
        async with services.database.transaction(principal.tenant_id) as connection:
            for one in certificates.followed_jobs(body):
                if (first := await results.certificate(connection, one)) is not None:
                    firsts.append(first)
                    charged = _entries(await ledger.of_job(connection, one))
                    checks.append(certificates.check_inclusion(first, charged))
        checks += await anyio.to_thread.run_sync(certificates.check_followed, body, firsts)
    return certificates.verdict(checks)


def _entries(rows: Iterable[Mapping[str, Any]]) -> list[tuple[Any, str]]:
    return [(json.loads(row["body"]), bytes(row["hash"]).hex()) for row in rows]


async def _lines(services: Services, principal: Principal) -> AsyncGenerator[bytes, None]:
    """One moment's ledger, without a transaction that lasts: what the head names never changes, so
    that its entries may be read at any time. No connection is held while the client reads, so a
    slow reader blocks nobody."""
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        last = await ledger.heads(connection, principal.tenant_id)
    yield head_line(sign_head(principal.tenant_id, last, services.secrets.signer))
    for account, seq, _ in last:
        for after in range(0, seq, PAGE):
            async with services.database.transaction(principal.tenant_id) as connection:
                rows = await ledger.entries(
                    connection, account, after=after, size=min(PAGE, seq - after)
                )
            yield b"".join(
                entry_line(row["body"], bytes(row["hash"]), bytes(row["previous_hash"]))
                for row in rows
            )


async def _chain(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(rest):
        yield first
        async for part in rest:
            yield part
