#!/usr/bin/env python3
"""Checks certificates, ledgers, transparency logs and federated sessions of discreet with nothing
of discreet: one file, Python's standard library, and `cryptography` for Ed25519. It is written from
docs/ledger.md, docs/transparency.md and docs/protocol.md alone.

    python discreet_verify.py certificate FILE [--ledger EXPORT] [--public-key KEY] [--witness
    NAME+ID+KEY] … python discreet_verify.py ledger EXPORT [--public-key KEY] [--head HEAD.json]
    python discreet_verify.py log FOLDER OLD NEW [--log-key NAME+ID+KEY] [--witness NAME+ID+KEY] …
    python discreet_verify.py session FILE [--owner FINGERPRINT] [--certificate FILE] [--receipt
    FILE] …

Each thing that was looked at gets a line: `holds`, `BROKEN`, or `open` where it could not be. Exit
code 0 when nothing is broken, 1 when something is, 2 for wrong usage.

What it leaves open, and `discreet certificate verify` derives: the curves of mechanisms with a
delta (what their events say that they were charged is compared with the price, and not derived from
their noise), and agents' signatures below transcripts of computations on shares (protocol `mpc`).
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import re
import struct
import sys
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


class Bad(Exception):
    """What was looked at does not hold; the text says why."""


class Check(NamedTuple):
    """One thing that was looked at; `holds` is None where it could not be."""

    name: str
    holds: bool | None
    detail: str


def require(holds, why):
    if not holds:
        raise Bad(why)


# JSON ---------------------------------------------------------------------------------------------

EXACT = 2**53 - 1
"""The largest integer up to which every one is a double of its own."""


def read_json(text):
    """The value of a JSON text that every reader takes for the same: no name twice, no NaN, no half
    of a character."""
    return _read_both(text)[0]


def _read_both(text):
    """The value, and its canonical writing."""

    def once(pairs):
        require(len(dict(pairs)) == len(pairs), "a name appears twice")
        return dict(pairs)

    def never(_):
        raise Bad("JSON has no NaN and no infinities")

    try:
        value = json.loads(text, object_pairs_hook=once, parse_constant=never)
        return value, canonical(value)
    except (ValueError, OverflowError, RecursionError) as error:
        raise Bad(f"this is no JSON: {error}") from None


def canonical(value):
    """The canonical JSON (RFC 8785) of a value, as bytes."""
    return _written(value).encode()


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def _written(value):
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return _number(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, list):
        return f"[{','.join(map(_written, value))}]"
    names = sorted(value, key=lambda name: name.encode("utf-16-be"))
    members = (f"{_quoted(name)}:{_written(value[name])}" for name in names)
    return f"{{{','.join(members)}}}"


def _number(value):
    """As ECMAScript writes the double that a number is: its shortest digits, and where the point
    and exponent go."""
    double = float(value)
    if not math.isfinite(double):
        raise ValueError("JSON has no NaN and no infinities")
    sign, digits, exponent = Decimal(repr(double)).as_tuple()
    text = "".join(map(str, digits)).rstrip("0")
    if not text:
        return "0"
    point = len(digits) + exponent  # digits before it
    if 0 < point <= 21:
        text = text.ljust(point, "0") if len(text) <= point else f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{text}"
    else:
        rest = f".{text[1:]}" if len(text) > 1 else ""
        text = f"{text[0]}{rest}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return f"-{text}" if sign else text


def digest(value):
    return hashlib.sha256(canonical(value)).hexdigest()


def bytes_of(text):
    """What base64 stands for, where it is the one text of these bytes: its last character has bits
    to spare."""
    try:
        found = base64.b64decode(text, validate=True)
    except (ValueError, TypeError):
        raise Bad("this is not base64") from None
    require(base64.b64encode(found).decode() == text, "this is not base64")
    return found


def is_ordinary(point):
    """Whether 32 bytes write a point of Ed25519 in its one form, and none of small order."""
    prime = 2**255 - 19
    eighth = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    y = int.from_bytes(point, "little") % 2**255
    return y < prime and y not in (0, 1, prime - 1, eighth, prime - eighth)


def is_signed(key, signature, message):
    """By the rule of docs/protocol.md, since libraries differ about odd keys and signatures."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return is_ordinary(key) and is_ordinary(signature[:32])


def guarded(name, look):
    """What `look` finds, or that this is broken: whatever strangers write, they get an answer."""
    try:
        return look()
    except Bad as error:
        return [Check(name, False, str(error))]
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
        ArithmeticError,
    ):
        return [Check(name, False, "it is not of the documented format")]


# Prices -------------------------------------------------------------------------------------------

COLUMNS = ("delta", "delta_z", "epsilon", "rho")
UNITS = {"epsilon": 10**9, "delta": 10**18, "rho": 10**18, "delta_z": 10**18}
PURE = {
    "discrete_laplace": "discrete_laplace",
    "exponential": "exponential",
    "laplace": "discrete_laplace_on_grid",
}
"""Mechanisms whose price follows from exact arithmetic, with what their events call the noise."""
EVENT = {"mechanism", "sensitivity", "norm", "noise", "scale", "count", "sampling", "neighbours"}
"""Members of such an event; count, norm, noise and sampling may be missing where they are as
usual."""
MOST_EVENTS = 1000
DIGITS = Context(prec=50)


def amounts(value, columns=COLUMNS):
    """Integers from decimal strings."""
    require(
        isinstance(value, dict) and sorted(value) == sorted(columns),
        "its amounts are not of this format",
    )
    require(
        all(isinstance(one, str) and re.fullmatch("0|[1-9][0-9]*", one) for one in value.values()),
        "its amounts are not of this format",
    )
    return {name: int(text) for name, text in value.items()}


def figure(value):
    require(
        isinstance(value, int | float) and not isinstance(value, bool) and value > 0,
        "the events have no price",
    )
    return Fraction(value)


def price_of(events):
    """What events cost as far as arithmetic tells, by column, and whether that is all: mechanisms
    with a delta say in their events what they were charged, of which epsilon and delta are
    taken."""
    require(isinstance(events, list) and len(events) <= MOST_EVENTS, "the events have no price")
    total, whole = dict.fromkeys(COLUMNS, 0), True
    for given in events:
        require(isinstance(given, dict), "the events have no price")
        event = {"count": 1, **given}
        count = event["count"]
        require(type(count) is int and 1 <= count <= 10**9, "the events have no price")
        if event["mechanism"] in PURE:
            gridded = event["mechanism"] == "laplace"
            chosen = event["mechanism"] == "exponential"
            norm = "score" if chosen else "l1"
            usual = {"norm": norm, "sampling": None, "noise": PURE[event["mechanism"]]}
            event = {**usual, **({"monotone": False} if chosen else {}), **event}
            more = {"dimension", "grid"} if gridded else {"monotone"} if chosen else set()
            require(
                set(event) == EVENT | more
                and {name: event[name] for name in usual} == usual
                and isinstance(event["neighbours"], str)
                and event["neighbours"] != "",
                "the events have no price",
            )
            loss = figure(event["sensitivity"])
            if gridded:
                require(type(event["dimension"]) is int, "the events have no price")
                loss += figure(event["grid"]) * figure(event["dimension"])
            if chosen:
                require(type(event["monotone"]) is bool, "the events have no price")
                loss *= 1 if event["monotone"] else 2
            loss /= figure(event["scale"])
            total["epsilon"] += math.ceil(count * loss * UNITS["epsilon"])
            total["rho"] += math.ceil(count * loss * loss / 2 * UNITS["rho"])
        else:
            whole = False
            charged = amounts(
                {name: event[f"charged_{name}"] for name in ("epsilon", "delta")},
                ("epsilon", "delta"),
            )
            for name, units in charged.items():
                total[name] += units
    return total, whole


