"""Files below a folder that the operator allows, opened so that no name can lead out of it.

Each segment is opened relative to the descriptor of the one before, and none may be a symbolic
link, whenever somebody puts it there. Only regular files are read. The folder of the place itself
is the operator's choice, and may be a link.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from fnmatch import fnmatchcase

from discreet.errors import Conflict
from discreet.usecases.places.rules import (
    PATTERN,
    Address,
    FolderPlace,
    NothingThere,
    PlaceRefused,
    PlaceUnavailable,
)
from discreet.usecases.uploads import Upload

READ_BYTES = 1 << 20
MOST_PARTS = 10_000
"""The most files of one pattern, and the most names of one folder that are searched for it."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NOTHING = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG)


class ContentChanged(Conflict):
    """The content changed while it was read; nothing was registered."""

    code = "content_changed"


def copy(
    place: FolderPlace,
    address: Address,
    upload: Upload,
    room: Callable[[int], None],
    until: float = math.inf,
) -> None:
    """Write the files at this address to the upload, one part each, in the order of their names,
    until the monotonic clock reaches `until`: the thread in which this runs cannot be ended.

    `room` is called with the bytes of a file before it is read, and raises if they are too many.
    Raises PlaceRefused, PlaceUnavailable or ContentChanged.
    """
    found = 0
    inside = address.segments[len(place.address.segments) :]
    try:
        with ExitStack() as stack:
            folder = os.open("/" + "/".join(place.address.segments), _FOLDER)
            stack.callback(os.close, folder)
            for descriptor in _files(folder, inside, until):
                found += 1
                if found > MOST_PARTS:
                    raise PlaceRefused(f"a pattern of at most {MOST_PARTS} files is needed")
                _copy(descriptor, upload, room, until)
    except OSError as error:
        raise _trouble(error) from error
    if not found:
        raise NothingThere("there is no file of this name, or none that matches the pattern")


def _files(folder: int, segments: tuple[str, ...], until: float) -> Iterator[int]:
    """Descriptors of the files, one open at a time."""
    first, rest = segments[0], segments[1:]
    if not PATTERN & set(first):
        names = [first]
    else:
        with os.scandir(folder) as entries:
            listed = sorted(
                entry.name for _, entry in zip(range(MOST_PARTS + 1), entries, strict=False)
            )
        if len(listed) > MOST_PARTS:
            raise PlaceRefused(
                f"a pattern is only searched for in folders of at most {MOST_PARTS} files"
            )
        names = [name for name in listed if fits(name, first)]
    for name in names:
        _require_time(until)
        with _opened(folder, name, _FOLDER | os.O_NOFOLLOW if rest else _FILE) as descriptor:
            # Nothing, a link or a device; a folder among the files, or a file among the folders.
            if descriptor is None:
                continue
            if rest:
                yield from _files(descriptor, rest, until)
            else:
                yield descriptor


def fits(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern with `*` and `?`. As in a shell these match no name that
    begins with a dot; brackets have no special meaning."""
    escaped = pattern.replace("[", "[[]")
    return fnmatchcase(name, escaped) and (pattern.startswith(".") or not name.startswith("."))


@contextmanager
def _opened(folder: int, name: str, flags: int) -> Iterator[int | None]:
    """The descriptor of a regular file, or of a folder if `flags` ask for one; None for anything
    else."""
    try:
        descriptor = os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno not in _NOTHING:
            raise
        yield None
        return
    try:
        mode = os.fstat(descriptor).st_mode
        yield descriptor if stat.S_ISDIR(mode) or (stat.S_ISREG(mode) and flags == _FILE) else None
    finally:
        os.close(descriptor)


def _copy(descriptor: int, upload: Upload, room: Callable[[int], None], until: float) -> None:
    before = os.fstat(descriptor)
    if stat.S_ISDIR(before.st_mode):
        raise PlaceRefused("this is a folder: name a file, or a pattern such as *.parquet")
    room(before.st_size)
    came = 0
    while part := os.read(descriptor, READ_BYTES):
        came += len(part)
        if came > before.st_size:
            raise ContentChanged()
        _require_time(until)
        upload.write(part)
    after = os.fstat(descriptor)
    if (came, before.st_mtime_ns) != (before.st_size, after.st_mtime_ns):
        raise ContentChanged()
    upload.end_part()


def _require_time(until: float) -> None:
    if time.monotonic() > until:
        raise PlaceUnavailable("reading the files took too long")


def _trouble(error: OSError) -> Exception:
    if error.errno in (errno.EACCES, errno.EPERM):
        return PlaceUnavailable("the service's user may not read this file")
    if error.errno in _NOTHING:
        return PlaceUnavailable("the folder of this place does not exist")
    return PlaceUnavailable(f"the file cannot be read: {os.strerror(error.errno or errno.EIO)}")
