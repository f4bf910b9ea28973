"""Demand response: sensitivities, noise, floors, what is refused, and what survives the noise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.dr_ensemble import estimates
from discreet.problems.dr_ensemble.dataset import (
    DrEnsembleContent,
    DrEnsembleDataset,
    state_sequences,
    tariff_utility,
)
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.dr_ensemble.result import ALL_HOURS
from discreet.problems.numbers import Budget
from discreet.solvers.control.shrinkage import shrink
from tests.conftest import first_of
from tests.problems.exact import NoNoise

STATES = 4
EPSILON, DELTA = 10**9, 10**13


def public(**values: Any) -> DrEnsemblePublic:
    return DrEnsemblePublic.model_validate({"unit": "participant", "states": STATES, **values})


def problem(**values: Any) -> DrEnsemble:
    return DrEnsemble.model_validate(
        {
            "kind": "dr_ensemble",
            "dataset": "dst_x",
            "power": [0, 1, 2, 3],
            "price": [0.2, 0.2, 1, 1, 0.2],
            "discomfort_weight": 2,
            "initial": [0.25] * STATES,
            **values,
        }
    )


def read(part: DrEnsemblePublic, **content: Any) -> Content:
    return DrEnsembleDataset.read_rows(part, DrEnsembleContent.model_validate(content))


def matrix(*rows: list[float]) -> dict[str, Any]:
    return {"unit": "row", "states": len(rows), "min_probability": 0.1, "row_change": 0.03}


TRAJECTORY = st.lists(st.integers(0, STATES - 1), min_size=2, max_size=9)
OTHERS = st.lists(TRAJECTORY, min_size=2, max_size=5)


def sums(
    part: DrEnsemblePublic, trajectories: list[list[int]], delta: int = 0, **values: Any
) -> tuple[Any, Any]:
    """Counts before noise and the event that their sensitivity belongs to."""
    asked = problem(**values)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=delta))
    noise = NoNoise()
    counts = asked.release(part, plan, read(part, trajectories=trajectories), noise)["counts"]
    assert noise.events == list(plan.events)
    return counts, plan.events[0]


@given(OTHERS, TRAJECTORY)
def test_one_participant_added_moves_the_counts_by_the_sensitivity(
    others: list[list[int]], more: list[int]
) -> None:
    before, event = sums(public(), others)
    after, _ = sums(public(), [*others, more])
    assert (event.mechanism, event.sensitivity) == ("discrete_laplace", 1 << 20)
    assert (after >= before).all()
    assert event.sensitivity - STATES**2 <= (after - before).sum() <= event.sensitivity


@given(OTHERS, TRAJECTORY, TRAJECTORY, st.sampled_from([None, 0.7, 0.2]))
def test_one_participant_replaced_moves_the_counts_by_at_most_the_sensitivity(
    others: list[list[int]], one: list[int], another: list[int], clip: float | None
) -> None:
    part = public(participants=len(others) + 1)
    for delta in (0, DELTA):
        first, event = sums(part, [*others, one], delta, clip=clip)
        second, _ = sums(part, [*others, another], delta, clip=clip)
        moved = (first - second).astype(float)
        norm = (
            np.abs(moved).sum() if event.mechanism == "discrete_laplace" else np.linalg.norm(moved)
        )
        assert norm <= event.sensitivity
    assert event.mechanism == ("discrete_gaussian" if clip == 0.2 else "discrete_laplace")


@given(st.lists(st.lists(st.integers(0, 3), min_size=6, max_size=6), min_size=2, max_size=6))
def test_records_of_one_public_length_are_counted_exactly(trajectories: list[list[int]]) -> None:
    counts, event = sums(public(steps=6), trajectories)
    expected = np.zeros((STATES, STATES))
    for each in trajectories:
        for origin, to in itertools.pairwise(each):
            expected[origin, to] += 1
    assert (counts == expected.ravel()).all()
    assert event.sensitivity == 5


@given(OTHERS, st.randoms())
@settings(max_examples=50)
def test_neither_order_nor_format_matters(trajectories: list[list[int]], random: Any) -> None:
    shuffled = list(trajectories)
    random.shuffle(shuffled)
    rows = [
        {"participant": f"load {name}", "step": step, "state": state}
        for name, each in enumerate(shuffled)
        for step, state in enumerate(each)
    ]
    random.shuffle(rows)
    table = DrEnsembleDataset.read_table(public(), pa.Table.from_pylist(rows))
    first = b"".join(canonical_bytes(read(public(), trajectories=trajectories)))
    assert b"".join(canonical_bytes(table)) == first


def test_a_matrix_is_the_same_from_rows_and_table() -> None:
    part = DrEnsemblePublic.model_validate(matrix([0.0], [0.0]) | {"states": 2})
    rows = [[0.4, 0.6], [0.7, 0.3]]
    table = pa.table(
        {"from": [1, 0, 1, 0], "to": [1, 1, 0, 0], "probability": [0.3, 0.6, 0.7, 0.4]}
    )
    assert (read(part, transitions=rows)["transitions"] == np.array(rows)).all()
    assert (DrEnsembleDataset.read_table(part, table)["transitions"] == np.array(rows)).all()


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"unit": "row"}, "needs row_change"),
        ({"row_change": 0.03}, "min_probability"),
        ({"row_change": 0.2, "min_probability": 0.1}, "less than twice"),
        ({"min_probability": 0.3}, "exceeds 1"),
        ({"support": [[0, 0], [0, 0], [1, 0], [2, 0], [3, 0]]}, "twice"),
        ({"support": [[0, 0], [1, 0], [2, 0]]}, "every state"),
        ({"support": [[0, 4], [1, 0], [2, 0], [3, 0]]}, "0 to 3"),
        ({"participants": 1}, "2"),
        ({"row_change": 0.03, "min_probability": 0.1, "steps": 5}, "trajectories"),
    ],
)
def test_public_parts_that_contradict_themselves_are_refused(
    values: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        public(**values)


SUPPORT = [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize(
    ("part", "content", "pointer"),
    [
        ({}, {"trajectories": [[0, 1], [4, 0]]}, "/content/trajectories/1/0"),
        ({}, {"trajectories": [[0, 1], []]}, "/content/trajectories/1"),
        ({}, {"trajectories": [[0, 1], [2]]}, "/content/trajectories/1"),
        ({}, {"trajectories": [[0, 1, 2]]}, "/content/trajectories"),
        ({"participants": 3}, {"trajectories": [[0, 1], [1, 2]]}, "/content/trajectories"),
        ({"steps": 3}, {"trajectories": [[0, 1, 1], [1, 2]]}, "/content/trajectories/1"),
        (
            {"support": SUPPORT},
            {"trajectories": [[0, 1, 0], [0, 1, 2]]},
            "/content/trajectories/1/2",
        ),
        ({}, {"transitions": [[1, 0, 0, 0]] * 4}, "/content/transitions"),
        (matrix([], []), {"trajectories": [[0, 1], [1, 1]]}, "/content/trajectories"),
        (matrix([], []), {"transitions": [[0.5, 0.5], [0.4, 0.7]]}, "/content/transitions/1"),
        (matrix([], []), {"transitions": [[0.5, 0.5], [0.05, 0.95]]}, "/content/transitions/1/0"),
        (matrix([], []), {"transitions": [[0.5, 0.5]]}, "/content/transitions"),
        (matrix([], []), {"transitions": [[0.5, 0.5], [1.0]]}, "/content/transitions/1"),
        (
            {**matrix([], []), "support": [[0, 0], [0, 1], [1, 1]]},
            {"transitions": [[0.5, 0.5], [0.5, 0.5]]},
            "/content/transitions/1/0",
        ),
    ],
)
def test_content_is_refused_by_place(
    part: dict[str, Any], content: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(public(**part), **content)
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_tables_are_refused_by_row() -> None:
    rows = [{"participant": 1, "step": 0, "state": 0}, {"participant": 1, "step": 2, "state": 1}]
    with pytest.raises(InvalidInput) as refused:
        DrEnsembleDataset.read_table(public(), pa.Table.from_pylist(rows))
    assert refused.value.issues[0].pointer == "/content/1/step"
    with pytest.raises(InvalidInput, match="participant"):
        DrEnsembleDataset.read_table(public(), pa.table({"step": [0, 1], "state": [0, 1]}))


@pytest.mark.parametrize(
    ("part", "values", "pointer"),
    [
        ({}, {"power": [1, 2]}, "/problem/power"),
        ({}, {"initial": [0.5, 0.5]}, "/problem/initial"),
        ({}, {"initial": [0.5, 0.5, 0.5, 0.5]}, "/problem/initial"),
        ({}, {"price": None}, "/problem/price"),
        ({}, {"utility": [[0] * 4] * 5}, "/problem/price"),
        ({}, {"price": None, "utility": [[0] * 4, [0] * 3]}, "/problem/utility/1"),
        ({}, {"method": "dirichlet"}, "/problem/method"),
        ({}, {"policy": "taylor"}, "/problem/concentration"),
        ({}, {"samples": 5}, "/problem/samples"),
        ({}, {"prior": 1}, "/problem/prior"),
        ({**matrix(), "states": 4, "unit": "row"}, {"clip": 0.5}, "/problem/clip"),
        ({**matrix(), "states": 4}, {}, "/privacy/delta"),
        ({"states": 2000}, {"price": [1] * 9}, "/problem/price"),
    ],
)
def test_plans_are_refused_by_field(
    part: dict[str, Any], values: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        problem(**values).plan(public(**part), Budget(epsilon=EPSILON, delta=0))
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_small_epsilons_of_a_row_need_a_prior() -> None:
    part = public(**{**matrix(), "states": 4})
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    with pytest.raises(InvalidInput, match="prior") as refused:
        problem().plan(part, budget)
    assert refused.value.issues[0].pointer == "/privacy/epsilon"
    plan = problem(prior=10).plan(part, budget)
    assert plan.total.epsilon <= budget.epsilon


class RowsKept(Noise):
    """Keeps the parameters of the rows that are drawn."""

    def dirichlet(self, alpha: Any) -> Any:
        self.parameters = np.array(alpha)
        return super().dirichlet(alpha)


def test_the_prior_that_is_charged_is_added() -> None:
    part = public(**{**matrix(), "states": 2})
    asked = problem(prior=10, power=[0, 1], initial=[0.5, 0.5])
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    event: Any = plan.events[0]
    assert event.offset == 10
    noise = RowsKept(np.random.default_rng(1).bytes)
    asked.release(part, plan, read(part, transitions=[[0.4, 0.6], [0.7, 0.3]]), noise)
    assert noise.parameters == pytest.approx(event.scale * np.array([0.7, 0.3]) + 10)


def test_the_concentration_is_that_of_the_exact_curve() -> None:
    """At epsilon 2.1643 and delta 1e-5, floor .1 and h = .03 allow k = 50 (vectors.json) for one
    row."""
    part = public(**{**matrix(), "states": 4})
    plan = problem().plan(part, Budget(epsilon=2_164_264_267, delta=DELTA))
    assert plan.events[0].scale == pytest.approx(50, rel=1e-4)
    assert plan.parameters["concentration"] == plan.events[0].scale
    whole = problem().plan(
        part.model_copy(update={"unit": "participant"}), Budget(epsilon=8 * EPSILON, delta=DELTA)
    )
    assert whole.events[0].count == STATES


def test_rows_of_one_transition_are_not_drawn() -> None:
    part = public(**{**matrix(), "states": 4, "unit": "participant", "support": SUPPORT})
    asked = problem(prior=20)
    plan = asked.plan(part, Budget(epsilon=4 * EPSILON, delta=DELTA))
    assert plan.events[0].count == 2
    rows = [[0.3, 0.7, 0, 0], [0.2, 0.8, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    drawn = asked.release(part, plan, read(part, transitions=rows), Noise.seeded(1))["transitions"]
    released = np.zeros((4, 4))
    released[part.mask()] = drawn
    assert (released[2:] == np.array(rows)[2:]).all()
    assert released.sum(axis=1) == pytest.approx(1)


def test_the_noise_is_that_of_the_plan() -> None:
    """Root mean squares of 16,000 draws; half the noise would be 50 % off, one deviation is 1 %."""
    part = public(participants=2, steps=3)
    asked = problem()
    content = read(part, trajectories=[[0, 1, 2], [3, 3, 3]])
    for delta, epsilon in ((0, EPSILON), (DELTA, 20 * EPSILON)):
        plan = asked.plan(part, Budget(epsilon=epsilon, delta=delta))
        noise = Noise.seeded(5)
        draws = np.array(
            [asked.release(part, plan, content, noise)["counts"] for _ in range(1000)], dtype=float
        )
        exact = asked.release(part, plan, content, NoNoise())["counts"]
        spread = np.sqrt(np.mean((draws - exact) ** 2)) / plan.parameters["grid"]
        assert spread == pytest.approx(plan.noise[0].standard_deviation, rel=0.08)


@given(
    st.lists(st.integers(-40, 40), min_size=16, max_size=16), st.sampled_from([None, 0.01, 0.25])
)
@settings(max_examples=60)
def test_any_release_gives_a_floored_matrix(counts: list[int], floor: float | None) -> None:
    part = public(participants=3, steps=6, min_probability=floor)
    asked = problem()
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    body = asked.finish(part, plan, {"counts": np.array(counts)}, lambda *_: None).to_json()
    transitions = np.array(body["transitions"])
    assert transitions.sum(axis=1) == pytest.approx(1, abs=1e-12)
    assert transitions.min() >= (floor or 0.0) * (1 - 1e-9)
    assert np.array(body["policy"]).sum(axis=2) == pytest.approx(1, abs=1e-12)
    assert len(body["expected_power"]) == len(body["default_power"]) == 5
    assert len(body["cost_to_go"]) == STATES
    assert "cost_of_privacy" not in body


@pytest.mark.parametrize("kind", ["exact", "taylor", "digamma", "average"])
def test_simulations_show_the_cost_of_privacy(kind: str) -> None:
    part = public(participants=40, steps=30)
    rng = np.random.default_rng(4)
    content = read(part, trajectories=rng.integers(0, STATES, (40, 30)).tolist())
    asked = problem(policy=kind, concentration=None if kind == "exact" else 50)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    released = asked.release(part, plan, content, Noise.seeded(1)) | asked.diagnose(
        part, plan, content, Noise.seeded(1)
    )
    body = asked.finish(part, plan, released, lambda *_: None).to_json()
    cost = np.array(body["cost_of_privacy"])
    assert cost.shape == (5, STATES)
    assert cost.min() >= 0
    assert cost[0].max() > 0
    assert cost[-1] == pytest.approx(0)
    exact = asked.release(part, plan, content, NoNoise()) | asked.diagnose(
        part, plan, content, Noise.seeded(1)
    )
    free = asked.finish(part, plan, exact, lambda *_: None).to_json()
    if kind == "exact":
        assert np.abs(free["cost_of_privacy"]).max() < 0.2 * cost.max()
    assert free["default_power"] == pytest.approx(free["true_default_power"], rel=0.05)


def test_control_lowers_the_load_while_power_is_dear() -> None:
    part = public(participants=100, steps=50)
    rng = np.random.default_rng(7)
    content = read(part, trajectories=rng.integers(0, STATES, (100, 50)).tolist())
    asked = problem()
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    body = asked.finish(
        part, plan, asked.release(part, plan, content, Noise.seeded(2)), lambda *_: None
    ).to_json()
    saved = np.array(body["default_power"]) - np.array(body["expected_power"])
    assert saved[2:4].min() > 0.2
    assert saved[0] == 0


def test_power_becomes_states_and_tariffs_utilities() -> None:
    assert state_sequences([[-1, 0, 0.9, 1, 5, 9]], [0, 1, 5, 6]) == [[0, 0, 0, 1, 2, 2]]
    assert (tariff_utility([2, 3], [1, 10]) == -np.array([[2, 20], [3, 30]])).all()
    for power, edges in (([[1, np.nan]], [0, 1, 2]), ([1, 2], [0, 1, 2]), ([[1]], [0, 2, 1])):
        with pytest.raises(InvalidInput):
            state_sequences(power, edges)


def chained(
    participants: int = 300, steps: int = 30, states: int = STATES, seed: int = 11
) -> list[list[int]]:
    """Loads that mostly stay, or move by one state; they are hardly ever in the last."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, states - 1, participants)
    rows = [state]
    for _ in range(steps - 1):
        state = np.clip(state + rng.choice([-1, 0, 0, 0, 1], participants), 0, states - 2)
        rows.append(state := np.where(rng.random(participants) < 0.002, states - 1, state))
    found: list[list[int]] = np.array(rows).T.tolist()
    return found


