"""Coupled quadratic programs in one process: the paper's optimum, CVXPY, what is refused, noise and
its price."""

from __future__ import annotations

import base64
import copy
import hashlib
import importlib.util
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from numpy.typing import NDArray
from pydantic import ValidationError

from discreet.errors import Exposed, InvalidInput
from discreet.privacy.noise import Noise
from discreet.privacy.units import Price
from discreet.problems.contents import pack, unpack
from discreet.problems.coupled_qp import exposure
from discreet.problems.coupled_qp.checks import steps_of
from discreet.problems.coupled_qp.data import part_of
from discreet.problems.coupled_qp.exposure import USEFUL_NOISE
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet.problems.federation import Member, SessionFailed
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Plan
from discreet.solvers.saddle.spds import solve
from discreet_client import secure_sum
from discreet_client.agent import coupled_qp as agents_part
from discreet_client.convex_sets import Box
from discreet_client.costs import QuadraticCost
from discreet_client.federation.errors import AgentError
from discreet_client.packing import OutOfRange
from discreet_client.secure_sum import Parameters
from discreet_client.updates import Rounds
from tests.conftest import first_of
from tests.solvers.test_spds import MULTIPLIERS, OBJECTIVE, OPTIMUM, TOLERANCE, by_cvxpy, paper

Floats = NDArray[np.float64]
ROOT = Path(__file__).parents[2]


def spec(**changes: Any) -> dict[str, Any]:
    """The paper's example with fields replaced; `steps__iterations=3` is a field of steps."""
    body: dict[str, Any] = copy.deepcopy(CoupledQp.example()["problem"])
    for name, value in changes.items():
        here, *rest = name.split("__")
        if rest:
            body.setdefault(here, {})[rest[0]] = value
        else:
            body[here] = value
    return body


def planned(body: dict[str, Any]) -> tuple[CoupledQp, Plan]:
    problem = CoupledQp.model_validate(body)
    return problem, problem.plan(None, problem.budget(None))


def run(body: dict[str, Any]) -> dict[str, Any]:
    problem, plan = planned(body)
    return problem.finish(
        None, plan, problem.release(None, plan, {}, Noise.secure()), lambda *step: None
    ).to_json()


# What comes out -----------------------------------------------------------------------------------


def test_the_papers_example_comes_to_its_optimum() -> None:
    result = run(spec())
    assert np.concatenate(result["x"]) == pytest.approx(np.concatenate(OPTIMUM), abs=TOLERANCE)
    assert result["multipliers"] == pytest.approx(MULTIPLIERS, abs=TOLERANCE)
    assert result["objective"] == pytest.approx(OBJECTIVE, abs=TOLERANCE)
    assert result["violation"] == max(result["violations"]) < TOLERANCE
    assert len(result["violations"]) == 2
    assert result["rounds"] == 202, "two more tell whether it has settled"


@pytest.mark.parametrize("scheme", ["masking", "paillier"])
def test_the_encrypted_run_is_the_plaintext_run(scheme: str) -> None:
    """200 rounds with keys of 2048 bits; the plaintext twin knows neither rounding nor keys."""
    body = spec(encryption={"scheme": scheme, "key_bits": 2048})
    problem, _ = planned(body)
    parts, c, d = paper()
    assert problem.steps is not None
    plain = solve(parts, c, d, steps=steps_of(problem.steps, parts), iterations=200)
    result = run(body)
    ours, twin = (
        np.concatenate([*result["x"], result["multipliers"]]),
        np.concatenate([*plain.x, plain.multipliers]),
    )
    assert float(np.max(np.abs(ours - twin))) < 1e-8
    assert result["bytes_sent"] > 0


def random_instance(seed: int) -> dict[str, Any]:
    """A feasible one: d leaves room around a point of the boxes."""
    random = np.random.default_rng(seed)
    n, m_u, m_g = int(random.integers(3, 7)), int(random.integers(1, 4)), int(random.integers(1, 4))
    agents, slack = [], np.zeros(m_g)
    for _ in range(n):
        k = int(random.integers(1, 4))
        A_u, A_g, A_q = (random.normal(size=(rows, k)) for rows in (m_u, m_g, k))
        A_u, A_g, A_q = A_u / 2, A_g / 2, A_q / 4 + 1.5 * np.eye(k)
        lower = -random.uniform(0, 2, k)
        upper = random.uniform(0.5, 2, k)
        slack += A_g @ random.uniform(lower, upper)
        agents.append(
            {
                "A_u": A_u.tolist(),
                "A_g": A_g.tolist(),
                "A_q": A_q.tolist(),
                "a_l": (3 * random.normal(size=k)).tolist(),
                "lower": lower.tolist(),
                "upper": upper.tolist(),
            }
        )
    return {
        "kind": "coupled_qp",
        "mode": "simulation",
        "operator": {"c": random.normal(size=m_u).tolist(), "d": (-slack - 0.1).tolist()},
        "agents": agents,
        "steps": {"iterations": 600},
        "encryption": {"scheme": "masking"},
    }


