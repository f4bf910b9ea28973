"""IP addresses of the servers that hold contents, checked before any is asked.

A connection goes to an address that was checked, not to the name again, which could resolve
differently a moment later (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv6Address, ip_address

from discreet.usecases.places.addresses import Address, PlaceRefused
from discreet.usecases.public_addresses import CARRIERS, is_public

CONNECT_SECONDS = 10.0
"""The longest that a name may take to be looked up, and a server to connect."""
_METADATA = ("fd00:ec2::254", "fd20:ce::254")
"""Addresses at which clouds serve credentials, besides the link-local ones."""


async def resolve(address: Address, *, private: bool) -> list[str]:
    """The IP addresses of an address's host, which may be `private` or on loopback only if its
    place may. PlaceRefused if it may not have one of them; OSError if the name is unknown."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            found = await loop.getaddrinfo(address.hostname, address.port, type=socket.SOCK_STREAM)
    except UnicodeError as error:  # a part of the name is too long
        raise PlaceRefused("this is not the name of a host") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if any(is_never(one) for one in addresses):
        raise PlaceRefused("this address is link-local, multicast or of a cloud's metadata service")
    if not private and not all(is_public(one) for one in addresses):
        raise PlaceRefused(
            "this address leads into a network that is not the public internet: loopback, private "
            "or special"
        )
    if not addresses:
        raise OSError("no address")
    return addresses


def is_never(address: str) -> bool:
    """Whether no place may have this IP address: it is link-local, multicast, unspecified, or of a
    cloud's metadata service."""
    found = ip_address(address)
    if isinstance(found, IPv6Address) and any(found in network for network in CARRIERS):
        found = ip_address(int(found) & 0xFFFFFFFF)
    special = found.is_link_local or found.is_multicast or found.is_unspecified
    return special or any(found == ip_address(one) for one in _METADATA)
