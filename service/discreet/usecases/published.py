"""Results, which are compared with what was published before anybody gets them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import anyio.to_thread
import structlog

from discreet.errors import Conflict, Gone, NotFound, ResultAltered, Unavailable
from discreet.ledger import certificates
from discreet.storage import jobs, results
from discreet.storage.tenants import Principal
from discreet.usecases.access import require
from discreet.usecases.jobs import SUBMITTERS
from discreet.usecases.services import Services

log = structlog.get_logger()


async def result(
    services: Services, principal: Principal, job_id: str
) -> tuple[dict[str, Any], bytes, dict[str, Any]]:
    """The job, its result as JSON text, and its certificate. Conflict if it has no result yet, Gone
    if the result was deleted, ResultAltered if what is stored is not what was published."""
    row, text, signed = await _stored(services, principal, job_id)
    if text is None:
        raise Gone(gone(row), code="result_gone")
    return row, text, signed


async def certificate(
    services: Services, principal: Principal, job_id: str
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The job and its certificate, which is kept when the result is deleted. Errors as `result`."""
    row, _, signed = await _stored(services, principal, job_id)
    return row, signed


async def result_table(services: Services, principal: Principal, job_id: str, name: str) -> bytes:
    """A large field of a result as Parquet. NotFound if the result has no such table; otherwise
    errors as `result`."""
    _, _, signed = await result(services, principal, job_id)
    async with services.database.transaction(principal.tenant_id) as connection:
        parquet = await results.table(connection, job_id, name)
    if parquet is None and name not in signed.get("tables", {}):
        raise NotFound("the result has no such table")
    if parquet is None:  # perhaps deleted since the query above: then that is reported
        await result(services, principal, job_id)
    await require_unaltered(services, job_id, signed, tables={name: parquet})
    assert parquet is not None
    return parquet


def gone(row: Mapping[str, Any]) -> str:
    """The error text for a result that was deleted."""
    return (
        f"the result of this job was deleted on {row['result_gone_at']:%Y-%m-%d}, at the end of "
        "the operator's retention period (DISCREET_RESULT_RETENTION_DAYS); its certificate and its "
        "entries in the ledger are kept"
    )


async def _stored(
    services: Services, principal: Principal, job_id: str
) -> tuple[dict[str, Any], bytes | None, dict[str, Any]]:
    """The job, its result unless that was deleted, and its certificate."""
    require(principal, *SUBMITTERS)
    async with services.database.transaction(principal.tenant_id, snapshot=True) as connection:
        row = await jobs.find(connection, job_id, principal.tenant_id)
        found = None if row is None else await results.find(connection, job_id)
    if row is None:
        raise NotFound("there is no such job")
    if found is None:
        raise Conflict(f"this job is {row['state']} and has no result", code="no_result")
    text, signed = found
    await require_unaltered(services, job_id, signed, result=text)
    if text is None and row["result_gone_at"] is None:
        log.error("a stored result is missing", job=job_id)
        raise ResultAltered("what is stored is not what was published: the result is missing")
    return row, text, signed


async def require_unaltered(
    services: Services,
    job_id: str,
    certificate: dict[str, Any],
    *,
    result: bytes | None = None,
    tables: Mapping[str, bytes | None] = MappingProxyType({}),
) -> None:
    """Compare what is stored with the digests in its certificate, before anybody gets it.
    ResultAltered if they differ, Unavailable if the certificate is signed by a key that is unknown
    here. Certificates of older versions have no digest of the result, which is then unchecked."""
    keys = {certificates.public_key(services.secrets.signer), *services.secrets.other_signing_keys}

    def work() -> str | None:
        if not certificates.is_signed(certificate):
            return "the certificate's signature is not that of its content"
        digest = None if result is None else hashlib.sha256(result).hexdigest()
        given = {
            name: "" if one is None else hashlib.sha256(one).hexdigest()
            for name, one in tables.items()
        }
        checks = certificates.check_result(certificate, digest=digest, tables=given, job=job_id)
        return next((one.detail for one in checks if one.holds is False), None)

    wrong = await anyio.to_thread.run_sync(work)
    if wrong is not None:
        log.error("a stored result is not what was published", job=job_id, what=wrong)
        raise ResultAltered(f"what is stored is not what was published: {wrong}")
    if certificate["public_key"] not in keys:
        log.error(
            "a stored certificate is signed by an unknown key",
            job=job_id,
            key=certificate["public_key"],
        )
        raise Unavailable(
            f"the certificate of this job is signed by {certificate['public_key']}, which is no "
            "key of this installation: a rotation has not reached this machine, the key was "
            "retired (`discreet secrets trust` takes it back), or the result was exchanged",
            code="signing_key_unknown",
        )
