"""The gRPC server: `discreet rpc`."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
from collections.abc import AsyncIterator
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from discreet.errors import DiscreetError, InvalidInput, Unauthenticated
from discreet.isolation.children import Zygote
from discreet.monitoring import answering
from discreet.rpc.coordinator import Coordinators, end_message
from discreet.rpc.interceptors import HELLO_SECONDS, SERVICE, Limits, Received, Signatures, Tracing, signed
from discreet.settings import Settings
from discreet.storage.schema import check_schema
from discreet.usecases import rpc_tls, sessions, standing
from discreet.usecases.services import Services, open_services
from discreet.usecases.sessions import Enrolment
from discreet_client.stubs import federation_pb2 as pb
from discreet_client.stubs import federation_pb2_grpc as rpc

log = structlog.get_logger()

GRACE_SECONDS = 3.0


class Federation(rpc.FederationServicer):
    """The service behind the interceptors: it gets `Received`, never a raw message."""

    def __init__(self, services: Services, coordinators: Coordinators) -> None:
        self._services, self._coordinators = services, coordinators

    async def Enroll(self, request: Received, context: Any) -> pb.Enrolled:  # noqa: N802
        asked = request.content
        made = await sessions.enroll(
            self._services,
            Enrolment(
                session_id=request.session,
                fingerprint=request.fingerprint,
                public_key=request.public_key,
                token=asked.token,
                name=asked.name,
                unit=asked.unit,
                cap_epsilon=asked.cap_epsilon,
                cap_delta=asked.cap_delta,
                announcement=asked.announcement,
            ),
        )
        return pb.Enrolled(
            session=request.session, job=made["job"], fingerprint=request.fingerprint, account=made["account"]
        )

    async def Participate(self, requests: AsyncIterator[Received], context: Any) -> None:  # noqa: N802
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                hello = await anext(requests)
        except TimeoutError:
            raise Unauthenticated("no Hello came", code="hello_expected") from None
        except StopAsyncIteration:
            raise InvalidInput("the stream ended before its Hello") from None
        job_id = await sessions.session_of(self._services, hello.session, hello.fingerprint)
        ended = await sessions.farewell(self._services, hello.session)
        if ended is not None:
            signer = self._services.secrets.signer
            await context.write(signed(signer, hello.session, end=end_message(ended)))
            return
        coordinator = await self._coordinators.of(job_id)
        await coordinator.attend(requests, hello, context)


async def serve(settings: Settings, host: str, port: int, monitor: socket.socket | None = None) -> None:
    """Answer until told to stop (SIGTERM, SIGINT): sessions are given back, and go on elsewhere or later.

    Health and metrics are answered on the listening socket `monitor`. WrongSchema when the database is of another
    version.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with open_services(settings) as services, answering(monitor, standing.checks(services)):
        await check_schema(services.database)
        zygote = Zygote(settings.least_isolation)
        if settings.least_isolation != "none":  # else it starts with the first session
            await zygote.start()
        coordinators = Coordinators(services, zygote, f"rpc_{secrets.token_hex(8)}")
        server = grpc.aio.server(
            interceptors=(
                Tracing(services.database),
                Limits(settings.rpc_streams, settings.rpc_messages_per_second),
                Signatures(services.secrets.signer, settings.clock_skew_seconds),
            ),
            options=[
                ("grpc.max_receive_message_length", settings.rpc_message_bytes),
                ("grpc.max_send_message_length", 64 << 20),
                ("grpc.keepalive_time_ms", 10_000),
                ("grpc.keepalive_timeout_ms", 5_000),
                ("grpc.keepalive_permit_without_calls", 1),
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
                ("grpc.http2.max_ping_strikes", 0),
            ],
        )
        rpc.add_FederationServicer_to_server(Federation(services, coordinators), server)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection((SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
        bound = _listen(server, settings, host, port)
        await server.start()
        for name in ("", SERVICE):
            await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("gRPC answers", host=host, port=bound, tls=rpc_tls.uses_tls(settings, host))
        sweeping = asyncio.create_task(coordinators.sweep())
        try:
            with standing.Standing(services, installation=False).shown():
                await stop.wait()
        finally:
            await checks.enter_graceful_shutdown()
            sweeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sweeping
            await coordinators.stop()
            await server.stop(GRACE_SECONDS)
            await zygote.stop()


def _listen(server: Any, settings: Settings, host: str, port: int) -> int:
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if not rpc_tls.uses_tls(settings, host):
            return int(server.add_insecure_port(address))
        certificate, key = rpc_tls.ensure(settings)
        authorities = settings.rpc_client_authorities
        credentials = grpc.ssl_server_credentials(
            [(key, certificate)],
            root_certificates=None if authorities is None else authorities.read_bytes(),
            require_client_auth=authorities is not None,
        )
        return int(server.add_secure_port(address, credentials))
    except RuntimeError as error:
        raise DiscreetError(f"cannot listen on port {port} of {host}") from error
