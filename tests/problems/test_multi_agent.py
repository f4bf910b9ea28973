"""Multi-agent problems: joint sensitivity, what is refused, and that multipliers come near the
saddle point."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy import stats

from discreet.errors import InvalidInput
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.federation import ROUNDS_ARE_SEEN, Member
from discreet.problems.multi_agent.dataset import (
    MultiAgentContent,
    MultiAgentDataset,
    MultiAgentPublic,
)
from discreet.problems.multi_agent.problem import MultiAgent
from discreet.problems.multi_agent.session import STATE, grid_noise
from discreet.problems.numbers import Budget
from discreet.solvers.saddle.saddle_point import cloud_outputs, noise_width
from discreet_client.agent import multi_agent
from discreet_client.agent.rounds import Outcome, Round, Step
from discreet_client.federation import history, signing
from discreet_client.federation.errors import NotTrusted
from discreet_client.federation.identity import Identity

EPSILON, DELTA = 10**9, 10**15
SCHEDULE = {"gamma": 0.05, "alpha": 0.05, "c1": 0.34, "c2": 0.25, "iterations": 3000}
CONSTRAINTS = ["a + b - 4", "0.1 * a^2 + 0.1 * b^2 + 0.2 * c^2 - 2"]
OBJECTIVES = {"a": "(a - 3)^2", "b": "2 * (b - 4)^2", "c": "exp(0.5 * c)"}


def public(**values: Any) -> MultiAgentPublic:
    agents = [{"name": name, "lower": -1, "upper": 5, "radius": 0.5} for name in "abc"]
    return MultiAgentPublic.model_validate({"unit": "trajectory", "agents": agents, **values})


def problem(**values: Any) -> MultiAgent:
    fixed = {
        "kind": "multi_agent",
        "dataset": "dst_x",
        "constraints": CONSTRAINTS,
        "schedule": SCHEDULE,
    }
    return MultiAgent.model_validate({**fixed, **values})


def read(
    part: MultiAgentPublic, objectives: dict[str, str], initial: dict[str, float] | None = None
) -> Content:
    return MultiAgentDataset.read_rows(
        part, MultiAgentContent(objectives=objectives, initial=initial)
    )


@cache
def exact_outputs() -> tuple[Any, Any, Any, Any]:
    """Plan, form and outputs of the problem, and the outputs without their noise."""
    asked = problem()
    plan = asked.plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    form, outputs = asked.solver_form(plan, {})
    quiet = outputs._replace(
        scale=np.zeros_like(outputs.scale), noise=np.full_like(outputs.noise, -1), grid=0.0
    )
    return plan, form, outputs, quiet


@given(
    st.integers(0, 2),
    st.lists(st.floats(-1, 5), min_size=3, max_size=3),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
)
@settings(max_examples=80)
def test_all_outputs_together_move_by_at_most_one_unit(
    who: int, start: list[float], moves: list[float]
) -> None:
    """A trajectory of four steps, moved by the radius in l2: the whole transcript in units of the
    event moves by 1."""
    plan, form, outputs, exact = exact_outputs()
    norm = math.sqrt(sum(move * move for move in moves))
    unit = outputs.scale / plan.events[0].scale
    total = 0.0
    for move in moves:
        here = np.clip(start, form.lower, form.upper)
        there = here.copy()
        there[who] = np.clip(
            here[who] + (0.5 * move / norm if norm else 0.0), form.lower[who], form.upper[who]
        )
        values = [cloud_outputs(form, exact, states, []) for states in (here, there)]
        moved = np.abs(values[0] - values[1])
        assert (moved[unit == 0] < 1e-12).all()
        total += float(((moved[unit > 0] / unit[unit > 0]) ** 2).sum())
    assert total <= 1 + 1e-9
    assert plan.events[0].sensitivity == 1


def test_constant_derivatives_get_no_noise() -> None:
    """a + b - 4 has constant gradients; the third agent is in one constraint alone."""
    plan = problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert {noise.quantity.removesuffix(" in each step") for noise in plan.noise} == {
        "value of constraint 0",
        "value of constraint 1",
        "derivative of constraint 1 in a",
        "derivative of constraint 1 in b",
        "derivative of constraint 1 in c",
    }


def test_multipliers_come_near_the_saddle_point() -> None:
    """min (a-3)² + 2(b-4)² with a + b <= 4 has the multiplier 4; the other constraint is slack
    there."""
    part = public(agents=[{"name": name, "lower": 0, "upper": 5, "radius": 0.2} for name in "ab"])
    asked = problem(
        constraints=["a + b - 4", "a^2 + b^2 - 12"], schedule={**SCHEDULE, "iterations": 20_000}
    )
    plan = asked.plan(part, Budget(epsilon=2 * EPSILON, delta=DELTA))
    content = read(part, {"a": "(a - 3)^2", "b": "2 * (b - 4)^2"}, {"a": 0, "b": 0})
    noise = Noise.seeded(1)
    released = asked.release(part, plan, content, noise)
    body = asked.finish(part, plan, released, lambda *_: None).to_json()
    assert body["average_multipliers"] == pytest.approx([4, 0], abs=0.15)
    assert "state" not in body
    assert len(body["multiplier_path"]) == 100
    released |= asked.diagnose(part, plan, content, Noise.seeded(1))
    shown = asked.finish(part, plan, released, lambda *_: None).to_json()
    assert shown["multipliers"] == body["multipliers"]
    assert shown["average_state"] == pytest.approx({"a": 1, "b": 3}, abs=0.15)


def test_the_noise_is_that_of_the_plan() -> None:
    """One step from one state; spread of 4,000 releases, one deviation is 1 %."""
    part = public()
    asked = problem(schedule={**SCHEDULE, "iterations": 1})
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    content = read(part, OBJECTIVES)
    noise = Noise.seeded(3)
    draws = np.array([asked.release(part, plan, content, noise)["outputs"][0] for _ in range(4000)])
    spread = draws.std(axis=0)
    expected = [one.standard_deviation for one in plan.noise if "value" in one.quantity]
    assert spread[:2] == pytest.approx(expected, rel=0.06)
    assert sum(value > 0 for value in spread) == len(plan.noise)


def test_no_two_outputs_have_the_same_noise() -> None:
    """Neither of one step nor of two."""
    part, asked = public(), problem()
    (event,) = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA)).events
    assert isinstance(event, Gaussian)
    drawn = grid_noise(Noise.seeded(5), event, 8, 8)
    assert np.unique(drawn).size > 60


def test_the_states_are_in_nothing_that_is_released() -> None:
    part, asked = public(), problem(schedule={**SCHEDULE, "iterations": 5})
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    released = asked.release(part, plan, read(part, OBJECTIVES), Noise.secure())
    assert set(released) == {"steps", "multipliers", "outputs", "mean_multipliers", "mean_outputs"}


def test_more_noise_than_is_drawn_in_time_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that came to the limit would fail, and its objectives could decide whether."""
    plan = problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    draws = len(plan.noise) * SCHEDULE["iterations"]
    monkeypatch.setattr("discreet.problems.multi_agent.problem.DRAWS_A_SECOND", draws / 1800)
    assert problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA)).price
    monkeypatch.setattr("discreet.problems.multi_agent.problem.DRAWS_A_SECOND", draws / 1801)
    with pytest.raises(InvalidInput, match="more noise than is drawn") as refused:
        problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert refused.value.issues[0].pointer == "/problem/schedule/iterations"


