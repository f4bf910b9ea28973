"""The one client for calls to other servers: places of contents, webhooks, the identity provider,
witnesses and logs.

A name is looked up once a request, every IP address that it has is checked, and the connection goes
to one of them, not to the name again, which could resolve differently a moment later (DNS
rebinding). The certificate must be that of the name. No proxy of the environment is used, since a
proxy would resolve the name itself; no cookie is kept, no redirect followed, and no connection used
twice: two names at one IP address are two servers, each with a certificate to show. A compressed
body is refused. Times and sizes have limits.

Whatever goes wrong is an `OutboundError`, whose text is fixed: neither the address, which may hold
a credential, nor anything that came is in it.

    OutboundError
    ├── AddressRefused      nothing may be asked at this address; nothing was
    ├── NameUnknown         the name has no IP address
    ├── NotInTime           name, connection, or answer took too long
    ├── CertificateRefused  TLS did not show who answers
    ├── NoConnection        nobody answers, or not in HTTP
    ├── BrokenOff           the answer ended before it was whole
    └── AnswerRefused       the answer is compressed, too long or too slow

Which IP addresses are public follows IANA's registries of special-purpose addresses. Everything in
the registries is refused, even what they call globally reachable: that belongs to a protocol
(anycast relays, AS112), and no web server has such an address. Of IPv6 only the range that IANA has
opened for global unicast (2000::/3) can be public. Python's own `is_global` follows the registries
as they were when that Python was released. An IPv6 address that embeds an IPv4 address leads there,
so it is as public as that address.

    https://www.iana.org/assignments/iana-ipv4-special-registry
    https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from pathlib import Path
from typing import Literal

import httpx

CONNECT_SECONDS = 10.0
"""The longest that a name may take to be looked up, and a server to connect."""
SILENT_SECONDS = 30.0
"""The longest that a server may send nothing; twice that until the head of its answer is there."""
SLOW_SECONDS, SLOW_BYTES = 60.0, 1e4
"""After so many seconds a server must have sent so many bytes a second: one that sends a byte now
and then is not waited for."""
REDIRECTING = (301, 302, 303, 307, 308)


class OutboundError(Exception):
    """The server does not answer as it should."""

    def __init__(self, why: str | None = None) -> None:
        first = (type(self).__doc__ or "").splitlines()[0]
        self.why = why if why is not None else first[0].lower() + first[1:].rstrip(".")
        super().__init__(self.why)


class AddressRefused(OutboundError):
    """Nothing may be asked at this address."""


class NameUnknown(OutboundError):
    """The name of the server is not known."""


class NotInTime(OutboundError):
    """The server does not answer in time."""


class CertificateRefused(OutboundError):
    """The server's certificate is not valid for this name, or no known authority has signed it."""


class NoConnection(OutboundError):
    """The server cannot be reached."""


class BrokenOff(OutboundError):
    """The server ended the connection before all content came."""


class AnswerRefused(OutboundError):
    """The server's answer is not read."""


# Where a call may lead ----------------------------------------------------------------------------

Networks = Literal["public", "private", "any"]


@dataclass(frozen=True)
class Reach:
    """Where calls may lead.

    `public`: the public internet alone. `private`: also loopback and private networks, but never
    what is link-local, multicast, unspecified, or a cloud's metadata service, where credentials
    lie. `any`: everywhere, for addresses that the operator or the person at the terminal gives.
    """

    networks: Networks = "public"
    http: bool = False
    """Also without TLS."""
    ports: str | None = None
    """`443,8000-8999`; None: any."""


@dataclass(frozen=True)
class Target:
    """An address that may be asked, as far as its form tells."""

    url: httpx.URL
    host: str
    port: int

    @classmethod
    def of(cls, text: str, reach: Reach) -> Target:
        """AddressRefused if the text is no such address."""
        if not text.isascii() or any(letter <= " " or letter == "\x7f" for letter in text):
            raise AddressRefused(
                "an address of printable ASCII is needed; write other letters percent-encoded or "
                "as punycode"
            )
        try:
            url = httpx.URL(text)
            host = url.raw_host.decode("ascii")
        except (httpx.InvalidURL, ValueError):
            raise AddressRefused("this is not a valid address") from None
        if url.scheme != "https" and not (reach.http and url.scheme == "http"):
            raise AddressRefused("an address that begins with https:// is needed")
        if (
            not host
            or "@" in re.split("[/?]", text.partition("://")[2], maxsplit=1)[0]
            or "#" in text
        ):
            raise AddressRefused("an address with a host, without user and fragment is needed")
        port = url.port if url.port is not None else 443 if url.scheme == "https" else 80
        if not 0 < port < 1 << 16:
            raise AddressRefused("this is not a valid address")
        if reach.ports is not None and not is_allowed_port(reach.ports, port):
            raise AddressRefused(f"an address with port {reach.ports} is needed, not {port}")
        return cls(url, host, port)


