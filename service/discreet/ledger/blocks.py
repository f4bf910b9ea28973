"""The blocks of a source that share one chain: the balance of each, from its entries.

An entry of such a chain is about blocks, which it names by their numbers (`blocks`, first and last
of each run), and binds what they stand at after it (`sums`). The cap is that of the one block that
an entry opens or whose cap it changes; an entry about a job has none, and its totals and reserved
amounts are those of the source as a whole, to which each job counts once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from discreet.privacy.units import Price

COLUMNS = tuple(sorted(Price.zero().columns()))
SCOPE = "source"
"""Of the account that is a chain of blocks."""
FIELDS = ("blocks", "sums")
"""What an entry of such a chain has more than others."""
MOST = 10_000
"""Blocks that one entry is about: more is no job's, and would only keep who checks it busy."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The balance of a block. Blocks charged by the same jobs share one, so an entry about a
    thousand blocks is added up and written once."""

    totals: Mapping[str, int]
    reserved: Mapping[str, int]
    text: str
    """Canonical JSON of both, as it stands behind the block's number."""

    @classmethod
    def of(cls, totals: Mapping[str, int], reserved: Mapping[str, int]) -> Balance:
        return cls(totals, reserved, f"{_text(reserved)},{_text(totals)}]")


@dataclass
class Block:
    """One block, as far as its chain was read."""

    cap: Mapping[str, str]
    limits: Mapping[str, Mapping[str, str]]
    """Blocks with the same cap should share one mapping: what passes it is looked at once."""
    balance: Balance

    @property
    def totals(self) -> Mapping[str, int]:
        return self.balance.totals

    @property
    def reserved(self) -> Mapping[str, int]:
        return self.balance.reserved


def numbers(runs: Any) -> tuple[int, ...]:
    """The numbers that `blocks` of an entry says. ValueError unless they are in the one form that
    they have: runs in order, and none that could be joined."""
    found: list[int] = []
    for first, last in runs:
        if type(first) is not int or type(last) is not int or last < first:
            raise ValueError("a run has a first and a last block")
        if first <= (found[-1] + 1 if found else 0):
            raise ValueError("runs of blocks are in order and do not touch")
        if len(found) + last - first >= MOST:
            raise ValueError(f"an entry is about at most {MOST} blocks")
        found += range(first, last + 1)
    return tuple(found)


def _text(amounts: Mapping[str, int]) -> str:
    return "{" + ",".join(f'"{name}":"{amounts[name]}"' for name in COLUMNS) + "}"


@dataclass(frozen=True, slots=True)
class Moved:
    """What an entry does to its blocks."""

    balances: list[Balance]
    """After it, in the order of the blocks."""
    sums: str
    """SHA-256 of the canonical JSON of [[number, reserved, totals], ...]."""
    beyond: int | None
    """The first block whose totals exceed every filter, where they may only fall."""


def moved(
    blocks: Mapping[int, Block], named: Sequence[int], kind: str, price: Mapping[str, int]
) -> Moved:
    """The blocks after an entry of this kind about these, which are there; nothing is changed."""
    spent = {"reserve": 1, "release": -1}.get(kind, 0)
    held = {"reserve": 1, "release": -1, "commit": -1}.get(kind, 0)
    after: dict[tuple[int, int], Balance] = {}
    alike: dict[str, Balance] = {}
    balances, said, beyond = [], [], None
    for number in named:
        block = blocks[number]
        # Balances and limits live as long as their blocks do, so none of them gets the id of
        # another while this runs.
        case = id(block.balance), id(block.limits)
        balance = after.get(case)
        if balance is None:
            balance = block.balance
            if spent or held:
                balance = Balance.of(
                    {name: balance.totals[name] + spent * price[name] for name in COLUMNS},
                    {name: balance.reserved[name] + held * price[name] for name in COLUMNS},
                )
            after[case] = balance = alike.setdefault(balance.text, balance)
            if (
                beyond is None
                and kind in ("open", "grant", "reserve")
                and not any(
                    all(balance.totals[name] <= int(most) for name, most in one.items())
                    for one in block.limits.values()
                )
            ):
                beyond = number
        balances.append(balance)
        said.append(f"[{number},{balance.text}")
    return Moved(balances, hashlib.sha256(f"[{','.join(said)}]".encode()).hexdigest(), beyond)


def settle(blocks: Mapping[int, Block], named: Sequence[int], balances: Sequence[Balance]) -> None:
    """Have the blocks stand at these."""
    for number, balance in zip(named, balances, strict=True):
        blocks[number].balance = balance


_ZERO = Balance.of(dict.fromkeys(COLUMNS, 0), dict.fromkeys(COLUMNS, 0))


def faults(
    blocks: dict[int, Block],
    before: tuple[int, ...],
    body: Mapping[str, Any],
    price: Mapping[str, int],
    limits: Mapping[str, Mapping[str, str]],
) -> Iterator[str]:
    """What is wrong with an entry, in sentences, the gravest first; where nothing is, the blocks
    stand as it says. `before`: those that its job has reserved; `price`: what that has reserved;
    `limits`: those of the cap that it sets.
    """
    named, kind = numbers(body["blocks"]), body["kind"]
    if kind == "open":
        if named != (len(blocks) + 1,):
            yield "it opens another block than the next"
            return
        blocks[named[0]] = Block(body["cap"], limits, _ZERO)
    elif not named or named[-1] > len(blocks):
        yield "it is about a block that does not exist"
        return
    elif kind == "grant":
        if len(named) != 1:
            yield "it changes the caps of several blocks"
            return
        blocks[named[0]].cap, blocks[named[0]].limits = body["cap"], limits
    elif kind != "reserve" and named != before:
        yield "it is about blocks other than those its job has reserved"
    after = moved(blocks, named, kind, price)
    if after.beyond is not None:
        yield f"the totals of block {after.beyond} exceed every filter"
    if body["sums"] != after.sums:
        yield "the sums of its blocks are not those of their prices"
    settle(blocks, named, after.balances)


def other_blocks(body: Mapping[str, Any], entries: Sequence[tuple[Mapping[str, Any], str]]) -> str:
    """How the blocks that commits in a source's chain are about differ from those that the
    certificate says were charged and read; empty where they do not, or where there is no chain."""
    charged = {
        (entry["account"], entry["seq"]): entry["blocks"]
        for entry, _ in entries
        if entry["kind"] == "commit" and "blocks" in entry
    }
    said = {
        (entry["account"], entry["seq"]): entry["blocks"]
        for entry in body["ledger_entry"]
        if "blocks" in entry
    }
    if charged != said:
        return "the ledger charged other blocks than the certificate says"
    source = body.get("source")
    named = source.get("blocks") if isinstance(source, Mapping) else None
    read = len(named) if isinstance(named, list) else 0
    many = sum(last - first + 1 for runs in charged.values() for first, last in runs)
    # Blocks that came from older code have accounts of their own.
    many += sum(
        entry["kind"] == "commit" and entry["scope"] == "data" and "blocks" not in entry
        for entry, _ in entries
    )
    if charged and many != read:
        return f"the ledger charged {many} blocks, the certificate names {read}"
    return ""