def test_plans_of_sessions_name_what_durations_of_rounds_tell() -> None:
    asked = problem(dataset=None, protocol="federated", federation={"agents": 3})
    assert (
        ROUNDS_ARE_SEEN
        in asked.plan_federation((), Budget(epsilon=EPSILON, delta=DELTA)).assumptions
    )
    # In one process releases are padded instead.
    assert (
        ROUNDS_ARE_SEEN
        not in problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA)).assumptions
    )


def test_the_radius_that_hides_everything_is_named() -> None:
    plan = problem().plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert any("needs its width times 54.77" in sentence for sentence in plan.assumptions)
    wide = public(
        agents=[{"name": name, "lower": -1, "upper": 5, "radius": 6 * 3000**0.5} for name in "abc"]
    )
    assert any(
        "all of a trajectory is hidden" in s
        for s in problem().plan(wide, Budget(epsilon=EPSILON, delta=DELTA)).assumptions
    )


class Given(Noise):
    """Hands out integers that were drawn before, in their order."""

    def __init__(self, drawn: Any) -> None:
        super().__init__(bytes)
        self._drawn = iter(drawn.ravel().tolist())

    def discrete_gaussian(self, scale: float, size: Any) -> Any:
        count = int(np.prod(size))
        return np.array([next(self._drawn) for _ in range(count)]).reshape(size)


