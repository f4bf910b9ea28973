"""Stored releases of jobs, each sealed under a key of its own that opens it only for what was
accepted.

A release is opened for its own job, whose finish is not done yet, and for jobs that ask it again.
These must be of the same tenant, and what they name must be what was certified: a row that was
written outside the service, in whichever table, never leads to an answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import anyio.to_thread

from discreet.errors import DiscreetError
from discreet.ledger import certificates
from discreet.storage import jobs, results, sealing, sources, tamper_seals
from discreet.storage.database import SYSTEM
from discreet.storage.secrets import Secrets
from discreet.usecases.services import Services

Row = Mapping[str, Any]


class MasterKeyAbsent(DiscreetError):
    """What was released is sealed under a master key that this machine does not know, perhaps not
    yet."""

    code = "master_key_unknown"


class NotAsked(DiscreetError):
    """What a job needs to be made from can no longer be used. `code` is one of
    `endings.FAILURES`."""


@dataclass(frozen=True)
class ReusedRelease:
    """A job whose release is asked again, as a worker holds it."""

    certificate: Mapping[str, Any]
    plan: Mapping[str, Any]
    released: bytes


def seal(
    keys: Secrets, job_id: str, terms: bytes, released: bytes, *, kept: bool
) -> dict[str, Any]:
    """The columns of a release; with `kept` it outlives its job."""
    name, data_key = _name(job_id), sealing.new_data_key()
    return {
        "sealed": sealing.seal_stream(data_key, name, released),
        "wrapped_key": sealing.wrap(keys, name, data_key, terms),
        "terms": terms,
        "digest": hashlib.sha256(released).digest() if kept else None,
    }


def unseal(keys: Secrets, row: Row, terms: bytes) -> bytes:
    """What was released for these terms. SealBroken where the row is another, MasterKeyAbsent
    without its key."""
    key_id, name, sealed = row["content_key_id"], _name(row["job_id"]), bytes(row["sealed"])
    if key_id not in keys.content_keys:
        raise MasterKeyAbsent()
    if row["wrapped_key"] is None:  # the release of a session
        return sealing.unseal_whole(keys, key_id, name, sealed)
    data_key = sealing.unwrap(keys, key_id, name, bytes(row["wrapped_key"]), terms)
    return bytes(sealing.open_stream(data_key, name, len(sealed), [sealed]))


async def firsts(
    services: Services, tenant_id: str, job_ids: Sequence[str]
) -> tuple[list[ReusedRelease], list[dict[str, Any]]]:
    """The jobs that are asked again, and the data of all of them: a dataset, or blocks of a source.
    NotAsked or MasterKeyAbsent where that cannot be.

    Not only rows are looked at: each release opens for its own job's terms alone, which name the
    tenant, and has the digest that the job's certificate names, which this installation has signed.
    All are of one dataset: a simulation's would make public what private ones released.
    """
    found: list[ReusedRelease] = []
    data: list[dict[str, Any]] = []
    known: set[tuple[str, ...]] = set()
    for job_id in job_ids:  # one at a time: releases may be large
        async with services.database.transaction(SYSTEM) as connection:
            job = await jobs.find(connection, job_id, tenant_id)
            row = await jobs.find_release(connection, job_id)
            result = await results.certificate(connection, job_id)
            data = [] if job is None else await sources.of_job(connection, job)
        if (
            row is None
            or job is None
            or result is None
            or not data
            or {one["tenant_id"] for one in data} != {tenant_id}
        ):
            raise NotAsked(code="first_release_gone")
        known.add(tuple(one["id"] for one in data))
        if len(known) > 1:
            raise NotAsked(code="first_release_altered")
        found.append(
            await anyio.to_thread.run_sync(_first, services.secrets, job, row, result, data)
        )
    return found, data


def _first(
    keys: Secrets, job: Row, row: Row, certificate: Mapping[str, Any], data: Sequence[Row]
) -> ReusedRelease:
    known = {certificates.public_key(keys.signer), *keys.other_signing_keys}
    try:
        released = unseal(
            keys, row, tamper_seals.release_terms(tamper_seals.sealed_text(job), data)
        )
    except sealing.SealBroken as error:
        raise NotAsked(code="first_release_altered") from error
    named = (certificate.get("job"), certificate.get("release_digest"))
    if not certificates.is_signed(certificate) or named != (
        job["id"],
        hashlib.sha256(released).hexdigest(),
    ):
        raise NotAsked(code="first_release_altered")
    if certificate["public_key"] not in known:
        raise NotAsked(code="first_signing_key_unknown")
    return ReusedRelease(certificate, job["plan"], released)


def _name(job_id: str) -> str:
    return f"release/{job_id}"
