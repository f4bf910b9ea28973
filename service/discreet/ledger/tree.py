"""The Merkle tree of the transparency log (RFC 6962, section 2), and its proofs (RFC 9162, section
2.1).

Hashes of whole subtrees come in tiles (C2SP tlog-tiles): tile n of level k holds, from left to
right, the roots of up to 256 subtrees of 256^k leaves, the first of which begins at leaf 256^(k+1)
n. Any root and any proof follows from a few tiles, in a log of a million leaves from six at most.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

TILE = 256
Tile = tuple[int, int]
"""Level and number of a tile."""

ENTRIES = -1
"""In place of a level: tiles of what the leaves are hashes of."""

_PATH = re.compile(
    r"(0|[1-9][0-9]?|entries)/((?:x[0-9]{3}/){0,5}[0-9]{3})(?:\.p/([1-9][0-9]{0,2}))?"
)

EMPTY = hashlib.sha256().digest()
"""The root of no leaves."""


class Unproven(Exception):
    """A proof does not prove what it should."""


def commitment(salt: bytes, entry_hash: bytes) -> bytes:
    """What the log holds of a ledger entry: who lacks the salt learns nothing of the entry from
    it."""
    return hashlib.sha256(salt + entry_hash).digest()


def leaf_hash(entry: bytes) -> bytes:
    return hashlib.sha256(b"\0" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()


def width(tile: Tile, size: int) -> int:
    """How many hashes a tile has in a tree of `size` leaves, 0 to 256."""
    level, number = tile
    return max(0, min(TILE, (size >> 8 * level) - TILE * number))


def tile_path(tile: Tile, count: int = TILE) -> str:
    """Where the first `count` hashes of a tile are found (C2SP tlog-tiles), as
    `0/x001/x234/067.p/8`."""
    level, number = tile
    groups = [number % 1000]
    while number := number // 1000:
        groups.append(number % 1000)
    parts = [f"x{group:03}" for group in groups[:0:-1]] + [f"{groups[0]:03}"]
    partial = "" if count == TILE else f".p/{count}"
    return f"{'entries' if level == ENTRIES else level}/{'/'.join(parts)}{partial}"


def read_tile_path(path: str) -> tuple[int, int, int] | None:
    """Level, number and how many hashes of a path of `tile_path`; None of what it never writes."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    level = ENTRIES if found[1] == "entries" else int(found[1])
    number, count = int(re.sub("[x/]", "", found[2])), TILE if found[3] is None else int(found[3])
    return (level, number, count) if tile_path((level, number), count) == path else None


def tiles_of(size: int, leaves: Iterable[int] = ()) -> set[Tile]:
    """The tiles from which the root of a tree of `size` leaves follows, and proofs of what these
    leaves are in."""
    found = set()
    for place in (size, *leaves):
        level = 0
        while size >> 8 * level:
            found.add((level, place >> 8 * (level + 1)))
            level += 1
    return {tile for tile in found if width(tile, size)}


