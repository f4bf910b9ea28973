"""The quick way to the content of a table that is as it should be: batches are parsed and checked
in threads while this one reads the file and puts together what they made.

It takes a file or does not, and never says why: whatever is not plain ends it, and the file is then
read anew by `tables`, one batch after the other, which words every refusal.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from typing import Any, BinaryIO, TypeVar

from discreet.errors import DiscreetError
from discreet.isolation.blocks import Block
from discreet.isolation.grouped import NotGrouped
from discreet.isolation.partitions import Room
from discreet.isolation.processes import cores

MOST_THREADS = 4
"""That parse and check the batches of one upload."""
THREAD_BYTES = 16 << 20
"""Address space that is there for each thread when it starts: its stack, and its first steps."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""Arrow skips it where a file begins, and so where a part of one does."""

Item = TypeVar("Item")
Made = TypeVar("Made")


class NotPlain(Exception):
    """The file is for the reader that takes its time."""


def csv_content(
    file: BinaryIO,
    options: Mapping[str, Any],
    block_bytes: int,
    kind: Any,
    public: Any,
    block: Block | None,
    check_rows: Callable[[int], None],
    room: Room | None = None,
) -> Any:
    """The content of a CSV file, None where it is not plain.

    Types are those of the first block, as Arrow's reader of streams has them. `check_rows` raises
    where so many are too many.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pc  # noqa: PLC0415

    def parsed(part: bytes, names: list[str] | None, types: Any) -> Any:
        """A part that ends with a line, as a table of one batch at most."""
        given = options["convert_options"]
        table = pc.read_csv(
            pa.BufferReader(part),
            # One block more than the part: it is the last one, and nothing is cut.
            read_options=pc.ReadOptions(
                column_names=names, block_size=len(part) + 1, use_threads=False
            ),
            parse_options=options["parse_options"],
            convert_options=pc.ConvertOptions(
                column_types=types,
                null_values=given.null_values,
                strings_can_be_null=given.strings_can_be_null,
                decimal_point=given.decimal_point,
            ),
        )
        _check_lines(table)
        return table

    def content() -> Any:
        parts = _parts(file, block_bytes)
        head = parsed(next(parts), None, options["convert_options"].column_types)
        schema = head.schema
        names = schema.names
        if pa.null() in schema.types or len(set(names)) < len(names):
            raise NotPlain
        return _content(
            kind,
            public,
            schema,
            chain([head], parts),
            lambda part: part if part is head else parsed(part, names, schema),
            block,
            check_rows,
            room,
        )

    return _or_none(content)


def parquet_content(
    batches: Iterable[Any],
    schema: Any,
    kind: Any,
    public: Any,
    block: Block | None,
    room: Room | None = None,
) -> Any:
    """The content of the batches of Parquet files, None where they are not plain."""
    import pyarrow as pa  # noqa: PLC0415

    def table_of(batch: Any) -> Any:
        return pa.Table.from_batches([batch])

    return _or_none(
        lambda: _content(kind, public, schema, batches, table_of, block, lambda _: None, room)
    )


def _content(
    kind: Any,
    public: Any,
    schema: Any,
    items: Iterable[Any],
    table_of: Callable[[Any], Any],
    block: Block | None,
    check_rows: Callable[[int], None],
    room: Room | None,
) -> Any:
    schema = schema if block is None else block.schema(schema)
    units = kind.by_units(public, schema)

    def checked(item: Any) -> tuple[int, list[Any]]:
        table = table_of(item)
        if block is not None:
            table = block.plain(table)
        if units is None:
            return table.num_rows, table.to_batches()
        return table.num_rows, [units.checked(table)] if table.num_rows else []

    def counted(made: Iterable[tuple[int, list[Any]]]) -> Iterator[Any]:
        rows = 0
        for more, batches in made:
            rows += more
            check_rows(rows)
            yield from batches

    with closing(in_threads(items, checked, min(cores(), MOST_THREADS))) as made:
        if units is None:
            return kind.read_batches(public, counted(made), schema)
        if room is None:
            return units.whole(list(counted(made)))
        return room.read_checked(kind, public, units, counted(made))


def in_threads(
    items: Iterable[Item], function: Callable[[Item], Made], threads: int
) -> Generator[Made, None, None]:
    """What `function` makes of each item, in their order; a few items ahead, which are drawn in
    the thread that asks."""
    ahead: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        _start(pool, threads)
        try:
            for item in items:
                ahead.append(pool.submit(function, item))
                if len(ahead) > 2 * threads:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()


def _start(pool: ThreadPoolExecutor, threads: int) -> None:
    """Start all threads of a new pool, while none of them takes memory. MemoryError where there is
    too little for them, RuntimeError where there is no thread.

    A thread that has no memory for its first step dies without a word, and who has started it waits
    for ever (CPython 3.11).
    """
    try:
        mmap.mmap(-1, threads * THREAD_BYTES).close()
    except OSError as error:
        raise MemoryError from error
    together = threading.Barrier(threads)
    try:
        for _ in range(threads):
            pool.submit(together.wait)
    except BaseException:
        together.abort()
        raise


def _or_none(content: Callable[[], Any]) -> Any:
    """A content; None where there is anything to say of the file, and where there is no memory or
    no thread for the quick way."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        return content()
    except (
        NotPlain,
        NotGrouped,
        DiscreetError,
        pa.ArrowException,
        MemoryError,
        OverflowError,
        RuntimeError,
        ValueError,
    ):
        return None


def _parts(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The file in parts of about so many bytes, each but the last ending with a line."""
    rest, is_first = b"", True
    while part := file.read(size):
        if b"0x" in part or b"0X" in part:
            raise NotPlain  # Arrow takes 0x10 for a number
        end = part.rfind(b"\n") + 1
        if not end:
            rest += part
            if len(rest) > size:
                raise NotPlain  # a line that is longer than a part
            continue
        if not is_first and (rest or part).startswith(BYTE_ORDER_MARK):
            raise NotPlain
        yield rest + part[:end] if rest else part[:end]
        rest, is_first = part[end:], False
    if rest:
        if not is_first and rest.startswith(BYTE_ORDER_MARK):
            raise NotPlain
        yield rest


def _check_lines(table: Any) -> None:
    """NotPlain where a line ends within a value, so that a part may not end with a row."""
    import pyarrow as pa  # noqa: PLC0415

    for column in table.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            for chunk in column.chunks:
                if (texts := chunk.buffers()[2]) is not None and _has_ends(texts):
                    raise NotPlain
        elif pa.types.is_dictionary(column.type):
            raise NotPlain


def _has_ends(texts: Any) -> bool:
    """Whether there is a byte that ends a line."""
    import numpy as np  # noqa: PLC0415

    letters = np.frombuffer(texts, dtype=np.uint8)
    return bool((letters == ord("\n")).any() or (letters == ord("\r")).any())
