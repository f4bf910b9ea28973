"""The example files: what their scripts write, bodies that the service takes, and the figures of
their sources."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.csv as pc
import pytest

from discreet.installation import local as solve
from discreet.problems.contents import canonical_bytes
from discreet.problems.dr_ensemble.dataset import DrEnsembleDataset
from discreet.problems.road_networks.network import RoadNetwork
from discreet.solvers.traffic.traffic_assignment import Latency, assign

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return loaded("sioux_falls")


def loaded(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def figures() -> Any:
    return json.loads((EXAMPLES.parent / "service/discreet/reproduce/sioux_falls.json").read_text())


@pytest.fixture(scope="module")
def job() -> Any:
    return json.loads((EXAMPLES / "routing-sioux-falls.json").read_text())


def test_the_job_is_what_the_script_writes(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(script, "JOB", tmp_path / "job.json")
    script.main()
    written = (tmp_path / "job.json").read_bytes()
    assert written == (EXAMPLES / "routing-sioux-falls.json").read_bytes()
    assert len(written) < 1_600_000
    assert f"{len(written):,} bytes" in capsys.readouterr().out


def test_the_job_can_be_planned(job: Any) -> None:
    answer = solve.plan(job)
    assert answer["price"]["epsilon"] == 0.1
    assert answer["price"]["delta"] == 0


def test_figures_are_those_of_the_test_network(figures: Any) -> None:
    """Totals as published with the network, and its equilibrium: Beckmann's objective of the best
    known solution."""
    trips = np.array(figures["trips"], dtype=float)
    assert trips.shape == (24, 24)
    assert trips.sum() == 360_600
    assert not trips.diagonal().any()
    assert len(figures["nodes"]) == 24
    assert len({tuple(node) for node in figures["nodes"]}) == 24
    links = figures["links"]
    assert len(links) == len({(tail, head) for tail, head, *_ in links}) == 76
    assert {(tail, head) for tail, head, *_ in links} == {(head, tail) for tail, head, *_ in links}
    network = RoadNetwork.model_validate(
        {
            "nodes": 24,
            "links": [
                dict(zip(("tail", "head", "free_flow_time", "capacity"), x, strict=True))
                for x in links
            ],
        }
    ).arrays(24)
    flow = assign(network, Latency(0.15, 4), trips, "user_equilibrium", gap=1e-9).link_flows
    beckmann = flow @ (network.free_flow_time * (1 + 0.15 / 5 * (flow / network.capacity) ** 4))
    assert beckmann == pytest.approx(4_231_335.28710744, rel=1e-9)


def test_mornings_are_poisson_around_the_table(figures: Any, job: Any) -> None:
    """Each sum over pairs and mornings is Poisson of a known mean; 5 standard deviations are passed
    once in 1e6."""
    table = np.array(figures["trips"], dtype=float)
    assert job["problem"]["dataset"]["public"]["periods"] == 50
    mornings = np.zeros((50, 24, 24))
    for row in job["problem"]["dataset"]["content"]["trips"]:
        place = row["period"], row["origin"] - 1, row["destination"] - 1
        assert mornings[place] == 0
        assert row["count"] > 0
        mornings[place] = row["count"]
    assert not mornings[:, table == 0].any()
    for axes, mean in (((1, 2), np.full(50, table.sum())), (0, 50 * table)):
        assert (np.abs(mornings.sum(axis=axes) - mean) <= 5 * np.sqrt(mean)).all()
    spread = ((mornings - table) ** 2)[:, table > 0] / table[
        table > 0
    ]  # of mean 1 and variance 2 + 1/mean
    assert abs(spread.mean() - 1) < 5 * np.sqrt(2.01 / spread.size)


def test_the_job_has_the_network_of_the_figures(figures: Any, job: Any) -> None:
    problem = job["problem"]
    assert [[*link.values()] for link in problem["network"]["links"]] == figures["links"]
    assert problem["latency"] == {"type": "affine", "factor": 1.0}
    assert "synthetic" in problem["dataset"]["name"]


@pytest.mark.long
def test_patients_are_told_what_to_expect_and_never_what_no_rewards_allow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sums solved as they are say values beyond the rewards' bound of 1, as -1.37: the answers of
    the same releases are means over tables that can be, so they do not."""
    module, picture = loaded("patients"), tmp_path / "values.png"
    module.main(["--table", str(picture)])
    printed = capsys.readouterr().out
    assert printed.count("the plan said: the policy's value ") == 3
    assert "mostly noise; without noise 0.72" in printed.splitlines()[0]
    for line in printed.splitlines()[3::3]:
        low, high = (float(end) for end in line.split("90 %: ")[1].split(";")[0].split(" to "))
        assert low <= 0.72 <= high
    plain, answers = module.others(module.EPSILONS[0])
    assert min(plain) < -1.2
    assert max(np.abs(answers)) < 1
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_second_question_is_free_and_both_answers_hold_the_truth(
    script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "roads.png"
    script.twice(picture)
    *advice, first, second = capsys.readouterr().out.splitlines()
    assert advice
    assert all(line.startswith("the plan said: ") for line in advice)
    assert first.startswith("system_optimum, price 0.1: ")
    assert second.startswith("user_equilibrium, price 0: ")
    for line in (first, second):
        low, high, true = (float(line.split(a)[1].split(b)[0].replace(",", "")) for a, b in ENDS)
        assert low <= true <= high
    assert picture.read_bytes().startswith(b"\x89PNG")


ENDS = (("NI: ", "–"), ("–", ");"), ("without noise ", "\n"))


def test_the_demand_response_marks_its_rows_of_noise_and_holds_the_truth(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Hardly any of its buildings is ever in the last two states; loads and saving lie in their
    intervals."""
    module = loaded("demand_response")
    module.main(None)
    assert solve.plan(json.loads(capsys.readouterr().out))["price"]["epsilon"] == 2
    result = module.solved()
    assert any(
        "participants on average will have transitions of mostly noise" in one
        for one in result["advice"]
    )
    told = result["uncertainty"]
    assert told["noise_dominates"]["transitions"] == [False] * 6 + [True] * 2
    assert not told["mostly_noise"]
    for name in ("expected_power", "default_power", "saving"):
        lower, upper, true = (
            np.array(x, dtype=float)
            for x in (*told["values"][name].values(), result[f"true_{name}"])
        )
        assert not (lower > true).any()  # null where all is possible
        assert not (true > upper).any()
    module.table(result)
    printed = capsys.readouterr().out
    assert printed.count(" kW noise ") == 2
    assert f"true {result['achieved_saving']:.1f}" in printed


def test_meters_from_a_file_of_readings_to_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The CSV and the body are one content; what is read from the picture's figures holds the
    truth."""
    module = loaded("meters")
    module.main(["--csv", str(tmp_path / "meters.csv")])
    module.main([])
    body = json.loads(capsys.readouterr().out)
    assert solve.plan(body)["price"]["epsilon"] == 2
    dataset = DrEnsembleDataset.model_validate(body["problem"]["dataset"])
    public, rows = dataset.public, dataset.rows()
    table = pc.read_csv(tmp_path / "meters.csv")
    assert b"".join(canonical_bytes(DrEnsembleDataset.read_table(public, table))) == b"".join(
        canonical_bytes(rows)
    )
    assert rows["states"].size % 48 == 0
    assert 250 * 48 < rows["states"].size < 300 * 48  # some are left out
    module.main(["--picture", str(tmp_path / "load.png")])
    assert (tmp_path / "load.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    low, high, true = (float(number) for number in re.findall(r"-?\d+\.\d+", printed)[1:])
    assert low <= true <= high
