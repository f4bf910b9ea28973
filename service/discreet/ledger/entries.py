"""One entry of the ledger: its line in an export, its place and the rules that it follows in its
account."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import rfc8785

from discreet.errors import DiscreetError
from discreet.ledger import blocks
from discreet.ledger.blocks import COLUMNS, Block
from discreet.privacy import events as mechanism_events
from discreet.privacy.filters import FILTERS, Cap

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
