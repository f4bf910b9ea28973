"""Multi-agent problems whose agents choose from polytopes: projections, ranges, sensitivity, and
jobs and federated agents against CVXPY and each other."""

from __future__ import annotations

import json
import math
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.optimize import linprog

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.federation import Member
from discreet.problems.multi_agent.dataset import (
    MAX_POLYTOPES,
    Announcement,
    MultiAgentContent,
    MultiAgentDataset,
    MultiAgentPublic,
)
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.saddle_point import cloud_outputs, noise_width
from discreet.solvers.saddle.set_kernels import most_turns, project_sets, sets_of
from discreet_agent import multi_agent
from discreet_agent.expressions import parse
from discreet_agent.federation.identity import Identity
from discreet_agent.projections import onto
from tests.problems.test_multi_agent import Given, InProcess, roster_of
from tests.problems.test_multi_agent_vectors import BUDGET, SCHEDULE

EV = {
    "dimension": 3, "lower": 0, "upper": 4, "radius": 0.5,
    "polytope": {
        # Neighbouring hours differ by 1 at most, the first two take 5, and an efficiency of 0.9 in
        # the last hour brings 6.
        "A": [[1, -1, 0], [-1, 1, 0], [0, 1, -1], [0, -1, 1], [1, 1, 0]],
        "b": [1, 1, 1, 1, 5],
        "C": [[1, 1, 0.9]],
        "d": [6],
    },
}  # fmt: skip
FAN = {"lower": 0, "upper": 5, "radius": 0.5}
TRIANGLE = {
    "A": [[1, 1, 0], [1, 0, 1], [0, 1, 1]],
    "b": [1, 1, 1],
    "C": [[1, 1, 1]],
    "d": [1.6],
}
"""Each row leaves room in the box, all together none."""
OBJECTIVES = {"ev": "(ev_1 - 4)^2 + (ev_2)^2 + 0.1 * ev_3^2", "fan": "2 * (fan - 3)^2"}
CONSTRAINTS = ["ev_1 + fan - 3", "0.1 * (ev_2 + ev_3)^2 + fan^2 - 6"]


def public(**values: Any) -> MultiAgentPublic:
    agents = [{"name": "ev", **EV, **values}, {"name": "fan", **FAN}]
    return MultiAgentPublic.model_validate({"unit": "trajectory", "agents": agents})


def problem(**values: Any) -> MultiAgent:
    fixed = {"kind": "multi_agent", "dataset": "dst_x", "constraints": CONSTRAINTS}
    return MultiAgent.model_validate({**fixed, "schedule": SCHEDULE, **values})


def members() -> list[Member]:
    return [Member("0", "ev", bytes(32), EV), Member("1", "fan", bytes(32), FAN)]


def contents(part: MultiAgentPublic, initial: Any = None) -> Any:
    content = MultiAgentContent(objectives=OBJECTIVES, initial=initial)
    return MultiAgentDataset.read_rows(part, content)


def some_polytope(generator: np.random.Generator, number: int) -> tuple[Any, Any, Any, Any]:
    """Of 1 to 9 coordinates, with slabs that are tight, rows said twice and sides that meet; or
    many rows in few coordinates, of which those that were taken in first must be let go."""
    crowded = number % 2 == 1
    k = int(generator.integers(2, 4) if crowded else generator.integers(1, 10))
    low = generator.normal(size=k)
    high = low + generator.uniform(0, 2, k)
    if number % 4 == 0:
        high[0] = low[0]
    inside = low + (high - low) * generator.uniform(size=k)
    A = generator.normal(size=(20 if crowded else int(generator.integers(0, 6)), k))
    if number % 3 == 0 and len(A) > 1:
        A[1] = -A[0]
    b = A @ inside + generator.choice([0.0, 0.2], size=len(A))
    C = generator.normal(size=(int(generator.integers(0, min(k, 3))), k))
    if number % 5 == 0 and len(C) > 1:
        C[1] = 2 * C[0]
    rows = {"A": A.tolist(), "b": b.tolist(), "C": C.tolist(), "d": (C @ inside).tolist()}
    return low, high, inside, rows