def finished(epsilon: float, seed: int, steps: int | None = 30, **values: Any) -> dict[str, Any]:
    """The result of a simulation with these loads."""
    part = public(participants=300, steps=steps)
    asked = problem(**values)
    plan = asked.plan(part, Budget(epsilon=round(epsilon * EPSILON), delta=0))
    content = read(part, trajectories=chained())
    released = asked.release(part, plan, content, Noise.seeded(seed))
    released |= asked.diagnose(part, plan, content, Noise.seeded(seed))
    body: dict[str, Any] = asked.finish(part, plan, released, lambda *_: None).to_json()
    return body


@pytest.mark.parametrize(
    "values", first_of([{}, {"policy": "taylor", "concentration": 30}, {"initial": "released"}])
)
def test_intervals_hold_what_the_true_loads_do(values: dict[str, Any]) -> None:
    """30 seeded releases, .90 nominal; a posterior of half the noise is below .8. No load begins in
    the last state."""
    held: dict[str, list[float]] = {}
    for seed in range(30):
        body = finished(1.0, seed, **{"initial": [0.3, 0.3, 0.4, 0], **values})
        for name, true_name in (
            ("expected_power", "achieved_power"),
            ("default_power", "true_default_power"),
            ("saving", "achieved_saving"),
        ):
            interval = body["uncertainty"]["values"].get(name)
            if interval is not None:
                lower, upper, true = (
                    np.array(x) for x in (interval["lower"], interval["upper"], body[true_name])
                )
                held.setdefault(name, []).append(
                    float(((lower - 1e-9 <= true) & (true <= upper + 1e-9)).mean())
                )
                answer = np.array(body[name])
                assert (lower <= answer).all()
                assert (answer <= upper).all()
    for name, each in held.items():
        assert len(each) > 20, name
        assert np.mean(each) >= 0.8, name


