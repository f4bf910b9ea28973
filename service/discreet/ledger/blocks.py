"""The blocks of a source that share one chain: what each stands at, as its entries say.

An entry of such a chain is about blocks, which it names by their numbers (`blocks`, first and last
of each run), and binds what they stand at after it (`sums`). The cap is that of the one block that
an entry opens or whose cap it changes; an entry about a job has none, and its totals and reserved
amounts are those of the source as a whole, to which each job counts once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from discreet.privacy.units import Price

COLUMNS = tuple(sorted(Price.zero().columns()))
SCOPE = "source"
"""Of the account that is a chain of blocks."""
FIELDS = ("blocks", "sums")
"""What an entry of such a chain has more than others."""
MOST = 10_000
"""Blocks that one entry is about: more is no job's, and would only keep who checks it busy."""


@dataclass
class Block:
    """One block, as far as its chain was read."""

    cap: dict[str, str]
    limits: dict[str, dict[str, str]]
    totals: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))
    reserved: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COLUMNS, 0))


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


def sums(blocks: Mapping[int, Block], named: tuple[int, ...]) -> str:
    """SHA-256 of the canonical JSON of [[number, reserved, totals], ...]."""
    said = ",".join(
        f"[{number},{_text(blocks[number].reserved)},{_text(blocks[number].totals)}]"
        for number in named
    )
    return hashlib.sha256(f"[{said}]".encode()).hexdigest()


def _text(amounts: Mapping[str, int]) -> str:
    return "{" + ",".join(f'"{name}":"{amounts[name]}"' for name in COLUMNS) + "}"


def faults(
    blocks: dict[int, Block],
    before: tuple[int, ...],
    body: Mapping[str, Any],
    price: Mapping[str, int],
) -> Iterator[str]:
    """What is wrong with an entry, in sentences, the gravest first; where nothing is, the blocks
    stand as it says. `before`: those that its job has reserved; `price`: what that has reserved.
    """
    named, kind = numbers(body["blocks"]), body["kind"]
    if kind == "open":
        if named != (len(blocks) + 1,):
            yield "it opens another block than the next"
            return
        blocks[named[0]] = Block(body["cap"], body["filters"])
    elif not named or named[-1] > len(blocks):
        yield "it is about a block that is not there"
        return
    elif kind == "grant":
        if len(named) != 1:
            yield "it changes the caps of several blocks"
            return
        blocks[named[0]].cap, blocks[named[0]].limits = body["cap"], body["filters"]
    elif kind != "reserve" and named != before:
        yield "it is about other blocks than its job has reserved"
    spent = {"reserve": 1, "release": -1}.get(kind, 0)
    held = {"reserve": 1, "release": -1, "commit": -1}.get(kind, 0)
    for number in named:
        block = blocks[number]
        if spent:
            block.totals = {name: block.totals[name] + spent * price[name] for name in COLUMNS}
        if held:
            block.reserved = {name: block.reserved[name] + held * price[name] for name in COLUMNS}
        if kind in ("open", "grant", "reserve") and not any(
            all(block.totals[name] <= int(most) for name, most in one.items())
            for one in block.limits.values()
        ):
            yield f"the totals of block {number} pass no filter"
    if body["sums"] != sums(blocks, named):
        yield "it binds other sums of its blocks than their prices have"


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
