"""Off-policy evaluation: what one trajectory moves, what is refused, and that answers come near the
truth."""

from __future__ import annotations

import functools
import tracemalloc
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from discreet.errors import InvalidInput
from discreet.privacy import calibration
from discreet.privacy.attacks.audit import Attack
from discreet.privacy.mechanism import CalibratedEvent
from discreet.privacy.noise import Noise
from discreet.problems.contents import Content, canonical_bytes
from discreet.problems.numbers import Budget
from discreet.problems.off_policy_evaluation import dataset
from discreet.problems.off_policy_evaluation.dataset import (
    OffPolicyContent,
    OffPolicyDataset,
    transitions_of,
)
from discreet.problems.off_policy_evaluation.gradients import TABULAR_NOISE, TABULAR_STEP, shorter
from discreet.problems.off_policy_evaluation.problem import OffPolicyEvaluation
from discreet.problems.off_policy_evaluation.public import OffPolicyPublic
from discreet.solvers.evaluation import gradient_temporal_difference as gtd
from discreet.solvers.evaluation import monte_carlo_regression as regression
from discreet.solvers.evaluation.value_features import Features, Fourier, Identity
from tests.problems.exact import NoNoise

EPSILON, DELTA = 10**9, 10**13
STATES = 3


def public(**values: Any) -> OffPolicyPublic:
    tabular = {} if "features" in values else {"states": STATES}
    base = {"unit": "trajectory", "reward_bound": 2, "horizon": 6, "off_policy": False}
    return OffPolicyPublic.model_validate({**base, **tabular, **values})


def problem(**values: Any) -> OffPolicyEvaluation:
    fixed = {
        "kind": "off_policy_evaluation",
        "dataset": "dst_x",
        "features": {"type": "tabular"},
        "discount": 0.9,
    }
    return OffPolicyEvaluation.model_validate({**fixed, **values})


def read(part: OffPolicyPublic, rows: list[dict[str, Any]]) -> Content:
    return OffPolicyDataset.read_rows(part, OffPolicyContent.model_validate({"transitions": rows}))


def rows_of(trajectories: list[list[tuple[int, int, float]]], **more: Any) -> list[dict[str, Any]]:
    """Rows of (state, next state, reward); the next state STATES ends the episode."""
    return [
        {
            "trajectory": f"person {number}",
            "step": step,
            "state": state,
            "next_state": onward % STATES,
            "reward": reward,
            "terminal": onward == STATES,
            **more,
        }
        for number, each in enumerate(trajectories)
        for step, (state, onward, reward) in enumerate(each)
    ]


STEP = st.tuples(st.integers(0, STATES - 1), st.integers(0, STATES - 1), st.floats(-2, 2))
TRAJECTORY = st.lists(STEP, min_size=1, max_size=6)
OTHERS = st.lists(TRAJECTORY, min_size=1, max_size=4)


def sums(
    part: OffPolicyPublic, rows: list[dict[str, Any]], delta: int, **values: Any
) -> tuple[Any, Any]:
    """Sums before noise, and the event that their sensitivity belongs to."""
    asked = problem(**values)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=delta))
    noise = NoNoise()
    found = asked.release(part, plan, read(part, rows), noise)["sums"]
    assert noise.events == list(plan.events)
    return np.asarray(found, dtype=float), plan.events[0]


@given(OTHERS, TRAJECTORY, TRAJECTORY)
def test_one_trajectory_moves_the_histograms_by_at_most_the_sensitivity(
    others: list[Any], one: Any, another: Any
) -> None:
    before, _ = sums(public(), rows_of(others), 0)
    after, added = sums(public(), rows_of([*others, one]), 0)
    assert np.abs(after - before).sum() <= added.sensitivity
    known = public(trajectories=len(others) + 1)
    first, replaced = sums(known, rows_of([*others, one]), 0)
    second, _ = sums(known, rows_of([*others, another]), 0)
    assert np.abs(first - second).sum() <= replaced.sensitivity == 2 * added.sensitivity


