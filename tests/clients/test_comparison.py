"""Differences of two answers: which have an interval, and that it holds what it should."""

from __future__ import annotations

import csv
import io
import random
from typing import Any

import pytest

from discreet_client.answers import answer_of
from discreet_client.comparison import ONE_DATASET, ONE_RELEASE, compare
from discreet_client.results import Answer

ROADS = {
    "links": [
        {"tail": 1, "head": 2, "free_flow_time": 1.0, "capacity": 10.0},
        {"tail": 2, "head": 1, "free_flow_time": 1.0, "capacity": 10.0},
    ],
    "link_names": ["Mill", "Inn"],
}


def answer(job: str, flows: list[float], half: float, **about: Any) -> Answer:
    """Of routing, with intervals of the noise."""
    roads = about.pop("network", ROADS)
    kind = about.pop("interval", "noise")
    values = {
        "link_flows": {"lower": [x - half for x in flows], "upper": [x + half for x in flows]},
        "total_travel_time": {"lower": sum(flows) - half, "upper": sum(flows) + 2 * half},
    }
    uncertainty = {"level": 0.9, "values": values, "kinds": dict.fromkeys(values, kind)}
    result = {
        "link_flows": flows,
        "total_travel_time": sum(flows),
        "iterations": 3,
        "status": "converged",
        "uncertainty": uncertainty,
    }
    told = {"id": job, "kind": "routing", "dataset": f"dst_{job}", **about}
    found = answer_of({"job": told, "result": result}, {})
    found.network = roads
    return found


def test_months_are_compared_figure_by_figure_and_link_by_link() -> None:
    found = compare(answer("a", [5.0, 7.0], 3), answer("b", [9.0, 6.0], 4))
    total, steps = found.figures
    assert (total.name, total.before, total.now, total.change) == ("total_travel_time", 12, 15, 3)
    assert (total.lower, total.upper) == (3 - (4**2 + 6**2) ** 0.5, 3 + (8**2 + 3**2) ** 0.5)
    assert (steps.name, steps.change, steps.lower) == ("iterations", 0, None)
    assert [(one.name, one.change, one.lower, one.upper) for one in found.links] == [
        ("Mill", 4, -1, 9),
        ("Inn", -1, -6, 4),
    ]
    assert (found.level, found.kind, found.notes) == (0.9, "noise", [])
    rows = list(csv.DictReader(io.StringIO(found.as_csv().decode())))
    assert [(row["of"], row["name"]) for row in rows][1:3] == [
        ("result", "iterations"),
        ("link", "Mill"),
    ]


def test_a_link_of_one_network_alone_has_no_difference() -> None:
    changed = {**ROADS, "links": ROADS["links"][:1], "link_names": ["New"]}
    found = compare(answer("a", [5.0, 7.0], 3), answer("b", [9.0], 4, network=changed))
    assert [(one.name, one.before, one.now) for one in found.links] == [
        ("Mill", 5, None),
        ("Inn", 7, None),
        ("New", None, 9),
    ]
    twice = {**ROADS, "link_names": ["Mill", "Mill"]}
    both = compare(
        answer("a", [5.0, 7.0], 3, network=twice), answer("b", [6.0, 9.0], 4, network=twice)
    )
    assert [one.name for one in both.links] == ["Mill (2 → 1)", "Mill (1 → 2)"]


def test_noise_that_moves_both_answers_leaves_no_interval() -> None:
    first = answer("a", [5.0, 7.0], 3)
    for again in (answer("a2", [9.0, 6.0], 4, release=["a"]), first):
        found = compare(first, again)
        assert {one.lower for one in (*found.figures, *found.links)} == {None}
        assert (found.notes, found.level) == ([ONE_RELEASE], None)
    # Of several releases one is shared.
    found = compare(answer("c", [1.0, 1.0], 1, release=["a", "x"]), first)
    assert found.notes == [ONE_RELEASE]


def test_who_is_in_the_data_is_the_same_in_both_answers_of_one_dataset() -> None:
    kinds = {"interval": "confidence", "dataset": "dst_1"}
    found = compare(answer("a", [5.0, 7.0], 3, **kinds), answer("b", [9.0, 6.0], 4, **kinds))
    assert ({one.lower for one in found.links}, found.notes) == ({None}, [ONE_DATASET])
    other = answer("b", [9.0, 6.0], 4, interval="confidence")
    assert compare(answer("a", [5.0, 7.0], 3, **kinds), other).kind == "confidence"
    assert compare(answer("a", [5.0, 7.0], 3), other).level is None  # of two kinds of intervals


def test_answers_of_two_kinds_are_not_compared() -> None:
    loads = answer_of({"job": {"id": "c", "kind": "dr_ensemble"}, "result": {}}, {})
    with pytest.raises(ValueError, match="two kinds"):
        compare(answer("a", [5.0, 7.0], 3), loads)


def test_the_interval_of_a_difference_holds_it_as_often_as_those_of_both_hold_theirs() -> None:
    """Of Laplace noise, with half widths that hold it in 90 % each."""
    draw, held, trials = random.Random(1), 0, 2000
    for _ in range(trials):
        noises = [draw.choice((-1, 1)) * draw.expovariate(1) * scale for scale in (1.0, 3.0)]
        halves = [2.302585 * scale for scale in (1.0, 3.0)]
        before, now = (
            answer(str(k), [true + noise, 0.0], half)
            for k, (true, noise, half) in enumerate(zip((5.0, 9.0), noises, halves, strict=True))
        )
        (change,) = (one for one in compare(before, now).links if one.name == "Mill")
        assert change.lower is not None
        assert change.upper is not None
        held += change.lower <= 4.0 <= change.upper
    assert 0.89 < held / trials < 0.94
