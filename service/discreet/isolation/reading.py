"""What the reader of uploads does: uploaded files become contents in a child of their own, never in
the API.

A file of 1 GB may take many times that in memory while it is read, and its parser is a large
library that meets bytes of strangers. So the API only seals what comes, into a file without a name
under a key that no disk ever sees, and hands the file to a child of its zygote, inside the same
walls as a solver's and without the installation's master keys. The child is given two descriptors,
the sealed upload and the file to write to, which may grow to `target_bytes`; it answers the
content's digest and public description, and has written its bytes, sealed under the data key that
it was given.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from typing import Any, BinaryIO

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.isolation import described, network_files
from discreet.isolation.blocks import Block, any_record
from discreet.isolation.json_contents import read_json
from discreet.isolation.partitions import WHOLE_ROWS, PartedContent, Room
from discreet.isolation.segments import NoSpool
from discreet.isolation.tables import (
    CSV_BLOCK_BYTES,
    FIRST_LINE_BYTES,
    parquet_content,
    read_csv,
    read_parquet,
    refused,
    unreadable,
)
from discreet.isolation.tasks import Step, answers
from discreet.isolation.windows import READ_BYTES, windows
from discreet.storage.datasets import content_digest, zone_names_digest
from discreet.storage.sealing import (
    STREAM_CHUNK_BYTES,
    ChunkCipher,
    SealedReader,
    SealedWriter,
    new_data_key,
)

UPLOAD = "upload"
"""Under this name an upload is sealed while it waits to be read."""


def target_bytes(content_bytes: int) -> int:
    """The longest sealed file that a content of so many bytes becomes: seals of chunks, and heads
    of its arrays."""
    return content_bytes + (content_bytes >> 10) + STREAM_CHUNK_BYTES


def read(
    job: dict[str, Any], payload: bytes, descriptors: tuple[int, ...]
) -> tuple[dict[str, Any], bytes]:
    """`{digest, public, sealed_bytes, zone_names}`, the last where zones have names, of the upload
    in the first descriptor, whose content the second one then holds, or `{no_room}` with the
    error's number where the disk is full. Two more are for rows that are put aside (`partitions`).

    `job`: kind, public, mode, format, tenant, name, upload_key, upload_bytes, data_key, digest_key,
    content_bytes, `accept_doubts`; of a block of a source also `block`:
    what it is by, its name, and the realms of its digest, with records and without; where it is
    not as usual, `whole_rows`, up to which a table is read at once. Raises InvalidInput and
    PayloadTooLarge as the owner shall see them.
    """
    source, target, *spool = descriptors
    try:
        return _read(job, source, target, (spool[0], spool[1])), b""
    except NoSpool as full:
        return {"no_room": full.number}, b""
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return {"no_room": error.errno}, b""


def _read(job: dict[str, Any], source: int, target: int, spool: tuple[int, int]) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.contents import canonical_bytes  # noqa: PLC0415
    from discreet.problems.descriptions import without_names, zones_in_order  # noqa: PLC0415

    kind: Any = DATASETS[job["kind"]]
    public = kind.read_public(job["public"])
    names = zones_in_order(job["public"]) if job.get("described") else None
    if job.get("block") is not None:
        kind = kind.in_block()
    opened = _opened(job, source)
    parts = windows(opened, job.get("upload_parts", ()))
    room = Room(spool, job["content_bytes"], job.get("whole_rows", WHOLE_ROWS))
    notes = list[str]()
    found: Any
    if job.get("described"):
        public, found, notes = _described(kind, public, opened, job, parts)
    else:
        found = _content(kind, public, opened, job, parts, room)
    content = found.outline() if isinstance(found, PartedContent) else found
    size = sum(array.nbytes for array in content.values())
    if size > job["content_bytes"]:
        raise PayloadTooLarge(
            f"the content takes {size} bytes in memory, of at most {job['content_bytes']}"
        )
    kind.check_sizes(public, content, job["mode"])
    told = kind.describe(public, content).model_dump(mode="json", exclude_none=True)
    is_parted = isinstance(found, PartedContent)
    sums = found.doubt_sums if is_parted else kind.doubt_sums(public, content)
    if not job["accept_doubts"]:
        kind.require_plausible(sums)
    realm = (
        job["tenant"]
        if job.get("block") is None
        else job["block"]["realm" if any_record(content) else "empty"]
    )
    writer = SealedWriter(
        ChunkCipher(bytes.fromhex(job["data_key"]), job["name"]), lambda part: _write(target, part)
    )
    canonical = found.sealed(writer) if is_parted else canonical_bytes(content)
    digest_key = bytes.fromhex(job["digest_key"])
    digest = content_digest(digest_key, realm, canonical)
    if not is_parted:
        np.savez(writer, allow_pickle=False, **{name: content[name] for name in sorted(content)})
    writer.finish()
    sealed = {"digest": digest.hex(), "sealed_bytes": writer.sealed_bytes}
    if names is not None:
        sealed["zone_names"] = zone_names_digest(digest_key, job["tenant"], names).hex()
    return {**sealed, "public": without_names(told), "notes": notes}


def _described(
    kind: Any,
    public: Any,
    opened: Callable[[], BinaryIO],
    job: dict[str, Any],
    parts: Sequence[Callable[[], BinaryIO]],
) -> tuple[Any, Any, list[str]]:
    """Public part, content and notes of a file that is read by its description."""
    made = described.read(job, opened, job["upload_bytes"], parts)
    if made is None:
        return public, kind.nothing(public), []
    public = kind.read_public(made.public)
    return public, kind.read_table(public, made.table), made.notes


def preview(
    job: dict[str, Any], payload: bytes, descriptors: tuple[int, ...]
) -> tuple[dict[str, Any], bytes]:
    """What a file would be read as, for its owner alone: `described.preview` of the upload in the
    descriptor. `job`: kind, public, format, zones, upload_key, upload_bytes, memory_bytes."""
    return described.preview(job, _opened(job, descriptors[0]), job["upload_bytes"]), b""


def _opened(job: Mapping[str, Any], source: int) -> Callable[[], BinaryIO]:
    """What opens the upload in this descriptor."""
    cipher = ChunkCipher(bytes.fromhex(job["upload_key"]), UPLOAD)

    def opened() -> BinaryIO:
        raw = SealedReader(
            cipher, lambda offset, size: os.pread(source, size, offset), job["upload_bytes"]
        )
        return io.BufferedReader(
            raw, READ_BYTES
        )  # whole reads, which the raw file does not promise

    return opened


def check(
    job: dict[str, Any], payload: bytes, descriptors: tuple[int, ...]
) -> tuple[dict[str, Any], bytes]:
    """`{public}` of a stored content, packed in the payload, under another public part: `job` has
    kind, public, mode and content_bytes. Raises InvalidInput and PayloadTooLarge as the owner shall
    see them."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.contents import unpack  # noqa: PLC0415

    kind = DATASETS[job["kind"]]
    public, content = kind.read_public(job["public"]), unpack(payload)
    size = sum(array.nbytes for array in content.values())
    if size > job["content_bytes"]:
        raise PayloadTooLarge(
            f"the content takes {size} bytes in memory, of at most {job['content_bytes']}"
        )
    kind.check_again(public, content)
    kind.check_sizes(public, content, job["mode"])
    told = kind.describe(public, content).model_dump(mode="json", exclude_none=True)
    return {"public": told}, b""