@pytest.mark.parametrize("seed", first_of([1, 0, 2, 3]))
def test_random_instances_against_cvxpy(seed: int) -> None:
    """With steps from the problem's constants."""
    body = random_instance(seed)
    result = run(body)
    problem, _ = planned(body)
    parts = [part_of(agent) for agent in problem._data()]
    x, objective = by_cvxpy(parts, np.array(body["operator"]["c"]), np.array(body["operator"]["d"]))
    assert np.concatenate(result["x"]) == pytest.approx(x, abs=2e-4)
    assert result["objective"] == pytest.approx(objective, abs=1e-4)


@pytest.mark.long
def test_vehicles_fill_the_valley() -> None:
    """examples/ev_charging.py with twelve vehicles: the limit of the feeder holds, and the cost is
    that of CVXPY."""
    where = importlib.util.spec_from_file_location(
        "ev_charging", ROOT / "examples" / "ev_charging.py"
    )
    assert where is not None
    assert where.loader is not None
    example = importlib.util.module_from_spec(where)
    where.loader.exec_module(example)
    body = example.job(12, iterations=400)["problem"]
    assert CoupledQp.model_validate(json.loads(json.dumps(body))).encryption.scheme == "paillier"
    result = run({**body, "encryption": {"scheme": "masking"}})
    x = np.array(result["x"])
    load = np.array(example.BASELINE_KW) + x.mean(axis=0)
    assert load.max() < example.LIMIT_KW + 2e-3
    parts = [part_of(agent) for agent in CoupledQp.model_validate(body)._data()]
    _, objective = by_cvxpy(parts, np.array(body["operator"]["c"]), np.array(body["operator"]["d"]))
    assert result["objective"] == pytest.approx(objective, rel=1e-3)


def charged(vehicles: int = 4, hours: int = 6) -> dict[str, Any]:
    """Vehicles that need so much energy by the morning, no less and little more, below a limit of
    the feeder that binds; one may also give some back before."""
    random = np.random.default_rng(7)
    share = (0.1 / vehicles) ** 0.5
    baseline = 1.5 + np.cos(2 * np.pi * np.arange(hours) / hours)
    needs = random.uniform(4, 9, vehicles)
    agents = [
        {
            "A_u": (share * np.eye(hours)).tolist(),
            "A_g": (np.eye(hours) / vehicles).tolist(),
            "A_q": (0.05**0.5 * np.eye(hours)).tolist(),
            "a_l": [0.0] * hours,
            "lower": -1.0 if place == 0 else 0.0,
            "upper": 3.7,
            "budget": {"lower": need, "upper": need + 0.5 * (place == 1)},
        }
        for place, need in enumerate(needs.tolist())
    ]
    return {
        "kind": "coupled_qp",
        "mode": "simulation",
        "operator": {
            "c": (share * vehicles * baseline).tolist(),
            "d": (baseline - 2.9).tolist(),
        },
        "agents": agents,
        "encryption": {"scheme": "masking"},
    }


@pytest.mark.parametrize("steps", first_of([None, {"iterations": 1500}]), ids=["auto", "spds"])
def test_every_vehicle_has_its_energy_by_the_morning(steps: dict[str, Any] | None) -> None:
    """A budget of what an agent's hours sum to is kept as a constraint, by both methods."""
    body = charged() | ({} if steps is None else {"steps": steps})
    result = run(body)
    x = np.array(result["x"])
    for one, agent in zip(x, body["agents"], strict=True):
        assert agent["budget"]["lower"] - 1e-9 <= one.sum() <= agent["budget"]["upper"] + 1e-9
    assert result["status"] == "converged"
    problem, _ = planned(body)
    operator = (np.array(body["operator"][name]) for name in ("c", "d"))
    best, objective = by_cvxpy(problem.plain_parts(), *operator)
    assert result["objective"] == pytest.approx(objective, rel=1e-4)
    assert np.concatenate(x) == pytest.approx(best, abs=0.02)
    assert result["violation"] < 1e-3
    assert max(result["multipliers"]) > 0.01, "the limit binds"
    without = run({**body, "agents": [{**one, "budget": None} for one in body["agents"]]})
    assert np.sum(without["x"]) < 0, "what nobody must charge is not charged"


