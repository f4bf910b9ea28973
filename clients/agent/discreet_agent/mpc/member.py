"""What an agent announces about itself when it enrols, and what the others accept of it on a signed
roster."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from discreet_agent.federation.identity import Identity
from discreet_agent.mpc import keys
from discreet_agent.mpc.party import Place

FIELDS = {"address", "certificate", "exchange"}
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z._-]{1,253}):([0-9]{1,5})")
LONGEST_CERTIFICATE = 2000


def announcement(identity: Identity, session: str, address: str) -> dict[str, str]:
    """The address of this agent, its certificate, and the key to which the operator seals its
    part."""
    host_and_port(address)
    return {
        "address": address,
        "certificate": base64.b64encode(keys.certificate(identity.private_key, session)).decode(),
        "exchange": keys.exchange_key(identity.private_key, session)
        .public_key()
        .public_bytes_raw()
        .hex(),
    }


def host_and_port(address: str) -> tuple[str, int]:
    """Host and port of `host:port` or `[IPv6]:port`; ValueError for anything else."""
    read = _ADDRESS.fullmatch(address)
    if read is None or not 1 <= int(read[2]) <= 65535:
        raise ValueError(f"an address is host:port, not {address!r}")
    return read[1].strip("[]"), int(read[2])


def check_announcement(announced: Any) -> None:
    """ValueError unless these are the figures that an agent that computes on shares announces."""
    if not isinstance(announced, Mapping) or set(announced) != FIELDS:
        raise ValueError(
            "to compute on shares an agent must announce address, certificate and exchange: give "
            "it an address to listen at (`listen`)"
        )
    if not all(isinstance(announced[name], str) for name in FIELDS):
        raise ValueError("address, certificate and exchange must be texts")
    host_and_port(announced["address"])
    if len(announced["certificate"]) > LONGEST_CERTIFICATE:
        raise ValueError("the certificate is too long")
    keys.key_of(base64.b64decode(announced["certificate"], validate=True))
    if len(bytes.fromhex(announced["exchange"])) != 32:
        raise ValueError("exchange must be a key of 32 bytes, in hexadecimal")


def places(members: Sequence[tuple[bytes, Mapping[str, Any]]]) -> list[Place]:
    """Where the members (key, announcement) of a signed roster listen. ValueError if a certificate
    is not of the member's own key, since whoever made it could then act as the member."""
    found = []
    for key, announced in members:
        check_announcement(announced)
        if keys.key_of(base64.b64decode(announced["certificate"])) != key:
            raise ValueError("a certificate on the roster does not hold its agent's key")
        host, port = host_and_port(announced["address"])
        found.append(Place(host, port, announced["certificate"]))
    if len({one.certificate for one in found}) != len(found):
        raise ValueError("two agents on the roster have the same certificate")
    return found


def sealed_parts(broadcast: bytes) -> dict[str, bytes]:
    """The sealed parts of the operator's broadcast, by fingerprint. ValueError if it cannot be
    read."""
    try:
        read = json.loads(broadcast)
        return {
            str(name): base64.b64decode(part, validate=True) for name, part in read["parts"].items()
        }
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"the operator's broadcast cannot be read: {type(error).__name__}"
        ) from None


def opening(parts: Mapping[str, bytes]) -> bytes:
    """The operator's broadcast, which `sealed_parts` reads."""
    return json.dumps(
        {"parts": {name: base64.b64encode(part).decode() for name, part in parts.items()}}
    ).encode()
