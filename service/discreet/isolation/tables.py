"""Tables of an upload as Arrow batches: Parquet, and CSV as spreadsheets write it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, BinaryIO

from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge
from discreet.isolation import quick
from discreet.isolation.blocks import Block
from discreet.isolation.partitions import Room
from discreet_client.cells import MISSING, POINT_OR_THOUSANDS, SEPARATORS, Grammar, Refusal

CSV_BLOCK_BYTES = 4 << 20
MOST_COLUMNS = 1000
FOOTER_BYTES = 16 << 20
"""Of a Parquet file: what it says of its columns and row groups, parsed whole before anything can
be refused."""
MOST_ROWS_A_BYTE = 1000
"""Of a Parquet file, where a billion equal rows take a few bytes; files as they come have less than
a hundred."""
SEP = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
"""The first line of a CSV file that Excel is told the separator by."""
HEXADECIMAL = (b"0x", b"0X")
TRUTHS = frozenset(("true", "True", "TRUE", "false", "False", "FALSE"))
"""As Arrow has them."""
WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
NO_THREAD = "Failed to launch worker thread"
"""What Arrow says, as of a file that it does not understand, where this process may have no
thread."""
FIRST_LINE_BYTES = 1 << 20
"""Of a CSV file: the names of its columns."""


def content_of(
    kind: Any,
    public: Any,
    batches: Iterable[Any],
    schema: Any,
    block: Block | None,
    room: Room | None = None,
) -> Any:
    """The content of a table, whose dates say that its records are of the block. With a room it may
    be one that lies there (`PartedContent`)."""
    if block is not None:
        batches, schema = block.rows(batches), block.schema(schema)
    if room is None:
        return kind.read_batches(public, batches, schema)
    return room.read(kind, public, batches, schema)


def parquet_content(
    files: Sequence[Callable[[], BinaryIO]],
    kind: Any,
    public: Any,
    most: int,
    block: Block | None,
    room: Room | None = None,
) -> Any:
    """The content of Parquet files that are one table, in the quick way or in the other."""
    schema, rows = _outlines(files)
    check_rows(kind, rows, most)
    if room is not None:
        room.rows = rows

    def batches() -> Iterator[Any]:
        return (batch for file in files for batch in read_parquet(file())[2])

    content = _quickly(
        lambda: quick.parquet_content(batches(), schema, kind, public, block, room), room
    )
    return content_of(kind, public, batches(), schema, block, room) if content is None else content


def _outlines(files: Sequence[Callable[[], BinaryIO]]) -> tuple[Any, int]:
    """The schema of Parquet files that are one content, and how many rows all have."""
    schema, rows, _ = read_parquet(files[0]())
    for number, file in enumerate(files[1:], 1):
        other, more, _ = read_parquet(file())
        if not other.equals(schema, check_metadata=False):
            raise refused(
                f"its files differ in their columns or types: number {number} (from 0) from the "
                "first"
            )
        rows += more
    return schema, rows


def check_rows(kind: Any, rows: int, most: int) -> None:
    if rows * kind.ROW_BYTES > most:
        raise PayloadTooLarge(
            f"{rows} rows take at least {rows * kind.ROW_BYTES} bytes in memory, of at most {most}"
        )


def read_parquet(file: BinaryIO) -> tuple[Any, int, Iterator[Any]]:
    """Schema and number of rows, from the footer alone, and the batches."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8))
    footer, mark = int.from_bytes(file.read(4), "little"), file.read()
    if mark != b"PAR1":
        raise pa.ArrowInvalid("not a Parquet file")
    if footer > FOOTER_BYTES:
        raise refused(
            f"its footer has {footer} bytes, at most {FOOTER_BYTES} are read: fewer columns or row "
            "groups"
        )
    parquet = pq.ParquetFile(file, pre_buffer=False)
    _check_columns(parquet.metadata.num_columns)
    rows = int(parquet.metadata.num_rows)
    if rows > MOST_ROWS_A_BYTE * size:
        raise refused(f"it claims to have {rows} rows in {size} bytes")
    return parquet.schema_arrow, rows, parquet.iter_batches(batch_size=1 << 18, use_threads=False)


