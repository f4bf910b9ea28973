"""Charts of results: what they draw is what was released, and every one has words and numbers
beside it."""

from __future__ import annotations

import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from discreet import problems
from discreet.figures import traces
from discreet.figures.charts import BLOCKS, TABLE_ROWS, Blocks, Chart, Table
from discreet.figures.style import LINES, LOADS, ON_DARK, QUIET, SHADES
from discreet.figures.timelines import MAX_MOMENTS, session_chart, spending_chart
from discreet.privacy.noise import Noise
from discreet.problems.base import read_example
from discreet.problems.charts import result_charts
from discreet.problems.results import properties_of
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.routing import charts as road_map
from tests import bodies

Solved = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]


def solved(kind: str, *, simulation: bool = False) -> Solved:
    """Problem, plan and result of a kind's example, as a job stores them."""
    problem, dataset, budget = read_example(problems.KINDS[kind])
    public = None if dataset is None else dataset.public
    content = {} if dataset is None else dataset.rows()
    plan = problem.plan(public, budget)
    released = problem.release(public, plan, content, Noise.seeded(1))
    if simulation:
        released |= problem.diagnose(public, plan, content, Noise.seeded(1))
    result = problem.finish(public, plan, released, lambda step, total: None).to_json()
    bodies_of = (problem.model_dump(mode="json"), plan.model_dump(mode="json"), result)
    return json.loads(json.dumps(bodies_of))  # type: ignore[no-any-return]


def by_name(found: list[Chart]) -> dict[str, Chart]:
    return {chart.name: chart for chart in found}


def colours(value: Any) -> set[str]:
    """Every colour in a figure."""
    return set(re.findall(r"#[0-9a-f]{6}", json.dumps(value)))


# Every kind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(problems.KINDS))
def test_every_kind_has_charts_with_words_and_numbers(kind: str) -> None:
    found = result_charts(*solved(kind))
    assert found
    assert len({chart.name for chart in found}) == len(found)
    for chart in found:
        assert re.fullmatch("[a-z]+", chart.name)
        assert len(chart.caption) > 40
        assert chart.title
        assert chart.table.rows
        assert all(len(row) == len(chart.table.columns) for row in chart.table.rows)
        drawn = json.loads(json.dumps(chart.to_json(), allow_nan=False))
        assert drawn["data"]
        assert colours(drawn["data"]) <= set(ON_DARK), "a colour that stays dark on a dark page"
        assert {trace["type"] for trace in drawn["data"]} <= {"scatter", "bar", "heatmap"}, (
            "WebGL needs unsafe-eval"
        )
        assert bool(chart.control) == ("frames" in drawn)


@pytest.mark.parametrize("kind", sorted(problems.KINDS))
def test_a_legend_of_several_lines_grows_away_from_the_title(kind: str) -> None:
    """Both hang from the top of the picture, the legend below the title."""
    for chart in result_charts(*solved(kind)):
        layout = chart.standalone()["layout"]
        title, legend = layout["title"], layout["legend"]
        assert (
            (title["yref"], title["yanchor"])
            == (legend["yref"], legend["yanchor"])
            == ("container", "top")
        )
        assert 0 < legend["y"] < title["y"] < 1
        assert layout["margin"]["t"] >= (1 - legend["y"]) * layout["height"]


@pytest.mark.parametrize("kind", sorted(problems.DATASETS))
def test_truth_is_drawn_only_where_it_is_public_and_says_so(kind: str) -> None:
    private, public = (solved(kind, simulation=simulation) for simulation in (False, True))
    assert not any(
        "true" in chart.title + json.dumps(chart.figure["data"])
        for chart in result_charts(*private)
    )
    said = properties_of(problems.KINDS[kind].Fields)
    simulated = {name for name in said if "for simulations" in said[name]["description"]}
    assert public[2].keys() - private[2].keys() == simulated
    extra = by_name(result_charts(*public)).keys() - by_name(result_charts(*private)).keys()
    for chart in result_charts(*public):
        if chart.name in extra:
            assert "simulation" in chart.title


def test_true_loads_are_named_so() -> None:
    names = [
        trace["name"]
        for trace in by_name(result_charts(*solved("dr_ensemble", simulation=True)))["load"].figure[
            "data"
        ]
    ]
    assert sum("true (simulation)" in name for name in names) == 2