def test_a_plan_says_what_the_price_is_by_the_kwh_and_how_far_middles_of_bins_may_be() -> None:
    meters = {"start": "2026-01-01T00:00:00Z", "interval_seconds": 900}
    part = {
        "unit": "participant",
        "participants": 300,
        "states": 3,
        "edges": [0, 1, 2, 9],
        "steps": 96,
    }
    priced: dict[str, Any] = {"power": None, "price": [0.075, 0.15], "initial": [1, 0, 0]}
    advice = planned(1, part={**part, "meters": meters}, **priced).advice
    says = (
        "`price` is taken per kW and step of 15 minutes: the highest, 0.15, is 0.6 a kWh; "
        "saving and costs are in"
    )
    assert any(one.startswith(says) for one in advice)
    assert ALL_HOURS in advice
    daily = {**part, "meters": meters, "day": {"steps": 96, "blocks": [0, 24]}}
    assert ALL_HOURS not in planned(1, part=daily, **priced).advice
    assert any("so a load may be up to 3.5 kW off at any epsilon" in one for one in advice)
    hourly = planned(
        1, part={**part, "meters": {**meters, "interval_seconds": 3600}}, **priced
    ).advice
    assert any(
        "per kW and step of an hour, which is a kWh: the highest is 0.15 a kWh" in one
        for one in hourly
    )
    for quiet in (
        planned(1, part=part, **{**priced, "power": [0.5, 1.5, 5]}).advice,
        planned(
            1,
            part={**part, "states": 20, "edges": list(range(21))},
            **{**priced, "initial": "released"},
        ).advice,
    ):
        assert not any("`price` is" in one or "middle of its bin" in one for one in quiet)


