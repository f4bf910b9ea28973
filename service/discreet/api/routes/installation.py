"""The state of the installation, for its operators."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from discreet.api.installation_schemas import OperationsAnswer
from discreet.api.operations import operation
from discreet.usecases import operations
from discreet.web.responses import answer
from discreet.web.security import CurrentPrincipal, CurrentServices

router = APIRouter(prefix="/v1", tags=["health"])


@router.get(
    "/operations",
    **operation("read_operations", roles=["operator"], answers={200: OperationsAnswer}),
)
async def read_operations(services: CurrentServices, principal: CurrentPrincipal) -> Response:
    """The state of the installation: queue, processes with the walls of their sandboxes,
    transparency log and witnesses, last backup, versions, and whose jobs wait (operators)."""
    return answer(await operations.state(services, principal))