def test_fields_that_are_tables_are_not_drawn() -> None:
    for kind in sorted(problems.KINDS):
        problem, plan, result = solved(kind)
        large = {
            name: value for name, value in result.items() if not isinstance(value, list | dict)
        }
        assert (
            result_charts(problem, plan, {**large, "tables": sorted(result.keys() - large.keys())})
            == []
        )


SMALLEST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "one zone and no link": (
        {"kind": "routing", "network": {"nodes": 1, "links": []}},
        {"link_flows": [], "demand": [[0]], "policy": []},
    ),
    "three zones that nothing joins": (
        {"kind": "routing", "network": {"nodes": 3, "links": []}},
        {"link_flows": [], "demand": [[0] * 3] * 3, "policy": []},
    ),
    "no flow at all": (
        {"kind": "routing", "network": bodies.network()},
        {"link_flows": [0] * 12, "demand": [[0] * 3] * 3, "policy": []},
    ),
    "one step": (
        {"kind": "dr_ensemble", "price": [1.0]},
        {
            "transitions": [[1.0]],
            "policy": [],
            "expected_power": [1],
            "default_power": [1],
            "cost_to_go": [0],
        },
    ),
    "one state": (
        {"kind": "off_policy_evaluation", "features": {"type": "tabular"}, "discount": 0},
        {"weights": [0], "values": [0]},
    ),
    "a line of values": (
        {
            "kind": "off_policy_evaluation",
            "features": {"type": "fourier", "order": 1, "low": [0], "high": [2]},
            "discount": 0,
        },
        {"weights": [-3, 1]},
    ),
    "values that are all negative": (
        {
            "kind": "off_policy_evaluation",
            "features": {"type": "fourier", "order": 1, "low": [0, 0], "high": [1, 1]},
            "discount": 0.5,
        },
        {"weights": [-3, 1, 0.5, 0]},
    ),
    "one constraint without noise": (
        {"kind": "multi_agent", "constraints": ["x - 1"]},
        {
            "multiplier_path": [{"step": 1, "multipliers": [0]}],
            "noisy_values": [0],
            "noisy_gradients": [],
        },
    ),
}
"""Results at the edge: problem and result."""


@pytest.mark.parametrize("name", SMALLEST)
def test_results_at_the_edge_are_drawn(name: str) -> None:
    problem, result = SMALLEST[name]
    found = result_charts(problem, {}, result)
    assert found
    for chart in found:
        json.dumps(chart.to_json(), allow_nan=False)
        for trace in chart.figure["data"]:
            if trace["type"] == "heatmap":
                assert trace["zmin"] < trace["zmax"]


def test_a_value_function_in_the_plane() -> None:
    """cos(pi x) and cos(pi y) on the unit square: the weights of order (0, 0), (0, 1), (1, 0), (1,
    1)."""
    problem, result = SMALLEST["values that are all negative"]
    z = np.array(by_name(result_charts(problem, {}, result))["values"].figure["data"][0]["z"])
    assert z[0, 0] == pytest.approx(-3 + 1 + 0.5)
    assert z[0, -1] == pytest.approx(-3 + 1 - 0.5)  # x at its end, y at its beginning
    assert z[-1, 0] == pytest.approx(-3 - 1 + 0.5)


# Routing ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def routed() -> Solved:
    """A complete network of four nodes, three of them zones, with flows between 0 and twice the
    capacity."""
    network = bodies.network()
    flows = np.linspace(0, 200, len(network["links"]))
    paths = [{"links": [0], "share": 0.75}, {"links": [1, 6], "share": 0.25}]
    result = {
        "link_flows": flows.tolist(),
        "demand": [[0, 5, 1], [2, 0, 4], [3, 6, 0]],
        "policy": [{"origin": 1, "destination": 2, "paths": paths}],
    }
    return {"kind": "routing", "network": network}, {}, result


def polygons(trace: dict[str, Any]) -> list[Any]:
    """float[corners, 2] of each polygon of a trace."""
    points = list(zip(trace["x"], trace["y"], strict=True))
    split = [
        list(part)
        for closed, part in itertools.groupby(points, lambda p: p == (None, None))
        if not closed
    ]
    return [np.array(part) for part in split]


