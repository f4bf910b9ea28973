"""How much of a demand-response event survives the noise: 100, 1,000 and 10,000 SYNTHETIC buildings
at epsilon 1.

The policy of a released matrix is applied to the true one, which is possible only because the data
are synthetic.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.privacy.noise import Noise
from discreet.problems.contents import Content
from discreet.problems.dr_ensemble.dataset import (
    DrEnsembleContent,
    DrEnsembleDataset,
    state_sequences,
)
from discreet.problems.dr_ensemble.problem import DrEnsemble
from discreet.problems.dr_ensemble.public import DrEnsemblePublic
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Plan
from discreet.reproduce.load_ensemble import LoadEnsemble, generate
from discreet.solvers.control import linearly_solvable_mdp as lsmdp

REACH = 4
"""The most states by which a building moves in a quarter of an hour: this defines the public
support."""
CLIP = 0.35
"""Bound on the norm of a building's histogram; those of the ensemble are .29 to .34."""
SIZES = (100, 1_000, 10_000)
RELEASES = 20


def job_body(
    ensemble: LoadEnsemble, *, mode: str = "private", epsilon: float = 1, **problem: Any
) -> dict[str, Any]:
    """The job on an ensemble, with its dataset inside."""
    trajectories = state_sequences(ensemble.power, ensemble.edges)
    states = ensemble.bin_power.size
    near = [[a, b] for a in range(states) for b in range(states) if abs(a - b) <= REACH]
    return {
        "problem": {
            "kind": "dr_ensemble",
            "dataset": {
                "name": "synthetic commercial buildings",
                "kind": "dr_ensemble",
                "public": {
                    "unit": "participant",
                    "states": states,
                    "support": near,
                    "participants": len(trajectories),
                    "steps": len(trajectories[0]),
                },
                "content": {"trajectories": trajectories},
                "mode": mode,
                "cap": {"epsilon": 3, "delta": 1e-4},
            },
            "power": ensemble.bin_power.tolist(),
            "price": ensemble.price.tolist(),
            "discomfort_weight": ensemble.discomfort_weight,
            "initial": (ensemble.initial / ensemble.initial.sum()).tolist(),
            "clip": CLIP,
            **problem,
        },
        "privacy": {"epsilon": epsilon, "delta": 1e-5},
    }


def survival(
    participants: int, epsilon: float = 1, releases: int = RELEASES, seed: int = 0
) -> dict[str, Any]:
    """Medians over releases: the remaining share of the saved power, and of the event's net
    benefit."""
    ensemble = generate(participants, days=max(2, 20 * 100 // participants), seed=seed)
    body = job_body(ensemble, epsilon=epsilon)
    spec = body["problem"].pop("dataset")
    public = DrEnsemblePublic.model_validate(spec["public"])
    content = DrEnsembleDataset.read_rows(public, DrEnsembleContent.model_validate(spec["content"]))
    problem = DrEnsemble.model_validate({**body["problem"], "dataset": "example"})
    plan = problem.plan(public, Privacy.model_validate(body["privacy"]).budget)
    P = true_transitions(public, content)
    utility = -np.outer(ensemble.price, ensemble.bin_power)
    gamma, horizon, initial = (
        ensemble.discomfort_weight,
        ensemble.price.size,
        np.array(problem.initial),
    )

    def saved(policy: Any) -> float:
        load = lsmdp.expected_power(lsmdp.propagate(initial, policy, horizon), ensemble.bin_power)
        default = lsmdp.expected_power(lsmdp.propagate(initial, P, horizon), ensemble.bin_power)
        return float((default - load)[ensemble.event].mean())

    def worth(policy: Any) -> float:
        return float(initial @ lsmdp.evaluate(policy, P, utility, gamma)[0])

    best = lsmdp.solve(P, utility, gamma)
    left = [
        released_policy(problem, public, plan, content, utility, release)
        for release in range(releases)
    ]
    return {
        "participants": participants,
        "noise": plan.noise[0].standard_deviation,
        "saved": saved(best),
        "benefit": worth(best) - worth(P),
        "saved share": float(np.median([saved(policy) / saved(best) for policy in left])),
        "benefit share": float(
            np.median([(worth(policy) - worth(P)) / (worth(best) - worth(P)) for policy in left])
        ),
    }


def true_transitions(public: DrEnsemblePublic, content: Content) -> Any:
    """Frequencies of the data, mixed with a hundredth of a uniform distribution on the support, so
    that no allowed transition is impossible."""
    counts = np.zeros((public.states, public.states))
    steps = np.diff(content["start"])[0]
    states = content["states"].reshape(-1, steps)
    np.add.at(counts, (states[:, :-1], states[:, 1:]), 1.0)
    mass, mask = counts.sum(axis=1, keepdims=True), public.mask()
    even = mask / mask.sum(axis=1, keepdims=True)
    return np.where(mass > 0, 0.99 * counts / np.maximum(mass, 1) + 0.01 * even, even)


def released_policy(
    problem: DrEnsemble,
    public: DrEnsemblePublic,
    plan: Plan,
    content: Content,
    utility: Any,
    seed: int,
) -> Any:
    """The policy that follows from one release."""
    released = problem.release(public, plan, content, Noise.seeded(seed))
    result = problem.finish(public, plan, released, lambda *_: None).to_json()
    return lsmdp.solve(np.array(result["transitions"]), utility, problem.discomfort_weight)
