"""Several files that follow one another in one upload, each to be read as a file of its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, BinaryIO

READ_BYTES = 1 << 16


class Window(io.RawIOBase):
    """A part of a file that can be read at any position, as a file of its own."""

    def __init__(self, file: BinaryIO, start: int, size: int) -> None:
        super().__init__()
        self._file, self._start, self._size = file, start, size
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        place = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[
            whence
        ] + offset
        if place < 0:
            raise ValueError("the position is before the beginning of the file")
        self._position = place
        return place

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._position)]
        self._file.seek(self._start + self._position)
        part = self._file.read(len(view))
        view[: len(part)] = part
        self._position += len(part)
        return len(part)


def windows(opened: Callable[[], BinaryIO], sizes: Sequence[int]) -> list[Callable[[], BinaryIO]]:
    """Openers of the files that follow one another in an upload; empty where there is only one
    file."""

    def window(start: int, size: int) -> BinaryIO:
        return io.BufferedReader(Window(opened(), start, size), READ_BYTES)

    starts = accumulate(sizes, initial=0)
    return (
        [partial(window, *place) for place in zip(starts, sizes, strict=False)]
        if len(sizes) > 1
        else []
    )