def width(polygon: Any) -> float:
    """Of a half arrow: the distance from its inner to its outer edge, at its beginning."""
    return float(np.hypot(*(polygon[1] - polygon[0])))


def test_zones_are_called_as_their_network_calls_them(routed: Solved) -> None:
    problem, plan, result = routed
    names = ["Inn", "Mill <b>", "12", "no zone"]
    told = {"values": {}, "noise_dominates": {"demand": [False, True, True]}}
    named = {**problem, "network": {**problem["network"], "node_names": names}}
    demand = by_name(result_charts(named, plan, {**result, "uncertainty": told}))["demand"]
    (trace,) = demand.figure["data"]
    assert trace["x"] == trace["y"] == ["Inn", "Mill &lt;b&gt;", "12"]  # plotly reads markup
    assert demand.table.rows[0] == ("12", "Mill <b>", "6")
    assert "mostly noise: 2 of 3 (Mill <b>, 12)" in demand.caption
    (plain,) = by_name(result_charts(*routed))["demand"].figure["data"]
    assert plain["x"] == ["1", "2", "3"]


def test_intervals_are_whiskers_and_rows_of_noise_are_named(routed: Solved) -> None:
    problem, plan, result = routed
    flows, demand = np.array(result["link_flows"]), np.array(result["demand"])
    values = {
        "link_flows": {"lower": (0.5 * flows).tolist(), "upper": (flows + 30).tolist()},
        "demand": {"lower": (demand / 2).tolist(), "upper": (demand + 2).tolist()},
    }
    told = {"values": values, "noise_dominates": {"demand": [False, True, True]}}
    charts = by_name(result_charts(problem, plan, {**result, "uncertainty": told}))
    trace = charts["loads"].figure["data"][0]
    assert trace["error_y"]["array"] == pytest.approx([0.3] * 12)  # capacities are 100
    assert trace["error_y"]["arrayminus"] == pytest.approx(np.sort(flows)[::-1] / 200, abs=1e-5)
    assert charts["loads"].table.rows[0][-2:] == ("100", "230")
    assert "(100 to 230)" in " ".join(
        str(trace.get("text")) for trace in charts["network"].figure["data"]
    )
    assert "mostly noise: 2 of 3 (2, 3)" in charts["demand"].caption
    assert charts["demand"].table.rows[0] == ("3", "2", "6", "3", "8")
    assert "error_y" not in by_name(result_charts(*routed))["loads"].figure["data"][0]


def test_the_map_has_every_link_once_as_wide_as_its_flow_in_the_class_of_its_load(
    routed: Solved,
) -> None:
    chart = by_name(result_charts(*routed))["network"]
    classes = [
        trace
        for trace in chart.figure["data"]
        if trace.get("fill") == "toself" and trace["x"] != [None]
    ]
    flows = np.array(routed[2]["link_flows"])
    assert sum(len(polygons(trace)) for trace in classes) == flows.size
    colours = [trace["fillcolor"] for trace in classes]
    assert colours == [one for one in LOADS if one in colours]
    found: list[tuple[float, float]] = []
    for trace in classes:
        low, high = map(float, [*re.findall(r"\d+", trace["name"]), "inf"][:2])
        inside = flows[(flows >= low) & (flows < high + 1e-9 * (trace is classes[-1]))]
        assert len(polygons(trace)) == inside.size
        found += zip(sorted(map(width, polygons(trace))), np.sort(inside).tolist(), strict=True)
    wide = np.array([one for one in found if one[1] > 0.1 * flows.max()])
    assert np.ptp(wide[:, 0] / wide[:, 1]) < 0.01 * (wide[:, 0] / wide[:, 1]).mean()


@pytest.mark.parametrize("most", [0.15, 1.0, 1.7])
def test_all_maps_have_the_same_scale(routed: Solved, most: float) -> None:
    """Whatever the fullest link: a colour means the same on two maps side by side, and the legend
    names all of them."""
    problem, plan, result = routed
    flows = [100 * most, *([2.0] * 11)]
    chart = by_name(result_charts(problem, plan, {**result, "link_flows": flows}))["network"]
    classes = [trace for trace in chart.figure["data"] if trace.get("fill") == "toself"]
    assert [trace["fillcolor"] for trace in classes] == list(LOADS)
    names = [trace["name"] for trace in classes]
    assert (names[0], names[3], names[-1]) == (
        "0–25 % of capacity",
        "75–100 % of capacity",
        "150 % of capacity and more",
    )
    filled = [trace["name"] for trace in classes if trace["x"] != [None]]
    assert filled == [names[0], *([] if most < 0.25 else [names[min(int(4 * most), 6)]])]