def test_budgets_that_cannot_be_kept_are_refused_by_place() -> None:
    body = charged()
    first, *rest = body["agents"]
    cases: list[tuple[dict[str, Any], str, str]] = [
        ({"budget": {"lower": 23, "upper": 24}}, "/problem/agents/0/budget", "from -6 to 22.2"),
        (
            {"budget": {"lower": 3, "upper": 2}},
            "/problem/agents/0/budget",
            "lower <= upper, not 3 and 2",
        ),
        # Each alone may have it; all together are above the feeder's limit.
        (
            {"budget": {"lower": 22, "upper": 22}},
            "/problem/operator/d/0",
            "budgets and polytopes allow",
        ),
    ]
    for change, pointer, says in cases:
        with pytest.raises(InvalidInput) as refused:
            planned({**body, "agents": [{**first, **change}, *rest]})
        assert refused.value.issues[0].pointer == pointer
        assert says in refused.value.issues[0].detail
    with pytest.raises(InvalidInput) as refused:
        planned({**body, "steps": {"primal": 0.1, "dual": 1, "shrink": 0.9, "iterations": 5}})
    assert refused.value.issues[0].pointer == "/problem/steps/shrink"
    bounds = {"reach": 4, "price": 1, "least_curvature": 0.1, "most_curvature": 0.1}
    shared = {"protocol": "mpc", "encryption": {}, "mpc": bounds}
    with pytest.raises(ValidationError, match=r"give `mpc\.iterations`"):
        CoupledQp.model_validate({**body, **shared})


def test_the_section_of_the_certificate() -> None:
    problem, plan = planned(
        spec(steps__iterations=3, encryption={"scheme": "paillier", "key_bits": 2048})
    )
    result = problem.finish(
        None, plan, problem.release(None, plan, {}, Noise.secure()), lambda *step: None
    ).to_json()
    section = problem.evidence(plan, json.dumps(result).encode())
    assert section["protocol"] == "discreet/secure-sum/v2"
    assert (section["scheme"], section["key_bits"], section["agents"], section["rounds"]) == (
        "paillier",
        2048,
        3,
        5,
    )
    assert section["reveals"]["operator"].endswith("no value")
    assert section["transcript"] == result["transcript"]
    assert len(bytes.fromhex(result["transcript"])) == 32


# What is refused ----------------------------------------------------------------------------------


def agents(count: int, **changes: Any) -> list[dict[str, Any]]:
    """Copies of the paper's first agent."""
    return [{**spec()["agents"][0], **changes} for _ in range(count)]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"agents": spec()["agents"][:2], "steps__primal": 0.1}, "/problem/agents", "fewer than three"),
    (
        {"encryption": {"key_bits": 1024}},
        "/problem/encryption/key_bits",
        "2048 to 8192 bits.* found 1024",
    ),
    ({"encryption": {"key_bits": 2050}}, "/problem/encryption/key_bits", "multiple of 16"),
    (
        {"encryption": {"slot_bits": 32, "fraction_bits": 28}},
        "/problem/encryption/slot_bits",
        "need 35 bits; a slot has 32",
    ),
    (
        {"encryption": {"scheme": "masking", "slot_bits": 56}},
        "/problem/encryption/slot_bits",
        "modulo 2",
    ),
    (
        {"encryption": {"colluding": 2}},
        "/problem/encryption/colluding",
        "1 to 1 may collude, not 2",
    ),
    ({"operator__c": [1, 1e12]}, "/problem/encryption/slot_bits", "whatever the data"),
    (
        {"operator": {"c": [1, 1], "d": [-1, 3.1]}},
        "/problem/operator/d/1",
        "no x that the agents' boxes",
    ),
    (
        {"operator": {"c": [1], "d": [-1, 1]}},
        "/problem/agents/0/A_u",
        "2 rows, but there are 1 entries",
    ),
    ({"operator": {"c": [], "d": []}}, "/problem/operator", "1 to 16384 entries"),
    ({"steps__primal": [0.1, 0.1]}, "/problem/steps/primal", "2 step sizes for 3 agents"),
    ({"steps": {"primal": 0.1, "iterations": 5}}, "/problem/steps", "together or not at all"),
    ({"steps__iterations": 100_000, "encryption": {}}, "/problem/steps/iterations", "at most 600"),
    ({"mode": "private"}, "/problem/mode", "simulation"),
    (
        {"agents": {"count": 3, "coupled": 2, "constraints": 2}},
        "/problem/agents",
        "data are needed",
    ),
    ({"agents": agents(3, a_l=[1, 1, 1])}, "/problem/agents/0/A_u/0", "2 columns, but a_l has 3"),
    ({"agents": agents(3, upper=[1])}, "/problem/agents/0/upper", "1 entries for 2 variables"),
    ({"agents": agents(3, lower=[0, 2])}, "/problem/agents/0/lower/1", "lower 2 is above upper 1"),
    (
        {"agents": agents(3, A_g=[[0, 1]])},
        "/problem/agents/0/A_g",
        "1 rows, but there are 2 entries of operator.d",
    ),
]


