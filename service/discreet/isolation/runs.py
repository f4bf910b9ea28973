"""Runs: parts of a content in the order of their records' keys, put aside in blocks of whole
records, and merged by these keys."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.isolation.segments import Segments

Content = dict[str, NDArray[Any]]
Keys = NDArray[Any]
"""One for each record: of one size, or objects."""

AHEAD = 4
"""Blocks of a run that are in memory: few of their records wait for those of the other runs."""
KEYS = ""
"""The name of the keys among the arrays of a block, where they are of one size."""


def taken(content: Content, records: str, first: int, last: int) -> Content:
    """The records first..last-1."""
    start = content[records][first : last + 1]
    rows = slice(int(start[0]), int(start[-1]))
    found = {name: array[rows] for name, array in content.items() if name != records}
    return found | {records: start - start[0]}


def joined(contents: Sequence[Content], records: str) -> Content:
    """One content after the other."""
    if len(contents) == 1:
        return contents[0]
    found = {
        name: np.concatenate([one[name] for one in contents])
        for name in contents[0]
        if name != records
    }
    lengths = np.concatenate([np.diff(one[records]) for one in contents])
    return found | {records: _starts(lengths)}


def _starts(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])


class Run:
    """A content in its order, put aside; what is read of it."""

    def __init__(
        self, content: Content, keys: Keys, records: str, rows: int, segments: Segments
    ) -> None:
        """`rows`: of a block, where no record is longer."""
        self._records, self._segments = records, segments
        arrays = content if keys.dtype == object else {**content, KEYS: keys}
        # The widest first, so that each begins where its type may begin.
        self._layout = sorted(
            ((name, array.dtype, array.shape[1:]) for name, array in arrays.items()),
            key=lambda one: -one[1].itemsize,
        )
        self._blocks = segments.put_all(self._cut(arrays, rows))
        self._next = self._loaded = 0
        """The first block that was not read; blocks of which records are in memory, at most."""
        self._content: Content = {}
        self.keys: Keys = keys[:0].copy()  # a view would hold all of them
        """Of the records in memory."""

    @property
    def has_more(self) -> bool:
        """Beyond what is in memory."""
        return self._next < len(self._blocks)

    def fill(self, keys_of: Callable[[Content], Keys]) -> bool:
        """Read what comes next, if much of what was read is gone; whether there is anything."""
        if self.has_more and self._loaded < AHEAD:
            read = [(self._content, self.keys)] if self.keys.size else []
            while self.has_more and self._loaded < AHEAD:
                block = self._read(self._segments.get(self._blocks.segment(self._next)))
                keys = block.pop(KEYS, None)
                read.append((block, keys_of(block) if keys is None else keys))
                self._next += 1
                self._loaded += 1
            self._content = joined([block for block, _ in read], self._records)
            self.keys = np.concatenate([keys for _, keys in read])
        return bool(self.keys.size)

    def take(self, bound: Any) -> tuple[Content, Keys]:
        """Its records up to this key, with their keys; all where it is None."""
        all_there = self.keys.size
        number = all_there if bound is None else bisect_right(self.keys, bound)
        found = taken(self._content, self._records, 0, number), self.keys[:number]
        self._content = taken(self._content, self._records, number, all_there)
        self.keys = self.keys[number:]
        self._loaded = -(-self._loaded * self.keys.size // max(1, all_there))
        return found

    def _cut(self, arrays: Content, rows: int) -> Iterator[bytes]:
        """Blocks of whole records: how many these and their rows are, and the arrays."""
        start, first = arrays[self._records], 0
        while first < start.size - 1:
            last = int(np.searchsorted(start, start[first] + rows, side="right")) - 1
            last = max(first + 1, last)
            of = {self._records: slice(first, last + 1), KEYS: slice(first, last)}
            here = slice(int(start[first]), int(start[last]))
            pieces = [np.array([last - first, here.stop - here.start])]
            pieces += [arrays[name][of.get(name, here)] for name, _, _ in self._layout]
            yield b"".join([np.ascontiguousarray(piece).data for piece in pieces])
            first = last

    def _read(self, block: bytes) -> Content:
        records, rows = np.frombuffer(block, np.int64, 2).tolist()
        entries = {self._records: records + 1, KEYS: records}
        found: Content = {}
        place = 16
        for name, kind, rest in self._layout:
            shape = entries.get(name, rows), *rest
            array = np.frombuffer(block, kind, math.prod(shape), place)
            place += array.nbytes
            found[name] = array.reshape(shape)
        found[self._records] = found[self._records] - found[self._records][0]
        return found


def merged(
    runs: Sequence[Run], keys_of: Callable[[Content], Keys], records: str
) -> Iterator[Content]:
    """The records of all runs in the order of their keys, some at a time."""
    from discreet.problems.contents import in_order_of_keys  # noqa: PLC0415

    def filled(among: Iterable[Run]) -> list[Run]:
        return [run for run in among if run.fill(keys_of)]

    live = filled(runs)
    while live:
        # What a run has beyond what is in memory may be as small as its last key here.
        bound = min((run.keys[-1] for run in live if run.has_more), default=None)
        took = [run.take(bound) for run in live]
        part = joined([content for content, _ in took], records)
        keys = np.concatenate([keys for _, keys in took])
        yield in_order_of_keys(part, keys, records)[0]
        live = filled(live)
