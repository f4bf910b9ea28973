"""The gRPC server: `discreet rpc`."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import resource
import secrets
import signal
import socket
import ssl
from contextlib import AsyncExitStack
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from discreet.errors import DiscreetError, InvalidInput, Unavailable
from discreet.isolation.children import Zygote, trimming_memory
from discreet.observability.heartbeat import beating
from discreet.observability.monitoring import answering
from discreet.rpc.admission import Seats, WaitingRoom, open_stream, too_many
from discreet.rpc.attendance import WRITE_SECONDS
from discreet.rpc.authentication import Authentication, signed
from discreet.rpc.coordinators import Coordinators
from discreet.rpc.interceptors import SERVICE, Checked, Doors, Received, Tracing
from discreet.rpc.statements import end_message
from discreet.settings import Settings
from discreet.storage.schema import check_schema
from discreet.usecases import metrics, processes, rpc_tls
from discreet.usecases.services import Services, keys_open, open_services
from discreet.usecases.sessions import enrolment, rounds
from discreet.usecases.sessions.enrolment import Enrolment
from discreet_agent.stubs import federation_pb2 as pb
from discreet_agent.stubs import federation_pb2_grpc as rpc

log = structlog.get_logger()

GRACE_SECONDS = 3.0
GARBAGE_OBJECTS = 20_000
"""How many more objects there are before Python's collector looks for circles among them."""
RETURN_SECONDS, RETURN_BYTES = 2.0, 16 << 20
"""How often free memory is given back, and after how much that was refused."""
MOST_PARTING = 32
"""Agents at once that are told how their session ended: each message holds the session's last
broadcast."""
CONNECTION_STREAMS = 128
"""Streams of one connection. No limit is one of addresses: many honest agents may stand behind
one."""