def read_csv(
    opened: Callable[[], BinaryIO],
    kind: Any,
    public: Any,
    most: int,
    block: Block | None,
    room: Room | None = None,
) -> Any:
    """Types are those that the whole file needs. Arrow's reader of streams fixes them by the first
    block, so a file that it stumbles on, as at `1.5` below integers, is opened anew (threads may
    still read it) and read whole. The quick way comes first, and says nothing of what it leaves.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pc  # noqa: PLC0415

    said = SEP.match(opened().read(16))
    if said is not None:
        opened = partial(_past, opened, said.end())
    separator = said[1].decode() if said is not None else None
    options, separator = _csv_options(opened(), kind.OWNER, separator)
    rest = CSV_BLOCK_BYTES, kind, public, block, partial(check_rows, kind, most=most), room
    # Arrow reads numbers with commas in all cells or in none, and 0x10 as 16: where that may be
    # met, each cell is read by the grammar.
    if separator != "," or (
        (content := _quickly(lambda: quick.csv_content(opened(), options, *rest), room)) is None
        and _has_hexadecimal(opened())
    ):
        table = _by_the_grammar(
            pc.read_csv(opened(), **_as_texts(opened(), options)), separator, kind.OWNER
        )
        batches = _counted(kind, table.to_batches(), most)
        return content_of(kind, public, batches, table.schema, block, room)
    if content is not None:
        return content
    with contextlib.suppress(pa.ArrowInvalid), pc.open_csv(opened(), **options) as reader:
        if pa.null() not in reader.schema.types:  # a column of which the first block has nothing
            batches = _counted(kind, reader, most)
            return content_of(kind, public, batches, reader.schema, block, room)
    table = pc.read_csv(opened(), **options)
    batches = _counted(kind, table.to_batches(), most)
    return content_of(kind, public, batches, table.schema, block, room)


def _has_hexadecimal(file: BinaryIO) -> bool:
    """Whether a number may stand in a file that Arrow alone takes for one."""
    last = b""
    while part := file.read(CSV_BLOCK_BYTES):
        if any(mark in last + part for mark in HEXADECIMAL):
            return True
        last = part[-1:]
    return False


def _as_texts(file: BinaryIO, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options by which every column is text."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pc  # noqa: PLC0415

    line = pa.BufferReader(file.readline(FIRST_LINE_BYTES).rstrip(b"\r\n") + b"\n")
    names = pc.read_csv(line, parse_options=options["parse_options"]).column_names
    given = options["convert_options"]
    texts = pc.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()),
        null_values=given.null_values,
        strings_can_be_null=True,
    )
    return {**options, "convert_options": texts}


def _by_the_grammar(table: Any, separator: str, owner: str) -> Any:
    """A table of texts with numbers for those columns that hold nothing else, each cell by itself
    (`discreet_client.cells`). InvalidInput where a number among numbers may be two."""
    import pyarrow as pa  # noqa: PLC0415

    grammar = Grammar(separator=separator)
    for place, name in enumerate(table.column_names):
        if name == owner:
            continue
        encoded = table.column(place).combine_chunks().dictionary_encode()
        texts = encoded.dictionary.to_pylist()
        meant = [grammar.number(one) for one in texts]
        unclear = [one == POINT_OR_THOUSANDS for one in meant]
        if any(unclear) and all(
            isinstance(one, float) or one == POINT_OR_THOUSANDS for one in meant
        ):
            text = texts[unclear.index(True)]
            row = next(row for row, one in enumerate(encoded.to_pylist()) if one == text)
            says = f"{POINT_OR_THOUSANDS.cause} found {text!r:.42}; say reader.decimal"
            raise InvalidInput(says, pointer=f"/content/{row}/{name}")
        values: Any
        if not texts:
            table = table.set_column(place, name, pa.nulls(table.num_rows))
            continue
        if TRUTHS.issuperset(texts):
            values = pa.array([one.lower() == "true" for one in texts])
        elif any(isinstance(one, Refusal) for one in meant):
            # For who says what is wrong: numbers are written as everywhere.
            if all(isinstance(one, Refusal) for one in meant):
                continue
            plain = [
                text if isinstance(one, Refusal) else text.strip().replace(",", ".", 1)
                for text, one in zip(texts, meant, strict=True)
            ]
            values = pa.array(plain, pa.string())
        elif all(WHOLE.fullmatch(one.strip()) for one in texts):
            values = pa.array([int(one) for one in texts], pa.int64())
        else:
            values = pa.array(meant, pa.float64())
        table = table.set_column(place, name, values.take(encoded.indices))
    return table


def _past(opened: Callable[[], BinaryIO], size: int) -> BinaryIO:
    file = opened()
    file.read(size)
    return file


def _quickly(read: Callable[[], Any], room: Room | None) -> Any:
    """What the quick way reads, once more where it turned out that it has to put rows aside."""
    content = read()
    return read() if content is None and room is not None and room.is_scattered else content


def _csv_options(file: BinaryIO, owner: str, separator: str | None) -> tuple[dict[str, Any], str]:
    """How Arrow reads a file, and its separator, that of the line of names. The column `owner` is
    text, whatever stands in it: as numbers names are not always told apart."""
    import pyarrow.csv as pc  # noqa: PLC0415

    line = file.readline(FIRST_LINE_BYTES + 1)
    if len(line) > FIRST_LINE_BYTES:
        raise refused(
            f"its first line has more than {FIRST_LINE_BYTES} bytes; it should name the columns"
        )
    if separator is None:
        separator = next((one for one in SEPARATORS if one.encode() in line), ",")
    _check_columns(1 + line.count(separator.encode()))
    texts: dict[str, Any] = (
        {"column_types": {owner: "string"}, "strings_can_be_null": True} if owner else {}
    )
    options = {
        "read_options": pc.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False),
        "parse_options": pc.ParseOptions(delimiter=separator),
        "convert_options": pc.ConvertOptions(null_values=sorted(MISSING), **texts),
    }
    return options, separator


def _counted(kind: Any, batches: Iterable[Any], most: int) -> Iterator[Any]:
    """The batches, until their rows are too many."""
    rows = 0
    for batch in batches:
        rows += batch.num_rows
        check_rows(kind, rows, most)
        yield batch


def _check_columns(columns: int) -> None:
    if columns > MOST_COLUMNS:
        raise refused(f"it has {columns} columns, at most {MOST_COLUMNS} are read")


def refused(why: str) -> InvalidInput:
    return InvalidInput(f"the file is not read: {why}", pointer="/content")


def unreadable(name: str, error: Exception) -> Exception:
    if NO_THREAD in str(error):
        return RuntimeError("Arrow could not start a thread")  # nothing that the file can help
    hint = (
        "; a name that ends in .csv or .json, or its Content-Type, says what else it is"
        if name == "Parquet"
        else ""
    )
    return InvalidInput([FieldIssue("/content", f"the file cannot be read as {name}{hint}")])
