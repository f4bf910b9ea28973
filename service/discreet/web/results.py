"""Results as they leave the service, for clients of the API and for downloads from pages."""

from __future__ import annotations

from discreet.storage.tenants import Principal
from discreet.usecases import jobs, transparency
from discreet.usecases.services import Services
from discreet.web.responses import joined


async def result_text(services: Services, principal: Principal, job_id: str) -> bytes:
    """JSON of a job, its certificate with proofs from the transparency log, and its result, which was compared with the
    certificate. Errors: `jobs.result`."""
    row, result, certificate = await jobs.result(services, principal, job_id)
    shown = await transparency.proven(services, principal.tenant_id, certificate)
    return joined({"job": jobs.view(row, principal), "certificate": shown}, result=result)
