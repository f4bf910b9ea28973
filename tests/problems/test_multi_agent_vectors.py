"""Multi-agent problems whose states are vectors in sets: sensitivity by block, projections, agents
and the cloud."""

from __future__ import annotations

import json
import math
from functools import cache
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.federation import Member
from discreet.problems.multi_agent.dataset import (
    MultiAgentContent,
    MultiAgentDataset,
    MultiAgentPublic,
)
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.numbers import Budget
from discreet.solvers.errors import InvalidArgument
from discreet.solvers.saddle import saddle_point
from discreet.solvers.saddle.convexity import MOST_ENTRIES
from discreet.solvers.saddle.moves import Moves
from discreet.solvers.saddle.noise_split import joint_distance, sparse_split, split
from discreet.solvers.saddle.saddle_point import cloud_outputs, noise_width
from discreet.solvers.saddle.set_kernels import project_sets, sets_of
from discreet_client.agent import multi_agent
from discreet_client.expressions import parse
from discreet_client.federation.identity import Identity
from discreet_client.projections import onto
from tests.problems.test_multi_agent import Given, InProcess, roster_of

BUDGET = Budget(epsilon=10**9, delta=10**15)
SCHEDULE = {"gamma": 0.05, "alpha": 0.05, "c1": 0.34, "c2": 0.25, "iterations": 200}
AGENTS = [
    {"name": "ev", "dimension": 3, "lower": 0, "upper": [4, 4, 2], "radius": 0.5,
     "budget": {"lower": 3, "upper": 3}},
    {"name": "robot", "dimension": 2, "lower": -2, "upper": 2, "radius": 0.3,
     "ball": {"centre": [0.5, 0], "radius": 1.5}},
    {"name": "fan", "lower": 0, "upper": 5, "radius": 0.5},
]  # fmt: skip
SQUARE = {"dimension": 2, "lower": 0, "upper": 1, "radius": 1}
CONSTRAINTS = [
    "ev_1 + 2 * ev_2 + fan - 4",
    "robot_1^2 + robot_2^2 + 0.1 * (ev_1 + ev_3)^2 - 3",
    "robot_1 - fan - 1",
]
OBJECTIVES = {
    "ev": "(ev_1 - 3)^2 + 0.5 * (ev_2 - 1)^2 + (ev_3 - 1)^2",
    "robot": "(robot_1 - 2)^2 + (robot_2 - 2)^2",
    "fan": "2 * (fan - 3)^2",
}


def public(**values: Any) -> MultiAgentPublic:
    return MultiAgentPublic.model_validate({"unit": "trajectory", "agents": AGENTS, **values})


def problem(**values: Any) -> MultiAgent:
    fixed = {
        "kind": "multi_agent",
        "dataset": "dst_x",
        "constraints": CONSTRAINTS,
        "schedule": SCHEDULE,
    }
    return MultiAgent.model_validate({**fixed, **values})


def read(part: MultiAgentPublic, initial: Any = None) -> Content:
    return MultiAgentDataset.read_rows(
        part, MultiAgentContent(objectives=OBJECTIVES, initial=initial)
    )


# Projections --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["budget", "ball"])
def test_projections_are_the_nearest_points(kind: str) -> None:
    """Against Clarabel, and by the variational inequality; the compiled ones are the client's."""
    generator = np.random.default_rng(7)
    for _ in range(60):
        k = int(generator.integers(1, 9))
        low = generator.normal(size=k)
        high = low + generator.uniform(0, 2, k)
        point, inside = 5 * generator.normal(size=k), low + (high - low) * generator.uniform(size=k)
        x = cp.Variable(k)
        if kind == "budget":
            least, most = (
                inside.sum() - generator.choice([0.0, 0.5]),
                inside.sum() + generator.choice([0.0, 0.5]),
            )
            within: dict[str, Any] = {"budget": {"lower": least, "upper": most}}
            rows = [cp.sum(x) >= least, cp.sum(x) <= most]
        else:
            centre = inside + generator.normal(size=k)
            within = {
                "ball": {
                    "centre": centre.tolist(),
                    "radius": 1.1 * float(np.linalg.norm(inside - centre)),
                }
            }
            rows = [cp.norm(x - centre) <= within["ball"]["radius"]]
        found = onto(point, low, high, within)
        compiled = point.copy()
        project_sets(sets_of([(0, k, within)], k), low, high, compiled)
        assert np.abs(found - compiled).max() < 1e-12
        assert ((low <= found) & (found <= high)).all()
        if kind == "budget":
            assert least - 1e-12 <= found.sum() <= most + 1e-12
        else:
            assert np.linalg.norm(found - centre) <= within["ball"]["radius"] + 1e-12
        cp.Problem(cp.Minimize(cp.sum_squares(x - point)), [*rows, x >= low, x <= high]).solve(
            solver=cp.CLARABEL
        )
        assert np.linalg.norm(found - point) <= np.linalg.norm(x.value - point) + 1e-6
        assert (point - found) @ (x.value - found) <= 1e-5
        # Two points are no further apart when they are projected.
        other = point + 0.1 * generator.normal(size=k)
        assert (
            np.linalg.norm(onto(other, low, high, within) - found)
            <= np.linalg.norm(other - point) + 1e-12
        )


