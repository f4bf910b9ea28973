"""Intervals in words, of any kind: digits, null, rows that are mostly noise."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest

from discreet_client.intervals import combined, plain, spelt_out, stated, with_interval
from discreet_client.results import Answer

NAN = float("nan")


@pytest.mark.parametrize(
    ("value", "lower", "upper", "text"),
    [
        (0.6412, 0.4133, 0.8712, "0.64 (90 % interval: 0.41–0.87)"),
        (18234.3, 17011.2, 19000.0, "18,200 (90 % interval: 17,000–19,000)"),
        (5.0, -0.001, 1e9, "0 (90 % interval: 0–1,000,000,000)"),
        (0.0123456, 0.01234559, 0.01234561, "0.012345600 (90 % interval: 0.012345590–0.012345610)"),
        (3, 3, 3, "3 (90 % interval: 3–3)"),
        (1e300, 0, 2e300, "1e+300 (90 % interval: 0–2e+300)"),
        (7.25, None, None, "7.25"),
    ],
)
def test_a_number_has_as_many_digits_as_its_interval(
    value: float, lower: Any, upper: Any, text: str
) -> None:
    assert with_interval(value, lower, upper, 0.9) == text


RESULT: dict[str, Any] = {
    "shares": [[0.5, 0.5], [0.25, 0.75], [1, 0]],
    "count": 12,
    "flows": [1.0, 2.0, 3.0],
    "silent": 4.0,
    "uncertainty": {
        "level": 0.9,
        "values": {
            "shares": {
                "lower": [[0.4, 0.4], [None, None], [0, 0]],
                "upper": [[0.6, 0.6], [None, None], [1, 1]],
            },
            "count": {"lower": 10, "upper": 14},
        },
        "noise_dominates": {"shares": [False, True, True], "flows": True, "silent": False},
        "mostly_noise": True,
    },
    "tables": [],
}


def test_an_answer_of_nothing_but_noise_says_why_it_is_0() -> None:
    assert with_interval(0.0, None, None, 0.9, noise=True) == "0 (nothing above the noise)"
    assert (
        with_interval(0.0, -2.0, 2.0, 0.9, noise=True)
        == "0.0 (90 % interval: -2.0 to 2.0, nothing above the noise)"
    )
    assert with_interval(0.0, None, None, 0.9) == "0"
    result = {
        "values": [0.0, 0],
        "uncertainty": {"values": {}, "noise_dominates": {"values": [True, True]}},
    }
    assert [one.text for one in stated(result)] == ["nothing above the noise"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (17432.0, "17,000"),
        (0.000274, "0.00027"),
        (0.5, "0.5"),
        (9.96, "10"),
        (3e-9, "3e-09"),
        (0, "0"),
        (math.inf, "inf"),
    ],
)
def test_figures_of_sentences_are_written_as_people_do(value: float, text: str) -> None:
    assert plain(value) == text


def test_what_is_said_of_fields() -> None:
    assert {one.name: one.text for one in stated(RESULT)} == {
        "count": "12 (90 % interval: 10–14)",
        "silent": "4",
        "shares": "4 intervals of 90 %: ± 0.5; 2 of 3 rows are mostly noise: 1, 2",
        "flows": "mostly noise",
    }
    kinds = {"count": "confidence", "shares": "noise_and_bins"}
    named = {**RESULT, "uncertainty": {**RESULT["uncertainty"], "kinds": kinds}}
    assert {one.name: one.text for one in stated(named)} == {
        "count": "12 (90 % CI: 10–14)",
        "silent": "4",
        "shares": "4 noise intervals with bins of 90 %: ± 0.5; 2 of 3 rows are mostly noise: 1, 2",
        "flows": "mostly noise",
    }
    assert spelt_out("12 (90 % CI: 10–14), 3 (90 % NI with bins: 2–4), 2 (90 % NI: -1 to 3)") == (
        "12 (90 % confidence interval: 10–14), 3 (90 % noise interval with bins: 2–4), "
        "2 (90 % noise interval: -1 to 3)"
    )
    assert list(stated({"count": 12})) == []
    one = {"part": [1.0], "uncertainty": {"values": {"part": {"lower": [0.5], "upper": [1.5]}}}}
    assert [said.text for said in stated(one)] == ["1 interval of 90 %: ± 0.5"]


def test_what_several_releases_brought_is_a_sentence() -> None:
    gained = {"combined": {"releases": 3, "standard_deviation": 1.5, "least_alone": 2.0}}
    said = (
        "3 releases: their combined noise has standard deviation 1.5, 25 % less than 2 of the "
        "most accurate one alone"
    )
    assert combined(gained) == said
    assert combined({}) == ""


def test_an_answer_tells_its_intervals() -> None:
    document = {"job": {"id": "job_1", "kind": "new"}, "result": RESULT, "certificate": {}}
    answer = Answer(json.loads(json.dumps(document)), {})
    assert answer.mostly_noise
    lower, upper = answer.interval("shares") or (None, None)
    assert np.array_equal(lower, [[0.4, 0.4], [NAN, NAN], [0, 0]], equal_nan=True)
    assert np.array_equal(upper, [[0.6, 0.6], [NAN, NAN], [1, 1]], equal_nan=True)
    assert answer.interval("count") == (10, 14)
    assert answer.interval("flows") is None
    with pytest.raises(KeyError, match="shares, count"):
        answer.interval("nonsense")
    assert answer.noise_dominates("shares").tolist() == [False, True, True]
    assert (answer.noise_dominates("flows"), answer.noise_dominates("count")) == (True, False)
    assert repr(answer).startswith(
        "<Answer job_1: mostly noise, shares, count = 12 (90 % interval: 10–14), flows"
    )
    frame = answer.frame("shares", intervals=True)
    assert list(frame.columns) == ["shares", "lower", "upper", "only_noise"]
    assert frame.only_noise.tolist() == [False, False, True, True, True, True]
    assert frame.upper.loc[(0, 1)] == 0.6
    assert answer.frame("flows", intervals=True).only_noise.tolist() == [True] * 3
    with pytest.raises(TypeError, match="is not an array"):
        answer.frame("count", intervals=True)
