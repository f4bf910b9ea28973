"""The ledger as an auditor checks it: from an export alone, with no server, no database and no trust in either.

An export is JSON Lines. The first line is the tenant's signed head, each further one an entry of some account:

    {"accounts":[["acc_…",4,"<hash>"],…],"format":"discreet-ledger/1","hash":…,"public_key":…,"seq":…,"signature":…,"tenant":…}
    {"body":{…},"hash":"<hex>","previous_hash":"<hex>"}

Accounts come in the byte order of their ids, the entries of each in the order of their chain; every line is canonical
JSON (RFC 8785), so that no byte of the file is free. What is checked of each entry, in this order: its form; its place
(numbers from 1 with no gap, the hash of the entry before); `hash = SHA-256(previous hash || canonical body)`; that the
price follows from the mechanism events, the filters' limits from the cap, totals and reservations from the prices; that
every sum is within at least one filter; that a job reserves, touches and ends once each, in this order, and is released
only if nothing was touched. Then, that the entries end exactly where the signed head says.

What it cannot show: that the file is not an older, shorter and once true ledger. For that, keep heads outside
(`GET /v1/ledger/head`) and give one of them: the ledger must contain it.

Signature: Ed25519 over the canonical JSON of the sorted list of [account, seq, hash], of a tenant without accounts over
that of [tenant]; `hash` is the SHA-256 of the same bytes, `seq` the number of all entries. The tenant is signed through
its entries, which name it. Certificates, signed by the same key, are objects and never lists.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import rfc8785
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from discreet.errors import DiscreetError
from discreet.privacy import events as mechanism_events
from discreet.privacy.filters import FILTERS, Cap
from discreet.privacy.units import Price

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
COLUMNS = tuple(sorted(Price.zero().columns()))

Head = dict[str, Any]
Watch = Callable[[dict[str, Any], str], None]
"""Called with the body and the hash of each entry that has passed."""


class Broken(DiscreetError):
    """The ledger does not hold."""

    code = "ledger_broken"

    def __init__(self, what: str, account: str | None = None, seq: int | None = None) -> None:
        self.what, self.account, self.seq = what, account, seq
        place = "" if account is None else f"entry {seq} of account {account}: "
        super().__init__(place + what)


@dataclass(frozen=True)
class Verified:
    """An export that holds."""

    tenant: str
    accounts: int
    entries: int
    hash: str
    public_key: str


def limits(cap: Cap) -> dict[str, dict[str, str]]:
    """What each filter allows under a cap, as it stands in the entry that sets the cap."""
    budgets = {one.name: one.budget(cap) for one in FILTERS}
    return {
        name: {column: str(most) for column, most in budget.items()}
        for name, budget in budgets.items()
        if budget is not None
    }


# Heads --------------------------------------------------------------------------------------------------------------


def _signed_bytes(tenant: str, listed: Sequence[Any]) -> bytes:
    """What the signature of a head is over."""
    return bytes(rfc8785.dumps(list(listed) or [tenant]))


def sign_head(tenant: str, accounts: Iterable[tuple[str, int, bytes]], key: Ed25519PrivateKey) -> Head:
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


HEAD_MEMBERS = frozenset(("accounts", "format", "hash", "public_key", "seq", "signature", "tenant"))


def check_head(
    head: Any, public_key: str | Collection[str] | None = None, *, kept: bool = False
) -> dict[str, tuple[int, str]]:
    """Number and hash of the last entry by account. Broken when the head has other members than its own, when it is not
    signed, or not by this key or one of these keys (base64).

    `kept`: a head that was kept elsewhere, which may be as older versions signed one of a tenant without accounts: over
    the empty list. It asks for no entry, and in an export nothing would hold its tenant.
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
            and all(type(seq) is int and seq > 0 and _is_hash(digest) for seq, digest in last.values())
        )
        if not well_formed:
            raise Broken("the head is not of this format")
        if public_keys and head["public_key"] not in public_keys:
            raise Broken("the head is signed by another key than the one that was given")
        key = Ed25519PublicKey.from_public_bytes(_bytes_of(head["public_key"]))
        key.verify(_bytes_of(head["signature"]), message)
        if head["hash"] != hashlib.sha256(message).hexdigest() or head["seq"] != sum(seq for seq, _ in last.values()):
            raise Broken("the head's hash or number is not that of its list")
    except InvalidSignature:
        raise Broken("the signature of the head is forged") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise Broken("the head is not of this format") from None
    return last


