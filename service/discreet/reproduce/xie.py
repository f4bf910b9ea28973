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
from collections.abc import Callable
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
    car_cells,
    car_setting,
    chain_setting,
    hiv_setting,
)
from discreet.solvers.evaluation import least_squares_temporal_difference as lstd
from discreet.solvers.evaluation.value_features import Fourier, Tabular

SIZES, FULL_SIZES = (10_000, 30_000, 100_000), (10_000, 30_000, 100_000, 300_000, 500_000)
STEP_FACTORS, FULL_STEP_FACTORS = (0.1, 1.0, 10.0), (0.1, 0.3, 1.0, 3.0, 10.0)
STEPS_AT = 100_000
STEP_FIGURES = {
    STEPS_AT: "Figure 5(a)",
    300_000: "Figure 1(b)",
    200_000: "Figure 5(b)",
    400_000: "Figure 5(c)",
    500_000: "Figure 5(d)",
}
"""By the number of trajectories; those behind the second take --full."""
DENSE_SIZES, DENSE_FULL_SIZES = (1_000,), (1_000, 3_000, 10_000)
DENSE_EPSILONS = (0.1, 1.0)
LEARNED_CAR = "Mountain Car by Q-learning, on-policy"
DENSE_FIGURES = {
    LEARNED_CAR: "Figures 2(c), 3(a)",
    "Mountain Car by Q-learning, off-policy": "Figure 3(b)",
    "HIV by Q-learning, off-policy": "Figure 4",
    "Mountain Car, on-policy": "Figures 2(c), 3(a)",
    "Mountain Car, off-policy": "Figure 3(b)",
    "HIV, off-policy": "Figure 4",
}
"""As the captions have them; the text calls these 1(c), 2(a) and 2(b), and 4. Policies that are
rules take --full."""
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
    penalties = [setting.errors(5, method="dp_lsl", regularization=each) for each in LSL_PENALTIES]
    exact = lstd.lstd(transitions_of(setting.content, 1.0), Tabular(CHAIN_STATES), CHAIN_DISCOUNT)
    found = (
        setting.errors(20),
        unknown.errors(20, method="moments"),
        setting.errors(slow, method="minibatch"),
        setting.errors(fast, method="gradient"),
        setting.errors_as_printed(fast),
        np.array([setting.mspbe(np.ones(CHAIN_STATES))]),
        min(penalties, key=lambda errors: float(np.median(errors))),
        setting.errors(5, method="dp_lsw"),
        np.array([setting.mspbe(exact)]),
    )
    row: dict[str, Any] = {"m": m}
    for name, errors in zip(CHAIN_METHODS, found, strict=True):
        row |= median_of(name, errors)
    return row


def median_of(name: str, errors: Floats) -> dict[str, float]:
    """Their median as `name`; as `name, error` its standard error, as of a normal distribution, if
    there are several."""
    row = {name: float(np.median(errors))}
    if errors.size > 1:
        spread = errors.std(ddof=1) / math.sqrt(errors.size)
        row[f"{name}, error"] = float(math.sqrt(math.pi / 2) * spread)
    return row


def step_sizes(
    m: int, setting: Setting, factors: tuple[float, ...], *, slow: int, fast: int
) -> list[dict[str, Any]]:
    """Median MSPBE by the factor on each method's default step size: of `slow` releases of
    minibatch, if not 0, and of `fast` of GPOPE. On the chain of GPOPE as printed too; elsewhere
    over the MSPBE of predicting 0. `moments` has no step size."""
    chain = setting.public.states is not None
    unit = 1.0 if chain else setting.mspbe(np.zeros(setting.moments[1].size))
    defaults = {
        method: setting.job(method=method)
        .plan(setting.public, Privacy(epsilon=EPSILON, delta=DELTA).budget)
        .parameters["step_size"]
        for method in ("minibatch", "gradient")
    }
    rows = []
    for factor in factors:
        batch, single = (factor * defaults[method] for method in ("minibatch", "gradient"))
        row: dict[str, Any] = {"m": m, "step size": factor}
        honest = setting.errors(fast, method="gradient", step_size=single)
        row |= median_of("GPOPE", honest / unit)
        if slow:
            drawn = setting.errors(slow, method="minibatch", step_size=batch)
            row |= median_of("minibatch", drawn / unit)
        if chain:
            row |= median_of(CHAIN_METHODS[4], setting.errors_as_printed(fast, step_size=single))
        rows.append(row)
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
    cells = car_cells(moved.trajectories, setting.moments) if name == LEARNED_CAR else None
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
        if cells is not None:
            drawn["DP-LSW on cells"] = cells.errors(5, epsilon, method="dp_lsw") / nothing
        row: dict[str, Any] = {
            "data": name,
            "m": moved.trajectories,
            "epsilon": epsilon,
            "auto": auto,
            "best constant": setting.mspbe(constant) / nothing,
            "WIS-LSTD, not private": setting.mspbe(exact) / nothing,
        }
        for label, errors in drawn.items():
            row |= median_of(label, errors)
        rows.append(row)
    return rows