def test_closed_links_are_dotted(routed: Solved) -> None:
    problem, plan, result = routed
    charts = by_name(result_charts({**problem, "closed_links": [3]}, plan, result))
    (closed,) = [
        trace for trace in charts["network"].figure["data"] if trace.get("name") == "closed"
    ]
    assert closed["line"]["dash"] == "dot"
    assert np.isfinite(np.array(closed["x"], dtype=float)).sum() == 2


def test_links_are_called_by_their_names(routed: Solved) -> None:
    """In tables, beside the map, and where the noise is told; else by their positions."""
    problem, plan, result = routed
    names = [f"Street {place}" for place in range(12)]
    asked = {**problem, "network": {**problem["network"], "link_names": names}, "select_links": [3]}
    row = {"link": 3, "origin": 2, "destination": 1, "share": 1.0, "trips": 4.0}
    charts = by_name(result_charts(asked, plan, {**result, "select_link": [row]}))
    fullest = names[int(np.argmax(result["link_flows"]))]
    assert charts["network"].table.rows[0][0] == charts["loads"].table.rows[0][0] == fullest
    assert charts["loads"].figure["data"][0]["text"][0].startswith(f"{fullest} (")
    assert charts["select-link"].table.rows[0][0] == "Street 3 (2 → 1)"
    hovers = " ".join(str(trace.get("text")) for trace in charts["network"].figure["data"])
    assert all(f"link {name} (" in hovers for name in names)
    assert road_map.row_names(asked, result, "link_flows")[3] == "Street 3 (2 → 1)"  # type: ignore[index]
    plain = by_name(result_charts(problem, plan, result))["loads"].table.rows
    assert plain[0][0] == str(int(np.argmax(result["link_flows"])))


def test_the_map_of_the_method_gradient_shows_where_one_trip_of_each_pair_goes(
    routed: Solved,
) -> None:
    problem, plan, result = routed
    flows = np.zeros((6, 12))
    flows[:, :6] = np.eye(6)
    flows[0, 1] = 1
    only = {"unit_flows": flows.tolist(), "policy": result["policy"]}
    (chart,) = result_charts(problem, plan, only)
    assert [float(row[3]) for row in chart.table.rows[:6]] == [2, 1, 1, 1, 1, 1]
    assert "capacity" not in json.dumps(chart.figure)
    assert "the released unit flows" in chart.caption
    assert chart.table.columns == ("link", "from node", "to node", "flow")


def test_paths_of_a_pair_lie_on_the_map_with_their_shares(routed: Solved) -> None:
    problem, plan, result = routed
    roads = RoadNetwork.model_validate(problem["network"])
    paths = result["policy"][0]["paths"]
    chart = road_map.network_map(roads, result, plan, paths)
    drawn = {
        trace["name"]: trace for trace in chart.figure["data"] if trace.get("fill") == "toself"
    }
    assert list(drawn) == ["all other links", "path 1: 75 %", "path 2: 25 %"]
    one, two = (polygons(drawn[name]) for name in list(drawn)[1:])
    assert (len(one), len(two)) == (1, 2)
    assert width(one[0]) == pytest.approx(3 * width(two[0]), rel=0.01)
    assert drawn["path 1: 75 %"]["fillcolor"] != drawn["path 2: 25 %"]["fillcolor"]


