"""Rows of a query as a Parquet file, written as they come.

Each column becomes one of six types on the server, whose binary form has a known length, or is a
text that is cut there: neither a value nor a row can be large.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from psycopg import pq as libpq

from discreet.usecases.places.addresses import QueryRefused
from discreet.usecases.places.wire import Broken
from discreet.usecases.uploads import Upload

MOST_COLUMNS = 1000
LONGEST_TEXT = 1000
"""In characters."""
GROUP_BYTES = 32 << 20
"""Of a row group, in memory."""
PARTS_TOGETHER = 64
"""So many parts become one: an array takes some hundred bytes, however few its values."""
CELL_BYTES = 4
"""Counted for each value beside its own bytes, as on the wire: NULLs without end have an end too.
"""


class Kind(NamedTuple):
    """A type of columns: what is asked of the server, and what its values are."""

    sql: str
    form: str
    """NumPy's type of the values as they come; empty for texts."""
    arrow: pa.DataType


INTEGER = Kind("{}::pg_catalog.int8", ">i8", pa.int64())
REAL = Kind("{}::pg_catalog.float8", ">f8", pa.float64())
TRUTH = Kind("{}::pg_catalog.bool", "?", pa.bool_())
_CUT = (
    "CASE pg_catalog.getdatabaseencoding() WHEN 'SQL_ASCII' "
    f"THEN {4 * LONGEST_TEXT + 4} ELSE {LONGEST_TEXT + 1} END"
)
"""Where texts are cut: a database that knows no encoding counts bytes, of which UTF-8 has up to
four a character."""
TEXT = Kind(f'pg_catalog."left"({{}}::pg_catalog.text, {_CUT})', "", pa.string())
DATE = Kind("({} - pg_catalog.date '1970-01-01')::pg_catalog.int4", ">i4", pa.date32())
_MICROSECONDS = "(EXTRACT(epoch FROM {}) * 1000000)::pg_catalog.int8"
MOMENT = Kind(_MICROSECONDS, ">i8", pa.timestamp("us"))
ZONED = Kind(_MICROSECONDS, ">i8", pa.timestamp("us", "UTC"))
_NUMERIC = 1700
_KINDS = {
    **dict.fromkeys((20, 21, 23), INTEGER),  # int8, int2, int4
    **dict.fromkeys((700, 701, _NUMERIC), REAL),  # float4, float8, numeric
    16: TRUTH,
    **dict.fromkeys(
        (18, 19, 25, 1042, 1043, 2950), TEXT
    ),  # "char", name, text, char, varchar, uuid
    1082: DATE,
    1114: MOMENT,
    1184: ZONED,
}
"""By the numbers of PostgreSQL's own types, which are the same everywhere."""
_WHOLE_DIGITS = 18
"""Of a numeric without decimals: as many are always an int8."""


@dataclass(frozen=True)
class Column:
    """A column of a query's rows."""

    name: str
    kind: Kind


def columns_of(
    described: libpq.abc.PGresult, types: Callable[[Sequence[int]], dict[int, tuple[str, bool]]]
) -> list[Column]:
    """The columns of a statement. `types` returns the names of other types, and whether each is an
    enumeration. QueryRefused, with its name, for a column that cannot be read."""
    if described.nparams:
        raise QueryRefused("the query has parameters ($1), and nothing gives them values")
    if not described.nfields:
        raise QueryRefused("a SELECT with columns is needed")
    if described.nfields > MOST_COLUMNS:
        says = f"the query has {described.nfields} columns, at most {MOST_COLUMNS} are read"
        raise QueryRefused(says)
    names = [
        (described.fname(place) or b"").decode("utf-8", "replace")
        for place in range(described.nfields)
    ]
    numbers = [described.ftype(place) for place in range(described.nfields)]
    others = types([number for number in numbers if number not in _KINDS])
    columns: list[Column] = []
    for place, (name, number) in enumerate(zip(names, numbers, strict=True)):
        if name in names[:place]:
            raise QueryRefused(f"the query has two columns {name!r:.80}: name each with AS")
        kind = _KINDS.get(number)
        if number == _NUMERIC and _is_whole(described.fmod(place)):
            kind = INTEGER
        if kind is None:
            type_name, is_enumeration = others.get(number, ("unknown", False))
            if not is_enumeration:
                raise QueryRefused(
                    f"column {name!r:.80} is of type {type_name:.80}, which is not read: cast it "
                    "to int8, float8, bool, text, date or timestamp"
                )
            kind = TEXT
        columns.append(Column(name, kind))
    return columns


