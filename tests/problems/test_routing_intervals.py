"""Intervals of routing: what they cover, when they are not given, and what to expect before
anything is released."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import Case, Silent, finished, measured
from benchmarks.coverage_routing import cases
from discreet.errors import InvalidInput
from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.problems import results
from discreet.problems.answers import headlines_of
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.results import LEVEL
from discreet.problems.road_networks.network import AffineLatency, RoadNetwork
from discreet.problems.routing import result
from discreet.problems.routing.around import roads_around
from discreet.problems.routing.charts import charts_of, draw
from discreet.problems.routing.counts import demand_of
from discreet.problems.routing.dataset import RoutingContent, RoutingDataset
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet.problems.routing.result import roads_of
from discreet_client import flows
from tests import bodies

RELEASES = 40
ALARM = 1e-9


def chosen(truth: str, epsilon: float) -> Case:
    return next(case for case in cases() if (case.truth, case.epsilon) == (truth, epsilon))


def solved(
    trips: Any, *, epsilon: float = 0.1, public: dict[str, Any] | None = None, **values: Any
) -> dict[str, Any]:
    """The result of released trips of three zones."""
    part = RoutingPublic.model_validate(
        {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
    )
    asked = Routing.model_validate(bodies.job("dst_x", **values)["problem"])
    plan = asked.plan(part, Privacy.model_validate({"epsilon": epsilon}).budget)
    return asked.finish(part, plan, {"trips": np.array(trips)}, lambda *_: None).to_json()


TRIPS = [[0, 400, 30], [500, 0, 200], [-3, 10, 0]]


@pytest.mark.parametrize(
    ("truth", "epsilon"),
    [("Sioux Falls, 3 of 10 pairs", 0.1), ("Sioux Falls, table, BPR equilibrium", 0.025)],
)
def test_intervals_hold_what_they_are_of(truth: str, epsilon: float) -> None:
    """Numbers of one release hang together, so this only fails where coverage is far off (below .82
    of 40 x 76 link flows was .57 to .87 of the recipes that fail); a total alone has a binomial
    bound."""
    rows = {row["quantity"]: row for row in measured(chosen(truth, epsilon), RELEASES)}
    assert rows.keys() == {"demand", "link_flows", "total_travel_time"}
    assert 0.86 < rows["link_flows"]["coverage"] < 0.97
    # Each pair has its own noise.
    assert rows["demand"]["coverage"] > stats.binom.ppf(ALARM, RELEASES * 552, 0.9) / (
        RELEASES * 576
    )
    assert (
        rows["total_travel_time"]["coverage"] >= stats.binom.ppf(ALARM, RELEASES, 0.87) / RELEASES
    )
    assert max(row["none"] for row in rows.values()) == 0


def test_a_pair_has_its_own_noise_and_intervals_hold_their_results() -> None:
    shown = solved(TRIPS)
    found = shown["uncertainty"]
    assert found["level"] == 0.9
    # Laplace of scale 10: the least n with P(|z| > n) <= .1, over two periods.
    reach = (
        next(n for n in range(100) if 2 * np.exp(-(n + 1) / 10) / (1 + np.exp(-1 / 10)) <= 0.1) / 2
    )
    demand = found["values"]["demand"]
    assert (demand["lower"][0][1], demand["upper"][0][1]) == (200 - reach, 200 + reach)
    assert (demand["lower"][2][0], demand["upper"][2][0]) == (
        0,
        reach,
    )  # below 0 it is as good as 0
    assert demand["lower"][1][1] == demand["upper"][1][1] == 0
    for name, ends in found["values"].items():
        assert (np.array(ends["lower"]) <= np.array(shown[name])).all()
        assert (np.array(shown[name]) <= np.array(ends["upper"])).all()
        assert (np.array(ends["lower"]) >= 0).all()
    assert found["noise_dominates"]["demand"] == [
        False,
        False,
        True,
    ]  # 7 + 7 in the mean, of 430, 700 and 7 trips
    assert found["noise_dominates"]["total_travel_time"] is found["mostly_noise"] is False


@pytest.mark.parametrize("epsilon", [0.3, 3.0])
def test_no_interval_is_nothing_and_small_counts_are_held(epsilon: float) -> None:
    """1,560 pairs of 0 to 4 trips in all, five times: until November one in twenty of those
    without trips had [0, 0], and so had pairs that had some."""
    public = RoutingPublic(unit="request", zones=40, periods=10, period_minutes=60)
    event = calibration.discrete_laplace(1, round(epsilon * 10**9), neighbours="trips")
    apart = ~np.eye(40, dtype=bool)
    trips = np.random.default_rng(1).integers(0, 5, (40, 40)) * apart
    held = np.zeros(5)
    for seed in range(5):
        noisy = (Noise.seeded(seed).add(event, trips.ravel()).reshape(40, 40)) * apart
        demand = demand_of(public, noisy)
        reach = event.reach(LEVEL) / 10
        least = np.where(apart, 0.1, 0.0)
        lower, upper = result._around(noisy / 10, np.where(apart, reach, 0.0), demand, least)
        assert (upper[apart] >= max(reach, 0.1) - 1e-12).all()
        inside = (lower <= trips / 10 + 1e-12) & (trips / 10 <= upper + 1e-12)
        held += [float(inside[apart & (trips == count)].mean()) for count in range(5)]
    assert (held / 5 >= 0.88).all(), held / 5


def test_flows_that_are_left_open_have_no_interval_and_are_called_so(tmp_path: Path) -> None:
    """A road that fills and two ways of equal and constant cost: the total is the same in all
    optima, and so is the flow of the first."""
    links = [
        {"tail": 1, "head": 2, "free_flow_time": 1, "capacity": 100, "b": 1, "power": 1},
        *(
            {"tail": tail, "head": head, "free_flow_time": 1, "capacity": 100, "b": 0, "power": 0}
            for tail, head in ((1, 3), (3, 2), (1, 4), (4, 2), (2, 1))
        ),
    ]
    network = {"nodes": 4, "links": links}
    values = {"network": network, "objective": "user_equilibrium"}
    found = opened(values)
    assert found["undetermined_links"] == [1, 2, 3, 4]
    said = found["uncertainty"]["values"]
    ends = said["link_flows"]
    assert [one is None for one in ends["lower"]] == [False, True, True, True, True, False]
    assert ends["lower"][0] == pytest.approx(100)
    assert ends["upper"][0] == pytest.approx(100)
    assert said["total_travel_time"]["lower"] < found["total_travel_time"]
    told = [one.text for one in headlines_of({"kind": "routing", **values}, found)]
    assert any("Flows of 4 of 6 links are not determined" in one for one in told)
    rows = flows.link_flows(found, network, "csv").decode()
    assert rows.count("False") == 4
    charts = charts_of({"network": network}, {}, found)
    assert any("does not determine" in one.caption for one in charts)
    draw({"network": network}, found, tmp_path / "open.svg")
    assert "flow not determined (4)" in (tmp_path / "open.svg").read_text()
    closed = opened({**values, "closed_links": [0]})
    assert closed["uncertainty"]["values"]["link_flow_changes"]["lower"][1:5] == [None] * 4
    rising = {**network, "links": [{**link, "b": 1, "power": 1} for link in links]}
    assert "undetermined_links" not in opened({**values, "network": rising})


def opened(values: dict[str, Any]) -> dict[str, Any]:
    """The result of 300 trips from 1 to 2 in each of two periods, with noise."""
    asked = {"kind": "routing", "dataset": "dst_x", **values}
    problem = Routing.model_validate(asked)
    public = RoutingPublic(unit="request", zones=2, periods=2, period_minutes=60)
    plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
    released = {"trips": np.array([[0, 603], [41, 0]])}
    found = problem.finish(public, plan, released, lambda step, total: None).to_json()
    return dict(json.loads(json.dumps(found, allow_nan=False)))


def test_without_intervals_the_result_is_what_it_was_and_nothing_is_derived(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = solved(TRIPS)
    monkeypatch.setattr(result, "derivative", None)
    assert solved(TRIPS, uncertainty=False) == {
        name: one for name, one in asked.items() if name != "uncertainty"
    }


def test_a_result_of_nothing_but_noise_says_so() -> None:
    found = solved([[0, 3, -9], [14, 0, 5], [-2, -4, 0]], epsilon=0.01)["uncertainty"]
    assert found["mostly_noise"]
    assert found["noise_dominates"]["total_travel_time"]
    assert "total_travel_time" not in found["values"]
    assert solved([[0, -3, -9], [-14, 0, 5], [-2, -4, 0]])["uncertainty"][
        "mostly_noise"
    ]  # no demand at all


def test_pairs_may_be_noise_where_the_flows_are_known() -> None:
    """Pairs have .6 times as much noise as trips, and some rows more than that, links carry
    hundreds of them."""
    case = chosen("Sioux Falls, table", 0.025)
    found = finished(case, Noise.seeded(1))["uncertainty"].value()
    assert np.mean(found["noise_dominates"]["demand"]) > 0.3
    assert not found["noise_dominates"]["total_travel_time"]
    assert not found["mostly_noise"]


def test_one_busy_pair_is_no_noise_whatever_the_others_are() -> None:
    shown = solved([[0, 4000, 0], [0, 0, 0], [0, 0, 0]])
    found = shown["uncertainty"]["noise_dominates"]
    assert found["demand"] == [False, True, True]
    # From zones 2 and 3, but for one on the way of the busy pair. What no pair uses has neither
    # flow nor noise.
    assert np.flatnonzero(found["link_flows"]).tolist() == [3, 4, 6]
    assert not shown["uncertainty"]["mostly_noise"]
    alone = solved([[0, 40, 0], [0, 0, 0], [0, 0, 0]], epsilon=1)["uncertainty"]
    assert sum(alone["noise_dominates"]["link_flows"]) == 5  # of the six that anybody may use
    assert not alone["mostly_noise"]
    quiet = solved([[0, 40, 30], [50, 0, 20], [30, 10, 0]], epsilon=10)
    assert quiet["link_flows"].count(0) == 6
    assert not any(quiet["uncertainty"]["noise_dominates"]["link_flows"])


def test_the_middle_of_the_total_is_of_the_counts_before_their_projection() -> None:
    """Projecting takes 120 from each of five pairs, which says nothing of them: the roads are as
    full as they were."""
    trips = np.array([[0, 4000, -600], [4000, 0, 4000], [4000, 4000, 0]])
    shown = solved(trips, epsilon=1)
    upper = shown["uncertainty"]["values"]["total_travel_time"]["upper"]
    whole = solved(np.maximum(trips, 0), epsilon=1)["total_travel_time"]
    assert shown["total_travel_time"] < 0.95 * whole
    assert upper == pytest.approx(whole, rel=0.01)


@pytest.mark.parametrize("objective", ["system_optimum", "user_equilibrium"])
def test_of_a_large_network_only_what_takes_no_large_matrix(
    monkeypatch: pytest.MonkeyPatch, objective: str
) -> None:
    small = solved(TRIPS, objective=objective)["uncertainty"]["values"]
    monkeypatch.setattr(result, "MAX_LINKS", 11)
    large = solved(TRIPS, objective=objective)["uncertainty"]["values"]
    expected = {"demand", "total_travel_time"} if objective == "system_optimum" else {"demand"}
    assert large.keys() == expected < small.keys() | {"none"}
    for name in expected:
        assert large[name]["upper"] == pytest.approx(np.array(small[name]["upper"]), rel=1e-6)
    monkeypatch.setattr(results, "MAX_JSON_NUMBERS", 2 * (9 + 12))
    assert "demand" in solved(TRIPS)["uncertainty"]["values"]
    monkeypatch.setattr(results, "MAX_JSON_NUMBERS", 2 * (9 + 12) - 1)
    assert "demand" not in solved(TRIPS)["uncertainty"]["values"]


def test_an_assignment_far_from_its_optimum_tells_of_the_demand_only() -> None:
    values = solved([[0, 900, 300], [500, 0, 200], [90, 10, 0]], relative_gap=1e-2)["uncertainty"][
        "values"
    ]
    assert values.keys() == {"demand"}


def test_shares_of_the_gradient_have_the_noise_that_they_were_given() -> None:
    bounds = {
        "unit": "request",
        "zones": 3,
        "periods": 4,
        "period_minutes": 60,
        "max_total": 150,
        "max_pair": 120,
    }
    part = RoutingPublic.model_validate(bounds)
    asked = Routing.model_validate(
        bodies.job("dst_x", method="gradient", regularization=1000)["problem"]
    )
    content = {"trips": np.array([[0, 1, 2, 5], [1, 2, 3, 50]])}
    held, noisy = [], []
    for epsilon in (10**11, 10**7):
        plan = asked.plan(part, Budget(epsilon=epsilon, delta=10**13))
        case = Case("routing", "gradient", "", 0, asked, part, plan, content)
        (row,) = measured(case, 20)
        held.append(row["coverage"])
        noisy.append(row["noise"])
    # 20 releases of 6 pairs and 12 links, each share with noise of its own; what lies at an end is
    # held more often.
    assert min(held) > stats.binom.ppf(ALARM, 20 * 72, 0.9) / (20 * 72)
    assert noisy == [0, 1]


def test_the_reach_of_noise_is_its_quantile() -> None:
    case = chosen("Sioux Falls, table", 0.1)
    (laplace,) = case.plan.events
    for event in (laplace, laplace.model_copy(update={"scale": 0.5})):
        n = np.arange(10**5)
        weights = np.where(n > 0, 2, 1) * np.exp(-n / event.scale)
        within = np.cumsum(weights) / weights.sum()
        for level in (0.5, 0.9, 0.999):
            assert event.reach(level) == np.flatnonzero(within >= level)[0]


# Before anything is released ----------------------------------------------------------------------


def planned(asked: Routing, epsilon: float = 0.1, **figures: Any) -> tuple[RoutingPublic, Any]:
    part = RoutingPublic.model_validate(
        {"unit": "request", "periods": 5, "period_minutes": 60, **figures}
    )
    return part, asked.plan(part, Privacy.model_validate({"epsilon": epsilon}).budget)


@pytest.mark.parametrize("latency", [{"type": "affine"}, {"type": "bpr"}])
def test_what_is_expected_of_an_even_demand_is_what_it_gets(
    latency: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FAR", "LESS_FAR"):
        monkeypatch.setattr(result, name, 0.0)
    monkeypatch.setattr(result, "roads_of", roads_of.__wrapped__)
    city = chosen("Sioux Falls, table", 0.1).problem.network
    asked = Routing.model_validate(
        {"kind": "routing", "dataset": "dst_x", "network": city, "latency": latency}
    )
    part, plan = planned(asked, zones=24, max_total=5520)
    expected = {one.quantity: one for one in asked.expected(part, plan, 0.9)}
    assert list(expected) == [
        "total_travel_time",
        "demand",
        "link_flows",
    ]  # the first is what is meant by no name
    even = 50 * ~np.eye(24, dtype=bool)
    shown = asked.finish(part, plan, {"trips": even.astype(np.int64)}, lambda *_: None).to_json()
    values = shown["uncertainty"]["values"]
    half = {
        name: np.subtract(ends["upper"], ends["lower"]).max() / 2 for name, ends in values.items()
    }
    assert half["total_travel_time"] == pytest.approx(
        expected["total_travel_time"].within, rel=0.03
    )
    assert half["demand"] + 0.5 / 5 == pytest.approx(
        expected["demand"].within
    )  # and half a trip, see `advice`
    assert half["link_flows"] == pytest.approx(expected["link_flows"].within, rel=0.15)
    assert shown["total_travel_time"] == pytest.approx(expected["total_travel_time"].size, rel=0.05)
    assert expected["demand"].size == 10
    *sentences, model = plan.advice
    assert [one.sentence for one in expected.values()] == sentences
    assert model.startswith(
        "trips are sent so that all together lose least"
    )  # which no interval speaks of


@pytest.mark.parametrize(
    "truth", ["Sioux Falls, table", "Sioux Falls, table, BPR equilibrium", "grid, lognormal"]
)
def test_what_is_expected_of_the_total_is_kept_in_its_unit_and_in_per_cent(truth: str) -> None:
    """Of trips that fall with distance and of such that do not; and with what is known of them, it
    is what they get."""
    case = chosen(truth, 0.1)
    asked, released = (
        case.problem,
        case.problem.release(case.public, case.plan, case.content, Silent()),
    )
    shown = asked.finish(case.public, case.plan, released, lambda *_: None).to_json()
    ends, total = shown["uncertainty"]["values"]["total_travel_time"], shown["total_travel_time"]
    half = (ends["upper"] - ends["lower"]) / 2
    told, *_ = asked.expected(case.public, case.plan, 0.9)
    assert 0.3 < half / told.within < 1
    assert told.size is not None
    assert 0.4 < half / total / (told.within / told.size) < 1
    around = asked.profile(case.public, case.plan, released)
    known, *_ = asked.expected(case.public, case.plan, 0.9, around)
    assert 0.85 < known.within / half < 1.01  # less noise where no trips are negative
    assert total == pytest.approx(known.size, rel=1e-4)


def flows_of(case: Case, released: Any) -> Any:
    return case.problem.finish(case.public, case.plan, released, lambda *_: None).to_json()[
        "link_flows"
    ]


def test_where_hardly_any_pair_has_trips_projection_takes_noise_away() -> None:
    """Half of the pairs without any: the errors of 300 noisy demands, of which each is
    projected."""
    case = chosen("Sioux Falls, 3 of 10 pairs", 0.5)
    released = case.problem.release(case.public, case.plan, case.content, Silent())
    profile = around = case.problem.profile(case.public, case.plan, released)
    assert profile is not None
    deviation = case.plan.events[0].deviation() / case.public.periods
    asked = case.problem
    assert isinstance(asked, Routing)
    roads, kept = roads_around(asked.network, asked.latency, asked.objective, profile, deviation)
    assert roads is not None
    assert 0.8 < kept.total < 0.97
    around = {"demand": profile["demand"] + 100.0}
    _, full = roads_around(asked.network, asked.latency, asked.objective, around, deviation)
    assert full == pytest.approx((1, 1))
    # Flows keep less: 100 noisy demands, finished, move the link that is moved most as far as that
    # says.
    plan = case.problem.draft(case.public, Budget(epsilon=5 * 10**8, delta=0))
    told = next(
        one
        for one in asked.expected(case.public, plan, 0.8, profile)
        if one.quantity == "link_flows"
    )
    exact = flows_of(case, released)
    noisy = (
        case.problem.release(case.public, plan, case.content, Noise.seeded(seed))
        for seed in range(100)
    )
    errors = np.abs(np.array([flows_of(case, one) for one in noisy]) - exact)
    error = np.quantile(errors, 0.8, axis=0).max()
    assert 0.9 < error / told.within < 1.15
    assert kept.flows < 0.8


def test_what_is_expected_falls_with_epsilon_and_says_where_nothing_is_left() -> None:
    asked = Routing.model_validate(bodies.job("dst_x")["problem"])
    widths = []
    for epsilon in (0.001, 0.1, 1, 10):
        part, plan = planned(asked, epsilon, zones=3, max_total=600)
        widths.append([one.within for one in asked.expected(part, plan, 0.9)])
        assert [one.within for one in asked.expected(part, plan, 0.99)] >= widths[-1]
    assert (np.diff(widths[1:], axis=0) < 0).all()
    assert np.isinf(widths[0][0])
    part, plan = planned(asked, 0.001, zones=3, max_total=600)
    assert "mostly noise" in plan.advice[0]


def test_without_a_public_total_figures_are_absolute_and_of_empty_roads() -> None:
    asked = Routing.model_validate(bodies.job("dst_x")["problem"])
    part, plan = planned(asked, zones=3)
    total, *others = asked.expected(part, plan, 0.9)
    assert (total.quantity, total.size, total.within) == (
        "total_travel_time",
        None,
        np.inf,
    )  # nothing to promise
    for one in others:
        assert one.size is None
        assert 0 < one.within < np.inf
    assert "empty roads" in plan.advice[0]
    # Of zones 1 to 3 on their own links, which take 1 + the distance of their numbers: 2, 3, 2, 2,
    # 3, 2.
    deviation = plan.noise[0].standard_deviation / 5
    assert f"±{1.6449 * deviation * np.sqrt(34):.2g} (90 %;" in plan.advice[0]


def test_paths_of_the_expectation_are_those_of_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Centroids are not passed, of parallel links the cheaper counts, links may take no time."""
    links = [
        (1, 4, 0),
        (4, 1, 0),
        (2, 5, 0),
        (5, 2, 0),
        (3, 5, 0),
        (5, 3, 0),
        (4, 5, 3),
        (4, 5, 2),
        (5, 4, 7),
    ]
    links += [(1, 3, 9), (2, 1, 5), (4, 3, 1)]  # by 2 from 1 on would be shorter from 2 to 4 than 7
    network = RoadNetwork.model_validate(
        {
            "nodes": 5,
            "first_through_node": 4,
            "links": [
                {"tail": tail, "head": head, "free_flow_time": time, "capacity": 10}
                for tail, head, time in links
            ],
        }
    )
    found = roads_of(network, AffineLatency(type="affine"), "system_optimum", 3, 0)
    assert found is not None
    costs = {(1, 2): 2, (1, 3): 1, (2, 1): 5, (2, 3): 0, (3, 1): 7, (3, 2): 0}
    assert found.norm == pytest.approx(np.linalg.norm(list(costs.values())))
    assert found.most == pytest.approx(7)
    assert found.pairs == 2  # out of node 3, and into node 2
    monkeypatch.setattr("discreet.problems.routing.result.MOST_WORK", 3 * (5 + 3) - 1)
    assert (
        roads_of.__wrapped__(network, AffineLatency(type="affine"), "system_optimum", 3, 0) is None
    )


