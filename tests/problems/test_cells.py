"""Every cell of unit, relation and mechanism: its event is what is derived here by hand, and
neighbours move what gets noise by that sensitivity, never by more.

Noise is off where movements are measured, and scales are compared with textbook curves that the
service does not use.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.problems import KINDS
from discreet.problems.base import Neighbours
from discreet.problems.contents import Content
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation import moments
from discreet.problems.off_policy_evaluation.dataset import (
    OffPolicyContent,
    OffPolicyDataset,
    transitions_of,
)
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation import monte_carlo_regression as regression
from discreet.solvers.evaluation import temporal_difference as td
from discreet.solvers.saddle.saddle_point import cloud_outputs
from tests.conftest import worst_cases
from tests.privacy.dp_events import dp_event
from tests.problems.exact import NoNoise

WHOLE = 1 << 24
"""What a trajectory counts in a histogram."""
SHARE = 1 << 20
"""What a participant counts whose record has any length."""
LAPLACE, GAUSSIAN = ("discrete_laplace", "l1"), ("discrete_gaussian", "l2")
REAL, BATCH, DRAW = (
    ("gaussian", "l2"),
    ("poisson_subsampled_gaussian", "l2"),
    ("one_draw_gaussian", "l2"),
)
ROW, SMOOTH = ("dirichlet", "row"), ("smooth_sensitivity_gaussian", "smooth")
ADDED, REPLACED = "added or removed", "replaced"
# Mechanism and norm, sensitivity, relation, releases.
CELLS: dict[str, tuple[tuple[str, str], float | None, str, int]] = {
    "routing, counts, unit request": (LAPLACE, 1, ADDED, 1),
    "routing, counts, unit request, gaussian": (GAUSSIAN, 1, ADDED, 1),
    # Five trips count of one person, and all may be of one pair.
    "routing, counts, unit person": (LAPLACE, 5, ADDED, 1),
    "routing, counts, unit person, gaussian": (GAUSSIAN, 5, ADDED, 1),
    "routing, counts, fractions of trips": (LAPLACE, 500, ADDED, 1),
    "routing, counts, norm of a person": (GAUSSIAN, 6, ADDED, 1),
    # A class divides the counts: one trip is still one of one count.
    "routing, counts, classes of users, unit request": (LAPLACE, 1, ADDED, 1),
    "routing, counts, classes of users, unit person, gaussian": (GAUSSIAN, 5, ADDED, 1),
    "routing, gradient": (
        REAL,
        None,
        ADDED,
        1,
    ),  # derived in `test_unit_flow_descent`; here it is measured
    # Records of five states are four transitions, each of which counts one.
    "dr_ensemble, counts, participant added": (LAPLACE, 4, ADDED, 1),
    "dr_ensemble, counts, participant added, in blocks": (LAPLACE, 4, ADDED, 1),
    "dr_ensemble, counts, participant replaced, in blocks, clipped": (
        *(GAUSSIAN, 0.3 * SHARE * math.sqrt(2), REPLACED),
        1,
    ),
    "dr_ensemble, counts, participant of any length added": (LAPLACE, SHARE, ADDED, 1),
    "dr_ensemble, counts, participant replaced": (LAPLACE, 8, REPLACED, 1),
    "dr_ensemble, counts, participant added, clipped": (GAUSSIAN, 0.3 * SHARE, ADDED, 1),
    # Two vectors without negative entries, at a right angle.
    "dr_ensemble, counts, participant replaced, clipped": (
        GAUSSIAN,
        0.3 * SHARE * math.sqrt(2),
        REPLACED,
        1,
    ),
    "dr_ensemble, dirichlet, unit row": (ROW, 0.03, "in one row", 1),
    "dr_ensemble, dirichlet, unit participant": (ROW, 0.03, "in each of its 2 rows", 2),
    # Visits and rewards, each of them one trajectory.
    "off_policy_evaluation, moments, tabular, added": (LAPLACE, 2 * WHOLE, ADDED, 1),
    "off_policy_evaluation, moments, tabular, added, gaussian": (
        GAUSSIAN,
        math.sqrt(2) * WHOLE,
        ADDED,
        1,
    ),
    "off_policy_evaluation, moments, tabular, replaced": (LAPLACE, 4 * WHOLE, REPLACED, 1),
    # Visits at a right angle (2), rewards that point against each other (4).
    "off_policy_evaluation, moments, tabular, replaced, gaussian": (
        GAUSSIAN,
        math.sqrt(6) * WHOLE,
        REPLACED,
        1,
    ),
    "off_policy_evaluation, moments, public rewards": (LAPLACE, 2 * WHOLE, REPLACED, 1),
    "off_policy_evaluation, moments, columns, added": (REAL, 1, ADDED, 1),
    "off_policy_evaluation, moments, columns, replaced": (REAL, 2, REPLACED, 1),
    "off_policy_evaluation, minibatch, columns, added": (BATCH, 1e-3, ADDED, 20),
    "off_policy_evaluation, minibatch, tabular, added": (BATCH, 1e-3, ADDED, 20),
    "off_policy_evaluation, minibatch, columns, replaced": (BATCH, 2e-3, REPLACED, 20),
    "off_policy_evaluation, minibatch, tabular, replaced": (BATCH, 2e-3, REPLACED, 20),
    "off_policy_evaluation, gradient, columns, replaced": (DRAW, 2e-3, REPLACED, 400),
    "off_policy_evaluation, gradient, tabular, replaced": (DRAW, 2e-3, REPLACED, 400),
    # Parts of a whole, and parts of a tenth of it for squares; or two such.
    "off_policy_evaluation, importance sampling, added": (LAPLACE, WHOLE + WHOLE // 10, ADDED, 1),
    "off_policy_evaluation, importance sampling, replaced": (
        LAPLACE,
        2 * (WHOLE + WHOLE // 10),
        REPLACED,
        1,
    ),
    "off_policy_evaluation, importance sampling, added, gaussian": (
        GAUSSIAN,
        math.sqrt(WHOLE**2 + (WHOLE // 10) ** 2),
        ADDED,
        1,
    ),
    "off_policy_evaluation, importance sampling, replaced, gaussian": (
        GAUSSIAN,
        math.sqrt(2 * (WHOLE**2 + (WHOLE // 10) ** 2)),
        REPLACED,
        1,
    ),
    # Squares in three parts of a tenth, as the whole in six; and .15 for what is cut off.
    "off_policy_evaluation, importance sampling, one visit, added": (
        LAPLACE,
        WHOLE + WHOLE // 10 + int(0.15 * WHOLE),
        ADDED,
        1,
    ),
    "off_policy_evaluation, importance sampling, one visit, replaced": (
        LAPLACE,
        2 * (WHOLE + WHOLE // 10) + int(0.15 * WHOLE),
        REPLACED,
        1,
    ),
    "off_policy_evaluation, importance sampling, one visit, added, gaussian": (
        GAUSSIAN,
        math.sqrt(WHOLE**2 + (WHOLE // 10) ** 2 + int(0.15 * WHOLE) ** 2),
        ADDED,
        1,
    ),
    "off_policy_evaluation, importance sampling, chosen clip, added": (
        LAPLACE,
        WHOLE + WHOLE // 10 + int(0.15 * WHOLE),
        ADDED,
        1,
    ),
    "off_policy_evaluation, importance sampling, chosen clip, replaced": (
        LAPLACE,
        2 * (WHOLE + WHOLE // 10) + int(0.15 * WHOLE),
        REPLACED,
        1,
    ),
    "off_policy_evaluation, importance sampling, chosen clip, visits, added": (
        LAPLACE,
        WHOLE + WHOLE // 10,
        ADDED,
        1,
    ),
    # Of single steps the same.
    "off_policy_evaluation, per decision, added": (LAPLACE, WHOLE + WHOLE // 10, ADDED, 1),
    "off_policy_evaluation, per decision, replaced": (
        LAPLACE,
        2 * WHOLE + WHOLE // 10,
        REPLACED,
        1,
    ),
    "off_policy_evaluation, per decision, added, gaussian": (
        GAUSSIAN,
        math.sqrt(WHOLE**2 + (WHOLE // 10) ** 2),
        ADDED,
        1,
    ),
    # Beside an eighth of the price for the choice of the clip.
    "off_policy_evaluation, importance sampling, public rules, added": (
        LAPLACE,
        WHOLE + WHOLE // 10,
        ADDED,
        1,
    ),
    # The noise of the steps: that of the mean reward beside them is the other cells' (`constant`).
    "off_policy_evaluation, minibatch, continuing, replaced": (BATCH, 2e-3, REPLACED, 20),
    "off_policy_evaluation, constant, added": (LAPLACE, WHOLE, ADDED, 1),
    "off_policy_evaluation, constant, replaced": (LAPLACE, 2 * WHOLE, REPLACED, 1),
    "off_policy_evaluation, dp_lsw, added": (SMOOTH, 1, ADDED, 1),
    "off_policy_evaluation, dp_lsw, replaced": (SMOOTH, 1, REPLACED, 1),
    "off_policy_evaluation, dp_lsl, added": (SMOOTH, 1, ADDED, 1),
    "off_policy_evaluation, dp_lsl, replaced": (SMOOTH, 1, REPLACED, 1),
    "multi_agent, one output": (REAL, 1, "moved by at most", 1),
    "multi_agent, many outputs": (REAL, 1, "moved by at most", 1),
    "multi_agent, a vector": (REAL, 1, "moved by at most", 1),
    "multi_agent, a polytope": (REAL, 1, "moved by at most", 1),
}
NEAR = {
    # Three links that a trip may take, of which it takes one: the rest of it is along what all
    # routings have in common.
    "routing, gradient": math.sqrt(2 / 3) * (1 - 1e-4),
    # The slope of the square is largest at the end of the range alone.
    "multi_agent, many outputs": 0.9,
    # So here, and the certificate of what states together may reach is an outer one.
    "multi_agent, a vector": 0.82,
    "multi_agent, a polytope": 0.78,
    # Both are cut off, whichever clip is chosen: what is cut off of them does not differ.
    "off_policy_evaluation, importance sampling, chosen clip, replaced": 2.2 / 2.35 * (1 - 1e-6),
}
"""How much of the sensitivity the neighbours reach, where it is not all."""
COUNTED = {
    f"off_policy_evaluation, importance sampling, {name}": 1 / 8
    for name in (
        "public rules, added",
        "chosen clip, added",
        "chosen clip, replaced",
        "chosen clip, visits, added",
    )
}
"""Of epsilon for the choice of the clip; elsewhere half is for the number of trajectories."""
CLIP_OF_8 = 5
"""Its place among those of which a release chooses."""
CASES = {case.name: case for kind in KINDS for case in worst_cases(kind)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_the_event_is_that_of_the_cell(name: str) -> None:
    (mechanism, order), sensitivity, relation, count = CELLS[name]
    event: Any = CASES[name].plan.events[0]
    assert (event.mechanism, event.norm, event.count) == (mechanism, order, count)
    assert relation in event.neighbours
    assert event.neighbours == CASES[name].plan.neighbours
    if sensitivity is not None:
        # A root's double lies beside it: then the event has the next one above.
        assert sensitivity <= event.sensitivity <= sensitivity * (1 + 1e-15)
    if mechanism == "poisson_subsampled_gaussian":
        assert event.relation == ("replace" if relation == REPLACED else "add_remove")
        assert event.sampling.probability == 0.5
    if mechanism == "one_draw_gaussian":
        assert event.sampling.population == len(CASES[name].left["start"]) - 1 == 11


def test_a_private_number_of_trajectories_is_bought_beside_the_steps() -> None:
    for name in ("columns", "tabular"):
        steps, count = CASES[f"off_policy_evaluation, minibatch, {name}, added"].plan.events
        assert count.scale == pytest.approx(20 / 6)
        assert (count.mechanism, count.sensitivity) == ("discrete_laplace", 1)
        assert steps.price().epsilon + count.price().epsilon == 6 * 10**9
        assert len(CASES[f"off_policy_evaluation, minibatch, {name}, replaced"].plan.events) == 1


class Recorded(Noise):
    """Draws as ever, and keeps what noise was added to."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0).bytes)
        self.added: list[tuple[Any, list[Any]]] = []

    def add(self, event: Any, values: Any) -> Any:
        self.added.append((event, np.asarray(values).tolist()))
        return super().add(event, values)


