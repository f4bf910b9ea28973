"""Certificates and ledger heads in formats that other tools read: in-toto statements in DSSE
envelopes (`discreet_agent.dsse`).

The subject of a certificate is the result that it binds, with its tables; that of a head is the
tenant's ledger. The predicate is the certificate, or the head, unchanged and with its own
signature. The service signs the envelope when it is asked for: after a rotation with another key
than the one inside.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from discreet.ledger.certificates import Check, public_key
from discreet.ledger.entries import Signer
from discreet_agent import dsse
from discreet_agent.dsse import PAYLOAD, BadEnvelope, bytes_of, encoding, is_envelope

__all__ = ["HEAD", "PAYLOAD", "PREDICATE", "BadEnvelope", "encoding", "is_envelope"]

PREDICATE = "urn:discreet:certificate:v1"
HEAD = "urn:discreet:ledger-head:v1"


def subject(certificate: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the result and its tables, by name. KeyError for a certificate of an older
    version, which binds no tables."""
    job, tables = certificate["job"], certificate["tables"]
    digests = {f"{job}/result": certificate["result_digest"]}
    return digests | {f"{job}/result/{name}": tables[name] for name in sorted(tables)}


def subject_of_head(head: Mapping[str, Any]) -> dict[str, str]:
    return {f"{head['tenant']}/ledger": head["hash"]}


def statement(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """The in-toto statement of a certificate. KeyError as `subject`."""
    return dsse.statement(subject(certificate), PREDICATE, certificate)


def sign(certificate: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The signed envelope of a certificate. KeyError as `subject`."""
    return signed(statement(certificate), key)


def sign_head(head: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The signed envelope of a tenant's head."""
    return signed(dsse.statement(subject_of_head(head), HEAD, head), key)


def signed(said: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The envelope of a statement, signed by the service."""
    return dsse.signed(said, key.sign, bytes_of(public_key(key)))


def opened(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate in an envelope, whose signatures are not checked. BadEnvelope where it holds
    none."""
    return dsse.opened(envelope, PREDICATE, subject, "certificate")


def opened_head(envelope: Mapping[str, Any], signed_by: Collection[str] = ()) -> dict[str, Any]:
    """The head in an envelope. BadEnvelope unless the head's own key, or one of `signed_by`
    (base64), has signed it."""
    head = dsse.opened(envelope, HEAD, subject_of_head, "head")
    found = signature(envelope, [*signed_by, head.get("public_key")])
    if not found.holds:
        raise BadEnvelope(found.detail)
    return head


def check_envelope(envelope: Mapping[str, Any], signed_by: Collection[str] = ()) -> Check:
    """Whether the envelope is signed by the key of its certificate, or by one of `signed_by`
    (base64); undecided where only unknown keys have signed it. BadEnvelope as `opened`."""
    return signature(envelope, [*signed_by, opened(envelope).get("public_key")])


def signature(envelope: Mapping[str, Any], keys: Iterable[Any]) -> Check:
    """Whether one of these keys (base64) has signed the envelope; undecided where none of them is
    named."""
    try:
        found = dsse.signed_by(envelope, map(bytes_of, keys))
    except dsse.Forged as error:
        return Check("envelope", False, str(error))
    except (TypeError, ValueError, AttributeError):
        return Check("envelope", False, "what it names as its key is not a key")
    if not found:
        return Check("envelope", None, "signed by no key that is known")
    return Check(
        "envelope", True, f"an in-toto statement, signed by {base64.b64encode(found[-1]).decode()}"
    )