def test_an_example_for_meters_spans_their_day() -> None:
    """A price for each quarter of an hour, of the part of a kWh that it is."""
    meters = {"start": "2026-01-01T00:00:00Z", "interval_seconds": 900}
    read_every = DrEnsemblePublic(
        unit="participant", states=2, edges=[0, 1, 2], steps=192, meters=meters
    )
    price = DrEnsemble.example_for(read_every)["problem"]["price"]
    assert len(price) == 96
    assert set(price) == {0.025, 0.15}
    blocks = DrEnsemblePublic(
        unit="participant", states=2, steps=96, day={"steps": 48, "blocks": [0, 20]}
    )
    assert len(DrEnsemble.example_for(blocks)["problem"]["price"]) == 48
    few = DrEnsemblePublic(unit="participant", states=2, steps=10)
    assert len(DrEnsemble.example_for(few)["problem"]["price"]) == 10


def test_without_uncertainty_the_answer_is_the_same() -> None:
    told = finished(1.0, 3, initial=[0.3, 0.3, 0.4, 0])
    bare = finished(1.0, 3, uncertainty=False, initial=[0.3, 0.3, 0.4, 0])
    assert told.pop("uncertainty")["values"].keys() == {
        *("transitions", "expected_power", "default_power", "cost_to_go", "saving"),
        *("event_saving", "rebound"),  # of the dear steps of a price with two levels
    }
    assert told == bare