@pytest.mark.parametrize("missing", [False, True])
def test_federated_agents_go_the_same_way_for_the_same_noise(missing: bool) -> None:
    """The cloud's session and the client's own steps against the compiled loop, 200 steps of three
    agents."""
    schedule = {**SCHEDULE, "iterations": 200}
    terms = {"agents": 3, "quorum": 2, "on_missing": "finish"}
    asked = problem(dataset=None, protocol="federated", federation=terms, schedule=schedule)
    figures = [figure.model_dump() for figure in public().agents]
    keys = {one["name"]: Identity.generate() for one in figures}
    members = [
        Member(keys[name].fingerprint, name, keys[name].public_key, one)
        for name, one in ((one.pop("name"), one) for one in figures)
    ]
    plan = asked.plan_federation(members, Budget(epsilon=EPSILON, delta=DELTA))
    assert plan.resources.steps == 201  # the agents sign at last what they were shown
    first = asked.plan_federation((), Budget(epsilon=EPSILON, delta=DELTA)).total
    assert (first.epsilon, first.delta) == (plan.total.epsilon, plan.total.delta)
    _, outputs = asked.solver_form(plan, {})
    width = noise_width(outputs)
    drawn = np.random.default_rng(8).integers(-(2**20), 2**20, (200, width))

    session = asked.open_session(plan, members)
    agents = {
        one.name: InProcess(keys[one.name], roster_of(members), plan.parameters) for one in members
    }
    slopes = {
        "a": lambda x: 2 * (x - 3),
        "b": lambda x: 4 * (x - 4),
        "c": lambda x: 0.5 * math.exp(0.5 * x),
    }
    steps = {name: multi_agent.step_of(slope, 1.0) for name, slope in slopes.items()}
    given_noise = Given(drawn)
    broadcast = session.opening(given_noise)
    for number in range(session.rounds):
        messages = {}
        for one in members:
            messages[one.fingerprint] = agents[one.name].answer(
                number, session.rounds, broadcast, steps[one.name]
            )
            assert session.accepts(number, one.fingerprint, messages[one.fingerprint])
        if missing and number == 5:  # the cloud goes on without its state
            del messages[members[0].fingerprint]
        broadcast = session.step(number, messages, given_noise)
        if number == 120:
            again = asked.open_session(plan, members)
            again.restore(session.state())
            session = again
    found = {name: agents[name].ended(broadcast, slope) for name, slope in slopes.items()}
    assert all(one.unsigned == () for one in found.values())
    assert len({one.history for one in found.values()}) == 1
    released = session.released()
    assert "states" not in released

    job = problem(schedule=schedule)
    job_plan = job.plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert job_plan.parameters == plan.parameters
    content = read(public(), OBJECTIVES, dict.fromkeys("abc", 1.0))
    alone = job.release(public(), job_plan, content, Given(drawn))
    if missing:
        assert np.abs(released["multipliers"][:2] - alone["multipliers"][:2]).max() < 1e-9
        assert np.abs(released["outputs"] - alone["outputs"]).max() > 1e-9
    else:
        for name, array in alone.items():
            assert released[name] == pytest.approx(array, abs=1e-9)
    body = json.loads(json.dumps(asked.finish(None, plan, released, lambda *_: None).to_json()))
    assert body["multipliers"] == list(found["a"].multipliers)
    roster = json.dumps(roster_of(members), sort_keys=True).encode()
    certificate = {"federation": {"roster": signing.digest(roster).hex()}}
    assert history.unsigned_of_result(body["agreement"], certificate, roster) == []
    for lie in ({"history": "00" * 32}, {"signatures": {}}):
        signed = history.unsigned_of_result({**body["agreement"], **lie}, certificate, roster)
        assert signed == [one.fingerprint for one in members]
    with pytest.raises(NotTrusted, match="another roster"):
        history.unsigned_of_result(body["agreement"], certificate, roster + b" ")


def roster_of(members: list[Member]) -> dict[str, Any]:
    return {
        "agents": [
            {
                "fingerprint": one.fingerprint,
                "name": one.name,
                "key": base64.b64encode(one.key).decode(),
                "announcement": one.announcement,
            }
            for one in members
        ]
    }