@given(OTHERS, TRAJECTORY, TRAJECTORY, st.floats(0.05, 1), st.floats(0, 1))
@settings(max_examples=50)
def test_one_trajectory_moves_clipped_statistics_by_at_most_the_clip(
    others: list[Any], one: Any, another: Any, behaviour: float, target: float
) -> None:
    def rows(trajectories: list[Any]) -> list[dict[str, Any]]:
        found = rows_of(trajectories, behaviour=behaviour, target=target)
        for row in found:
            row["x"], row["x_next"] = [row.pop("state") / 2, 1.0], [row.pop("next_state") / 2, 1.0]
        return found

    fields: dict[str, Any] = {
        "features": {"type": "fourier", "order": 1, "low": [0, 0], "high": [1, 1]},
        "clip": 1.5,
    }
    fields["method"] = "moments"
    part = public(features=2, off_policy=True)
    before, _ = sums(part, rows(others), DELTA, **fields)
    after, added = sums(part, rows([*others, one]), DELTA, **fields)
    assert np.linalg.norm(after - before) <= added.sensitivity == 1.5
    known = part.model_copy(update={"trajectories": len(others) + 1})
    first, replaced = sums(known, rows([*others, one]), DELTA, **fields)
    second, _ = sums(known, rows([*others, another]), DELTA, **fields)
    assert np.linalg.norm(first - second) <= replaced.sensitivity == 3


def test_gaussian_noise_on_histograms_is_of_their_l2_sensitivity() -> None:
    """A large delta makes the Gaussian the better one: sqrt 2 units added, sqrt 6 replaced (visits
    and rewards), and 1 and sqrt 2 where rewards are public."""
    budget, unit = Budget(epsilon=EPSILON, delta=10**17), 1 << 24
    known = {"topology": LOOP, "rewards": [1, 0, 2]}
    for part, square in (
        (public(), 2),
        (public(trajectories=3), 6),
        (public(**known), 1),
        (public(trajectories=3, **known), 2),
    ):
        (event,) = problem().plan(part, budget).events
        assert event.mechanism == "discrete_gaussian"
        assert unit * square**0.5 <= event.sensitivity <= unit * square**0.5 * (1 + 1e-15)


def step_of(method: str, event: Any, others: int) -> Any:
    """A sampler of one step's weights, `others` trajectories at the one end of the clip and one
    more at the other.

    Begun where the dual weight is large and importance ratios make the primal gradient all of it, a
    trajectory's clipped gradient is the clip, its sign the ratio's side.
    """
    features: Features = Identity(1, 1.0)
    rows = [
        {
            "trajectory": number,
            "step": 0,
            "x": [1.0],
            "x_next": [0.0],
            "reward": 0.0,
            "terminal": True,
        }
        for number in range(max(1, others))
    ]
    part = public(features=1, horizon=1)
    content = read(part, [{**row, "behaviour": 1e-6, "target": 1.0} for row in rows])
    content = {name: column[: others + (name == "start")] for name, column in content.items()}
    moved = transitions_of(content, 1e6)
    generator = Noise.seeded(7).generator()
    start = np.array([0.0, 1e6])

    def draw(count: int) -> Any:
        shared: Any = {
            "clip": 1.0,
            "noise_scale": event.scale,
            "generator": generator,
            "initial": start,
            "steps": 1,
        }
        if method == "minibatch":
            one = functools.partial(
                gtd.minibatch, moved, features, 0.9, probability=0.5, step_size=1.0, **shared
            )
        else:
            one = functools.partial(gtd.gradient, moved, features, 0.9, step_sizes=1.0, **shared)
        return np.array([one() for _ in range(count)])

    return draw


@pytest.mark.long
def test_a_minibatch_step_holds_and_half_its_noise_is_caught() -> None:
    """The kernel that runs, at the iterate that is worst: composition lets the adversary choose
    it."""
    event = calibration.poisson_subsampled_gaussian(
        1.0, 2 * EPSILON, DELTA, probability=0.5, steps=1, relation="add_remove", neighbours="x"
    )
    for played, caught in ((event, False), (event.less_noise(2), True)):
        attack = Attack.learn(
            step_of("minibatch", played, 1), step_of("minibatch", played, 0), 40_000
        )
        assert isinstance(event, CalibratedEvent)
        bound = attack.curve_lower_bound(event, 1 - 1e-6)
        assert (bound > 2) == caught
        assert bound > 0.3


