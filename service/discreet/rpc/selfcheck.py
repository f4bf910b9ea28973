"""Whether gRPC answers on the port that agents use: one health check over a new connection, byte by
byte.

gRPC's own client would share threads and failures with the server it asks, and could not ask a
server that requires client certificates.
"""

from __future__ import annotations

import asyncio
import ssl

from discreet.errors import Unavailable

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