def is_allowed_port(ports: str, port: int) -> bool:
    """Whether `ports` (`443,8000-8999`) has this one."""
    ranges = (word.partition("-") for word in ports.split(","))
    return any(int(first) <= port <= int(last or first) for first, _, last in ranges)


async def resolve(
    host: str, port: int, networks: Networks, seconds: float = CONNECT_SECONDS
) -> list[str]:
    """The IP addresses of a host, each checked. AddressRefused if it may not have one of them;
    NameUnknown, NotInTime."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        raise NotInTime("the name of the server is not told in time") from None
    except (UnicodeError, OverflowError):  # a part of the name is too long
        raise AddressRefused("this is not the name of a host") from None
    except OSError as error:
        raise NameUnknown from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if networks != "any" and any(is_never(one) for one in addresses):
        raise AddressRefused(
            "this address is link-local, multicast or of a cloud's metadata service"
        )
    if networks == "public" and not all(is_public(one) for one in addresses):
        raise AddressRefused(
            "this address leads into a network that is not the public internet: loopback, private "
            "or special"
        )
    if not addresses:
        raise NameUnknown
    return addresses


# Asking -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asks:
    """A request. `attempt`, from 1, says which of the host's IP addresses it goes to: one that is
    dead costs one attempt."""

    method: str
    url: str
    headers: Mapping[str, str] | None = None
    content: bytes = b""
    authority: Path | None = None
    """Certificates (PEM) of the authority that signs the server's; None: the public ones."""
    silent_seconds: float = SILENT_SECONDS
    attempt: int = 1


@dataclass(frozen=True)
class Answer:
    """Status and head of an answer; its body while `ask` is open, or in `body` after `fetch`."""

    status: int
    headers: httpx.Headers
    body: bytes = b""
    _came: httpx.Response | None = None

    @property
    def location(self) -> str:
        """Where it redirects to, as the server wrote it; empty if it does not."""
        return str(self.headers.get("location", "")) if self.status in REDIRECTING else ""

    @property
    def media_type(self) -> str:
        return str(self.headers.get("content-type", "")).partition(";")[0].strip()

    async def parts(self) -> AsyncIterator[bytes]:
        """Its body as it comes. BrokenOff, NotInTime, AnswerRefused."""
        assert self._came is not None
        if self.headers.get("content-encoding", "identity") != "identity":
            raise AnswerRefused(
                "the server sends the content compressed, though the request forbids it"
            )
        came, began = 0, time.monotonic()
        stream = self._came.aiter_raw()
        while True:
            try:
                part = await anext(stream)
            except StopAsyncIteration:
                return
            except Exception as error:
                raise _trouble(error, begun=came > 0) from error
            came += len(part)
            seconds = time.monotonic() - began
            if seconds > SLOW_SECONDS and came < seconds * SLOW_BYTES:
                raise AnswerRefused("the server sends the content too slowly")
            yield part


@asynccontextmanager
async def ask(asks: Asks, reach: Reach) -> AsyncIterator[Answer]:
    """The answer, with its body still to come.

    OutboundError, whatever happens; what the caller raises meanwhile stays what it is.
    """
    target = Target.of(asks.url, reach)
    addresses = await resolve(
        target.host, target.port, reach.networks, min(CONNECT_SECONDS, asks.silent_seconds)
    )
    where = addresses[(asks.attempt - 1) % len(addresses)]
    try:
        verify = _authorities(asks.authority)
    except (OSError, ssl.SSLError) as error:
        raise CertificateRefused("the file of the server's authority cannot be read") from error
    silent = asks.silent_seconds
    async with httpx.AsyncHTTPTransport(verify=verify, trust_env=False) as transport:
        try:
            request = httpx.Request(
                asks.method,
                target.url.copy_with(host=where),
                headers={
                    "Host": target.url.netloc.decode("ascii"),
                    "Accept": "*/*",
                    "Accept-Encoding": "identity",
                    "User-Agent": "discreet",
                    "Connection": "close",
                    **(asks.headers or {}),
                },
                content=asks.content or None,
                extensions={
                    "sni_hostname": target.host,
                    "timeout": {
                        "connect": min(CONNECT_SECONDS, silent),
                        **dict.fromkeys(("read", "write", "pool"), silent),
                    },
                },
            )
            async with asyncio.timeout(2 * silent):  # also a head that comes byte by byte
                response = await transport.handle_async_request(request)
        except Exception as error:
            raise _trouble(error, begun=False) from error
        try:
            yield Answer(response.status_code, response.headers, _came=response)
        finally:
            with suppress(httpx.HTTPError):  # it has ended already
                await response.aclose()


async def fetch(asks: Asks, reach: Reach, most: int, seconds: float) -> Answer:
    """The whole answer, of at most so many bytes and within so many seconds. OutboundError."""
    body = bytearray()
    try:
        async with asyncio.timeout(seconds), ask(asks, reach) as answer:
            async for part in answer.parts():
                body += part
                if len(body) > most:
                    raise AnswerRefused("the server's answer is too long")
    except TimeoutError:
        raise NotInTime from None
    return replace(answer, body=bytes(body), _came=None)