def test_a_large_network_has_its_largest_flows_only(
    routed: Solved, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(road_map, "MAX_LINKS", 5)
    chart = by_name(result_charts(*routed))["network"]
    classes = [trace for trace in chart.figure["data"] if trace.get("fill") == "toself"]
    assert sum(len(polygons(trace)) for trace in classes) == 5
    assert "Shown are the 5 links with the largest flows of 12." in chart.caption
    monkeypatch.setattr(road_map, "MAX_NODES", 3)
    assert "network" not in by_name(result_charts(*routed))


def test_the_numbers_of_the_map_are_those_of_the_result(routed: Solved) -> None:
    chart = by_name(result_charts(*routed))["network"]
    assert chart.table.columns == ("link", "from node", "to node", "flow", "flow / capacity")
    told = {int(row[0]): float(row[3]) for row in chart.table.rows}
    assert [told[k] for k in range(12)] == pytest.approx(routed[2]["link_flows"], rel=1e-5)


# Matrices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, BLOCKS, BLOCKS + 1, 7 * BLOCKS + 3])
def test_blocks_keep_sums_and_probabilities(size: int) -> None:
    generator = np.random.default_rng(size)
    matrix = generator.random((size, size))
    blocks = Blocks.of(size, first=1)
    assert len(blocks.labels) == min(size, BLOCKS)
    assert blocks.merged == (size > BLOCKS)
    assert blocks.sums(matrix).sum() == pytest.approx(matrix.sum())
    moves = blocks.moves(matrix / matrix.sum(axis=1, keepdims=True))
    assert moves.sum(axis=1) == pytest.approx(np.ones(len(moves)))
    assert blocks.labels[0].split("\u2013")[0] == "1"
    assert blocks.labels[-1].split("\u2013")[-1] == str(size)


def test_the_signal_has_a_shade_for_each_step_and_state() -> None:
    problem, plan, result = solved("dr_ensemble")
    signal = by_name(result_charts(problem, plan, result))["signal"]
    (drawn,) = signal.figure["data"]
    assert pytest.approx(np.array(result["signal"]), abs=1e-3) == np.array(drawn["z"]).T
    idle = {**result, "signal": np.zeros_like(result["signal"]).tolist()}
    assert "signal" not in by_name(result_charts(problem, plan, idle))


def test_rows_of_noise_lie_behind_grey_and_loads_have_bands() -> None:
    problem, plan, result = solved("dr_ensemble")
    before = by_name(result_charts(problem, plan, {**result, "uncertainty": {}}))
    assert before["transitions"].figure["layout"]["shapes"] == []
    assert [trace["name"] for trace in before["load"].figure["data"]].count(
        "90 % noise interval"
    ) == 0
    told = {"default_power": {"lower": [1.0] * 8, "upper": [2.0] * 8}}
    told["cost_to_go"] = {"lower": [None, 0.0, 0.0], "upper": [None, 9.0, 9.0]}  # type: ignore[list-item]
    marked = {
        "values": told,
        "noise_dominates": {"transitions": [False, True, False]},
        "mostly_noise": False,
    }
    found = by_name(result_charts(problem, plan, {**result, "uncertainty": marked}))
    (veil,) = found["transitions"].figure["layout"]["shapes"]
    assert (veil["y0"], veil["y1"]) == (0.5, 1.5)
    assert "The 1 row behind grey is mostly noise." in found["transitions"].caption
    noisy = [row[0] for row in found["transitions"].table.rows if row[3] == "mostly noise"]
    assert set(noisy) == {"1"}
    (band,) = [
        trace for trace in found["load"].figure["data"] if trace["name"] == "90 % noise interval"
    ]
    assert band["y"] == [2.0] * 8 + [1.0] * 8
    assert "no band" not in found["load"].caption
    gaps = {
        end: [None, None, one, one, None, one, None, None]
        for end, one in (("lower", 1.0), ("upper", 2.0))
    }
    unknown = {**marked, "values": {"default_power": gaps}}
    torn = by_name(result_charts(problem, plan, {**result, "uncertainty": unknown}))["load"]
    (band,) = [trace for trace in torn.figure["data"] if trace["name"] == "90 % noise interval"]
    assert band["x"] == [2.0, 3.0, 3.0, 2.0, None, 4.8, 5.2, 5.2, 4.8]  # none across a gap
    assert band["y"] == [2.0, 2.0, 1.0, 1.0, None, 2.0, 2.0, 1.0, 1.0]
    assert "Where one has no band, noise leaves open all that a load can be." in torn.caption
    none = {**marked, "values": {"default_power": dict.fromkeys(gaps, [None] * 8)}}
    bare = by_name(result_charts(problem, plan, {**result, "uncertainty": none}))["load"]
    assert "90 % noise interval" not in [trace["name"] for trace in bare.figure["data"]]
    assert "Bands" not in bare.caption
    whiskers = found["cost"].figure["data"][0]["error_y"]
    assert whiskers["array"][0] is None
    colours = (whiskers["color"], found["cost"].figure["data"][0]["marker"]["color"])
    assert all(apart(*pair) > 1.5 for pair in (colours, [ON_DARK[colour] for colour in colours]))
    assert found["cost"].figure["layout"]["xaxis"]["type"] == "category"  # no state -0.5
    noisy = {**marked, "noise_dominates": {"cost_to_go": [False, True, False]}}
    greyed = by_name(result_charts(problem, plan, {**result, "uncertainty": noisy}))["cost"]
    assert greyed.figure["data"][0]["marker"]["color"] == [colours[1], QUIET, colours[1]]
    assert [row[4] for row in greyed.table.rows] == ["", "mostly noise", ""]
    assert whiskers["array"][1] == pytest.approx(9 - result["cost_to_go"][1], rel=1e-4)


def test_states_are_called_by_their_power_and_steps_by_their_length() -> None:
    problem, plan, result = solved("dr_ensemble")
    found = by_name(result_charts(problem, plan, result))
    assert found["cost"].figure["data"][0]["x"] == ["power 0", "power 1.5", "power 4"]
    assert found["load"].figure["layout"]["xaxis"]["title"]["text"] == "step"
    metered = {
        **result,
        "states": {**result["states"], "edges": [0.0, 0.5, 2.5, 5.5], "step_seconds": 900},
    }
    found = by_name(result_charts(problem, plan, metered))
    names = ["0–0.5 kW", "0.5–2.5 kW", "2.5–5.5 kW"]
    assert (
        found["cost"].figure["data"][0]["x"] == found["transitions"].figure["data"][0]["x"] == names
    )
    assert found["load"].figure["layout"]["xaxis"]["title"]["text"] == "step of 15 minutes"
    assert (
        found["load"].figure["layout"]["yaxis"]["title"]["text"] == "expected power of a load, kW"
    )
    alike = {
        **result,
        "states": {"power": [1.0, 1.0, 2.0]},
    }  # one name for two rows would draw them as one
    assert by_name(result_charts(problem, plan, alike))["cost"].figure["data"][0]["x"] == [0, 1, 2]


def apart(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2.1 defines it."""

    def light(colour: str) -> float:
        parts = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    dark, bright = sorted((light(one), light(other)))
    return (bright + 0.05) / (dark + 0.05)


def test_a_signal_of_many_states_and_steps_stays_small() -> None:
    problem, plan, _ = solved("dr_ensemble")
    signal = np.random.default_rng(1).random((3000, 700)).tolist()
    chart = by_name(result_charts(problem, plan, {"signal": signal}))["signal"]
    assert len(json.dumps(chart.to_json())) < 1_000_000
    assert chart.figure["data"][0]["x"][-1] == 2999
    assert "blocks of neighbouring states" in chart.caption


# Agents -------------------------------------------------------------------------------------------


def test_the_repeated_run_ends_where_the_encrypted_one_did() -> None:
    """Both add the same numbers on the grid of 2^-32."""
    problem, plan, result = solved("coupled_qp")
    found = by_name(result_charts(problem, plan, result))
    ends = [trace["y"][-1] for trace in found["convergence"].figure["data"]]
    assert ends == pytest.approx(result["multipliers"], abs=1e-5)
    slack = np.array(found["slack"].figure["data"][0]["y"])
    assert max(0.0, -slack.min()) == pytest.approx(result["violation"], abs=1e-5)


def test_the_slack_of_constraints_has_the_noise_of_its_means() -> None:
    problem, plan, result = solved("multi_agent")
    trace = by_name(result_charts(problem, plan, result))["slack"].figure["data"][0]
    assert trace["y"] == pytest.approx([-value for value in result["noisy_values"]], rel=1e-5)
    deviation = {one["quantity"]: one["standard_deviation"] for one in plan["noise"]}
    half = problem["schedule"]["iterations"] / 2
    expected = [
        2 * deviation[f"value of constraint {k} in each step"] / half**0.5
        for k in range(len(trace["y"]))
    ]
    assert trace["error_y"]["array"] == pytest.approx(expected, rel=1e-5)


NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def session(agents: list[dict[str, Any]], **values: Any) -> dict[str, Any]:
    common = {"fingerprint": "ab" * 32, "enrolled_at": NOW, "on_roster": True, "accepted": True}
    return {
        "kind": "coupled_qp",
        "agents": [{**common, **agent} for agent in agents],
        "terms": {"agents": 3, "quorum": None, "on_missing": "abort"},
        "approved_at": NOW + timedelta(seconds=5),
        "round": 12,
        **values,
    }


def test_a_session_shows_each_agent_once_a_phase() -> None:
    agents = [{"name": "a"}, {"name": "a"}, {"name": "late", "on_roster": False, "accepted": False}]
    job = {"started_at": NOW + timedelta(seconds=9), "finished_at": NOW + timedelta(seconds=30)}
    chart = session_chart(session(agents), job)
    phases = {trace["name"]: trace for trace in chart.figure["data"]}
    assert phases["enrolled, waiting"]["y"][::3] == ["a", "a (2)", "late"]
    assert phases["rounds"]["y"][::3] == ["a", "a (2)"]
    assert phases["rounds"]["x"][:2] == ["2026-11-21T12:00:09+00:00", "2026-11-21T12:00:30+00:00"]
    assert "12 exchanges are done: every agent of the roster answered every round" in chart.caption
    assert [row[3:] for row in chart.table.rows] == [("yes", "yes"), ("yes", "yes"), ("no", "no")]
    some = session(agents, terms={"agents": 3, "quorum": 2, "on_missing": "finish"})
    assert (
        "at least 2 agents answered each round; who missed one is not kept"
        in session_chart(some, job).caption
    )


def test_a_session_that_waits() -> None:
    waiting = session(
        [{"name": "a", "on_roster": False, "accepted": False}], approved_at=None, round=0
    )
    chart = session_chart(waiting, {"started_at": None, "finished_at": None})
    assert [trace["name"] for trace in chart.figure["data"]] == ["enrolled, waiting"]
    assert "No round has begun." in chart.caption
    assert session_chart(session([], approved_at=None, round=0), {}).table.rows == ()


# Budgets ------------------------------------------------------------------------------------------


def entry(second: int, job: str, who: str, kind: str, epsilon: int) -> tuple[Any, ...]:
    return (NOW + timedelta(seconds=second), second, job, who, kind, epsilon, 10**12)


def test_spending_adds_what_is_held_by_analyst_exactly() -> None:
    rows = [
        (NOW, 0, None, "owner", "open", 0, 0),
        entry(1, "job_a", "Ada", "reserve", 100_000_001),
        entry(2, "job_a", "worker", "data_touched", 0),
        entry(3, "job_b", "Bo", "reserve", 200_000_000),
        entry(4, "job_a", "worker", "commit", 100_000_001),
        entry(5, "job_b", "worker", "release", 200_000_000),
        entry(6, "job_c", "Ada", "reserve", 300_000_000),
    ]
    chart = spending_chart(rows)
    assert "best of several ways" in chart.caption
    assert "which is what counts" in spending_chart(rows, several=False).caption
    lines = {trace["name"]: trace for trace in chart.figure["data"]}
    assert lines["Ada"]["y"] == pytest.approx([0, *[0.100000001] * 3, *[0.400000001] * 2])
    assert lines["Bo"]["y"] == pytest.approx([0, 0, 0.2, 0, 0, 0])
    assert {trace["line"]["shape"] for trace in lines.values()} == {"hv"}
    assert [row[6] for row in chart.table.rows] == [
        "0.100000001",
        "0.300000001",
        "0.100000001",
        "0.400000001",
    ]
    assert chart.table.rows[-1][7] == "2e-06"
    assert spending_chart(rows[:1]).table.rows == ()


def test_much_spending_stays_drawable_and_ends_exactly() -> None:
    chart = spending_chart(
        [entry(k, f"job_{k}", "Ada", "reserve", 1_000_000) for k in range(3 * MAX_MOMENTS)]
    )
    (line,) = chart.figure["data"]
    assert len(line["x"]) == MAX_MOMENTS + 2
    assert line["y"][-1] == pytest.approx(3 * MAX_MOMENTS / 1000)
    assert (len(chart.table.rows), chart.table.left_out) == (
        TABLE_ROWS,
        3 * MAX_MOMENTS - TABLE_ROWS,
    )


# Words and colours --------------------------------------------------------------------------------


def test_names_of_people_are_no_markup() -> None:
    nasty = '<a href="javascript:alert(1)">&lt;b>'
    texts = json.dumps(
        [
            spending_chart([entry(1, "job_a", nasty, "reserve", 1)]).figure,
            session_chart(
                session([{"name": nasty}]), {"started_at": NOW, "finished_at": NOW}
            ).figure,
            traces.bars(nasty, [1], [1]),
            traces.curve(nasty, [1], [1]),
        ]
    )
    assert "<a" not in texts
    assert "&lt;a href" in texts
    assert "&amp;lt;b&gt;" in texts


def test_rounding_keeps_six_digits() -> None:
    assert traces.rounded([1234567.0, -1.23456789e-12, 0, np.nan, np.inf]) == [
        1234570,
        -1.23457e-12,
        0,
        None,
        None,
    ]
    assert Table.of(("a",), [(1 / 3,), (7,)]).rows == (("0.333333",), ("7",))


def luminance(colour: str) -> float:
    """Relative luminance (WCAG 2.2)."""
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def linear(colour: str) -> Any:
    part = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


LIGHT, DARK = "#ffffff", "#1b232b"
"""The ground of a chart: `--card` of style.css."""


@pytest.mark.parametrize("dark", [False, True])
def test_curves_stand_out_from_the_page(dark: bool) -> None:
    """At least 3:1, as WCAG 2.2 asks of graphics (1.4.11)."""
    ground = luminance(DARK if dark else LIGHT)
    for colour in LINES:
        one = luminance(ON_DARK[colour] if dark else colour)
        assert (max(one, ground) + 0.05) / (min(one, ground) + 0.05) >= 3, colour


SEEN_WITH = {
    "all cones": np.eye(3),
    "deuteranopia": np.array(
        [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]
    ),
    "protanopia": np.array(
        [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]
    ),
}
"""Linear sRGB as it looks (Machado, Oliveira, Fernandes 2009, severity 1)."""
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour: str, seen_with: str) -> Any:
    """CIELAB under D65."""
    t = TO_XYZ @ np.clip(SEEN_WITH[seen_with] @ linear(colour), 0, 1) / [0.9505, 1, 1.089]
    f = np.where(t > 0.008856, np.cbrt(t), 7.787 * t + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("eyes", SEEN_WITH)
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("palette", [LINES, LOADS])
def test_colours_differ_for_every_pair_of_eyes(
    palette: tuple[str, ...], dark: bool, eyes: str
) -> None:
    """By 14 at least, six times what is just noticed (2.3; Mahy, Van Eycken, Oosterlinck 1994)."""
    seen = [lab(ON_DARK[colour] if dark else colour, eyes) for colour in palette]
    closest = min(np.linalg.norm(one - other) for one, other in itertools.combinations(seen, 2))
    assert closest >= 14


@pytest.mark.parametrize("dark", [False, True])
def test_shades_tell_more_from_less_without_colour(dark: bool) -> None:
    levels = [luminance(ON_DARK[colour] if dark else colour) for colour in SHADES]
    steps = np.diff(levels)
    assert (steps > 0).all() if dark else (steps < 0).all()


@pytest.mark.parametrize("dark", [False, True])
def test_loads_are_told_apart_by_lightness_alone(dark: bool) -> None:
    """Full from empty in print and for every pair of eyes: each is at least 7 of CIELAB's 100 from
    the next."""
    light = [lab(ON_DARK[colour] if dark else colour, "all cones")[0] for colour in LOADS]
    steps = np.diff(light)
    assert (steps > 7).all() if dark else (steps < -7).all()


def test_neighbouring_curves_differ_in_more_than_colour() -> None:
    styles = [
        (traces.DASHES[k % len(traces.DASHES)], traces.SYMBOLS[k % len(traces.SYMBOLS)])
        for k in range(6)
    ]
    assert len(set(styles)) == 6
    first, second = traces.curve("a", [1], [1], 0), traces.curve("b", [1], [1], 1)
    assert first["line"]["dash"] != second["line"]["dash"]
    assert first["marker"]["symbol"] != second["marker"]["symbol"]