class InProcess:
    """An agent that is handed its rounds one by one."""

    journal_path = None

    def __init__(
        self, identity: Identity, roster: dict[str, Any], parameters: dict[str, Any]
    ) -> None:
        self.identity, self.roster, self._parameters = identity, roster, parameters
        self.roster_digest = signing.digest(json.dumps(roster, sort_keys=True).encode())
        self._state = b""

    @property
    def announcement(self) -> dict[str, Any]:
        by_key = {one["fingerprint"]: one["announcement"] for one in self.roster["agents"]}
        return dict(by_key[self.identity.fingerprint])

    def answer(self, number: int, rounds: int, broadcast: bytes, step: Step) -> bytes:
        current = Round(
            number,
            rounds,
            broadcast,
            self._state,
            9.0,
            self.identity.fingerprint,
            self.roster,
            self._parameters,
            b"",
            self.roster_digest,
            identity=self.identity,
        )
        sent = step(current)
        self._state = current.state
        return sent

    def participate(self, step: Step) -> Outcome:
        return Outcome("succeeded", "", 0, self._last, b"", self._state)

    def ended(self, broadcast: bytes, slope: Callable[[float], float]) -> multi_agent.Minimum:
        self._last = broadcast
        return multi_agent.minimize(self, slope)


class Cloud:
    """A small session, whose broadcasts may be told to each agent in another way."""

    def __init__(self) -> None:
        asked, plan, members, drawn = short_session()
        self.keys = [Identity.generate() for _ in members]
        pairs = zip(members, self.keys, strict=True)
        self.members = [
            Member(key.fingerprint, one.name, key.public_key, one.announcement)
            for one, key in pairs
        ]
        self.session, self.noise = asked.open_session(plan, self.members), Given(drawn)
        roster = roster_of(self.members)
        self.agents = [InProcess(key, roster, plan.parameters) for key in self.keys]
        self.step = multi_agent.step_of(lambda x: 2 * x)

    def run(
        self, told: Callable[[int, int, bytes], bytes], absent: tuple[tuple[int, int], ...] = ()
    ) -> bytes:
        """The last broadcast. `told` makes of (agent, round, broadcast) what that agent hears."""
        broadcast = self.session.opening(self.noise)
        for number in range(self.session.rounds):
            messages = {}
            for place, agent in enumerate(self.agents):
                if (place, number) not in absent:
                    heard = told(place, number, broadcast)
                    messages[agent.identity.fingerprint] = agent.answer(
                        number, self.session.rounds, heard, self.step
                    )
            broadcast = self.session.step(number, messages, self.noise)
        return broadcast


def test_a_cloud_that_tells_agents_different_things_is_found_out() -> None:
    """In the next round by the one that was told something else, unless it is told something else
    for ever; then by all others at the end, and by itself."""

    def once(agent: int, number: int, broadcast: bytes) -> bytes:
        return (
            broadcast[:-1] + bytes([broadcast[-1] ^ 1]) if (agent, number) == (0, 2) else broadcast
        )

    with pytest.raises(NotTrusted, match="does not follow"):
        Cloud().run(once)

    chain, heard = history.BEGINNING, b""

    def always(agent: int, number: int, broadcast: bytes) -> bytes:
        nonlocal chain, heard
        if agent != 0:
            return broadcast
        heard = other = chain + broadcast[32:-1] + bytes([broadcast[-1] ^ (number == 2)])
        chain = history.after(other)
        return other

    cloud = Cloud()
    last = cloud.run(always)
    deceived, *others = cloud.agents
    with pytest.raises(NotTrusted, match="does not follow"):
        deceived.ended(last, lambda x: 2 * x)
    for one in others:
        assert one.ended(last, lambda x: 2 * x).unsigned == (deceived.identity.fingerprint,)
    shown = deceived.ended(
        heard + last[len(heard) :], lambda x: 2 * x
    )  # its own end, with the signatures of all
    assert set(shown.unsigned) == {one.identity.fingerprint for one in others}


def test_agents_that_missed_rounds_sign_what_all_were_shown() -> None:
    cloud = Cloud()
    absent = ((0, 1), (0, 2), (1, cloud.session.rounds - 1))
    last = cloud.run(lambda agent, number, broadcast: broadcast, absent)
    late = cloud.agents[1]
    for one in cloud.agents:
        found = one.ended(last, lambda x: 2 * x)
        assert found.unsigned == (
            late.identity.fingerprint,
        )  # it was not there to sign, and knows the end
        assert found.history == history.after(last[: len(last) - 2 * 96]).hex()