def test_projections_are_the_nearest_points() -> None:
    """The compiled active sets and the client's interior points, which share no line, find the
    same; by the variational inequality, at every vertex that a linear program finds, no point is
    nearer."""
    generator = np.random.default_rng(11)
    for number in range(100):
        low, high, inside, rows = some_polytope(generator, number)
        point = 4 * generator.normal(size=low.size)
        found = point.copy()
        project_sets(sets_of([(0, low.size, {"polytope": rows})], low.size), low, high, found)
        assert np.abs(found - onto(point, low, high, {"polytope": rows})).max() < 1e-10
        assert ((low <= found) & (found <= high)).all()
        A, C = (np.array(rows[name]).reshape(-1, low.size) for name in "AC")
        assert max(np.abs(C @ found - rows["d"]).max(initial=0), 0) < 1e-11
        assert (A @ found - rows["b"]).max(initial=0) < 1e-11
        farthest = linprog(
            -(point - found),
            A_ub=A if len(A) else None,
            b_ub=np.array(rows["b"]) + 1e-12 if len(A) else None,
            A_eq=C if len(C) else None,
            b_eq=rows["d"] if len(C) else None,
            bounds=list(zip(low, high, strict=True)),
        )
        assert farthest.status == 0
        assert (point - found) @ (farthest.x - found) <= 1e-6
        assert (point - found) @ (inside - found) <= 1e-9


def test_hard_polytopes_are_projected_on_in_the_turns_that_there_may_be() -> None:
    """Of 64 coordinates and 64 dense rows that say almost the same and all meet in one point, from
    far away: 1,200 turns and more. What a release's time allows for is the same number of them."""
    generator, size = np.random.default_rng(3), 64
    low, high = -np.ones(size), np.ones(size)
    for equalities in (0, 32, 56):
        A = generator.normal(size=size) + 0.05 * generator.normal(size=(size, size))
        limits = A @ generator.uniform(-0.5, 0.5, size=size)
        C, d, A, b = A[:equalities], limits[:equalities], A[equalities:], limits[equalities:]
        rows = {"A": A.tolist(), "b": b.tolist(), "C": C.tolist(), "d": d.tolist()}
        for scale in (1, 100, 1e4):
            found = scale * np.vstack([A, C]).sum(axis=0)
            project_sets(sets_of([(0, size, {"polytope": rows})], size), low, high, found)
            assert (A @ found - b).max() < 1e-8
            assert np.abs(C @ found - d).max(initial=0) < 1e-8


def test_the_time_of_a_release_has_its_projections_and_no_reading_of_them() -> None:
    """Four agents of 64 coordinates and rows: 20 steps more take 20 times what all turns that
    there may be take, twice for the margin."""
    A = np.random.default_rng(1).normal(size=(64, 64))
    rows = {"A": A.tolist(), "b": [1.0] * 64}
    box = {"dimension": 64, "lower": -1, "upper": 1, "radius": 1, "polytope": rows}
    agents = [{"name": f"a{k}", **box} for k in range(4)]
    part = MultiAgentPublic.model_validate({"unit": "trajectory", "agents": agents})
    seconds = [
        problem(constraints=["a0_1 + a1_1 - 9"], schedule={**SCHEDULE, "iterations": steps})
        .plan(part, BUDGET)
        .resources.release_quantum_seconds
        for steps in (10, 30)
    ]
    turns = most_turns(64, 64) * 64**3 * (1 / 2 + 1 / 6) * 1e-10
    assert 20 * 4 * turns < seconds[1] - seconds[0] < 20 * 4 * 20 * turns


def test_what_is_not_a_number_is_taken_into_the_box() -> None:
    sets = sets_of([(0, 3, {"polytope": EV["polytope"]})], 3)
    found = np.array([math.nan, 1.0, math.nan])
    project_sets(sets, np.zeros(3), np.full(3, 4.0), found)
    assert ((found >= 0) & (found <= 4)).all()


@pytest.mark.parametrize("size", [5e-324, 1e-322, 1e-310, 1e-300])
def test_rows_of_the_smallest_numbers_cut_nothing_off(size: float) -> None:
    """Their products are rounded to nothing: `x_1 + x_2 <= 0` has (0.4, -0.4)."""
    rows = {"A": [[size, size]], "b": [0]}
    fields = {"lower": -0.4, "upper": 0.4, "radius": 1, "polytope": rows}
    low, high = Announcement.model_validate({"dimension": 2, **fields}).cut()
    assert (low <= -0.4).all()
    assert (high >= 0.4).all()


