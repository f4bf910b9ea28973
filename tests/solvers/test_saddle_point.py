"""Primal-dual steps against plain Python, CVXPY's saddle points and closed forms of Gaussian
noise."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest, norm

from discreet.reproduce import hale, hale_example
from discreet.solvers.saddle.convexity import sensitivities, to_cvxpy, variables
from discreet.solvers.saddle.intervals import Box
from discreet.solvers.saddle.noise_split import equal_split, joint_distance
from discreet.solvers.saddle.normal_noise import key_of, standard_normal
from discreet.solvers.saddle.saddle_point import (
    STEPS_AT_ONCE,
    Iterate,
    Outputs,
    SaddleProblem,
    Schedule,
    advance,
    cloud_outputs,
    cloud_step,
    noise_width,
    noised_outputs,
    run,
    saddle_problem,
    thinned,
)
from discreet_agent.cloud_steps import agent_step
from discreet_agent.expressions import Expression, parse

Floats = NDArray[np.float64]

ROOT = Path(__file__).parents[2]
VECTORS = json.loads((ROOT / "tests" / "privacy" / "vectors.json").read_text())["hale"]
SCHEDULE = Schedule(gamma=0.05, alpha=0.02, c1=0.4, c2=0.35)


def gradient_of(outputs: Outputs, released: Any, agent: int, constraints: int) -> Floats:
    """The noised dG/dx_i of one agent, float64[m]: what the cloud sends it."""
    gradient = np.zeros(constraints)
    mine = outputs.agent == agent
    gradient[outputs.constraint[mine]] = np.asarray(released)[mine]
    return gradient


def coupled() -> tuple[dict[str, Expression], list[Expression], tuple[str, ...], Box]:
    """Three agents whose constraints couple them: every derivative depends on every state."""
    names = ("a", "b", "c")
    terms = {"a": "(a - 2)^2", "b": "exp(b) - 2*b", "c": "abs(c - 1.5) + c^2/2"}
    constraints = ["(a + b + c)^2/4 - 1", "exp(a - b)/3 + c^2 - 2", "a + 2*b - c - 2"]
    box = {"a": (-2.0, 2.5), "b": (-1.0, 2.0), "c": (-2.0, 2.0)}
    return (
        {name: parse(text, [name]) for name, text in terms.items()},
        [parse(text, names) for text in constraints],
        names,
        box,
    )


def by_cvxpy(
    terms: dict[str, Expression], constraints: list[Expression], names: tuple[str, ...], box: Box
) -> tuple[Floats, Floats]:
    known = variables(box)
    rows = [to_cvxpy(constraint, known, box) <= 0 for constraint in constraints]
    inside = [
        bound
        for name in names
        for bound in (known[name] >= box[name][0], known[name] <= box[name][1])
    ]
    cp.Problem(
        cp.Minimize(sum(to_cvxpy(terms[n], known, box) for n in names)), rows + inside
    ).solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11)
    return np.array([float(known[name].value) for name in names]), np.array(
        [float(row.dual_value) for row in rows]
    )


def step_by_step(
    problem: SaddleProblem, outputs: Outputs, schedule: Schedule, noise: Floats, slopes: Any
) -> tuple[Floats, Floats, Floats]:
    """What a cloud and its agents do apart: paths of states, multipliers and outputs."""
    states = [0.5 * (low + high) for low, high in zip(problem.lower, problem.upper, strict=True)]
    multipliers = [0.0] * problem.constraints
    paths: tuple[list[Any], list[Any], list[Any]] = ([], [], [])
    for k, z in enumerate(noise, start=1):
        gamma, alpha = schedule.at(k)
        released = cloud_outputs(problem, outputs, states, z)
        next_states = [
            agent_step(
                state,
                slopes[i](state),
                gradient_of(outputs, released, i, problem.constraints).tolist(),
                multipliers,
                gamma,
                alpha,
                float(problem.lower[i]),
                float(problem.upper[i]),
            )
            for i, state in enumerate(states)
        ]
        multipliers = cloud_step(
            multipliers, released[: problem.constraints].tolist(), gamma, alpha
        )
        states = next_states
        for path, part in zip(paths, (states, multipliers, released), strict=True):
            path.append(part)
    return np.array(paths[0]), np.array(paths[1]), np.array(paths[2])


SLOPES = (
    lambda a: 2 * (a - 2),
    lambda b: math.exp(b) - 2,
    lambda c: (1.0 if c > 1.5 else -1.0 if c < 1.5 else 0.0) + c,
)


# The iteration ------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [0.0, 2.0**-20])
@pytest.mark.parametrize(
    "gradient_scale", [0.0, 0.3, np.array([[0.1, 0.0, 0.4], [0.0, 0.2, 0.0], [0.3, 0.0, 0.0]])]
)
def test_the_loop_is_the_steps_of_cloud_and_agents(grid: float, gradient_scale: Any) -> None:
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, [0.5, 0.0, 0.2], gradient_scale, grid=grid)
    noise = np.random.default_rng(1).standard_normal((400, noise_width(outputs)))
    states, multipliers, released = step_by_step(problem, outputs, SCHEDULE, noise, SLOPES)
    path = run(
        problem,
        outputs,
        SCHEDULE,
        400,
        noise=lambda count, width: noise[:count],
        points=400,
        average=0.25,
    )
    assert path.steps.tolist() == list(range(1, 401))
    np.testing.assert_allclose(path.states, states, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.multipliers, multipliers, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.released, released, rtol=0, atol=1e-12)
    np.testing.assert_allclose(path.mean_states, states[100:].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(path.mean_multipliers, multipliers[100:].mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(path.mean_released, released[100:].mean(axis=0), atol=1e-12)
    assert not np.array_equal(
        path.states[-1], np.clip(path.states[-1], -0.1, 0.1)
    )  # it went somewhere


def test_a_generator_gives_the_key_of_noise_in_the_order_of_the_outputs() -> None:
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, 0.5, 0.3)
    width = noise_width(outputs)
    assert width == len(outputs.scale) == 3 + 9
    drawn = run(problem, outputs, SCHEDULE, 70_000, generator=np.random.default_rng(4), points=7)
    whole = standard_normal(key_of(np.random.default_rng(4)), 0, (70_000, width))
    given = iter(np.split(whole, range(STEPS_AT_ONCE, 70_000, STEPS_AT_ONCE)))
    replayed = run(problem, outputs, SCHEDULE, 70_000, noise=lambda n, w: next(given), points=7)
    for name in (
        "steps",
        "states",
        "multipliers",
        "released",
        "mean_states",
        "mean_multipliers",
        "mean_released",
    ):
        np.testing.assert_array_equal(getattr(drawn, name), getattr(replayed, name))


def test_a_run_goes_on_where_it_stopped() -> None:
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, 0.5, 0.3)
    key = key_of(np.random.default_rng(9))
    noise = standard_normal(key, 0, (300, noise_width(outputs)))
    whole = Iterate.initial(problem, outputs)
    advance(problem, outputs, SCHEDULE, whole, 300, noise=noise, average_from=120)
    for keyed in (False, True):
        parts = Iterate.initial(problem, outputs)
        for start, end in ((0, 1), (1, 130), (130, 300)):
            source: Any = {"key": key} if keyed else {"noise": noise[start:end]}
            advance(problem, outputs, SCHEDULE, parts, end - start, **source, average_from=120)
        assert parts.step == whole.step == 300
        assert parts.averaged == whole.averaged == 180
        for name in ("states", "multipliers", "state_sum", "multiplier_sum", "output_sum"):
            np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))


def test_without_noise_it_finds_the_saddle_point() -> None:
    made = coupled()
    problem = saddle_problem(*made)
    x, mu = by_cvxpy(*made)
    assert mu.max() > 0.1  # some constraint holds back
    path = run(problem, noised_outputs(problem, 0.0, 0.0), Schedule(0.3, 0.01, 0.4, 0.39), 300_000)
    np.testing.assert_allclose(path.states[-1], x, atol=2e-3)
    np.testing.assert_allclose(path.multipliers[-1], mu, atol=2e-3)
    # Outputs at the saddle: complementary slackness.
    assert abs(path.mean_released[:3] * mu).max() < 0.02


def test_noise_averages_out() -> None:
    """Errors of the averaged iterate fall with the steps: mean-square convergence, on 12 seeds."""
    made = coupled()
    problem = saddle_problem(*made)
    x, _ = by_cvxpy(*made)
    outputs = noised_outputs(problem, 1.0, 0.5)
    means = []
    for steps in (1_000, 100_000):
        paths = [
            run(problem, outputs, SCHEDULE, steps, generator=np.random.default_rng(seed))
            for seed in range(12)
        ]
        means.append(np.mean([np.sum((path.mean_states - x) ** 2) for path in paths]))
    assert means[1] < 0.2 * means[0]


def test_states_stay_in_the_box_and_multipliers_nonnegative() -> None:
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, 1e6, 1e6)
    path = run(problem, outputs, SCHEDULE, 2_000, generator=np.random.default_rng(0), points=2_000)
    assert (path.states >= problem.lower).all()
    assert (path.states <= problem.upper).all()
    assert (path.multipliers >= 0).all()
    assert np.isfinite(path.released).all()


def test_path_has_a_public_length() -> None:
    assert thinned(10, 4).tolist() == [3, 5, 8, 10]
    assert thinned(3, 100).tolist() == [1, 2, 3]
    assert thinned(500_000, 1).tolist() == [500_000]
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, 0.1, 0.1)
    seen: list[tuple[int, int]] = []
    long = run(
        problem,
        outputs,
        SCHEDULE,
        70_000,
        generator=np.random.default_rng(2),
        points=13,
        progress=lambda done, of: seen.append((done, of)),
    )
    assert long.steps.tolist() == thinned(70_000, 13).tolist()
    assert seen[-1] == (70_000, 70_000)
    full = run(
        problem, outputs, SCHEDULE, 70_000, generator=np.random.default_rng(2), points=70_000
    )
    np.testing.assert_array_equal(long.multipliers, full.multipliers[long.steps - 1])


def test_schedules_must_converge() -> None:
    Schedule(0.1, 0.1, 0.5, 0.49)
    for c1, c2 in [
        (0.3, 0.3),
        (0.2, 0.3),
        (0.6, 0.4),
        (0.7, 0.5),
        (0.5, 0.0),
        (0.5, -0.1),
        (math.nan, 0.2),
    ]:
        with pytest.raises(ValueError, match="exponents"):
            Schedule(0.1, 0.1, c1, c2)
    for gamma, alpha in [(0.0, 0.1), (0.1, 0.0), (-1.0, 0.1), (math.inf, 0.1), (math.nan, 0.1)]:
        with pytest.raises(ValueError, match="positive"):
            Schedule(gamma, alpha, 0.5, 0.25)
    assert Schedule(0.5, 0.25, 0.5, 0.25).at(16) == pytest.approx((0.125, 0.125))


def test_bad_arguments() -> None:
    terms, constraints, names, box = coupled()
    with pytest.raises(ValueError, match="depends on b"):
        saddle_problem({**terms, "a": parse("a + b", names)}, constraints, names, box)
    problem = saddle_problem(terms, constraints, names, box)
    outputs = noised_outputs(problem, 1.0, 0.0)
    for scale in (-1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="scales"):
            noised_outputs(problem, scale, 0.0)
        with pytest.raises(ValueError, match="scales"):
            noised_outputs(problem, 0.0, scale)
    with pytest.raises(ValueError, match="either from a generator"):
        run(problem, outputs, SCHEDULE, 10)
    with pytest.raises(ValueError, match="at least 1"):
        run(problem, outputs, SCHEDULE, 0, generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="shape"):
        run(problem, outputs, SCHEDULE, 10, noise=lambda count, width: np.zeros((count, width + 1)))
    with pytest.raises(ValueError, match="finite number"):
        run(
            problem,
            outputs,
            SCHEDULE,
            10,
            generator=np.random.default_rng(0),
            states=[0.0, math.nan, 0.0],
        )
    with pytest.raises(ValueError, match="noise or a key"):
        advance(problem, outputs, SCHEDULE, Iterate.initial(problem, outputs), 5)


# Noise --------------------------------------------------------------------------------------------


def test_outputs_carry_the_noise_they_declare() -> None:
    problem = saddle_problem(*coupled())
    outputs = noised_outputs(problem, [2.0, 0.0, 5.0], 0.7)
    generator = np.random.default_rng(11)
    states = np.array([0.3, -0.2, 0.9])
    exact = cloud_outputs(problem, noised_outputs(problem, 0.0, 0.7), states, np.zeros(11))
    draws = np.array(
        [
            cloud_outputs(problem, outputs, states, generator.standard_normal(noise_width(outputs)))
            for _ in range(4000)
        ]
    )
    for o, scale in enumerate(outputs.scale):
        if scale == 0:
            assert (draws[:, o] == exact[o]).all()
        else:
            assert kstest((draws[:, o] - exact[o]) / scale, "norm").pvalue > 1e-5
    noisy = draws[:, outputs.scale > 0]
    correlation = np.corrcoef(noisy.T) - np.eye(noisy.shape[1])
    assert abs(correlation).max() < 0.08


def test_values_lie_on_the_grid_of_the_noise() -> None:
    problem = saddle_problem(*coupled())
    grid = 2.0**-8
    outputs = noised_outputs(problem, 4.0, 0.5, grid=grid)
    z = np.random.default_rng(0).integers(-1000, 1000, noise_width(outputs)).astype(np.float64)
    released = cloud_outputs(problem, outputs, [0.3, 0.7, -0.9], z)
    steps = released / outputs.scale / grid
    np.testing.assert_array_equal(steps, np.rint(steps))
    smooth = cloud_outputs(problem, noised_outputs(problem, 4.0, 0.5), [0.3, 0.7, -0.9], z * grid)
    assert (abs(released - smooth) <= outputs.scale * grid / 2 + 1e-12).all()


def test_no_low_bit_tells_how_a_sum_came_about() -> None:
    """Value and noise with the same sum in steps give the same double, also where a step is no
    power of two: otherwise one look at the last bits would tell many pairs of neighbours apart,
    whatever the noise."""
    names, box = ("x",), {"x": (-1e6, 1e6)}
    problem = saddle_problem({}, [parse("x", names)], names, box)
    scale, grid = 0.3, 2.0**-24 / 3
    outputs = noised_outputs(problem, scale, 0.0, grid=grid)
    generator = np.random.default_rng(2)
    for total in generator.integers(-(2**40), 2**40, 50).tolist():
        places = generator.integers(-(2**40), 2**40, 20)
        released = {
            float(
                cloud_outputs(problem, outputs, [place * scale * grid], [float(total - place)])[0]
            )
            for place in places.tolist()
        }
        assert len(released) == 1


def test_a_slope_that_is_no_number_moves_nobody() -> None:
    """exp overflows to infinity, and infinity less infinity is no number: outputs must stay
    numbers."""
    names, box = ("x",), {"x": (-5.0, 5.0)}
    objective = parse("exp(800*x) + exp(-800*x) - 3*(exp(800*x) - exp(801*x))", names)
    problem = saddle_problem({"x": objective}, [parse("x - 4", names)], names, box)
    outputs = noised_outputs(problem, 1.0, 0.0)
    path = run(
        problem, outputs, SCHEDULE, 20, generator=np.random.default_rng(0), states=[4.0], points=20
    )
    assert np.isfinite(path.states).all()
    assert np.isfinite(path.released).all()


def quadratic(n: int) -> tuple[SaddleProblem, Floats, Box]:
    """One constraint (x_1 + … + x_n)²/2 <= 2: every agent moves every output, all gradients by
    exactly its own move."""
    names = tuple(f"x{i}" for i in range(n))
    box = dict.fromkeys(names, (-1.0, 1.0))
    constraint = parse("(" + " + ".join(names) + ")^2/2 - 2", names)
    found = sensitivities([constraint], names, box)
    return (
        saddle_problem({}, [constraint], names, box),
        np.vstack([found.values, found.gradients]),
        box,
    )


def test_joint_release_is_what_its_distance_says_and_per_output_calibration_is_not() -> None:
    """Gradients of a quadratic are linear: the released vector of one step is Gaussian and its
    delta is exact.

    The best test of neighbours is the likelihood ratio; delta = P(loss > eps) - e^eps P'(loss >
    eps), from 40,000 releases of each of two neighbouring states, to four standard errors (0.01).
    """
    n, epsilon = 8, math.log(3)
    problem, moves, _ = quadratic(n)
    assert moves[1:] == pytest.approx(np.ones((n, n)))
    kappa, analytic = VECTORS["kappa_0.05_ln3"], VECTORS["analytic_0.05_ln3"]
    gradients = moves[1:]
    per_output = kappa * gradients.max(axis=1)
    joint = equal_split(np.ones(n), gradients, 1 / analytic)
    left, right = np.zeros(n), np.eye(n)[2]
    deltas = []
    for scale in (per_output, joint):
        # Values of g get noise in which nothing can be seen.
        outputs = noised_outputs(problem, 1e9, scale)
        generator = np.random.default_rng(17)
        centres = [cloud_outputs(problem, outputs, x, np.zeros(n + 1))[1:] for x in (left, right)]

        def loss(
            released: Floats, scale: Floats = scale, centres: list[Floats] = centres
        ) -> Floats:
            far, near = (((released - centre) / scale) ** 2 for centre in (centres[1], centres[0]))
            return np.asarray((far - near).sum(axis=1) / 2)

        samples = [
            np.array(
                [
                    cloud_outputs(problem, outputs, x, generator.standard_normal(n + 1))[1:]
                    for _ in range(40_000)
                ]
            )
            for x in (left, right)
        ]
        measured = np.mean(loss(samples[0]) > epsilon) - 3 * np.mean(loss(samples[1]) > epsilon)
        mu = joint_distance(np.ones(n), gradients, scale)
        exact = norm.cdf(mu / 2 - epsilon / mu) - 3 * norm.cdf(-mu / 2 - epsilon / mu)
        assert measured == pytest.approx(exact, abs=0.01)
        deltas.append(measured)
    assert deltas[0] > 0.3  # the paper's calibration claims .05
    assert deltas[1] < 0.06


def test_closed_loop_transcripts_are_no_further_apart() -> None:
    """Two trajectories of one agent, the others reacting: the likelihood ratio of the whole
    transcript.

    The others' states are functions of what was released, so along one transcript only agent j's
    signal differs, and the squared distance is sum_t ||F(x) - F(x')||²/s² <= mu², with equality for
    the gradients of a quadratic.
    """
    n, steps = 3, 40
    problem, moves, _ = quadratic(n)
    scale = np.array([2.0, 3.0, 1.5])
    outputs = noised_outputs(problem, 5.0, scale)
    generator = np.random.default_rng(3)
    signal = generator.normal(size=steps)
    signal *= 0.9 / np.linalg.norm(signal)  # radius 0.9
    states, multipliers, distance = np.zeros(n), [0.0], 0.0
    for k in range(1, steps + 1):
        moved = states.copy()
        moved[1] = np.clip(states[1], -0.5, 0.5) + signal[k - 1]
        states[1] = np.clip(states[1], -0.5, 0.5)
        a, b = (cloud_outputs(problem, outputs, x, np.zeros(n + 1)) for x in (states, moved))
        distance += float((((a - b)[1:] / scale) ** 2).sum())
        released = cloud_outputs(problem, outputs, states, generator.standard_normal(n + 1))
        gamma, alpha = SCHEDULE.at(k)
        pulls = [gradient_of(outputs, released, i, 1).tolist() for i in range(n)]
        states = np.array(
            [
                agent_step(x, 0.0, pull, multipliers, gamma, alpha, -1.0, 1.0)
                for x, pull in zip(states, pulls, strict=True)
            ]
        )
        multipliers = cloud_step(multipliers, released[:1].tolist(), gamma, alpha)
    assert math.sqrt(distance) == pytest.approx(
        joint_distance([0.9] * n, moves[1:], scale), rel=1e-9
    )


# The paper's example ------------------------------------------------------------------------------


def test_saddle_point_of_the_paper() -> None:
    x, mu = hale_example.saddle()
    np.testing.assert_allclose(x, VECTORS["saddle_x"], atol=VECTORS["saddle_x_tol"])
    np.testing.assert_allclose(mu, VECTORS["saddle_mu"], atol=VECTORS["saddle_mu_tol"])


def test_tables_of_the_paper() -> None:
    rows = {line.quantity: line for line in hale.tables()}
    kappa = rows["kappa, scale per sensitivity"]
    assert kappa.honest == pytest.approx(VECTORS["kappa_0.05_ln3"], rel=1e-9)
    assert kappa.ours == pytest.approx(VECTORS["analytic_0.05_ln3"], rel=1e-9)
    sixth = rows["Table I: Lipschitz constants of agents 6, 7"]
    assert sixth.ours == pytest.approx(VECTORS["K6"], abs=1e-6)
    norm = rows["Lipschitz constant of g"].honest
    assert norm == pytest.approx(VECTORS["max_jacobian_norm"], abs=1e-6)
    # What the paper prints differs in the third digit at most: K_6 = 100.08, kappa = 1.7565, K_g =
    # 472.567.
    for line in rows.values():
        assert line.paper is not None
        assert line.honest == pytest.approx(float(line.paper), rel=2e-3)


def test_variants_keep_their_distance_and_noise_nothing_constant() -> None:
    printed, *sound = hale.variants(hale.TUNED)
    assert noise_width(printed.outputs) == 4 + 16
    for variant in sound:
        assert variant.distance <= 1 / VECTORS["analytic_0.05_ln3"] * (1 + 1e-9)
        assert variant.delta == pytest.approx(0.05, abs=1e-9)
    for variant in sound[1:]:
        # X3, x5 have one derivative that varies, x6 and x7 two.
        assert noise_width(variant.outputs) == 4 + 6


def test_sound_variants_beat_the_printed_one() -> None:
    """On four seeds, 200,000 steps, by more than their spread; the paper's .4839 and .5459 are not
    met as printed."""
    at = hale_example.saddle()
    found = {
        variant.name: hale.errors(variant, range(4), [200_000], at)[200_000].mean(axis=0)
        for variant in hale.variants(hale.TUNED)
    }
    assert (found["as printed"][:2] > [1.0, 1.5]).all()
    assert (found["joint, least-cost split"] < 0.6 * found["as printed"]).all()
    assert (found["the same, implied box"][:2] < [0.4839, 0.5459]).all()
    assert (found["the same, implied box, tuned steps"] < 0.2).all()
