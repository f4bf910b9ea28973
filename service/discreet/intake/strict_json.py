"""JSON from outside, read strictly: no duplicate keys, no deep nesting, no text that nothing can
store, and numbers that keep their own digits.

Python's reader takes `NaN`, silently keeps the last of two equal keys and turns
`0.1000000000000000055` into `0.1`. Here a number that a float does not hold exactly as it was
written is a `Number`: a float that remembers its text, so that money-like fields (epsilon, delta)
are read as the decimals that were written. NaN, Infinity and 1e999 become non-finite numbers, which
every field refuses by name. Texts hold no NUL and no half of a surrogate pair: no database and no
UTF-8 can hold them.

Reading takes time linear in the length of the text, whatever it holds, and so does refusing it.
`Parser` takes the text in parts and reads it in fragments of about a part: no call into C lasts
longer than one fragment takes, and rows of a large array can be taken out as they come. It also
bounds the memory of the value before it is built: a byte of `[{"a":1},{"a":1},…]` takes 24.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.errors import FieldIssue, InvalidInput, Limit, PayloadTooLarge
from discreet.intake.field_issues import place

# Unstorable ---------------------------------------------------------------------------------------
# Texts that cannot be stored: those with NUL or a lone surrogate.

Path = tuple[str | int, ...]
"""Keys and positions from the whole value to one in it."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL and lone surrogates, which no text of the database can hold."""


def walk(values: Iterable[tuple[Path, Any]]) -> Iterator[tuple[Path, Any]]:
    """All values below these, themselves included, in the order of the text, each with its path."""
    waiting = [iter(values)]
    while waiting:
        for path, value in waiting[-1]:
            yield path, value
            if isinstance(value, dict | list):
                waiting.append(_children(path, value))
                break
        else:
            waiting.pop()


def _children(path: Path, value: Any) -> Iterator[tuple[Path, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    return (((*path, key), child) for key, child in items)


def unstorable(values: Iterable[tuple[Path, Any]]) -> Iterator[Path]:
    """Paths of texts that no database can hold; for a key, the path of its object."""
    keys: set[Path] = set()
    for path, value in walk(values):
        if path and isinstance(path[-1], str) and _NO_TEXT.search(path[-1]):
            if path[:-1] not in keys:
                keys = {path[:-1]}
                yield path[:-1]
        elif isinstance(value, str) and _NO_TEXT.search(value):
            yield path


# Strict json --------------------------------------------------------------------------------------

# Structure ----------------------------------------------------------------------------------------
# The structure of JSON text without its values: brackets and commas, found in a pass over the
# bytes.

_ESCAPE = re.compile(rb"\\.", re.DOTALL)
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")], _STEP[list(b"]}")] = 1, -1
_QUOTE = ord(b'"')


class Structure:
    """Finds the bytes outside of strings in a JSON text that arrives in parts, and their nesting
    levels."""

    def __init__(self) -> None:
        self._inside = self._escaped = False
        self._level = 0

    def take(self, part: bytes) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """The bytes of the next part, those in strings set to 0, and the nesting level after each
        byte."""
        plain = b"_" + part[1:] if self._escaped and part else part
        if b"\\" in plain:
            plain = _ESCAPE.sub(b"__", plain)
        if part:
            self._escaped = plain.endswith(b"\\")
        codes = np.frombuffer(plain, dtype=np.uint8).copy()
        # True from an opening quote on, up to the byte before the closing one.
        inside = np.logical_xor.accumulate(codes == _QUOTE) ^ self._inside
        codes[inside] = 0
        levels = np.cumsum(_STEP[codes], dtype=np.int32) + self._level
        if part:
            self._inside, self._level = bool(inside[-1]), int(levels[-1])
        return codes, levels


def brackets_of(codes: NDArray[np.uint8]) -> bytes:
    return bytes(codes[_STEP[codes] != 0])


def unbalanced(brackets: bytes) -> tuple[int, bytes]:
    """The number of closing brackets whose opening brackets came before, and the opening brackets
    that are left open."""
    size = -1
    while size != len(brackets):
        size = len(brackets)
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    opened = brackets.lstrip(b"]}")
    return size - len(opened), bytes(one for one in opened if one in b"[{")