@pytest.mark.parametrize("garbage", [b"", b"short", bytes(40), bytes(32 + 8 * 3 + 95)])
def test_a_last_broadcast_that_cannot_be_read_is_not_believed(garbage: bytes) -> None:
    cloud = Cloud()
    cloud.run(lambda agent, number, broadcast: broadcast)
    with pytest.raises(NotTrusted):
        cloud.agents[0].ended(garbage, lambda x: 2 * x)


@pytest.mark.parametrize("restored", [False, True])
def test_a_missing_agent_shows_its_last_state_to_nobody(restored: bool) -> None:
    """Two agents that stood at the far ends of their range in round 0 and are missing then: same
    noise, same answers, in the same session and in one that was taken up again.

    A state that is used again in every round would move the transcript by its distance once a
    round, and the price is that of a trajectory whose l2 distance counts it once.
    """
    asked, plan, members, drawn = short_session()
    answers = []
    for stood in (-1.0, 3.0):
        session, noise = asked.open_session(plan, members), Given(drawn)
        session.opening(noise)
        session.step(0, {"a": STATE.pack(stood), "b": STATE.pack(1.0), "c": STATE.pack(1.0)}, noise)
        if restored:
            again = asked.open_session(plan, members)
            again.restore(session.state())
            session = again
        others = {"b": STATE.pack(1.0), "c": STATE.pack(1.0)}
        # Behind the noised outputs an answer has the multipliers, which go on from those of round
        # 0.
        answers.append(
            [
                session.step(number, others, noise)[32 : -8 * len(CONSTRAINTS)]
                for number in (1, 2, 3)
            ]
        )
    assert answers[0] == answers[1]


def test_a_state_outside_of_its_range_counts_as_its_end() -> None:
    """The noise is for states in their ranges, whatever agents send."""
    asked, plan, members, drawn = short_session()
    ends = {name: (low, high) for name, low, high in plan.parameters["box"]}
    answers = []
    for low, high in ((-1e300, 1e300), (ends["a"][0], ends["b"][1])):
        session, noise = asked.open_session(plan, members), Given(drawn)
        session.opening(noise)
        sent = {"a": STATE.pack(low), "b": STATE.pack(high), "c": STATE.pack(1.0)}
        answers.append([session.step(number, sent, noise) for number in range(4)])
    assert answers[0] == answers[1]


def short_session() -> Any:
    """A federated problem of four rounds, its plan, its members a, b and c, and noise for all
    rounds."""
    terms = {"agents": 3, "quorum": 2, "on_missing": "finish"}
    asked = problem(
        dataset=None, protocol="federated", federation=terms, schedule={**SCHEDULE, "iterations": 4}
    )
    figures = [figure.model_dump() for figure in public().agents]
    members = [Member(one["name"], one.pop("name"), bytes(32), one) for one in figures]
    plan = asked.plan_federation(members, Budget(epsilon=EPSILON, delta=DELTA))
    _, outputs = asked.solver_form(plan, {})
    return (
        asked,
        plan,
        members,
        np.random.default_rng(8).integers(-(2**20), 2**20, (4, noise_width(outputs))),
    )


@pytest.mark.parametrize(
    "constraints",
    [
        [
            "0.000000001*a + 0.000000005 - 1e8"
        ],  # a step function of a in doubles, with its step in the range
        [
            "a + 1e9 - a - 1e9 - 1",
            "a + b - 4",
        ],  # of no slope, so without noise, and yet not constant
        ["exp(1e-12*a) - 2"],
    ],
)
def test_constraints_that_floating_point_turns_into_steps_are_refused(
    constraints: list[str],
) -> None:
    """With the first one, served with noise of 4e-11, states 2.4499 and 2.451 gave outputs 1.5e-8
    apart, always."""
    part = public(agents=[{"name": name, "lower": -1, "upper": 5, "radius": 0.01} for name in "ab"])
    with pytest.raises(InvalidInput, match="exactly enough") as refused:
        problem(constraints=constraints).plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    assert refused.value.issues[0].pointer == "/problem/constraints/0"


def test_an_objective_that_a_release_could_not_read_is_refused_when_it_is_registered() -> None:
    """As it is kept it is longer than as it came: 1e9 is 1000000000. Every job on it would have
    failed."""
    with pytest.raises(InvalidInput, match="characters") as refused:
        read(public(), {"a": "a" + "+1e9" * 999})
    assert refused.value.issues[0].pointer == "/content/objectives/a"


