"""What intervals cost: CPU seconds of `finish` with `uncertainty`, without it, and as it was before
any.

Before: counts of demand response and off-policy evaluation were cut by thresholds where the mean of
their posterior is the answer now; its time is paid with `uncertainty: false` too. Routing's answer
is the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any
from unittest import mock

import numpy as np

from benchmarks import coverage_dr_ensemble, coverage_off_policy
from benchmarks.coverage import Case
from benchmarks.coverage_routing import PERIODS, network_body, trips_content
from benchmarks.curves import grid
from discreet.privacy.noise import Noise
from discreet.problems.dr_ensemble import estimates
from discreet.problems.numbers import Privacy
from discreet.problems.off_policy_evaluation import moments
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic

RUNS = 20


def run() -> list[dict[str, Any]]:
    """Two rows a case, in the form of `benchmarks.__main__`: against the finish without, and that
    against before."""
    rows = []
    for case in cases():
        released = case.problem.release(case.public, case.plan, case.content, Noise.seeded(1))

        def finish(uncertainty: bool, case: Case = case, released: Any = released) -> Any:
            asked = case.problem.model_copy(update={"uncertainty": uncertainty})
            return asked.finish(case.public, case.plan, released, lambda step, total: None)

        whole, without, before = _seconds(
            (nullcontext, partial(finish, True)),
            (nullcontext, partial(finish, False)),
            (_before, partial(finish, False)),
        )
        name = f"finish of {case.kind}: {case.truth}"
        rows += [
            _row(f"{name}, with intervals", whole, "uncertainty: false", without),
            _row(f"{name}, uncertainty: false", without, "before intervals", before),
        ]
    return rows


def cases() -> Iterator[Case]:
    """The sizes of examples, and large ones."""
    yield _routing(5, 25)
    yield _routing(27, 20)
    yield coverage_dr_ensemble.case("sticky", 1000, 1.0)
    yield _chain(12, 3000, topology=True)
    yield _chain(12, 3000, topology=False)
    yield _chain(200, 200_000, topology=False)


def _routing(side: int, zones: int) -> Case:
    """A town of side² crossings with evenly strewn zones; BPR, user equilibrium."""
    network = grid(side)
    node = np.random.default_rng(0).permutation(network.nodes)
    network = replace(network, zones=zones, tail=node[network.tail], head=node[network.head])
    rng = np.random.default_rng(1)
    means = rng.lognormal(0, 1, (zones, zones)) * ~np.eye(zones, dtype=bool)
    total = rng.poisson(PERIODS * 1000 * means / means.sum())
    public = RoutingPublic(
        unit="request",
        zones=zones,
        periods=PERIODS,
        period_minutes=60,
        max_total=int(total.sum()) // PERIODS + 100,
    )
    fields = {"latency": {"type": "bpr"}, "objective": "user_equilibrium"}
    asked = Routing.model_validate(
        {"kind": "routing", "dataset": "dst_x", "network": network_body(network, 1.0), **fields}
    )
    plan = asked.plan(public, Privacy.model_validate({"epsilon": 1.0}).budget)
    name = f"{network.tail.size:,} links, {zones} zones"
    return Case("routing", "counts", name, 1.0, asked, public, plan, trips_content(total, None))


def _chain(states: int, people: int, *, topology: bool) -> Case:
    with mock.patch.multiple(coverage_off_policy, STATES=states, PEOPLE=people):
        table, known, start = coverage_off_policy.patients(0, "each step")
        data = coverage_off_policy.read(
            table, {"trajectories": people, **({"topology": known} if topology else {})}
        )
    name = (
        f"{states} states, {people:,} trajectories, {'topology' if topology else 'nothing'} public"
    )
    return coverage_off_policy.tabular(name, data, start.tolist(), 1.0)


@contextmanager
def _before() -> Iterator[None]:
    """Counts are cut by thresholds, as they were."""
    with (
        mock.patch.object(estimates, "MAX_CELLS", 0),
        mock.patch.object(moments, "MAX_NOISE_SHARE", -1.0),
    ):
        yield


def _seconds(
    *works: tuple[Callable[[], AbstractContextManager[None]], Callable[[], Any]],
) -> list[float]:
    """The least processor time of each. They take turns, so that what else the machine does meets
    all of them."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(RUNS + 1):  # the first warms up
        for seconds, (context, work) in zip(found, works, strict=True):
            with context():
                begun = time.process_time()
                work()
                seconds.append(time.process_time() - begun)
    return [min(seconds[1:]) for seconds in found]


def _row(name: str, ours: float, peer: str, theirs: float) -> dict[str, Any]:
    return {
        "benchmark": name,
        "ours": 1000 * ours,
        "unit": "ms",
        "peer": peer,
        "peer_value": 1000 * theirs,
        "ratio": ours / theirs,
        "note": f"{1000 * (ours - theirs):.3g} ms more",
    }
