"""Certificates in the world's envelopes: an in-toto Statement (v1) in DSSE, signed by the service.

The statement says of a job's result (its subject: SHA-256 of its canonical JSON, and of each of its
Parquet files) what the certificate says (its predicate, proofs included). Payload: the statement's
canonical JSON. Signature: Ed25519 over DSSE's pre-authentication encoding. `keyid`: SHA-256 of the
public key's 32 bytes, hexadecimal.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from discreet.ledger.certificates import Check, public_key
from discreet.ledger.heads import bytes_of
from discreet_client import canonical

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:discreet:certificate:v1"
_MEMBERS = {"payload", "payloadType", "signatures"}


class BadEnvelope(ValueError):
    """What is no envelope of a certificate."""


def encoding(kind: str, payload: bytes) -> bytes:
    """What DSSE signs (its PAE): lengths keep apart what the type and what the payload is."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def key_id(key: str) -> str:
    """Of a public key (base64)."""
    return hashlib.sha256(bytes_of(key)).hexdigest()


def statement(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """What is said, and of what. KeyError for a certificate of an older version, which binds no
    result."""
    job, tables = certificate["job"], certificate["tables"]
    digests = {f"{job}/result": certificate["result_digest"]}
    digests |= {f"{job}/result/{name}": tables[name] for name in sorted(tables)}
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in digests.items()
        ],
        "predicateType": PREDICATE,
        "predicate": dict(certificate),
    }


def seal(certificate: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The signed envelope of a certificate. KeyError as `statement`."""
    return sign(statement(certificate), key)


def sign(said: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """An in-toto statement in a signed envelope."""
    payload = canonical.dumps(said)
    signature = key.sign(encoding(PAYLOAD, payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD,
        "signatures": [
            {"keyid": key_id(public_key(key)), "sig": base64.b64encode(signature).decode()}
        ],
    }


def is_envelope(value: Any) -> bool:
    return isinstance(value, Mapping) and "payloadType" in value


def opened(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate in an envelope; BadEnvelope. No signature is looked at."""
    try:
        if set(envelope) != _MEMBERS or envelope["payloadType"] != PAYLOAD:
            raise BadEnvelope(
                f"an envelope has {', '.join(sorted(_MEMBERS))}, and its payload is {PAYLOAD}"
            )
        payload = bytes_of(envelope["payload"])
        said = json.loads(payload)
        if canonical.dumps(said) != payload:
            raise BadEnvelope("the payload is no canonical JSON")
        if said["_type"] != STATEMENT or said["predicateType"] != PREDICATE:
            raise BadEnvelope(f"the payload is no statement of {PREDICATE}")
        certificate = said["predicate"]
        if not isinstance(certificate, dict) or statement(certificate) != said:
            raise BadEnvelope("the statement is of another result than its certificate")
    except BadEnvelope:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        raise BadEnvelope("this is no envelope of a certificate") from None
    return certificate


def check_envelope(envelope: Mapping[str, Any], signed_by: Collection[str] = ()) -> Check:
    """Whether the envelope is signed by the key of its certificate, or by one of these (base64);
    open where only keys that are not known have signed it. BadEnvelope as `opened`."""
    certificate = opened(envelope)
    payload = encoding(PAYLOAD, bytes_of(envelope["payload"]))
    found = Check("envelope", None, "signed by no key that is known")
    try:
        known = {key_id(key): bytes_of(key) for key in {*signed_by, certificate["public_key"]}}
        for one in envelope["signatures"]:
            key = known.get(one["keyid"])
            if key is not None:
                Ed25519PublicKey.from_public_bytes(key).verify(bytes_of(one["sig"]), payload)
                found = Check(
                    "envelope",
                    True,
                    f"an in-toto statement, signed by {base64.b64encode(key).decode()}",
                )
    except (InvalidSignature, KeyError, TypeError, ValueError, AttributeError):
        return Check("envelope", False, "a signature of the envelope is not that of its payload")
    return found
