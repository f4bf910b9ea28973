"""A tenant's signed head: the last entry of each account; see `verification` for what is signed."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import rfc8785
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.ledger.entries import (
    FORMAT,
    Broken,
    is_hash,
)
from discreet.ledger.signer import Signer
from discreet_client import ed25519
from discreet_client.dsse import bytes_of

Head = dict[str, Any]
HEAD_MEMBERS = frozenset(("accounts", "format", "hash", "public_key", "seq", "signature", "tenant"))


def _signed_bytes(tenant: str, listed: Sequence[Any]) -> bytes:
    """The bytes that the signature of a head signs."""
    return bytes(rfc8785.dumps(list(listed) or [tenant]))


def sign_head(tenant: str, accounts: Iterable[tuple[str, int, bytes]], key: Signer) -> Head:
    """The signed head of a tenant from the last entry of each of its accounts."""
    listed: list[Any] = [[account, seq, digest.hex()] for account, seq, digest in sorted(accounts)]
    message = _signed_bytes(tenant, listed)
    public = key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    return {
        "format": FORMAT,
        "tenant": tenant,
        "seq": sum(seq for _, seq, _ in listed),
        "hash": hashlib.sha256(message).hexdigest(),
        "accounts": listed,
        "public_key": base64.b64encode(public).decode(),
        "signature": base64.b64encode(key.sign(message)).decode(),
    }


def check_head(
    head: Any, public_key: str | Collection[str] | None = None, *, kept: bool = False
) -> dict[str, tuple[int, str]]:
    """Number and hash of the last entry by account. Broken when the head has other members than its
    own, when it is not signed, or not by this key or one of these keys (base64).

    `kept`: a head that was kept outside of an export. Older versions signed the head of a tenant
    without accounts over the empty list, which is accepted only here: such a head names no entry,
    and in an export nothing would bind it to its tenant.
    """
    public_keys = (public_key,) if isinstance(public_key, str) else public_key
    try:
        listed = head["accounts"]
        message = _signed_bytes(head["tenant"], listed)
        if kept and not listed and head["hash"] == hashlib.sha256(b"[]").hexdigest():
            message = b"[]"
        last = {account: (seq, digest) for account, seq, digest in listed}
        well_formed = (
            head.keys() == HEAD_MEMBERS
            and head["format"] == FORMAT
            and type(head["seq"]) is int
            and isinstance(head["tenant"], str)
            and [row[0] for row in listed] == sorted(last)
            and all(
                type(seq) is int and seq > 0 and is_hash(digest) for seq, digest in last.values()
            )
        )
        if not well_formed:
            raise Broken("the head is not of this format")
        if public_keys and head["public_key"] not in public_keys:
            raise Broken("the head is signed by another key than the one that was given")
        key, signature = bytes_of(head["public_key"]), bytes_of(head["signature"])
        if not ed25519.is_signed(key, message, signature):
            raise Broken("the signature of the head is forged")
        if head["hash"] != hashlib.sha256(message).hexdigest() or head["seq"] != sum(
            seq for seq, _ in last.values()
        ):
            raise Broken("the head's hash or number is not that of its list")
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Broken("the head is not of this format") from None
    return last


def head_line(head: Head) -> bytes:
    """The first line of an export."""
    return bytes(rfc8785.dumps(head)) + b"\n"


def head_of(line: bytes) -> Any:
    try:
        head = json.loads(line)
        canonical = rfc8785.dumps(head) + b"\n" == line
    except (ValueError, TypeError, RecursionError):
        canonical = False
    if not canonical:
        raise Broken("the first line is not a head in canonical JSON")
    return head