def test_one_draw_of_a_gradient_step_is_clipped_at_both_ends() -> None:
    """Replacing the drawn trajectory moves a step by at most two clips: the distance that the
    calibration uses."""
    quiet = calibration.one_draw_gaussian(
        1.0, 100 * EPSILON, DELTA, population=1, steps=1, neighbours="x"
    )
    assert quiet.sensitivity == 2
    silent = quiet.model_copy(update={"scale": 1e-12})
    drawn = step_of("gradient", silent, 3)(50)
    assert drawn == pytest.approx(np.full((50, 1), 1.0), abs=1e-5)


def test_gpope_is_calibrated_by_the_true_curve() -> None:
    """vectors.json: sigma 1.0799, .9791, .9407 at (.1, 1e-5) with N = m; Lemma 1's .5704 is not
    enough."""
    for m, sigma in ((100_000, 1.0799), (300_000, 0.9791), (500_000, 0.9407)):
        plan = problem(method="gradient", clip=3).plan(
            public(trajectories=m), Budget(epsilon=EPSILON // 10, delta=DELTA)
        )
        (event,) = plan.events
        assert event.count == m
        assert 0.99 * sigma < event.scale / 3 <= sigma * 1.001


# Datasets -----------------------------------------------------------------------------------------


@given(OTHERS, st.randoms(), st.booleans())
@settings(max_examples=60)
def test_neither_order_nor_names_nor_format_matter(
    trajectories: list[Any], random: Any, off_policy: bool
) -> None:
    part = public(off_policy=None)
    more = {"behaviour": 0.5, "target": 0.25, "action": "left"} if off_policy else {}
    rows = rows_of(trajectories, **more)
    first = b"".join(canonical_bytes(read(part, rows)))
    renamed = [{**row, "trajectory": row["trajectory"][::-1]} for row in rows]
    random.shuffle(renamed)
    table = OffPolicyDataset.read_table(part, pa.Table.from_pylist(renamed))
    assert b"".join(canonical_bytes(table)) == first
    described = OffPolicyDataset.describe(part, table)
    assert described.off_policy == off_policy


@given(OTHERS, st.randoms(), st.booleans(), st.booleans())
@settings(max_examples=40)
def test_owners_are_told_apart_by_any_column(
    trajectories: list[Any], random: Any, words: bool, shuffled: bool
) -> None:
    """Numbers in order are not looked up one by one; where they are in disorder, or words, they
    are."""
    part = public()
    rows = rows_of(trajectories)
    first = b"".join(canonical_bytes(read(part, rows)))
    numbers = sorted(random.sample(range(-50, 50), len(trajectories)))
    names = {f"person {place}": number for place, number in enumerate(numbers)}
    renamed = [{**row, "trajectory": names[row["trajectory"]]} for row in rows]
    if words:
        renamed = [{**row, "trajectory": str(row["trajectory"])} for row in renamed]
    if shuffled:
        random.shuffle(renamed)
    assert (
        b"".join(canonical_bytes(OffPolicyDataset.read_table(part, pa.Table.from_pylist(renamed))))
        == first
    )


def test_rows_outside_of_the_topology_are_named_in_any_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset, "ROWS_AT_ONCE", 2)
    known = {
        "topology": [[0, 1], [1, 2], [2, STATES]],
        "rewards": [1.0, 0.0, 2.0],
        "trajectories": 2,
    }
    read(public(**known), rows_of([GOOD, GOOD]))
    for change, pointer in (
        ({"next_state": 0}, "/content/transitions/4/next_state"),
        ({"reward": 0.5}, "/content/transitions/4/reward"),
    ):
        with pytest.raises(InvalidInput) as refused:
            read(public(**known), changed(4, **change))
        assert [issue.pointer for issue in refused.value.issues] == [pointer]