# Strict json --------------------------------------------------------------------------------------

MAX_DEPTH = 64
EXACT_DIGITS = 15
"""A decimal of at most so many digits survives the conversion to a float (IEEE 754, binary64)
and back."""
LEAST_NORMAL = 1e-300
MOST_ISSUES = 20
LONGEST_NUMBER = 4300
"""Characters: Python's own limit for integers."""
PART_BYTES = 1 << 16
MEMORY, LEAST_MEMORY = 6, 64 << 20
"""Bytes of memory that each byte of a body may take, and that any body may take."""
PLACES_BYTES = 25
"""Of a value's places in an array (9) and in the tuple that a model makes of it, twice while that
grows."""
VALUE_BYTES, ARRAY_BYTES, OBJECT_BYTES = PLACES_BYTES + 64, 160, 96
"""What a value takes at most in CPython 3.11 to 3.13: its places, a number and the float that a
model makes of it, or a short text; what an array takes with its first place and its tuple; an
object beside its table of members, with the slots of a `Link`."""
KEY_BYTES, NUMBER_BYTES = 64, 80
"""Of a key, in every fragment in which it stands; and what a `Number` takes beyond a float and its
digits."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

Drain = Callable[[list[Any], int], None]
"""Takes items of an array and the position of the first one."""

_MAYBE_NO_TEXT = re.compile(rb"\\u(0000|[dD][89a-fA-F])")
"""Their escapes, and those of whole pairs."""
_SPACE = b" \t\n\r"
NO_VALUE, NO_KEY = "Expecting value", "Expecting property name enclosed in double quotes"
"""An error in the words of Python's reader."""
_COMMA = ord(b",")
_OPEN = "\udfff"
"""Key of what was left open in an object, where its next fragment is read. Texts have no such
character."""


