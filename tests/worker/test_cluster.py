"""Huge routing jobs on a Dask cluster: real processes, one cluster of two workers on loopback."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems.routing.problem import Routing
from discreet.solvers.traffic.traffic_assignment import Assignment, assign
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, installation

ROOT = Path(__file__).parents[2]
ZONES, NODES = 8, 16

pytest.importorskip("distributed", reason="the extra `dask` is not installed")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.worker.local_cluster", "2"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()
        assert process.returncode == 0


@pytest.fixture(scope="module")
def running(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    with installation(postgres, template, tmp_path_factory.mktemp("cluster"), workers=0) as started:
        yield started


def finish(
    running: Installation, address: str, log: Path
) -> tuple[dict[str, object], Assignment, str]:
    """A job by a worker with this cluster: its result, the same of its released demand in one
    process, the log."""
    extra = {
        "DISCREET_ROUTING_CLUSTER": address,
        "DISCREET_ROUTING_CLUSTER_PAIRS": str(ZONES * (ZONES - 1)),
    }
    with log.open("wb") as out, running.client() as client:
        worker = subprocess.Popen(
            [sys.executable, "-m", "discreet", "worker"],
            env={**running.environment(), **extra},
            stdout=out,
            stderr=out,
        )
        try:
            dataset = client.register(bodies.dataset(zones=ZONES))["id"]
            body = bodies.job(dataset, network=bodies.network(NODES), latency={"type": "bpr"})
            job = client.wait(client.submit(body)["id"])
            assert job["state"] == "succeeded"
            result = client.result(job["id"])["result"]
        finally:
            worker.terminate()
            worker.wait(DEADLINE_SECONDS)
    problem = Routing.model_validate(body["problem"])
    network, latency = problem.network.arrays(ZONES), problem.latency.solver_form()
    demand = np.array(result["demand"])
    return result, assign(network, latency, demand, problem.objective, gap=1e-12), log.read_text()


def test_the_cluster_finds_what_one_process_finds(
    running: Installation, cluster: str, tmp_path: Path
) -> None:
    result, alone, log = finish(running, cluster, tmp_path / "log")
    assert "finished on the cluster" in log
    assert result["status"] == "converged"
    flows = np.array(result["link_flows"])
    # At a gap g flows are known to about sqrt(g) of their size, where costs are flat.
    assert np.abs(flows - alone.link_flows).max() <= 1e-4 * alone.link_flows.max()
    assert result["total_travel_time"] == pytest.approx(alone.total_travel_time, rel=1e-7)
    assert float(str(result["relative_gap"])) <= 1e-8


def test_without_its_cluster_the_worker_finishes_alone(
    running: Installation, tmp_path: Path
) -> None:
    result, alone, log = finish(running, "nowhere://127.0.0.1:1", tmp_path / "log")
    assert "the cluster failed" in log
    np.testing.assert_allclose(
        np.array(result["link_flows"]), alone.link_flows, atol=1e-4 * alone.link_flows.max()
    )
