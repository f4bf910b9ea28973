"""A gRPC channel to the server that a link pins."""

from __future__ import annotations

import hashlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from discreet_agent.federation.errors import NotTrusted
from discreet_agent.federation.links import Link

MAX_MESSAGE_BYTES = 16 << 20
PINNED_NAME = "discreet.rpc"
"""The name in every certificate that the service makes for itself: pinned by fingerprint, it needs
no host's name."""

OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.enable_http_proxy", 0),
    # A connection of its own: agents of one process would share one, which carries 128 streams.
    ("grpc.use_local_subchannel_pool", 1),
]


@dataclass(frozen=True)
class Tls:
    """Files (PEM): authorities to believe instead of the pin, and the agent's own certificate for
    mutual TLS."""

    authorities: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


def connect(link: Link, tls: Tls = Tls()) -> Any:
    """An open channel; the caller closes it. NotTrusted before a byte is sent when the pin does not
    fit; OSError when there is no server."""
    own = None if tls.certificate is None else tls.certificate.read_bytes()
    own_key = None if tls.key is None else tls.key.read_bytes()
    if not link.tls and tls.authorities is None:
        if not link.is_loopback:
            raise NotTrusted(
                f"{link.host} is not a loopback address, and the token names no certificate"
            )
        return grpc.insecure_channel(link.address, options=OPTIONS)
    options = list(OPTIONS)
    if tls.authorities is not None:
        roots: bytes | None = tls.authorities.read_bytes()
    elif link.tls == "ca":
        roots = None  # those that gRPC brings
    else:
        roots = _pinned_certificate(link, tls)
        options.append(("grpc.ssl_target_name_override", PINNED_NAME))
    credentials = grpc.ssl_channel_credentials(roots, own_key, own)
    return grpc.secure_channel(link.address, credentials, options=options)


def _pinned_certificate(link: Link, tls: Tls) -> bytes:
    """The server's certificate as the only one to believe, if it is the one that was pinned."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # compared with the pin below; the channel then verifies it
    context.set_alpn_protocols(["h2"])
    if tls.certificate is not None:
        context.load_cert_chain(tls.certificate, tls.key)
    try:
        with (
            socket.create_connection((link.host, link.port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=PINNED_NAME) as wrapped,
        ):
            der = wrapped.getpeercert(binary_form=True)
    except ssl.SSLError as error:
        raise NotTrusted(f"{link.address} does not speak TLS") from error
    if der is None or hashlib.sha256(der).hexdigest() != link.tls:
        raise NotTrusted(f"the certificate of {link.address} is not the one that the token pins")
    return ssl.DER_cert_to_PEM_cert(der).encode()
