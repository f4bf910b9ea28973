"""What an analyst learns of a content from how long releases on it seem to take: nothing within its
public bounds.

The time that a release really takes is modelled by what `benchmarks.timing` measured of one row;
what is shown of it is `padded_seconds` of that and of the plan. The analyst knows both, and chooses
every parameter of a job.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from discreet.errors import InvalidInput
from discreet.problems import DATASETS, KINDS
from discreet.problems.numbers import Budget
from discreet.problems.plans import (
    HANDED_BYTES_PER_SECOND,
    MARGIN,
    OPENED_BYTES_PER_SECOND,
    OPENING_BYTES,
    Resources,
)
from discreet.worker.runner import padded_seconds

BUDGET = Budget(epsilon=1000, delta=10**6)  # (1e-6, 1e-12)
LARGE = Budget(epsilon=10**9, delta=10**13)
JOBS = 15
BASE_SECONDS = 0.1
"""Of opening a content and starting a child."""
EVALUATION = {"unit": "trajectory", "reward_bound": 1, "horizon": 1}
AGENTS = [{"name": name, "lower": 0, "upper": 5, "radius": 0.5} for name in ("left", "right")]


class Lever(NamedTuple):
    """A parameter by which an analyst makes work on data longer, and what that work takes."""

    kind: str
    public: dict[str, Any]
    bounds: dict[str, int]
    """Public fields that bound what is private, for a dataset that declares them."""
    undeclared: int
    """What is private is at most this where nothing is declared."""
    before: int
    """What it was at most before there were bounds, as far as the attack looks."""
    problem: Callable[[int], dict[str, Any]]
    largest: int
    """Of the lever."""
    seconds: Callable[[int, float], float]
    """Of work on so much of the private figure, by the lever; as measured, without any margin."""
    budget: Budget = BUDGET


def _evaluation(method: str, **values: Any) -> dict[str, Any]:
    return {"discount": 0.9, "features": {"type": "tabular"}, "method": method, **values}


def _fourier(order: int) -> dict[str, Any]:
    return _evaluation(
        "moments", features={"type": "fourier", "order": order, "low": [0, 0], "high": [1, 1]}
    )


def _agents(steps: int) -> dict[str, Any]:
    schedule = {"gamma": 0.05, "alpha": 0.05, "c1": 0.3333, "c2": 0.25, "iterations": steps}
    return {"constraints": ["left + right - 4"], "schedule": schedule}


LEVERS = {
    "steps of minibatch": Lever(
        "off_policy_evaluation",
        {**EVALUATION, "states": 20},
        {"max_trajectories": 20_000},
        100_000,
        100_000,
        lambda steps: _evaluation("minibatch", steps=steps, sampling=1),
        5000,
        lambda steps, n: steps * n * 280e-9,
    ),
    "order of moments": Lever(
        "off_policy_evaluation",
        {**EVALUATION, "features": 2},
        {"max_trajectories": 20_000},
        100_000,
        100_000,
        _fourier,
        20,
        lambda order, n: n * (650e-9 + 2e-9 * (order + 1) ** 4),
    ),
    "steps of agents": Lever(
        "multi_agent",
        {"unit": "trajectory", "agents": AGENTS},
        {"max_operations": 40},
        100,
        100_000,
        _agents,
        1_000_000,
        lambda steps, operations: steps * operations * 7.3e-9,
        LARGE,
    ),
}


class Analyst:
    """Knows the program, the public part and what work takes; sees durations and bisects the
    private figure."""

    def __init__(
        self, lever: Lever, quantum: Callable[[int], float | None], parameters: int
    ) -> None:
        """The analyst tries so many parameters before each job."""
        self._lever, self._quantum = lever, quantum
        self._parameters = {int(value) for value in np.geomspace(1, lever.largest, parameters)}

    def estimate(self, secret: float, low: float, high: float) -> float:
        """What is made of the durations of all jobs on a content of that size."""
        for _ in range(JOBS):
            middle = math.sqrt(low * high)
            chosen, boundary = self._job(middle)
            quantum = self._quantum(chosen)
            assert quantum is not None
            shown = padded_seconds(BASE_SECONDS + self._lever.seconds(chosen, secret), quantum)
            low, high = (middle, high) if shown > boundary else (low, middle)
        return math.sqrt(low * high)

    def _job(self, middle: float) -> tuple[int, float]:
        """The parameter for which a figure that durations are padded to is nearest to the work on
        `middle`."""
        found = []
        for chosen in self._parameters:
            if (quantum := self._quantum(chosen)) is not None:
                work = BASE_SECONDS + self._lever.seconds(chosen, middle)
                doublings = round(math.log2(work / quantum)) if work > quantum else 0
                boundary = quantum * 2**doublings
                found.append((abs(math.log(work / boundary)), chosen, boundary))
        _, chosen, boundary = min(found)
        return chosen, boundary


def _quanta(lever: Lever, public: dict[str, Any]) -> Callable[[int], float | None]:
    """By the lever what a plan on a dataset with that public part gives; None where the plan is
    refused."""
    part = DATASETS[lever.kind].read_public(public)
    known: dict[int, float | None] = {}

    def quantum(chosen: int) -> float | None:
        if chosen not in known:
            problem = KINDS[lever.kind].model_validate(
                {"kind": lever.kind, "dataset": "dst_x", **lever.problem(chosen)}
            )
            try:
                known[chosen] = problem.plan(part, lever.budget).resources.release_quantum_seconds
            except InvalidInput:
                known[chosen] = None
        return known[chosen]

    return quantum


@pytest.mark.parametrize("name", LEVERS)
@pytest.mark.parametrize("declared", [True, False])
def test_durations_tell_nothing_of_a_content_within_its_bounds(name: str, declared: bool) -> None:
    """Bisection ends at the same figure whatever the secret, with a declared bound and without
    one."""
    lever = LEVERS[name]
    (most,) = lever.bounds.values() if declared else (lever.undeclared,)
    analyst = Analyst(
        lever, _quanta(lever, {**lever.public, **(lever.bounds if declared else {})}), 12
    )
    secrets = np.geomspace(most / 64, most, 40)
    assert len({analyst.estimate(secret, most / 64, most) for secret in secrets}) == 1


@pytest.mark.parametrize("name", LEVERS)
def test_the_bisection_reads_what_is_padded_to_doublings_of_a_quantum(name: str) -> None:
    """So it was before: the quantum was half a second, whatever a job did with the content."""
    lever = LEVERS[name]
    analyst = Analyst(lever, lambda chosen: 0.5, 100)
    secrets = np.geomspace(lever.before / 16, lever.before, 40)
    found = [
        analyst.estimate(secret, lever.before / 64, lever.before) / secret for secret in secrets
    ]
    assert np.median(np.abs(np.log(found))) < 0.1


@pytest.mark.parametrize("name", LEVERS)
def test_smaller_bounds_make_shorter_releases(name: str) -> None:
    lever = LEVERS[name]
    longest = max(
        chosen
        for chosen in (lever.largest, lever.largest // 10)
        if _quanta(lever, lever.public)(chosen)
    )
    few, many = (
        _quanta(lever, {**lever.public, **bounds})(longest) for bounds in (lever.bounds, {})
    )
    assert few is not None
    assert many is not None
    assert few < many


ROW = {"trajectory": 0, "step": 0, "state": 0, "next_state": 0, "reward": 0.5, "terminal": False}
CONTENTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, int]]] = {
    "off_policy_evaluation": (
        {"unit": "trajectory", "states": 2, "reward_bound": 1, "horizon": 3},
        {
            "transitions": [
                {**ROW, "trajectory": place // 2, "step": place % 2} for place in range(6)
            ]
        },
        {"max_trajectories": 3, "max_rows": 6},
    ),
    "dr_ensemble": (
        {"unit": "participant", "states": 2},
        {"trajectories": [[0, 1, 0], [1, 1]]},
        {"max_rows": 5},
    ),
    "routing": (
        {"unit": "request", "zones": 2, "periods": 2, "period_minutes": 60},
        {
            "trips": [
                {"period": period, "origin": 1, "destination": 2, "count": 3}
                for period in (0, 0, 1)
            ]
        },
        {"max_rows": 2},
    ),
    "multi_agent": (
        {"unit": "trajectory", "agents": AGENTS},
        {"objectives": {"left": "(left - 3)^2", "right": "2 * (right - 4)^2"}},
        {"max_operations": 4},
    ),
}


def test_opening_has_the_margin_of_the_release() -> None:
    """Not only what follows it: on a busy machine the ledger's `data_touched` came a doubling later
    for contents of half their bound."""
    bytes_more, least = 10 * OPENED_BYTES_PER_SECOND, 0.5
    small, large = (
        Resources.padded(least, work=0.0, content_bytes=size, memory_bytes=1, steps=1)
        for size in (OPENING_BYTES, OPENING_BYTES + bytes_more)
    )
    more = large.opening_seconds - small.opening_seconds
    assert more == pytest.approx(MARGIN * 10)
    assert MARGIN == 2
    assert large.release_quantum_seconds - small.release_quantum_seconds >= more


@pytest.mark.parametrize("kind", CONTENTS)
def test_a_content_beyond_its_bound_is_refused(kind: str) -> None:
    public, rows, exact = CONTENTS[kind]
    dataset = DATASETS[kind]
    for field, most in exact.items():
        for bound, fits in ((most, True), (most - 1, False)):
            part = dataset.read_public({**public, field: bound})
            content = dataset.read_rows(
                part, dataset.model_fields["content"].annotation.model_validate(rows)
            )
            for mode in ("private", "simulation"):
                if fits:
                    dataset.check_sizes(part, content, mode)
                    continue
                with pytest.raises(InvalidInput) as refused:
                    dataset.check_sizes(part, content, mode)
                assert [issue.pointer for issue in refused.value.issues] == [f"/public/{field}"]


def test_private_contents_without_a_bound_have_that_of_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever has more declares a bound; what is public need not."""
    public, rows, _ = CONTENTS["dr_ensemble"]
    dataset = DATASETS["dr_ensemble"]
    monkeypatch.setattr("discreet.problems.dr_ensemble.public.UNDECLARED_ROWS", 4)
    part = dataset.read_public(public)
    content = dataset.read_rows(
        part, dataset.model_fields["content"].annotation.model_validate(rows)
    )
    dataset.check_sizes(part, content, "simulation")
    with pytest.raises(
        InvalidInput, match="without this public bound at most 4 are taken"
    ) as refused:
        dataset.check_sizes(part, content, "private")
    assert refused.value.issues[0].pointer == "/public/max_rows"