def _bytes_of(text: str) -> bytes:
    """What base64 stands for; ValueError unless it is the one text of these bytes. The last character of a text holds
    bits that decoding ignores."""
    decoded = base64.b64decode(text, validate=True)
    if base64.b64encode(decoded).decode() != text:
        raise ValueError("not the one base64 of these bytes")
    return decoded


def _is_hash(text: Any) -> bool:
    return isinstance(text, str) and len(text) == 64 and set(text) <= set("0123456789abcdef")


# Entries ------------------------------------------------------------------------------------------------------------


def entry_line(body: str, digest: bytes, previous: bytes) -> bytes:
    """One line of an export, from the canonical body as the ledger stores it."""
    return f'{{"body":{body},"hash":"{digest.hex()}","previous_hash":"{previous.hex()}"}}\n'.encode()


def head_line(head: Head) -> bytes:
    """The first line of an export."""
    return bytes(rfc8785.dumps(head)) + b"\n"


@dataclass
class _Account:
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
    expected: _Expected | None = None
    """How entries must be written until the next one that sets a cap; None: not known yet."""


@lru_cache(maxsize=1024)
def _price(events: str) -> dict[str, int]:
    return mechanism_events.price_of(json.loads(events)).columns()


@lru_cache(maxsize=1024)
def _limits(epsilon: int, delta: int) -> dict[str, dict[str, str]]:
    return limits(Cap(epsilon, delta))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise _Fault(what)


class _Fault(Exception):
    """What is wrong with the entry at hand."""


def _amounts(value: Any, columns: Sequence[str]) -> dict[str, int]:
    """Integers from canonical decimal strings."""
    found = {name: int(text) for name, text in value.items()}
    _require(
        sorted(found) == sorted(columns) and all(text == str(found[name]) for name, text in value.items()),
        "its amounts are not of this format",
    )
    _require(min(found.values(), default=0) >= 0, "an amount is negative")
    return found


def _check_entry(account: _Account, body: dict[str, Any]) -> None:
    """The rules of an entry in its account, and the account after it."""
    kind, job = body["kind"], body["job"]
    _require({name: body[name] for name in IDENTITY} == account.identity, "it is of another account")
    totals, reserved = _amounts(body["totals"], COLUMNS), _amounts(body["reserved"], COLUMNS)
    spent, held = dict(account.totals), dict(account.reserved)
    if kind in ("open", "grant"):
        _require((kind == "open") == (body["seq"] == 1), "an account is opened once, by its first entry")
        _require(job is None and body["price"] == {} and body["events"] == [], "a cap has no job, price or events")
        cap = _amounts(body["cap"], ("epsilon", "delta"))
        _require(body["filters"] == _limits(cap["epsilon"], cap["delta"]), "the filters do not follow from the cap")
        account.cap, account.limits = body["cap"], body["filters"]
    else:
        _require(account.seq > 0, "an account begins with the entry that opens it")
        _require(body["cap"] == account.cap and body["filters"] == account.limits, "the cap changed without a grant")
        _require(isinstance(job, str), "it names no job")
        last, price = account.jobs.get(job, ("", dict.fromkeys(COLUMNS, 0)))
        _require(kind == "reserve" or body["events"] == [], "only a reservation has events")
        if kind == "reserve":
            _require(last == "", "the job has reserved already")
            price = _amounts(body["price"], COLUMNS)
            try:
                derived = _price(json.dumps(body["events"]))
            except mechanism_events.TooManyEvents as error:
                raise _Fault(f"its events were not priced: {error}") from None
            except ValueError:
                raise _Fault("its events have no price") from None
            _require(price == derived, "the price does not follow from the events")
            spent = {name: spent[name] + price[name] for name in COLUMNS}
            held = {name: held[name] + price[name] for name in COLUMNS}
        elif kind == "data_touched":
            _require(last == "reserve", "data were touched without a reservation, twice, or after the end")
            _require(body["price"] == {}, "touching data has no price of its own")
        elif kind in ("commit", "release"):
            needed = "data_touched" if kind == "commit" else "reserve"
            _require(last == needed, f"a {kind} needs {needed} as the job's last entry")
            _require(_amounts(body["price"], COLUMNS) == price, "the price is not the one that was reserved")
            held = {name: held[name] - price[name] for name in COLUMNS}
            if kind == "release":
                spent = {name: spent[name] - price[name] for name in COLUMNS}
        else:
            raise _Fault("its kind is not known")
        account.jobs[job] = (kind, price if kind in ("reserve", "data_touched") else {})
    _require(totals == spent, "the totals are not the sum of the prices")
    _require(reserved == held, "the reserved amounts are not the sum of the open reservations")
    passed = any(all(totals[name] <= int(most) for name, most in one.items()) for one in account.limits.values())
    _require(passed, "the totals pass no filter")
    account.totals, account.reserved = totals, reserved


