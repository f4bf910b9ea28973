"""Routing by counts: sensitivity, clipping, noise and what the noise costs."""

from __future__ import annotations

import json
import math
import re
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import Plan
from discreet.problems.road_networks.network import RoadNetwork
from discreet.problems.routing.counts import clip, shorten
from discreet.problems.routing.dataset import RoutingContent, RoutingDataset
from discreet.problems.routing.problem import Routing, descended
from discreet.problems.routing.public import RoutingPublic
from discreet.solvers.traffic.traffic_assignment import assign, link_flows_of, total_travel_time
from tests import bodies
from tests.problems.exact import NoNoise

ROOT = Path(__file__).parents[2]
EPSILON = 10**9 // 10


def public(**values: Any) -> RoutingPublic:
    return RoutingPublic.model_validate(
        {"unit": "request", "zones": 3, "periods": 4, "period_minutes": 60, **values}
    )


def problem(**values: Any) -> Routing:
    return Routing.model_validate(bodies.job("dst_x", **values)["problem"])


def read(part: RoutingPublic, rows: list[dict[str, Any]]) -> Content:
    return RoutingDataset.read_rows(part, RoutingContent.model_validate({"trips": rows}))


def exact_counts(
    part: RoutingPublic, content: Content, delta: int = 0, **values: Any
) -> tuple[Any, Any]:
    """Counts before noise, and the event whose sensitivity they must keep."""
    asked = problem(**values)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=delta))
    noise = NoNoise()
    counts = asked.release(part, plan, content, noise)["trips"]
    assert noise.events == list(plan.events)
    return counts.astype(int), plan.events[0]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "period": st.integers(0, 3),
            "origin": st.integers(1, 3),
            "destination": st.integers(1, 3),
            "count": st.integers(0, 9),
        }
    ),
    max_size=12,
)
BOUNDS = {"max_total": 60, "max_pair": 20}
GRADIENT = {"method": "gradient", "regularization": 1.0}
PERSONS = st.dictionaries(st.sampled_from("abcde"), ROWS, min_size=1)