def test_the_mean_reward_is_bought_beside_the_steps() -> None:
    """Of one trajectory another of the other sign, noised once at its own share of the budget."""
    case = CASES["off_policy_evaluation, minibatch, continuing, replaced"]
    steps, mean = case.plan.events
    assert (mean.mechanism, mean.sensitivity) == ("discrete_laplace", 2 * WHOLE)
    assert mean.neighbours == case.plan.neighbours
    assert mean.scale == pytest.approx(mean.sensitivity / (mean.price().epsilon / 1e9))
    assert steps.price().epsilon + mean.price().epsilon == 10**9 == case.plan.total.epsilon
    noise = Recorded()
    case.problem.release(case.public, case.plan, case.left, noise)
    ((event, (total,)),) = noise.added
    assert event == mean
    ratio = case.left["target"] / case.left["behaviour"]
    start = case.left["start"]
    one = np.add.reduceat(np.minimum(ratio, 10) * case.left["reward"], start[:-1]) / np.diff(start)
    assert total == pytest.approx(np.clip(one, -1, 1).sum() * WHOLE, abs=1)


def test_no_mean_reward_is_beyond_its_bound() -> None:
    """Ratios make it ten times as large, and of either sign: it counts as the bound."""
    for sign in (1.0, -1.0):
        far = td.Transitions(
            np.array([0, 2]),
            np.zeros(2, np.int32),
            np.zeros(2, np.int32),
            np.full(2, sign),
            np.full(2, 10.0),
            np.zeros(2, dtype=np.bool_),
        )
        assert moments.sum_of(far, 1.0).tolist() == [sign * WHOLE]


