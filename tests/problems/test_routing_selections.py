"""Select link and skims of a released policy, against its paths one by one, and what their
intervals hold."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import openmatrix
import pytest
from scipy import stats
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems import results
from discreet.problems.charts import result_charts
from discreet.problems.numbers import Budget
from discreet.problems.routing import result as intervals
from discreet.problems.routing import selections
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.reproduce.networks import sioux_falls
from discreet_client import flows
from tests import bodies

PUBLIC = RoutingPublic(unit="request", zones=24, periods=20, period_minutes=60)
BUDGET = Budget(epsilon=10**8, delta=0)
CHOSEN = [3, 40, 75]


def town(**values: Any) -> Routing:
    network, _ = sioux_falls()
    links = [
        {
            "tail": int(tail) + 1,
            "head": int(head) + 1,
            "free_flow_time": float(time),
            "capacity": float(capacity),
        }
        for tail, head, time, capacity in zip(
            network.tail, network.head, network.free_flow_time, network.capacity, strict=True
        )
    ]
    links[5]["fixed_cost"] = 2.5
    return Routing.model_validate(
        {
            "kind": "routing",
            "dataset": "dst_x",
            "network": {"nodes": 24, "links": links},
            "latency": {"type": "bpr"},
            "select_links": CHOSEN,
            "skims": True,
            **values,
        }
    )


def content(factor: float = 1.0) -> Any:
    trips = np.rint(sioux_falls()[1] * PUBLIC.periods * factor).astype(np.int64)
    origin, destination = np.nonzero(trips)
    zeros = np.zeros(origin.size, dtype=np.int64)
    return {
        "trips": np.stack([zeros, origin + 1, destination + 1, trips[origin, destination]], axis=1)
    }


def answered(asked: Routing, seed: int = 1, truth: Any = None) -> dict[str, Any]:
    plan = asked.plan(PUBLIC, BUDGET)
    released = asked.release(PUBLIC, plan, truth or content(), Noise.seeded(seed))
    return asked.finish(PUBLIC, plan, released, lambda *_: None).to_json()


def on_the_policy(asked: Routing, result: dict[str, Any], demand: Any) -> tuple[Any, Any]:
    """Trips over each chosen link and pair in the result's order, and the time of each pair, path
    by path."""
    network = asked.roads.arrays(24)
    flow = np.zeros(network.tail.size)
    over: dict[tuple[int, int, int], float] = {}
    for pair in result["policy"]:
        ends = pair["origin"], pair["destination"]
        for path in pair["paths"]:
            trips = path["share"] * demand[ends[0] - 1, ends[1] - 1]
            for link in path["links"]:
                flow[link] += trips
                over[link, *ends] = over.get((link, *ends), 0.0) + trips
    times = asked.roads.latencies(asked.latency).times(network, flow)
    skims = np.zeros((24, 24))
    for pair in result["policy"]:
        ends = pair["origin"] - 1, pair["destination"] - 1
        skims[ends] = sum(path["share"] * times[path["links"]].sum() for path in pair["paths"])
    trips = [over[row["link"], row["origin"], row["destination"]] for row in result["select_link"]]
    return np.array(trips), skims


@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_they_are_those_of_the_paths(objective: str) -> None:
    asked = town(objective=objective)
    result = answered(asked)
    trips, skims = on_the_policy(asked, result, np.array(result["demand"]))
    rows = result["select_link"]
    np.testing.assert_allclose([row["trips"] for row in rows], trips, atol=1e-9)
    np.testing.assert_allclose(result["skims"], skims, rtol=1e-12)
    for link in CHOSEN:
        over = sum(row["trips"] for row in rows if row["link"] == link)
        assert over == pytest.approx(result["link_flows"][link], rel=1e-12)
    assert [(row["link"], row["origin"], row["destination"]) for row in rows] == sorted(
        (row["link"], row["origin"], row["destination"]) for row in rows
    )
    weighted = float(np.sum(np.array(result["demand"]) * skims))
    assert weighted == pytest.approx(result["total_travel_time"], rel=1e-12)


def test_in_equilibrium_a_skim_is_the_shortest_time() -> None:
    asked = town(objective="user_equilibrium")
    result = answered(asked)
    network = asked.roads.arrays(24)
    times = asked.roads.latencies(asked.latency).times(network, np.array(result["link_flows"]))
    least = dijkstra(csr_array((times, (network.tail, network.head)), shape=(24, 24)))
    np.testing.assert_allclose(result["skims"], least, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_intervals_hold_what_the_true_trips_do_on_the_released_policy(objective: str) -> None:
    """Each pair's trips have their own noise: a binomial bound. Times hang together, of one release
    most: bounds far from those of widths of half or of twice the noise."""
    asked, truth = town(objective=objective), content()
    demand = sioux_falls()[1]
    held, of, times, wide = 0, 0, [], []
    for seed in range(30):
        result = answered(asked, seed, truth)
        trips, skims = on_the_policy(asked, result, demand)
        values = result["uncertainty"]["values"]
        lower, upper = (np.array(values["select_link"][end]) for end in ("lower", "upper"))
        held, of = held + int(((lower <= trips) & (trips <= upper)).sum()), of + trips.size
        lower, upper = (np.array(values["skims"][end]) for end in ("lower", "upper"))
        apart = ~np.eye(24, dtype=bool)
        times.append(((lower <= skims) & (skims <= upper))[apart].mean())
        wide.append(((upper - lower) / skims.clip(1e-9))[apart].mean())
    assert held / of > stats.binom.ppf(1e-9, of, 0.9) / of
    assert held / of < 0.99
    assert 0.83 < np.mean(times) < 0.97
    assert 0 < np.mean(wide) < 0.5


def test_asked_on_many_zones_they_are_tables_without_intervals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(results, "MAX_JSON_NUMBERS", 100)
    asked = town()
    plan = asked.plan(PUBLIC, BUDGET)
    found = asked.finish(
        PUBLIC, plan, asked.release(PUBLIC, plan, content(), Noise.seeded(1)), lambda *_: None
    )
    assert {"select_link", "skims"} <= set(found.to_json()["tables"])
    tables = found.tables()
    assert tables["select_link"].column_names == ["link", "origin", "destination", "share", "trips"]
    assert tables["skims"].num_rows == 24 * 24
    assert not {"select_link", "skims"} & found.to_json()["uncertainty"]["values"].keys()


def test_what_would_take_long_has_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selections, "MOST_WORK", 1000.0)
    values = answered(town())["uncertainty"]["values"]
    assert "skims" not in values
    assert "select_link" in values
    monkeypatch.undo()
    monkeypatch.setattr(intervals, "MAX_LINKS", 10)
    assert "skims" not in answered(town())["uncertainty"]["values"]


def test_links_that_there_are_not_and_methods_without_flows_are_refused() -> None:
    with pytest.raises(InvalidInput, match="76 links, counted from 0; found 76") as refused:
        town(select_links=[0, 76]).plan(PUBLIC, BUDGET)
    assert refused.value.issues[0].pointer == "/problem/select_links/1"
    part = RoutingPublic(
        unit="request", zones=3, periods=2, period_minutes=60, max_total=60, max_pair=20
    )
    gradient = {"method": "gradient", "regularization": 1.0, "select_links": [0], "skims": True}
    asked = Routing.model_validate(bodies.job("dst_x", **gradient)["problem"])
    with pytest.raises(InvalidInput) as both:
        asked.plan(part, Budget(epsilon=10**9, delta=10**13))
    assert {issue.pointer for issue in both.value.issues} == {
        "/problem/select_links",
        "/problem/skims",
    }


def test_files_and_charts_have_them(tmp_path: Any) -> None:
    asked = town()
    result = answered(asked)
    network = asked.roads.model_dump(mode="json")
    rows = list(csv.DictReader(io.StringIO(flows.selected_links(result, network).decode())))
    assert len(rows) == len(result["select_link"])
    first, row = rows[0], result["select_link"][0]
    link = network["links"][3]
    assert (first["from_node_id"], first["to_node_id"]) == (str(link["tail"]), str(link["head"]))
    assert float(first["trips"]) == row["trips"]
    assert float(first["trips_lower"]) <= row["trips"] <= float(first["trips_upper"])
    named = {
        **network,
        "node_names": [f"n{k}" for k in range(1, 25)],
        "link_names": [f"l{k}" for k in range(76)],
    }
    other = next(csv.DictReader(io.StringIO(flows.selected_links(result, named).decode())))
    assert (other["link_id"], other["origin"]) == ("l3", f"n{row['origin']}")
    with pytest.raises(flows.NotWritten, match="ask again with select_links"):
        flows.selected_links({}, network)
    with pytest.raises(flows.NotWritten, match="it is of another network"):
        flows.selected_links(result, {"links": network["links"][:3]})
    path = tmp_path / "out.omx"
    path.write_bytes(flows.demand_matrix(result))
    with openmatrix.open_file(str(path)) as file:
        assert {"skims", "skims_lower", "skims_upper"} <= set(file.list_matrices())
        np.testing.assert_array_equal(np.array(file["skims"]), result["skims"])
    problem = asked.model_dump(mode="json", by_alias=True)
    plan = asked.plan(PUBLIC, BUDGET).model_dump(mode="json")
    charts = {chart.name: chart for chart in result_charts(problem, plan, result)}
    assert "3 chosen links" in charts["select-link"].caption
    assert charts["skims"].table.columns == ("from zone", "to zone", "time", "from", "to")