def _content(
    kind: Any,
    public: Any,
    opened: Callable[[], BinaryIO],
    job: dict[str, Any],
    parts: Sequence[Callable[[], BinaryIO]] = (),
    room: Room | None = None,
) -> Any:
    import pyarrow as pa  # noqa: PLC0415

    block = Block.of(job)
    if job.get("block") is not None and _is_empty(kind, opened, job["format"], parts):
        return kind.nothing(public)
    if job["format"] == "json":
        return read_json(kind, public, opened(), block)
    name = {"csv": "CSV", "parquet": "Parquet"}[job["format"]]
    if not opened().read(1):
        raise refused("it is empty")
    try:
        if job["format"] == "csv":
            if room is not None:
                room.bytes_a_batch = job["upload_bytes"], CSV_BLOCK_BYTES
            return read_csv(opened, kind, public, job["content_bytes"], block, room)
        return parquet_content(parts or [opened], kind, public, job["content_bytes"], block, room)
    except (pa.ArrowMemoryError, MemoryError):
        raise MemoryError from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(name, error) from error


def _is_empty(
    kind: Any, opened: Callable[[], BinaryIO], form: str, parts: Sequence[Callable[[], BinaryIO]]
) -> bool:
    """Whether a file, or each part of one, says that a block has no records: a table with only a
    header, or JSON whose lists are empty or missing."""
    if form == "csv":
        names, *rest = opened().read(FIRST_LINE_BYTES + 1).splitlines() or [b""]
        return 0 < len(names) <= FIRST_LINE_BYTES and not b"".join(rest).strip()
    if form == "parquet":
        with contextlib.suppress(Exception):  # what is wrong with it is said where it is read
            return all(read_parquet(file())[1] == 0 for file in parts or [opened])
        return False
    text = opened().read(1 << 10)
    with contextlib.suppress(ValueError):
        value = json.loads(text) if len(text) < 1 << 10 else None
        return isinstance(value, dict) and all(
            value[name] == [] and name in kind.ROWS for name in value
        )
    return False