def distance(case: Neighbours, left: Content, right: Content) -> float:
    """How far two contents are apart before noise, in the norm of the event."""
    event: Any = case.plan.events[0]
    if event.mechanism == "dirichlet":
        moved = np.abs(left["transitions"] - right["transitions"]).sum(axis=1)
        assert np.count_nonzero(moved) in (0, event.count)
        return float(moved.max())
    if case.name.startswith("multi_agent"):
        return apart(case, left["initial"], right["initial"])
    if event.mechanism in ("poisson_subsampled_gaussian", "one_draw_gaussian"):
        return max(step(case, left, right, start) for start in starts(case))
    if event.norm == "smooth":
        found = [regressed(case, content) for content in (left, right)]
        change = float(np.linalg.norm(found[0].theta - found[1].theta))
        least, most = sorted(one.sensitivity for one in found)
        assert most <= least * math.exp(event.smoothing) * (1 + 1e-12)
        return float(change / least)
    exact = []
    for content in (left, right):
        noise = NoNoise(CLIP_OF_8)
        released = case.problem.release(case.public, case.plan, content, noise).values()
        assert sorted(map(str, noise.events)) == sorted(map(str, case.plan.events))
        exact.append(np.asarray([*released][noise.events.index(event)], dtype=np.float64).ravel())
    return float(np.linalg.norm(exact[0] - exact[1], 1 if event.norm == "l1" else 2))


