"""Which IP addresses belong to the public internet, by IANA's registries of special-purpose
addresses.

Everything in the registries is refused, even what they call globally reachable: that belongs to a
protocol (anycast relays, AS112), and no web server has such an address. Of IPv6 only the range that
IANA has opened for global unicast (2000::/3) can be public. Python's own `is_global` follows the
registries as they were when that Python was released. An IPv6 address that embeds an IPv4 address
leads there, so it is as public as that address.

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