def rows_of(persons: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [{**row, "person": name} for name, rows in persons.items() for row in rows]


@given(ROWS, st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_one_request_moves_one_count_by_one(
    rows: list[dict[str, Any]], period: int, origin: int, destination: int
) -> None:
    more = [*rows, {"period": period, "origin": origin, "destination": destination, "count": 1}]
    before, event = exact_counts(public(), read(public(), rows))
    after, _ = exact_counts(public(), read(public(), more))
    moved = np.abs(after - before)
    assert moved.sum() == (0 if origin == destination else 1)
    assert event.sensitivity == 1


@given(PERSONS, st.integers(1, 8))
@settings(max_examples=60)
def test_one_person_moves_the_counts_by_at_most_the_clip(
    persons: dict[str, list[dict[str, Any]]], most: int
) -> None:
    part = public(unit="person")
    gone = dict(list(persons.items())[1:])
    counts, event = exact_counts(part, read(part, rows_of(persons)), max_trips_per_person=most)
    without, _ = exact_counts(part, read(part, rows_of(gone)), max_trips_per_person=most)
    assert np.abs(counts - without).sum() <= most == event.sensitivity
    assert (counts >= without).all()


@given(PERSONS, st.integers(1, 40), st.integers(1, 12))
@settings(max_examples=100)
def test_one_person_moves_the_counts_by_at_most_the_norm(
    persons: dict[str, list[dict[str, Any]]], most: int, norm: int
) -> None:
    part = public(unit="person")
    gone = dict(list(persons.items())[1:])
    asked = {"max_trips_per_person": most, "max_norm_per_person": norm, "delta": 10**13}
    counts, event = exact_counts(part, read(part, rows_of(persons)), **asked)
    without, _ = exact_counts(part, read(part, rows_of(gone)), **asked)
    moved = (counts - without)[~np.eye(len(counts), dtype=bool)]
    bound = {
        "l1": min(most, math.isqrt(part.zones * (part.zones - 1) * norm * norm)),
        "l2": min(most, norm),
    }
    assert event.sensitivity == bound[event.norm]
    assert moved.sum() <= bound["l1"]
    assert np.sum(moved**2) <= bound["l2"] ** 2
    assert (moved >= 0).all()


def scaled_counts(rows: list[dict[str, Any]], scale: int) -> list[dict[str, Any]]:
    return [{**row, "count": row["count"] / scale} for row in rows]


@given(
    ROWS, st.lists(st.integers(0, 8), min_size=1, max_size=6), st.sampled_from([2, 7, 100, 1000])
)
@settings(max_examples=60)
def test_a_trip_in_parts_moves_the_counts_by_the_scale(
    rows: list[dict[str, Any]], at: list[int], scale: int
) -> None:
    """In one piece or in parts of several pairs and periods."""
    part = public(trip_scale=scale)
    sizes = np.bincount(np.arange(scale) % len(at), minlength=len(at)).tolist()
    more = [
        {"period": cell % 4, "origin": 1 + cell // 3, "destination": 1 + cell % 3, "count": size}
        for cell, size in zip(at, sizes, strict=True)
    ]
    before, event = exact_counts(part, read(part, scaled_counts(rows, scale)))
    after, _ = exact_counts(part, read(part, scaled_counts([*rows, *more], scale)))
    within = sum(row["count"] for row in more if row["origin"] == row["destination"])
    assert np.abs(after - before).sum() == scale - within
    assert event.sensitivity == scale


@given(PERSONS, st.integers(1, 8), st.sampled_from([10, 1000]))
@settings(max_examples=60)
def test_a_person_with_fractions_moves_the_counts_by_the_clip_in_counts(
    persons: dict[str, list[dict[str, Any]]], most: int, scale: int
) -> None:
    part = public(unit="person", trip_scale=scale)
    records = {
        name: [{**row, "count": row["count"] * 137} for row in rows]
        for name, rows in persons.items()
    }
    rows = scaled_counts(rows_of(records), scale)
    left = scaled_counts(rows_of(dict(list(records.items())[1:])), scale)
    for norm, delta in ((None, 0), (most, 10**13), (max(1, most // 2), 10**13)):
        asked = {"max_trips_per_person": most, "delta": delta}
        asked |= {} if norm is None else {"max_norm_per_person": norm}
        counts, event = exact_counts(part, read(part, rows), **asked)
        without, _ = exact_counts(part, read(part, left), **asked)
        moved = (counts - without)[~np.eye(len(counts), dtype=bool)]
        size = float(np.abs(moved).sum()) if event.norm == "l1" else float(np.linalg.norm(moved))
        assert size <= event.sensitivity * (1 + 1e-12)
        assert event.sensitivity >= scale * min(most, norm or most)


def test_with_fractions_everything_is_told_in_trips() -> None:
    """The same trips: the same noise in trips, the same demand without noise; and fractions are
    kept."""
    budget = Budget(epsilon=10**9, delta=0)
    rows = [{"period": period, "origin": 1, "destination": 2, "count": 3.25} for period in range(4)]
    whole, fine = public(), public(trip_scale=100)
    asked = problem()
    plans = [asked.plan(part, budget) for part in (whole, fine)]
    scales = [plan.noise[0].standard_deviation for plan in plans]
    assert scales[1] == pytest.approx(
        scales[0], rel=0.06
    )  # discrete noise of scale 1 has a little less than Laplace
    assert "a trip, in one piece or in parts, is 100 counts" in plans[1].neighbours
    event = plans[1].events[0]
    assert event.deviation() == pytest.approx(100 * scales[1])
    released = asked.release(fine, plans[1], read(fine, rows), NoNoise())
    result = asked.finish(
        fine, plans[1], {"trips": released["trips"].astype(np.int64)}, lambda *_: None
    ).to_json()
    assert result["demand"][0][1] == 3.25
    lower, upper = (
        result["uncertainty"]["values"]["demand"][end][0][1] for end in ("lower", "upper")
    )
    assert upper - 3.25 == pytest.approx(event.reach(0.9) / 400)
    assert lower == pytest.approx(3.25 - event.reach(0.9) / 400)
    assert plans[1].advice[0] == plans[0].advice[0] or "travel time" in plans[1].advice[0]


@pytest.mark.parametrize(
    ("count", "says"), [(0.125, "parts of 1/100"), (-1.0, "must be 0 to"), (1e8, "must be 0 to")]
)
def test_trips_that_are_no_whole_parts_are_refused(count: float, says: str) -> None:
    """In JSON and in tables alike, with the row."""
    part = public(trip_scale=100)
    row = {"period": 0, "origin": 1, "destination": 2, "count": count}
    columns = {
        name: [1, value] if name != "count" else [0.25, value] for name, value in row.items()
    }
    for refuse in (
        lambda: RoutingDataset.read_table(part, pa.table(columns)),
        lambda: RoutingDataset.read_packed(part, {"trips": RoutingDataset.pack("trips", [row])}),
    ):
        with pytest.raises(InvalidInput, match=says) as refused:
            refuse()
        assert refused.value.issues[0].pointer.endswith("/count")
    with pytest.raises(InvalidInput, match="an integer is needed"):
        read(public(), [{**row, "count": 0.5}])


def test_public_bounds_are_in_trips() -> None:
    rows = [{"period": 0, "origin": 1, "destination": 2, "count": 5.01}]
    assert len(read(public(trip_scale=100, max_total=6, max_pair=6), rows)["trips"]) == 1
    for bound in ("max_total", "max_pair"):
        with pytest.raises(InvalidInput, match="more trips"):
            read(public(trip_scale=100, **{bound: 5}), rows)
    with pytest.raises(InvalidInput, match="a person has more trips"):
        read(public(trip_scale=100, unit="person", max_person=5), [{**rows[0], "person": "a"}])


def test_a_record_is_shortened_to_its_norm_and_hardly_below() -> None:
    """500 trips over 20 pairs have the norm 112; of one trip a pair as many stay as the norm has
    room for."""
    pairs = np.array([(a, b) for a in range(1, 6) for b in range(1, 6) if a != b], dtype=np.int64)
    rows = np.concatenate([np.zeros((20, 1), np.int64), pairs, np.full((20, 1), 25)], axis=1)
    assert np.array_equal(shorten(rows, np.array([0, 20]), 112), rows)  # 20·25² = 12,500
    assert sorted(shorten(rows, np.array([0, 20]), 111)[:, 3].tolist()) == [24] * 4 + [25] * 16
    assert np.sum(shorten(rows, np.array([0, 20]), 56)[:, 3] ** 2) > 56**2 - 26
    ones = np.concatenate([rows[:, :3], np.ones((20, 1), np.int64)], axis=1)
    assert shorten(ones, np.array([0, 20]), 3)[:, 3].sum() == 9
    large = np.array([[0, 1, 2, 10**6], [1, 1, 2, 0], [0, 1, 1, 7]])
    assert shorten(large, np.array([0, 3]), 333_333).tolist() == [[0, 1, 2, 333_333]]


def test_the_plan_says_which_bound_suits() -> None:
    part = public(unit="person", zones=5)
    few = {"max_trips_per_person": 500}

    def noise(epsilon: float, delta: float, **asked: int) -> tuple[float, str]:
        made = problem(network=bodies.network(5), **few, **asked).plan(
            part, Privacy(epsilon=epsilon, delta=delta).budget
        )
        return made.noise[0].standard_deviation, " ".join(made.advice)

    plain, says = noise(1, 1e-6)
    assert (
        "there is less noise with a max_norm_per_person of at most 167: 500 trips spread evenly"
        in says
    )
    shorter, says = noise(1, 1e-6, max_norm_per_person=112)
    assert "max_norm_per_person" not in says
    assert shorter == pytest.approx(112 * 4.2247, rel=1e-3)
    assert shorter < 0.68 * plain
    same, says = noise(1, 1e-6, max_norm_per_person=200)
    assert same == plain
    assert (
        "max_norm_per_person 200 does no more than cut trips with this epsilon and delta; there is"
        in says
    )
    assert (
        "with a delta, 1e-06 for instance, there is less noise with a max_norm_per_person of at "
        "most 167" in noise(1, 0)[1]
    )
    says = noise(1, 0, max_norm_per_person=112)[1]
    assert (
        "max_norm_per_person 112 does no more than cut trips with delta 0; with a delta, 1e-06 for "
        "instance" in says
    )
    # Of 20 pairs: it is a bound in l1 too.
    assert "max_norm_per_person" not in noise(1, 0, max_norm_per_person=20)[1]


@pytest.mark.parametrize("delta", [0, 1e-6])
@pytest.mark.parametrize(
    ("most", "bound"), [(2, None), (4, None), (8, None), (12, 4), (20, 6), (60, 20)]
)
def test_the_bound_that_is_advised_is_one_that_helps(
    most: int, bound: int | None, delta: float
) -> None:
    """With it there is less noise, with one more there is not, and it leaves a person all trips, of
    a pair each; where there is no such bound nothing is said."""
    part = public(unit="person", zones=9)
    asked: dict[str, Any] = {"network": bodies.network(9), "max_trips_per_person": most}

    def plan(delta: float, **more: int) -> Plan:
        return problem(**asked, **more).plan(part, Privacy(epsilon=1, delta=delta).budget)

    says = re.search(r"max_norm_per_person of at most (\d+)", " ".join(plan(delta).advice))
    assert (None if says is None else int(says[1])) == bound
    if bound is not None:
        assert bound**2 >= most
        assert plan(1e-6, max_norm_per_person=bound).events[0].norm == "l2"
        assert plan(1e-6, max_norm_per_person=bound + 1).events[0].norm == "l1"


def test_a_record_beyond_64_bits_is_clipped_like_any_other() -> None:
    """Five million rows of a million trips each fit into an upload; 2e6 times their sum does not
    fit into 64 bits."""
    trips = np.array([[0, 1, 2, 2 * 10**13], [0, 2, 1, 10**13], [1, 1, 2, 10**13]], dtype=np.int64)
    clipped = clip(trips, np.array([0, 3]), 10**6)[:, 3]
    assert clipped.tolist() == [500_000, 250_000, 250_000]


def test_names_that_differ_in_a_zero_character_are_two_persons() -> None:
    part = public(unit="person")
    row = {"period": 0, "origin": 1, "destination": 2, "count": 3}
    content = read(part, [{**row, "person": "a"}, {**row, "person": "a\0"}])
    assert content["person_start"].tolist() == [0, 1, 2]


def test_a_gradient_that_could_come_to_the_limit_of_time_is_refused() -> None:
    links = [
        {"tail": a, "head": a % 100 + 1, "free_flow_time": 1.0, "capacity": 100}
        for a in range(1, 101)
    ]
    part = public(zones=100, periods=100_000, **BOUNDS)
    asked = problem(**GRADIENT, network={"nodes": 100, "links": links})
    with pytest.raises(InvalidInput, match="could take") as refused:
        asked.plan(part, Budget(epsilon=EPSILON, delta=10**13))
    assert refused.value.issues[0].pointer == "/problem/method"


@pytest.mark.parametrize("time", [1.0, 1e9])
def test_steps_of_the_gradient_stay_near_the_routing(time: float) -> None:
    """Where latencies are so long that one step goes 1e9 times beyond any routing, a projection
    might fail, which would tell about the trips: such a problem is refused from public figures."""
    links = [
        {"tail": tail, "head": head, "free_flow_time": time, "capacity": 100}
        for tail in (1, 2, 3)
        for head in (1, 2, 3)
        if tail != head
    ]
    part = public(**BOUNDS)
    asked = problem(
        **GRADIENT, network={"nodes": 3, "links": links}, latency={"type": "affine", "factor": 0}
    )
    if time == 1:
        assert asked.plan(part, Budget(epsilon=EPSILON, delta=10**13)).price
        return
    with pytest.raises(InvalidInput, match="larger regularization") as refused:
        asked.plan(part, Budget(epsilon=EPSILON, delta=10**13))
    assert refused.value.issues[0].pointer == "/problem/regularization"


def test_pairs_without_trips_get_noise() -> None:
    """Of 20 releases of nothing each pair is beyond 0 in some; noise of scale 10 is 0 with
    probability .05."""
    asked, part, noise = problem(), public(), Noise.seeded(6)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    nothing = read(part, [])
    released = np.array([asked.release(part, plan, nothing, noise)["trips"] for _ in range(20)])
    assert ((released != 0).any(axis=0) == ~np.eye(3, dtype=bool)).all()


@given(st.lists(st.integers(0, 50), min_size=1, max_size=10), st.integers(1, 60))
def test_clipping_keeps_exactly_the_clip_spread_over_the_record(
    counts: list[int], most: int
) -> None:
    trips = np.array([[0, 1, 2, count] for count in counts])
    clipped = clip(trips, np.array([0, len(counts)]), most)[:, 3]
    total = sum(counts)
    assert clipped.sum() == min(total, most)
    assert (clipped <= counts).all()
    assert (clipped >= 0).all()
    if total > most:
        expected = np.array(counts) * most / total
        assert np.abs(clipped - expected).max() < 1


@given(PERSONS, st.randoms())
@settings(max_examples=60)
def test_order_names_and_splits_do_not_matter(
    persons: dict[str, list[dict[str, Any]]], random: Any
) -> None:
    part = public(unit="person")
    rows = rows_of(persons)
    names = list("vwxyz")
    random.shuffle(names)
    renamed = [{**row, "person": names["abcde".index(row["person"])]} for row in rows]
    split = [
        {**row, "count": part_}
        for row in renamed
        for part_ in (row["count"] // 2, row["count"] - row["count"] // 2)
    ]
    random.shuffle(split)
    first, second = (b"".join(canonical_bytes(read(part, each))) for each in (rows, split))
    assert first == second
    table = pa.Table.from_pylist(
        split or [],
        schema=pa.schema(
            [
                ("period", pa.int8()),
                ("origin", pa.float64()),
                ("destination", pa.uint64()),
                ("count", pa.int32()),
                ("person", pa.string()),
            ]
        ),
    )
    assert b"".join(canonical_bytes(RoutingDataset.read_table(part, table))) == first


def test_release_is_total_on_the_largest_records() -> None:
    part = public(unit="person", periods=100_000)
    rows = [
        {"period": period, "origin": 1, "destination": 2, "count": 10**6, "person": "one"}
        for period in range(5000)
    ]
    counts, _ = exact_counts(part, read(part, rows), max_trips_per_person=10**6)
    assert counts.sum() == 10**6


def test_empty_data_give_a_result() -> None:
    asked = problem()
    plan = asked.plan(public(), Budget(epsilon=EPSILON, delta=0))
    content = read(public(), [])
    for seed in range(20):
        released = asked.release(public(), plan, content, Noise.seeded(seed))
        result = asked.finish(public(), plan, released, lambda *_: None)
        body = result.to_json()
        assert len(body["policy"]) == 6
        assert body["total_travel_time"] >= 0
    nothing = asked.finish(
        public(), plan, {"trips": np.full((3, 3), -5)}, lambda *_: None
    ).to_json()
    assert nothing["total_travel_time"] == 0
    assert [len(pair["paths"]) for pair in nothing["policy"]] == [1] * 6


def test_the_noise_is_that_of_the_plan() -> None:
    """The root mean square of 24,000 draws is within 1 % of its mean (one deviation); half the
    noise is 50 % off."""
    asked = problem()
    plan = asked.plan(public(), Budget(epsilon=EPSILON, delta=0))
    content = read(public(), [{"period": 0, "origin": 1, "destination": 2, "count": 500}])
    off_diagonal = ~np.eye(3, dtype=bool)
    noise = Noise.seeded(11)
    draws = np.array(
        [asked.release(public(), plan, content, noise)["trips"][off_diagonal] for _ in range(4000)]
    )
    draws[:, 0] -= 500
    assert np.sqrt(np.mean(draws.astype(float) ** 2)) == pytest.approx(
        plan.noise[0].standard_deviation, rel=0.08
    )
    assert np.abs(draws.mean(axis=0)).max() < 1.5


def test_discrete_gaussian_where_it_has_less_variance() -> None:
    asked = problem()
    gaussian = asked.plan(public(), Budget(epsilon=20 * 10**9, delta=10**17))
    laplace = asked.plan(public(), Budget(epsilon=EPSILON, delta=10**13))
    assert laplace.events[0].mechanism == "discrete_laplace"
    assert laplace.total.delta == 0
    assert gaussian.total.epsilon <= 20 * 10**9


@pytest.mark.parametrize(
    ("part", "values", "pointer"),
    [
        ({"unit": "person"}, {}, "/problem/max_trips_per_person"),
        ({}, {"max_trips_per_person": 2}, "/problem/max_trips_per_person"),
        ({"zones": 5}, {}, "/problem/network/nodes"),
        ({}, {"regularization": 1.0}, "/problem/regularization"),
        ({}, {"method": "gradient", "regularization": 1.0}, "/problem/method"),
        ({"unit": "person"}, {"method": "gradient", "regularization": 1.0}, "/problem/method"),
        (BOUNDS, {"method": "gradient"}, "/problem/regularization"),
        (BOUNDS, GRADIENT | {"latency": {"type": "bpr"}}, "/problem/latency"),
        (BOUNDS, GRADIENT | {"objective": "user_equilibrium"}, "/problem/objective"),
        (BOUNDS, GRADIENT, "/privacy/delta"),
        ({"zones": 1}, {}, "/problem/dataset"),
    ],
)
def test_plans_are_refused_by_field(
    part: dict[str, Any], values: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        problem(**values).plan(public(**part), Budget(epsilon=EPSILON, delta=0))
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_links_have_their_own_latency_and_fixed_cost() -> None:
    """Of 6 trips from 1 to 2: times 10 + y of a link, 2 + y + 5 of one with a toll: they level at
    11.5."""
    links = [
        {"tail": 1, "head": 2, "free_flow_time": 10, "capacity": 10},
        {
            "tail": 1,
            "head": 2,
            "free_flow_time": 2,
            "capacity": 3,
            "b": 1.5,
            "power": 1,
            "fixed_cost": 5,
        },
        {"tail": 2, "head": 1, "free_flow_time": 1, "capacity": 1, "b": 3, "power": 0},
    ]
    part, values = public(zones=2, periods=1), {"network": {"nodes": 2, "links": links}}
    asked = problem(
        **values, latency={"type": "bpr", "b": 1, "power": 1}, objective="user_equilibrium"
    )
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    trips = np.array([[0, 6], [2, 0]])
    shown = asked.finish(part, plan, {"trips": trips}, lambda *_: None).to_json()
    assert shown["link_flows"] == pytest.approx([1.5, 4.5, 2])
    assert shown["total_travel_time"] == pytest.approx(6 * 11.5 + 2 * 4)
    for wrong, pointer in (
        ({"power": 0.5}, "/problem/network/links/0/power"),
        ({"power": 4}, "/problem/latency"),
    ):
        bent = {"network": {"nodes": 2, "links": [links[0] | wrong, *links[1:]]}}
        with pytest.raises(InvalidInput) as refused:
            problem(**bent, **GRADIENT).plan(
                public(zones=2, **BOUNDS), Budget(epsilon=EPSILON, delta=10**13)
            )
        assert pointer in {issue.pointer for issue in refused.value.issues}
    problem(**values, **GRADIENT).plan(
        public(zones=2, **BOUNDS), Budget(epsilon=EPSILON, delta=10**13)
    )


def test_sioux_falls_costs_under_a_millionth_at_epsilon_a_tenth() -> None:
    """Median over 20 releases of the extra travel time on the true mean demand: must be under 1e-4
    %."""
    body = json.loads((ROOT / "examples/routing-sioux-falls.json").read_text())
    spec = body["problem"].pop("dataset")
    part = RoutingPublic.model_validate(spec["public"])
    content = read(part, spec["content"]["trips"])
    asked = Routing.model_validate({**body["problem"], "dataset": "dst_x"})
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    assert (plan.events[0].sensitivity, plan.events[0].scale) == (1, 10)
    network, latency = asked.network.arrays(part.zones), asked.latency.solver_form()
    exact, _ = _sums(part, content)
    true_demand = exact / part.periods
    optimum = assign(network, latency, true_demand, "system_optimum").total_travel_time
    extra = []
    for seed in range(20):
        released = asked.release(part, plan, content, Noise.seeded(seed))["trips"] / part.periods
        demand = np.maximum(released, 0)
        np.fill_diagonal(demand, 0)
        policy = assign(network, latency, demand, "system_optimum").paths
        extra.append(
            total_travel_time(network, latency, link_flows_of(policy, true_demand)) / optimum - 1
        )
    assert 0 <= np.median(extra) < 1e-6
    shown = asked.finish(part, plan, {"trips": exact}, lambda *_: None).to_json()
    assert shown["total_travel_time"] == pytest.approx(optimum, rel=1e-9)
    assert shown["relative_gap"] <= 1e-10


def _sums(part: RoutingPublic, content: Content) -> tuple[Any, None]:
    sums = np.zeros((part.zones, part.zones))
    np.add.at(
        sums, (content["trips"][:, 1] - 1, content["trips"][:, 2] - 1), content["trips"][:, 3]
    )
    np.fill_diagonal(sums, 0)
    return sums, None


@given(ROWS, st.integers(0, 3), st.integers(1, 3), st.integers(1, 3))
def test_one_request_moves_the_routing_by_no_more_than_the_price_says(
    rows: list[dict[str, Any]], period: int, origin: int, destination: int
) -> None:
    part, asked = public(max_total=150, max_pair=120), problem(**GRADIENT)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=10**13))
    more = [*rows, {"period": period, "origin": origin, "destination": destination, "count": 1}]
    before, after = (descended(asked, part, read(part, data)) for data in (rows, more))
    assert (
        np.linalg.norm(after - before)
        <= plan.events[0].sensitivity
        == plan.parameters["sensitivity"]
    )


def test_the_gradient_method_gives_a_policy_for_every_pair() -> None:
    part, asked = public(max_total=150, max_pair=120), problem(**GRADIENT)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=10**13))
    content = read(part, [{"period": 0, "origin": 1, "destination": 2, "count": 5}])
    released = asked.release(part, plan, content, Noise.seeded(1))
    assert set(released) == {"unit_flows"}
    shown = asked.finish(part, plan, released, lambda *_: None).to_json()
    assert len(shown["policy"]) == 6
    assert {"link_flows", "demand", "total_travel_time"}.isdisjoint(
        shown
    )  # they would tell of the trips
    truth = asked.diagnose(part, plan, content, Noise.seeded(1))
    shown = asked.finish(part, plan, {**released, **truth}, lambda *_: None).to_json()
    assert shown["true_total_travel_time"] >= shown["true_best_total_travel_time"] > 0


@pytest.mark.parametrize(
    ("bounds", "rows"),
    [
        ({"max_total": 9}, [(0, 1, 2, 5), (0, 2, 3, 5)]),
        ({"max_pair": 9}, [(0, 1, 2, 5), (0, 1, 2, 5)]),
    ],
)
def test_content_keeps_the_public_bounds(
    bounds: dict[str, int], rows: list[tuple[int, ...]]
) -> None:
    trips = [
        dict(zip(("period", "origin", "destination", "count"), row, strict=True)) for row in rows
    ]
    with pytest.raises(InvalidInput, match=next(iter(bounds))):
        read(public(**bounds), trips)
    assert len(read(public(**dict.fromkeys(bounds, 10)), trips)["trips"])


@pytest.mark.parametrize("method", [{}, GRADIENT])
def test_the_plan_says_of_which_periods_capacities_are(method: dict[str, Any]) -> None:
    part = public(**BOUNDS)
    budget = Budget(epsilon=EPSILON, delta=10**13 if method else 0)
    job = bodies.job("dst_x", **method)["problem"]
    said = Routing.model_validate(job).plan(part, budget).model
    assert "capacities per 60 minutes (not stated by the network)" in said
    job["network"]["period_minutes"] = 60
    said = Routing.model_validate(job).plan(part, budget).model
    assert "capacities per 60 minutes (stated by the network)" in said
    job["network"]["period_minutes"] = 120
    with pytest.raises(
        InvalidInput, match="of periods of 120 minutes, the dataset's periods have 60"
    ) as refused:
        Routing.model_validate(job).plan(part, budget)
    assert refused.value.issues[0].pointer == "/problem/network/period_minutes"


def test_large_fields_become_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.problems.results.MAX_JSON_NUMBERS", 8)
    asked = problem()
    plan = asked.plan(public(), Budget(epsilon=EPSILON, delta=0))
    result = asked.finish(public(), plan, {"trips": np.full((3, 3), 400)}, lambda *_: None)
    body, tables = result.to_json(), result.tables()
    assert body["tables"] == ["demand", "link_flows", "policy"] == sorted(tables)
    assert "policy" not in body
    policy = tables["policy"]
    assert policy.column_names == ["origin", "destination", "share", "links"]
    pairs = policy.group_by(["origin", "destination"]).aggregate([("share", "sum")])
    assert pairs.num_rows == 6
    assert np.allclose(pairs["share_sum"], 1)
    assert tables["demand"].num_rows == 9
    assert tables["link_flows"].num_rows == 12


def test_refusing_zones_that_nothing_joins_takes_no_memory() -> None:
    """1,000 zones have a million pairs, and 3,000 nine: a body of a hundred bytes would have had
    the API list them."""
    roads = RoadNetwork(nodes=1000, links=())
    tracemalloc.start()
    found = roads.issues(1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert 0 < len(found) <= 20
    assert peak < 8 << 20