def apart(case: Neighbours, left: Any, right: Any) -> float:
    """Outputs of one step in the event's units; what has no unit does not move."""
    form, outputs = case.problem.solver_form(case.plan, {})  # type: ignore[attr-defined]
    silent = np.zeros_like(outputs.scale)
    exact = outputs._replace(scale=silent, noise=np.full_like(outputs.noise, -1), grid=0.0)
    unit = outputs.scale / case.plan.events[0].scale
    moved = np.abs(cloud_outputs(form, exact, left, []) - cloud_outputs(form, exact, right, []))
    assert (moved[unit == 0] < 1e-12).all()
    return float(np.linalg.norm(moved[unit > 0] / unit[unit > 0]))


def starts(case: Neighbours) -> list[Any]:
    """Iterates at which a step is attacked: composition lets the adversary choose them."""
    dimension = case.problem.method_for(
        case.public, case.plan.parameters["method"]
    ).features.dimension  # type: ignore
    generator = np.random.default_rng(5)
    up = np.concatenate([np.zeros(dimension), np.full(dimension, 1e3)])
    return [up, *(generator.normal(0, 10**size, 2 * dimension) for size in (-3, 0, 3))]


def step(case: Neighbours, left: Content, right: Content, start: Any) -> float:
    """How far theta is apart after one step of size 1 on all trajectories, as the method takes
    them, in the scales of its coordinates, in which each of them gets the same noise."""
    method = case.problem.method_for(case.public, case.plan.parameters["method"])  # type: ignore[attr-defined]
    scale = (
        method._scale() if method.name == "minibatch" else np.ones(2 * method.features.dimension)
    )
    found = []
    for content in (left, right):
        moved = td.bounded(
            transitions_of(content, method.max_ratio), case.public.reward_bound, method.max_ratio
        )
        ends: dict[str, Any] = {
            "steps": 1,
            "clip": case.plan.parameters["clip"],
            "noise_scale": 0.0,
        }
        theta = gtd.minibatch(
            moved,
            method.features,
            case.problem.discount,  # type: ignore[attr-defined]
            probability=1.0,
            step_size=1.0,
            generator=np.random.default_rng(1),
            initial=start,
            scale=scale,
            **ends,
        )
        found.append(theta / scale[: theta.size])
    return float(np.linalg.norm(found[0] - found[1]))