def test_ranges_hold_every_state_of_the_set_and_are_no_wider_than_the_box() -> None:
    """By linear programs; a range that were too narrow would promise a sensitivity that is none."""
    generator = np.random.default_rng(5)
    cut = 0
    for number in range(60):
        low, high, _, rows = some_polytope(generator, number)
        high = np.maximum(high, low + 1e-3)
        if not rows["b"] and not rows["d"]:
            continue
        fields = {"lower": low.tolist(), "upper": high.tolist(), "radius": 1, "polytope": rows}
        agent = Announcement.model_validate({"dimension": low.size, **fields})
        begin, end = agent.cut()
        cut += bool((end - begin < high - low).any())
        A, C = (np.array(rows[name]).reshape(-1, low.size) for name in "AC")
        vertices = []
        for place in range(low.size):
            for sign in (1.0, -1.0):
                found = linprog(
                    sign * np.eye(low.size)[place],
                    A_ub=A if len(A) else None,
                    b_ub=rows["b"] if len(A) else None,
                    A_eq=C if len(C) else None,
                    b_eq=rows["d"] if len(C) else None,
                    bounds=list(zip(low, high, strict=True)),
                )
                if found.status == 0:
                    vertices.append(found.x)
        for x in vertices:
            assert ((begin - 1e-6 <= x) & (x <= end + 1e-6)).all()
            assert all(np.linalg.norm(x - y) <= agent.widest() + 1e-6 for y in vertices)
        assert ((low <= begin) & (end <= high)).all()
    assert cut > 20


def test_ranges_that_a_row_cuts_lower_the_noise() -> None:
    """`2 x_1 <= 1`, in a box of 4, and a square of it: the slope is at most 1."""
    rows = {"A": [[2, 0, 0]], "b": [1]}
    asked = problem(constraints=["ev_1^2 - 15", "fan - 4"])
    narrow = asked.plan(public(polytope=rows), BUDGET)
    ends = {name: ends for name, *ends in narrow.parameters["box"]}["ev_1"]
    assert ends == pytest.approx([0, 0.5], abs=1e-9)
    wide = asked.plan(public(polytope={"A": [[2, 0, 0]], "b": [8]}), BUDGET)
    places = [narrow.parameters["layout"].index(at) for at in ([0, None],)]
    assert narrow.parameters["units"][places[0]] < 0.5 * wide.parameters["units"][places[0]]


@given(
    st.lists(st.floats(-1, 5), min_size=4, max_size=4),
    st.lists(st.floats(-1, 1), min_size=9, max_size=9),
)
@settings(max_examples=60)
def test_all_outputs_together_move_by_at_most_one_unit(
    start: list[float], moves: list[float]
) -> None:
    """As the cloud takes the states of a neighbour's agent in: into the box."""
    part, asked = public(), problem()
    plan = asked.plan(part, BUDGET)
    form, outputs = asked.solver_form(plan, {})
    exact = outputs._replace(
        scale=np.zeros_like(outputs.scale), noise=np.full_like(outputs.noise, -1), grid=0.0
    )
    move = np.zeros((3, 4))
    move[:, :3] = np.array(moves).reshape(3, 3)
    move *= 0.5 / (np.linalg.norm(move) or 1.0)
    unit, total = outputs.scale / plan.events[0].scale, 0.0
    for step in move:
        here = np.clip(start, form.lower, form.upper)
        there = np.clip(here + step, form.lower, form.upper)
        values = [cloud_outputs(form, exact, states, []) for states in (here, there)]
        moved = np.abs(values[0] - values[1])
        assert (moved[unit == 0] < 1e-12).all()
        total += float(((moved[unit > 0] / unit[unit > 0]) ** 2).sum())
    assert total <= 1 + 1e-9


