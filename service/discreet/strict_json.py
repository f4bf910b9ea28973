"""JSON from outside, read strictly: no duplicate keys, no deep nesting, no text that nothing can store, and numbers
that keep their own digits.

Python's reader takes `NaN`, silently keeps the last of two equal keys and turns `0.1000000000000000055` into `0.1`.
Here a number with a fraction or an exponent is a `Number`: a float that remembers its text, so that money-like
fields (epsilon, delta) are read as the decimals that were written. NaN, Infinity and 1e999 become non-finite
numbers, which every field refuses by name. Texts hold no NUL and no half of a surrogate pair: no database and no UTF-8
can hold them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from itertools import accumulate, islice
from typing import Any

from discreet.errors import FieldIssue, InvalidInput, Limit
from discreet.field_issues import escape

MAX_DEPTH = 64
MOST_ISSUES = 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"

_NO_TEXT = re.compile("[\0\ud800-\udfff]")
"""NUL and halves of surrogate pairs, which no text of the database holds."""
_MAYBE_NO_TEXT = re.compile(rb"\\u(0000|[dD][89a-fA-F])")
"""Their escapes, and those of whole pairs."""
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"[]{}")))


class Number(float):
    """A float that keeps the text it was read from."""

    text: str

    def __new__(cls, text: str) -> Number:
        number = super().__new__(cls, text)
        number.text = text
        return number


class _Repeated(dict[str, Any]):
    """An object in which a key stands twice."""

    key: str


def loads(body: bytes) -> Any:
    """The value that `body` holds; InvalidInput with a pointer where it is not strict JSON in UTF-8."""
    if body.startswith(BYTE_ORDER_MARK):
        raise InvalidInput("the body begins with a byte order mark: send UTF-8 without it", code="invalid_json")
    if not body.strip():
        raise InvalidInput("the body is empty: JSON is needed", code="invalid_json")
    depth = _depth(body)
    if depth > MAX_DEPTH:
        limit = Limit("json_depth", "levels of nesting", MAX_DEPTH, depth)
        raise InvalidInput(f"JSON nested deeper than {MAX_DEPTH} levels", code="invalid_json", limit=limit)
    repeated: list[_Repeated] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(pairs)
        if len(value) == len(pairs):
            return value
        seen: set[str] = set()
        marked = _Repeated(value)
        marked.key = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        repeated.append(marked)
        return marked

    try:
        value = json.loads(body.decode("utf-8"), parse_float=Number, parse_constant=Number, object_pairs_hook=members)
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8 at byte {error.start}", code="invalid_json") from error
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"not JSON at line {error.lineno}, column {error.colno}: {error.msg}", code="invalid_json"
        ) from error
    except (ValueError, RecursionError) as error:  # an integer of thousands of digits
        raise InvalidInput("a number is too long", code="invalid_json") from error
    if repeated:
        raise InvalidInput(
            (FieldIssue(f"{path}/{escape(mark.key)}", "this key stands twice") for path, mark in _find(value)),
            code="invalid_json",
        )
    if _MAYBE_NO_TEXT.search(body):
        found = list(islice(_unstorable(value), MOST_ISSUES))
        if found:
            says = "a text with U+0000 or with half of a surrogate pair: leave that character out"
            raise InvalidInput((FieldIssue(path, says) for path in found), code="invalid_json")
    return value


def _depth(body: bytes) -> int:
    brackets = _STRING.sub(b"", body).translate(None, _NOT_BRACKETS)
    return max(accumulate(1 if bracket in b"[{" else -1 for bracket in brackets), default=0)


def _find(value: Any, path: str = "") -> Iterable[tuple[str, _Repeated]]:
    if isinstance(value, _Repeated):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from _find(child, f"{path}/{escape(key)}")


def _unstorable(value: Any, path: str = "") -> Iterable[str]:
    """Where texts stand that no database takes; of a key the object that has it."""
    if isinstance(value, str):
        if _NO_TEXT.search(value):
            yield path
    elif isinstance(value, dict):
        for key, child in value.items():
            if _NO_TEXT.search(key):
                yield path
            else:
                yield from _unstorable(child, f"{path}/{escape(key)}")
    elif isinstance(value, list):
        for place, child in enumerate(value):
            yield from _unstorable(child, f"{path}/{place}")
