"""Certificates: what a result guarantees, made of the plan's events alone and signed.

A certificate repeats everything that its price follows from, so that whoever holds it can derive the price again
without this service. Signature: Ed25519 over the canonical JSON (RFC 8785) of the certificate without `signature`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, Price, to_decimal

FAILURE_ASSUMPTION = (
    "an attempt that died before its release was stored showed nobody anything, and its death did not depend on the"
    " data or the noise"
)
TIMING_ASSUMPTION = "the time that touching the data took is shown in multiples of {quantum:g} s only"


def certificate(
    *,
    simulation: bool,
    price: Price,
    unit: str,
    neighbours: str,
    events: Sequence[Mapping[str, Any]],
    filters: Sequence[str],
    assumptions: Sequence[str],
    versions: Mapping[str, str],
    ledger_entries: Sequence[Mapping[str, Any]],
    job: str,
) -> dict[str, Any]:
    """An unsigned certificate."""
    kind = "none" if simulation else "pure_dp" if price.delta == 0 else "approximate_dp"
    return {
        "version": 1,
        "job": job,
        "guarantee": {
            "type": kind,
            "epsilon": None if simulation else float(to_decimal(price.epsilon, EPSILON_UNIT)),
            "delta": None if simulation else float(to_decimal(price.delta, DELTA_UNIT)),
            "unit": unit,
            "neighbours": neighbours,
        },
        "events": [dict(event) for event in events],
        "price": price.to_json(),
        "accountant": "sum of the events' exact prices",
        "filter": list(filters),
        "assumptions": list(assumptions),
        "versions": dict(versions),
        "ledger_entry": [dict(entry) for entry in ledger_entries],
    }


def sign(body: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The certificate with its signature and the public key that checks it."""
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    signed = {**body, "public_key": base64.b64encode(public).decode()}
    return {**signed, "signature": base64.b64encode(key.sign(rfc8785.dumps(signed))).decode()}


def is_signed(body: Mapping[str, Any]) -> bool:
    """True when the signature is that of the certificate's own public key; who owns that key is another question."""
    unsigned = {name: value for name, value in body.items() if name != "signature"}
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(body["public_key"]))
        key.verify(base64.b64decode(body["signature"]), rfc8785.dumps(unsigned))
    except (InvalidSignature, KeyError, ValueError, TypeError):
        return False
    return True
