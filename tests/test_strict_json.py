"""JSON from outside is read strictly."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.strict_json import MAX_DEPTH, Number, loads

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_reads_what_json_writes(value: object) -> None:
    assert loads(json.dumps(value).encode()) == value


def test_numbers_keep_their_digits() -> None:
    number = loads(b'{"a": 0.1000000000000000055}')["a"]
    assert isinstance(number, Number)
    assert number.text == "0.1000000000000000055"
    assert number == 0.1


@pytest.mark.parametrize("text", [b"NaN", b"-Infinity", b"1e999"])
def test_non_finite_numbers_come_through_as_such(text: bytes) -> None:
    assert not math.isfinite(loads(b"[" + text + b"]")[0])


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b'{"a": {"b~/": 1, "c": 2, "b~/": 3}}', "/a/b~0~1"),
        (b'[{"x": 1}, {"y": 1, "y": 2}]', "/1/y"),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), ""),
        (b"[" * 100_000, ""),
        (b"", ""),
        (b"{", ""),
        (b"\xff", ""),
        (b"1" * 10_000, ""),
        (b'{"a": 01}', ""),
        (b"  ", ""),
        (b"\xef\xbb\xbf{}", ""),
        (rb'{"a": ["x", {"b": "\u0000"}]}', "/a/1/b"),
        (rb'{"a": {"b\u0000": 1}}', "/a"),
        (rb'["\ud800 alone"]', "/0"),
        (rb'{"\udc00": 1}', ""),
    ],
)
def test_refuses(body: bytes, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        loads(body)
    assert refused.value.issues[0].pointer == pointer
    assert refused.value.code == "invalid_json"


def test_texts_that_only_look_unstorable() -> None:
    assert loads(rb'["\\u0000", "\ud83d\ude00"]') == ["\\u0000", "\U0001f600"]


def test_brackets_in_strings_are_no_depth() -> None:
    text = "[" * 1000 + '\\"' + "{" * 1000
    assert loads(json.dumps([text]).encode()) == [text]
    nested: object = 1
    for _ in range(MAX_DEPTH):
        nested = [nested]
    assert loads(json.dumps(nested).encode()) == nested