@pytest.mark.parametrize(
    ("kind", "public", "asked"),
    [
        (
            "routing",
            {"unit": "person", "zones": 2, "periods": 30, "period_minutes": 60, "max_rows": 10**9},
            {"max_trips_per_person": 10**6, "max_norm_per_person": 1000},
        ),
        (
            "dr_ensemble",
            {"unit": "participant", "states": 3, "participants": 10**9, "steps": 10**6},
            {},
        ),
    ],
)
def test_bounds_whose_time_nobody_waits_for_are_refused(
    kind: str, public: dict[str, Any], asked: dict[str, int]
) -> None:
    problem = KINDS[kind].model_validate(
        {**KINDS[kind].example()["problem"], "dataset": "dst_x", **asked}
    )
    with pytest.raises(InvalidInput, match="at most 1800 are given") as refused:
        problem.plan(DATASETS[kind].read_public(public), LARGE)
    assert refused.value.issues[0].pointer == "/problem/dataset"


@pytest.mark.parametrize(
    ("asked", "measured"),
    [
        ({"max_trips_per_person": 500}, 0.25e-6),
        ({"max_trips_per_person": 500, "max_norm_per_person": 100}, 1.7e-6),
        (
            {"max_trips_per_person": 20_000, "max_norm_per_person": 100},
            2.2e-6,
        ),  # integers of any length
    ],
)
def test_clipping_of_persons_has_the_time_of_all_rows(
    asked: dict[str, int], measured: float
) -> None:
    """Beside what opening takes and handing over, of a cell of a person's trips."""
    problem = KINDS["routing"].model_validate(
        {**KINDS["routing"].example()["problem"], "dataset": "dst_x", **asked}
    )
    public = {"unit": "person", "zones": 2, "periods": 30, "period_minutes": 60}
    few, many = (
        problem.plan(DATASETS["routing"].read_public({**public, "max_rows": most}), LARGE).resources
        for most in (10**6, 2 * 10**6)
    )
    more = (
        many.release_quantum_seconds
        - many.opening_seconds
        - few.release_quantum_seconds
        + few.opening_seconds
    )
    # Each of the four is rounded up to a sixteenth.
    assert more >= 10**6 * (measured + 32 / HANDED_BYTES_PER_SECOND) - 1 / 8
