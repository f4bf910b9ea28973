"""The simulated study of Xie, Thomas & Miklau (2019), section 7, through the service's own code, on
SYNTHETIC data.

Every private answer here is what a job would release: plan, release and finish of the problem kind
on its canonical content, delta 1e-5. The error of each answer is the mean squared projected Bellman
error (MSPBE) of the POPULATION, known exactly for the chain and from an independent sample
elsewhere; a release never contains it.

"GPOPE as printed" has the noise of the paper's Lemma 1 and is NOT private at the epsilon that it
claims; LSTD and WIS-LSTD are not private at all. They are baselines for the private answers.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from discreet.figures.curves import Curve, draw_curves
from discreet.privacy import calibration
from discreet.privacy.attacks.printed import lemma_one_sigma
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation.dataset import transitions_of
from discreet.problems.off_policy_evaluation.features import FourierFeatures
from discreet.reproduce.report import Line, Report
from discreet.reproduce.simulators import CHAIN_DISCOUNT, CHAIN_STATES, chain_moments
from discreet.reproduce.xie_settings import (
    DATA_SEED,
    DELTA,
    EPSILON,
    REFERENCE_SEED,
    Floats,
    Setting,
    car_setting,
    chain_setting,
    hiv_setting,
)
from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation.value_features import Fourier, Tabular

SIZES, FULL_SIZES = (10_000, 30_000, 100_000), (10_000, 30_000, 100_000, 300_000, 500_000)
STEP_FACTORS, FULL_STEP_FACTORS = (0.1, 1.0, 10.0), (0.1, 0.3, 1.0, 3.0, 10.0)
STEPS_AT = 100_000
DENSE_SIZES, DENSE_FULL_SIZES = (1_000,), (1_000, 3_000, 10_000)
DENSE_EPSILONS = (0.1, 1.0)
DENSE_FIGURES = {
    "Mountain Car, on-policy": "Figures 2(c), 3(a)",
    "Mountain Car, off-policy": "Figure 3(b)",
    "HIV, off-policy": "Figure 4",
}
"""As the captions have them; the text calls these 1(c), 2(a) and 2(b), and 4."""
MOMENTS_FEATURES = 16
LSL_PENALTIES = (1e2, 1e4, 1e6, 1e8)
"""Penalties of DP-LSL; the best is shown, although it could not be chosen in this way privately."""


# The paper's Figure 1: the chain ------------------------------------------------------------------


CHAIN_METHODS = (
    "moments, topology and rewards public",
    "moments, nothing public",
    "minibatch",
    "GPOPE",
    "GPOPE as printed, NOT private",
    "predict 1",
    "DP-LSL",
    "DP-LSW",
    "LSTD, not private",
)


def chain_row(m: int, slow: int = 3, fast: int = 9) -> dict[str, Any]:
    """Median MSPBE of each of CHAIN_METHODS: over `slow` releases of minibatch, 20 of moments,
    `fast` of others."""
    setting = chain_setting(m)
    unknown = Setting(
        setting.public.model_copy(update={"topology": None, "rewards": None}),
        setting.content,
        setting.problem,
        setting.moments,
    )
    penalties = [
        np.median(setting.errors(5, method="dp_lsl", regularization=each)) for each in LSL_PENALTIES
    ]
    honest = setting.errors(fast, method="gradient")
    found = (
        np.median(setting.errors(20)),
        np.median(unknown.errors(20, method="moments")),
        np.median(setting.errors(slow, method="minibatch")),
        np.median(honest),
        np.median(setting.errors_as_printed(fast)),
        setting.mspbe(np.ones(CHAIN_STATES)),
        min(penalties),
        np.median(setting.errors(5, method="dp_lsw")),
        setting.mspbe(
            lstd.lstd(transitions_of(setting.content, 1.0), Tabular(CHAIN_STATES), CHAIN_DISCOUNT)
        ),
    )
    return {
        "m": m,
        **{name: float(error) for name, error in zip(CHAIN_METHODS, found, strict=True)},
        "GPOPE, error": median_error(honest),
    }


def median_error(errors: Floats) -> float:
    """The standard error of a median, as of a normal distribution."""
    return float(math.sqrt(math.pi / 2) * errors.std(ddof=1) / math.sqrt(errors.size))


def step_sizes(
    default: dict[str, Any], factors: tuple[float, ...], slow: int = 3, fast: int = 9
) -> list[dict[str, Any]]:
    """Median MSPBE by the factor on each method's default step size, of which `default` is the row.
    `moments` has no step size."""
    setting = chain_setting(default["m"])
    defaults = {
        method: setting.job(method=method)
        .plan(setting.public, Privacy(epsilon=EPSILON, delta=DELTA).budget)
        .parameters["step_size"]
        for method in ("minibatch", "gradient")
    }
    rows = []
    for factor in factors:
        if factor == 1:
            names = ("minibatch", "GPOPE", "GPOPE, error", CHAIN_METHODS[4])
            rows.append({"step size": factor} | {name: default[name] for name in names})
            continue
        batch, single = (factor * defaults[method] for method in ("minibatch", "gradient"))
        honest = setting.errors(fast, method="gradient", step_size=single)
        rows.append(
            {
                "step size": factor,
                "minibatch": float(
                    np.median(setting.errors(slow, method="minibatch", step_size=batch))
                ),
                "GPOPE": float(np.median(honest)),
                "GPOPE, error": median_error(honest),
                CHAIN_METHODS[4]: float(
                    np.median(setting.errors_as_printed(fast, step_size=single))
                ),
            }
        )
    return rows


# Its Figures 2 to 4: Mountain Car and HIV treatment -----------------------------------------------


def dense_rows(name: str, setting: Setting, releases: int = 3) -> list[dict[str, Any]]:
    """One row for each epsilon: median MSPBE relative to that of predicting 0 everywhere, which
    needs no data.

    "best constant" is the best constant for the population; it is unknown without data. `moments`
    is left out if its noise would be on thousands of sums.
    """
    features = setting.job().features
    assert isinstance(features, FourierFeatures)
    basis = Fourier(features.order, features.low, features.high)
    A, b, C = setting.moments
    nothing = setting.mspbe(np.zeros(b.size))
    whitened = np.linalg.pinv(np.linalg.cholesky(C + 1e-12 * np.trace(C) * np.eye(b.size)))
    constant = np.zeros(b.size)  # the first feature is the constant 1
    constant[0] = np.linalg.lstsq(whitened @ A[:, :1], whitened @ b, rcond=None)[0][0]
    moved = transitions_of(setting.content, np.inf)
    exact = lstd.wis_lstd(moved, basis, setting.problem["discount"])
    methods = {"moments": "moments", "minibatch": "minibatch", "GPOPE": "gradient"}
    if b.size > MOMENTS_FEATURES:
        methods.pop("moments")
    if setting.public.continuing:
        methods["constant"] = "constant"
    rows = []
    for epsilon in DENSE_EPSILONS:
        asked = setting.job(
            initial=[list(features.low)]
        )  # without `initial`, off-policy data are weighted instead
        auto = asked.plan(setting.public, Privacy(epsilon=epsilon, delta=DELTA).budget).parameters[
            "method"
        ]
        drawn = {
            label: setting.errors(releases, epsilon, method=method) / nothing
            for label, method in methods.items()
        }
        private = {label: float(np.median(errors)) for label, errors in drawn.items()}
        rows.append(
            {
                "data": name,
                "m": moved.trajectories,
                "epsilon": epsilon,
                "auto": auto,
                **{
                    label: private.get(label)
                    for label in ("moments", "minibatch", "GPOPE", "constant")
                },
                "GPOPE, error": median_error(drawn["GPOPE"]),
                "best constant": setting.mspbe(constant) / nothing,
                "WIS-LSTD, not private": setting.mspbe(exact) / nothing,
            }
        )
    return rows


# All of it ----------------------------------------------------------------------------------------


def study(full: bool = False) -> dict[str, list[dict[str, Any]]]:
    """All tables. "chain": MSPBE against m. "steps": against the step size. "dense": Mountain Car
    and HIV."""
    dense = [
        row
        for name, setting in (
            ("Mountain Car, on-policy", lambda m: car_setting(m, off_policy=False)),
            ("Mountain Car, off-policy", lambda m: car_setting(m, off_policy=True)),
            ("HIV, off-policy", hiv_setting),
        )
        for m in (DENSE_FULL_SIZES if full else DENSE_SIZES)
        for row in dense_rows(name, setting(m))
    ]
    chain = [chain_row(m) for m in (FULL_SIZES if full else SIZES)]
    (default,) = [row for row in chain if row["m"] == STEPS_AT]
    return {
        "chain": chain,
        "steps": step_sizes(default, FULL_STEP_FACTORS if full else STEP_FACTORS),
        "dense": dense,
    }


# Its utility analysis -----------------------------------------------------------------------------


def utility_lines() -> list[Line]:
    """Lemma 2 and Theorems 2 and 3 where Assumption 1 holds with G = c = 0: no noise, and all
    trajectories alike. Then they claim that |xi|² shrinks by (1 - beta lambda_min(Q))² with every
    step, for lambda_min(Q) >= 8/9 lambda_min(A'C^-1 A). But a step from w = w* leaves theta and
    moves w, so |xi|² grows.

    "One state": one step of reward 1 with one feature 1 and discount 0, A = b = C = 1, theta = w =
    0 at first. Then also the chain's mean step, from theta = w = 0.
    """
    one = np.array([[0.0, -1.0], [1.0, 1.0]])
    least = 8 / 9

    def run(steps: Floats) -> float:
        xi = np.array([1.0, 0.0])
        for step in steps:
            xi = xi - step * (one @ xi)
        return float(xi @ xi)

    N = 100
    diminishing = 2 / (least * np.arange(1, N + 1))
    A, b, C = chain_moments()
    Q = np.block([[np.zeros_like(A), -A.T], [A, C]])
    slowest = 8 / 9 * float(np.linalg.eigvalsh(A.T @ np.linalg.solve(C, A))[0])
    step = 1 / float(np.abs(np.linalg.eigvals(Q)).max())
    start = np.concatenate([np.linalg.solve(A, b), np.zeros(b.size)])
    after = start - step * (Q @ start)
    cases = (
        (
            "Lemma 2: squared distance after a step of beta = .5, one state",
            run(np.array([0.5])),
            (1 - 0.5 * least) ** 2,
        ),
        (
            "Theorem 2: squared distance after 100 steps of 100^-1/4, one state",
            run(np.full(N, N**-0.25)),
            (1 - N**-0.25 * least) ** (2 * N),
        ),
        (
            "Theorem 3: squared distance after one step, eta = 2, one state",
            run(diminishing[:1]),
            1.0,
        ),
        (
            "Theorem 3: squared distance after 100 steps, eta = 2, one state",
            run(diminishing),
            1 / N,
        ),
        (
            "Lemma 2: squared distance after a step over that before, the chain",
            float(after @ after / (start @ start)),
            (1 - step * slowest) ** 2,
        ),
    )
    return [
        Line(name, None, true, None, "no noise; 1 at first", formula=f"at most {bound:.4g}")
        for name, true, bound in cases
    ]


def plots(found: dict[str, list[dict[str, Any]]], folder: Path) -> list[Path]:
    """The tables as pictures off-policy-*.png; the files written. DP-LSW and DP-LSL are off the
    scale.

    Mountain Car and HIV are drawn only if there are several sizes, as with --full.
    """
    chain_rows, steps = found["chain"], found["steps"]
    sizes = [row["m"] for row in chain_rows]
    shown = [name for name in CHAIN_METHODS if not name.startswith("DP-")]
    files = [folder / "off-policy-chain.png", folder / "off-policy-step-size.png"]
    draw_curves(
        [
            Curve(
                name, sizes, [row[name] for row in chain_rows], dashed="not private" in name.lower()
            )
            for name in shown
        ],
        files[0],
        x="trajectories",
        y="MSPBE",
        title="40-state chain, epsilon 0.1, delta 1e-5",
        scale="loglog",
    )
    moments, ones = (
        [row[CHAIN_METHODS[i]] for row in chain_rows if row["m"] == STEPS_AT] for i in (0, 5)
    )
    factors = [row["step size"] for row in steps]
    draw_curves(
        [
            *(
                Curve(name, factors, [row[name] for row in steps], dashed="NOT" in name)
                for name in steps[0]
                if name not in ("step size", "GPOPE, error")
            ),
            *(Curve("predict 1", factors, ones * len(factors)) for _ in ones),
            *(Curve("moments (no step size)", factors, moments * len(factors)) for _ in moments),
        ],
        files[1],
        x="step size / default",
        y="MSPBE",
        title="40-state chain, 100,000 trajectories, epsilon 0.1",
        scale="loglog",
    )
    for name in dict.fromkeys(row["data"] for row in found["dense"]):
        rows = [row for row in found["dense"] if row["data"] == name]
        by_epsilon = {e: [row for row in rows if row["epsilon"] == e] for e in DENSE_EPSILONS}
        sizes = [row["m"] for row in by_epsilon[EPSILON]]
        if len(sizes) < 2:
            continue  # one point is not a curve
        curves = [
            Curve(f"{method}, epsilon {epsilon:g}", sizes, [row[method] for row in part])
            for method in ("moments", "minibatch", "GPOPE")
            for epsilon, part in by_epsilon.items()
            # GPOPE's two curves coincide, and at .1 moments are only noise.
            if part[0][method] is not None and (method == "minibatch" or epsilon > EPSILON)
        ]
        curves += [
            Curve(method, sizes, [row[method] for row in by_epsilon[EPSILON]], dashed=True)
            for method in ("best constant", "WIS-LSTD, not private")
        ]
        files.append(folder / f"off-policy-{name.lower().replace(', ', '-').replace(' ', '-')}.png")
        draw_curves(
            curves,
            files[-1],
            x="trajectories",
            y="MSPBE / MSPBE of predicting 0",
            title=name,
            scale="loglog",
        )
    return files


def report(full: bool = False) -> Report:
    """Figures 1 to 4: the chain, step sizes, Mountain Car and HIV; and the price of the paper's
    noise."""
    found = study(full)
    auto, unknown, batch, honest, printed, ones, lsl, lsw, exact = CHAIN_METHODS
    lines = []
    for row in found["chain"]:
        m = row["m"]
        lines += [
            Line(
                f"Figure 1(a): MSPBE of GPOPE, m = {m:,}",
                None,
                row[honest],
                row[auto],
                f"by Lemma 1 {row[printed]:.1e}; predicting 1 {row[ones]:.1e}; minibatch "
                f"{row[batch]:.1e}",
                error=row["GPOPE, error"],
            ),
            Line(
                f"Figure 1(a): MSPBE of output perturbation, m = {m:,}",
                None,
                min(row[lsl], row[lsw]),
                row[auto],
                f"LSTD, not private, {row[exact]:.1e}; moments with nothing public "
                f"{row[unknown]:.1e}",
            ),
        ]
    m = STEPS_AT
    sigma = lemma_one_sigma(EPSILON, DELTA, m, m)
    event = calibration.one_draw_gaussian(
        1.0,
        round(EPSILON * 1e9),
        round(DELTA * 1e18),
        population=m,
        steps=m,
        neighbours="replace one",
    )
    as_printed = event.model_copy(update={"scale": sigma})
    low, high = EPSILON, 20.0
    for _ in range(10):
        middle = (low + high) / 2
        low, high = (middle, high) if as_printed.delta(middle) > DELTA else (low, middle)
    lines += [
        Line(
            "Lemma 1: sigma at (.1, 1e-5), N = m = 1e5",
            None,
            event.scale,
            None,
            "its method: required by the guarantee",
            formula=sigma,
        ),
        Line(
            "Lemma 1: epsilon of that sigma at delta 1e-5",
            None,
            high,
            None,
            "by the exact composition of one-draw steps",
            formula=EPSILON,
        ),
        *utility_lines(),
    ]
    lines += [
        Line(
            f"Figure 5(a): MSPBE of GPOPE at {row['step size']:g} times the step size, m = {m:,}",
            None,
            row["GPOPE"],
            row["minibatch"],
            f"by Lemma 1 {row[printed]:.1e}; ours: minibatch at as many times its own",
            error=row["GPOPE, error"],
        )
        for row in found["steps"]
    ]
    lines += [
        Line(
            f"{DENSE_FIGURES[row['data']]}: {row['data']}, m = {row['m']:,}, epsilon "
            f"{row['epsilon']:g}",
            None,
            row["GPOPE"],
            row["minibatch"],
            f"MSPBE over that of predicting 0; best constant {row['best constant']:.2g}, WIS-LSTD "
            f"{row['WIS-LSTD, not private']:.2g}",
            error=row["GPOPE, error"],
        )
        for row in found["dense"]
    ]
    return Report(
        paper="xie",
        source="Xie, Thomas, Miklau: Privacy preserving off-policy evaluation (2019).",
        seeds=f"data {DATA_SEED}, reference {REFERENCE_SEED}, releases 0, 1, … (medians)",
        lines=tuple(lines),
        unreproduced=(
            (
                "numbers of Figures 1 to 6",
                "the paper has curves of means over 100 trials and prints no value; only their "
                "order can be compared",
            ),
            (
                "Lemma 1",
                "its proof sets the other gradients to 0 without loss of generality, but two "
                "clipped gradients are up to 2h apart; and it ignores higher orders",
            ),
            (
                "Lemma 2, Theorems 2 and 3",
                "Q is not symmetric, so that the norm of I - beta Q is at least 1, not 1 - beta "
                "lambda_min(Q)",
            ),
            (
                "policies and features of Figures 2, 3, 4 and 6",
                "rules instead of Q-learned policies, which the paper does not give; the car is "
                "evaluated with a Fourier basis of order 3, where the paper learns with order 5, "
                "and off-policy with a target that mostly pushes in the direction of motion, not "
                "the uniform one; HIV's MSPBE is over that of predicting 0, not over the average "
                "reward",
            ),
            (
                "output perturbation of Figure 2(c)",
                "DP-LSW counts visits of states, which continuous states do not have; the paper "
                "does not say how it was applied",
            ),
            (
                "Figures 1(b), 2(d), 5(b) to (d) and 6",
                "step sizes are swept on the chain at m = 100,000 alone",
            ),
        ),
        tables={"chain": found["chain"], "step-sizes": found["steps"], "features": found["dense"]},
        draw=lambda folder: plots(found, folder),
    )