def test_the_gradient_says_what_to_expect_of_shares() -> None:
    asked = Routing.model_validate(
        bodies.job("dst_x", method="gradient", regularization=1000)["problem"]
    )
    part = RoutingPublic(
        unit="request", zones=3, periods=4, period_minutes=60, max_total=150, max_pair=120
    )
    for epsilon, noise in ((10**11, False), (10**7, True)):
        plan = asked.plan(part, Budget(epsilon=epsilon, delta=10**13))
        (one,) = asked.expected(part, plan, 0.9)
        assert np.isinf(one.within) == noise == ("mostly noise" in plan.advice[0])


def test_auto_takes_the_public_bound_of_a_person_and_nothing_else() -> None:
    figures = {"unit": "person", "zones": 3, "periods": 4, "period_minutes": 60, "max_person": 8}
    part = RoutingPublic.model_validate(figures)
    asked = Routing.model_validate(bodies.job("dst_x", max_trips_per_person="auto")["problem"])
    plan = asked.plan(part, Budget(epsilon=10**9, delta=0))
    assert (plan.parameters["max_trips_per_person"], plan.events[0].sensitivity) == (8, 8)
    assert any(
        "max_trips_per_person (auto) is 8" in says and "4 would" in says for says in plan.advice
    )
    with pytest.raises(InvalidInput, match="max_person") as refused:
        asked.plan(part.model_copy(update={"max_person": None}), Budget(epsilon=10**9, delta=0))
    assert refused.value.issues[0].pointer == "/problem/max_trips_per_person"
    rows = [
        {"period": period, "origin": 1, "destination": 2, "count": 4, "person": "a"}
        for period in (0, 1)
    ]
    content = RoutingContent.model_validate({"trips": [*rows, {**rows[0], "person": "b"}]})
    RoutingDataset.read_rows(part, content)
    with pytest.raises(InvalidInput, match="max_person"):
        RoutingDataset.read_rows(part.model_copy(update={"max_person": 7}), content)