def check_price(events, stated):
    """None where the price is all that follows from the events, else the words for what was not
    derived."""
    derived, whole = price_of(events)
    for name in COLUMNS if whole else ("epsilon", "delta"):
        require(
            derived[name] == stated[name],
            f"the events cost {derived[name]} of {name}, not {stated[name]}",
        )
    return (
        None
        if whole
        else "epsilon and delta are what the events say; that their noise is enough was not derived"
    )


def least_epsilon(rho, delta):
    """The least over orders a > 1 of rho a + ln(1 - 1/a) - ln(delta a)/(a - 1), as docs/ledger.md
    says."""
    low, high = -60.0, -math.log(delta)
    for _ in range(
        100
    ):  # of the order's logarithm above 1: rho (a - 1)^2 = -ln(delta a) at the least
        middle = (low + high) / 2
        above = math.exp(middle)
        ahead = rho * above * above < -math.log(delta) - math.log1p(above)
        low, high = (middle, high) if ahead else (low, middle)
    above = Decimal(math.exp(low))
    order, c = above + 1, DIGITS
    cost = c.multiply(Decimal(rho.numerator), c.divide(order, Decimal(rho.denominator)))
    share = c.divide(Decimal(delta.numerator), Decimal(delta.denominator))
    rest = c.subtract(c.ln(c.divide(above, order)), c.divide(c.ln(c.multiply(share, order)), above))
    return c.add(cost, rest)