def _follow(account: _Account, body_bytes: bytes, body: dict[str, Any], digest: str, previous: str) -> None:
    """The next entry of an account: its place, its hashes, its rules."""
    seq = account.seq + 1
    _require(body["seq"] == seq, f"the entry is missing or out of its place: number {body['seq']} stands here")
    _require(previous == account.hash.hex(), "its previous hash is not that of the entry before")
    computed = hashlib.sha256(account.hash + body_bytes).hexdigest()
    _require(computed == digest, "its hash is not that of its content: it was changed")
    _check_entry(account, body)
    account.seq, account.hash = seq, bytes.fromhex(digest)


class Chain:
    """The chain of one account, checked as it grows: what was checked once is remembered by its number and hash.

    It notices a change of an entry that it has passed only by the entries that follow; a check of everything begins
    with a new chain.
    """

    def __init__(self, tenant: str, account: str) -> None:
        self._tenant, self._name = tenant, account
        self._account: _Account | None = None

    @property
    def seq(self) -> int:
        """Number of the last entry that holds; 0 before the first."""
        return 0 if self._account is None else self._account.seq

    @property
    def hash(self) -> bytes:
        return GENESIS if self._account is None else self._account.hash

    def follow(self, line: bytes) -> None:
        """Check the next entry, a line as in an export. Broken when it does not hold; no entry can follow it then."""
        body_bytes, body, digest, previous = _read_entry(line, self._account)
        seq = self.seq + 1
        try:
            _require((body["tenant"], body["account"]) == (self._tenant, self._name), "it is of another account")
            account = self._account or _Account({name: body[name] for name in IDENTITY})
            _follow(account, body_bytes, body, digest, previous)
        except _Fault as fault:
            raise Broken(str(fault), self._name, seq) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Broken("it is not an entry of this format", self._name, seq) from None
        self._account = account


# The quick way ------------------------------------------------------------------------------------------------------

# All but the entries that open an account or change its cap follow from the state before and six words: actor, time,
# events, job, kind, reason. The quick way writes the line that must stand there and compares bytes. What it takes, the
# slow way above would take; what it does not take is not judged and goes to the slow way, which also words all faults.

_WORD = rb'"[ !#-\[\]-~]*"'
"""A JSON string of printable ASCII with nothing to escape: already canonical."""
_ACTOR_AND_TIME = re.compile(rb"(?:null|%b),\"at\":%b" % (_WORD, _WORD))
_JOB_AND_KIND = re.compile(rb'"([ !#-\[\]-~]*)","kind":"(reserve|data_touched|commit|release)","price":')
_REASON = re.compile(rb"null|%b" % _WORD)
_TAIL = len(entry_line("", GENESIS, GENESIS)) - len(b'{"body":')
_NEEDED = {"data_touched": "reserve", "commit": "data_touched", "release": "reserve"}
_NOTHING: dict[str, int] = {}
_ENDED = {kind: (kind, _NOTHING) for kind in ("commit", "release")}


@dataclass
class _Expected:
    """The parts of an account's lines that stay the same, and its balances as text."""

    start: bytes
    cap: bytes
    filters: bytes
    scope: bytes
    subject: bytes
    unit: bytes
    limits: list[list[tuple[str, int]]]
    totals: bytes
    reserved: bytes

    @classmethod
    def of(cls, account: _Account) -> _Expected:
        texts = {name: rfc8785.dumps(value) for name, value in account.identity.items()}
        return cls(
            start=b'{"body":{"account":%b,"actor":' % texts["account"],
            cap=b',"cap":%b,"events":' % rfc8785.dumps(account.cap),
            filters=b',"filters":%b,"job":' % rfc8785.dumps(account.limits),
            scope=b',"scope":%b,"seq":' % texts["scope"],
            subject=b',"subject":%b,"tenant":%b,"totals":' % (texts["subject"], texts["tenant"]),
            unit=b',"unit":%b},"hash":"' % texts["unit"],
            limits=[[(name, int(most)) for name, most in one.items()] for one in account.limits.values()],
            totals=_text(account.totals),
            reserved=_text(account.reserved),
        )