def _trouble(error: Exception, *, begun: bool) -> OutboundError:
    if isinstance(error, TimeoutError | httpx.TimeoutException):
        return NotInTime()
    if begun or isinstance(error, httpx.RemoteProtocolError):
        return BrokenOff()
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return CertificateRefused()
        cause = cause.__cause__ or cause.__context__
    return NoConnection()


@cache
def _public_authorities() -> ssl.SSLContext:
    """Once in a process: all the world's authorities take 10 MB."""
    return httpx.create_ssl_context(trust_env=False)


def _authorities(path: Path | None) -> ssl.SSLContext:
    return _public_authorities() if path is None else ssl.create_default_context(cafile=str(path))


# Which IP addresses are public --------------------------------------------------------------------

SPECIAL_IPV4 = tuple(
    map(
        IPv4Network,
        (
            "0.0.0.0/8",  # this network
            "10.0.0.0/8",  # private use
            "100.64.0.0/10",  # shared by the customers of a carrier
            "127.0.0.0/8",  # loopback
            "169.254.0.0/16",  # link-local, and the metadata service of most clouds
            "172.16.0.0/12",  # private use
            "192.0.0.0/24",  # IETF protocol assignments
            "192.0.2.0/24",  # documentation
            "192.31.196.0/24",  # AS112
            "192.52.193.0/24",  # automatic multicast tunnelling
            "192.88.99.0/24",  # 6to4 relays (deprecated)
            "192.168.0.0/16",  # private use
            "192.175.48.0/24",  # AS112, direct delegation
            "198.18.0.0/15",  # benchmarking
            "198.51.100.0/24",  # documentation
            "203.0.113.0/24",  # documentation
            "224.0.0.0/4",  # multicast
            "240.0.0.0/4",  # reserved, and limited broadcast
        ),
    )
)
GLOBAL_UNICAST = IPv6Network("2000::/3")
SPECIAL_IPV6 = tuple(
    map(
        IPv6Network,
        (
            # IETF protocol assignments: Teredo, benchmarking, AMT, AS112, ORCHID, DRIP
            "2001::/23",
            "2001:db8::/32",  # documentation
            "2002::/16",  # 6to4: leads to the IPv4 address inside
            "2620:4f:8000::/48",  # AS112, direct delegation
            "3ffe::/16",  # 6bone, given back
            "3fff::/20",  # documentation
        ),
    )
)
"""Special ranges inside the global unicast addresses. Outside them, and so refused as well: ::/96
IPv4-compatible, ::ffff:0:0:0/96 IPv4-translated, 64:ff9b:1::/48 local NAT64, 100::/64 discard,
100:0:0:1::/64 dummy, 5f00::/16 segment routing, fc00::/7 unique local, fe80::/10 link-local,
fec0::/10 site-local, ff00::/8 multicast."""

CARRIERS = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped: the kernel itself uses IPv4 for them (RFC 4291)
    # NAT64: in a network with IPv6 alone, names of IPv4 servers resolve to these (RFC 6052).
    IPv6Network("64:ff9b::/96"),
)
"""Networks whose last 32 bits are the IPv4 address that packets go to."""

_ISATAP = 0x00005EFE
_ISATAP_MASK = 0xFCFFFFFF  # without the universal and group bits (RFC 5214, 6.1)


def is_public(address: str) -> bool:
    """Whether packets to this IP address go to the public internet. ValueError if it is not an IP
    address."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return not any(found in network for network in SPECIAL_IPV4)
    if found.scope_id is not None:  # a scope belongs to one link
        return False
    inside = _carried(found)
    if any(found in network for network in CARRIERS):
        return is_public(inside)
    if found not in GLOBAL_UNICAST or any(found in network for network in SPECIAL_IPV6):
        return False
    # An ISATAP interface identifier makes a tunnel to the IPv4 address in it.
    return int(found) >> 32 & _ISATAP_MASK != _ISATAP or is_public(inside)


def _carried(address: IPv6Address) -> str:
    return str(IPv4Address(int(address) & 0xFFFFFFFF))


_METADATA = tuple(
    map(
        ip_address,
        (
            *("fd00:ec2::254", "fd20:ce::254"),
            "100.100.100.200",  # Alibaba Cloud
            "168.63.129.16",  # Azure's own server, which also has the settings of a machine
            "192.0.0.192",  # Oracle Cloud
        ),
    )
)
"""Addresses at which clouds serve credentials, besides the link-local ones."""


def is_never(address: str) -> bool:
    """Whether this IP address is link-local, multicast, unspecified, or of a cloud's metadata
    service."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and any(found in network for network in CARRIERS):
        found = ip_address(_carried(found))
    special = found.is_link_local or found.is_multicast or found.is_unspecified
    return special or found in _METADATA