def check_limits(cap, filters):
    """Whether the filters' limits are those of the cap (integers): `basic` epsilon and half of
    delta; `zcdp`, where a quarter of delta is something, that quarter and the largest rho whose
    epsilon is within the cap's."""
    quarter = cap["delta"] // 4
    names = ("basic", "zcdp") if quarter else ("basic",)
    wrong = "the filters do not follow from the cap"
    require(isinstance(filters, dict) and sorted(filters) == sorted(names), wrong)
    require(
        amounts(filters["basic"], ("epsilon", "delta")) == {**cap, "delta": cap["delta"] // 2},
        wrong,
    )
    if quarter:
        limit = amounts(filters["zcdp"], ("rho", "delta_z"))
        require(limit["delta_z"] == quarter, wrong)
        most, delta = (
            DIGITS.divide(Decimal(cap["epsilon"]), Decimal(10**9)),
            Fraction(quarter, 10**18),
        )
        if delta >= 1:
            return
        if limit["rho"]:
            require(least_epsilon(Fraction(limit["rho"], 10**18), delta) <= most, wrong)
        require(least_epsilon(Fraction(limit["rho"] + 1, 10**18), delta) > most, wrong)


# Ledgers ------------------------------------------------------------------------------------------

IDENTITY = ("account", "tenant", "scope", "subject", "unit")
CHARGES = (
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
BODY = {*IDENTITY, *CHARGES}
OF_BLOCKS = {"blocks", "sums"}
"""What an entry of the chain of a source has more: the blocks that it is about, and what they stand
at after it."""
MOST_BLOCKS = 10_000
HEAD = {"accounts", "format", "hash", "public_key", "seq", "signature", "tenant"}
BEFORE = {"data_touched": "reserve", "commit": "data_touched", "release": "reserve"}
NOTHING = dict.fromkeys(COLUMNS, 0)


def is_hash(text):
    return isinstance(text, str) and re.fullmatch("[0-9a-f]{64}", text) is not None


def check_head(head, keys=(), kept=False):
    """Number and hash of the last entry of each account; Bad unless the head is signed, by one of
    `keys` if any."""
    require(isinstance(head, dict) and set(head) == HEAD, "the head is not of this format")
    listed, tenant = head["accounts"], head["tenant"]
    require(
        head["format"] == "discreet-ledger/1" and isinstance(tenant, str),
        "the head is not of this format",
    )
    for name, seq, found in listed:
        formed = isinstance(name, str) and type(seq) is int and seq > 0 and is_hash(found)
        require(formed, "the head is not of this format")
    names = [row[0] for row in listed]
    require(names == sorted(set(names)), "the head is not of this format")
    require(
        not keys or head["public_key"] in keys,
        "the head is signed by another key than the one that was given",
    )
    message = canonical(listed or [tenant])
    if kept and not listed and head["hash"] == hashlib.sha256(b"[]").hexdigest():
        message = b"[]"  # as old versions signed a tenant without accounts
    signed = is_signed(bytes_of(head["public_key"]), bytes_of(head["signature"]), message)
    require(signed, "the signature of the head is forged")
    require(
        head["hash"] == hashlib.sha256(message).hexdigest(),
        "the head's hash is not that of its list",
    )
    counted = type(head["seq"]) is int and head["seq"] == sum(row[1] for row in listed)
    require(counted, "the head's number is not that of its list")
    return {name: (seq, found) for name, seq, found in listed}


class Account:
    """One chain as far as it was read."""

    def __init__(self, body):
        self.identity = {name: body[name] for name in IDENTITY}
        self.seq, self.hash = 0, bytes(32)
        self.totals, self.reserved, self.cap, self.filters, self.jobs = (
            NOTHING,
            NOTHING,
            None,
            None,
            {},
        )
        self.underived = 0
        self.of_source, self.blocks, self.charged = body["scope"] == "source", {}, {}
        self.limits = {}

    def follow(self, entry, written):
        """The next entry: its place, its hashes, and the rules that it follows. `written`: the
        canonical JSON of its body."""
        body, kind, job = entry["body"], entry["body"]["kind"], entry["body"]["job"]
        require(
            type(body["seq"]) is int and body["seq"] == self.seq + 1,
            "the entry is missing or out of its place",
        )
        require(
            entry["previous_hash"] == self.hash.hex(),
            "its previous hash is not that of the entry before",
        )
        found = hashlib.sha256(self.hash + written)
        require(
            found.hexdigest() == entry["hash"],
            "its hash is not that of its content: it was changed",
        )
        require(
            all(body[name] == self.identity[name] for name in IDENTITY),
            "it belongs to another account",
        )
        spent, held = dict(self.totals), dict(self.reserved)
        if kind in ("open", "grant"):
            require(
                kind == "open" if self.seq == 0 else kind == "grant" or self.of_source,
                "an account is opened once, by its first entry",
            )
            require(
                (job, body["price"], body["events"]) == (None, {}, []),
                "an entry about a cap must have no job, price or events",
            )
            check_limits(amounts(body["cap"], ("epsilon", "delta")), body["filters"])
            if self.of_source:  # of one block, and no job's
                self.cap, self.filters = {}, {}
            else:
                self.cap, self.filters = body["cap"], body["filters"]
        else:
            self._charge(kind, job, body, spent, held)
        require(amounts(body["totals"]) == spent, "the totals are not the sum of the prices")
        require(
            amounts(body["reserved"]) == held,
            "the reserved amounts are not the sum of the open reservations",
        )
        if self.of_source:
            self._follow_blocks(body, kind, job)
        else:
            require(passes(spent, self.filters), "the totals exceed every filter")
        self.totals, self.reserved, self.seq, self.hash = spent, held, self.seq + 1, found.digest()

    def _follow_blocks(self, body, kind, job):
        """What the entry says of its blocks: none is beyond its cap, and all sums are bound."""
        named = numbers_of(body["blocks"])
        if kind == "open":
            require(named == [len(self.blocks) + 1], "it opens another block than the next")
            self.blocks[named[0]] = balances(NOTHING, NOTHING)
        require(named and named[-1] <= len(self.blocks), "it is about a block that does not exist")
        if kind in ("open", "grant"):
            require(len(named) == 1, "it changes the caps of several blocks")
            # Caps of the same amounts have the same limits, which then are one object.
            self.blocks[named[0]]["filters"] = self.limits.setdefault(
                canonical(body["filters"]), body["filters"]
            )
        elif kind == "reserve":
            self.charged[job] = named
        else:
            same = named == self.charged[job]
            require(same, "it is about blocks other than those its job has reserved")
        price = {} if job is None else self.jobs[job][1]
        after, sums = {}, []
        for number in named:
            block = self.blocks[number]
            # Most blocks stand at what others stand at, which is added up and written once.
            case = block["text"], id(block["filters"])
            if case not in after:
                after[case] = moved(block, kind, price)
                require(
                    passes(after[case]["totals"], block["filters"]),
                    f"the totals of block {number} exceed every filter",
                )
            block.update(after[case])
            sums.append(f"[{number},{block['text']}")
        bound = hashlib.sha256(f"[{','.join(sums)}]".encode()).hexdigest() == body["sums"]
        require(bound, "the sums of its blocks are not those of their prices")

    def _charge(self, kind, job, body, spent, held):
        require(self.seq > 0, "an account begins with the entry that opens it")
        require(
            (body["cap"], body["filters"]) == (self.cap, self.filters),
            "the cap changed without a grant",
        )
        require(isinstance(job, str), "it names no job")
        require(kind == "reserve" or kind in BEFORE, "its kind is not known")
        last, price = self.jobs.get(job, (None, NOTHING))
        require(last == BEFORE.get(kind), f"the job's last entry is {last}: no {kind} follows it")
        require(kind == "reserve" or body["events"] == [], "only a reservation has events")
        if kind == "reserve":
            price = amounts(body["price"])
            self.underived += check_price(body["events"], price) is not None
        elif kind == "data_touched":
            require(body["price"] == {}, "touching data has no price of its own")
        else:
            require(amounts(body["price"]) == price, "the price is not the one that was reserved")
        for name in COLUMNS:
            spent[name] += {"reserve": price[name], "release": -price[name]}.get(kind, 0)
            held[name] += {"reserve": price[name], "data_touched": 0}.get(kind, -price[name])
        self.jobs[job] = (kind, price)


def balances(reserved, totals):
    """What a block stands at, and how `sums` write it behind the block's number."""
    texts = (
        "{" + ",".join(f'"{name}":"{one[name]}"' for name in COLUMNS) + "}"
        for one in (reserved, totals)
    )
    return {"reserved": reserved, "totals": totals, "text": f"{','.join(texts)}]"}


def moved(block, kind, price):
    """What a block stands at after an entry of this kind."""
    spent = {"reserve": 1, "release": -1}.get(kind, 0)
    held = {"reserve": 1, "release": -1, "commit": -1}.get(kind, 0)
    if not spent and not held:
        return {name: block[name] for name in ("reserved", "totals", "text")}
    return balances(
        {name: block["reserved"][name] + held * price[name] for name in COLUMNS},
        {name: block["totals"][name] + spent * price[name] for name in COLUMNS},
    )


def passes(spent, filters):
    """Whether the sums are within one filter."""
    return any(
        all(spent[name] <= int(most) for name, most in one.items()) for one in filters.values()
    )


def numbers_of(runs):
    """The blocks that an entry names by the first and last of each run of neighbours, in order."""
    found = []
    for first, last in runs:
        formed = type(first) is int and type(last) is int and first <= last
        require(
            formed and first > (found[-1] + 1 if found else 0),
            "runs of blocks are in order and do not touch",
        )
        require(len(found) + last - first < MOST_BLOCKS, "it is about too many blocks")
        found += range(first, last + 1)
    return found


def whole_numbers(value):
    """Whether no integer is beyond what every reader keeps apart."""
    if isinstance(value, dict | list):
        return all(map(whole_numbers, value.values() if isinstance(value, dict) else value))
    return not isinstance(value, int) or abs(value) <= EXACT


def line_of(line, members):
    """The object of a line, which must be its one canonical writing."""
    value, written = _read_both(line)
    require(
        isinstance(value, dict) and set(value) == members,
        "the line has other members than its format",
    )
    require(written + b"\n" == line and whole_numbers(value), "the line is not canonical JSON")
    return value


def check_ledger(lines, keys=(), head=None, watch=None):
    """Checks of an export, from its lines. `watch` is called with each entry that holds."""
    place = "the head"
    try:
        lines = iter(lines)
        own = line_of(next(lines, b""), HEAD)
        last = check_head(own, keys)
        kept = {} if head is None else check_head(head, keys or (own["public_key"],), kept=True)
        require(
            head is None or head["tenant"] == own["tenant"], "the kept head is of another tenant"
        )
        accounts, account, name = {}, None, ""
        for line in lines:
            place = (
                "the first entry"
                if account is None
                else f"entry {account.seq + 1} of account {name}"
            )
            entry = line_of(line, {"body", "hash", "previous_hash"})
            body = entry["body"]
            hashes = {name: entry[name] for name in ("hash", "previous_hash")}
            # What a canonical line has before and behind its body.
            written = line[len(b'{"body":') : -len(b"," + canonical(hashes)[1:] + b"\n")]
            require(
                set(body) == (BODY | OF_BLOCKS if body["scope"] == "source" else BODY)
                and isinstance(body["account"], str),
                "it is not an entry in this format",
            )
            if account is None or body["account"] != name:
                if account is not None:
                    _check_end(account, name, last, kept)
                require(
                    body["account"] > name and body["account"] not in accounts,
                    "the account comes out of order",
                )
                name, account = body["account"], Account(body)
                accounts[name] = account
                place = f"entry 1 of account {name}"
            require(name in last, "the signed head does not know this account")
            require(body["tenant"] == own["tenant"], "it is of another tenant")
            account.follow(entry, written)
            require(account.seq <= last[name][0], "the signed head does not reach so far")
            if kept.get(name, (0,))[0] == account.seq:
                require(
                    kept[name][1] == entry["hash"],
                    "the kept head names another entry in this place",
                )
            if watch is not None:
                watch(entry)
        place = "the end"
        if account is not None:
            _check_end(account, name, last, kept)
        require(set(last) | set(kept) <= set(accounts), "an account that the head names is missing")
    except Bad as error:
        return [Check("ledger", False, f"{place}: {error}")]
    except (
        KeyError,
        TypeError,
        ValueError,
        AttributeError,
        OverflowError,
        RecursionError,
        ArithmeticError,
    ):
        return [Check("ledger", False, f"{place}: it is not of the documented format")]
    entries, open_prices = (
        sum(one.seq for one in accounts.values()),
        sum(one.underived for one in accounts.values()),
    )
    found = [
        Check("ledger", True, f"{entries} entries of {len(accounts)} accounts of {own['tenant']}")
    ]
    if open_prices:
        found.append(
            Check(
                "prices",
                None,
                f"of {open_prices} reservations the noise was not derived: delta is not 0",
            )
        )
    return found


def _check_end(account, name, last, kept):
    seq, found = last[name]
    require(
        account.seq >= max(seq, kept.get(name, (0,))[0]),
        f"the next entry of {name} is missing: the head names it",
    )
    require(account.hash.hex() == found, f"the signed head names another last entry of {name}")


# The transparency log -----------------------------------------------------------------------------


def leaf_hash(entry):
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left, right):
    return hashlib.sha256(b"\1" + left + right).digest()


def root_of(hashes):
    """The root over these leaves' hashes: pairs, level by level, the last one alone where it has no
    neighbour."""
    if not hashes:
        return hashlib.sha256().digest()
    while len(hashes) > 1:
        pairs = [node_hash(*hashes[at : at + 2]) for at in range(0, len(hashes) - 1, 2)]
        hashes = pairs + hashes[len(pairs) * 2 :]
    return hashes[0]


def root_by_nodes(leaves, size, nodes):
    """The root to which a proof of these leaves, hashes by number, leads in a tree of `size`; Bad
    unless it has just the nodes that the numbers and the size call for."""
    require(
        leaves and all(type(one) is int and 0 <= one < size for one in leaves),
        "the log has no leaf of this number",
    )
    top, wanted, on_path = (size - 1).bit_length(), [], sorted(leaves)
    for level in range(top):
        last = (size - 1) >> level
        here = set(on_path)
        wanted += [(level, at ^ 1) for at in on_path if at ^ 1 not in here and at ^ 1 <= last]
        on_path = sorted({at >> 1 for at in on_path})
    require(len(nodes) == len(wanted), f"the proof has {len(nodes)} nodes, not {len(wanted)}")
    known = {(0, number): leaf for number, leaf in leaves.items()}
    known.update(zip(wanted, nodes, strict=True))

    def node(level, at):
        if (level, at) in known:
            return known[level, at]
        left, right = node(level - 1, 2 * at), 2 * at + 1
        return left if right > (size - 1) >> level - 1 else node_hash(left, node(level - 1, right))

    return node(top, 0)


class Key(NamedTuple):
    """A verifier key, `name+id+key`: of a log (type 1) or of a witness (type 4)."""

    name: str
    kind: int
    key: bytes

    @property
    def id(self):
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.key).digest()[
            :4
        ]

    @classmethod
    def read(cls, text):
        name, _, rest = text.strip().partition("+")
        number, _, typed = rest.partition("+")
        typed = bytes_of(typed)
        require(
            re.fullmatch(r"[^\s+]+", name) and len(typed) == 33 and typed[0] in (1, 4),
            "a key is name+id+key",
        )
        found = cls(name, typed[0], typed[1:])
        require(found.id.hex() == number, "the id of the key is not that of its name and key")
        return found