def test_vectors_come_as_lists_or_columns() -> None:
    part = public(features=2)
    row = {"trajectory": 1, "reward": 1.0, "terminal": False}
    rows = [{**row, "step": step, "x": [step, 1.5], "x_next": [step + 1, 0.0]} for step in range(3)]
    first = b"".join(canonical_bytes(read(part, rows)))
    lists = pa.Table.from_pylist(rows)
    flat = pa.Table.from_pylist(
        [
            {
                **{name: value for name, value in each.items() if name not in ("x", "x_next")},
                **{f"x_{axis}": each["x"][axis] for axis in range(2)},
                **{f"x_next_{axis}": each["x_next"][axis] for axis in range(2)},
            }
            for each in rows
        ]
    )
    for table in (lists, flat):
        assert b"".join(canonical_bytes(OffPolicyDataset.read_table(part, table))) == first
    with pytest.raises(InvalidInput, match="lists of 2 numbers"):
        OffPolicyDataset.read_table(
            part, lists.set_column(lists.column_names.index("x"), "x", [[[1.0], [2.0], [3.0]]])
        )


GOOD = [(0, 1, 1.0), (1, 2, 0.0), (2, STATES, 2.0)]


def changed(row: int, **values: Any) -> list[dict[str, Any]]:
    rows = rows_of([GOOD, GOOD])
    rows[row] |= values
    return rows


