"""The audit of whole releases: honest ones hold, half the noise and a forgotten clip are caught."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet.privacy.noise import Noise
from discreet.problems import KINDS
from discreet.problems.audits import audit_release, half_noise
from discreet.problems.base import Neighbours
from discreet.problems.multi_agent.dataset import proven
from discreet.solvers.saddle.convexity import sensitivities
from discreet.usecases import audits
from discreet.usecases.audits import run_audits
from tests.conftest import worst_cases

CASES = [case for kind in KINDS for case in worst_cases(kind)]
SAMPLES = 2000
OTHER_SAMPLES = {
    # Where the distance is spread over several coordinates, each of which says little.
    "off_policy_evaluation, moments, tabular, replaced": 6000,
    "off_policy_evaluation, gradient, tabular, replaced": 4000,
    # The choice of the clip, an eighth of the price, tells nothing there.
    "off_policy_evaluation, importance sampling, chosen clip, added": 3000,
    "off_policy_evaluation, importance sampling, chosen clip, replaced": 6000,
    "off_policy_evaluation, importance sampling, chosen clip, visits, added": 3000,
    # What a long computation tells at once.
    "off_policy_evaluation, minibatch, columns, replaced": 1000,
    "off_policy_evaluation, minibatch, tabular, replaced": 1000,
    "multi_agent, one output": 1000,
    "multi_agent, many outputs": 1000,
    "multi_agent, a vector": 1000,
    "multi_agent, a polytope": 1000,
    "routing, gradient": 1000,
}
CELLS = {
    "routing": """counts, unit request; counts, unit request, gaussian; counts, unit person;
        counts, unit person, gaussian; counts, fractions of trips; counts, norm of a person;
        counts, classes of users, unit request; counts, classes of users, unit person, gaussian;
        gradient""",
    "dr_ensemble": """counts, participant added; counts, participant of any length added;
        counts, participant replaced;
        counts, participant added, in blocks; counts, participant replaced, in blocks, clipped;
        counts, participant added, clipped; counts, participant replaced, clipped;
        dirichlet, unit row; dirichlet, unit participant""",
    "off_policy_evaluation": """moments, tabular, added; moments, tabular, added, gaussian;
        moments, tabular, replaced;
        moments, tabular, replaced, gaussian; moments, public rewards; moments, columns, added;
        moments, columns, replaced; minibatch, columns, added; minibatch, columns, replaced;
        minibatch, tabular, added; minibatch, tabular, replaced; gradient, columns, replaced;
        minibatch, continuing, replaced; constant, added; constant, replaced;
        gradient, tabular, replaced; importance sampling, added; importance sampling, replaced;
        importance sampling, added, gaussian; importance sampling, replaced, gaussian;
        importance sampling, one visit, added; importance sampling, one visit, replaced;
        importance sampling, one visit, added, gaussian; importance sampling, chosen clip, added;
        importance sampling, chosen clip, replaced;
        importance sampling, chosen clip, visits, added;
        importance sampling, public rules, added; per decision, added; per decision, replaced;
        per decision, added, gaussian;
        dp_lsw, added; dp_lsw, replaced; dp_lsl, added; dp_lsl, replaced""",
    "multi_agent": "one output; many outputs; a vector; a polytope",
}
"""Every unit, relation and mechanism that a kind has."""


IN_EVERY_CHANGE = {
    "routing, counts, unit request",
    "routing, counts, unit person, gaussian",
    "dr_ensemble, counts, participant added, in blocks",
    "dr_ensemble, dirichlet, unit row",
    "off_policy_evaluation, moments, tabular, added",
    "off_policy_evaluation, importance sampling, added",
    "multi_agent, one output",
}
"""One case of most ways to release is audited by `make test`; the others, and steps of minibatches,
of gradients and of DP-LSL, which take long, by `make test-all`."""
each_case = pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case, id=case.name, marks=() if case.name in IN_EVERY_CHANGE else pytest.mark.long
        )
        for case in CASES
    ],
)


def samples_for(case: Neighbours) -> int:
    return OTHER_SAMPLES.get(case.name, SAMPLES)


def test_every_cell_is_attacked() -> None:
    wanted = {
        f"{kind}, {' '.join(cell.split())}"
        for kind, cells in CELLS.items()
        for cell in cells.split(";")
    }
    assert {case.name for case in CASES} == wanted
    assert len(CASES) == len(wanted)
    assert wanted > IN_EVERY_CHANGE
    for case in CASES:
        mechanisms = {event.mechanism for event in case.plan.events}
        noised = any(event.norm == "l2" for event in case.plan.events)
        assert noised or not case.name.endswith((", gaussian", ", clipped")), (
            case.name,
            mechanisms,
        )


@each_case
def test_honest_releases_hold_and_the_bound_is_near(case: Neighbours) -> None:
    found = audit_release(
        case, samples=samples_for(case), confidence=1 - 1e-6, noise=Noise.seeded(1)
    )
    assert found.verdict == "holds"
    assert found.lower_bound > 0.1 * found.price_epsilon or case.slack > 1


@each_case
def test_half_the_noise_is_caught(case: Neighbours) -> None:
    found = half_noise(case, samples=samples_for(case), confidence=1 - 1e-4, noise=Noise.seeded(2))
    assert found.verdict == "violated"


@pytest.mark.long
def test_units_of_each_output_for_itself_are_caught() -> None:
    """Hale & Egerstedt's calibration: every output as if it were released alone."""
    case = next(case for case in CASES if case.name == "multi_agent, many outputs")
    units = np.array(case.plan.parameters["units"])
    public = case.public
    constraints = proven(case.problem.constraints, public)
    found = sensitivities(
        constraints,
        public.names,
        {name: tuple(ends) for name, *ends in case.plan.parameters["box"]},
    )
    rows = np.vstack([found.value_entries, found.gradient_entries.reshape(-1, len(public.names))])
    alone = (rows * [agent.radius for agent in public.agents]).max(axis=1)
    assert ((alone > 0) == (units > 0)).all()
    assert (alone <= units * (1 + 1e-9)).all()
    parameters = {**case.plan.parameters, "units": alone.tolist()}
    played = case.plan.model_copy(update={"parameters": parameters})
    assert (
        audit_release(case, samples=1000, played=played, noise=Noise.seeded(5)).verdict
        == "violated"
    )


def test_a_forgotten_clip_is_caught() -> None:
    case = next(case for case in CASES if case.name == "routing, counts, unit person")
    unclipped = case.plan.model_copy(
        update={"parameters": {**case.plan.parameters, "max_trips_per_person": None}}
    )
    assert (
        audit_release(case, samples=SAMPLES, played=unclipped, noise=Noise.seeded(3)).verdict
        == "violated"
    )


def test_a_field_too_many_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[0]
    kind = type(case.problem)
    honest = kind.release

    def talkative(self: Any, public: Any, plan: Any, content: Any, noise: Noise) -> Any:
        return {
            **honest(self, public, plan, content, noise),
            "rows": np.array([content["trips"][:, 3].sum()]),
        }

    monkeypatch.setattr(kind, "release", talkative)
    assert audit_release(case, samples=SAMPLES, noise=Noise.seeded(4)).verdict == "violated"


def test_the_table_of_one_mechanism(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its noise is the operating system's, and at its confidence one table of a hundred may say
    something else."""
    monkeypatch.setattr(audits, "CONFIDENCE", 1 - 1e-10)
    rows = list(run_audits(["discrete_laplace"], short=True, faults=True))
    assert [row.planted for row in rows] == [False, True]
    assert all(row.as_expected for row in rows)
    assert list(run_audits(["no such thing"])) == []
