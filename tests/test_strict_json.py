"""JSON from outside is read strictly."""

from __future__ import annotations

import contextlib
import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.intake.strict_json import MAX_DEPTH, MOST_MEMBERS, PART_BYTES, Number, Parser, loads
from tests.growth import LINEAR, growth

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | TEXTS
    | st.floats(allow_nan=False, allow_infinity=False),
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


def in_parts(text: bytes, size: int, parser: Parser | None = None) -> Any:
    parser = parser or Parser()
    for first in range(0, len(text), size):
        parser.feed(text[first : first + size])
    return parser.close()


def outcome(read: Callable[[], Any]) -> object:
    """The value in JSON, or the first pointer of what is refused."""
    try:
        return json.dumps(read())
    except InvalidInput as error:
        return error.issues[0].pointer, error.code


@given(VALUES, st.integers(1, 12), st.sampled_from([None, 1]))
def test_a_text_may_come_in_parts(value: object, size: int, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False).encode()
    assert in_parts(text, size) == value


@given(VALUES, st.integers(1, 12), st.integers(0, 200), st.sampled_from([*b',[]{}":1 \\\n\xff']))
def test_what_is_wrong_is_wrong_in_parts_too(
    value: object, size: int, place: int, byte: int
) -> None:
    """A byte put anywhere: what all of it is read as at once, its parts are read as, and what
    Python's reader takes."""
    text = bytearray(json.dumps(value).encode())
    text.insert(min(place, len(text)), byte)
    found = outcome(lambda: in_parts(bytes(text), size))
    assert found == outcome(lambda: loads(bytes(text)))
    try:
        expected = json.dumps(json.loads(bytes(text)))
    except ValueError:
        assert found == ("", "invalid_json")
    else:
        assert found == expected or isinstance(found, tuple)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"[1,]", "line 1, column 4: Expecting value"),
        (b"[1,,2]", "line 1, column 4: Expecting value"),
        (b"[1, \n]", "line 2, column 1: Expecting value"),
        (b"[[,1]]", "line 1, column 3: Expecting value"),
        (b'{"a": 1,}', "line 1, column 9: Expecting property name"),
        (b'[{"a": 1 , }]', "line 1, column 12: Expecting property name"),
        (b'{,"a": 1}', "line 1, column 2: Expecting property name"),
        (b"[1,\n2}", "line 2, column 2: Expecting ',' delimiter"),
        (b"[1],[2]", "line 1, column 4: Extra data"),
        (b"1,", "line 1, column 2: Extra data"),
        (b"[1],", "line 1, column 4: Extra data"),
        (b"[1, 2", "column 6: Expecting ',' delimiter"),
        ('["\u00e9", x]'.encode(), "line 1, column 7: Expecting value"),
        (b'["aaa", "\xff"]', "not UTF-8 at byte 9"),
        (b"[1, " + b"2" * 5000 + b"]", "a number is too long"),
        (b"[1, 0." + b"2" * 5000 + b"]", "a number is too long"),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_says_where_it_is_no_json(text: bytes, says: str, size: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        in_parts(text, size)
    assert says in refused.value.detail


@pytest.mark.parametrize("size", [1, 5, 1000])
@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        (b'[0, {"b": [1, {"c": 1, "d": [2, 3], "c": 4}]}]', "/1/b/1/c"),
        (b'[0, {"b": [1, {"c": [1, 2], "d": 5, "e": "\\u0000"}]}]', "/1/b/1/e"),
        (rb'[[1, 2], {"\udfff": 1, "\udfff": [2, 3]}]', "/1/\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_pointers_hold_in_parts(text: bytes, pointer: str, size: int) -> None:
    with pytest.raises(InvalidInput) as refused:
        in_parts(text, size)
    found = refused.value.issues[0].pointer
    assert found in (pointer, "/1")  # a key that nothing can store is named by its object


def test_rows_are_taken_as_they_come() -> None:
    rows = [[i, {"x": [i]}] for i in range(50)]
    text = json.dumps({"first": [1, 2], "rows": rows, "last": {"rows": [7]}}).encode()
    for size in (1, 10, 1000):
        taken: list[Any] = []

        def take(items: list[Any], first: int, taken: list[Any] = taken) -> None:
            assert first == len(taken)
            taken += items

        value = in_parts(text, size, Parser({("rows",): take}))
        assert taken == rows
        assert value == {"first": [1, 2], "rows": [], "last": {"rows": [7]}}


def test_long_keys_are_not_sent_back() -> None:
    with pytest.raises(InvalidInput) as refused:
        loads(b'{"a": {"' + b"k" * 10_000 + b'": {"b": 1, "b": 2}}}')
    [issue] = refused.value.issues
    assert issue.pointer == "/a"
    assert (
        issue.detail
        == "below a key of 10000 characters that begins 'kkkkkkkkkkkkkkkkkkkk': this key appears "
        "twice"
    )


def test_an_object_has_no_ten_thousands_of_members() -> None:
    whole = {f"k{i}": i for i in range(MOST_MEMBERS)}
    assert loads(json.dumps(whole).encode()) == whole
    with pytest.raises(InvalidInput) as refused:
        loads(json.dumps({**whole, "more": 1}).encode())
    assert refused.value.limit is not None
    assert refused.value.limit.allowed == MOST_MEMBERS


ATTACKS: dict[str, Callable[[int], bytes]] = {
    "unterminated string of escapes": lambda n: b'["' + b'\\"' * (n // 2),
    "string": lambda n: b'["' + b"x" * n + b'"]',
    "escapes": lambda n: b'["' + b'\\"' * (n // 2) + b'"]',
    "numbers": lambda n: b"[" + b"1," * (n // 2) + b"1]",
    "long numbers": lambda n: b"[" + (b"1" * 4000 + b",") * (n // 4001) + b"1]",
    "a longer number": lambda n: b"[" + b"1" * n + b"]",
    "nesting": lambda n: b"[" + (b"[" * 60 + b"]" * 60 + b",") * (n // 121) + b"1]",
    "no end of nesting": lambda n: b"[" * n,
    "mismatched brackets": lambda n: b"[}" * (n // 2),
    "quotes": lambda n: b'"' * n,
    "backslashes": lambda n: b"\\" * n,
    "a key twice below a long key": lambda n: (
        b'{"' + b"k" * n + b'":[' + b'{"a":1,"a":2},' * (n // 14) + b"1]}"
    ),
    "keys": lambda n: b"[" + b'{"a":1,"b":2},' * (n // 14) + b"1]",
    "a key twice at the end": lambda n: b"[" + b"[1,2]," * (n // 6) + b'{"a":1,"a":2}]',
    "halves of pairs": lambda n: b'["' + b"\\ud83d\\ude00" * (n // 12) + b'"]',
    "halves of pairs apart": lambda n: b"[" + b'"\\ud83d\\ude00",' * (n // 15) + b'"\\ud800"]',
}


def test_brackets_that_close_nothing_hide_no_depth() -> None:
    """Each level of nesting costs a pass over the brackets, so a text that is no JSON has no more
    of them either."""
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        loads(b"0" + b"}" * 1000 + b"[" * 1000 + b"]" * 1000)
    parser = Parser()
    for part in (b"]" * 1000, b"[" * 40):
        parser.feed(part)
    with pytest.raises(InvalidInput, match="nested deeper than 64 levels"):
        parser.feed(b"[" * 40)


def refused_or_read(body: bytes) -> None:
    with contextlib.suppress(InvalidInput):
        loads(body)


@pytest.mark.parametrize("attack", ATTACKS)
def test_time_grows_with_the_text(attack: str) -> None:
    assert growth(ATTACKS[attack], refused_or_read, 4 * PART_BYTES) < LINEAR


@pytest.mark.parametrize(
    "attack", ["string", "escapes", "unterminated string of escapes", "no end of nesting"]
)
def test_memory_is_a_multiple_of_the_text(attack: str) -> None:
    body = ATTACKS[attack](2_000_000)
    tracemalloc.start()
    try:
        refused_or_read(body)
        assert tracemalloc.get_traced_memory()[1] < 6 * len(body) + 30 * PART_BYTES
    finally:
        tracemalloc.stop()