# All of it ----------------------------------------------------------------------------------------


def study(full: bool = False) -> dict[str, list[dict[str, Any]]]:
    """All tables. "chain": MSPBE against m. "steps", "car steps": against the step size. "dense":
    Mountain Car and HIV."""
    settings: dict[str, Callable[[int], Setting]] = {
        LEARNED_CAR: lambda m: car_setting(m, off_policy=False, learned=True),
        "Mountain Car by Q-learning, off-policy": lambda m: car_setting(
            m, off_policy=True, learned=True
        ),
        "HIV by Q-learning, off-policy": lambda m: hiv_setting(m, learned=True),
    }
    if full:
        settings |= {
            "Mountain Car, on-policy": lambda m: car_setting(m, off_policy=False),
            "Mountain Car, off-policy": lambda m: car_setting(m, off_policy=True),
            "HIV, off-policy": hiv_setting,
        }
    factors = FULL_STEP_FACTORS if full else STEP_FACTORS
    dense, car_steps = [], []
    for name, setting in settings.items():
        for m in DENSE_FULL_SIZES if full else DENSE_SIZES:
            made = setting(m)
            dense += dense_rows(name, made)
            if name == LEARNED_CAR:
                car_steps += step_sizes(m, made, factors, slow=0, fast=5)
    steps = [
        row
        for m in (STEP_FIGURES if full else list(STEP_FIGURES)[:2])
        for row in step_sizes(
            m,
            chain_setting(m),
            factors,
            slow=3 if m == STEPS_AT else 0,
            fast=9 if full or m == STEPS_AT else 3,
        )
    ]
    return {
        "chain": [chain_row(m) for m in (FULL_SIZES if full else SIZES)],
        "steps": steps,
        "car steps": car_steps,
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


def curve(
    name: str, across: str, rows: list[dict[str, Any]], column: str, *, dashed: bool = False
) -> Curve:
    """A column of a table, in a band of two standard errors where it has them."""
    y = np.array([row[column] for row in rows])
    band = 2 * np.array([row.get(f"{column}, error", 0.0) for row in rows])
    low = np.maximum(y - band, y / 10)  # axes are logarithmic
    return Curve(name, [row[across] for row in rows], y, low, y + band, dashed=dashed)


def plots(found: dict[str, list[dict[str, Any]]], folder: Path) -> list[Path]:
    """The tables as pictures off-policy-*.png; the files written. DP-LSW and DP-LSL are off the
    scale.

    Mountain Car and HIV are drawn only if there are several sizes, as with --full.
    """
    chain_rows, steps = found["chain"], found["steps"]
    at_one = [row for row in steps if row["m"] == STEPS_AT]
    sizes = [row["m"] for row in chain_rows]
    shown = [name for name in CHAIN_METHODS if not name.startswith("DP-")]
    files = [folder / "off-policy-chain.png", folder / "off-policy-step-size.png"]
    draw_curves(
        [
            curve(name, "m", chain_rows, name, dashed="not private" in name.lower())
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
    factors = [row["step size"] for row in at_one]
    draw_curves(
        [
            *(
                curve(name, "step size", at_one, name, dashed="NOT" in name)
                for name in ("minibatch", "GPOPE", CHAIN_METHODS[4])
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
    for rows, name, title in (
        (steps, "chain", "40-state chain"),
        (found["car steps"], "mountain-car", f"{LEARNED_CAR}, MSPBE over that of predicting 0"),
    ):
        files.append(folder / f"off-policy-{name}-step-sizes.png")
        draw_curves(
            [
                curve(f"{method}, m = {m:,}", "step size", part, method)
                for method in ("GPOPE", "minibatch")
                for m in dict.fromkeys(row["m"] for row in rows)
                if method in (part := [row for row in rows if row["m"] == m])[0]
            ],
            files[-1],
            x="step size / default",
            y="MSPBE",
            title=f"{title}, epsilon 0.1",
            scale="loglog",
        )
    for name in dict.fromkeys(row["data"] for row in found["dense"]):
        rows = [row for row in found["dense"] if row["data"] == name]
        by_epsilon = {e: [row for row in rows if row["epsilon"] == e] for e in DENSE_EPSILONS}
        sizes = [row["m"] for row in by_epsilon[EPSILON]]
        if len(sizes) < 2:
            continue  # one point is not a curve
        curves = [
            curve(f"{method}, epsilon {epsilon:g}", "m", part, method)
            for method in ("moments", "minibatch", "GPOPE")
            for epsilon, part in by_epsilon.items()
            # GPOPE's two curves coincide, and at .1 moments are only noise.
            if part[0].get(method) is not None and (method == "minibatch" or epsilon > EPSILON)
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
    """Figures 1 to 6: the chain, step sizes, Mountain Car and HIV; and the price of the paper's
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
                f"{row[batch]:.1e} ± {row[f'{batch}, error']:.0e}",
                error=row[f"{honest}, error"],
                ours_error=row[f"{auto}, error"],
            ),
            Line(
                f"Figure 1(a): MSPBE of output perturbation, m = {m:,}",
                None,
                row[best := min((lsl, lsw), key=lambda name: float(row[name]))],
                row[auto],
                f"LSTD, not private, {row[exact]:.1e}; moments with nothing public "
                f"{row[unknown]:.1e}",
                error=row[f"{best}, error"],
                ours_error=row[f"{auto}, error"],
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
            f"{STEP_FIGURES[row['m']]}: MSPBE of GPOPE at {row['step size']:g} times the step "
            f"size, m = {row['m']:,}",
            None,
            row["GPOPE"],
            row.get("minibatch"),
            f"by Lemma 1 {row[printed]:.1e}"
            + ("; ours: minibatch at as many times its own" if "minibatch" in row else ""),
            error=row["GPOPE, error"],
            ours_error=row.get("minibatch, error"),
        )
        for row in found["steps"]
    ]
    lines += [
        Line(
            f"Figures 2(d), 6: GPOPE on Mountain Car at {row['step size']:g} times the step size, "
            f"m = {row['m']:,}",
            None,
            row["GPOPE"],
            None,
            "MSPBE over that of predicting 0",
            error=row["GPOPE, error"],
        )
        for row in found["car steps"]
    ]
    for row in found["dense"]:
        figure = f"{row['data']}, m = {row['m']:,}, epsilon {row['epsilon']:g}"
        lines.append(
            Line(
                f"{DENSE_FIGURES[row['data']]}: {figure}",
                None,
                row["GPOPE"],
                row["minibatch"],
                f"MSPBE over that of predicting 0; best constant {row['best constant']:.2g}, "
                f"WIS-LSTD {row['WIS-LSTD, not private']:.2g}",
                error=row["GPOPE, error"],
                ours_error=row["minibatch, error"],
            )
        )
        if (cells := row.get("DP-LSW on cells")) is not None:
            lines.append(
                Line(
                    f"Figure 2(c): output perturbation, {figure}",
                    None,
                    cells,
                    row["minibatch"],
                    "DP-LSW on 10 by 10 cells, then fitted by the features",
                    error=row["DP-LSW on cells, error"],
                    ours_error=row["minibatch, error"],
                )
            )
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
                "policies of Figures 2, 3, 4 and 6",
                "the paper does not give what its Q-learning found, nor how randomly it is "
                "followed: here an action of the car is random with probability .1, and the "
                "temperature of HIV's softmax is 1; HIV's values are learned by sweeps over random "
                "treatments; its MSPBE is over that of predicting 0, not over the average reward",
            ),
            (
                "output perturbation of Figure 2(c) as the paper applied it",
                "DP-LSW counts visits of states, which continuous states do not have, and the "
                "paper does not say what it counted; here visits of 10 by 10 cells",
            ),
            (
                "Figures 2, 3 and 6 at their numbers of trajectories",
                "1e5 to 5e5 cars are 1.5e7 to 7e7 transitions; with --full there are at most "
                f"{DENSE_FULL_SIZES[-1]:,} cars",
            ),
            ("Figure 5(b) to (d) without --full", "each takes one to three minutes"),
        ),
        tables={
            "chain": found["chain"],
            "step-sizes": found["steps"],
            "car-step-sizes": found["car steps"],
            "features": found["dense"],
        },
        draw=lambda folder: plots(found, folder),
    )
