"""Tables that do not fit memory: their rows are brought together by unit, on disk, and read a part
of the units at a time.

    scatter   a batch of rows at a time is checked and spread over partitions by a hash of the unit,
              so all rows of one unit come to one partition, from whichever file and in any order;
              where the rows of each unit follow each other partitions are cut instead (`grouped`)
    part      each partition is put into canonical form by itself, as a run of sorted records
    merge     the runs are merged by the keys of their records

What comes out are the arrays that reading all at once makes, so digest, content and every release
are the same, whatever the number of partitions. Memory is that of one batch and one partition; n
rows take O(n log n). Of one unit all rows are in memory at once.
"""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation.grouped import Grouped, NotGrouped
from discreet.isolation.runs import AHEAD, Content, Run, merged
from discreet.isolation.segments import Row, Segment, Segments

WHOLE_ROWS = 1 << 20
"""Tables of at most so many rows are read at once."""
PARTITION_ROWS = 1 << 19
"""That a partition has on average."""
MOST_PARTITIONS = 1 << 12
SCATTER_ROWS = 1 << 18
"""That are checked and spread at once, if batches are smaller; in any case a few for each
partition."""
LEAST_A_PARTITION = 256
MERGE_ROWS = 1 << 20
"""Of all runs together that are in memory while they are merged, if no record is longer."""


