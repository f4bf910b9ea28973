"""Certificates and ledger heads in other people's formats: in-toto statements in DSSE
(`discreet_client.dsse`).

The subject of a certificate is the result that it binds, and its tables; that of a head the
tenant's ledger. The predicate is the certificate, or the head, as it stands, whose own signature
goes on to count. The envelope is signed by the service when it is asked for, so after a rotation by
another key than what is in it.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from discreet.ledger.certificate_checks import Check
from discreet.ledger.certificates import public_key
from discreet.ledger.signer import Signer
from discreet_client import dsse
from discreet_client.dsse import PAYLOAD, BadEnvelope, bytes_of, encoding, is_envelope

__all__ = ["HEAD", "PAYLOAD", "PREDICATE", "BadEnvelope", "encoding", "is_envelope"]

PREDICATE = "urn:discreet:certificate:v1"
HEAD = "urn:discreet:ledger-head:v1"


def subject(certificate: Mapping[str, Any]) -> dict[str, str]:
    """The result, and its tables. KeyError for a certificate of an older version, which binds
    none."""
    job, tables = certificate["job"], certificate["tables"]
    digests = {f"{job}/result": certificate["result_digest"]}
    return digests | {f"{job}/result/{name}": tables[name] for name in sorted(tables)}


def subject_of_head(head: Mapping[str, Any]) -> dict[str, str]:
    return {f"{head['tenant']}/ledger": head["hash"]}


def statement(certificate: Mapping[str, Any]) -> dict[str, Any]:
    """What is said, and of what. KeyError as `subject`."""
    return dsse.statement(subject(certificate), PREDICATE, certificate)


def seal(certificate: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The signed envelope of a certificate. KeyError as `subject`."""
    return sealed(statement(certificate), key)


def seal_head(head: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The signed envelope of a tenant's head."""
    return sealed(dsse.statement(subject_of_head(head), HEAD, head), key)


def sealed(said: Mapping[str, Any], key: Signer) -> dict[str, Any]:
    """The envelope of a statement, signed by the service."""
    return dsse.signed(said, key.sign, bytes_of(public_key(key)))


def opened(envelope: Mapping[str, Any]) -> dict[str, Any]:
    """The certificate in an envelope; BadEnvelope. No signature is looked at."""
    return dsse.opened(envelope, PREDICATE, subject, "certificate")


def opened_head(envelope: Mapping[str, Any], signed_by: Collection[str] = ()) -> dict[str, Any]:
    """The head in an envelope, which is signed by the head's own key or one of these (base64);
    BadEnvelope."""
    head = dsse.opened(envelope, HEAD, subject_of_head, "head")
    found = signature(envelope, [*signed_by, head.get("public_key")])
    if not found.holds:
        raise BadEnvelope(found.detail)
    return head


def check_envelope(envelope: Mapping[str, Any], signed_by: Collection[str] = ()) -> Check:
    """Whether the envelope is signed by the key of its certificate, or by one of these (base64);
    open where only keys that are not known have signed it. BadEnvelope as `opened`."""
    return signature(envelope, [*signed_by, opened(envelope).get("public_key")])


def signature(envelope: Mapping[str, Any], keys: Iterable[Any]) -> Check:
    """Whether one of these keys (base64) has signed the envelope; open where none is named."""
    try:
        found = dsse.signed_by(envelope, map(bytes_of, keys))
    except dsse.Forged as error:
        return Check("envelope", False, str(error))
    except (TypeError, ValueError, AttributeError):
        return Check("envelope", False, "the key that it names is no key")
    if not found:
        return Check("envelope", None, "signed by no key that is known")
    return Check(
        "envelope", True, f"an in-toto statement, signed by {base64.b64encode(found[-1]).decode()}"
    )