def regressed(case: Neighbours, content: Content) -> Any:
    event: Any = case.plan.events[0]
    moved = transitions_of(content, 1.0)
    shared: dict[str, Any] = {"smoothing": event.smoothing, "reward_bound": 1.0, "horizon": 3}
    if "dp_lsw" in case.name:
        return regression.dp_lsw(moved, np.eye(1), 0.5, **shared)
    return regression.dp_lsl(
        moved, np.eye(1), 0.5, penalty=1e6, public_trajectories=case.public.trajectories, **shared
    )


@pytest.mark.parametrize("name", sorted(CASES))
def test_worst_neighbours_move_it_by_its_sensitivity(name: str) -> None:
    case = CASES[name]
    event = case.plan.events[0]
    found = distance(case, case.left, case.right)
    assert found <= event.sensitivity * (1 + 1e-9)
    assert found >= NEAR.get(name, 0.98) * event.sensitivity / case.slack
    assert distance(case, case.right, case.left) == pytest.approx(found)
    assert distance(case, case.left, case.left) == 0


def trajectory(case: Neighbours, generator: np.random.Generator) -> list[dict[str, Any]]:
    """Anything that a person may have done."""
    part, rows = case.public, []
    for _ in range(min(int(generator.integers(1, 4)), part.horizon)):
        row: dict[str, Any] = {
            "terminal": False,
            "reward": float(generator.choice([-1, 1, generator.uniform(-1, 1)])),
        }
        if part.states is not None:
            cells = part.topology or list(itertools.product(range(part.states), repeat=2))
            row["state"], row["next_state"] = map(int, cells[generator.integers(len(cells))])
            if part.rewards is not None:
                row["reward"] = part.rewards[part.topology.index((row["state"], row["next_state"]))]
        else:
            row["x"], row["x_next"] = (
                [float(generator.choice([-1, 1, generator.uniform(-3, 3)]))] for _ in range(2)
            )
        if part.off_policy:
            row["behaviour"], row["target"] = (
                float(generator.uniform(0.01, 1)),
                float(generator.uniform(0, 1)),
            )
            if part.max_ratio is not None:
                row["target"] = min(row["target"], part.max_ratio * row["behaviour"])
        rows.append(row)
    return rows


@pytest.mark.parametrize("name", sorted(name for name in CASES if name.startswith("off_policy")))
def test_no_neighbours_move_it_by_more(name: str) -> None:
    """Thirty random pairs; seeds are fixed."""
    case, generator = CASES[name], np.random.default_rng(11)
    crowd = 3 if case.public.trajectories is None else case.public.trajectories - 1
    largest = 0.0
    for _ in range(30):
        others = [trajectory(case, generator) for _ in range(min(crowd, 4))]
        others += others[:1] * (crowd - len(others))
        more, instead = trajectory(case, generator), trajectory(case, generator)
        pair = ([*others, more], others if case.public.trajectories is None else [*others, instead])
        contents = []
        for trajectories in pair:
            rows = [
                {"trajectory": number, "step": place, **row}
                for number, one in enumerate(trajectories)
                for place, row in enumerate(one)
            ]
            content = OffPolicyContent.model_validate({"transitions": rows})
            contents.append(OffPolicyDataset.read_rows(case.public, content))
        largest = max(largest, distance(case, *contents))
    assert 0 < largest <= case.plan.events[0].sensitivity * (1 + 1e-9)