def test_without_noise_it_finds_the_saddle_point_of_the_polytope() -> None:
    part, asked = public(), problem()
    plan = asked.plan(part, BUDGET)
    content = contents(part)
    texts = zip(part.agents, content["objectives"].tolist(), strict=True)
    form, _ = asked.solver_form(
        plan, {agent.name: parse(text, agent.coordinates) for agent, text in texts}
    )
    quiet = saddle_point.noised_outputs(form, 0.0, 0.0)
    schedule = saddle_point.Schedule(0.3, 0.02, 0.3, 0.29)
    path = saddle_point.run(form, quiet, schedule, 300_000, states=content["initial"])
    ev, fan = cp.Variable(3), cp.Variable()
    rows = [
        ev[0] + fan <= 3,
        0.1 * (ev[1] + ev[2]) ** 2 + fan**2 <= 6,
        np.array(EV["polytope"]["A"]) @ ev <= EV["polytope"]["b"],
        np.array(EV["polytope"]["C"]) @ ev == EV["polytope"]["d"],
        *(ev >= 0, ev <= 4, fan >= 0, fan <= 5),
    ]
    cost = (ev[0] - 4) ** 2 + ev[1] ** 2 + 0.1 * ev[2] ** 2 + 2 * (fan - 3) ** 2
    cp.Problem(cp.Minimize(cost), rows).solve(solver=cp.CLARABEL)
    assert path.states[-1] == pytest.approx([*ev.value, float(fan.value)], abs=5e-3)
    prices = [float(np.sum(row.dual_value)) for row in rows[:2]]
    assert path.multipliers[-1] == pytest.approx(prices, abs=2e-2)
    assert prices[0] > 0.1
    assert path.states[-1][:3] @ [1, 1, 0.9] == pytest.approx(6, abs=1e-11)


@pytest.mark.parametrize("missing", [False, True])
def test_federated_agents_go_the_same_way_for_the_same_noise(missing: bool) -> None:
    """The client's interior point method, and the compiled loop of a job."""
    terms = {"agents": 2, "quorum": 2, "on_missing": "finish" if missing else "abort"}
    schedule = {**SCHEDULE, "iterations": 40}
    asked = problem(dataset=None, protocol="federated", federation=terms, schedule=schedule)
    keys = {name: Identity.generate() for name in ("ev", "fan")}
    there = [
        Member(keys[one.name].fingerprint, one.name, keys[one.name].public_key, one.announcement)
        for one in members()
    ]
    for one in there:
        asked.check_announcement(one.announcement)
    plan = asked.plan_federation(there, BUDGET)
    _, outputs = asked.solver_form(plan, {})
    drawn = np.random.default_rng(8).integers(-(2**16), 2**16, (40, noise_width(outputs)))
    session, noise = asked.open_session(plan, there), Given(drawn)
    roster = roster_of(there)
    agents = {one.name: InProcess(keys[one.name], roster, plan.parameters) for one in there}
    slopes: dict[str, Any] = {
        "ev": lambda x: [2 * (x[0] - 4), 2 * x[1], 0.2 * x[2]],
        "fan": lambda x: 4 * (x - 3),
    }
    steps = {name: multi_agent.step_of(slope) for name, slope in slopes.items()}
    broadcast = session.opening(noise)
    for number in range(session.rounds):
        messages = {
            one.fingerprint: agents[one.name].answer(
                number, session.rounds, broadcast, steps[one.name]
            )
            for one in there
        }
        if missing and number == 5:
            del messages[there[0].fingerprint]
        broadcast = session.step(number, messages, noise)
    found = agents["ev"].ended(broadcast, slopes["ev"])
    assert np.dot(found.x, [1, 1, 0.9]) == pytest.approx(6, abs=1e-9)
    assert (np.array(EV["polytope"]["A"]) @ found.x <= np.array(EV["polytope"]["b"]) + 1e-9).all()
    job, part = problem(schedule=schedule), public()
    job_plan = job.plan(part, BUDGET)
    assert job_plan.parameters == plan.parameters
    form, _ = asked.solver_form(plan, {})
    start = form.projected((form.lower + form.upper) / 2)
    begun = {"ev": start[:3].tolist(), "fan": float(start[3])}
    alone = job.release(part, job_plan, contents(part, begun), Given(drawn))
    released = session.released()
    if missing:
        assert np.abs(released["outputs"] - alone["outputs"]).max() > 1e-6
    else:
        for name, array in alone.items():
            assert released[name] == pytest.approx(array, abs=1e-8)
    json.dumps(asked.finish(None, plan, released, lambda *_: None).to_json())