@pytest.mark.parametrize(
    ("changes", "pointer", "says"), REFUSED, ids=[pointer for _, pointer, _ in REFUSED]
)
def test_bad_input_is_refused_by_place(changes: dict[str, Any], pointer: str, says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        planned(spec(**changes))
    assert refused.value.issues[0].pointer == pointer
    assert re.search(says, refused.value.issues[0].detail)


@pytest.mark.parametrize(
    "changes",
    [
        {"encryption": {"scheme": "rot13"}},
        {"steps__iterations": 0},
        {"steps__shrink": 1.5},
        {"agents": agents(3, upper=[math.inf, 1])},
        {"agents": agents(3, a_l=[])},
        {"noise": {"epsilon": 1, "delta": 0}},
    ],
)
def test_fields_out_of_range_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        CoupledQp.model_validate(spec(**changes))


def test_a_request_has_no_privacy() -> None:
    problem = CoupledQp.model_validate(spec())
    with pytest.raises(InvalidInput, match="leave privacy out") as refused:
        problem.budget(Privacy.model_validate({"epsilon": 1}))
    assert refused.value.issues[0].pointer == "/privacy"


def test_slots_hold_whatever_the_boxes_allow() -> None:
    """The bound comes from boxes and coefficients: no x can leave it, and a box a little larger is
    refused at once."""
    # Four summands, the operator's included; the largest row of A_u of the second agent is 10.
    widest = 2.0**31 / 4 / 10
    _, plan = planned(spec(**_upper(widest * 0.999)))
    Parameters(**plan.parameters["sums"]).fixed_point(3)
    with pytest.raises(InvalidInput, match="do not fit their slots"):
        planned(spec(**_upper(widest * 1.001)))
    with pytest.raises(OutOfRange):
        Parameters(**{**plan.parameters["sums"], "bound": widest * 10 * 1.001}).fixed_point(3)


def _upper(value: float) -> dict[str, Any]:
    return {"agents": [{**agent, "upper": [1, value]} for agent in spec()["agents"]]}


# Noise --------------------------------------------------------------------------------------------


def crowd(count: int, **noise: Any) -> dict[str, Any]:
    return {
        "kind": "coupled_qp",
        "mode": "simulation",
        "operator": {"c": [-count / 2.0], "d": [-1.0 * count]},
        "agents": [
            {"A_u": [[1]], "A_g": [[1]], "A_q": [[0.1]], "a_l": [0], "upper": [1]}
            for _ in range(count)
        ],
        "steps": {"primal": 1 / (count + 1), "dual": 0.01, "iterations": 4},
        "encryption": {"scheme": "masking"},
        "noise": {"epsilon": 30, "delta": 1e-6, **noise},
    }


def test_noise_is_priced_over_all_rounds() -> None:
    """One dearer round is not the price: the event counts all, at the sensitivity of a replaced
    contribution."""
    problem, plan = planned(crowd(40))
    (event,) = plan.events
    assert plan.total == Price.from_json(plan.price) == event.price()
    assert (plan.total.epsilon, plan.total.delta) == (30 * 10**9, 10**12)
    assert event.count == problem.steps.iterations
    clip = math.sqrt(2)  # (A_u x, A_g x) = (1, 1) at the corner of the box
    assert event.sensitivity == pytest.approx(2 * clip * 2**32)
    sums = Parameters(**plan.parameters["sums"])
    assert sums.clip == pytest.approx(clip)  # to which agents scale what they send
    assert sums.noise_sigma * 2**32 == pytest.approx(event.scale)
    # What the honest ones of the smallest set add is the noise that is charged.
    assert sums.share_variance(40) * (40 - sums.colluding) >= event.scale**2
    assert plan.noise[0].standard_deviation == pytest.approx(sums.noise_sigma)
    assert plan.neighbours.startswith("one agent's data replaced")


def test_noise_needs_many_agents_and_says_how_many() -> None:
    with pytest.raises(InvalidInput, match="with 3 agents the answer would be noise") as refused:
        planned(crowd(3))
    assert refused.value.issues[0].pointer == "/problem/noise"
    detail = refused.value.issues[0].detail
    needed = int(detail.split("at least ")[1].split()[0])
    _, plan = planned(crowd(needed))
    sigma = Parameters(**plan.parameters["sums"]).noise_sigma
    assert sigma * math.sqrt(2) <= USEFUL_NOISE * needed * math.sqrt(2)
    with pytest.raises(InvalidInput, match=f"at least {needed} agents"):
        planned(crowd(needed - 1))


@pytest.mark.long
def test_noise_reaches_the_sums() -> None:
    """One step, of 256 variables: each agent's x moves by alpha times the noise of its entry, by
    what the plan says.

    The noise is the operating system's. The mean square of 256 normal draws leaves [0.54, 1.66] of
    the variance with probability 4e-10 (chi-square); of half the noise it is near 0.25, of twice
    the noise near 4.
    """
    entries = 256
    body = crowd(40, epsilon=200)
    body["steps"]["iterations"] = 1
    body["operator"] = {"c": [-20.5] * entries, "d": [-40.0 * entries]}
    identity = np.eye(entries)
    agent = {"A_u": identity.tolist(), "A_g": [[0.0] * entries], "A_q": (0.1 * identity).tolist()}
    body["agents"] = [{**agent, "a_l": [0] * entries, "upper": [1] * entries}] * 40
    _, plan = planned(body)
    sigma = Parameters(**plan.parameters["sums"]).noise_sigma
    assert plan.noise[0].standard_deviation == pytest.approx(sigma)
    alpha = body["steps"]["primal"]
    first, second = (np.array(run({**body, "noise": None})["x"]) for _ in range(2))
    assert np.array_equal(first, second)
    assert first == pytest.approx(
        0.5
    )  # in the middle of the box, whose ends are 10 deviations away
    assert alpha * sigma < 0.05
    moved = (np.array(run(body)["x"]) - first) / (alpha * sigma)
    assert np.ptp(moved, axis=0).max() < 1e-6  # all agents see the same sums
    assert 0.54 < np.mean(moved[0] ** 2) < 1.66


def test_a_smaller_clip_is_less_noise() -> None:
    """A public clip scales contributions down and the noise with them."""
    wide, narrow = (
        planned(crowd(60, **noise))[1].noise[0].standard_deviation for noise in ({}, {"clip": 0.5})
    )
    assert narrow == pytest.approx(wide * 0.5 / math.sqrt(2), rel=1e-6)


# A session ----------------------------------------------------------------------------------------


class Still:
    """An optimizer that contributes the same in every round; with noise in the sums what it sees
    still differs."""

    def __init__(self, value: Floats, rounds: int, with_operator: int) -> None:
        self.value, self.rounds, self.seen, self.says = value, rounds, list[Floats](), True
        self.with_operator = with_operator

    def __call__(self, sums: Floats | None) -> Floats | None:
        if sums is not None:
            self.seen.append(sums)
        return None if len(self.seen) == self.rounds else self.value

    @property
    def alone(self) -> bool:
        return len(self.seen) >= self.with_operator

    def natural(self, entry: int, value: float) -> float:
        return value

    def settled(self, tolerance: float) -> bool:
        return self.says


def federated(count: int, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "coupled_qp",
        "operator": {"c": [1], "d": [-1]},
        "agents": {"count": count, "coupled": 1, "constraints": 1},
        "steps": {"primal": 0.1, "dual": 0.1, "iterations": 3},
        "encryption": {"scheme": "masking"},
        "protocol": "federated",
        "federation": {"agents": count},
        "exposure": "accepted",
        **changes,
    }


class Federation:
    """A session and its agents' machines, in this process."""

    def __init__(self, count: int, **changes: Any) -> None:
        self.problem = CoupledQp.model_validate(federated(count, **changes))
        self.plan = self.problem.plan_federation((), self.problem.budget(None))
        keys = [Ed25519PrivateKey.generate() for _ in range(count)]
        self.members = [
            Member(hashlib.sha256(raw).hexdigest(), "", raw, {})
            for raw in (key.public_key().public_bytes_raw() for key in keys)
        ]
        self.session = self.problem.open_session(self.plan, self.members)
        rounds = self.plan.parameters["sums"]["rounds"]
        steps = self.plan.parameters["steps"]["iterations"]
        self.optimizers = [Still(np.array([1.0, 0.5]), rounds, steps) for _ in keys]
        self.machines = [
            secure_sum.Agent(key, lambda document: True, optimizer, secure_sum.MemoryJournal())
            for key, optimizer in zip(keys, self.optimizers, strict=True)
        ]
        self.broadcast = self.session.opening(Noise.secure())

    def answers(self) -> dict[str, bytes]:
        return {
            member.fingerprint: machine.answer(self.broadcast)
            for member, machine in zip(self.members, self.machines, strict=True)
        }

    def run(self, rounds: int | None = None) -> None:
        for number in range(self.session.rounds if rounds is None else rounds):
            answers = self.answers()
            assert all(self.session.accepts(number, *one) for one in answers.items())
            self.broadcast = self.session.step(number, answers, Noise.secure())


def test_a_session_runs_from_opening_to_evidence() -> None:
    run = Federation(3)
    run.run()
    assert run.session.done
    for machine, optimizer in zip(run.machines, run.optimizers, strict=True):
        machine.answer(run.broadcast)
        assert machine.finished
        assert np.array(optimizer.seen) == pytest.approx(
            np.array([[4.0, 0.5]] * 3 + [[3.0, 1.5]] * 2)  # the operator's 1 and -1 are in three
        )
    released = unpack(pack(run.session.released()))
    result = run.problem.finish(None, run.plan, released, lambda *step: None).to_json()
    section = run.problem.evidence(run.plan, json.dumps(result).encode())
    assert secure_sum.unsigned(section) == []
    assert section["reveals"]["operator"].endswith("no value")
    assert result["rounds"] == 5


@pytest.mark.parametrize(("says", "status"), [(True, "converged"), (False, "iteration_limit")])
def test_agents_sign_whether_the_sums_have_settled(says: bool, status: str) -> None:
    run = Federation(3)
    for optimizer in run.optimizers:
        optimizer.says = says
    run.run(rounds=run.session.rounds - 1)
    last = run.answers()
    kept = run.session.state()
    run.session.restore(kept)  # what was said is not lost with a process
    run.broadcast = run.session.step(run.session.rounds - 1, last, Noise.secure())
    run.session.restore(run.session.state())
    resumed = secure_sum.Agent(
        run.machines[0].identity,
        lambda document: True,
        run.optimizers[0],
        secure_sum.MemoryJournal(),
    )
    resumed.resume(run.machines[0].state())
    resumed.answer(run.broadcast)
    assert (resumed.finished, resumed.verdict.value) == (True, b"settled" if says else b"unsettled")
    result = run.problem.finish(
        None, run.plan, unpack(pack(run.session.released())), lambda *step: None
    ).to_json()
    assert result["status"] == status
    assert "whether the sums settled" in result["evidence"]["reveals"]["operator"]
    assert secure_sum.unsigned(result["evidence"]) == []
    swapped = {**result["evidence"], "settled": not says}
    assert (
        len(secure_sum.unsigned(swapped))
        == len(secure_sum.unsigned({**swapped, "settled": None}))
        == 3
    )


def test_an_agent_that_says_otherwise_ends_the_session() -> None:
    run = Federation(3)
    run.optimizers[1].says = False
    run.run(rounds=run.session.rounds - 1)
    with pytest.raises(SessionFailed, match="protocol_broken"):
        run.session.step(run.session.rounds - 1, run.answers(), Noise.secure())


def test_nothing_is_said_of_sums_with_noise_or_where_nobody_asks() -> None:
    run = Federation(3, tolerance=None)
    run.run()
    result = run.problem.finish(
        None, run.plan, unpack(pack(run.session.released())), lambda *step: None
    ).to_json()
    assert "status" not in result
    assert secure_sum.unsigned(result["evidence"]) == []
    noise = {"epsilon": 20, "delta": 1e-3, "clip": 1}
    quiet = CoupledQp.model_validate(federated(1000, noise=noise, exposure=None))
    assert "tolerance" not in quiet.plan_federation((), quiet.budget(None)).parameters["sums"]
    deaf = secure_sum.Agent(
        Ed25519PrivateKey.generate(),
        lambda document: True,
        lambda sums: None,
        secure_sum.MemoryJournal(),
    )
    asking = Federation(3)
    deaf.identity = asking.machines[0].identity
    with pytest.raises(secure_sum.Unacceptable, match="cannot tell"):
        deaf.answer(asking.broadcast)


@pytest.mark.parametrize(
    ("steps", "status"),
    [
        ({}, "converged"),
        ({"iterations": 20}, "iteration_limit"),
        (
            {"primal": 1e-7, "dual": 1e-7},
            "iteration_limit",
        ),  # creeps: each move is tiny, and none is smaller
        ({"primal": 0.9, "dual": 5}, "iteration_limit"),  # swings from bound to bound
    ],
)
def test_a_result_says_whether_its_steps_have_settled(steps: dict[str, Any], status: str) -> None:
    assert (
        run(spec(**{f"steps__{name}": value for name, value in steps.items()}))["status"] == status
    )


def test_the_page_tells_how_far_the_example_has_settled() -> None:
    page = (ROOT / "docs/problems/coupled_qp.md").read_text()
    told = re.findall(r"^\| (\d+) \| (\d) \| (yes|no) \|$", page, re.MULTILINE)
    assert len(told) == 4
    for taken, votes, settled in told:
        problem = CoupledQp.model_validate(spec(steps__iterations=int(taken)))
        _, plan = planned(spec(steps__iterations=int(taken)))
        sums_asked = Parameters(**plan.parameters["sums"])
        own = np.array([*problem.operator.c, *problem.operator.d])
        everybody = problem.way.updates(problem.plain_parts(), plan.parameters)
        sums: Floats | None = None
        opened = 0
        while (sent := [one(sums) for one in everybody])[0] is not None:
            sums = sum(one for one in sent if one is not None)
            sums = sums + own * (not everybody[0].alone)
            opened += 1
        assert opened == sums_asked.rounds == int(taken) + 2
        assert problem.tolerance is not None
        for one in everybody:
            assert isinstance(one, Rounds)
            assert one._end is not None
            assert one._end.votes == int(votes)
            assert one.settled(problem.tolerance) == (settled == "yes")


def test_the_state_of_a_session_holds_no_value_of_an_agent() -> None:
    """The operator's link masks are in it, the pairwise masks and the group key are not."""
    run = Federation(3)
    run.run(rounds=5)
    state = run.session.state().decode()
    assert run.machines[0]._group_key.hex() not in state
    for machine in run.machines:
        for other, secret in machine._shared.items():
            assert (secret.hex() in state) == (other == secure_sum.OPERATOR)


def test_messages_that_are_not_the_agents_own_count_as_missing() -> None:
    run = Federation(3)
    run.run(rounds=3)
    answers = run.answers()
    names = list(answers)
    assert not run.session.accepts(3, names[0], answers[names[1]])
    assert not run.session.accepts(3, names[0], b"")
    assert not run.session.accepts(3, names[0], b"short")
    message = bytearray(answers[names[0]])
    for place in range(0, len(message), 7):
        message[place] ^= 1
        assert not run.session.accepts(3, names[0], bytes(message))
        message[place] ^= 1
    assert run.session.accepts(3, names[0], bytes(message))
    with pytest.raises(SessionFailed, match="protocol_broken"):
        run.session.step(
            3, {names[0]: answers[names[0]], names[1]: answers[names[2]]}, Noise.secure()
        )


def test_noise_of_a_federated_job_is_charged_and_reaches_the_sums() -> None:
    run = Federation(40, noise={"epsilon": 30, "delta": 1e-6, "clip": 1.2})
    (event,) = run.plan.events
    assert event.count == 3
    assert event.sensitivity == pytest.approx(2.4 * 2**32)
    assert run.plan.total.epsilon == 30 * 10**9
    run.run()
    sums = np.array(run.optimizers[0].seen)
    assert all(np.array_equal(np.array(optimizer.seen), sums) for optimizer in run.optimizers)
    error = sums - np.array([41.0, 19.0])
    sigma = run.plan.noise[0].standard_deviation
    # Six draws: one of them is 0 with probability 6 / (sqrt(2 pi) sigma 2^32), one beyond 8 sigma
    # with 1e-14.
    assert 6 / (math.sqrt(2 * math.pi) * sigma * 2**32) < 1e-9
    assert np.all(error != 0)
    assert float(np.max(np.abs(error))) < 8 * sigma


def test_a_clip_beyond_the_slots_is_refused() -> None:
    """An agent whose contribution were within the clip and beyond the slots would give up: that
    tells of its data."""
    with pytest.raises(InvalidInput, match="the slots hold") as refused:
        Federation(40, noise={"epsilon": 30, "delta": 1e-6, "clip": 1e9})
    assert refused.value.issues[0].pointer == "/problem/noise/clip"


@pytest.mark.parametrize("sigma", [0.0, 0.5])
def test_with_noise_no_agent_refuses_because_of_its_data(sigma: float) -> None:
    """It clips; without noise, where nothing but the sum's range protects, it says that its box is
    too large."""
    data = (
        np.array([[1000.0]]),
        np.array([[1.0]]),
        QuadraticCost(np.zeros((0, 1)), np.ones(1)),
        Box(0.0, 1.0),
    )
    sums = secure_sum.Parameters(2, 3, 10.0, "masking", noise_sigma=sigma, clip=2 * sigma)
    steps = {"primal": 0.1, "dual": 0.1, "shrink": 1.0, "regularization": 0.0, "iterations": 3}
    run = agents_part._Run(None, data, None)  # type: ignore[arg-type]
    keys = [{"key": base64.b64encode(bytes(32)).decode()}] * 3
    roster = {"agents": keys, "parameters": {"coupled": 1, "constraints": 1, "steps": steps}}
    if sigma:
        assert run._optimizer(roster, sums) is not None
    else:
        with pytest.raises(AgentError, match="the box is too large"):
            run._optimizer(roster, sums)


# What agents find out of each other ---------------------------------------------------------------


def test_few_agents_are_refused_unless_the_owner_accepts_it() -> None:
    for count, refused in (
        (3, True),
        (99, True),
        (100, False),
    ):  # two numbers a round, five rounds: 100 suffice
        problem = CoupledQp.model_validate(federated(count, exposure=None))
        if not refused:
            plan = problem.plan_federation((), problem.budget(None))
            assert "exposure" not in plan.parameters["sums"]
            assert plan.neighbours == exposure.HIDDEN
            continue
        with pytest.raises(
            Exposed, match=r'10 sums would be revealed: needs 100 agents\. .* exposure: "accepted"'
        ) as told:
            problem.plan_federation((), problem.budget(None))
        assert told.value.issues[0].pointer == "/problem/exposure"
        assert told.value.code == "exposed"
    problem = CoupledQp.model_validate(federated(3))
    plan = problem.plan_federation((), problem.budget(None))
    assert plan.parameters["sums"]["exposure"] == "accepted"
    assert plan.neighbours == exposure.FROM_THE_SERVER
    assert plan.exposure is not None
    assert (plan.exposure.agents, plan.exposure.rounds, plan.exposure.sums) == (
        3,
        5,
        10,
    )  # 3 steps, sizes, votes
    assert "of all 2 others" in plan.exposure.sentence


def test_more_numbers_need_more_agents() -> None:
    steps = {"primal": 0.1, "dual": 0.1, "iterations": 6}
    with pytest.raises(Exposed, match="16 sums would be revealed: needs 160"):
        Federation(159, exposure=None, steps=steps)
    problem = CoupledQp.model_validate(federated(160, exposure=None, steps=steps))
    assert problem.plan_federation((), problem.budget(None)).exposure is not None


def test_noise_in_the_sums_needs_nobodys_word() -> None:
    problem = CoupledQp.model_validate(
        federated(40, exposure=None, noise={"epsilon": 30, "delta": 1e-6, "clip": 1.2})
    )
    plan = problem.plan_federation((), problem.budget(None))
    assert plan.exposure is not None
    assert "bounded by the epsilon and delta" in plan.exposure.sentence
    # As the page says: at epsilon 1, delta 1e-6 and 200 rounds, two numbers a sum.
    assert exposure.noise_agents(200, 2) == 676


def test_a_simulation_is_not_concerned() -> None:
    problem = CoupledQp.model_validate({**CoupledQp.example()["problem"], "exposure": "accepted"})
    plan = problem.plan(None, problem.budget(None))
    assert plan.exposure is None
    assert "exposure" not in plan.parameters["sums"]


def test_parameters_without_it_are_signed_as_before_there_was_the_field() -> None:
    """So old certificates and sessions in progress verify: their documents are compared byte by
    byte."""
    before = (
        '"dealer":0,"dimension":2,"fraction_bits":32,"key_bits":3072,"noise_sigma":0.0,"rounds":3'
    )
    roster = secure_sum.Roster("job", (b"a" * 32,), b"b" * 32, Parameters(2, 3, 10.0, "masking"))
    assert before in roster.document.decode()
    assert b"exposure" not in roster.document