@dataclass
class Room:
    """Where a child puts rows aside: two files, and how many rows there will be."""

    descriptors: tuple[int, int]
    content_bytes: int
    whole_rows: int = WHOLE_ROWS
    rows: int | None = None
    """Of all files; None where nobody knows."""
    bytes_a_batch: tuple[int, int] = (1, 1)
    """Otherwise: the bytes of all files, and those that become a batch."""
    is_scattered: bool = False
    """Whether it was seen, after many rows, that those of a unit do not follow each other."""

    def read(self, kind: Any, public: Any, batches: Iterable[Any], schema: Any) -> Any:
        """The content of a table: read at once where the table is small or the kind knows no other
        way, otherwise part by part (`PartedContent`)."""
        import pyarrow as pa  # noqa: PLC0415

        held, coming, rows = self._begun(batches)
        number = self._partitions(rows, len(held))
        batches = chain(_drained(held), coming)
        units = None if rows <= self.whole_rows else kind.by_units(public, schema)
        if units is None:
            return kind.read_batches(public, batches, schema)
        checked = (
            units.checked(pa.Table.from_batches(group), first)
            for group, first in _groups(batches, _rows_at_once(number))
        )
        parts = self._scattered(units, checked, number)
        return self._in_parts(kind, public, units, parts, number)

    def read_checked(self, kind: Any, public: Any, units: Any, batches: Iterable[Any]) -> Any:
        """The same of batches that were checked one by one (`UnitRows.checked`). NotGrouped where
        they have to be read again, which then goes another way."""
        held, coming, rows = self._begun(batches)
        if rows <= self.whole_rows:
            return units.whole(held[::-1])
        number = self._partitions(rows, len(held))
        grouped = Grouped(units)
        are_grouped = not self.is_scattered and grouped.are_apart(reversed(held))
        checked = chain(_drained(held), coming)
        if not are_grouped:
            parts = self._scattered(units, checked, number)
            return self._in_parts(kind, public, units, parts, number)
        parts = grouped.contents(_groups(checked, PARTITION_ROWS))
        try:
            return self._in_parts(kind, public, units, parts, number)
        except NotGrouped:
            self.is_scattered = True
            raise

    def _begun(self, batches: Iterable[Any]) -> tuple[list[Any], Iterator[Any], int]:
        """The first batches, last first, up to more rows than are read at once; what follows; and
        how many rows the first have."""
        coming, held, rows = iter(batches), list[Any](), 0
        for batch in coming:
            held.append(batch)
            rows += batch.num_rows
            if rows > self.whole_rows:
                break
        held.reverse()
        return held, coming, rows

    def _partitions(self, rows: int, batches: int) -> int:
        """For a table whose first batches have so many rows."""
        there, each = self.bytes_a_batch
        expected = self.rows or rows * max(1, there // (each * max(1, batches)))
        return min(MOST_PARTITIONS, max(2, -(-max(expected, rows) // PARTITION_ROWS)))

    def _scattered(self, units: Any, checked: Iterable[Any], number: int) -> Iterator[Content]:
        """Parts of rows that are in any order."""
        partitions = Partitions(units, number, Segments(self.descriptors[0]))
        for group, first in _groups(checked, _rows_at_once(number)):
            partitions.add(units.merge_batches(group), first)
        return partitions.contents()

    def _in_parts(
        self, kind: Any, public: Any, units: Any, parts: Iterable[Content], number: int
    ) -> PartedContent:
        """The content of parts, of which there are about so many."""
        from discreet.problems.contents import in_order_of_keys  # noqa: PLC0415

        runs, segments = list[Run](), Segments(self.descriptors[1])
        content = PartedContent(kind.RECORDS, self.descriptors[0])
        size, block = 0, max(1, MERGE_ROWS // (number * AHEAD))
        wrong: InvalidInput | None = None
        for part in parts:
            # All parts are looked at before anything is said: which units are in the first of them
            # is drawn.
            size += sum(array.nbytes for array in part.values())
            size -= part[kind.RECORDS].itemsize if content.has_kinds else 0  # one start for all
            content.like(part)
            try:
                kind.describe(public, part)  # where it says that the content is wrong
                content.judge_by(kind.doubt_sums(public, part))
            except InvalidInput as error:
                wrong = error
            if wrong is None and size <= self.content_bytes:
                ordered, keys = in_order_of_keys(part, units.keys(part), kind.RECORDS)
                runs.append(Run(ordered, keys, kind.RECORDS, block, segments))
        units.check()
        if size > self.content_bytes:
            raise PayloadTooLarge(
                f"the content takes {size} bytes in memory, of at most {self.content_bytes}"
            )
        if wrong is not None:
            raise wrong
        for part in merged(runs, units.keys, kind.RECORDS):
            content.append(part)
        return content


def _drained(held: list[Any]) -> Iterator[Any]:
    while held:
        yield held.pop()


def _rows_at_once(partitions: int) -> int:
    return max(SCATTER_ROWS, partitions * LEAST_A_PARTITION)


def _groups(batches: Iterable[Any], least: int) -> Iterator[tuple[list[Any], int]]:
    """Batches that have together at least so many rows, but for the last, with the number of their
    first row."""
    waiting, rows, first = list[Any](), 0, 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= least:
            group, waiting = waiting, []
            yield group, first
            first, rows = first + rows, 0
    if rows:
        yield waiting, first


class Partitions:
    """Rows by the hash of their unit."""

    def __init__(self, units: Any, number: int, segments: Segments) -> None:
        self._units, self._number, self._segments = units, number, segments
        self._spread: list[tuple[Row, NDArray[np.int32]]] = []
        """Of every `add`: a piece for each partition, and how many rows it has."""
        self._seed = np.uint64(secrets.randbits(64))
        self._layout: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._owner_kind: np.dtype[Any] | None = None

    def add(self, checked: Any, first: int) -> None:
        """Rows (`unit_rows.Checked`) whose first is number `first` of all."""
        columns, owners = checked
        place = owners.hashes(self._seed) % np.uint64(self._number)
        order = np.argsort(place.astype(np.int16), kind="stable").astype(np.int64)
        ends = np.searchsorted(place[order], np.arange(self._number + 1, dtype=np.uint64)).tolist()
        columns = {name: column[order] for name, column in columns.items()}
        columns["row"] = order + first
        self._owner_kind = owners.kind
        self._layout = {name: (one.dtype, one.shape[1:]) for name, one in columns.items()}
        pieces = (
            b"".join([*(one[here:end].tobytes() for one in columns.values()), names])
            for (here, end), names in zip(pairwise(ends), owners.packed(order, ends), strict=True)
        )
        self._spread.append((self._segments.put_all(pieces), np.diff(ends).astype(np.int32)))

    def contents(self) -> Iterator[Content]:
        """The content of each partition that has rows; of none from the first fault on."""
        for number in range(self._number):
            pieces = [
                (int(rows[number]), row.segment(number))
                for row, rows in self._spread
                if rows[number]
            ]
            if pieces:
                columns, owner = self._read(pieces)
                row = columns.pop("row")
                part = self._units.part(columns, owner, row)
                del columns, owner, row
                if not self._units.issues:
                    yield part

    def _read(self, pieces: Sequence[tuple[int, Segment]]) -> tuple[Content, NDArray[np.int32]]:
        from discreet.problems.contents import unpacked  # noqa: PLC0415

        all_rows = sum(rows for rows, _ in pieces)
        columns = {
            name: np.empty((all_rows, *shape), kind) for name, (kind, shape) in self._layout.items()
        }
        names, first = [], 0
        for rows, segment in pieces:
            data, at = memoryview(self._segments.get(segment)), 0
            for column in columns.values():
                there = column[first : first + rows]
                found = np.frombuffer(data, column.dtype, there.size, at)
                there[:] = found.reshape(there.shape)
                at += there.nbytes
            names.append((rows, data[at:]))
            first += rows
        return columns, unpacked(names, self._owner_kind).numbers()


# What comes of it ---------------------------------------------------------------------------------


class PartedContent:
    """A canonical content that lies on disk, array by array in pieces."""

    def __init__(self, records: str, descriptor: int) -> None:
        """In the file of the descriptor, from whose beginning the first `append` writes."""
        self._records, self._segments = records, Segments(descriptor)
        self._pieces: dict[str, list[Segment]] = {}
        self._kinds: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        self._rows = self._units = 0
        self.doubt_sums: NDArray[np.float64] | None = None
        """`Dataset.doubt_sums` of all parts."""

    def judge_by(self, sums: NDArray[np.float64] | None) -> None:
        """Add the sums of another part."""
        if sums is not None:
            self.doubt_sums = sums if self.doubt_sums is None else self.doubt_sums + sums

    @property
    def has_kinds(self) -> bool:
        return bool(self._kinds)

    def like(self, part: Content) -> None:
        """Its arrays are called and typed as those of a part."""
        self._kinds = {name: (array.dtype, array.shape[1:]) for name, array in part.items()}

    def append(self, part: Content) -> None:
        """Records that follow."""
        self._rows += int(part[self._records][-1])
        self._units += part[self._records].size - 1
        for name, array in part.items():
            kept = np.diff(array) if name == self._records else array
            self._pieces.setdefault(name, []).append(self._segments.put(kept.tobytes()))

    def outline(self) -> Content:
        """Arrays of the same shapes and types that take no memory; their values mean nothing."""
        return {
            name: np.broadcast_to(np.zeros((), kind), (self._length(name), *shape))
            for name, (kind, shape) in self._kinds.items()
        }

    def sealed(self, writer: Any) -> Iterator[bytes]:
        """`contents.canonical_bytes` of it, each written to `writer` on the way, in the form of
        `contents.pack`."""
        with zipfile.ZipFile(writer, "w") as archive:
            for name in sorted(self._kinds):
                kind, rest = self._kinds[name]
                shape = (self._length(name), *rest)
                yield f"{name}\0{kind.str}\0{shape}\0".encode()
                head = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    npy.write_array_header_1_0(member, head)
                    for data in self._values(name):
                        member.write(data)
                        yield data

    def _length(self, name: str) -> int:
        return self._units + 1 if name == self._records else self._rows

    def _values(self, name: str) -> Iterator[bytes]:
        kind, _ = self._kinds[name]
        if name != self._records:
            yield from map(self._segments.get, self._pieces.get(name, ()))
            return
        yield np.zeros(1, kind).tobytes()
        end = 0
        for piece in self._pieces.get(name, ()):  # of no records, or of some
            starts = end + np.cumsum(np.frombuffer(self._segments.get(piece), kind))
            end = int(starts[-1])
            yield starts.astype(kind).tobytes()
