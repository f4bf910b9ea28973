"""A witness over HTTP, as C2SP tlog-witness says: `POST /add-checkpoint`, and nothing else."""

from __future__ import annotations

import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from discreet.ledger.witnessing import LONGEST_REQUEST, SIZE_TYPE, Refused
from discreet.witness.signing import Witness

_CONFLICT = 409


def create_app(witness: Witness) -> Starlette:
    """The application of one witness."""

    async def add_checkpoint(request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > 4 * LONGEST_REQUEST:  # bytes of a character
                return PlainTextResponse("the request is too long\n", 413)
        try:
            line = await anyio.to_thread.run_sync(witness.sign, body.decode())
        except UnicodeDecodeError:
            return PlainTextResponse("the request is not UTF-8\n", 400)
        except Refused as refused:
            if refused.status == _CONFLICT:
                return Response(refused.why, _CONFLICT, media_type=SIZE_TYPE)
            return PlainTextResponse(f"{refused.why}\n", refused.status)
        return PlainTextResponse(line)

    return Starlette(routes=[Route("/add-checkpoint", add_checkpoint, methods=["POST"])])


def serve(witness: Witness, *, host: str, port: int) -> None:
    """Serve until told to stop."""
    config = uvicorn.Config(
        create_app(witness),
        host=host,
        port=port,
        log_level="warning",
        access_log=False,
        server_header=False,
    )
    uvicorn.Server(config).run()