class Checkpoint(NamedTuple):
    """A signed note of a log's size and root."""

    origin: str
    size: int
    root: bytes
    text: str
    lines: list

    @classmethod
    def read(cls, note):
        require(isinstance(note, str) and len(note) <= 64_000, "this is no checkpoint")
        text, found, below = note.rpartition("\n\n")
        lines = below.split("\n")
        require(
            found and len(lines) > 1 and lines.pop() == "",
            "a note is a text, an empty line and signature lines",
        )
        parts = text.split("\n")
        require(
            len(parts) >= 3 and all(parts),
            "a checkpoint begins with its origin, its size and its root",
        )
        require(
            re.fullmatch("0|[1-9][0-9]{0,17}", parts[1]), "the size of a checkpoint is a number"
        )
        root = bytes_of(parts[2])
        require(len(root) == 32, "the root of a checkpoint has 32 bytes")
        return cls(parts[0], int(parts[1]), root, text + "\n", [cls._line(line) for line in lines])

    @staticmethod
    def _line(line):
        found = re.fullmatch(r"— ([^\s+]+) (\S+)", line)
        require(found, "a signature line is `— name signature`")
        blob = bytes_of(found[2])
        require(len(blob) > 4, "a signature line is `— name signature`")
        return found[1], blob

    def is_signed(self, key):
        """Whether this key has signed it; Bad where a line that names the key is forged."""
        found = False
        for name, blob in self.lines:
            if name != key.name or blob[:4] != key.id:
                continue
            signature, message = blob[4:], self.text
            if key.kind == 4:
                require(len(signature) == 72, f"the signature of {name} is not of this format")
                message = f"cosignature/v1\ntime {struct.unpack('>Q', signature[:8])[0]}\n{message}"
                signature = signature[8:]
            require(
                is_signed(key.key, signature, message.encode()),
                f"the signature of {name} is forged",
            )
            found = True
        return found


def check_witnesses(checkpoint, witnesses, needed):
    if not witnesses:
        return Check("witnesses", None, "not checked: no witness's key was given")
    signed = [one.name for one in witnesses if checkpoint.is_signed(one)]
    enough = len(signed) >= max(needed if needed is not None else len(witnesses), 1)
    return Check(
        "witnesses",
        enough,
        f"{len(signed)} of {len(witnesses)} have signed: {', '.join(signed) or 'none'}",
    )


def check_log(folder, old, new, keys=(), witnesses=(), needed=None):
    """Whether two checkpoints are of one log that has only grown, from its tiles of level 0
    (`FOLDER/0/000`, …), and of its entries where `FOLDER/entries` is there."""

    def look():
        before, after = sorted(
            (Checkpoint.read(old), Checkpoint.read(new)), key=lambda one: one.size
        )
        require(before.origin == after.origin, "the checkpoints are of two logs")
        for one in keys:
            signed = all(point.is_signed(one) for point in (before, after))
            require(signed, f"{one.name} has not signed both checkpoints with this key")
        hashes = _hashes(Path(folder), after.size)
        for point in (before, after):
            found = root_of(hashes[: point.size])
            require(
                found == point.root,
                f"the root of {point.size} entries is another one: what was there was changed",
            )
        grown = (
            f"{after.origin} has grown from {before.size} to {after.size} entries, and nothing "
            "was changed"
        )
        return [Check("log", True, grown), check_witnesses(after, witnesses, needed)]

    return guarded("log", look)