def test_rows_of_noise_are_marked_and_moves_of_which_nothing_is_known_have_no_interval() -> None:
    """The last state is seen in .2 % of all steps: 0.6 of 300 participants under noise of deviation
    2.8 a cell."""
    some = finished(1.0, 5)["uncertainty"]
    assert some["noise_dominates"]["transitions"] == [False, False, False, True]
    upper, lower = (
        np.array(some["values"]["transitions"][end], dtype=float) for end in ("upper", "lower")
    )
    assert np.isnan((upper - lower)[3]).any()
    assert np.isfinite((upper - lower)[:3]).all()
    assert (upper - lower)[:3].max() < 0.3
    assert some["noise_dominates"]["cost_to_go"] == [False, False, False, True]
    # A quarter of the loads begin in that state: the load is noise. The saving is not: whatever
    # that row is, following the signal saves something.
    assert some["noise_dominates"]["expected_power"]
    assert not some["mostly_noise"]
    assert some["values"]["saving"]["lower"] > 0
    # Whether there is one does not follow from the noise: answers that rely on it have wide ones.
    whole = {"transitions", "default_power", "expected_power", "cost_to_go", "saving"}
    assert some["values"].keys() >= whole
    assert None not in some["values"]["cost_to_go"]["lower"]
    apart = finished(1.0, 5, initial=[0.5, 0.5, 0, 0])["uncertainty"]
    assert not apart["noise_dominates"]["saving"]
    assert not apart["mostly_noise"]
    assert apart["values"].keys() >= {"saving", "expected_power"}
    nothing = finished(0.05, 5)["uncertainty"]
    assert nothing["mostly_noise"]
    assert nothing["values"].keys() == {"saving"}
    assert nothing["values"]["saving"]["lower"] < 0