def loads(body: bytes, most_memory: int | None = None) -> Any:
    """The value that `body` holds; InvalidInput with a pointer where it is not strict JSON in
    UTF-8, PayloadTooLarge before it takes more than `most_memory` bytes of memory."""
    parser = Parser(most_memory=most_memory)
    whole = memoryview(body)
    last = max(0, (len(whole) - 1) // PART_BYTES) * PART_BYTES
    for first in range(0, last, PART_BYTES):
        parser.feed(bytes(whole[first : first + PART_BYTES]))
    return parser.close(bytes(whole[last:]))


def memory_of(size: int) -> int:
    """What a body of so many bytes may take in memory."""
    return MEMORY * size + LEAST_MEMORY


class Parser:
    """Reads a JSON text that comes in parts. InvalidInput from `feed` or `close`, as soon as it is
    known.

    `drains`: at the path of an array (keys from the top) who takes its items as they come; the
    array stays empty. `most_memory`: what the value may take at most, with the text while it is
    read and the models that are made of it; PayloadTooLarge before it does.

    The text is read in fragments that end before a comma. What is open at both ends of a fragment
    is closed for the reader: `1], [2, 3` within an array of arrays is read as `[[1], [2, 3]]`, and
    its items join those that are there.
    """

    def __init__(
        self, drains: Mapping[Path, Drain] | None = None, *, most_memory: int | None = None
    ) -> None:
        self._drains = drains or {}
        self._most_memory = math.inf if most_memory is None else most_memory
        self._memory = self.most_taken = 0
        self._keys: set[str] = set()
        self._structure, self._lowest = Structure(), 0
        self._pending: list[bytes] = []
        self._brackets: list[bytes] = []
        self._first = True
        self._value: Any = None
        self._stack: list[Any] = []
        """Arrays and objects that are open where the next fragment begins, from the outside in,"""
        self._path: list[str | int] = []
        """under which key or position each of them but the first stands,"""
        self._counts: list[int] = []
        """and how many items of each were there."""
        self._byte = 0
        self._line = self._column = 1
        self._taken = dict.fromkeys(self._drains, 0)
        self._repeated = False
        self._decoder = json.JSONDecoder(
            parse_float=self._number,
            parse_constant=Number,
            object_pairs_hook=self._members,
            strict=True,
        )

    def feed(self, part: bytes) -> None:
        """The next part of the text; best of about `PART_BYTES`."""
        codes = self._look(part)
        commas = np.flatnonzero(codes == _COMMA)
        self._count(part, brackets_of(codes), commas.size)
        if not commas.size:
            self._pending.append(part)
            self._brackets.append(brackets_of(codes))
            return
        cut = int(commas[-1])
        self._pending.append(part[:cut])
        self._brackets.append(brackets_of(codes[:cut]))
        self._read(at_comma=True)
        self._pending, self._brackets = [part[cut + 1 :]], [brackets_of(codes[cut + 1 :])]

    def close(self, part: bytes = b"") -> Any:
        """The value, after the last part of the text."""
        codes = self._look(part)
        self._count(part, brackets_of(codes), int(np.count_nonzero(codes == _COMMA)))
        self._pending.append(part)
        self._brackets.append(brackets_of(codes))
        self._read(at_comma=False)
        return self._value

    def _look(self, part: bytes) -> NDArray[np.uint8]:
        codes, levels = self._structure.take(part)
        if levels.size and (self._lowest < 0 or levels.min() < 0):
            # Brackets that close nothing must not hide levels: `unbalanced` takes a pass for each.
            lowest = np.minimum.accumulate(np.minimum(levels, self._lowest))
            levels, self._lowest = levels - lowest, int(lowest[-1])
        depth = int(levels.max(initial=0))
        if depth > MAX_DEPTH:
            limit = Limit("json_depth", "levels of nesting", MAX_DEPTH, depth)
            raise InvalidInput(
                f"JSON nested deeper than {MAX_DEPTH} levels", code="invalid_json", limit=limit
            )
        return codes

    def _count(self, part: bytes, brackets: bytes, commas: int) -> None:
        """Count the memory that this part will take; `_members` is more exact about objects."""
        arrays = brackets.count(b"[")
        self._take(
            len(part) * width_of(part)
            + ARRAY_BYTES * arrays
            + VALUE_BYTES * (commas + brackets.count(b"{"))
        )

    def _take(self, size: int, transient: int = 0) -> None:
        """Count so many more bytes as taken, and some only for now."""
        self._memory += size
        self.most_taken = max(self.most_taken, self._memory + transient)
        if self.most_taken > self._most_memory:
            limit = Limit("json_memory", "bytes of memory", int(self._most_memory))
            says = f"what this JSON holds may take more than {limit.allowed} bytes of memory"
            raise PayloadTooLarge(
                f"{says}: it has too many short values for its length", limit=limit
            )

    def _read(self, *, at_comma: bool) -> None:
        """Read the waiting fragment and join it to what is there."""
        self._take(0, sum(map(len, self._pending)) * (1 + 2 * max(map(width_of, self._pending))))
        fragment = self._pending[0] if len(self._pending) == 1 else b"".join(self._pending)
        self._pending = []
        text = self._text(fragment)
        head, tail = fragment.lstrip(_SPACE)[:1], fragment.rstrip(_SPACE)[-1:]
        if self._first:
            if not head and not at_comma:
                raise InvalidInput("the body is empty: JSON is needed", code="invalid_json")
        elif head in (
            b"",
            b"]",
            b"}",
        ):  # an item is needed after a comma, which the brackets around would hide
            says = NO_KEY if isinstance(self._stack[-1], dict) else NO_VALUE
            self._refuse(text, len(text) - len(text.lstrip(" \t\n\r")), says)
        if at_comma and tail in (b"", b"[", b"{"):
            self._refuse(text, len(text), NO_KEY if tail == b"{" else NO_VALUE)
        closed, opened = unbalanced(b"".join(self._brackets))
        kept = len(self._stack) - closed
        before = "".join(
            "[" if isinstance(one, list) else '{"\\udfff":' if depth + 1 < len(self._stack) else "{"
            for depth, one in enumerate(self._stack)
        )
        after = ""
        if at_comma:
            closers = {ord("["): "]", ord("{"): "}"}
            after = "".join(closers[one] for one in reversed(opened))
            after += "".join(
                "]" if isinstance(one, list) else "}"
                for one in reversed(self._stack[: max(kept, 0)])
            )
        value = self._decoded(before, text, after)
        self._take(KEY_BYTES * len(self._keys))
        self._keys.clear()
        if at_comma and kept + len(opened) <= 0:
            self._refuse(text, len(text), "Extra data")
        self._join(value, fragment)
        self._first = False
        if at_comma:
            self._open(max(kept, 0), len(opened))
            self._drain()
            self._move(fragment, text)
        else:
            self._stack = self._stack[:1]
            self._drain()

    def _text(self, fragment: bytes) -> str:
        if self._first and fragment.startswith(BYTE_ORDER_MARK):
            raise InvalidInput(
                "the body begins with a byte order mark; send UTF-8 without it", code="invalid_json"
            )
        try:
            return fragment.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"not UTF-8 at byte {self._byte + error.start}", code="invalid_json"
            ) from None

    def _decoded(self, before: str, text: str, after: str) -> Any:
        self._repeated = False
        try:
            return self._decoder.decode(f"{before}{text}{after}" if before or after else text)
        except json.JSONDecodeError as error:
            says, position = _words(error)
            self._refuse(text, min(max(position - len(before), 0), len(text)), says)
        except TooMany:
            raise too_many_members() from None
        except (ValueError, RecursionError):  # a number of thousands of digits
            raise InvalidInput("a number is too long", code="invalid_json") from None

    def _refuse(self, text: str, position: int, says: str) -> Any:
        line, column = self._position(text[:position])
        raise InvalidInput(f"not JSON at line {line}, column {column}: {says}", code="invalid_json")

    def _position(self, text: str) -> tuple[int, int]:
        """Line and column after this text, which begins where the fragment does."""
        lines = text.count("\n")
        return self._line + lines, len(text) - text.rfind("\n") if lines else self._column + len(
            text
        )

    def _move(self, fragment: bytes, text: str) -> None:
        """The next fragment begins after this one and its comma."""
        self._byte += len(fragment) + 1
        self._line, self._column = self._position(text)
        self._column += 1

    def _number(self, text: str) -> float:
        if len(text) > LONGEST_NUMBER:
            raise ValueError("too long")
        value = float(text)
        # So few digits come back from a float as they were, unless it is beyond the range of normal
        # floats.
        if len(text) <= EXACT_DIGITS and (LEAST_NORMAL < abs(value) < math.inf or is_zero(text)):
            return value
        self._memory += NUMBER_BYTES
        return Number(text)

    def _members(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(pairs) > MOST_MEMBERS:
            raise TooMany
        value = dict(pairs)
        self._memory += value.__sizeof__() + OBJECT_BYTES - PLACES_BYTES * len(pairs)
        self._keys.update(value)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        marked = Repeated(value)
        marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        if pairs[0][0] == _OPEN:
            marked[_OPEN] = pairs[0][1]
        self._repeated = True
        return marked

    def _join(self, value: Any, fragment: bytes) -> None:
        """What a fragment holds joins what is there, when nothing in it is refused."""
        if not self._stack:
            self._check(iter([((), value)]), fragment)
            self._value, self._stack, self._counts = value, [value], [size_of(value)]
            return
        parts = [value]
        for there in self._stack[:-1]:
            parts.append(parts[-1].pop(0 if isinstance(there, list) else _OPEN))
        for depth, (there, part) in enumerate(zip(self._stack, parts, strict=True)):
            if isinstance(there, dict):
                key = getattr(part, "key", next((key for key in part if key in there), None))
                if key is not None:
                    raise stands_twice([((*self._path[:depth],), key)])
                if len(there) + len(part) > MOST_MEMBERS:
                    raise too_many_members()
        self._check(self._items(parts), fragment)
        for depth, (there, part) in enumerate(zip(self._stack, parts, strict=True)):
            there.extend(part) if isinstance(there, list) else there.update(part)
            self._counts[depth] += len(part)

    def _items(self, parts: list[Any]) -> Iterator[tuple[Path, Any]]:
        """What a fragment adds to each open array and object, with its path."""
        for depth, part in enumerate(parts):
            path = tuple(self._path[:depth])
            for key, item in (
                enumerate(part, self._counts[depth]) if isinstance(part, list) else part.items()
            ):
                yield (*path, key), item

    def _check(self, items: Iterator[tuple[Path, Any]], fragment: bytes) -> None:
        """InvalidInput for keys that stand twice and texts that cannot be stored."""
        if self._repeated:
            found = ((path, one.key) for path, one in walk(items) if isinstance(one, Repeated))
            raise stands_twice(islice(found, MOST_ISSUES))
        if _MAYBE_NO_TEXT.search(fragment):
            paths = list(islice(unstorable(items), MOST_ISSUES))
            if paths:
                says = (
                    "a text with U+0000 or with half of a surrogate pair: leave that character out"
                )
                raise InvalidInput(
                    (FieldIssue(*place(path, says)) for path in paths), code="invalid_json"
                )

    def _open(self, kept: int, opened: int) -> None:
        """The stack where the next fragment begins: `kept` of what was open, and `opened` at the
        end of this one."""
        if not kept:
            kept, opened = 1, opened - 1  # the outermost is open already
        del self._stack[kept:], self._counts[kept:], self._path[kept - 1 :]
        for _ in range(opened):
            there = self._stack[-1]
            if isinstance(there, list):
                key: str | int = self._counts[-1] - 1
                inner = there[-1]
            else:
                key = next(reversed(there))
                inner = there[key]
            self._path.append(key)
            self._stack.append(inner)
            self._counts.append(size_of(inner))

    def _drain(self) -> None:
        """Hand over the items that are complete."""
        for path, take in self._drains.items():
            here = self._value
            for key in path:
                here = here.get(key) if isinstance(here, dict) else None
            if not isinstance(here, list):
                continue
            inner = self._stack[len(path) + 1] if len(path) + 1 < len(self._stack) else None
            complete = len(here) - (1 if inner is not None and here and here[-1] is inner else 0)
            if complete:
                items = here[:complete]
                del here[:complete]
                take(items, self._taken[path])
                self._taken[path] += complete


def _words(error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong and where, the same in every Python: 3.13 and newer word a trailing comma
    otherwise."""
    if not error.msg.startswith("Illegal trailing comma"):
        return error.msg, error.pos
    rest = error.doc[error.pos + 1 :].lstrip(" \t\n\r")
    return NO_KEY if error.msg.endswith("object") else NO_VALUE, len(error.doc) - len(rest)


# Json values --------------------------------------------------------------------------------------
# How the reader of strict JSON builds numbers and objects, and refuses keys.

MOST_MEMBERS = 10_000
"""The most members of one object. No sensible body has as many."""
WIDEST = 4
"""Bytes of each character of a text that has one beyond the basic multilingual plane."""


class Number(float):
    """A float that keeps the text it was read from."""

    __slots__ = ("text",)

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class Repeated(dict[str, Any]):
    """An object with a duplicate key."""

    key: str


class TooMany(ValueError):
    """An object with too many members."""


def size_of(value: Any) -> int:
    return len(value) if isinstance(value, list | dict) else 0


def width_of(part: bytes) -> int:
    """The most bytes that a character of its texts may take."""
    return 1 if part.isascii() and b"\\u" not in part else WIDEST


def is_zero(text: str) -> bool:
    return not text.lower().partition("e")[0].strip("-0.")


def stands_twice(found: Iterable[tuple[Path, str]]) -> InvalidInput:
    says = "this key appears twice"
    return InvalidInput(
        (FieldIssue(*place((*path, key), says)) for path, key in found), code="invalid_json"
    )


def too_many_members() -> InvalidInput:
    limit = Limit("json_members", "members of one object", MOST_MEMBERS)
    return InvalidInput(
        f"an object may have {MOST_MEMBERS} members", code="invalid_json", limit=limit
    )
