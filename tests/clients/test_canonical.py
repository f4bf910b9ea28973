"""Canonical JSON against another implementation of RFC 8785, and what of it the clients compare."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from discreet_agent import canonical
from discreet_client import ResultAltered, certificates

NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-canonical.EXACT, canonical.EXACT)
    | st.builds(
        lambda digits, power: digits * 10.0**power,
        st.integers(-(10**6), 10**6),
        st.integers(-30, 30),
    )
)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=8)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | NUMBERS
    | TEXTS
    | st.lists(st.floats(allow_nan=False, allow_infinity=False)),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=5),
    max_leaves=20,
)


@given(VALUES)
@example([1.0, -0.0, 10.0, 0.5, 1e21, 1e-7, 1e16, 1e-6, 5e-324, -1.5e300, 123456789012345680000.0])
@example({"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\U0001f600": 5, "\u0080": 6, "\u00f6": 7})
@example(['\x00\x1f\x7f\u2028"\\/'])
@example([1, 2.0, 3])
@example([True, 1.0])
@example([[], {}, [[]]])
def test_it_is_the_canonical_form(value: Any) -> None:
    assert canonical.dumps(value) == rfc8785.dumps(value)


@given(st.binary(min_size=8, max_size=8))
def test_numbers_alone_and_in_lists(bits: bytes) -> None:
    (number,) = struct.unpack("<d", bits)
    if not math.isfinite(number):
        for value in (number, [number], [1.0, number]):
            with pytest.raises(ValueError, match=r"NaN|Out of range"):
                canonical.dumps(value)
        return
    text = canonical.dumps(number)
    assert text == rfc8785.dumps(number)
    assert canonical.dumps([number, 1, number]) == b"[" + text + b",1," + text + b"]"
    assert json.loads(text, parse_int=float) == number


def test_large_integers_are_the_doubles_that_readers_make_of_them() -> None:
    for value in (2**53, 2**53 + 1, -(2**60), 10**30):
        assert (
            canonical.dumps(value) == rfc8785.dumps(float(value)) == canonical.dumps([value])[1:-1]
        )
    with pytest.raises(OverflowError):
        canonical.dumps(10**400)
    for strange in ({1: 2}, {"a": {2}}, b"x"):
        with pytest.raises(TypeError):
            canonical.dumps(strange)
    with pytest.raises(UnicodeEncodeError):
        canonical.dumps("\ud800")


def test_a_value_has_one_digest_however_it_was_written() -> None:
    texts = ('{"a":[1,0.5],"b":1e2}', '{ "b": 100.0, "a": [1.0, 5e-1] }')
    assert len({canonical.digest(json.loads(text)) for text in texts}) == 1
    assert canonical.digest({"a": 1}) == hashlib.sha256(b'{"a":1}').hexdigest()


def test_what_a_certificate_binds() -> None:
    bound = {
        "result_digest": canonical.digest({"flow": [1.0]}),
        "tables": {"policy": hashlib.sha256(b"x").hexdigest()},
    }
    certificates.require_result(bound, {"flow": [1]})
    certificates.require_table(bound, "policy", b"x")
    with pytest.raises(ResultAltered, match="result is not"):
        certificates.require_result(bound, {"flow": [1.0000000000000002]})
    for name, parquet in (("policy", b"y"), ("other", b"x")):
        with pytest.raises(ResultAltered, match="table"):
            certificates.require_table(bound, name, parquet)
    certificates.require_result({}, {"flow": [2]})  # of an older service
    certificates.require_table({}, "policy", b"y")