class Federation(rpc.FederationServicer):
    """The service behind the interceptors: it gets `Received`, never a raw message."""

    def __init__(self, services: Services, coordinators: Coordinators) -> None:
        self._services, self._coordinators = services, coordinators
        # Strangers may make the database work, but never take all of its connections from those who
        # are in.
        self._asking = asyncio.Semaphore(max(1, services.settings.pool_size // 2))
        self._parting: set[tuple[str, str]] = set()

    async def Enroll(self, request: Received, context: Any) -> pb.Enrolled:  # noqa: N802
        async with self._asking:
            made = await self._enroll(request)
        return pb.Enrolled(
            session=request.session,
            job=made["job"],
            fingerprint=request.fingerprint,
            account=made["account"],
        )

    async def _enroll(self, request: Received) -> dict[str, str]:
        asked = request.content
        return await enrolment.enroll(
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
                speaks=tuple(asked.speaks),
            ),
        )

    async def Participate(self, stream: Checked, context: Any) -> None:  # noqa: N802
        requests = stream.received
        try:
            hello = await anext(requests)
        except StopAsyncIteration:
            raise InvalidInput("the stream ended before its Hello") from None
        async with self._asking:
            job_id = await enrolment.session_of(self._services, hello.session, hello.fingerprint)
            ended = await rounds.farewell(self._services, hello.session)
            coordinator = None if ended is not None else await self._coordinators.of(job_id)
        stream.messages.seated()
        if coordinator is None:
            assert ended is not None
            await self._part(hello, ended, context)
            return
        with open_stream():
            await coordinator.attend(stream, hello, context)

    async def _part(self, hello: Received, ended: rounds.Farewell, context: Any) -> None:
        """Tell an agent that comes late how its session ended. One that does not read blocks
        nobody else."""
        agent = (hello.session, hello.fingerprint)
        if agent in self._parting or len(self._parting) >= MOST_PARTING:
            raise too_many()
        self._parting.add(agent)
        try:
            async with asyncio.timeout(WRITE_SECONDS):
                await context.write(
                    signed(self._services.secrets.signer, hello.session, end=end_message(ended))
                )
        except TimeoutError:
            raise Unavailable(
                f"nothing was read for {WRITE_SECONDS:g} s", code="not_reading"
            ) from None
        finally:
            self._parting.discard(agent)


async def serve(
    settings: Settings, host: str, port: int, monitor: socket.socket | None = None
) -> None:
    """Serve until told to stop (SIGTERM, SIGINT): sessions are given back, and go on elsewhere or
    later.

    Health and metrics are answered on the listening socket `monitor`. WrongSchema when the database
    is of another version.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    port_of_agents: list[int] = []

    async def answers() -> None:
        if not port_of_agents:
            raise Unavailable("gRPC does not listen yet")
        tls = rpc_tls.uses_tls(settings, host)
        await serving(_reached(host), port_of_agents[0], tls=tls)

    async with open_services(settings) as services, AsyncExitStack() as monitored:
        checks_of_all = {**metrics.checks(services), "grpc": answers}
        await monitored.enter_async_context(answering(monitor, checks_of_all, vital=("grpc",)))
        await check_schema(services.database)
        waits = {asyncio.ensure_future(one) for one in (keys_open(services), stop.wait())}
        _, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for one in others:
            one.cancel()
        if stop.is_set():
            return
        zygote = Zygote(settings.least_isolation)
        if settings.least_isolation != "none":  # else it starts with the first session
            await zygote.start()
        coordinators = Coordinators(
            services, zygote, f"rpc_{secrets.token_hex(8)}", Seats(settings.rpc_streams)
        )
        room = WaitingRoom(settings.rpc_waiting)
        server = grpc.aio.server(
            interceptors=(
                Tracing(services.database),
                Doors(room, settings.rpc_messages_per_second),
                Authentication(services.secrets.signer, settings.clock_skew_seconds),
            ),
            options=options(settings),
        )
        rpc.add_FederationServicer_to_server(Federation(services, coordinators), server)
        checks = health.aio.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(checks, server)
        reflection.enable_server_reflection(
            (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME), server
        )
        bound = _listen(server, settings, host, port)
        await server.start()
        # What is loaded stays. The collector went through all of it while agents waited for their
        # round: 250,000 objects, 0.16 s.
        gc.collect()
        gc.freeze()
        # The collector ran every two or three rounds of 64 agents, for 2.7 us of each message, and
        # found next to nothing: what a message leaves is let go without it.
        gc.set_threshold(GARBAGE_OBJECTS)
        port_of_agents.append(bound)
        for name in ("", SERVICE):
            await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("gRPC answers", host=host, port=bound, tls=rpc_tls.uses_tls(settings, host))
        sweeping = asyncio.create_task(coordinators.sweep())
        returning = asyncio.create_task(_return_memory())
        try:
            seen = processes.present(services, "rpc", zygote)
            async with beating(settings.watchdog_seconds), trimming_memory(), seen:
                with metrics.InstallationMetrics(services, installation=False).shown():
                    await stop.wait()
        finally:
            await checks.enter_graceful_shutdown()
            for task in (sweeping, returning):
                task.cancel()
            await asyncio.gather(sweeping, returning, return_exceptions=True)
            await coordinators.stop()
            await server.stop(GRACE_SECONDS)
            await zygote.stop()


def options(settings: Settings) -> list[tuple[str, int]]:
    """gRPC's own limits, which hold before any of our code is reached."""
    return [
        # The longest message of anybody, refused by the five bytes before it. `Doors` allows
        # strangers far less; it cannot stop one that is under way, so this times `rpc_waiting` is
        # what strangers can make us hold.
        ("grpc.max_receive_message_length", settings.rpc_message_bytes),
        ("grpc.max_send_message_length", 64 << 20),
        # Headers of a call: an agent sends some hundred bytes, a proxy adds a few hundred more.
        ("grpc.max_metadata_size", 4 << 10),
        ("grpc.absolute_max_metadata_size", 8 << 10),
        # An agent has one stream, and a second while it enrols; a gateway that carries many opens
        # more connections.
        ("grpc.max_concurrent_streams", CONNECTION_STREAMS),
        # A connection that does not finish its handshake, or carries no stream, is closed; one that
        # does is told after an hour to begin no new streams, which spreads agents over processes
        # that were added. Streams are never cut.
        ("grpc.server_handshake_timeout_ms", 10_000),
        ("grpc.max_connection_idle_ms", 60_000),
        ("grpc.max_connection_age_ms", 3_600_000),
        # A peer that is gone without a word is noticed within 15 s. Agents ping as often; who pings
        # more than once in 5 s without data is put off after a few strikes.
        ("grpc.keepalive_time_ms", 10_000),
        ("grpc.keepalive_timeout_ms", 5_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
        ("grpc.http2.max_ping_strikes", 5),
    ]


async def _return_memory() -> None:
    """Whenever this process has grown, return the free memory inside malloc's arenas to the system:
    large messages and headers that were refused leave it there, and gRPC's own reading says nothing
    of these. Only for glibc; other allocators do it by themselves."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    trimmed = _resident_bytes()
    while trim is not None:
        await asyncio.sleep(RETURN_SECONDS)
        if _resident_bytes() > trimmed + RETURN_BYTES:
            await asyncio.to_thread(trim, 0)
            trimmed = _resident_bytes()


def _resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def _reached(host: str) -> str:
    """The address at which this process reaches itself if it listens on `host`."""
    return {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104  compared, not bound


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


# Selfcheck ----------------------------------------------------------------------------------------
# Whether gRPC answers on the port that agents use: one health check over a new connection, byte by
# byte.
#
# gRPC's own client would share threads and failures with the server it asks, and could not ask a
# server that requires client certificates.

SECONDS = 4.0
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING = 0, 1, 4, 6
_SERVING = b"\x00\x00\x00\x00\x02\x08\x01"
"""HealthCheckResponse(status=SERVING), with the five bytes that gRPC puts before a message."""


async def serving(host: str, port: int, *, tls: bool) -> None:
    """Unavailable unless `grpc.health.v1.Health/Check` answers SERVING at once. The certificate is
    not checked: it is this process's own port. A server that wants a certificate from us has
    answered by saying so."""
    try:
        async with asyncio.timeout(SECONDS):
            await _check(host, port, _context() if tls else None)
    except TimeoutError:
        raise Unavailable(f"gRPC gives no answer on its port within {SECONDS:g} s") from None
    except ssl.SSLError as error:
        if "ALERT" not in str(error).upper():
            raise Unavailable("gRPC speaks no TLS on its port") from None
    except (OSError, EOFError) as error:
        raise Unavailable(f"gRPC does not answer on its port: {type(error).__name__}") from None


async def _check(host: str, port: int, context: ssl.SSLContext | None) -> None:
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    try:
        writer.write(_PREFACE + _frame(_SETTINGS, 0, 0, b""))
        writer.write(_frame(_HEADERS, 0x4, 1, _headers(f"{host}:{port}")))
        writer.write(_frame(_DATA, 0x1, 1, bytes(5)))  # an empty HealthCheckRequest ends the stream
        while True:
            head = await reader.readexactly(9)
            kind, flags, stream = head[3], head[4], int.from_bytes(head[5:], "big")
            payload = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if kind == _SETTINGS and not flags & 0x1:
                writer.write(_frame(_SETTINGS, 0x1, 0, b""))
            elif kind == _PING and not flags & 0x1:
                writer.write(_frame(_PING, 0x1, 0, payload))
            elif kind == _DATA and stream == 1:
                if payload != _SERVING:
                    raise Unavailable("gRPC says that it does not serve")
                return
            elif kind == _HEADERS and stream == 1 and flags & 0x1:
                raise Unavailable("gRPC refuses its health check")
    finally:
        writer.close()


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """RFC 9113, 4.1."""
    return (
        len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload
    )


def _headers(authority: str) -> bytes:
    """Literal fields without indexing (RFC 7541, 6.2.2); every string is shorter than 127 bytes."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/grpc.health.v1.Health/Check",
        ":authority": authority[:100],
        "content-type": "application/grpc",
        "te": "trailers",
    }
    return b"".join(
        b"\x00" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()
        for name, value in fields.items()
    )


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    return context