# Scales -------------------------------------------------------------------------------------------


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Balle & Wang 2018, Theorem 8."""
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


@pytest.mark.parametrize(
    "name", sorted(name for name, (kind, *_) in CELLS.items() if kind in (LAPLACE, GAUSSIAN, REAL))
)
def test_scales_are_what_the_textbook_says(name: str) -> None:
    event: Any = CASES[name].plan.events[0]
    total = CASES[name].plan.total
    epsilon, delta = total.epsilon / 1e9, total.delta / 1e18
    if event.norm == "l1":
        assert (total.epsilon, delta) == (10**9, 0)
        # Then the number of trajectories is bought beside.
        counted = len(CASES[name].plan.events) > 1
        epsilon *= 1 - COUNTED.get(name, 0.5) * counted
        assert event.scale == pytest.approx(event.sensitivity / epsilon, rel=1e-12)
        return
    # A discrete Gaussian of a scale near 1 is not the continuous one.
    near = 0.35 if event.scale < 10 else 1e-3
    assert gaussian_delta(epsilon, event.sensitivity / event.scale) <= delta * (1 + 1e-9)
    assert gaussian_delta(epsilon, event.sensitivity / event.scale * (1 + near)) > delta


@pytest.mark.parametrize("relation", ["added", "replaced"])
def test_scales_of_batches_are_what_dp_accounting_says(relation: str) -> None:
    """Its curve of our scale is within the budget, and 2 % less noise is not. Charged as if
    trajectories were added, those that are replaced had half the noise."""
    event: Any = CASES[f"off_policy_evaluation, minibatch, columns, {relation}"].plan.events[0]
    epsilon, delta = event.charged_epsilon / 1e9, event.charged_delta / 1e18
    kind = (
        NeighboringRelation.ADD_OR_REMOVE_ONE
        if relation == "added"
        else NeighboringRelation.REPLACE_ONE
    )

    def theirs(factor: float) -> float:
        accountant = PLDAccountant(kind, value_discretization_interval=1e-3)
        accountant.compose(dp_event(event.model_copy(update={"scale": event.scale * factor})))
        return float(accountant.get_delta(epsilon))

    assert theirs(1.0) <= delta * 1.02
    assert theirs(0.98) > delta


def test_a_run_draws_the_noise_of_its_plan() -> None:
    """What a release adds is drawn at the event's scale: 20,000 draws, five deviations of their
    spread."""
    generator = Noise.seeded(3)
    checked = set()
    for case in CASES.values():
        event: Event = case.plan.events[0]
        if (
            event.mechanism in ("discrete_laplace", "discrete_gaussian", "gaussian")
            and event.mechanism not in checked
        ):
            kind = np.float64 if event.mechanism == "gaussian" else np.int64
            drawn = np.asarray(
                generator.add_each(event, np.zeros(20_000, dtype=kind)), dtype=np.float64
            )
            heavy = 5 if event.mechanism == "discrete_laplace" else 2
            assert drawn.std() == pytest.approx(
                event.deviation(), rel=5 * math.sqrt(heavy / 4 / 20_000)
            )
            checked.add(event.mechanism)
    assert len(checked) == 3


def test_budgets_below_the_least_are_no_other_cell() -> None:
    """The same request with a smaller delta keeps its relation and its l1 sensitivity."""
    case = CASES["off_policy_evaluation, moments, tabular, replaced, gaussian"]
    pure = case.problem.plan(case.public, Budget(epsilon=10**9, delta=10**9)).events[0]
    assert (pure.mechanism, pure.sensitivity) == ("discrete_laplace", 4 * WHOLE)