def test_intervals_of_the_load_stay_within_what_states_draw() -> None:
    """No state draws less than 0 kW or more than the last, so no load does, whatever noise does to
    a release."""
    cut = 0
    for seed in range(8):
        for epsilon in (0.3, 1.0):
            body = finished(epsilon, seed, initial=[0.9, 0.1, 0, 0], discomfort_weight=0.05)
            low, high = (pick(body["states"]["power"]) for pick in (min, max))
            for name in ("expected_power", "default_power"):
                if (told := body["uncertainty"]["values"].get(name)) is not None:
                    lower, upper = (np.array(told[end], dtype=float) for end in ("lower", "upper"))
                    assert not (lower < low).any()
                    assert not (upper > high).any()
                    assert not ((lower == low) & (upper == high)).any()  # which is not known
                    cut += low in told["lower"] or high in told["upper"]
    assert cut


def test_flow_balance_allows_a_fleet_that_begins_in_one_state_and_ends_in_another() -> None:
    part = DrEnsemblePublic(unit="participant", states=4, participants=300, steps=31)
    counts = np.zeros((4, 4))
    counts[range(3), range(1, 4)] = 10.0  # each of 300 once, of 30 steps
    counts[3, 3] = 270.0
    known = estimates.balance(part, 300.0)
    assert known is not None
    assert (np.abs(known.weights @ counts.ravel()) <= 1.5 * known.deviation).all()