def test_a_step_beyond_all_numbers_ends_in_the_set() -> None:
    for far in (math.inf, -math.inf, 1e300):
        states = np.array([far, 0.0, 1.0])
        project_sets(
            sets_of([(0, 3, {"budget": {"lower": 1.0, "upper": 2.0}})], 3),
            np.zeros(3),
            np.ones(3),
            states,
        )
        assert 1 - 1e-6 <= states.sum() <= 2 + 1e-6
        assert ((states >= 0) & (states <= 1)).all()


# Sensitivity --------------------------------------------------------------------------------------


@cache
def exact_outputs() -> tuple[Any, Any, Any, Any]:
    """Plan, form and outputs of the problem, and the outputs without their noise."""
    asked = problem()
    plan = asked.plan(public(), BUDGET)
    form, outputs = asked.solver_form(plan, {})
    quiet = outputs._replace(
        scale=np.zeros_like(outputs.scale), noise=np.full_like(outputs.noise, -1), grid=0.0
    )
    return plan, form, outputs, quiet


@given(
    st.integers(0, 2),
    st.lists(st.floats(-2, 5), min_size=6, max_size=6),
    st.lists(st.floats(-1, 1), min_size=9, max_size=9),
)
@settings(max_examples=80)
def test_all_outputs_together_move_by_at_most_one_unit(
    who: int, start: list[float], moves: list[float]
) -> None:
    """Three steps of one agent's vector, moved by its radius in l2 over all of them: the transcript
    moves by 1."""
    part = public()
    plan, form, outputs, exact = exact_outputs()
    own = np.array(part.agent_of) == who
    move = np.zeros((3, 6))
    move[:, own] = np.array(moves).reshape(3, 3)[:, : int(own.sum())]
    norm = np.linalg.norm(move)
    move *= part.agents[who].radius / norm if norm else 0.0
    unit, total = outputs.scale / plan.events[0].scale, 0.0
    for step in move:
        here = form.projected(start)
        values = [
            cloud_outputs(form, exact, states, [])
            for states in (here, np.clip(here + step, form.lower, form.upper))
        ]
        moved = np.abs(values[0] - values[1])
        assert (moved[unit == 0] < 1e-12).all()
        total += float(((moved[unit > 0] / unit[unit > 0]) ** 2).sum())
    assert total <= 1 + 1e-9


def test_the_noise_of_a_vector_is_of_its_norm_and_not_of_a_coordinate() -> None:
    """Of one sum over d coordinates the unit is radius times sqrt(d): with that of one coordinate
    it would be less."""
    agents = [
        {"name": "ev", "dimension": 9, "lower": 0, "upper": 1, "radius": 0.5},
        {**AGENTS[2], "radius": 1e-3},
    ]
    text = " + ".join(f"ev_{k}" for k in range(1, 10)) + " + fan - 8"
    plan = problem(constraints=[text]).plan(public(agents=agents), BUDGET)
    assert plan.parameters["units"][0] == pytest.approx(0.5 * 3, rel=1e-6)
    assert len(plan.noise) == 1
    assert plan.noise[0].scale == pytest.approx(1.5 * plan.events[0].scale, rel=1e-6)


