"""Results as they leave the service, for clients of the API and for downloads from pages."""

from __future__ import annotations

from discreet.errors import Conflict
from discreet.ledger import envelopes
from discreet.storage.tenants import Principal
from discreet.usecases import jobs, published, transparency
from discreet.usecases.services import Services
from discreet.web.responses import joined
from discreet_agent import canonical


async def result_text(services: Services, principal: Principal, job_id: str) -> bytes:
    """JSON of a job, its certificate with proofs from the transparency log, and its result, which
    matches the certificate's digest. Errors as `published.result`."""
    row, result, certificate = await published.result(services, principal, job_id)
    shown = await transparency.proven(services, principal.tenant_id, certificate)
    return joined({"job": jobs.view(row, principal), "certificate": shown}, result=result)


async def envelope_text(services: Services, principal: Principal, job_id: str) -> bytes:
    """JSON of the envelope of a job's certificate, with its proofs, signed by the newest key.
    Errors as `published.certificate`; Conflict for a certificate without digests of a result."""
    _, certificate = await published.certificate(services, principal, job_id)
    if not {"result_digest", "tables"} <= certificate.keys():
        raise Conflict(
            "the certificate is of an older version and has no digest of its result",
            code="no_result",
        )
    shown = await transparency.proven(services, principal.tenant_id, certificate)
    return canonical.dumps(envelopes.sign(shown, services.secrets.signer))
