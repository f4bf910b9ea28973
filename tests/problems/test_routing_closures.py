"""Closed links, what closing them changes, and the law that an answer names."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from benchmarks.coverage import Case, finished
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.answers import headlines_of, stored_headline
from discreet.problems.numbers import Privacy
from discreet.problems.road_networks.network import AffineLatency, BprLatency, RoadNetwork
from discreet.problems.routing import closures, result
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet_client import flows

PUBLIC = RoutingPublic(unit="request", zones=3, periods=2, period_minutes=60, max_total=2000)
NAMED = {
    **RoadNetwork.example(),
    "link_names": ["Main", "Main (back)", "River", "River (back)", "Ring", "Ring 2"],
    "node_names": ["Inn", "Mill", "Dam"],
    "time_unit": "minutes",
}
TRIPS = np.array([[0, 1, 2, 900], [0, 2, 3, 300], [1, 3, 1, 500]])


def asked(**fields: Any) -> Case:
    problem = Routing.model_validate(
        {"kind": "routing", "dataset": "dst_x", "network": NAMED, **fields}
    )
    plan = problem.plan(PUBLIC, Privacy.model_validate({"epsilon": 1, "delta": 0}).budget)
    return Case("routing", "counts", "", 1, problem, PUBLIC, plan, {"trips": TRIPS})


def answered(**fields: Any) -> dict[str, Any]:
    case = asked(**fields)
    outputs = finished(case, Noise.seeded(4))
    return json.loads(json.dumps({name: output.value() for name, output in outputs.items()}))  # type: ignore[no-any-return]


def test_a_closed_link_is_as_one_that_is_not_there() -> None:
    """Positions stay: the flows are those on the network without it, and 0 where it was."""
    found = answered(closed_links=[0, 1])
    links = [one for place, one in enumerate(NAMED["links"]) if place > 1]
    bare = answered(network={**RoadNetwork.example(), "links": links})
    assert found["link_flows"][:2] == [0, 0]
    assert found["link_flows"][2:] == pytest.approx(bare["link_flows"])
    assert found["total_travel_time"] == pytest.approx(bare["total_travel_time"])
    assert all(
        {0, 1}.isdisjoint(path["links"]) for pair in found["policy"] for path in pair["paths"]
    )
    assert found["closed"] == ["Main (Inn → Mill)", "Main (back) (Mill → Inn)"]


def test_closed_links_without_names_are_told_in_words() -> None:
    """By their ends; of two that lead the same way, by the position as well."""
    plain = {"nodes": 3, "links": NAMED["links"]}
    roads = RoadNetwork.model_validate(plain)
    tail, head = roads.links[0].tail, roads.links[0].head
    assert closures.names(roads, [0]) == [f"the road from {tail} to {head}"]
    doubled = RoadNetwork.model_validate({**plain, "links": [NAMED["links"][0], *NAMED["links"]]})
    assert closures.names(doubled, [1]) == [f"link 1 from {tail} to {head}"]
    said = headlines_of(
        {"kind": "routing", "network": plain}, answered(network=plain, closed_links=[0])
    )
    assert said[0].text.startswith(f"Closing the road from {tail} to {head} adds ")
    assert said[0].unit == "trips a period times the unit of the links' times"


def test_what_closing_changes_is_the_difference_on_the_same_release() -> None:
    """And its interval is that of the difference: narrower than the ends of both totals apart."""
    found, whole = answered(closed_links=[0, 1]), answered()
    change, said = found["total_travel_time_change"], found["uncertainty"]["values"]
    assert found["demand"] == whole["demand"]
    assert change == pytest.approx(found["total_travel_time"] - whole["total_travel_time"])
    moved = np.array(found["link_flows"]) - np.array(whole["link_flows"])
    np.testing.assert_allclose(found["link_flow_changes"], moved, atol=1e-6)
    own = said["total_travel_time_change"]
    assert own["lower"] <= change <= own["upper"]
    apart = sum(
        one["upper"] - one["lower"]
        for one in (said["total_travel_time"], whole["uncertainty"]["values"]["total_travel_time"])
    )
    assert 0 < own["upper"] - own["lower"] < apart
    assert len(said["link_flow_changes"]["lower"]) == len(NAMED["links"])
    rows = flows.changes(found, NAMED, 2)
    assert {row["name"] for row in rows} <= {"River", "River (back)", "Ring", "Ring 2"}
    assert (
        rows[0]["change_lower"] <= rows[0]["after"] - rows[0]["before"] <= rows[0]["change_upper"]
    )
    with pytest.raises(flows.NotWritten, match="no links were closed"):
        flows.changes(whole, NAMED, 2)


@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_intervals_of_changes_hold(objective: str) -> None:
    """Of 120 releases 90 %, so that fewer than 94 hold once in 50,000 (binomial);
    `benchmarks/coverage_closing.py` looks at 200 towns."""
    case = asked(closed_links=[2, 3], objective=objective, latency={"type": "bpr"})
    exact = json.loads(json.dumps(_exact(case)))["total_travel_time_change"]
    held = 0
    for seed in range(120):
        ends = finished(case, Noise.seeded(seed))["uncertainty"].value()["values"][
            "total_travel_time_change"
        ]
        held += ends["lower"] <= exact <= ends["upper"]
    assert held >= 94


def _exact(case: Case) -> dict[str, Any]:
    from benchmarks.coverage import Silent

    outputs = finished(case, Silent())
    return {name: outputs[name].value() for name in ("total_travel_time_change",)}


def test_an_answer_names_closed_roads_and_its_law() -> None:
    found = answered(closed_links=[0, 1], latency={"type": "bpr"})
    problem = {"kind": "routing", "network": NAMED, "objective": "user_equilibrium"}
    change, total, law, *_ = headlines_of(problem, found)
    assert change.text.startswith("Closing Main and Main (back) adds ")
    assert " minutes (" in change.text
    assert " %) to total travel time (90 % NI: " in change.text
    assert total.text.startswith("Total travel time at the user equilibrium after closing: ")
    # What the command prints, and lists of jobs, is the sentence itself.
    long = {**found, "closed": [f"Street of a very long name indeed {n}" for n in range(9)]}
    for one in (found, long):
        said = headlines_of(problem, one)[0].text
        assert stored_headline(problem, one) == said
        assert "minutes" in said
        assert said.endswith(")")
    assert law.text == "Link time (BPR): free-flow time × (1 + 0.15 (flow/capacity)⁴)"
    assert closures.told(list("abcdef")) == "a, b, c, d and 2 more links"
    plan = asked(closed_links=[0], latency={"type": "bpr"}).plan
    assert law.text in plan.model
    assert "closed, so that nobody can take them: Main (Inn → Mill)" in plan.model


@pytest.mark.parametrize(
    ("links", "latency", "says"),
    [
        (
            {},
            AffineLatency(type="affine"),
            "Link time (affine): free-flow time × (1 + flow/capacity)",
        ),
        ({}, BprLatency(type="bpr", b=0.2), "(BPR): free-flow time × (1 + 0.2 (flow/capacity)⁴)"),
        (
            {"b": 0.3, "power": 2},
            AffineLatency(type="affine"),
            "× (1 + 0.3 (flow/capacity)²), from the network",
        ),
        (
            {0: {"b": 1, "power": 2}},
            BprLatency(type="bpr"),
            "(1 + 0.15 (flow/capacity)⁴); own figures for 1 of 6 links",
        ),
    ],
)
def test_the_law_is_said_as_it_holds(links: Any, latency: Any, says: str) -> None:
    own = [
        {**one, **(links.get(place, {}) if 0 in links else links)}
        for place, one in enumerate(NAMED["links"])
    ]
    roads = RoadNetwork.model_validate({**NAMED, "links": own})
    assert says in result.sentence(roads, latency)
    stated = result.stated({"links": own})
    assert stated == ("b" in links)
    assert Routing.asks({"network": {"links": own}}) == (
        ("objective",) if stated else ("objective", "latency")
    )


def test_forms_begin_with_the_law_of_the_field() -> None:
    """The contract's default stays what bodies without a law have always had."""
    schema = Routing.model_json_schema()["properties"]["latency"]
    first, second = (one["value"] for one in schema["x-choices"])
    assert (
        Routing.example_for(PUBLIC)["problem"]["latency"]
        == first
        == {"type": "bpr", "b": 0.15, "power": 4}
    )
    assert second == schema["default"] == {"type": "affine", "factor": 1}
    whole = {"kind": "routing", "dataset": "dst_x", "network": NAMED}
    assert Routing.model_validate({**whole, "latency": first}).latency == BprLatency(type="bpr")
    assert Routing.model_validate(whole).latency == AffineLatency(type="affine")


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (
            {"closed_links": [9]},
            "/problem/closed_links/0: the network has 6 links, counted from 0; found 9",
        ),
        ({"closed_links": [1, 1]}, "/problem/closed_links: a link is named twice"),
        (
            {"closed_links": [0, 4]},
            "with these closed no path leads from zone 1 \\(Inn\\) to zone 2 \\(Mill\\)",
        ),
    ],
)
def test_what_cannot_be_closed_is_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        asked(**fields)


def test_a_street_of_several_links_is_said_once() -> None:
    links = ["High St (Inn → Mill)", "Ring", "High St (Mill → Inn)", "Low St (Mill → Inn)"]
    assert closures.told(links) == "High St (2 links), Ring and Low St (Mill → Inn)"
    assert closures.told(links[:1]) == links[0]
