"""Trips of several classes of users: content, release, plan and what a result tells of each."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pytest

from benchmarks.coverage import Case, finished
from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.numbers import Budget
from discreet.problems.routing.charts import charts_of, row_names
from discreet.problems.routing.dataset import RoutingContent, RoutingDataset
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.synthesis import SYNTHESIS
from discreet.problems.routing.user_classes import classes_of
from discreet.solvers.traffic.user_classes import policies_by_class, together
from discreet_client import flows, readers
from discreet_client.tables import TableError
from tests.problems.exact import NoNoise

BUDGET = Budget(epsilon=10**9, delta=0)
CLASSES = ["car", "truck"]
# Two ways from 1 to 2, of which one, over 3, costs a toll.
LINKS = [
    (1, 3, 4.0, 400, 0.0),
    (3, 2, 4.0, 400, 8.0),
    (1, 2, 12.0, 300, 0.0),
    (2, 1, 9.0, 500, 0.0),
]
NETWORK = {
    "nodes": 3,
    "links": [
        dict(zip(("tail", "head", "free_flow_time", "capacity", "fixed_cost"), link, strict=True))
        for link in LINKS
    ],
}
ROWS = [
    {"period": 0, "origin": 1, "destination": 2, "count": 800, "user_class": "car"},
    {"period": 1, "origin": 1, "destination": 2, "count": 300, "user_class": "truck"},
    {"period": 1, "origin": 2, "destination": 1, "count": 90, "user_class": "car"},
]


def public(**values: Any) -> RoutingPublic:
    told = {"unit": "request", "zones": 2, "periods": 2, "period_minutes": 60}
    return RoutingPublic.model_validate({**told, "user_classes": CLASSES, **values})


def problem(**values: Any) -> Routing:
    asked = {"objective": "user_equilibrium", "latency": {"type": "bpr"}, **values}
    return Routing.model_validate(
        {"kind": "routing", "dataset": "dst_x", "network": NETWORK, **asked}
    )


def read(part: RoutingPublic, rows: list[dict[str, Any]]) -> Content:
    return RoutingDataset.read_rows(part, RoutingContent.model_validate({"trips": rows}))


def answered(part: RoutingPublic | None = None, **values: Any) -> dict[str, Any]:
    part = part or public()
    asked = problem(**values)
    plan = asked.plan(part, BUDGET)
    case = Case("routing", "counts", "", 1, asked, part, plan, read(part, ROWS))
    found = finished(case, Noise.seeded(1))
    told = {name: output.value() for name, output in found.items()}
    return json.loads(json.dumps(told))  # type: ignore[no-any-return]


def test_a_trip_is_of_one_class_and_moves_one_count() -> None:
    """The class is part of the record: the counts of all classes are one vector."""
    asked, part = problem(), public()
    plan, counts = asked.plan(part, BUDGET), []
    for rows in (ROWS, [*ROWS, {**ROWS[0], "count": 1, "user_class": "truck"}]):
        noise = NoNoise()
        counts.append(asked.release(part, plan, read(part, rows), noise)["trips"].astype(int))
        assert noise.events == list(plan.events)
    assert counts[0].shape == (2, 2, 2)
    assert counts[0][:, 0, 1].tolist() == [800, 300]
    assert (counts[1] - counts[0]).tolist() == [[[0, 0], [0, 0]], [[0, 1], [0, 0]]]
    alone = problem().plan(public(user_classes=None), BUDGET)
    assert [event.scale for event in plan.events] == [event.scale for event in alone.events]
    assert plan.total == alone.total


def test_every_cell_of_every_class_has_noise() -> None:
    asked, part = problem(), public()
    plan = asked.plan(part, Budget(epsilon=10**7, delta=0))
    released = [
        asked.release(part, plan, read(part, []), Noise.seeded(seed))["trips"] for seed in range(9)
    ]
    spread = np.std(np.array(released, dtype=float), axis=0)
    assert (spread[:, [0, 1], [1, 0]] > 0).all()
    assert (spread[:, [0, 1], [0, 1]] == 0).all()


def test_a_person_of_two_classes_keeps_clip_and_norm() -> None:
    part = public(unit="person", periods=1)
    asked = problem(max_trips_per_person=40, max_norm_per_person=5)
    plan = asked.plan(part, Budget(epsilon=10**9, delta=10**12))
    pairs = [(1, 2, "car"), (1, 2, "truck"), (2, 1, "car"), (2, 1, "truck")]
    rows = [
        {"period": 0, "origin": o, "destination": d, "count": 9, "user_class": c, "person": "p"}
        for o, d, c in pairs
    ]
    noise = NoNoise()
    counts = asked.release(part, plan, read(part, rows), noise)["trips"].astype(int)
    own = counts[:, [0, 1], [1, 0]].ravel()
    assert 4 < np.linalg.norm(own) <= 5
    assert (own > 0).all()
    assert 7 < own.sum() <= plan.events[0].sensitivity == 10  # four cells, not two
    most = RoutingPublic.model_validate({**part.model_dump(), "max_person": 35})
    with pytest.raises(InvalidInput, match="a person has more trips"):
        read(most, rows)


def test_content_is_the_same_however_it_is_written() -> None:
    part = public()
    assert read(part, ROWS)["trips"][0].nbytes == part.row_bytes  # on which plans' times rest
    whole = b"".join(canonical_bytes(read(part, ROWS)))
    parts = [{**row, "count": row["count"] // 2} for row in ROWS for _ in range(2)]
    assert b"".join(canonical_bytes(read(part, parts[::-1]))) == whole
    table = pa.Table.from_pylist(ROWS)
    encoded = table.set_column(4, "user_class", table["user_class"].dictionary_encode())
    large = table.set_column(4, "user_class", table["user_class"].cast(pa.large_string()))
    for one in (table, encoded, large):
        assert b"".join(canonical_bytes(RoutingDataset.read_table(part, one))) == whole
        batches = iter(one.to_batches(max_chunksize=2))
        again = RoutingDataset.read_batches(part, batches, one.schema)
        assert b"".join(canonical_bytes(again)) == whole
    numbered = public(user_classes=["1", "2"])
    numbers = table.set_column(4, "user_class", pa.array([1, 2, 1]))
    assert b"".join(canonical_bytes(RoutingDataset.read_table(numbered, numbers))) == whole
    swapped = [{**row, "user_class": CLASSES[row["user_class"] == "car"]} for row in ROWS]
    assert b"".join(canonical_bytes(read(part, swapped))) != whole


@pytest.mark.parametrize(
    ("label", "says"), [("bus", "found bus"), (None, "car or truck"), ("Car", "found Car")]
)
def test_an_unknown_class_is_refused_with_its_row(label: str | None, says: str) -> None:
    row = {**ROWS[1], "user_class": label}
    if label is None:
        del row["user_class"]
    with pytest.raises(InvalidInput, match=says) as refused:
        read(public(), [ROWS[0], row])
    assert refused.value.issues[0].pointer == "/content/trips/1/user_class"
    table = pa.Table.from_pylist([ROWS[0], {**ROWS[1], "user_class": label}])
    with pytest.raises(InvalidInput, match=says) as refused:
        RoutingDataset.read_table(public(), table)
    assert refused.value.issues[0].pointer == "/content/1/user_class"


def test_classes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"public\.user_classes is not there"):
        read(public(user_classes=None), ROWS)
    with pytest.raises(InvalidInput, match="'user_class' is not known here"):
        RoutingDataset.read_table(public(user_classes=None), pa.Table.from_pylist(ROWS))
    for column, says in (
        (pa.array([1.5, 2.0, 1.0]), "holds double"),
        (pa.nulls(3), "is empty"),
        (pa.array([b"car"] * 3), "holds binary"),
    ):
        table = pa.Table.from_pylist(ROWS).set_column(4, "user_class", column)
        with pytest.raises(InvalidInput, match=says):
            RoutingDataset.read_table(public(), table)
    for names in (["car"], ["car", "car"], ["a/b", "c"], ["car "] * 2, [f"c{k}" for k in range(9)]):
        with pytest.raises(ValueError, match="user_classes"):
            public(user_classes=names)


@pytest.mark.parametrize(
    ("values", "pointer", "says"),
    [
        ({"user_classes": [{"name": "bus"}]}, "/user_classes/0/name", "classes are car, truck"),
        ({"user_classes": [{"name": "car"}] * 2}, "/user_classes/1/name", "appears twice"),
        (
            {"user_classes": [{"name": "truck", "pce": 2}], "objective": "system_optimum"},
            "/user_classes",
            "not convex",
        ),
        (
            {"method": "gradient", "regularization": 1, "objective": "system_optimum"},
            "/method",
            "trips of one class",
        ),
    ],
)
def test_what_cannot_be_asked_is_refused(values: Any, pointer: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        problem(**values).plan(public(max_total=10, max_pair=10), BUDGET)
    assert f"/problem{pointer}" in [issue.pointer for issue in refused.value.issues]


def test_classes_of_a_dataset_without_are_refused_and_never_free() -> None:
    part = public(user_classes=None)
    with pytest.raises(InvalidInput, match="trips have no classes"):
        problem(user_classes=[{"name": "car"}]).plan(part, BUDGET)
    assert "user_classes" not in problem().free(part)
    assert "user_classes" in problem().free(public())
    with pytest.raises(ValueError, match="fixed_cost_weight"):
        problem(user_classes=[{"name": "car", "fixed_cost_weight": -1}])
    with pytest.raises(ValueError, match="pce"):
        problem(user_classes=[{"name": "car", "pce": 0}])


def test_the_plan_says_what_classes_cost_and_assume() -> None:
    weighed = [{"name": "truck", "fixed_cost_weight": 0.2, "pce": 2}]
    part = public(max_total=2000)
    plan = problem(user_classes=weighed).plan(part, BUDGET)
    assert "each of the classes car, truck" in plan.noise[0].quantity
    told = (
        "car (fixed costs times 1, passenger cars per trip 1), "
        "truck (fixed costs times 0.2, passenger cars per trip 2)"
    )
    assert any(told in one for one in plan.model)
    assert "the class of each trip is recorded correctly" in plan.model
    assert any("1.41 times as large" in one for one in plan.advice)
    both = [
        {one.quantity: one for one in asked.expected(known, asked.plan(known, BUDGET), 0.9)}
        for asked, known in (
            (problem(user_classes=weighed), part),
            (problem(), public(user_classes=None, max_total=2000)),
        )
    ]
    for quantity, more in (("demand", 2**0.5), ("link_flows", 5**0.5)):
        assert both[0][quantity].within >= 0.9 * more * both[1][quantity].within
    assert both[0]["total_travel_time"].within > both[1]["total_travel_time"].within


def test_a_result_has_all_and_each_class() -> None:
    weighed = [{"name": "truck", "fixed_cost_weight": 0.1, "pce": 2}]
    asked = {"user_classes": weighed, "select_links": [1, 2], "skims": True}
    found = answered(**asked)
    demand, own = np.array(found["demand_by_class"]), np.array(found["link_flows_by_class"])
    assert found["user_classes"] == CLASSES
    np.testing.assert_allclose(demand.sum(axis=0), found["demand"])
    np.testing.assert_allclose(own[0] + 2 * own[1], found["link_flows"])
    # Trucks pay a tenth of the toll in time: they take the tolled way, cars the free one first.
    assert own[1, 1] / demand[1, 0, 1] > own[0, 1] / demand[0, 0, 1] + 0.2
    by_policy = np.zeros((2, len(LINKS)))
    for pair in found["policy_by_class"]:
        k = CLASSES.index(pair["user_class"])
        for path in pair["paths"]:
            trips = demand[k, pair["origin"] - 1, pair["destination"] - 1]
            by_policy[k, path["links"]] += path["share"] * trips
    np.testing.assert_allclose(by_policy, own, atol=1e-6)
    whole = np.zeros(len(LINKS))
    for pair in found["policy"]:
        assert sum(path["share"] for path in pair["paths"]) == pytest.approx(1)
        for path in pair["paths"]:
            trips = found["demand"][pair["origin"] - 1][pair["destination"] - 1]
            whole[path["links"]] += path["share"] * trips
    np.testing.assert_allclose(whole, own.sum(axis=0), atol=1e-6)
    for link in (1, 2):
        for k, name in enumerate(CLASSES):
            rows = [one for one in found["select_link_by_class"] if one["link"] == link]
            trips = sum(one["trips"] for one in rows if one["user_class"] == name)
            assert trips == pytest.approx(own[k, link], abs=1e-6)
    times = np.array(found["skims_by_class"])
    assert float((times * demand).sum()) == pytest.approx(found["total_travel_time"])
    assert times[0, 0, 1] >= times[1, 0, 1]
    assert "select_link" not in found
    assert "skims" not in found
    values = found["uncertainty"]["values"]
    assert values.keys() >= {
        *("demand", "demand_by_class", "link_flows", "total_travel_time"),
        *("select_link_by_class", "skims_by_class"),
    }
    for name, ends in values.items():
        told = found[name]
        told = [row["trips"] for row in told] if name == "select_link_by_class" else told
        assert (np.array(ends["lower"]) <= np.array(told) + 1e-9).all(), name
        assert (np.array(ends["upper"]) >= np.array(told) - 1e-9).all(), name
    plan = problem(**asked).plan(public(), BUDGET).model_dump(mode="json")
    charts = charts_of(problem(**asked).model_dump(mode="json"), plan, found)
    assert "select-link" in {chart.name for chart in charts}
    for name, ends in values.items():  # a row that is only noise is called by its name
        names = row_names(problem(**asked).model_dump(mode="json"), found, name)
        rows = len(ends["lower"]) if isinstance(ends["lower"], list) else 0
        assert names is None or len(names) >= rows, name


def test_charts_tell_flows_costs_and_demand_of_each_class() -> None:
    """What classes pay adds up to the total, which the solver reckons; nothing of a chart is wrong
    where a class has no trips."""
    asked = {
        "user_classes": [{"name": "truck", "fixed_cost_weight": 0.1, "pce": 2}],
        "skims": True,
    }
    found = answered(**asked)
    plan = problem(**asked).plan(public(), BUDGET).model_dump(mode="json")
    body = problem(**asked).model_dump(mode="json")
    charts = {chart.name: chart for chart in charts_of(body, plan, found)}
    assert {"class-costs", "class-flows", "class-demand", "class-skims"} <= charts.keys()
    costs, flows_chart = charts["class-costs"], charts["class-flows"]
    assert [row[0] for row in costs.table.rows] == CLASSES
    paid = [[float(one) for one in row[1:]] for row in costs.table.rows]
    assert sum(trips * both for trips, _, _, both in paid) == pytest.approx(
        found["total_travel_time"], rel=1e-4
    )
    assert all(time + fixed == pytest.approx(both, rel=1e-4) for _, time, fixed, both in paid)
    assert paid[0][2] != pytest.approx(paid[1][2])
    drawn = [np.array(trace["y"]) for trace in flows_chart.figure["data"]]
    order = np.argsort(-np.sum(found["link_flows_by_class"], axis=0), kind="stable")
    for own, of_class in zip(drawn, found["link_flows_by_class"], strict=True):
        assert own == pytest.approx(np.array(of_class)[order], rel=1e-5)
    assert flows_chart.figure["layout"]["barmode"] == "stack"
    for name in ("class-demand", "class-skims"):
        frames = charts[name].figure["frames"]
        assert [frame["name"] for frame in frames] == CLASSES
        assert charts[name].control == "Class of users"
        assert frames[0]["data"] != frames[1]["data"]
    strange = {**found, "user_classes": ["<b>car", "truck"]}
    for chart in charts_of(body, plan, strange):
        if chart.control:  # the page shows the name as text, plotly as markup
            assert chart.figure["frames"][0]["name"] == "<b>car"
            steps = chart.standalone()["layout"]["sliders"][0]["steps"]
            assert steps[0]["label"] == "&lt;b&gt;car"
        else:
            assert "<b>car" not in json.dumps(chart.to_json())
    empty = {**found, "demand_by_class": np.zeros((2, 2, 2)).tolist()}
    empty |= {"link_flows_by_class": np.zeros((2, 4)).tolist()}
    for chart in charts_of(body, plan, empty):
        json.dumps(chart.to_json(), allow_nan=False)
    alone = problem().model_dump(mode="json")
    plain = {name: one for name, one in found.items() if not name.endswith("_by_class")}
    assert not any(chart.name.startswith("class") for chart in charts_of(alone, plan, plain))


def test_weights_are_asked_again_of_the_same_release() -> None:
    cheap, dear = (
        answered(user_classes=[{"name": "truck", "fixed_cost_weight": weight}])
        for weight in (0.1, 5.0)
    )
    assert cheap["demand_by_class"] == dear["demand_by_class"]
    assert cheap["link_flows_by_class"][1][1] > dear["link_flows_by_class"][1][1]


def test_closed_roads_are_told_of_classes_too() -> None:
    found = answered(user_classes=[{"name": "truck", "fixed_cost_weight": 0.1}], closed_links=[1])
    assert [flows_[1] for flows_ in found["link_flows_by_class"]] == [0, 0]
    assert found["total_travel_time_change"] > 0
    assert "total_travel_time_change" in found["uncertainty"]["values"]


@pytest.mark.parametrize(
    ("objective", "pce"),
    [("user_equilibrium", 1.0), ("user_equilibrium", 2.0), ("system_optimum", 1.0)],
)
def test_intervals_hold_as_often_as_they_say(objective: str, pce: float) -> None:
    """Of 200 releases; at .9 fewer than .83 have the probability .001."""
    part = public()
    weighed = [{"name": "truck", "fixed_cost_weight": 0.2, "pce": pce}]
    asked = problem(user_classes=weighed, objective=objective, latency={"type": "affine"})
    plan = asked.plan(part, Budget(epsilon=10**8, delta=0))
    content = read(part, ROWS)
    exact = asked.finish(
        part,
        plan,
        asked.diagnose(part, plan, content, NoNoise()) | {"trips": truth(content)},
        lambda *_: None,
    )
    true = {name: output.value() for name, output in exact.outputs.items()}
    assert true["true_total_travel_time"] == pytest.approx(true["total_travel_time"])
    assert true["true_best_total_travel_time"] == pytest.approx(true["total_travel_time"])
    held: dict[str, list[Any]] = {}
    for seed in range(200):
        released = asked.release(part, plan, content, Noise.seeded(seed))
        outputs = asked.finish(part, plan, released, lambda *_: None).outputs
        for name, ends in outputs["uncertainty"].value()["values"].items():
            low, high = np.array(ends["lower"]), np.array(ends["upper"])
            inside = (low <= np.array(true[name]) + 1e-9) & (np.array(true[name]) - 1e-9 <= high)
            held.setdefault(name, []).append(inside)
    for name in ("total_travel_time", "link_flows", "demand", "demand_by_class"):
        often = np.mean(held[name], axis=0)
        assert len(held[name]) == 200
        assert often.min() >= 0.83, (name, often)
    assert np.mean(held["link_flows"], axis=0)[1] < 0.98


def truth(content: Content) -> Any:
    counts = np.zeros((2, 2, 2), dtype=np.int64)
    for _, origin, destination, count, number in content["trips"].tolist():
        counts[number, origin - 1, destination - 1] += count
    return counts


def test_the_policy_of_all_is_the_mean_of_the_classes() -> None:
    part = public()
    asked = problem(user_classes=[{"name": "truck", "fixed_cost_weight": 0.0}])
    network = asked.roads.arrays(2)
    demand = np.array([[[0, 400.0], [0, 0]], [[0, 150.0], [0, 0]]])
    solution = asked.routed(network, demand, 1e-10, classes=classes_of(asked, part))
    policy = together(policies_by_class(solution.paths, 2), demand)
    assert np.diff(policy.pair_start).tolist() == [2, 1]
    assert policy.share.tolist() == pytest.approx([*policy.share[:2].tolist(), 1.0])
    assert policy.share[:2].sum() == pytest.approx(1)


def test_files_tell_classes(tmp_path: Any) -> None:
    told = {**public().model_dump(mode="json", exclude_none=True), "periods": 1}
    table = {"origin": [1, 1], "destination": [2, 2], "kind": ["car", "truck"], "count": [3, 4]}
    found = readers.read("routing", table, told, {"user_class": "kind"})
    assert found.columns["user_class"].tolist() == CLASSES
    with pytest.raises(TableError, match=r"none of public\.user_classes, car and truck"):
        readers.read("routing", {**table, "kind": ["car", "bus"]}, told, {"user_class": "kind"})
    plain = {name: one for name, one in told.items() if name != "user_classes"}
    with pytest.raises(TableError, match="goes with their names"):
        readers.read("routing", table, plain, {"user_class": "kind"})
    with pytest.raises(TableError, match="user_class"):
        readers.read("routing", table, told)
    path = tmp_path / "trips.omx"
    with h5py.File(path, "w") as file:
        for name, trips in (("car", [[0, 5], [2, 0]]), ("truck", [[0, 0], [7, 0]])):
            file.create_dataset(f"data/{name}", data=np.array(trips, dtype=float))
    found = readers.read("routing", path, told)
    rows = zip(*(found.columns[name] for name in ("origin", "user_class", "count")), strict=True)
    assert list(rows) == [(1, "car", 5), (2, "car", 2), (2, "truck", 7)]
    with pytest.raises(TableError, match="one is needed for each of public"):
        readers.read("routing", path, {**told, "user_classes": ["car", "bus"]})


def test_results_are_written_by_class() -> None:
    asked: dict[str, Any] = {"select_links": [1], "skims": True}
    found = answered(**asked)
    with h5py.File(io.BytesIO(flows.demand_matrix(found))) as file:
        names = set(file["data"])
        np.testing.assert_allclose(file["data"]["demand_truck"], found["demand_by_class"][1])
    ends = {
        f"{what}_{name}{end}"
        for what in ("demand", "skims")
        for name in CLASSES
        for end in ("", "_lower", "_upper")
    }
    assert ends <= names
    rows = list(csv.DictReader(io.StringIO(flows.selected_links(found, NETWORK).decode())))
    assert {row["user_class"] for row in rows} == {
        row["user_class"] for row in found["select_link_by_class"]
    }


def test_made_up_trips_have_classes_as_those_released() -> None:
    part, asked = public(), problem()
    plan = asked.plan(part, BUDGET)
    released = asked.release(part, plan, read(part, ROWS), Noise.seeded(1))
    around = asked.profile(part, plan, released)
    assert asked.synthesis is not None
    assert around is not None
    content = asked.synthesis.content(RoutingDataset, part, np.random.default_rng(3), None, around)
    again = asked.profile(part, plan, asked.release(part, plan, content, Noise.seeded(2)))
    assert again is not None
    assert np.abs(again["demand"] - around["demand"]).max() < 60
    told = {one.quantity: one for one in asked.expected(part, plan, 0.9, around)}
    answer = answered()
    ends = answer["uncertainty"]["values"]["total_travel_time"]
    assert told["total_travel_time"].within == pytest.approx(
        (ends["upper"] - ends["lower"]) / 2, rel=0.1
    )
    ends = answer["uncertainty"]["values"]["demand"]
    width = (ends["upper"][0][1] - ends["lower"][0][1]) / 2
    assert told["demand"].within == pytest.approx(width + 0.25, rel=0.05)
    assert (
        asked.synthesis.content(RoutingDataset, part, np.random.default_rng(3), None)[
            "trips"
        ].shape[1]
        == 5
    )


@pytest.mark.parametrize("values", [{}, {"unit": "person"}, {"trip_scale": 10}])
def test_trips_are_made_up_of_every_class(values: dict[str, Any]) -> None:
    part = public(**values)
    content = SYNTHESIS.content(RoutingDataset, part, np.random.default_rng(0), None)
    assert set(content["trips"][:, 4].tolist()) == {0, 1}
    assert ("person_start" in content) == (part.unit == "person")


def test_an_example_and_columns_follow_from_the_public_part() -> None:
    plain = {"fixed_cost_weight": 1.0, "pce": 1.0}
    asked = Routing.example_for(public())["problem"]
    assert asked["user_classes"] == [{"name": name, **plain} for name in CLASSES]
    Routing.model_validate({**asked, "dataset": "dst_x"}).plan(public(), BUDGET)
    assert "user_classes" not in Routing.example_for(public(user_classes=None))["problem"]
    (column,) = [one for one in RoutingDataset.columns(public()) if one.name == "user_class"]
    assert column.says == "Class of users: car, truck"


def test_blocks_of_classes_follow_each_other() -> None:
    part = public()
    content = read(part, ROWS)
    joined = RoutingDataset.joined(part, [content, RoutingDataset.nothing(part), content])
    assert joined["trips"][:, 0].tolist() == [0, 1, 1, 4, 5, 5]
    assert joined["trips"][:3].tolist() == content["trips"].tolist()
    assert content["trips"][:, 0].tolist() == [0, 1, 1]
