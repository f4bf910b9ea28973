"""One entry of the ledger: its line in an export, its place and the rules that it follows in its
account."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.errors import DiscreetError
from discreet.ledger import blocks
from discreet.ledger.blocks import COLUMNS, Block
from discreet.privacy import events as mechanism_events
from discreet.privacy.filters import FILTERS, Cap
from discreet_agent import ed25519
from discreet_agent.dsse import bytes_of

FORMAT = "discreet-ledger/1"
GENESIS = bytes(32)
"""What stands for the previous hash in the first entry of an account."""
IDENTITY = ("account", "tenant", "scope", "subject", "unit")
FIELDS = frozenset(
    (
        *IDENTITY,
        "actor",
        "at",
        "cap",
        "events",
        "filters",
        "job",
        "kind",
        "price",
        "reason",
        "reserved",
        "seq",
        "totals",
    )
)
FIELDS_OF_BLOCKS = FIELDS | set(blocks.FIELDS)
Watch = Callable[[dict[str, Any], str], None]
"""Called with the body and the hash of each entry that has passed."""


class Broken(DiscreetError):
    """The ledger does not hold."""

    code = "ledger_broken"

    def __init__(self, what: str, account: str | None = None, seq: int | None = None) -> None:
        self.what, self.account, self.seq = what, account, seq
        place = "" if account is None else f"entry {seq} of account {account}: "
        super().__init__(place + what)


def limits(cap: Cap) -> dict[str, dict[str, str]]:
    """What each filter allows under a cap, as it stands in the entry that sets the cap."""
    budgets = {one.name: one.budget(cap) for one in FILTERS}
    return {
        name: {column: str(most) for column, most in budget.items()}
        for name, budget in budgets.items()
        if budget is not None
    }


def is_hash(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


def entry_line(body: str, digest: bytes, previous: bytes) -> bytes:
    """One line of an export, from the canonical body as the ledger stores it."""
    return (
        f'{{"body":{body},"hash":"{digest.hex()}","previous_hash":"{previous.hex()}"}}\n'.encode()
    )


@dataclass
class Account:
    """One chain as far as it was read."""

    identity: dict[str, Any]
    seq: int = 0
    hash: bytes = GENESIS
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    reserved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    cap: dict[str, str] = field(default_factory=dict)
    limits: dict[str, dict[str, str]] = field(default_factory=dict)
    jobs: dict[str, tuple[str, dict[str, int]]] = field(default_factory=dict)
    """Last kind of entry and price of each job."""
    blocks: dict[int, Block] = field(default_factory=dict)
    """In the chain of a source: each block by its number."""
    charged: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """In the chain of a source: the blocks of each job that has not ended."""

    @property
    def of_source(self) -> bool:
        return bool(self.identity["scope"] == blocks.SCOPE)


@lru_cache(maxsize=1024)
def price_of_events(events: str) -> dict[str, int]:
    return mechanism_events.price_of(json.loads(events)).columns()


@lru_cache(maxsize=1024)
def _limits(epsilon: int, delta: int) -> dict[str, dict[str, str]]:
    return limits(Cap(epsilon, delta))


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Fault(what)


class Fault(Exception):
    """What is wrong with the entry at hand."""


def _amounts(value: Any, columns: Sequence[str]) -> dict[str, int]:
    """Integers from canonical decimal strings."""
    found = {name: int(text) for name, text in value.items()}
    require(
        sorted(found) == sorted(columns)
        and all(text == str(found[name]) for name, text in value.items()),
        "its amounts are not of this format",
    )
    require(min(found.values(), default=0) >= 0, "an amount is negative")
    return found


def _check_entry(account: Account, body: dict[str, Any]) -> None:
    """The rules of an entry in its account, and the account after it."""
    kind, job = body["kind"], body["job"]
    require(
        {name: body[name] for name in IDENTITY} == account.identity, "it belongs to another account"
    )
    totals, reserved = _amounts(body["totals"], COLUMNS), _amounts(body["reserved"], COLUMNS)
    spent, held = dict(account.totals), dict(account.reserved)
    if kind in ("open", "grant"):
        require(
            kind == "open" if body["seq"] == 1 else kind == "grant" or account.of_source,
            "an account is opened once, by its first entry",
        )
        require(
            job is None and body["price"] == {} and body["events"] == [],
            "an entry about a cap must have no job, price or events",
        )
        cap = _amounts(body["cap"], ("epsilon", "delta"))
        own = _limits(cap["epsilon"], cap["delta"])
        require(body["filters"] == own, "the filters do not follow from the cap")
        if not account.of_source:
            account.cap, account.limits = body["cap"], body["filters"]
        price: dict[str, int] = {}
    else:
        require(account.seq > 0, "an account begins with the entry that opens it")
        require(
            body["cap"] == account.cap and body["filters"] == account.limits,
            "the cap changed without a grant",
        )
        own = account.limits
        require(isinstance(job, str), "it names no job")
        last, price = account.jobs.get(job, ("", dict.fromkeys(COLUMNS, 0)))
        require(kind == "reserve" or body["events"] == [], "only a reservation has events")
        if kind == "reserve":
            require(last == "", "the job has reserved already")
            price = _amounts(body["price"], COLUMNS)
            try:
                derived = price_of_events(json.dumps(body["events"]))
            except mechanism_events.TooManyEvents as error:
                raise Fault(f"its events were not priced: {error}") from None
            except ValueError:
                raise Fault("its events have no price") from None
            require(price == derived, "the price does not follow from the events")
            spent = {name: spent[name] + price[name] for name in COLUMNS}
            held = {name: held[name] + price[name] for name in COLUMNS}
        elif kind == "data_touched":
            require(
                last == "reserve",
                "data were touched without a reservation, twice, or after the end",
            )
            require(body["price"] == {}, "touching data has no price of its own")
        elif kind in ("commit", "release"):
            needed = "data_touched" if kind == "commit" else "reserve"
            require(last == needed, f"a {kind} needs {needed} as the job's last entry")
            require(
                _amounts(body["price"], COLUMNS) == price,
                "the price is not the one that was reserved",
            )
            held = {name: held[name] - price[name] for name in COLUMNS}
            if kind == "release":
                spent = {name: spent[name] - price[name] for name in COLUMNS}
        else:
            raise Fault("its kind is not known")
        account.jobs[job] = (kind, price if kind in ("reserve", "data_touched") else {})
    require(totals == spent, "the totals are not the sum of the prices")
    require(reserved == held, "the reserved amounts are not the sum of the open reservations")
    if account.of_source:
        for fault in blocks.faults(account.blocks, account.charged.get(job, ()), body, price, own):
            raise Fault(fault)
        if kind == "reserve":
            account.charged[job] = blocks.numbers(body["blocks"])
        elif kind in ("commit", "release"):
            del account.charged[job]
    passed = account.of_source or any(
        all(totals[name] <= int(most) for name, most in one.items())
        for one in account.limits.values()
    )
    require(passed, "the totals exceed every filter")
    account.totals, account.reserved = totals, reserved


def follow(
    account: Account, body_bytes: bytes, body: dict[str, Any], digest: str, previous: str
) -> None:
    """The next entry of an account: its place, its hashes, its rules."""
    seq = account.seq + 1
    require(
        body["seq"] == seq,
        f"the entry is missing or out of its place: number {body['seq']} stands here",
    )
    require(previous == account.hash.hex(), "its previous hash is not that of the entry before")
    computed = hashlib.sha256(account.hash + body_bytes).hexdigest()
    require(computed == digest, "its hash is not that of its content: it was changed")
    _check_entry(account, body)
    account.seq, account.hash = seq, bytes.fromhex(digest)


def read_entry(line: bytes, before: Account | None) -> tuple[bytes, dict[str, Any], str, str]:
    """Canonical body, body, hash and previous hash of a line."""
    try:
        entry = json.loads(line)
        body = entry["body"]
        body_bytes: bytes = rfc8785.dumps(body)
        digest, previous = entry["hash"], entry["previous_hash"]
        well_formed = (
            set(body) == (FIELDS_OF_BLOCKS if body.get("scope") == blocks.SCOPE else FIELDS)
            and isinstance(body["account"], str)
            and type(body["seq"]) is int
            and is_hash(digest)
            and is_hash(previous)
            and entry_line(body_bytes.decode(), bytes.fromhex(digest), bytes.fromhex(previous))
            == line
        )
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        well_formed = False
    if not well_formed:
        place = ("", 1) if before is None else (before.identity["account"], before.seq + 1)
        raise Broken("the line after the last good entry is not an entry in canonical JSON", *place)
    return body_bytes, body, digest, previous


# Chain --------------------------------------------------------------------------------------------
# The chain of one account, checked as it grows.


class Chain:
    """The chain of one account, checked as it grows: what was checked once is remembered by its
    number and hash.

    It notices a change of an entry that it has passed only by the entries that follow; a check of
    everything begins with a new chain.
    """

    def __init__(self, tenant: str, account: str) -> None:
        self._tenant, self._name = tenant, account
        self._account: Account | None = None

    @property
    def seq(self) -> int:
        """Number of the last entry that holds; 0 before the first."""
        return 0 if self._account is None else self._account.seq

    @property
    def hash(self) -> bytes:
        return GENESIS if self._account is None else self._account.hash

    @property
    def blocks(self) -> Mapping[int, Block]:
        """Of the chain of a source: each block by its number, as it stands."""
        return {} if self._account is None else self._account.blocks

    def follow(self, line: bytes) -> None:
        """Check the next entry, a line as in an export. Broken when it does not hold; no entry can
        follow it then."""
        body_bytes, body, digest, previous = read_entry(line, self._account)
        seq = self.seq + 1
        try:
            require(
                (body["tenant"], body["account"]) == (self._tenant, self._name),
                "it belongs to another account",
            )
            account = self._account or Account({name: body[name] for name in IDENTITY})
            follow(account, body_bytes, body, digest, previous)
        except Fault as fault:
            raise Broken(str(fault), self._name, seq) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Broken("it is not an entry in this format", self._name, seq) from None
        self._account = account


# Heads --------------------------------------------------------------------------------------------
# A tenant's signed head: the last entry of each account; see `verification` for what is signed.

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


# Signer -------------------------------------------------------------------------------------------
# An Ed25519 key that signs: in memory, or in a token that does not reveal it.


class Signer(Protocol):
    """The methods of `cryptography`'s `Ed25519PrivateKey` that a key in a token has too (RFC
    8032)."""

    def sign(self, data: bytes, /) -> bytes:
        """The signature, 64 bytes. A token that does not answer raises its own errors."""

    def public_key(self) -> Ed25519PublicKey:
        """The key that verifies it."""


# Words --------------------------------------------------------------------------------------------
# The kinds of entries of the ledger, in words for people.

ENTRIES = {
    "open": (
        "Account opened",
        "{actor} opened this account with a cap. The cap is the most that may ever be spent.",
    ),
    "grant": ("Cap changed", "{actor} set another cap. What was spent stays spent."),
    "reserve": (
        "Price reserved",
        "{actor} submitted a job. Its whole price was set aside before any data were touched, so "
        "that nothing else can spend it.",
    ),
    "data_touched": (
        "Data touched",
        "A worker is about to hand private data to the job’s mechanism. From here on the job is "
        "charged in full, whether it succeeds or not.",
    ),
    "commit": (
        "Price charged",
        "The job ended after data were touched. Its price is spent for good.",
    ),
    "release": (
        "Reservation given back",
        "The job ended before any data were touched. Nothing was spent.",
    ),
}
"""Title and meaning of each kind of entry."""