def test_intervals_hold_a_fleet_that_never_turns_back() -> None:
    """300 vehicles from empty to full: 25 of 36 moves are never made, and hardly any draw makes
    none of them. Twelve seeded releases; .63 of their loads were held before the interval held the
    end of what is possible."""
    rng, state = np.random.default_rng(0), np.zeros(300, dtype=int)
    rows = [state]
    for _ in range(24):
        rows.append(state := np.minimum(state + (rng.random(300) < 0.3), 5))
    part = DrEnsemblePublic(unit="participant", states=6, participants=300, steps=25)
    content = read(part, trajectories=np.array(rows).T.tolist())
    asked = problem(power=[0, 1, 2, 3, 4, 5], initial=[1 / 6] * 6, price=[0.2] * 24)
    plan = asked.plan(part, Budget(epsilon=3 * EPSILON // 2, delta=0))
    released = asked.diagnose(part, plan, content, Noise.seeded(0))
    true = asked.control(part, plan).load(
        estimates.unnoised(part, plan, released).transitions, np.full(6, 1 / 6)
    )
    held = []
    for seed in range(12):
        found = asked.finish(
            part, plan, asked.release(part, plan, content, Noise.seeded(seed)), lambda *_: None
        )
        ends: dict[str, Any] = found.to_json()["uncertainty"]["values"]["default_power"]
        held.append(
            (
                (np.array(ends["lower"]) <= true + 1e-9) & (true - 1e-9 <= np.array(ends["upper"]))
            ).mean()
        )
    assert np.mean(held) >= 0.8


def test_flow_balance_brings_answers_nearer_where_the_steps_are_public() -> None:
    """Not intervals: what they are in rows that may be noise does not rest on it."""
    errors = []
    for steps in (30, None):
        found = [
            finished(0.5, seed, steps, price=[0.2] * 60, uncertainty=False) for seed in range(5, 12)
        ]
        errors.append(
            np.mean(
                [np.abs(np.subtract(b["default_power"], b["true_default_power"])) for b in found]
            )
        )
    assert errors[0] < 0.8 * errors[1]


def test_the_posterior_is_nearer_to_the_truth_than_shrunk_counts() -> None:
    """Over 20 seeds, in rows that are not noise: against counts shrunk by SureShrink, as finish did
    it before."""
    part = public(participants=300, steps=30)
    plan = problem().plan(part, Budget(epsilon=EPSILON // 2, delta=0))
    content = read(part, trajectories=chained())
    true = estimates.unnoised(
        part, plan, problem().diagnose(part, plan, content, Noise.seeded(0))
    ).transitions
    before = after = 0.0
    for seed in range(20):
        released = problem().release(part, plan, content, Noise.seeded(seed))
        shrunk = shrink(
            released["counts"] / plan.parameters["grid"], plan.noise[0].standard_deviation
        )
        before += ((estimates.floored(part, shrunk) - true)[:3] ** 2).sum()
        after += ((estimates.estimated(part, plan, released).transitions - true)[:3] ** 2).sum()
    assert after < 0.85 * before


def test_simulations_tell_what_following_the_signal_achieves() -> None:
    body = finished(0.5, 7)
    assert body["achieved_saving"] == pytest.approx(
        body["true_saving"] - np.mean(body["cost_of_privacy"][0]), abs=1e-9
    )
    assert 0 < body["achieved_saving"] < body["true_saving"]
    assert body["achieved_policy_saving"] < body["achieved_saving"]


def test_loads_start_as_the_release_says_that_they_are() -> None:
    body = finished(1000, 8, initial="released")
    time = np.bincount(np.array(chained())[:, :-1].ravel(), minlength=STATES) / (300 * 29)
    assert body["default_power"][0] == pytest.approx(time @ np.arange(STATES), rel=0.02)
    assert body["true_default_power"][0] == pytest.approx(time @ np.arange(STATES), rel=1e-9)


def planned(
    epsilon: float, delta: int = 0, part: dict[str, Any] | None = None, **values: Any
) -> Any:
    known = {"participants": 300, "steps": 30} if part is None else part
    return problem(**values).plan(
        public(**known), Budget(epsilon=round(epsilon * EPSILON), delta=delta)
    )


def test_plans_tell_what_to_expect_and_what_is_noise() -> None:
    part = public(participants=300, steps=30)
    widths = []
    for epsilon in (0.5, 1, 2, 4):
        plan = planned(epsilon)
        found = {one.quantity: one.within for one in problem().expected(part, plan, 0.9)}
        assert found.keys() == {"transitions", "expected_power", "saving", "cost_to_go"}
        wider = {one.quantity: one.within for one in problem().expected(part, plan, 0.99)}
        assert all(wider[name] == pytest.approx(1.566 * found[name], rel=1e-3) for name in found)
        widths.append(list(found.values()))
    assert (np.diff(widths, axis=0) < 0).all()
    assert all("mostly noise" in says for says in planned(0.02).advice[:4])
    assert planned(0.01).advice[5].endswith("that is every state")
    assert "`discreet rehearse` tries this job on made-up loads" in planned(1).advice[5]
    assert (
        planned(1)
        .advice[5]
        .startswith(f"a state with fewer than {8**0.5 * 2:.2g} of 300 participants")
    )
    assert len(planned(1, part={}).advice) == 1  # nobody says how many there are


def test_the_expected_width_is_about_that_of_the_intervals() -> None:
    """Loads that stay half of the time and move evenly, as the plan thinks: the mean over ten
    releases within 1.5."""
    part, rng = public(participants=300, steps=30), np.random.default_rng(12)
    state = rng.integers(0, STATES, 300)
    rows = [state]
    for _ in range(29):
        state = np.where(
            rng.random(300) < 0.5, state, (state + rng.integers(1, STATES, 300)) % STATES
        )
        rows.append(state)
    content = read(part, trajectories=np.array(rows).T.tolist())
    plan = planned(1)
    told = {one.quantity: one.within for one in problem().expected(part, plan, 0.9)}
    widths: dict[str, list[float]] = {name: [] for name in told}
    for seed in range(10):
        released = problem().release(part, plan, content, Noise.seeded(seed))
        values = (
            problem()
            .finish(part, plan, released, lambda *_: None)
            .to_json()["uncertainty"]["values"]
        )
        for name, found in widths.items():
            found.append(
                float(np.mean(np.array(values[name]["upper"]) - values[name]["lower"])) / 2
            )
    for name, found in widths.items():
        assert told[name] / 1.5 < np.mean(found) < told[name] * 1.5, name


def test_the_clip_is_chosen_by_expected_error_and_is_the_one_that_is_charged() -> None:
    part = {"participants": 120, "steps": 96, "states": 12}
    size = {"power": list(range(12)), "initial": [1 / 12] * 12}
    plan, given = (
        planned(3, DELTA, part, clip="auto", **size),
        planned(3, DELTA, part, clip=0.25, **size),
    )
    chosen = plan.parameters["clip"]
    assert 0.08 <= chosen < 0.5
    assert any(
        says.startswith(f"clip (auto) is {chosen:g}, with an expected error") and "none has" in says
        for says in plan.advice
    )
    assert plan.events[0].sensitivity == pytest.approx(chosen / 0.25 * given.events[0].sensitivity)
    bare = planned(3, DELTA, part, **size)
    assert bare.parameters["clip"] is None
    assert any(says.startswith(f'"clip": "auto" would take {chosen:g}') for says in bare.advice)
    assert plan.noise[0].standard_deviation < 0.55 * bare.noise[0].standard_deviation
    # Without a delta the noise goes with the l1 norm, which no bound on the l2 norm makes less.
    assert planned(3, 0, part, clip="auto", **size).parameters["clip"] is None
    still = DrEnsembleContent(trajectories=[[0] * 96] * 120)
    whole = public(**part)
    released = problem(clip="auto", **size).release(
        whole, plan, DrEnsembleDataset.read_rows(whole, still), NoNoise()
    )
    assert released["counts"].sum() / plan.parameters["grid"] == pytest.approx(
        120 * chosen, rel=1e-5
    )


def test_draws_worth_fewer_moves_than_a_row_has_entries_are_called_noise() -> None:
    part = public(**{**matrix(), "states": 4, "unit": "row"})
    rows = [[0.4, 0.2, 0.2, 0.2]] * 4
    for epsilon, prior, noise in ((3, 0, False), (0.05, 20, True)):
        asked = problem(prior=prior)
        plan = asked.plan(part, Budget(epsilon=round(epsilon * EPSILON), delta=DELTA))
        assert (plan.parameters["concentration"] < 4 * prior) == noise
        released = asked.release(part, plan, read(part, transitions=rows), Noise.seeded(1))
        told = asked.finish(part, plan, released, lambda *_: None).to_json()["uncertainty"]
        assert told["noise_dominates"]["transitions"] == [noise] * 4
        assert told["mostly_noise"] == noise
        assert told["values"] == {}
        names = [one.quantity for one in asked.expected(part, plan, 0.9)]
        assert names == ["transitions", "expected_power", "saving", "cost_to_go"]
