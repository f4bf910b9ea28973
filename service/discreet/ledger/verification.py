"""The ledger as an auditor checks it: from an export alone, with no server, no database and no
trust in either.

An export is JSON Lines. The first line is the tenant's signed head, each further one an entry of
some account:

    {"accounts":[["acc_…",4,"<hash>"],…],"format":"discreet-ledger/1","hash":…,"public_key":…,"seq":…,"signature":…,"tenant":…}
    {"body":{…},"hash":"<hex>","previous_hash":"<hex>"}

Accounts come in the byte order of their ids, the entries of each in the order of their chain; every
line is canonical JSON (RFC 8785), so that no byte of the file is free. What is checked of each
entry, in this order: its form; its place (numbers from 1 with no gap, the hash of the entry
before); `hash = SHA-256(previous hash || canonical body)`; that the price follows from the
mechanism events, the filters' limits from the cap, totals and reservations from the prices; that
every sum is within at least one filter; that a job reserves, touches and ends once each, in this
order, and is released only if nothing was touched; of a chain of blocks (`ledger.blocks`) also that
each block passes a filter of its own, and that the sums that entries bind are those of the prices.
Then, that the entries end exactly where the signed head says.

What it cannot show: that the file is not an older, shorter and once true ledger. For that, keep
heads outside (`GET /v1/ledger/head`) and give one of them: the ledger must contain it.

Signature: Ed25519 over the canonical JSON of the sorted list of [account, seq, hash], of a tenant
without accounts over that of [tenant]; `hash` is the SHA-256 of the same bytes, `seq` the number of
all entries. The tenant is signed through its entries, which name it. Certificates, signed by the
same key, are objects and never lists.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from discreet.ledger.entries import (
    IDENTITY,
    Account,
    Broken,
    Fault,
    Watch,
    check_head,
    follow,
    head_of,
    read_entry,
    require,
)
from discreet.ledger.fast_check import Expected, take_quickly


@dataclass(frozen=True)
class Verified:
    """An export that holds."""

    tenant: str
    accounts: int
    entries: int
    hash: str
    public_key: str


def verify(
    lines: Iterable[bytes],
    *,
    public_key: str | Collection[str] | None = None,
    head: Any = None,
    watch: Watch | None = None,
) -> Verified:
    """Check an export, line by line. Broken names the first entry that does not hold.

    `public_key` (base64) is the key that must have signed, or after a rotation several of which one
    must; without it the export's own key is taken, which the caller should compare with one that is
    known. `head` is an earlier (or equal) head of the same tenant, kept elsewhere: every entry that
    it names must be there.
    """
    source = iter(lines)
    own = head_of(next(source, b""))
    last = check_head(own, public_key)
    kept: dict[str, tuple[int, str]] = {}
    if head is not None:
        kept = check_head(head, public_key or own["public_key"], kept=True)
        if head["tenant"] != own["tenant"]:
            raise Broken("the kept head is of another tenant")
    account: Account | None = None
    expected: Expected | None = None
    name = ""
    done: set[str] = set()
    count = 0
    least = 0
    for line in source:
        # The slow way says what is wrong at the ends: the last entry that the signed head names,
        # the one that is kept.
        taken = None
        if account is not None and account.seq + 1 < least:
            expected = expected or Expected.of(account)
            taken = take_quickly(account, expected, line)
        if taken is not None:
            count += 1
            if watch is not None:
                watch(json.loads(line)["body"], taken)
            continue
        body_bytes, body, digest, previous = read_entry(line, account)
        if account is None or body["account"] != name:
            if account is not None:
                _check_end(account, last, kept)
                done.add(name)
            if body["account"] in done or body["account"] < name:
                raise Broken("the account comes out of order", body["account"], body["seq"])
            name = body["account"]
            account = Account({field_name: body[field_name] for field_name in IDENTITY})
        expected = None
        seq = account.seq + 1
        try:
            require(name in last, "the signed head does not know this account")
            require(body["tenant"] == own["tenant"], "it is of another tenant")
            require(
                seq <= last[name][0] or body["seq"] != seq, "the signed head does not reach so far"
            )
            follow(account, body_bytes, body, digest, previous)
            if name in kept and kept[name][0] == seq:
                require(kept[name][1] == digest, "the kept head names another entry in this place")
        except Fault as fault:
            raise Broken(str(fault), name, seq) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Broken("it is not an entry in this format", name, seq) from None
        least = min(
            (at for at in (last[name][0], kept.get(name, (0, ""))[0]) if at > seq), default=0
        )
        count += 1
        if watch is not None:
            watch(body, digest)
    if account is not None:
        _check_end(account, last, kept)
        done.add(name)
    for missing in sorted((set(last) | set(kept)) - done):
        raise Broken("the entry is missing: the head names it", missing, 1)
    return Verified(own["tenant"], len(done), count, own["hash"], own["public_key"])


def _check_end(
    account: Account, last: Mapping[str, tuple[int, str]], kept: Mapping[str, tuple[int, str]]
) -> None:
    """An account ends where the signed head says, and not before the kept one."""
    name = account.identity["account"]
    seq, digest = last[name]
    if account.seq < max(seq, kept.get(name, (0, ""))[0]):
        raise Broken("the entry is missing: the head names it", name, account.seq + 1)
    if account.hash.hex() != digest:
        raise Broken("the signed head names another last entry", name, seq)