@pytest.mark.parametrize(
    ("part", "rows", "pointer"),
    [
        ({}, changed(1, state=3), "/content/transitions/1/state"),
        ({}, changed(1, next_state=9), "/content/transitions/1/next_state"),
        ({}, changed(4, reward=2.5), "/content/transitions/4/reward"),
        ({}, changed(1, step=6), "/content/transitions/1/step"),
        ({}, changed(1, step=2), "/content/transitions/2/step"),
        ({}, changed(0, terminal=True), "/content/transitions/1/step"),
        ({}, changed(2, behaviour=0.5, target=0.5), "/content/transitions/0/behaviour"),
        ({}, rows_of([GOOD], behaviour=0.0, target=0.5), "/content/transitions/0/behaviour"),
        ({}, rows_of([GOOD], behaviour=0.5, target=1.5), "/content/transitions/0/target"),
        ({}, changed(3, x=[1.0]), "/content/transitions/3/x"),
        ({"features": 2}, changed(3), "/content/transitions/0/x"),
        ({"trajectories": 3}, changed(0), "/public/trajectories"),
        ({}, [], "/content/transitions"),
        ({"topology": [[0, 1], [1, 2]]}, changed(0), "/content/transitions/2/next_state"),
        (
            {"topology": [[0, 1], [1, 2], [2, 3]], "rewards": [1, 0, 2]},
            changed(3, reward=0.5),
            "/content/transitions/3/reward",
        ),
    ],
)
def test_content_is_refused_by_row(
    part: dict[str, Any], rows: list[dict[str, Any]], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        read(public(**part), rows)
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_a_public_part_that_says_otherwise_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        OffPolicyDataset.describe(public(off_policy=True), read(public(), rows_of([GOOD])))
    assert refused.value.issues[0].pointer == "/public/off_policy"


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"features": 2, "states": 2}, "either"),
        ({"states": None, "topology": [[0, 1]]}, "a topology needs the number of its states"),
        ({"states": None, "ranges": []}, "the number of states or that of features is needed"),
        ({"neighbours": "replace"}, "public number"),
        ({"neighbours": "add_remove", "trajectories": 5}, "private"),
        ({"topology": [[0, 4]]}, "0 to 2"),
        ({"topology": [[0, 1], [0, 1]]}, "twice"),
        ({"rewards": [1]}, "one for each"),
        ({"topology": [[0, 1]], "rewards": [5]}, "bound"),
        ({"features": 2, "topology": [[0, 1]]}, "tabular"),
    ],
)
def test_public_parts_that_contradict_themselves_are_refused(
    values: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        public(**values)


FOURIER = {"type": "fourier", "order": 3, "low": [0, 0], "high": [1, 1]}


@pytest.mark.parametrize(
    ("part", "values", "pointer"),
    [
        ({"features": 2}, {}, "/problem/features/type"),
        ({}, {"features": FOURIER}, "/problem/features/type"),
        ({"features": 3}, {"features": FOURIER}, "/problem/features/low"),
        ({"features": 2}, {"features": {**FOURIER, "high": [1, 0]}}, "/problem/features/low"),
        (
            {"features": 2},
            {"features": {**FOURIER, "order": 20, "low": [0] * 3, "high": [1] * 3}},
            "/problem/features/order",
        ),
        ({"off_policy": True}, {"method": "dp_lsw"}, "/problem/method"),
        ({"features": 2}, {"features": FOURIER, "method": "dp_lsl"}, "/problem/method"),
        ({}, {"method": "gradient"}, "/problem/method"),
        ({}, {"max_importance": 5}, "/problem/max_importance"),
        ({}, {"clip": 1}, "/problem/clip"),
        ({}, {"steps": 10}, "/problem/steps"),
        ({}, {"sampling": 0.1}, "/problem/sampling"),
        ({}, {"initial": [0.5, 0.5]}, "/problem/initial"),
        ({}, {"initial": [0.5, 0.5, 0.5]}, "/problem/initial"),
        ({}, {"initial": [[1.0, 2.0]]}, "/problem/initial"),
        ({"features": 2}, {"features": FOURIER, "initial": [[1.0]]}, "/problem/initial"),
        ({"features": 2}, {"features": FOURIER}, "/privacy/delta"),
        ({"trajectories": 9}, {"method": "gradient"}, "/privacy/delta"),
    ],
)
def test_plans_are_refused_by_field(
    part: dict[str, Any], values: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        problem(**values).plan(public(**part), Budget(epsilon=EPSILON, delta=0))
    assert pointer in {issue.pointer for issue in refused.value.issues}


def test_plans_say_when_there_are_too_few_trajectories() -> None:
    budget = Budget(epsilon=EPSILON // 10, delta=DELTA)
    few, many = (problem().plan(public(trajectories=m), budget).advice for m in (50, 10**6))
    assert "mostly noise" in few[0]
    assert "useless" in few[0]
    assert "±" in many[0]
    assert "noise" not in many[0]
    assert "takes some" in problem().plan(public(), budget).advice[0]
    for extra in ({}, {"trajectories": 50}):  # all values are 0, whatever the noise
        part = public(topology=LOOP, rewards=[0, 0, 0], **extra)
        assert not any("±" in said for said in problem().plan(part, budget).advice)
    columns = {"features": FOURIER, "method": "moments"}
    few, many = (
        problem(**columns).plan(public(features=2, trajectories=m), budget).advice
        for m in (50, 10**7)
    )
    assert "too few trajectories" in few[0]
    assert "too few" not in many[0]


# Answers ------------------------------------------------------------------------------------------


def solved(
    part: OffPolicyPublic, rows: list[dict[str, Any]], noise: Noise, epsilon: int, **values: Any
) -> Any:
    asked = problem(**values)
    plan = asked.plan(part, Budget(epsilon=epsilon, delta=DELTA))
    released = asked.release(part, plan, read(part, rows), noise)
    return asked.finish(part, plan, released, lambda *_: None).to_json()


LOOP = [[0, 1], [1, 2], [2, 3]]
VALUES = [1 + 0.9 * 0.9 * 2, 0.9 * 2, 2.0]


@pytest.mark.parametrize("extra", [{}, {"rewards": [1, 0, 2]}])
def test_moments_find_the_values(extra: dict[str, Any]) -> None:
    """Three states in a row: the values are known in closed form. 2,000 people, epsilon 1."""
    part = public(topology=LOOP, trajectories=2000, **extra)
    body = solved(part, rows_of([GOOD] * 2000), Noise.seeded(1), EPSILON, initial=[1, 0, 0])
    assert body["values"] == pytest.approx(VALUES, abs=0.05)
    assert body["policy_value"] == body["weights"][0]
    everywhere = public(trajectories=2000)
    assert solved(everywhere, rows_of([GOOD] * 2000), Noise.seeded(1), EPSILON)[
        "values"
    ] == pytest.approx(VALUES, abs=0.1)


def test_off_policy_moments_weigh_by_the_ratio() -> None:
    """Behaviour goes left or right at even odds for 0 or 2; the target goes right at 3/4: worth
    1.5."""
    left, right = [(0, STATES, 0.0)], [(0, STATES, 2.0)]
    rows = [
        *rows_of([left] * 1000, behaviour=0.5, target=0.25),
        *(
            {**row, "trajectory": "r" + row["trajectory"]}
            for row in rows_of([right] * 1000, behaviour=0.5, target=0.75)
        ),
    ]
    part = public(off_policy=True, topology=[[0, 3], [1, 3], [2, 3]])
    body = solved(part, rows, Noise.seeded(3), 2 * EPSILON, method="moments", max_importance=2)
    assert body["values"][0] == pytest.approx(1.5, abs=0.05)


@pytest.mark.parametrize(
    ("method", "extra", "tolerance"),
    [
        ("minibatch", {"steps": 2000, "sampling": 0.1, "step_size": 0.5, "clip": 2}, 0.4),
        ("minibatch", {}, 0.4),
        ("dp_lsl", {}, 3),
        ("gradient", {"steps": 200_000, "clip": 0.3, "step_size": 0.1}, 0.6),
        ("dp_lsw", {}, 0.5),
    ],
)
def test_other_methods_come_near(method: str, extra: dict[str, Any], tolerance: float) -> None:
    part = public(trajectories=3000)
    body = solved(
        part, rows_of([GOOD] * 3000), Noise.seeded(5), 8 * EPSILON, method=method, **extra
    )
    assert body["values"] == pytest.approx(VALUES, abs=tolerance)


def test_a_minibatch_with_too_much_noise_predicts_nothing_rather_than_noise() -> None:
    """Twenty trajectories at epsilon 1: default steps are so short that the answer is nearly that
    of predicting 0; the same steps without regard to the noise are far off."""
    part, rows = public(trajectories=20), rows_of([GOOD] * 20)
    short = solved(part, rows, Noise.seeded(5), EPSILON, method="minibatch")["values"]
    long = solved(part, rows, Noise.seeded(5), EPSILON, method="minibatch", step_size=TABULAR_STEP)[
        "values"
    ]
    assert np.abs(short).max() < 0.3 * max(VALUES)
    assert np.abs(long).max() > 5 * max(VALUES)
    plan = problem(method="minibatch").plan(part, Budget(epsilon=EPSILON, delta=10**13))
    assert "hardly more than predicting 0" in plan.advice[0]
    factors = [
        shorter(noise, TABULAR_NOISE)
        for noise in (0.0, 1.0, TABULAR_NOISE, 2 * TABULAR_NOISE, 1e300)
    ]
    assert factors[:3] == [1, 1, 1]
    assert 1 > factors[3] > factors[4] >= 0


def test_columns_and_fourier_features_find_the_values() -> None:
    rows = rows_of([GOOD] * 4000)
    for row in rows:
        row["x"], row["x_next"] = [row.pop("state") / 2], [row.pop("next_state") / 2]
    part = public(features=1, trajectories=4000)
    fields = {
        "features": {"type": "fourier", "order": 2, "low": [0], "high": [1]},
        "initial": [[0.0], [0.0]],
    }
    body = solved(part, rows, Noise.seeded(2), 8 * EPSILON, **fields)
    assert body["policy_value"] == pytest.approx(VALUES[0], abs=0.3)
    assert len(body["weights"]) == 3


@given(st.lists(st.integers(-(2**40), 2**40), min_size=6, max_size=6))
@settings(max_examples=50)
def test_any_release_gives_finite_bounded_values(noisy: list[int]) -> None:
    part = public(topology=LOOP)
    asked = problem()
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=0))
    body = asked.finish(part, plan, {"sums": np.array(noisy)}, lambda *_: None).to_json()
    assert np.abs(body["values"]).max() <= 2 / (1 - 0.9) * (1 + 1e-9)


def test_features_are_never_all_in_memory() -> None:
    """100 long trajectories and 1,000 Fourier features: all features of both ends would be 320 MB,
    and with a content of a sixtieth of what may be registered more than a child's memory. The
    release of two steps takes a few MB."""
    part = public(features=3, horizon=1000)
    generator = np.random.default_rng(0)
    count = 20_000
    content = {
        "start": np.arange(0, count + 1, 200),
        "x": generator.random((count, 3)),
        "x_next": generator.random((count, 3)),
        "reward": generator.random(count),
        "terminal": np.zeros(count, dtype=bool),
    }
    features = {"type": "fourier", "order": 9, "low": [0, 0, 0], "high": [1, 1, 1]}
    asked = problem(features=features, method="minibatch", steps=2, sampling=0.02, clip=1)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    asked.release(part, plan, content, Noise.seeded(1))  # whatever is compiled or cached
    tracemalloc.start()
    try:
        asked.release(part, plan, content, Noise.seeded(1))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 20e6


def test_features_of_a_row_do_not_depend_on_other_rows() -> None:
    """To the last bit: what a trajectory adds to a sum is a function of that trajectory alone."""
    features = Fourier(4, (0.0, -1.0), (1.0, 2.0))
    points = np.random.default_rng(1).uniform(-1, 2, (1000, 2))
    together = features(points)
    alone = np.concatenate([features(row[None]) for row in points])
    assert np.array_equal(together, alone)


def test_states_of_raw_size_are_named() -> None:
    """Ages as they are, under features that are bounded by 1: the plan says what becomes of
    them."""
    features = {"type": "identity", "bound": 100}
    budget = Budget(epsilon=EPSILON, delta=DELTA)
    raw = problem(features={"type": "identity"}, initial=[[0.5], [63.0]])
    with pytest.raises(InvalidInput) as refused:
        raw.plan(public(features=1), budget)
    [issue] = refused.value.issues
    assert issue.pointer == "/problem/initial/1"
    assert "length 63" in issue.detail
    assert "features.bound 1, here and in the columns x and x_next" in issue.detail
    advice = problem(features=features, initial=[[63.0]]).plan(public(features=1), budget).advice
    assert any("a row longer than features.bound 100" in one for one in advice)
    assert not any("bound" in one for one in problem().plan(public(), budget).advice)


@pytest.mark.parametrize(
    ("part", "values", "pointer"),
    [
        # 1e7 passes over all that there may be: a limit on time would tell how much there is.
        (
            {"features": 1},
            {
                "features": {"type": "identity"},
                "method": "minibatch",
                "sampling": 1,
                "steps": 10**7,
            },
            "steps",
        ),
        (
            {"features": 3, "max_rows": 10**7},
            {
                "features": {"type": "fourier", "order": 9, "low": [0] * 3, "high": [1] * 3},
                "method": "moments",
            },
            "features",
        ),
        (
            {"features": 1, "trajectories": 10**5, "horizon": 10**6, "max_rows": 10**9},
            {"features": {"type": "identity"}, "method": "gradient", "steps": 10**6},
            "steps",
        ),
    ],
)
def test_work_that_some_content_could_not_be_done_in_time_is_refused(
    part: dict[str, Any], values: dict[str, Any], pointer: str
) -> None:
    with pytest.raises(InvalidInput, match="with the largest content") as refused:
        problem(**values).plan(public(**part), Budget(epsilon=EPSILON, delta=DELTA))
    assert refused.value.issues[0].pointer == f"/problem/{pointer}"
    smaller = {**part, "trajectories": 1000, "horizon": 5}
    shorter = {**values, **({"steps": 1000} if "steps" in values else {})}
    assert problem(**shorter).plan(public(**smaller), Budget(epsilon=EPSILON, delta=DELTA)).price


@pytest.mark.parametrize(
    ("part", "values"),
    [
        ({"trajectories": 3}, {"method": "dp_lsw"}),
        ({"trajectories": 3}, {"method": "gradient", "steps": 20}),
        ({}, {"method": "minibatch", "steps": 20}),
    ],
)
def test_no_last_bits_of_float_noise_are_released(
    part: dict[str, Any], values: dict[str, Any]
) -> None:
    """24 significant bits of noise that has 52: in the rest stands what it was added to."""
    part_ = public(**part)
    asked = problem(**values)
    plan = asked.plan(part_, Budget(epsilon=EPSILON, delta=DELTA))
    content = read(part_, rows_of([[(0, 1, 1.0)], [(1, 2, 0.5)], [(2, 3, -1.0)]]))
    weights = asked.release(part_, plan, content, Noise.seeded(1))["weights"]
    assert np.count_nonzero(weights) == STATES
    assert np.array_equal(weights, weights.astype(np.float32))


def test_steps_follow_from_the_released_number_of_trajectories() -> None:
    """Three and thirty of them give the same weights where the same number is released, and none of
    them is drawn."""

    class Said(Noise):
        def add(self, event: Any, values: Any) -> Any:
            return np.array([10])

    part = public(max_trajectories=100)
    asked = problem(method="minibatch", steps=5, sampling=1e-6)
    plan = asked.plan(part, Budget(epsilon=EPSILON, delta=DELTA))
    weights = []
    for number in (3, 30):
        content = read(part, rows_of([[(0, 1, 1.0)]] * number))
        noise = Said(Noise.seeded(1)._entropy)
        weights.append(asked.release(part, plan, content, noise)["weights"])
    assert np.count_nonzero(weights[0])
    assert np.array_equal(*weights)


def test_a_penalty_that_rounding_swallows_is_refused() -> None:
    """With 5e-324 the equations were singular exactly where some state was never visited, and the
    job failed."""
    asked = {"method": "dp_lsl", "regularization": 5e-324}
    with pytest.raises(InvalidInput, match="at least") as refused:
        problem(**asked).plan(public(), Budget(epsilon=EPSILON, delta=DELTA))
    assert refused.value.issues[0].pointer == "/problem/regularization"
    moved = transitions_of(read(public(), rows_of([[(0, 1, 1.0), (1, 1, 1.0)]])), 1.0)
    with np.errstate(all="ignore"):
        found = regression.dp_lsl(
            moved, np.eye(STATES), 0.9, penalty=5e-324, smoothing=0.01, reward_bound=2
        )
    assert found.theta.shape == (STATES,)


@pytest.mark.parametrize(("field", "least"), [("sampling", 1e-9), ("clip", 1e-9)])
def test_what_doubles_do_not_tell_apart_is_refused(field: str, least: float) -> None:
    """Gaps of samples are made of 53 bits, and squares of tiny vectors are 0: neither would be what
    is charged."""
    body = {
        "kind": "off_policy_evaluation",
        "dataset": "dst_1",
        "features": {"type": "tabular"},
        "discount": 0.5,
    }
    OffPolicyEvaluation.model_validate({**body, field: least})
    with pytest.raises(ValidationError, match=field):
        OffPolicyEvaluation.model_validate({**body, field: least * 0.999})


@pytest.mark.parametrize("discount", [0.0, 0.5])
def test_regressions_take_any_discount(discount: float) -> None:
    """Without a future a return is one reward: the largest is the bound."""
    moved = transitions_of(read(public(), rows_of([[(0, 1, 1.0), (1, 1, 1.0)]])), 1.0)
    found = regression.dp_lsw(
        moved, np.eye(STATES), discount, smoothing=0.01, reward_bound=2, horizon=2
    )
    assert found.theta[:2] == pytest.approx([1 + discount, 1])
    # Nobody or one visits each state: the spread, 2 times 2 (1 + discount), in each of three.
    assert found.sensitivity == pytest.approx(4 * (1 + discount) * 3**0.5)