def _is_whole(modifier: int) -> bool:
    """Whether a numeric with this type modifier has no decimals, and few enough digits."""
    precision, scale = (modifier - 4) >> 16 & 0xFFFF, (modifier - 4) & 0x7FF
    return modifier >= 4 and scale == 0 and precision <= _WHOLE_DIGITS


@dataclass
class Rows:
    """Writes rows to an upload. `room` is called with bytes that will come, and raises if they are
    too many."""

    columns: Sequence[Column]
    upload: Upload
    room: Callable[[int], None]
    _parts: list[pa.RecordBatch] = field(default_factory=list)
    _received: int = 0
    _waiting: int = 0

    def __post_init__(self) -> None:
        import pyarrow.parquet as pq  # noqa: PLC0415 - most processes never fetch rows

        self._schema = pa.schema([(one.name, one.kind.arrow) for one in self.columns])
        self._sink = _Sink(self.upload)
        # Plain, so that what comes fits into an upload exactly if it does on the wire.
        self._writer = pq.ParquetWriter(
            self._sink, self._schema, compression="none", use_dictionary=False
        )

    def add(self, result: libpq.abc.PGresult) -> None:
        """Some rows. QueryRefused for a text that is too long or no UTF-8; Broken if these are not
        rows of these columns."""
        if result.nfields != len(self.columns):
            raise Broken
        rows = range(result.ntuples)
        arrays = []
        for place, column in enumerate(self.columns):
            values = [result.get_value(row, place) for row in rows]
            self._received += sum(map(len, filter(None, values))) + CELL_BYTES * len(values)
            arrays.append(
                _texts(column, values) if not column.kind.form else _numbers(column, values)
            )
        self.room(max(0, self._received - self.upload.plain_bytes))
        part = pa.record_batch(arrays, schema=self._schema)
        self._parts.append(part)
        self._waiting += part.nbytes
        if len(self._parts) >= PARTS_TOGETHER:
            self._parts = pa.Table.from_batches(self._parts).combine_chunks().to_batches()
        if self._waiting >= GROUP_BYTES:
            self._write()

    def finish(self) -> None:
        """Nothing more comes."""
        self._write()
        self._writer.close()
        self.upload.end_part()

    def _write(self) -> None:
        if self._parts:
            self._writer.write_table(pa.Table.from_batches(self._parts))
        self._parts, self._waiting = [], 0


def _numbers(column: Column, values: Sequence[bytes | None]) -> pa.Array:
    form = np.dtype(column.kind.form)
    nothing = bytes(form.itemsize)
    joined = b"".join(nothing if one is None else one for one in values)
    if len(joined) != form.itemsize * len(values):
        raise Broken
    numbers = np.frombuffer(joined, form).astype(form.newbyteorder("="))
    missing = np.fromiter((one is None for one in values), bool, len(values))
    return pa.array(numbers, mask=missing).cast(column.kind.arrow)


def _texts(column: Column, values: Sequence[bytes | None]) -> pa.Array:
    try:
        texts = pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        raise QueryRefused(f"column {column.name!r:.80} holds text that is not UTF-8") from None
    if any(one is not None and len(one) > LONGEST_TEXT for one in values) and any(
        one is not None and len(one) > LONGEST_TEXT for one in texts.to_pylist()
    ):
        says = f"column {column.name!r:.80} holds a text of more than {LONGEST_TEXT} characters"
        raise QueryRefused(says)
    return texts


class _Sink(io.RawIOBase):
    """What is written goes into the upload."""

    def __init__(self, upload: Upload) -> None:
        super().__init__()
        self._upload = upload

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._upload.write(bytes(part))
        return len(part)

    def tell(self) -> int:
        return self._upload.plain_bytes
