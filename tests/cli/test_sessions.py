"""`discreet session approve --job`: an owner signs what her own file gives, whatever the server
says."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from discreet.cli.sessions import compare, require_fixed_parameters
from discreet.errors import DiscreetError
from discreet.problems import KINDS
from discreet.problems.federation import FederatedProblem
from discreet.problems.numbers import Privacy
from discreet.usecases.jobs import price_view
from tests.problems.masked import problem as masked_problem

JOB = {
    "problem": {
        "kind": "coupled_qp",
        "operator": {"c": [1, 1], "d": [-1, 1]},
        "agents": {"count": 3, "coupled": 2, "constraints": 2},
        "steps": {"primal": 0.016, "dual": 0.8, "shrink": 0.99, "iterations": 50},
        "encryption": {"scheme": "masking"},
        "protocol": "federated",
        "federation": {"agents": 3},
        "exposure": "accepted",
    }
}


def agents(announcement: dict[str, Any], count: int = 3) -> list[dict[str, Any]]:
    keys = [base64.b64encode(bytes([number]) * 32).decode() for number in range(count)]
    return [
        {
            "fingerprint": f"{number:064x}",
            "name": f"agent {number}",
            "key": key,
            "announcement": announcement,
        }
        for number, key in enumerate(keys)
    ]


def told(asked: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """What an honest server says of the job before its roster is signed."""
    problem = KINDS[asked["problem"]["kind"]].model_validate(asked["problem"])
    assert isinstance(problem, FederatedProblem)
    privacy = Privacy.model_validate(asked["privacy"]) if "privacy" in asked else None
    plan = problem.plan_federation((), problem.budget(privacy))
    job = {"problem": json.loads(problem.model_dump_json()), "price": price_view(plan.total)}
    return job, plan.model_dump(mode="json")["parameters"] if problem.signs_parameters else None


def weaker_key(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    parameters["sums"]["colluding"] += 1


def wider_bound(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    parameters["sums"]["bound"] *= 2


def another_step(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    job["problem"]["steps"]["dual"] = 0.9


def more_rounds(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    job["problem"]["steps"]["iterations"] += 1


def a_field_less(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    del job["problem"]["exposure"]


def another_price(job: dict[str, Any], parameters: dict[str, Any]) -> None:
    job["price"]["epsilon"] = 0.5


@pytest.mark.parametrize(
    ("lie", "place"),
    [
        (weaker_key, "parameters at /parameters/sums/colluding"),
        (wider_bound, "parameters at /parameters/sums/bound"),
        (another_step, "problem at /problem/steps/dual"),
        (more_rounds, "problem at /problem/steps/iterations"),
        (a_field_less, "problem at /problem/exposure"),
        (another_price, "price at /price/epsilon"),
    ],
)
def test_what_the_server_changed_is_found(
    tmp_path: Path, lie: Callable[[dict[str, Any], dict[str, Any]], None], place: str
) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(JOB))
    job, parameters = told(JOB)
    compare(file, job, parameters, agents({}))
    lie(job, parameters)
    with pytest.raises(DiscreetError) as refused:
        compare(file, job, parameters, agents({}))
    kind, _, where = place.partition(" at ")
    assert f"the server's {kind} " in str(refused.value)
    assert where in str(refused.value)
    assert "Nothing was signed" in str(refused.value)


def test_agents_that_announce_figures_are_planned_with(tmp_path: Path) -> None:
    """The server signs no parameters of this kind: problem and price are compared."""
    asked = {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["left + right - 3"],
            "schedule": {"gamma": 0.0005, "alpha": 0.2, "c1": 0.3333, "c2": 0.25, "iterations": 20},
            "protocol": "federated",
            "federation": {"agents": 3},
        },
        "privacy": {"epsilon": 1, "delta": 0.01},
    }
    file = tmp_path / "job.json"
    file.write_text(json.dumps(asked))
    job, parameters = told(asked)
    named = zip(
        agents({"lower": -10, "upper": 10, "radius": 1}), ("left", "right", "else"), strict=True
    )
    members = [{**one, "name": name} for one, name in named]
    compare(file, job, parameters, members)
    job["price"]["delta"] = 0.5
    with pytest.raises(DiscreetError, match="/price/delta"):
        compare(file, job, parameters, members)


def test_parameters_that_follow_from_the_roster_are_computed_here(tmp_path: Path) -> None:
    """Those of masked sums: for the agents that the owner chooses, in whatever order they are
    listed, and whatever the server shows."""
    asked = {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["left + right + up + down - 3"],
            "schedule": {"gamma": 0.0005, "alpha": 0.2, "c1": 0.3333, "c2": 0.25, "iterations": 20},
            "protocol": "federated",
            "federation": {"agents": 4},
            "masks": "sparse",
        },
        "privacy": {"epsilon": 1, "delta": 0.01},
    }
    file = tmp_path / "job.json"
    file.write_text(json.dumps(asked))
    job, _ = told(asked)
    announced = {"lower": -10, "upper": 10, "radius": 1, "masks": "sparse"}
    named = zip(agents(announced, 4), ("left", "right", "up", "down"), strict=True)
    members = [{**one, "name": name} for one, name in named]
    signed = compare(file, job, {"sums": "weaker"}, members)
    assert signed == compare(file, job, None, members[::-1])
    assert signed["sums"]["plan"]["agents"] == 4
    assert signed["sums"]["plan"]["corrupt"] == 1
    job["problem"]["colluding"] = 0
    with pytest.raises(DiscreetError, match="/problem/colluding"):
        compare(file, job, None, members)


def test_a_file_of_another_job_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps({"problem": {**JOB["problem"], "protocol": "job"}}))
    job, parameters = told(JOB)
    with pytest.raises(DiscreetError):
        compare(file, job, parameters, agents({}))


def test_what_follows_from_the_roster_is_signed_from_the_owners_file_alone() -> None:
    sums, none = {"sums": {"colluding": 1}}, None
    job, parameters = told(JOB)
    require_fixed_parameters(job["problem"], parameters)
    masked = json.loads(masked_problem(20, 3).model_dump_json())
    plain = {**masked, "masks": "none"}
    require_fixed_parameters(plain, none)
    for problem in (masked, plain, {"kind": "later"}, none):  # a server may say another problem
        with pytest.raises(DiscreetError, match="say --job FILE"):
            require_fixed_parameters(problem, sums)