def _write(target: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[os.write(target, view) :]


# Before the walls ---------------------------------------------------------------------------------


def warm_up() -> None:
    """Read good, wrong and broken files of every kind in every format: what children need is then
    imported and compiled, for good contents and for refusals, and they open no files.

    The compiler itself is not loaded (55 MB): what reading calls has one type, whatever the content
    (`columns`)."""
    import pyarrow as pa  # noqa: PLC0415

    from discreet.problems import DATASETS, KINDS  # noqa: PLC0415
    from discreet.problems.sources import DatasetInBlocks  # noqa: PLC0415

    for name in DATASETS:
        for example in (
            KINDS[name].example()["problem"]["dataset"],
            *DATASETS[name].sample_contents(),
        ):
            for content in _json_files(example["content"]):
                _rehearse(name, example["public"], "json", content)
    network_files.warm_up()
    described.warm_up()
    own = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())  # malloc, which gives memory back
    for name, public, form, content in described.samples():
        _rehearse(name, public, form, content, is_described=True)
    for name, kind in DATASETS.items():
        for number, (public, columns) in enumerate(kind.sample_tables()):
            for form, content in _table_files(columns, wrong=number == 0):
                _rehearse(name, public, form, content)
                if form == "parquet":
                    _rehearse(name, public, form, content, whole_rows=0)
            _check_again(name, public, columns)
            # With rows of the first unit in two places, which are put aside.
            apart = {title: [rows[0], *rows[2:], rows[1]] for title, rows in columns.items()}
            for form, content in _table_files(apart, wrong=False):
                _rehearse(name, public, form, content, whole_rows=0)
        if issubclass(kind, DatasetInBlocks):
            public, columns = next(iter(kind.sample_tables()))
            rows = len(next(iter(columns.values())))
            for day in ("2026-10-01", date(2026, 10, 1), datetime(2026, 10, 1)):
                for form, content in _table_files({"date": [day] * rows, **columns}, wrong=False):
                    for block in ("2026-10-01", "2026-10-02"):
                        _rehearse(name, public, form, content, block)
    pa.set_memory_pool(own)  # which has to have been used once
    name, kind = next(iter(DATASETS.items()))
    public, columns = next(iter(kind.sample_tables()))
    for form, content in _table_files(columns, wrong=False):
        for whole_rows in (0, WHOLE_ROWS):
            _rehearse(name, public, form, content, whole_rows=whole_rows)


def _check_again(name: str, public: Mapping[str, Any], columns: Mapping[str, list[Any]]) -> None:
    """What a child does with a stored content, in this process."""
    import pyarrow as pa  # noqa: PLC0415

    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.contents import pack  # noqa: PLC0415

    kind = DATASETS[name]
    job = {"kind": name, "public": public, "mode": "private", "content_bytes": 1 << 30}
    with contextlib.suppress(InvalidInput, PayloadTooLarge):  # some tables are wrong on purpose
        content = pack(kind.read_table(kind.read_public(public), pa.table(columns)))
        check(job, content, ())