def nodes_of(size: int, leaves: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Level and place of each node that proves these leaves of a tree of `size`: level by level
    from the leaves up, in each from left to right. Node p of level k is the root of the leaves from
    p 2^k to below (p + 1) 2^k, as far as the tree goes; a last one that has no neighbour goes up as
    it is."""
    level, known, width = 0, sorted(set(leaves)), size
    while width > 1:
        there = set(known)
        yield from (
            (level, place ^ 1) for place in known if place ^ 1 not in there and place ^ 1 < width
        )
        level, known, width = level + 1, sorted({place >> 1 for place in known}), (width + 1) >> 1


class Tree:
    """A tree as far as its tiles are known."""

    def __init__(self, size: int, tiles: Mapping[Tile, Sequence[bytes]]) -> None:
        """`tiles`: the hashes of each, at least as many as a tree of `size` leaves has there."""
        self.size = size
        self._tiles = tiles

    def root(self, size: int | None = None) -> bytes:
        """The root of the first `size` leaves, of all by default."""
        size = self.size if size is None else size
        return self._hash(0, size) if size else EMPTY

    def inclusion(self, leaves: Iterable[int]) -> list[bytes]:
        """The proof that leaves of these numbers are in the tree: each node that they are hashed
        with and that does not follow from them, as `nodes_of` has them."""
        return [
            self._hash(place << level, min((place + 1) << level, self.size))
            for level, place in nodes_of(self.size, leaves)
        ]

    def consistency(self, old: int) -> list[bytes]:
        """The proof that the tree of the first `old` leaves has only grown; empty for none and for
        all of them."""
        if old in {0, self.size}:
            return []
        path: list[bytes] = []
        start, end, whole = 0, self.size, True  # whole: the old tree's root is the reader's own
        while old != end:
            middle = start + _split(end - start)
            if old <= middle:
                path.append(self._hash(middle, end))
                end = middle
            else:
                path.append(self._hash(start, middle))
                start, whole = middle, False
        if not whole:
            path.append(self._hash(start, end))
        return path[::-1]

    def _hash(self, start: int, end: int) -> bytes:
        count = end - start
        if count & (count - 1) or start % count:
            middle = start + _split(count)
            return node_hash(self._hash(start, middle), self._hash(middle, end))
        level = (count.bit_length() - 1) // 8
        first, last = start >> 8 * level, end >> 8 * level
        tile = self._tiles[level, first // TILE]
        hashes = list(tile[first % TILE : first % TILE + last - first])
        if len(hashes) != last - first:
            raise Unproven(f"tile {first // TILE} of level {level} is cut off")
        while len(hashes) > 1:
            hashes = [node_hash(*hashes[at : at + 2]) for at in range(0, len(hashes), 2)]
        return hashes[0]


def check_inclusion(
    leaves: Mapping[int, bytes], size: int, nodes: Sequence[bytes], root: bytes
) -> None:
    """Unproven unless these are the hashes, by number, of leaves of the tree of `size` leaves with
    this root.

    `nodes` are those that `nodes_of` lists, all of them and no more; of one leaf they are its
    inclusion proof (RFC 9162, section 2.1.3.2). Which hash goes where follows from the numbers and
    the size alone, so whoever makes up a proof has nothing to choose but hashes
    (docs/transparency.md has the proof).
    """
    if not leaves or not all(0 <= number < size for number in leaves):
        raise Unproven("the log has no leaf of this number")
    level, width, given = dict(sorted(leaves.items())), size, iter(nodes)
    while width > 1:
        above: dict[int, bytes] = {}
        for place, known in level.items():
            if place >> 1 in above:  # the right one of two that were known
                continue
            if place ^ 1 == width:  # alone at its level, it goes up as it is
                above[place >> 1] = known
                continue
            other = level.get(place ^ 1) or next(given, None)
            if other is None:
                raise Unproven("the proof is too short")
            above[place >> 1] = node_hash(other, known) if place & 1 else node_hash(known, other)
        level, width = above, (width + 1) >> 1
    if next(given, None) is not None:
        raise Unproven("the proof is too long")
    if level[0] != root:
        raise Unproven("the proof does not lead to the root")


def check_consistency(
    old: int, size: int, old_root: bytes, root: bytes, path: Sequence[bytes]
) -> None:
    """Unproven unless the tree of `size` leaves with this root begins with the one of `old` leaves
    and its root."""
    if not 0 <= old <= size:
        raise Unproven("the log is smaller than it was")
    if old in {0, size}:
        if path or old_root != (EMPTY if old == 0 else root):
            raise Unproven("another tree of the same size" if old else "no tree")
        return
    hashes = list(path)
    place, last = old - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    if place:
        if not hashes:
            raise Unproven("the path is too short")
        before = after = hashes.pop(0)
    else:
        before = after = old_root
    for other in hashes:
        if last == 0:
            raise Unproven("the path is too long")
        if place & 1 or place == last:
            before, after = node_hash(other, before), node_hash(other, after)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            after = node_hash(after, other)
        place, last = place >> 1, last >> 1
    if last or (before, after) != (old_root, root):
        raise Unproven("the log is not the one that it was: what was there has been changed")


def _split(count: int) -> int:
    """The largest power of two below `count`, which is at least 2."""
    return 1 << (count - 1).bit_length() - 1