def _text(amounts: Mapping[str, int]) -> bytes:
    """Canonical JSON of amounts of all columns."""
    return b'{"delta":"%d","delta_z":"%d","epsilon":"%d","rho":"%d"}' % (
        amounts["delta"],
        amounts["delta_z"],
        amounts["epsilon"],
        amounts["rho"],
    )


@lru_cache(maxsize=4096)
def _known_events(events: bytes) -> tuple[dict[str, int], bytes] | None:
    """Price and its text of events in canonical JSON; None for anything else."""
    try:
        parsed = json.loads(events)
        if not isinstance(parsed, list) or rfc8785.dumps(parsed) != events:
            return None
        price = _price(json.dumps(parsed))
    except (ValueError, TypeError, RecursionError):
        return None
    return price, _text(price)


def _take_quickly(account: _Account, line: bytes) -> str | None:
    """The hash of an entry that holds and is written as expected, after which `account` has it; None: not decided."""
    known = account.expected
    if known is None:
        known = account.expected = _Expected.of(account)
    if not line.startswith(known.start):
        return None
    found = _ACTOR_AND_TIME.match(line, len(known.start))
    if found is None or not line.startswith(known.cap, found.end()):
        return None
    begin = found.end() + len(known.cap)
    end = line.find(known.filters, begin)
    if end < 0 or (found := _JOB_AND_KIND.match(line, end + len(known.filters))) is None:
        return None
    job, kind = found[1].decode(), found[2].decode()
    last, price = account.jobs.get(job, ("", _NOTHING))
    totals, reserved, price_text = account.totals, account.reserved, b"{}"
    totals_text, reserved_text = known.totals, known.reserved
    if kind == "reserve":
        if last or (priced := _known_events(line[begin:end])) is None:
            return None
        price, price_text = priced
        totals = {name: totals[name] + price[name] for name in COLUMNS}
        reserved = {name: reserved[name] + price[name] for name in COLUMNS}
        if not any(all(totals[name] <= most for name, most in one) for one in known.limits):
            return None
        totals_text, reserved_text = _text(totals), _text(reserved)
    else:
        if last != _NEEDED[kind] or line[begin:end] != b"[]":
            return None
        if kind != "data_touched":  # totals only fall, so a filter that held still holds
            price_text = _text(price)
            reserved = {name: reserved[name] - price[name] for name in COLUMNS}
            reserved_text = _text(reserved)
            if kind == "release":
                totals = {name: totals[name] - price[name] for name in COLUMNS}
                totals_text = _text(totals)
    reason = _REASON.match(line, found.end() + len(price_text) + len(b',"reason":'))
    if reason is None:
        return None
    digest = hashlib.sha256(account.hash + line[len(b'{"body":') : -_TAIL])
    name = digest.hexdigest()
    seq = account.seq + 1
    rest = b'%b,"reason":%b,"reserved":%b%b%d%b%b%b%b","previous_hash":"%b"}\n' % (
        price_text,
        reason[0],
        reserved_text,
        known.scope,
        seq,
        known.subject,
        totals_text,
        known.unit,
        name.encode(),
        account.hash.hex().encode(),
    )
    if line[found.end() :] != rest:
        return None
    account.totals, account.reserved = totals, reserved
    known.totals, known.reserved = totals_text, reserved_text
    account.jobs[job] = _ENDED.get(kind, (kind, price))
    account.seq, account.hash = seq, digest.digest()
    return name


# Exports ------------------------------------------------------------------------------------------------------------


