"""Checks that a stored result is what was published, before anybody gets it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import anyio.to_thread
import structlog

from discreet.errors import ResultAltered, Unavailable
from discreet.ledger import certificate_checks, certificates
from discreet.usecases.services import Services

log = structlog.get_logger()


async def require_unaltered(
    services: Services,
    job_id: str,
    certificate: dict[str, Any],
    *,
    result: bytes | None = None,
    tables: Mapping[str, bytes | None] = MappingProxyType({}),
) -> None:
    """Compare what is stored with what its certificate binds, before anybody gets it. ResultAltered
    where they differ, Unavailable for a certificate that another key has signed than those that are
    known here; one of an older version binds no result, of which then nothing can be told."""
    keys = {certificates.public_key(services.secrets.signer), *services.secrets.other_signing_keys}

    def work() -> str | None:
        if not certificates.is_signed(certificate):
            return "the certificate's signature is not that of its content"
        digest = None if result is None else hashlib.sha256(result).hexdigest()
        given = {
            name: "" if one is None else hashlib.sha256(one).hexdigest()
            for name, one in tables.items()
        }
        checks = certificate_checks.check_result(
            certificate, digest=digest, tables=given, job=job_id
        )
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
