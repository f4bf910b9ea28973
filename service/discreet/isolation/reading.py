"""Uploaded files become contents in a process of their own, never in the API's.

A file of 1 GB may take many times that in memory while it is read, and its parser is a large library that meets bytes
of strangers. So the API only seals what comes, into a file without a name under a key that no disk ever sees, and
hands the file to a reader. The reader (this module run as a program) has everything imported and forks one child an
upload, with limits, without environment and without the installation's master keys. The child answers the content's
digest, its public description and its bytes, sealed under the data key that it was given.

Messages on the job's socket: 4 bytes of length, then JSON. Two descriptors come with the job: the sealed upload and the
file to write to.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import io
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator
from typing import Any, BinaryIO

from discreet.errors import FieldIssue, InvalidInput, PayloadTooLarge
from discreet.storage.digests import content_digest
from discreet.storage.sealing import ChunkCipher, SealedReader, SealedWriter

MODULE = "discreet.isolation.reading"
UPLOAD = "upload"
"""Under this name an upload is sealed while it waits to be read."""

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NO_NEW_PRIVS = 38
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
CLONE_NEWIPC = 0x08000000
NOBODY = 65534
READ_BYTES = 1 << 16
CSV_BLOCK_BYTES = 4 << 20
CPU_SECONDS = 3600
_LENGTH_BYTES = 4

_libc = ctypes.CDLL(None, use_errno=True)


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    channel.sendall(len(body).to_bytes(_LENGTH_BYTES, "big") + body)


def receive(channel: socket.socket) -> dict[str, Any]:
    """EOFError when the other side is gone."""
    with channel.makefile("rb") as stream:
        size = stream.read(_LENGTH_BYTES)
        body = stream.read(int.from_bytes(size, "big"))
    if len(size) < _LENGTH_BYTES or not body:
        raise EOFError
    found: dict[str, Any] = json.loads(body)
    return found


def main(control: socket.socket) -> None:
    """Fork a child for every job until the API closes the control socket, which its death does too.

    (Not by PDEATHSIG: that watches the thread which started this, and the API's threads come and go.)
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _warm_up()
    gc.freeze()
    control.sendall(b"r")
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1, 3)
        if not message:
            return
        if os.fork() == 0:
            _child(control, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _warm_up() -> None:
    """Import and compile all that reading may need: a child may not be able to open our files any more."""
    import pyarrow.compute  # noqa: PLC0415 - the methods of its tables load it
    import pyarrow.csv  # noqa: PLC0415
    import pyarrow.parquet  # noqa: F401, PLC0415

    from discreet.problems import KINDS  # noqa: PLC0415
    from discreet.problems.base import read_example  # noqa: PLC0415

    for kind in KINDS.values():
        read_example(kind)  # registers the example's dataset, where it has one


def _child(control: socket.socket, descriptors: list[int]) -> None:
    """Read one upload and leave; never returns."""
    try:
        control.close()
        channel = socket.socket(fileno=descriptors[0])
        job = receive(channel)
        _confine(job["memory_bytes"])
        send(channel, answer(job, descriptors[1], descriptors[2]))
        os._exit(0)
    except BaseException:
        os._exit(1)


def _confine(memory_bytes: int) -> None:
    """Leave behind what reading does not need, as far as the kernel lets an ordinary user."""
    os.environ.clear()
    os.chdir("/")
    root = os.geteuid() == 0
    namespaces = CLONE_NEWNET | CLONE_NEWIPC
    _libc.unshare(namespaces if root else namespaces | CLONE_NEWUSER)
    for name, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, CPU_SECONDS),
    ):
        _, hard = resource.getrlimit(name)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (limit, limit))
    if root:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _libc.prctl(PR_SET_DUMPABLE, 0)
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def answer(job: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    """What became of a job: `{digest, public, sealed_bytes}`, `{issues}`, `{too_large}` or `{no_room}`."""
    try:
        return _read(job, source, target)
    except InvalidInput as error:
        return {"issues": [[issue.pointer, issue.detail] for issue in error.issues], "code": error.code}
    except PayloadTooLarge as error:
        return {"too_large": error.detail}
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        return {"no_room": error.errno}
    except MemoryError:
        return {"too_large": f"reading the file takes more memory than {job['memory_bytes']} bytes"}


def _read(job: dict[str, Any], source: int, target: int) -> dict[str, Any]:
    import numpy as np  # noqa: PLC0415

    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet.problems.base import canonical_bytes  # noqa: PLC0415

    kind = DATASETS[job["kind"]]
    public = kind.read_public(job["public"])
    cipher = ChunkCipher(bytes.fromhex(job["upload_key"]), UPLOAD)
    raw = SealedReader(cipher, lambda offset, size: os.pread(source, size, offset), job["upload_bytes"])
    with io.BufferedReader(raw, READ_BYTES) as file:  # whole reads, which the raw file does not promise
        content = _content(kind, public, file, job)
    size = sum(array.nbytes for array in content.values())
    if size > job["content_bytes"]:
        raise PayloadTooLarge(f"the content takes {size} bytes in memory, of at most {job['content_bytes']}")
    described = kind.describe(public, content).model_dump(mode="json", exclude_none=True)
    digest = content_digest(bytes.fromhex(job["digest_key"]), job["tenant"], canonical_bytes(content))
    writer = SealedWriter(ChunkCipher(bytes.fromhex(job["data_key"]), job["name"]), lambda part: _write(target, part))
    np.savez(writer, allow_pickle=False, **{name: content[name] for name in sorted(content)})
    writer.finish()
    return {"digest": digest.hex(), "public": described, "sealed_bytes": writer.sealed_bytes}


def _content(kind: Any, public: Any, file: BinaryIO, job: dict[str, Any]) -> Any:
    import pyarrow as pa  # noqa: PLC0415
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415

    from discreet.field_issues import issues_of  # noqa: PLC0415
    from discreet.strict_json import loads  # noqa: PLC0415

    if job["format"] == "json":
        value = loads(file.read())
        annotation: Any = kind.model_fields["content"].annotation
        adapter = TypeAdapter[Any](annotation)
        try:
            return kind.read_rows(public, adapter.validate_python(value))
        except ValidationError as error:
            issues = issues_of(error.errors(include_url=False), value, adapter.json_schema())
            raise InvalidInput(issues).under("/content") from None
    name = {"csv": "CSV", "parquet": "Parquet"}[job["format"]]
    try:
        schema, rows, batches = (_csv if job["format"] == "csv" else _parquet)(file)
        _check_rows(kind, rows, job["content_bytes"])
        return kind.read_batches(public, _guarded(batches, name), schema)
    except (pa.ArrowMemoryError, MemoryError):
        raise MemoryError from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _unreadable(name) from error


def _check_rows(kind: Any, rows: int, most: int) -> None:
    if rows * kind.ROW_BYTES > most:
        size = f"{rows} rows take at least {rows * kind.ROW_BYTES} bytes in memory"
        raise PayloadTooLarge(f"{size}; a content may take {most}")


def _parquet(file: BinaryIO) -> tuple[Any, int, Iterator[Any]]:
    """Schema and number of rows, from the footer alone, and the batches."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    parquet = pq.ParquetFile(file, pre_buffer=False)
    rows = int(parquet.metadata.num_rows)
    return parquet.schema_arrow, rows, parquet.iter_batches(batch_size=1 << 18, use_threads=False)


def _csv(file: BinaryIO) -> tuple[Any, int, Iterator[Any]]:
    """Types are those that the whole file needs: `1` in the first block and `1.5` in a later one is a column of reals.

    Arrow's reader of streams fixes types by the first block, so a file that it stumbles on is read whole.
    """
    import pyarrow as pa  # noqa: PLC0415
    import pyarrow.csv as pc  # noqa: PLC0415

    options = pc.ReadOptions(block_size=CSV_BLOCK_BYTES, use_threads=False)
    try:
        with pc.open_csv(file, read_options=options) as reader:
            schema = reader.schema
            rows = sum(batch.num_rows for batch in reader)
    except pa.ArrowInvalid:
        file.seek(0)
        table = pc.read_csv(file, read_options=options)
        return table.schema, table.num_rows, iter(table.to_batches())
    file.seek(0)
    again = pc.open_csv(file, read_options=options)
    return schema, rows, iter(again)


def _guarded(batches: Iterator[Any], name: str) -> Iterator[Any]:
    """The batches; what Arrow says of a file in the middle of it goes to the owner in one sentence of ours."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        yield from batches
    except pa.ArrowMemoryError:
        raise MemoryError from None
    except (pa.ArrowException, OSError) as error:
        raise _unreadable(name) from error


def _unreadable(name: str) -> InvalidInput:
    hint = "; a name that ends in .csv or .json, or its Content-Type, says what else it is" if name == "Parquet" else ""
    return InvalidInput([FieldIssue("/content", f"the file cannot be read as {name}{hint}")])


def _write(target: int, part: bytes) -> None:
    view = memoryview(part)
    while view:
        view = view[os.write(target, view) :]


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