def test_ranges_are_cut_to_what_sets_and_constraints_allow() -> None:
    """Never below what they allow, and the noise falls with them."""
    plan = problem().plan(public(), BUDGET)
    box = {name: ends for name, *ends in plan.parameters["box"]}
    assert box["ev_1"][1] <= 3 + 1e-9  # of a budget of 3 nobody takes 4
    assert box["robot_1"][0] >= -1 - 1e-9  # of the ball
    wide = problem().plan(public(agents=[{**AGENTS[0], "budget": None}, *AGENTS[1:]]), BUDGET)
    assert max(plan.parameters["units"]) < max(wide.parameters["units"])
    names = list(box)
    x = cp.Variable(len(names))
    at = dict(zip(names, x, strict=True))
    robot = cp.hstack([at["robot_1"], at["robot_2"]])
    rows = [
        at["ev_1"] + 2 * at["ev_2"] + at["fan"] <= 4,
        cp.sum_squares(robot) + 0.1 * (at["ev_1"] + at["ev_3"]) ** 2 <= 3,
        at["robot_1"] - at["fan"] <= 1,
        at["ev_1"] + at["ev_2"] + at["ev_3"] == 3,
        cp.norm(robot - np.array([0.5, 0])) <= 1.5,
    ]
    lows, highs = np.array([0, 0, 0, -2, -2, 0]), np.array([4, 4, 2, 2, 2, 5])
    for place, name in enumerate(names):
        for sign, end in ((1, 0), (-1, 1)):
            cp.Problem(cp.Minimize(sign * x[place]), [*rows, x >= lows, x <= highs]).solve(
                solver=cp.CLARABEL
            )
            assert sign * (x.value[place] - box[name][end]) >= -1e-6


# The way that states go ---------------------------------------------------------------------------


def test_without_noise_it_finds_the_saddle_point_of_the_sets() -> None:
    part, asked = public(), problem()
    plan = asked.plan(part, BUDGET)
    content = read(part)
    objectives = {
        agent.name: parse(text, agent.coordinates)
        for agent, text in zip(part.agents, content["objectives"].tolist(), strict=True)
    }
    form, _ = asked.solver_form(plan, objectives)
    quiet = saddle_point.noised_outputs(form, 0.0, 0.0)
    schedule = saddle_point.Schedule(0.3, 0.02, 0.3, 0.29)
    path = saddle_point.run(form, quiet, schedule, 400_000, states=content["initial"])
    x = cp.Variable(6)
    objective = (
        (x[0] - 3) ** 2
        + 0.5 * (x[1] - 1) ** 2
        + (x[2] - 1) ** 2
        + (x[3] - 2) ** 2
        + (x[4] - 2) ** 2
        + 2 * (x[5] - 3) ** 2
    )
    rows = [
        x[0] + 2 * x[1] + x[5] <= 4,
        cp.sum_squares(x[3:5]) + 0.1 * (x[0] + x[2]) ** 2 <= 3,
        x[3] - x[5] <= 1,
        cp.sum(x[:3]) == 3,
        cp.norm(x[3:5] - np.array([0.5, 0])) <= 1.5,
        x >= np.array([0, 0, 0, -2, -2, 0]),
        x <= np.array([4, 4, 2, 2, 2, 5]),
    ]
    cp.Problem(cp.Minimize(objective), rows).solve(solver=cp.CLARABEL)
    assert path.states[-1] == pytest.approx(x.value, abs=5e-3)
    assert path.multipliers[-1] == pytest.approx(
        [float(np.sum(row.dual_value)) for row in rows[:3]], abs=1e-2
    )
    assert path.states[-1][:3].sum() == pytest.approx(3, abs=1e-12)