def verify(
    lines: Iterable[bytes],
    *,
    public_key: str | Collection[str] | None = None,
    head: Any = None,
    watch: Watch | None = None,
) -> Verified:
    """Check an export, line by line. Broken names the first entry that does not hold.

    `public_key` (base64) is the key that must have signed, or after a rotation several of which one must; without it
    the export's own key is taken, which the caller should compare with one that is known. `head` is an earlier (or
    equal) head of the same tenant, kept elsewhere: every entry that it names must be there.
    """
    source = iter(lines)
    own = _head_of(next(source, b""))
    last = check_head(own, public_key)
    kept: dict[str, tuple[int, str]] = {}
    if head is not None:
        kept = check_head(head, public_key or own["public_key"], kept=True)
        if head["tenant"] != own["tenant"]:
            raise Broken("the kept head is of another tenant")
    account: _Account | None = None
    name = ""
    done: set[str] = set()
    count = 0
    least = 0
    for line in source:
        # The slow way says what is wrong at the ends: the last entry that the signed head names, the one that is kept.
        if account is not None and account.seq + 1 < least and (taken := _take_quickly(account, line)) is not None:
            count += 1
            if watch is not None:
                watch(json.loads(line)["body"], taken)
            continue
        body_bytes, body, digest, previous = _read_entry(line, account)
        if account is None or body["account"] != name:
            if account is not None:
                _check_end(account, last, kept)
                done.add(name)
            if body["account"] in done or body["account"] < name:
                raise Broken("the account comes out of order", body["account"], body["seq"])
            name = body["account"]
            account = _Account({field_name: body[field_name] for field_name in IDENTITY})
        account.expected = None
        seq = account.seq + 1
        try:
            _require(name in last, "the signed head does not know this account")
            _require(body["tenant"] == own["tenant"], "it is of another tenant")
            _require(seq <= last[name][0] or body["seq"] != seq, "the signed head does not reach so far")
            _follow(account, body_bytes, body, digest, previous)
            if name in kept and kept[name][0] == seq:
                _require(kept[name][1] == digest, "the kept head names another entry in this place")
        except _Fault as fault:
            raise Broken(str(fault), name, seq) from None
        except (KeyError, TypeError, ValueError, AttributeError):
            raise Broken("it is not an entry of this format", name, seq) from None
        least = min((at for at in (last[name][0], kept.get(name, (0, ""))[0]) if at > seq), default=0)
        count += 1
        if watch is not None:
            watch(body, digest)
    if account is not None:
        _check_end(account, last, kept)
        done.add(name)
    for missing in sorted((set(last) | set(kept)) - done):
        raise Broken("the entry is missing: the head names it", missing, 1)
    return Verified(own["tenant"], len(done), count, own["hash"], own["public_key"])


def _head_of(line: bytes) -> Any:
    try:
        head = json.loads(line)
        canonical = rfc8785.dumps(head) + b"\n" == line
    except (ValueError, TypeError, RecursionError):
        canonical = False
    if not canonical:
        raise Broken("the first line is not a head in canonical JSON")
    return head


def _read_entry(line: bytes, before: _Account | None) -> tuple[bytes, dict[str, Any], str, str]:
    """Canonical body, body, hash and previous hash of a line."""
    try:
        entry = json.loads(line)
        body = entry["body"]
        body_bytes: bytes = rfc8785.dumps(body)
        digest, previous = entry["hash"], entry["previous_hash"]
        well_formed = (
            set(body) == FIELDS
            and isinstance(body["account"], str)
            and type(body["seq"]) is int
            and _is_hash(digest)
            and _is_hash(previous)
            and entry_line(body_bytes.decode(), bytes.fromhex(digest), bytes.fromhex(previous)) == line
        )
    except (KeyError, ValueError, TypeError, RecursionError):
        well_formed = False
    if not well_formed:
        place = ("", 1) if before is None else (before.identity["account"], before.seq + 1)
        raise Broken("the line after the last good entry is not an entry in canonical JSON", *place)
    return body_bytes, body, digest, previous


def _check_end(account: _Account, last: Mapping[str, tuple[int, str]], kept: Mapping[str, tuple[int, str]]) -> None:
    """An account ends where the signed head says, and not before the kept one."""
    name = account.identity["account"]
    seq, digest = last[name]
    if account.seq < max(seq, kept.get(name, (0, ""))[0]):
        raise Broken("the entry is missing: the head names it", name, account.seq + 1)
    if account.hash.hex() != digest:
        raise Broken("the signed head names another last entry", name, seq)