def test_objectives_too_large_to_compile_together_are_refused_when_they_are_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A release would fail of them (44 agents can do that with 4,000 characters each), and so tell
    what is in them."""
    most = {name: " + ".join(f"({name} + {k})^63" for k in range(1, 4)) for name in "abc"}
    content = read(public(), most)
    asked = problem()
    form, _ = asked.solver_form(asked.plan(public(), Budget(epsilon=EPSILON, delta=DELTA)), {})
    for module in ("dataset", "joint_noise"):
        monkeypatch.setattr(
            f"discreet.problems.multi_agent.{module}.MAX_PROGRAM", form.program.code.size
        )
    assert asked.plan(public(), Budget(epsilon=EPSILON, delta=DELTA)).price
    with pytest.raises(InvalidInput, match="too large") as refused:
        read(public(), most)
    assert refused.value.issues[0].pointer == "/content/objectives"
    monkeypatch.setattr(
        "discreet.problems.multi_agent.joint_noise.MAX_PROGRAM", form.program.code.size - 1
    )
    with pytest.raises(InvalidInput, match="too large"):
        asked.plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert content["objectives"].size == 3


@pytest.mark.parametrize(
    ("announcement", "pointer"),
    [
        ({}, "/lower"),
        ({"lower": 0, "upper": 0, "radius": 1}, "/lower"),
        ({"lower": 0, "upper": 1, "radius": 0}, "/radius"),
        ({"lower": 0, "upper": 1, "radius": 1, "more": 1}, "/more"),
        ("nothing", ""),
    ],
)
def test_announcements_are_refused_by_field(announcement: Any, pointer: str) -> None:
    asked = problem(dataset=None, protocol="federated", federation={"agents": 2})
    with pytest.raises(InvalidInput) as refused:
        asked.check_announcement(announcement)
    assert refused.value.issues[0].pointer == pointer


def test_a_session_needs_the_agents_that_constraints_name() -> None:
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    with pytest.raises(InvalidInput, match="3 agents are named"):
        problem(dataset=None, protocol="federated", federation={"agents": 2}).plan_federation(
            (), budget
        )
    asked = problem(dataset=None, protocol="federated", federation={"agents": 3})
    strangers = [
        Member(name, name, bytes(32), {"lower": 0, "upper": 5, "radius": 1})
        for name in ("a", "b", "z")
    ]
    with pytest.raises(InvalidInput) as refused:
        asked.plan_federation(strangers, budget)
    assert refused.value.issues[0].pointer == "/problem/constraints/1"
    for fields in ({"dataset": "dst_x", "protocol": "federated"}, {"dataset": None}):
        with pytest.raises(ValidationError):
            problem(**{"federation": {"agents": 3}, **fields})


def test_tables_and_bodies_are_the_same_dataset() -> None:
    part = public()
    first = read(part, OBJECTIVES, {"a": 1, "b": 2, "c": 0})
    table = pa.table(
        {
            "agent": ["c", "a", "b"],
            "objective": [OBJECTIVES[name] for name in "cab"],
            "initial": [0.0, 1.0, 2.0],
        }
    )
    second = MultiAgentDataset.read_table(part, table)
    assert b"".join(canonical_bytes(first)) == b"".join(canonical_bytes(second))


@pytest.mark.parametrize(
    ("objectives", "initial", "pointer"),
    [
        ({"a": "b^2"}, None, "/content/objectives/a"),
        ({"a": "-a^2"}, None, "/content/objectives/a"),
        ({"a": "a +"}, None, "/content/objectives/a"),
        ({"a": "__import__('os')"}, None, "/content/objectives/a"),
        ({"a": "a^a"}, None, "/content/objectives/a"),
        ({"a": "(" * 500 + "a" + ")" * 500}, None, "/content/objectives/a"),
        ({"d": "d^2"}, None, "/content/objectives/d"),
        ({"a": "a^2"}, {"d": 1}, "/content/initial/d"),
        ({"a": "a"}, {"a": 9}, "/content/initial/a"),
    ],
)
def test_content_is_refused_by_place(objectives: Any, initial: Any, pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(public(), objectives, initial)
    assert pointer in {issue.pointer for issue in refused.value.issues}


@pytest.mark.parametrize(
    ("values", "pointer"),
    [
        ({"constraints": ["4 - a^2"]}, "/problem/constraints/0"),
        ({"constraints": ["a - 1", "a * b"]}, "/problem/constraints/1"),
        ({"constraints": ["d - 1"]}, "/problem/constraints/0"),
        ({"constraints": ["a + "]}, "/problem/constraints/0"),
        ({"constraints": ["a^2"]}, "/problem/constraints"),
        ({"constraints": ["1 - 2"]}, "/problem/constraints"),
        ({"constraints": ["9^9^9^9 * a - 1"]}, "/problem/constraints/0"),
        ({}, "/privacy/delta"),
    ],
)
def test_plans_are_refused_by_field(values: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        problem(**values).plan(public(), Budget(epsilon=EPSILON, delta=0))
    assert pointer in {issue.pointer for issue in refused.value.issues}


@pytest.mark.parametrize(
    "schedule",
    [
        {"c1": 0.2, "c2": 0.25},
        {"c1": 0.8, "c2": 0.3},
        {"iterations": 0},
        {"gamma": 0},
        {"alpha": -1},
    ],
)
def test_schedules_that_need_not_converge_are_refused(schedule: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        problem(schedule={**SCHEDULE, **schedule})


@pytest.mark.parametrize(
    "agents",
    [
        [
            {"name": "a", "lower": 0, "upper": 0, "radius": 1},
            {"name": "b", "lower": 0, "upper": 1, "radius": 1},
        ],
        [{"name": "a", "lower": 0, "upper": 1, "radius": 1}] * 2,
        [{"name": "a", "lower": 0, "upper": 1, "radius": 1}],
        [
            {"name": "a", "lower": 0, "radius": 1},
            {"name": "b", "lower": 0, "upper": 1, "radius": 1},
        ],
    ],
)
def test_agents_without_a_range_or_a_name_of_their_own_are_refused(
    agents: list[dict[str, Any]],
) -> None:
    with pytest.raises(ValidationError):
        public(agents=agents)


# How far the noise moves it -----------------------------------------------------------------------


def test_intervals_of_values_hold_them_as_often_as_they_say() -> None:
    """Constraints that are affine: their mean values are those of the mean states."""
    part = public()
    asked = problem(
        constraints=["a + b - 4", "2 * c - b - 8"], schedule={**SCHEDULE, "iterations": 50}
    )
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    content = read(part, OBJECTIVES)
    held = []
    for seed in range(400):
        released = asked.release(part, plan, content, Noise.seeded(seed))
        shown = asked.finish(part, plan, released, lambda *_: None).to_json()
        a, b, c = asked.diagnose(part, plan, content, Noise.seeded(seed))["true_mean_states"]
        ends = shown["uncertainty"]["values"]["noisy_values"]
        true = [a + b - 4, 2 * c - b - 8]
        held += [
            low <= one <= high
            for low, one, high in zip(ends["lower"], true, ends["upper"], strict=True)
        ]
        assert shown["uncertainty"]["values"].keys() == {"noisy_values"}
    # Both constraints have noise of their own; two bounds of 5e-10 each.
    assert stats.binom.ppf(5e-10, 800, 0.9) <= sum(held) <= stats.binom.isf(5e-10, 800, 0.9)


def test_values_that_could_be_anything_are_called_noise() -> None:
    part = public()
    told, widths = [], []
    for epsilon in (EPSILON // 1000, EPSILON, 30 * EPSILON):
        asked = problem(schedule={**SCHEDULE, "iterations": 20})
        plan = asked.plan(part, Budget(epsilon=epsilon, delta=10**10))
        content = read(part, OBJECTIVES)
        released = asked.release(part, plan, content, Noise.seeded(2))
        shown = asked.finish(part, plan, released, lambda *_: None).to_json()
        told.append(shown["uncertainty"]["mostly_noise"])
        (expected,) = asked.expected(part, plan, 0.9)
        widths.append(expected.within)
        assert expected.sentence in plan.advice
        silent = (
            asked.model_copy(update={"uncertainty": False})
            .finish(part, plan, released, lambda *_: None)
            .to_json()
        )
        assert silent == {name: one for name, one in shown.items() if name != "uncertainty"}
    assert told == [True, False, False]
    assert math.isinf(widths[0])
    assert widths[1] > widths[2] > 0
    low, high = -6.0, 6.0  # a + b - 4 where a and b are from -1 to 5
    ends = shown["uncertainty"]["values"]["noisy_values"]
    assert low <= ends["lower"][0] <= shown["noisy_values"][0] <= ends["upper"][0] <= high