@pytest.mark.parametrize("missing", [False, True])
def test_federated_agents_go_the_same_way_for_the_same_noise(missing: bool) -> None:
    """The cloud's session and the client's own steps against the compiled loop."""
    terms = {"agents": 3, "quorum": 2, "on_missing": "finish"}
    asked = problem(dataset=None, protocol="federated", federation=terms)
    figures = [figure.model_dump() for figure in public().agents]
    keys = {one["name"]: Identity.generate() for one in figures}
    members = [
        Member(keys[name].fingerprint, name, keys[name].public_key, one)
        for name, one in ((one.pop("name"), one) for one in figures)
    ]
    asked.plan_federation((), BUDGET)
    plan = asked.plan_federation(members, BUDGET)
    assert asked.answer_bytes(plan, 3) == 64
    _, outputs = asked.solver_form(plan, {})
    drawn = np.random.default_rng(8).integers(-(2**20), 2**20, (200, noise_width(outputs)))
    session = asked.open_session(plan, members)
    agents = {
        one.name: InProcess(keys[one.name], roster_of(members), plan.parameters) for one in members
    }
    slopes: dict[str, Any] = {
        "ev": lambda x: [2 * (x[0] - 3), x[1] - 1, 2 * (x[2] - 1)],
        "robot": lambda x: [2 * (x[0] - 2), 2 * (x[1] - 2)],
        "fan": lambda x: 4 * (x - 3),
    }
    starts: dict[str, Any] = {"ev": [1.0, 1.0, 1.0], "robot": 0.5, "fan": 1.0}
    steps = {name: multi_agent.step_of(slope, starts[name]) for name, slope in slopes.items()}
    given_noise = Given(drawn)
    broadcast = session.opening(given_noise)
    for number in range(session.rounds):
        messages = {
            one.fingerprint: agents[one.name].answer(
                number, session.rounds, broadcast, steps[one.name]
            )
            for one in members
        }
        for agent, message in messages.items():
            assert session.accepts(number, agent, message)
            assert not session.accepts(number, agent, message + bytes(8))
        if missing and number == 5:
            del messages[members[0].fingerprint]
        broadcast = session.step(number, messages, given_noise)
        if number == 120:
            again = asked.open_session(plan, members)
            again.restore(session.state())
            session = again
    found = {name: agents[name].ended(broadcast, slope) for name, slope in slopes.items()}
    assert sum(found["ev"].x) == pytest.approx(3, abs=1e-12)
    released = session.released()
    job = problem()
    job_plan = job.plan(public(), BUDGET)
    assert job_plan.parameters == plan.parameters
    alone = job.release(public(), job_plan, read(public(), starts), Given(drawn))
    if missing:
        assert np.abs(released["outputs"] - alone["outputs"]).max() > 1e-9
    else:
        for name, array in alone.items():
            assert released[name] == pytest.approx(array, abs=1e-9)
    body = json.loads(json.dumps(asked.finish(None, plan, released, lambda *_: None).to_json()))
    assert {one["agent"] for one in body["noisy_gradients"]} == {
        "ev_1",
        "ev_2",
        "ev_3",
        "robot_1",
        "robot_2",
        "fan",
    }


def test_a_state_outside_of_its_set_counts_as_the_nearest_one() -> None:
    terms = {"agents": 3}
    asked = problem(dataset=None, protocol="federated", federation=terms)
    members = [
        Member(str(k), one["name"], bytes(32), {n: v for n, v in one.items() if n != "name"})
        for k, one in enumerate(AGENTS)
    ]
    plan = asked.plan_federation(members, BUDGET)
    told = []
    for state in (
        [9.0, 9.0, -5.0],
        onto(np.array([9.0, 9.0, -5.0]), *_box(plan, "ev"), {"budget": AGENTS[0]["budget"]}),
    ):
        session = asked.open_session(plan, members)
        session.opening(Noise.seeded(1))
        messages = {"0": np.array(state, dtype=">f8").tobytes(), "1": bytes(16), "2": bytes(8)}
        told.append(session.step(0, messages, Noise.seeded(1)))
    assert told[0] == told[1]


def _box(plan: Any, name: str) -> tuple[Any, Any]:
    ends = np.array([ends for of, *ends in plan.parameters["box"] if of.startswith(name)])
    return ends[:, 0], ends[:, 1]