def _hashes(folder, size):
    found = []
    for number in range(-(-size // 256)):
        wide = min(256, size - 256 * number)
        tile = _tile(folder / "0", number, wide)
        require(
            tile is not None and len(tile) >= 32 * wide,
            f"tile {number} of level 0 is not there, or cut off",
        )
        hashes = [tile[32 * at : 32 * at + 32] for at in range(wide)]
        bundle = _tile(folder / "entries", number, wide)
        if bundle is not None:
            entries = []
            while bundle and len(entries) < wide:
                length = int.from_bytes(bundle[:2], "big")
                require(len(bundle) >= 2 + length, f"the entries of tile {number} are cut off")
                entries.append(bundle[2 : 2 + length])
                bundle = bundle[2 + length :]
            require(
                [leaf_hash(one) for one in entries] == hashes,
                f"the entries of tile {number} are not its leaves",
            )
        found += hashes
    return found


def _tile(folder, number, wide):
    """The bytes of a tile: whole, or partial of at least this width."""
    groups = f"{number:03}" if number < 1000 else None
    while groups is None or number >= 1000:
        groups = (
            f"x{number // 1000:03}/{number % 1000:03}"
            if groups is None
            else f"x{number // 1000:03}/{groups}"
        )
        number //= 1000
    for name in (groups, *(f"{groups}.p/{width}" for width in range(wide, 256))):
        if (folder / name).is_file():
            return (folder / name).read_bytes()
    return None


# Certificates -------------------------------------------------------------------------------------

NEEDED = ("events", "guarantee", "price", "public_key", "signature")
FOLLOWED = ("job", "release_digest", "guarantee", "price", "ledger_entry", "public_key")
FREE = ("none", "cryptographic")


def check_certificate(body, keys=()):
    """Signature, price and guarantee of a certificate, from it alone."""
    if not isinstance(body, dict):
        return [Check("signature", False, "this is no certificate")]
    found = guarded("signature", lambda: [_check_signature(body, keys)])
    if not found[0].holds:
        return [*found, Check("price", None, "not checked, because the signature does not hold")]
    return [*found, *guarded("price", lambda: _check_guarantee(body)), *_transcript(body)]


def _check_signature(body, keys):
    require(all(name in body for name in NEEDED), "this is no whole certificate")
    unsigned = {name: value for name, value in body.items() if name not in ("signature", "proofs")}
    signed = is_signed(
        bytes_of(body["public_key"]), bytes_of(body["signature"]), canonical(unsigned)
    )
    require(signed, "the signature is not that of this content")
    require(
        not keys or body["public_key"] in keys, "signed by another key than the one that was given"
    )
    return Check("signature", True, f"signed by {body['public_key']}")


def _check_guarantee(body):
    price, guarantee, events = amounts(body["price"]), body["guarantee"], body["events"]
    kind, told = guarantee["type"], (guarantee.get("epsilon"), guarantee.get("delta"))
    left_open = check_price(events, price)
    found = [Check("price", None if left_open else True, left_open or "it is what the events cost")]
    exact = tuple(price[name] / UNITS[name] for name in ("epsilon", "delta"))
    if kind == "none":
        expected = (kind, (None, None))
    elif "follows_from" in body and not events:
        expected = ("post_processing", (0, 0))
    elif not events:
        expected = ("cryptographic", (None, None))
    else:
        expected = ("pure_dp" if price["delta"] == 0 else "approximate_dp", exact)
    return [
        *found,
        Check(
            "guarantee", (kind, told) == expected, f"{kind} with epsilon {told[0]}, delta {told[1]}"
        ),
    ]


def _transcript(body):
    section = body.get("cryptographic")
    if isinstance(section, dict) and "signatures" in section:
        if section.get("protocol") != SUMS:
            return [
                Check(
                    "transcript",
                    None,
                    "agents' signatures of this protocol are not looked at by this verifier",
                )
            ]
        return guarded("transcript", lambda: [_check_sums(section)])
    claimed = section is not None and body["guarantee"]["type"] == "cryptographic"
    return [Check("transcript", False, "no agent has signed the transcript")] if claimed else []


SUMS = "discreet/secure-sum/v2"


def _check_sums(section):
    """Whether every agent of a session of encrypted sums has signed how its transcript ends: the
    frame TRANSCRIPT."""
    text = section["roster"].encode()
    roster = read_json(text)
    require(
        json.dumps(roster, sort_keys=True, separators=(",", ":")).encode() == text,
        "the roster is not canonical",
    )
    require(roster["protocol"] == SUMS and roster["members"], "the roster is of another protocol")
    settled = section.get("settled")
    verdict = b"" if settled is None else b"settled" if settled else b"unsettled"
    payload = bytes.fromhex(section["transcript"]) + verdict
    context = (
        SUMS.encode()
        + hashlib.sha256(roster["job"].encode()).digest()
        + hashlib.sha256(text).digest()
    )
    end = (
        b"".join(map(bytes.fromhex, (section["key"], section["last_sum"])))
        + hashlib.sha256(payload).digest()
    )
    signatures, left = section["signatures"], []
    for place, member in enumerate(roster["members"]):
        header = struct.pack(">BIIH", 14, section["epoch"], section["round"], place)
        signature = bytes.fromhex(signatures.get(member, ""))
        if not is_signed(bytes.fromhex(member), signature, context + header + end):
            left.append(member)
    return Check(
        "transcript",
        not left,
        f"not signed by {', '.join(left)}" if left else "signed by all agents",
    )


def check_result(whole, body, tables):
    """What the certificate binds, compared with what stands beside it: `whole` has `result` and
    `job`, if anything."""
    job = whole.get("job") if isinstance(whole.get("job"), dict) else None
    if job is not None and str(job.get("id")) != body.get("job"):
        return [Check("result", False, "the certificate is of another job")]
    bound, named = body.get("result_digest"), body.get("tables")
    if bound is None and named is None:
        return [Check("result", None, "this certificate binds no result")]
    if not isinstance(bound, str) or not isinstance(named, dict):
        return [Check("result", False, "the digests of the certificate are not of this format")]
    there = "result" in whole
    found = [
        Check("result", digest(whole["result"]) == bound if there else None, f"SHA-256 {bound}")
    ]
    for name in sorted({*named, *tables}):
        same = (
            None
            if name in named and name not in tables
            else name in named and named[name] == tables[name]
        )
        found.append(Check("table", same, name))
    if job is not None and "problem_digest" in body and job.get("problem") is not None:
        found.append(
            Check("problem", digest(job["problem"]) == body["problem_digest"], "what was asked")
        )
    if job is not None and there and "headline_digest" in body and job.get("headline") is not None:
        text = job["headline"].encode() if isinstance(job["headline"], str) else b"\0"
        same = (
            hashlib.sha256(canonical(whole["result"]) + b"\0" + text).hexdigest()
            == body["headline_digest"]
        )
        found.append(Check("headline", same, "the sentence that lists show"))
    return found


def check_proofs(body, keys=(), witnesses=(), needed=None):
    """Whether the log holds the ledger entries that the certificate names."""
    named = body.get("ledger_entry")
    if not isinstance(named, list) or not named:
        return []
    if "proofs" not in body:
        return [Check("log", None, "no proofs stand beside this certificate")]

    def look():
        proofs = body["proofs"]
        point = Checkpoint.read(proofs["checkpoint"])
        if "leaves" in proofs:
            _require_together(named, proofs, point)
        else:
            _require_each(named, proofs["entries"], point)
        known = {body["public_key"], *keys}
        by_service = [point.is_signed(Key(point.origin, 1, bytes_of(key))) for key in known]
        size = f"{point.origin} of {point.size} entries"
        if any(by_service):
            log = Check("log", True, f"its ledger entries are in the log {size}")
        else:
            log = Check(
                "log", None, f"its ledger entries are in {size}, signed by a key that was not given"
            )
        return [log, check_witnesses(point, witnesses, needed)]

    return guarded("log", look)


def _require_together(named, proofs, point):
    """One proof of all entries, whose leaves come in the order of the entries."""
    leaves, nodes = proofs["leaves"], proofs["nodes"]
    formed = set(proofs) == {"checkpoint", "leaves", "nodes"}
    formed = formed and isinstance(leaves, list) and isinstance(nodes, str)
    require(formed, "the proof is not of this format")
    require(len(leaves) == len(named), "it has not as many leaves as there are entries")
    nodes = bytes_of(nodes)
    require(len(nodes) % 32 == 0, "a hash has 32 bytes")
    nodes = [nodes[at : at + 32] for at in range(0, len(nodes), 32)]
    hashes = {}
    for entry, leaf in zip(named, leaves, strict=True):
        require(set(leaf) == {"number", "salt"}, "a leaf is not of this format")
        require(leaf["number"] not in hashes, "two entries have one leaf")
        hashes[leaf["number"]] = _leaf(entry, leaf)
    found = root_by_nodes(hashes, point.size, nodes)
    require(found == point.root, "the proof does not lead to the root")


def _require_each(named, shown, point):
    """A path for each entry, as older certificates have them."""
    proofs = {(one["account"], one["seq"]): one for one in shown}
    for entry in named:
        proof = proofs.get((entry["account"], entry["seq"]))
        require(
            proof is not None, f"no proof of entry {entry['seq']} of account {entry['account']}"
        )
        require(len(proof["path"]) <= 64, "a proof is not of this format")
        leaf = {proof["number"]: _leaf(entry, proof)}
        path = [bytes_of(one) for one in proof["path"]]
        require(all(len(one) == 32 for one in path), "a hash has 32 bytes")
        found = root_by_nodes(leaf, point.size, path)
        require(found == point.root, "the path does not lead to the root")


def _leaf(entry, proof):
    """The hash of the leaf that an entry has with this salt."""
    require(is_hash(entry["hash"]), "the hash of an entry is not of this format")
    salt = bytes_of(proof["salt"])
    require(len(salt) == 16, "a proof is not of this format")
    return leaf_hash(hashlib.sha256(salt + bytes.fromhex(entry["hash"])).digest())


def check_inclusion(body, entries):
    """Whether the ledger charged what the certificate names. `entries`: those of its job, as the
    export has them."""
    kind, named = body["guarantee"]["type"], body["ledger_entry"]
    places = {(one["account"], one["seq"]): one["hash"] for one in named}
    if kind in FREE or kind == "post_processing":
        return [Check("inclusion", not places and not entries, "no account is charged")]
    commits = {
        (one["body"]["account"], one["body"]["seq"]): one["hash"]
        for one in entries
        if one["body"]["kind"] == "commit"
    }
    require(places, "the certificate names no ledger entries")
    require(len(places) == len(named), "the certificate names an entry twice")
    require(places == commits, "the ledger charged other entries than the certificate names")
    charged = {
        (one["body"]["account"], one["body"]["seq"]): one["body"]["blocks"]
        for one in entries
        if one["body"]["kind"] == "commit" and "blocks" in one["body"]
    }
    said = {(one["account"], one["seq"]): one["blocks"] for one in named if "blocks" in one}
    require(charged == said, "the ledger charged other blocks than the certificate says")
    if charged:
        many = sum(last - first + 1 for runs in charged.values() for first, last in runs)
        many += sum(
            one["body"]["kind"] == "commit"
            and one["body"]["scope"] == "data"
            and "blocks" not in one["body"]
            for one in entries
        )
        read = len(body["source"]["blocks"])
        require(many == read, f"the ledger charged {many} blocks, the certificate names {read}")
    for one in entries:
        if one["body"]["kind"] == "reserve":
            same = (one["body"]["events"], one["body"]["price"]) == (body["events"], body["price"])
            require(same, "an account reserved for other events or another price")
    return [
        Check("inclusion", True, f"{len(places)} ledger entries, for the same events and price")
    ]


def check_followed(body, firsts):
    """Of what was asked again: whether it says of each first job what that job's own certificate
    says."""
    if "follows_from" not in body:
        return []
    releases = body["follows_from"]["releases"]
    own, found = {first["job"]: first for first in firsts if isinstance(first.get("job"), str)}, []
    require(releases, "it does not say what it follows from")
    require(
        len(own) == len(firsts), "one of those given is not a job's certificate, or was given twice"
    )
    for said in releases:
        first = own.pop(said["job"], None)
        if first is None:
            says = f"the certificate of {said['job']} was not given (--with FILE)"
            found.append(Check("release", None, says))
            continue
        holds = all(one.holds is not False for one in check_certificate(first))
        same = all(name in first and said[name] == first[name] for name in FOLLOWED)
        found.append(Check("release", holds and same, f"follows from what {said['job']} released"))
    return found + [Check("release", False, f"it does not follow from {job}") for job in own]


PAYLOAD, STATEMENT = "application/vnd.in-toto+json", "https://in-toto.io/Statement/v1"
CERTIFICATE, HEAD_OF_LEDGER = "urn:discreet:certificate:v1", "urn:discreet:ledger-head:v1"
SESSION, RECEIPT = "urn:discreet:session:v1", "urn:discreet:receipt:v1"


def said_in(envelope):
    """The statement in a DSSE envelope."""
    require(set(envelope) == {"payload", "payloadType", "signatures"}, "this is no envelope")
    require(envelope["payloadType"] == PAYLOAD, "the payload of the envelope is of another type")
    payload = bytes_of(envelope["payload"])
    said = read_json(payload)
    require(canonical(said) == payload, "the payload is not canonical JSON")
    return said


def opened(envelope, wanted=CERTIFICATE):
    """The predicate of a statement of this type, which must be about just what the predicate
    names."""
    said = said_in(envelope)
    body = said["predicate"]
    subject = [
        {"name": name, "digest": {"sha256": one}} for name, one in SUBJECTS[wanted](body).items()
    ]
    expected = {"_type": STATEMENT, "subject": subject, "predicateType": wanted, "predicate": body}
    require(
        said == expected, "the statement is of another type, or of something else than it is about"
    )
    return body


def _subject_of_certificate(body):
    digests = {f"{body['job']}/result": body["result_digest"]}
    return digests | {
        f"{body['job']}/result/{name}": body["tables"][name] for name in sorted(body["tables"])
    }


def _subject_of_session(body):
    digests = {f"{body['job']}/roster": hashlib.sha256(body["roster"].encode()).hexdigest()}
    return (
        digests
        if body["transcript"] is None
        else digests | {f"{body['job']}/transcript": body["transcript"]}
    )


def _subject_of_receipt(body):
    return {
        f"{body['job']}/charge/{body['agent']}": hashlib.sha256(body["charge"].encode()).hexdigest()
    }


SUBJECTS = {
    CERTIFICATE: _subject_of_certificate,
    HEAD_OF_LEDGER: lambda body: {f"{body['tenant']}/ledger": body["hash"]},
    SESSION: _subject_of_session,
    RECEIPT: _subject_of_receipt,
}


def check_envelope(envelope, body, keys=()):
    def look():
        payload = bytes_of(envelope["payload"])
        message = b"DSSEv1 %d %s %d %s" % (len(PAYLOAD), PAYLOAD.encode(), len(payload), payload)
        known = {
            hashlib.sha256(one).hexdigest(): one
            for one in map(bytes_of, {*keys, body["public_key"]})
        }
        signed = False
        for one in envelope["signatures"]:
            if one["keyid"] in known:
                held = is_signed(known[one["keyid"]], bytes_of(one["sig"]), message)
                require(held, "a signature of the envelope is not that of its payload")
                signed = True
        return [
            Check(
                "envelope",
                True if signed else None,
                f"signed by {'a' if signed else 'no'} key that is known",
            )
        ]

    return guarded("envelope", look)


# Federated sessions -------------------------------------------------------------------------------


def signed_words(purpose, *fields):
    """What a signature of the protocol covers (docs/protocol.md, "Statements")."""
    parts = (b"discreet/federation/v1", purpose, *fields)
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def check_session(envelope, keys=(), *, owner=None, agent=None, certificate=None, receipts=()):
    """All checks of a session's head, or of an agent's receipt."""
    receipt = _is_receipt(envelope)
    body = _statement(envelope, RECEIPT if receipt else SESSION)
    if receipt:
        return check_receipt(envelope, body, keys, agent)
    found = [
        _own_envelope(envelope, body, keys),
        *guarded("roster", lambda: [_check_roster(body, owner)]),
    ]
    if found[-1].holds:
        found += guarded("receipts", lambda: [_check_receipts(body)])
    if certificate is not None:
        found += guarded("certificate", lambda: [_check_session_of(body, certificate)])
    for one in receipts:
        own = _statement(one, RECEIPT)
        looked = check_receipt(one, own, keys)
        found += looked
        if any(part.holds is False for part in looked):
            continue
        held = [other for other in body["receipts"] if other.get("agent") == own.get("agent")]
        same = held == [{**own["entry"], "agent": own["agent"], "charge": own["charge"]}]
        found.append(Check("receipt", same, f"the session holds {'it' if same else 'another'}"))
    return found


def _is_receipt(envelope):
    try:
        return said_in(envelope)["predicateType"] == RECEIPT
    except (KeyError, TypeError, AttributeError, ValueError):
        return False


def _statement(envelope, wanted):
    try:
        return opened(envelope, wanted)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        raise Bad(f"this is no envelope of {wanted}") from None


def check_receipt(envelope, body, keys=(), agent=None):
    """Who has signed an agent's receipt, the charge in it, and the entry of the agent's ledger."""

    def look():
        key, charge = bytes_of(body["public_key"]), read_json(body["charge"])
        require(
            hashlib.sha256(key).hexdigest() == body["agent"] and agent in (None, body["agent"]),
            "of another agent",
        )
        require(
            all(charge[one] == body[one] for one in ("session", "job", "agent")),
            "it belongs to another session",
        )
        by_server = signed_words(b"Charge", hashlib.sha256(body["charge"].encode()).digest())
        signed = is_signed(
            bytes_of(body["server_key"]), bytes_of(body["server_signature"]), by_server
        )
        require(signed, "the server has not signed the charge")
        _require_entry(body["entry"], body["charge"], key)
        require(type(body["given_back"]) is bool, "it does not say whether it was given back")
        known = True if not keys or body["server_key"] in keys else None
        return [
            Check("charge", known, "signed by the server"),
            Check("entry", True, f"of the agent {body['agent']}"),
        ]

    return [_own_envelope(envelope, body), *guarded("receipt", look)]


def _own_envelope(envelope, body, keys=()):
    if keys and body.get("public_key") not in keys:
        return Check("envelope", False, "signed by another key than the one that was given")
    (found,) = check_envelope(envelope, body)
    return found._replace(holds=bool(found.holds))


def _require_entry(entry, charge, key):
    """Bad unless the agent has signed an entry of its ledger that holds this charge."""
    require(
        is_hash(entry["link"]) and type(entry["seq"]) is int,
        "the entry is not of the documented format",
    )
    digest_of_charge = hashlib.sha256(charge.encode()).digest()
    booked = hashlib.sha256(
        bytes.fromhex(entry["link"]) + entry["seq"].to_bytes(8, "big") + digest_of_charge
    )
    require(booked.hexdigest() == entry["hash"], "the entry holds another charge")
    signed = is_signed(
        key, bytes_of(entry["signature"]), signed_words(b"LedgerEntry", booked.digest())
    )
    require(signed, "the agent has not signed the entry")


def _members(roster):
    keys = {one["fingerprint"]: bytes_of(one["key"]) for one in roster["agents"]}
    require(len(keys) == len(roster["agents"]), "an agent appears twice")
    return keys


def _check_roster(body, owner):
    key, roster = bytes_of(body["owner_key"]), read_json(body["roster"])
    words = signed_words(b"Roster", hashlib.sha256(body["roster"].encode()).digest())
    require(
        is_signed(key, bytes_of(body["roster_signature"]), words),
        "the owner has not signed this roster",
    )
    own = hashlib.sha256(key).hexdigest()
    require(owner in (None, own), "it is signed by another owner than the one that was given")
    require(
        all(roster[one] == body[one] for one in ("session", "job", "kind")),
        "it is the roster of another session",
    )
    keys = _members(roster)
    require(
        all(hashlib.sha256(one).hexdigest() == name for name, one in keys.items()),
        "a key has another fingerprint",
    )
    return Check("roster", True, f"{len(keys)} agents, signed by the owner {own}")


def _check_receipts(body):
    keys, held = _members(read_json(body["roster"])), 0
    found = {one["agent"]: one for one in body["receipts"]}
    require(
        len(found) == len(body["receipts"]) and set(found) <= set(keys),
        "a receipt is of no agent of the roster",
    )
    for name, receipt in found.items():
        if "link" in receipt:
            charge = read_json(receipt["charge"])
            own = (charge["session"], charge["job"], charge["agent"]) == (
                body["session"],
                body["job"],
                name,
            )
            require(own, "a charge is of another session, or another agent")
            _require_entry(receipt, receipt["charge"], keys[name])
            held += 1
    return Check(
        "receipts",
        True if held == len(keys) else None,
        f"{held} of {len(keys)} agents' receipts hold",
    )


def _check_session_of(body, certificate):
    said = certificate["federation"]
    same = {
        "session": body["session"],
        "roster": hashlib.sha256(body["roster"].encode()).hexdigest(),
        "owner": hashlib.sha256(bytes_of(body["owner_key"])).hexdigest(),
        "agents": len(read_json(body["roster"])["agents"]),
        "rounds": body["rounds"],
        "transcript": body["transcript"],
    }
    require(certificate["job"] == body["job"], "it is of another job")
    require(
        all(said[name] == figure for name, figure in same.items()), "it belongs to another session"
    )
    accounts = {one["account"] for one in certificate["ledger_entry"]}
    for receipt in body["receipts"]:
        charge = read_json(receipt["charge"])
        if charge["entry"] is not None:
            priced = all(
                charge["price"][one] == certificate["price"][one] for one in ("epsilon", "delta")
            )
            require(priced and charge["account"] in accounts, "an agent was charged otherwise")
    return Check("certificate", True, "it names this session's roster, owner, transcript and price")


def certificate_of(whole):
    if isinstance(whole, dict) and "payloadType" in whole:
        try:
            return opened(whole)
        except (KeyError, TypeError, AttributeError, ValueError):
            raise Bad("this is no envelope of a certificate") from None
    body = whole.get("certificate", whole) if isinstance(whole, dict) else None
    require(isinstance(body, dict), "this is no certificate")
    return body


def check_whole(whole, keys=(), *, tables=None, witnesses=(), needed=None, firsts=(), ledger=None):
    """All checks of a certificate, or of a result with its certificate."""
    body = certificate_of(whole)
    found = check_envelope(whole, body, keys) if "payloadType" in whole else []
    found += check_certificate(body, keys)
    found += guarded("release", lambda: check_followed(body, firsts))
    found += guarded(
        "result",
        lambda: check_result(
            {} if body is whole or "payloadType" in whole else whole, body, tables or {}
        ),
    )
    found += check_proofs(body, keys, witnesses, needed)
    if ledger is not None:
        entries = {str(one.get("job")): [] for one in (body, *firsts)}

        def watch(entry):
            entries.get(entry["body"]["job"], []).append(entry)

        export = check_ledger(
            ledger, keys or [key for key in [body.get("public_key")] if key], watch=watch
        )
        if any(one.holds is False for one in export):
            return [*found, *(one._replace(name="inclusion") for one in export)]
        for one in (body, *firsts):
            found += guarded(
                "inclusion", lambda one=one: check_inclusion(one, entries[str(one.get("job"))])
            )
    return found


# The command --------------------------------------------------------------------------------------


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    kinds = parser.add_subparsers(dest="what", required=True)
    certificate = kinds.add_parser(
        "certificate", help="a certificate, or a result with its certificate"
    )
    certificate.add_argument("file", type=Path)
    certificate.add_argument("--ledger", type=Path, help="an export that must hold its entries")
    certificate.add_argument("--result", type=Path, help="the result (JSON), unless FILE has it")
    certificate.add_argument(
        "--table", action="append", default=[], metavar="NAME=FILE", help="a Parquet file"
    )
    certificate.add_argument(
        "--with", dest="firsts", type=Path, action="append", default=[], help="a first job's"
    )
    ledger = kinds.add_parser("ledger", help="an export of a ledger")
    ledger.add_argument("file", type=Path)
    ledger.add_argument("--head", type=Path, help="a head that was kept elsewhere")
    session = kinds.add_parser(
        "session", help="the head of a federated session, or an agent's receipt"
    )
    session.add_argument("file", type=Path)
    session.add_argument("--owner", help="fingerprint of the owner who must have signed")
    session.add_argument(
        "--agent", help="for a receipt: fingerprint of the agent that must have signed it"
    )
    session.add_argument("--certificate", type=Path, help="a certificate of the same session")
    session.add_argument(
        "--receipt", type=Path, action="append", default=[], help="a receipt from an agent"
    )
    log = kinds.add_parser("log", help="two checkpoints and the tiles between them")
    log.add_argument("folder", type=Path, help="tiles as /v1/log/tile/ has them")
    log.add_argument("old", type=Path)
    log.add_argument("new", type=Path)
    log.add_argument("--log-key", action="append", default=[], metavar="NAME+ID+KEY")
    for one in (certificate, ledger, session):
        one.add_argument(
            "--public-key",
            action="append",
            default=[],
            help="base64; the key that must have signed",
        )
    for one in (certificate, log):
        one.add_argument("--witness", action="append", default=[], metavar="NAME+ID+KEY")
        one.add_argument("--witnesses-needed", type=int)
    for one in (certificate, ledger, log, session):
        one.add_argument("--json", action="store_true", help="for programs")
    chosen = parser.parse_args(arguments)
    try:
        found = _run(chosen)
    except (Bad, OSError) as error:
        found = [Check("file", False, str(error))]
    valid = all(one.holds is not False for one in found)
    if chosen.json:
        print(json.dumps({"valid": valid, "checks": [one._asdict() for one in found]}))
    else:
        for one in found:
            print(
                {True: "holds ", False: "BROKEN", None: "open  "}[one.holds],
                f"{one.name}: {one.detail}",
            )
    return 0 if valid else 1


def _head(whole, keys):
    """A kept head, as it is or in an envelope that its key, or one of these, has signed."""
    if not isinstance(whole, dict) or "payloadType" not in whole:
        return whole
    body = _statement(whole, HEAD_OF_LEDGER)
    (found,) = check_envelope(whole, body, keys)
    require(found.holds, found.detail)
    return body


def _run(chosen):
    if chosen.what == "ledger":
        head = (
            None
            if chosen.head is None
            else _head(read_json(chosen.head.read_bytes()), chosen.public_key)
        )
        with chosen.file.open("rb") as lines:
            return check_ledger(lines, chosen.public_key, head)
    if chosen.what == "session":
        beside = (
            None
            if chosen.certificate is None
            else certificate_of(read_json(chosen.certificate.read_bytes()))
        )
        more = {"owner": chosen.owner, "agent": chosen.agent, "certificate": beside}
        receipts = [read_json(one.read_bytes()) for one in chosen.receipt]
        return check_session(
            read_json(chosen.file.read_bytes()), chosen.public_key, **more, receipts=receipts
        )
    witnesses = [Key.read(one) for one in chosen.witness]
    if chosen.what == "log":
        texts = [one.read_bytes().decode() for one in (chosen.old, chosen.new)]
        keys = [Key.read(one) for one in chosen.log_key]
        return check_log(chosen.folder, *texts, keys, witnesses, chosen.witnesses_needed)
    whole = read_json(chosen.file.read_bytes())
    if chosen.result is not None:
        other = read_json(chosen.result.read_bytes())
        whole = {"certificate": certificate_of(whole), "result": other.get("result", other)}
    tables = {}
    for name, _, place in (one.partition("=") for one in chosen.table):
        tables[name] = hashlib.sha256(Path(place).read_bytes()).hexdigest()
    more = {"tables": tables, "witnesses": witnesses, "needed": chosen.witnesses_needed}
    firsts = [certificate_of(read_json(one.read_bytes())) for one in chosen.firsts]
    if chosen.ledger is None:
        return check_whole(whole, chosen.public_key, **more, firsts=firsts)
    with chosen.ledger.open("rb") as lines:
        return check_whole(whole, chosen.public_key, **more, firsts=firsts, ledger=lines)


if __name__ == "__main__":
    sys.exit(main())
