"""Statements in standard formats: in-toto Statement v1 in a DSSE envelope, which tools that know
nothing of discreet can read.

    {"payload": base64 of the statement's canonical JSON,
     "payloadType": "application/vnd.in-toto+json",
     "signatures": [{"keyid": SHA-256 of the public key, hexadecimal, "sig": base64}]}

The statement names what it is about (its subject) by SHA-256, and holds one predicate about it,
whose type is a URN with a JSON schema of its own in openapi/. A signature is Ed25519 over the type
and the payload's bytes, so a signature over anything else cannot pass for one of a statement.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from discreet_agent import canonical, ed25519

PAYLOAD = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
_MEMBERS = {"payload", "payloadType", "signatures"}

Json = dict[str, Any]
Subject = Mapping[str, str]
"""SHA-256 (hexadecimal) of each thing that a statement is about, by name, in the statement's
order."""


class BadEnvelope(ValueError):
    """The value is not an envelope of the expected statement."""


class Forged(ValueError):
    """A signature of the envelope is not that of its payload."""


def encoding(kind: str, payload: bytes) -> bytes:
    """The bytes that DSSE signs, its pre-authentication encoding: lengths separate the type from
    the payload."""
    return b"DSSEv1 %d %s %d %s" % (len(kind.encode()), kind.encode(), len(payload), payload)


def key_id(public_key: bytes) -> str:
    """The SHA-256 of a public key (32 raw bytes); for an agent's key it is the fingerprint."""
    return hashlib.sha256(public_key).hexdigest()


def statement(subject: Subject, predicate_type: str, predicate: Mapping[str, Any]) -> Json:
    """The in-toto statement with this subject and predicate."""
    return {
        "_type": STATEMENT,
        "subject": [
            {"name": name, "digest": {"sha256": digest}} for name, digest in subject.items()
        ],
        "predicateType": predicate_type,
        "predicate": dict(predicate),
    }


def signed(said: Mapping[str, Any], sign: Callable[[bytes], bytes], public_key: bytes) -> Json:
    """The envelope of a statement, signed by `sign`, whose public key (32 raw bytes) is given."""
    payload = canonical.dumps(said)
    signature = sign(encoding(PAYLOAD, payload))
    return {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": PAYLOAD,
        "signatures": [{"keyid": key_id(public_key), "sig": base64.b64encode(signature).decode()}],
    }


def is_envelope(value: Any) -> bool:
    return isinstance(value, Mapping) and "payloadType" in value


def type_of(envelope: Mapping[str, Any]) -> str:
    """The type of the predicate in an envelope, or BadEnvelope. No signature is checked."""
    found = _said(envelope).get("predicateType")
    return found if isinstance(found, str) else ""


def opened(
    envelope: Mapping[str, Any], wanted: str, subject_of: Callable[[Json], Subject], called: str
) -> Json:
    """The predicate of type `wanted` in an envelope whose statement has exactly the subject that
    `subject_of` derives from it. Otherwise BadEnvelope, in which `called` names what was expected.
    No signature is checked."""
    try:
        said = _said(envelope)
        if said["_type"] != STATEMENT or said["predicateType"] != wanted:
            raise BadEnvelope(f"the payload is not a statement of type {wanted}")
        predicate = said["predicate"]
        if (
            not isinstance(predicate, dict)
            or statement(subject_of(predicate), wanted, predicate) != said
        ):
            raise BadEnvelope(f"the subject of the statement is not that of its {called}")
    except BadEnvelope:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        raise BadEnvelope(f"this is not the envelope of a {called}") from None
    return predicate


def signed_by(envelope: Mapping[str, Any], keys: Iterable[bytes]) -> list[bytes]:
    """Those of these keys (32 raw bytes) that have signed the envelope. Forged if the envelope
    names one of them with a wrong signature, or its signatures cannot be read."""
    try:
        known = {key_id(key): key for key in keys}
        message = encoding(PAYLOAD, bytes_of(envelope["payload"]))
        found = []
        for one in envelope["signatures"]:
            key = known.get(one["keyid"])
            if key is not None:
                if not ed25519.is_signed(key, message, bytes_of(one["sig"])):
                    raise ValueError
                found.append(key)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Forged("a signature of the envelope is not that of its payload") from None
    return found


def bytes_of(text: str) -> bytes:
    """The bytes of a base64 text; ValueError unless the text is their canonical encoding: the last
    character may hold bits that decoding ignores."""
    decoded = base64.b64decode(text, validate=True)
    if base64.b64encode(decoded).decode() != text:
        raise ValueError("not the canonical base64 of these bytes")
    return decoded


def _said(envelope: Mapping[str, Any]) -> Json:
    try:
        if set(envelope) != _MEMBERS or envelope["payloadType"] != PAYLOAD:
            raise BadEnvelope(
                f"an envelope has the members {', '.join(sorted(_MEMBERS))}, and its payloadType "
                f"is {PAYLOAD}"
            )
        payload = bytes_of(envelope["payload"])
        said = json.loads(payload)
        if not isinstance(said, dict) or canonical.dumps(said) != payload:
            raise BadEnvelope("the payload is not canonical JSON")
    except BadEnvelope:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError, OverflowError):
        raise BadEnvelope("this is not the envelope of a statement") from None
    return said