# What is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "pointer"),
    [
        ({"lower": [0, 0], "upper": 1, "radius": 1}, "/lower"),
        ({"dimension": 3, "lower": [0, 0], "upper": 1, "radius": 1}, "/lower"),
        ({"lower": 0, "upper": 1, "radius": 1, "budget": {"lower": 0, "upper": 1}}, "/budget"),
        ({**SQUARE, "budget": {"lower": 3, "upper": 4}}, "/budget"),
        ({**SQUARE, "budget": {"lower": 1, "upper": 0}}, "/budget/lower"),
        ({**SQUARE, "ball": {"centre": [4, 4], "radius": 1}}, "/ball"),
        ({**SQUARE, "ball": {"centre": [4], "radius": 9}}, "/ball/centre"),
        ({"dimension": 0, "lower": 0, "upper": 1, "radius": 1}, "/dimension"),
        (
            {
                **SQUARE,
                "budget": {"lower": 0, "upper": 1},
                "ball": {"centre": [0, 0], "radius": 1},
            },
            "/ball",
        ),
    ],
)
def test_sets_that_have_no_state_or_no_sense_are_refused_by_field(
    agent: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        problem().check_announcement(agent)
    assert refused.value.issues[0].pointer.startswith(pointer)


def test_names_of_coordinates_are_nobody_elses() -> None:
    with pytest.raises(ValidationError, match="same name as a coordinate of another one"):
        public(agents=[AGENTS[0], {**AGENTS[2], "name": "ev_1"}])


@pytest.mark.parametrize(
    ("initial", "says"),
    [
        ({"ev": [1, 1]}, "2 numbers for a state of dimension 3"),
        ({"ev": [3, 3, 1]}, "not in the agent's budget"),
        ({"robot": [2, 2]}, "not in the agent's ball"),
        ({"ev": [3, 0, 9]}, "must be 0 to 2"),
        ({"fan": [3]}, "dimension one"),
    ],
)
def test_starts_outside_of_a_set_are_refused(initial: Any, says: str) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        read(public(), initial)
    assert refused.value.issues[0].pointer == f"/content/initial/{next(iter(initial))}"


@pytest.mark.parametrize(
    ("constraints", "says"),
    [
        (["ev_1 + ev_2 + ev_3 - 2"], "strictly inside"),  # the budget is 3
        (["ev_1 * ev_2 - 4"], "both vary"),
        (["ev - 4"], "neither an agent nor a function"),
        (["1 - 3"], "depends on any agent"),
    ],
)
def test_constraints_of_vectors_are_refused(constraints: list[str], says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        problem(constraints=constraints).plan(public(), BUDGET)


def test_plans_of_states_of_one_number_keep_their_form() -> None:
    """What was stored before is read, and what is stored now is what it was."""
    figures = public().agents[2].model_dump()
    assert set(figures) == {"name", "lower", "upper", "radius"}
    agents = [{**AGENTS[2], "name": name} for name in ("fan", "other")]
    plan = problem(constraints=["fan + other^2 - 4"]).plan(public(agents=agents), BUDGET)
    assert set(plan.parameters) == {"box", "units", "layout", "schedule"}
    assert len(plan.parameters["units"]) == 1 + 2


# Many agents --------------------------------------------------------------------------------------


@pytest.mark.long
def test_two_thousand_agents_share_a_sum() -> None:
    """More is refused at once; the price that all see is near that of the mean agent, which all
    are."""
    count = 2000
    agents = [{"name": f"a{k}", "lower": 0, "upper": 4, "radius": 0.5} for k in range(count)]
    part = public(agents=agents)
    with pytest.raises(ValidationError, match="at most 2000"):
        public(agents=[*agents, {**agents[0], "name": "more"}])
    asked = problem(constraints=[" + ".join(f"0.1 * {name}" for name in part.names) + " - 200"])
    plan = asked.plan(part, BUDGET)
    assert plan.parameters["units"][0] == pytest.approx(0.05, rel=1e-6)
    assert sum(unit > 0 for unit in plan.parameters["units"]) == 1
    objectives = {name: f"({name} - 3)^2" for name in part.names}
    content = MultiAgentDataset.read_rows(part, MultiAgentContent(objectives=objectives))
    (taken, most) = MultiAgentDataset.sizes(part, content)["max_operations"]
    assert taken <= most == 100_000
    released = asked.release(part, plan, content, Noise.seeded(4))
    body = asked.finish(part, plan, released, lambda *_: None).to_json()
    assert len(body["noisy_gradients"]) == count
    # 0.1 mu = 2 (3 - 1): the sum leaves 1 to each.
    assert body["average_multipliers"][0] > 1
    assert plan.resources.memory_bytes < 1 << 30


def test_more_couplings_than_are_certified_are_refused() -> None:
    agents = [{"name": f"a{k}", "lower": 0, "upper": 1, "radius": 0.5} for k in range(300)]
    total = " + ".join(f"a{k}" for k in range(300))
    with pytest.raises(InvalidInput, match=f"more than {MOST_ENTRIES}"):
        problem(constraints=[f"({total})^2 - 10000"]).plan(public(agents=agents), BUDGET)
    with pytest.raises(ValidationError, match="500000"):
        problem(constraints=[total + " " * 98_000] * 6)


def test_the_sparse_split_is_that_of_all_pairs() -> None:
    generator = np.random.default_rng(3)
    dense = generator.uniform(0.1, 2, (7, 4)) * (generator.uniform(size=(7, 4)) < 0.5)
    radii = generator.uniform(0.1, 1, 4)
    row, column = np.nonzero(dense)
    found = sparse_split(radii, Moves(row, column, dense[row, column], 7), 0.7)
    assert found == pytest.approx(split(radii, dense, np.ones(7), 0.7).scales, rel=1e-6)
    assert joint_distance(radii, dense, found) <= 0.7 * (1 + 1e-12)
    assert joint_distance(radii, dense, found) == pytest.approx(0.7, rel=1e-9)
    with pytest.raises(InvalidArgument):
        sparse_split(radii, Moves(row, column, dense[row, column], 7), math.inf)
