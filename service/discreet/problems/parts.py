"""Parts of a stored content: some of its rows, read without the rest, and never a unit cut in two.

A sum over records is the sum over any parts that hold each record once, and integers add up to the
same in any order. So several processes may each read a share of a content, part by part, in memory
that goes with a part and not with the content.

The rows of a unit (a person, a trajectory) follow each other in a canonical content, and its array
`Dataset.RECORDS` says where each begins. Every cut lies there, so a unit is clipped once, as a
whole, by whoever reads it.
"""

from __future__ import annotations

import math
import struct
import zipfile
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, BinaryIO

import numpy as np
from numba import njit
from numpy.lib import format as npy
from numpy.typing import NDArray

from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, Released, Sums, rearranged, starts_of
from discreet.problems.plans import Plan

LOCAL_HEADER = struct.Struct("<26xHH")
"""The local file header of a member of a ZIP archive: the lengths of its name and of its extra
field."""

BLOCK_BYTES = 1 << 20
"""Read at once where an array is passed through."""

Opened = Callable[[], BinaryIO]
Ints = NDArray[np.int64]


class StoredArray(Sequence[int]):
    """An array of a packed content, read by rows. Where it has one axis it is a sequence of
    integers, to be searched without being read."""

    def __init__(self, opened: Opened, header: BinaryIO) -> None:
        """`header` stands where the array's `.npy` begins, in the file that `opened` opens."""
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        self._shape, by_columns, self._kind = read[npy.read_magic(header)](header)
        if by_columns and len(self._shape) > 1:
            raise ValueError("the rows of this array do not follow each other")
        self._opened, self._first = opened, header.tell()
        self.row_bytes = self._kind.itemsize * int(np.prod(self._shape[1:], dtype=np.int64))

    @cached_property
    def _file(self) -> Any:
        return self._opened()

    def __len__(self) -> int:
        return int(self._shape[0])

    def __getitem__(self, row: Any) -> Any:
        return int(self.rows(row, row + 1)[0])

    def span(self, first: int, last: int) -> tuple[int, int]:
        """Where the rows first..last-1 begin and end in the content, in bytes."""
        return self._first + first * self.row_bytes, self._first + last * self.row_bytes

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """The rows first..last-1."""
        found = np.empty((last - first, *self._shape[1:]), self._kind)
        self._file.seek(self._first + first * self.row_bytes)
        if self._file.readinto(found.reshape(-1).view(np.uint8)) != found.nbytes:
            raise EOFError("the content ends within an array")
        return found

    def rows_of(self, first: Ints, last: Ints) -> NDArray[Any]:
        """The rows first[i]..last[i]-1 of all i, one after the other; ranges ascend and do not
        overlap.

        The whole array is read, block by block, whatever the ranges: where and how much is read
        does not depend on them.
        """
        end = np.cumsum(last - first)
        found = np.empty((int(end[-1]) if end.size else 0, *self._shape[1:]), self._kind)
        out, place = found.reshape(-1).view(np.uint8), 0
        step = max(1, BLOCK_BYTES // max(1, self.row_bytes))
        for begin in range(0, len(self), step):
            block = self.rows(begin, min(begin + step, len(self))).reshape(-1).view(np.uint8)
            place = _take(block, begin, self.row_bytes, first, last, end, place, out)
        return found


class StoredContent:
    """A packed content (`contents.pack`) in a file that `opened` opens anew for each array.
    `records` is its dataset's `RECORDS`."""

    def __init__(
        self, opened: Opened, records: str, ahead: Callable[[int, int], None] | None = None
    ) -> None:
        """`ahead` is told where bytes begin and end that `parts` is about to read."""
        self._arrays, self._records, self._ahead = {}, records, ahead
        with opened() as file:
            for member in zipfile.ZipFile(file).infolist():
                file.seek(member.header_offset)
                beside = sum(LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size)))
                file.seek(beside, 1)
                self._arrays[member.filename.removesuffix(".npy")] = StoredArray(opened, file)
        start = self._arrays.pop(records, None)
        self.rows = max(map(len, self._arrays.values()))
        self._start: Sequence[int] = range(self.rows + 1) if start is None else start
        self._unit_bytes = 0 if start is None else start.row_bytes
        self.units = len(self._start) - 1
        self.row_bytes = sum(array.row_bytes for array in self._arrays.values())
        if self._start[len(self._start) - 1] != self.rows or any(
            len(array) != self.rows for array in self._arrays.values()
        ):
            raise ValueError("the arrays of the content do not have the same rows")

    def parts(self, first: int, last: int, part_bytes: int) -> Iterator[Content]:
        """The units that begin at rows first..last-1, in parts of about so many bytes: at least
        one, which may hold none. A longer unit is in one part all the same."""
        if self._ahead is not None:
            for start, finish in self._spans(first, last):
                self._ahead(start, finish)
        rows = max(1, part_bytes // (self._unit_bytes + self.row_bytes))
        unit, end = bisect_left(self._start, first), bisect_left(self._start, last)
        while True:
            following = bisect_left(self._start, self._start[unit] + rows, unit, end)
            yield self._part(unit, following)
            if following >= end:
                return
            unit = following

    @property
    def total_bytes(self) -> int:
        """Of all units in memory."""
        return self.rows * self.row_bytes + self.units * self._unit_bytes

    def sizes(self, numbers: Ints) -> Ints:
        """Bytes of the units of these ascending, different numbers, 0 the first of all."""
        first, last = self._bounds(numbers)
        return (last - first) * self.row_bytes + self._unit_bytes

    def read(self, numbers: Ints) -> Content:
        """The units of these ascending, different numbers, in this order. Every array is read from
        its beginning to its end, whatever the numbers: the places that are read, and their order,
        depend on the content's size alone."""
        first, last = self._bounds(numbers)
        units = {name: array.rows_of(first, last) for name, array in self._arrays.items()}
        if isinstance(self._start, StoredArray):
            units[self._records] = np.concatenate([[0], np.cumsum(last - first)]).astype(np.int64)
        return units

    def _bounds(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Where units begin and end."""
        if not isinstance(self._start, StoredArray):
            return numbers, numbers + 1
        if numbers.size and not (numbers[0] >= 0 and numbers[-1] < self.units):
            raise IndexError(f"units are 0 to {self.units - 1}")
        # A unit that follows another begins where that one ends, and is read once.
        joined = np.append(True, np.diff(numbers) > 1)
        places = np.flatnonzero(joined[: numbers.size])
        ends = np.append(places[1:], numbers.size)[: places.size] - 1
        read = self._start.rows_of(numbers[places], numbers[ends] + 2)
        # Of a run of n units n + 1 bounds were read.
        at = np.arange(numbers.size) + np.cumsum(joined[: numbers.size]) - 1
        bounds = np.stack([read[at], read[at + 1]], axis=1).reshape(-1)
        if (np.diff(bounds, prepend=0, append=self.rows) < 0).any():
            raise ValueError("units do not follow each other")
        return bounds[::2].copy(), bounds[1::2].copy()

    def _spans(self, first: int, last: int) -> list[tuple[int, int]]:
        """Where all that `parts` reads lies, in bytes: the whole index of records, and of each
        array the rows first..last-1. The last unit may reach further, and the first begin later."""
        arrays = [array.span(first, last) for array in self._arrays.values()]
        index = self._start
        return [index.span(0, len(index)), *arrays] if isinstance(index, StoredArray) else arrays

    def _part(self, unit: int, following: int) -> Content:
        first, last = self._start[unit], self._start[following]
        part = {name: array.rows(first, last) for name, array in self._arrays.items()}
        if isinstance(self._start, StoredArray):
            part[self._records] = self._start.rows(unit, following + 1) - first
        return part


class JoinedContent:
    """Several stored contents as one, whose units have the order that they would have in it: by
    `keys_of` the units of a content (`columns.record_keys`), and of equal keys in the order in
    which they lie here. In memory are 8 bytes for each unit, and 48 more while they are put in
    order."""

    def __init__(
        self,
        contents: Sequence[StoredContent],
        keys_of: Callable[[Content], NDArray[Any]],
        records: str,
        part_bytes: int,
    ) -> None:
        self._contents = [one for one in contents if one.rows] or list(contents[:1])
        self._records = records
        self.rows = sum(one.rows for one in self._contents)
        self.total_bytes = sum(one.total_bytes for one in self._contents)
        self._ends = np.cumsum([0, *(one.units for one in self._contents)])
        self.units = int(self._ends[-1])
        keys = [keys_of(part) for part in self.parts(0, self.rows, part_bytes)]
        self._place = np.argsort(np.concatenate(keys), kind="stable").astype(np.int64)

    def parts(self, first: int, last: int, part_bytes: int) -> Iterator[Content]:
        """The units that begin at rows first..last-1 as they lie here, one content after the
        other."""
        before = 0
        for one in self._contents:
            low, high = max(0, first - before), min(one.rows, last - before)
            if low < high or not self.rows:
                yield from one.parts(low, high, part_bytes)
            before += one.rows

    def sizes(self, numbers: Ints) -> Ints:
        """As of `StoredContent`."""
        found = np.empty(numbers.size, np.int64)
        for one, (at, here) in zip(self._contents, self._found(numbers), strict=True):
            found[at] = one.sizes(here)
        return found

    def read(self, numbers: Ints) -> Content:
        """As of `StoredContent`: of each content every array is read from its beginning to its end,
        whatever the numbers."""
        found = self._found(numbers)
        parts = [one.read(here) for one, (_, here) in zip(self._contents, found, strict=True)]
        if not numbers.size:
            return parts[0]
        order = np.argsort(np.concatenate([at for at, _ in found]), kind="stable")
        lengths = np.concatenate([np.diff(part[self._records]) for part in parts])
        start = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        units = {
            name: rearranged(np.concatenate([part[name] for part in parts]), start, order)
            for name in parts[0]
            if name != self._records
        }
        return {**units, self._records: starts_of(start, order)}

    def _found(self, numbers: Ints) -> list[tuple[Ints, Ints]]:
        """For each content, which of the numbers are of its units, and the units that they are,
        ascending."""
        if numbers.size and not (numbers[0] >= 0 and numbers[-1] < self.units):
            raise IndexError(f"units are 0 to {self.units - 1}")
        place = self._place[numbers]
        at = np.argsort(place, kind="stable")
        cuts = np.searchsorted(place[at], self._ends)
        return [
            (at[low:high], place[at[low:high]] - first)
            for (low, high), first in zip(pairwise(cuts), self._ends[:-1], strict=True)
        ]


def share_of(
    contents: Sequence[Callable[[], StoredContent]], number: int, shares: int, part_bytes: int
) -> Iterator[Content]:
    """The parts of share `number` of 0..shares-1 of these contents, one content after the other:
    together the shares hold every unit once. At least one part, which may hold none."""
    rows = [opened().rows for opened in contents]
    low, high = (sum(rows) * place // shares for place in (number, number + 1))
    if low == high:
        yield from contents[0]().parts(0, 0, part_bytes)
    before = 0
    for opened, size in zip(contents, rows, strict=True):
        first, last = max(0, low - before), min(size, high - before)
        if first < last:
            yield from opened().parts(first, last, part_bytes)
        before += size


def add(total: Sums, more: Sums) -> None:
    """Add the sums of other records to `total`, which may be empty. TypeError for anything but
    integers: their sums would depend on the order."""
    for name, sums in more.items():
        if sums.dtype != np.int64:
            raise TypeError(f"sums over parts are of integers, and {name} is {sums.dtype}")
        total[name] = total[name] + sums if name in total else sums


@njit(cache=True, nogil=True)
def _take(
    block: NDArray[np.uint8],
    begin: int,
    row_bytes: int,
    first: Ints,
    last: Ints,
    end: Ints,
    place: int,
    out: NDArray[np.uint8],
) -> int:
    """Copy what a block, which begins with row `begin`, has of the rows of ranges from range
    `place` on; `end`: of each range in `out`, in rows. The first range that goes beyond it."""
    rows = block.size // max(1, row_bytes)
    while place < first.size and first[place] < begin + rows:
        low, high = max(first[place], begin), min(last[place], begin + rows)
        target = (end[place] - last[place] + low) * row_bytes
        source = (low - begin) * row_bytes
        for byte in range((high - low) * row_bytes):
            out[target + byte] = block[source + byte]
        if last[place] > begin + rows:
            break
        place += 1
    return place


# Sampled ------------------------------------------------------------------------------------------
# Kinds whose release may have in memory, of a stored content, the records that it samples.
#
# release_sampled(public, plan, records, noise) what is released; reads records by their numbers
#
# A method of this kind draws in each step which units take part, with the noise of the release and
# not by what stands in the data. So it knows what its next steps will draw, and reads that alone.
# Where it reads does not depend on what was drawn: see `StoredContent.read`.

WINDOW_BYTES = 64 << 20
"""Of the units that are in memory at once: those that the next steps draw. The smaller it is, the
more often a content is passed through."""
PASSED_BYTES_PER_SECOND = 2e9
"""Read and decrypted, and searched for the units of a window."""
FILLED = 0.8
"""How much of a window is full, at least, where steps are small beside it."""
MOST_PASSING = 2.0
"""Times the work itself: so long may passing through a content take. A window that takes longer is
made larger, of contents many times as large as it."""


@dataclass(frozen=True)
class Records:
    """A stored content, and how much of it may be in memory."""

    content: StoredContent | JoinedContent
    window_bytes: int


class SampledRecords(ABC):
    """What a kind has beside `Problem` if some of its plans have `sampled_by`, for these plans."""

    @abstractmethod
    def release_sampled(self, public: Any, plan: Plan, records: Records, noise: Noise) -> Released:
        """`release` on the content of these records, with the same draws of the same noise: the
        same arrays, bit for bit. Total."""

    @classmethod
    @abstractmethod
    def unit_keys(cls, content: Content) -> NDArray[Any]:
        """Keys by which the units of a canonical content, and those of several as one, are in
        order."""

    @abstractmethod
    def window_bytes(self, public: Any, plan: Plan) -> int:
        """How much is to be in memory at once, from public figures alone. What is released does not
        depend on it."""


@dataclass(frozen=True)
class Passing:
    """Reads of a content, of which no more than a window is in memory: from public figures alone.

    most_bytes: of the content at most; drawn_bytes: of all that is drawn, in `steps` steps, none of
    which is in two windows; seconds: of the work on what is drawn.
    """

    most_bytes: float
    drawn_bytes: float
    steps: int
    work_seconds: float

    @property
    def window_bytes(self) -> int:
        """WINDOW_BYTES, or as much more as MOST_PASSING or what a single step draws asks for."""
        times = MOST_PASSING * self.work_seconds * PASSED_BYTES_PER_SECOND / self.most_bytes - 1
        needed = self.drawn_bytes / FILLED / times if times > 0 else self.most_bytes
        needed = min(max(needed, self.drawn_bytes / self.steps), self.most_bytes)
        return max(WINDOW_BYTES, math.ceil(needed))

    @property
    def seconds(self) -> float:
        """0 where all is in memory at once: it is read once, as whatever is read as a whole."""
        if self.most_bytes <= self.window_bytes:
            return 0.0
        # A step is never in two windows: of those that are large beside it, the rest stays empty.
        each = max(1.0, FILLED * self.window_bytes * self.steps // self.drawn_bytes)
        windows = min(float(self.steps), 1 + self.steps / each)
        return windows * self.most_bytes / PASSED_BYTES_PER_SECOND


# Summed -------------------------------------------------------------------------------------------
# Kinds whose release may be sums over parts of a content.
#
# part_sums(public, plan, content) integer sums over one part, before noise: PRIVATE
# release_sums(public, plan, sums, noise) what is released of the sums of all parts; total
#
# What is chosen from the content before noise is added (a clip) is chosen by the last child, from
# sums of every candidate: the content is read once, and all noise is drawn in one place.


class SumsOverParts(ABC):
    """What a kind has beside `Problem` if some of its plans have `parts_by`, for these plans."""

    @abstractmethod
    def part_sums(self, public: Any, plan: Plan, content: Content) -> Sums:
        """What a part of a content adds to the sums that are released, before noise: PRIVATE.
        Total, also for a part without records.

        All records of one unit lie in one part. The sums of any parts in any order add up to those
        of the whole content, bit for bit: they are integers.
        """

    @abstractmethod
    def release_sums(self, public: Any, plan: Plan, sums: Sums, noise: Noise) -> Released:
        """`release` on the content that has these sums: where they and noise meet."""
