"""Which IP addresses belong to the public internet, by IANA's registries of special-purpose
addresses.

Everything in the registries is refused, also what they call globally reachable: it is reachable as
a protocol's own (anycast relays, AS112), and nobody's web server lives there. Of IPv6 only what
IANA has given out for global unicast (2000::/3) can be public. Python's own `is_global` follows the
registries as they were when that Python was released. An IPv6 address that carries an IPv4 address
leads there, so it is as public as that one.

    https://www.iana.org/assignments/iana-ipv4-special-registry
    https://www.iana.org/assignments/iana-ipv6-special-registry
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

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
"""Inside of the global unicast addresses. Outside of them, and so refused as well: ::/96
IPv4-compatible, ::ffff:0:0:0/96 IPv4-translated, 64:ff9b:1::/48 local NAT64, 100::/64 discard,
100:0:0:1::/64 dummy, 5f00::/16 segment routing, fc00::/7 unique local, fe80::/10 link-local,
fec0::/10 site-local, ff00::/8 multicast."""

CARRIERS = (
    IPv6Network("::ffff:0:0/96"),  # IPv4-mapped: the kernel itself speaks IPv4 then (RFC 4291)
    IPv6Network(
        "64:ff9b::/96"
    ),  # NAT64: where a network has IPv6 alone every IPv4 name leads here (RFC 6052)
)
"""Networks whose last 32 bits are the IPv4 address that packets go to."""

_ISATAP = 0x00005EFE
_ISATAP_MASK = 0xFCFFFFFF  # without the bits that say universal and group (RFC 5214, 6.1)


def is_public(address: str) -> bool:
    """Whether packets to this IP address leave for the public internet. ValueError when it is no
    address."""
    found = ip_address(address)
    if isinstance(found, IPv4Address):
        return not any(found in network for network in SPECIAL_IPV4)
    if found.scope_id is not None:  # of a link
        return False
    inside = _carried(found)
    if any(found in network for network in CARRIERS):
        return is_public(inside)
    if found not in GLOBAL_UNICAST or any(found in network for network in SPECIAL_IPV6):
        return False
    # An interface of ISATAP is a tunnel to the IPv4 address in it.
    return int(found) >> 32 & _ISATAP_MASK != _ISATAP or is_public(inside)


def _carried(address: IPv6Address) -> str:
    return str(IPv4Address(int(address) & 0xFFFFFFFF))