def _rehearse(
    kind: str,
    public: Mapping[str, Any],
    form: str,
    content: bytes,
    block: str | None = None,
    whole_rows: int = WHOLE_ROWS,
    *,
    is_described: bool = False,
) -> None:
    """What a child does with a file, in this process."""
    key = new_data_key().hex()
    source, target, *spool = files = [os.memfd_create("rehearsal") for _ in range(4)]
    try:
        writer = SealedWriter(
            ChunkCipher(bytes.fromhex(key), UPLOAD), lambda part: _write(source, part)
        )
        writer.write(content)
        writer.finish()
        job: dict[str, Any] = {
            "kind": kind,
            "public": public,
            "mode": "private",
            "format": form,
            "tenant": "",
            "name": "rehearsal",
            "accept_doubts": False,
            "whole_rows": whole_rows,
        }
        if block is not None:
            job["block"] = {"by": "day", "name": block, "realm": "", "empty": ""}
        keys = {"upload_key": key, "data_key": key, "digest_key": key}
        if is_described:
            job |= {"described": True, "memory_bytes": 1 << 30}
            preview({**job, **keys, "upload_bytes": writer.sealed_bytes}, b"", (source,))
        _read(
            {**job, **keys, "upload_bytes": writer.sealed_bytes, "content_bytes": 1 << 30},
            source,
            target,
            (spool[0], spool[1]),
        )
    except (InvalidInput, PayloadTooLarge):
        pass
    finally:
        for one in files:
            os.close(one)


def _json_files(content: Mapping[str, Any]) -> Iterator[bytes]:
    """A good file, wrong ones, and what is no JSON as it should be."""
    yield json.dumps(content).encode()
    for name, value in content.items():
        wrong: Any
        for wrong in (
            None,
            1,
            "text",
            [],
            {},
            [None],
            [[]],
            [{}],
            {"": None},
            [value],
            {"": value},
        ):
            yield json.dumps({**content, name: wrong}).encode()
    yield json.dumps({**content, "nothing": 1}).encode()
    yield from (b"", b"{", b"\xff", b"\xef\xbb\xbf{}", b"[]", b"{}", b"NaN", b'{"a": 1, "a": 1}')
    yield from (b'{"a": "\\ud800"}', b"[" * 100 + b"]" * 100, b"1" * 5000, b"1e999")


def _table_files(columns: Mapping[str, list[Any]], *, wrong: bool) -> Iterator[tuple[str, bytes]]:
    """Formats and files: a good one and, with `wrong`, wrong ones and what is neither Parquet nor
    CSV."""
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    tables: list[Mapping[str, list[Any]]] = [columns]
    if wrong:
        tables += [{}, {**columns, "nothing": next(iter(columns.values()))}]
        for name, values in columns.items():
            tables.append({other: values for other, values in columns.items() if other != name})
            tables.append({**columns, name: [*values[:-1], None]})
            for value in (None, "text", float("nan"), -1, [1.0]):
                tables.append({**columns, name: [value for _ in values]})
    for table in tables:
        made = pa.table(table)
        sink = io.BytesIO()
        pq.write_table(made, sink)
        yield "parquet", sink.getvalue()
        if not any(pa.types.is_nested(field.type) for field in made.schema):
            sink = io.BytesIO()
            pc.write_csv(made, sink)
            yield "csv", sink.getvalue()
    if not wrong:
        return
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    good = sink.getvalue()
    for broken in (b"", b"PAR1 but not really", good[:-20], bytes(len(good) - 12) + good[-12:]):
        yield "parquet", broken
    names = ",".join(columns).encode()
    late = b"1\n" * (CSV_BLOCK_BYTES // 2) + b"1.5\n"  # a type that shows in a later block only
    for text in (
        b"",
        names,
        names + b"\n1\n",
        b"\xff\n",
        names + b"\n" + b"," * (len(columns) - 1),
        b"one\n" + late,
    ):
        yield "csv", text


STEPS: Mapping[str, Step] = {
    "read": answers(read),
    "check": answers(check),
    "preview": answers(preview),
    "read_network": answers(network_files.read_network),
}