def test_a_cloud_takes_a_state_outside_of_its_polytope_into_the_box() -> None:
    """What no arithmetic can move further apart; and an agent that is missing stands in the set."""
    asked = problem(dataset=None, protocol="federated", federation={"agents": 2})
    plan = asked.plan_federation(members(), BUDGET)
    form, _ = asked.solver_form(plan, {})

    def told(state: Any) -> bytes:
        session = asked.open_session(plan, members())
        session.opening(Noise.seeded(1))
        messages = {} if state is None else {"0": np.array(state, dtype=">f8").tobytes()}
        return session.step(0, {**messages, "1": bytes(8)}, Noise.seeded(1))

    outside = np.array([9.0, 9.0, -5.0])
    boxed = np.clip(outside, form.lower[:3], form.upper[:3])
    inside = form.projected([*outside, 0.0])[:3]
    assert np.abs(boxed - inside).max() > 0.1
    assert told(outside) == told(boxed) != told(inside)
    assert told(inside) == told(form.projected([*inside, 0.0])[:3])
    assert told(None) == told(form.projected((form.lower + form.upper) / 2)[:3])


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "pointer", "says"),
    [
        ({"polytope": {}}, "/polytope/A", "has a row"),
        ({"polytope": {"A": [[1, 1, 1]]}}, "/polytope/b", "0 limits for the 1 rows of A"),
        ({"polytope": {"C": [[1, 1, 1]], "d": [1, 2]}}, "/polytope/d", "2 limits for the 1 rows"),
        ({"polytope": {"A": [[1, 1]], "b": [1]}}, "/polytope/A/0", "the dimension is 3"),
        ({"polytope": {"A": [[1, 1, 1]], "b": [-1]}}, "/polytope", "no point of the box"),
        ({"polytope": TRIANGLE}, "/polytope", "has no point in the box"),
        ({"polytope": {"A": [[1, 1, 1]], "b": [1e300]}}, "/polytope/b/0", "at most"),
        ({"polytope": {"A": [[1, "x", 1]], "b": [1]}}, "/polytope/A/0/1", "a number is needed"),
        ({"polytope": [[1, 1, 1]]}, "/polytope", "a JSON object is needed"),
        ({"polytope": {"G": [[1, 1, 1]], "b": [1]}}, "/polytope", "G|rows of A"),
        ({"budget": {"lower": 0, "upper": 9}}, "/polytope", "one of them"),
        ({"dimension": None}, "/polytope", "a state with a `dimension`"),
        ({"upper": None}, "/upper", "needed"),
        ({"polytope": {"A": [[1, 0, 0]] * 126, "b": [1] * 126}}, "/polytope", "more than 128"),
    ],
)  # fmt: skip
def test_polytopes_that_are_empty_or_make_no_sense_are_refused_by_field(
    changes: dict[str, Any], pointer: str, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        problem().check_announcement({**EV, **changes})
    assert refused.value.issues[0].pointer.startswith(pointer)


def test_an_empty_polytope_is_refused_when_the_agents_are_registered() -> None:
    with pytest.raises(InvalidInput, match="ev: the polytope has no point in the box") as refused:
        contents(public(polytope=TRIANGLE))
    assert refused.value.issues[0].pointer == "/public/agents/0/polytope"


def test_more_polytopes_than_are_looked_at_are_refused_by_counts_alone() -> None:
    agents = [{"name": f"a{k}", **EV} for k in range(MAX_POLYTOPES + 1)]
    with pytest.raises(ValidationError, match=f"at most {MAX_POLYTOPES}"):
        MultiAgentPublic.model_validate({"unit": "trajectory", "agents": agents})


def test_a_start_outside_of_the_polytope_is_refused() -> None:
    with pytest.raises(InvalidInput, match="not in the agent's polytope"):
        contents(public(), {"ev": [1, 1, 1]})


def test_constraints_that_the_polytope_cannot_keep_are_refused() -> None:
    with pytest.raises(InvalidInput, match="strictly inside"):
        problem(constraints=["ev_1 + ev_2 + 0.9 * ev_3 - 5"]).plan(public(), BUDGET)
