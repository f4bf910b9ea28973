"""Coupled quadratic programs over HTTP: no dataset, no budget, a certificate about the protocol."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from discreet.ledger.certificates import is_signed
from discreet.problems.coupled_qp.problem import CoupledQp
from discreet_client.client import ApiError
from tests import bodies
from tests.conftest import Installation
from tests.solvers.test_spds import OPTIMUM, TOLERANCE


def body(**problem: Any) -> dict[str, Any]:
    made = copy.deepcopy(CoupledQp.example())
    made["problem"] |= problem
    return made


def test_a_job_without_dataset_and_without_privacy(service: Installation) -> None:
    with service.client() as client:
        planned = client.plan(body())
        assert planned["price"] == {"epsilon": 0, "delta": 0, "rho": 0}
        assert planned["admitted"] is True
        job = client.submit(body())
        assert job["dataset"] is None
        ended = client.wait(job["id"])
        assert ended["state"] == "succeeded", ended
        answer = client.result(job["id"])
        for found, expected in zip(answer["result"]["x"], OPTIMUM, strict=True):
            assert found == pytest.approx(expected, abs=TOLERANCE)
        certificate = answer["certificate"]
        assert is_signed(certificate)
        assert client.verify_certificate(certificate)["valid"]
        # A simulation: all data were at the server.
        assert certificate["guarantee"]["type"] == "none"
        assert certificate["ledger_entry"] == []
        section = certificate["cryptographic"]
        assert section["type"] == "cryptographic"
        assert section["scheme"] == "masking"
        assert section["transcript"] == answer["result"]["transcript"]


def test_privacy_is_given_where_noise_protects_and_nowhere_else(service: Installation) -> None:
    without = {"problem": bodies.job("dst_x")["problem"]}
    with_both = {**body(), "privacy": {"epsilon": 1}}
    with service.http() as http:
        for request, says in ((without, "needed"), (with_both, "leave privacy out")):
            answer = http.post("/v1/plans", json=request)
            assert answer.status_code == 422, answer.text
            (issue,) = answer.json()["errors"]
            assert issue["pointer"] == "/privacy"
            assert says in issue["detail"]


@pytest.mark.parametrize(
    ("problem", "pointer"),
    [
        ({"encryption": {"key_bits": 1024}}, "/problem/encryption/key_bits"),
        ({"mode": "private"}, "/problem/mode"),
        ({"operator": {"c": [1, 1], "d": [-1, 9]}}, "/problem/operator/d/1"),
        ({"steps": {"iterations": 0}}, "/problem/steps/iterations"),
        ({"noise": {"epsilon": 1, "delta": 1e-6}}, "/problem/noise"),
    ],
)
def test_bad_input_is_named_and_no_job_is_made(
    service: Installation, problem: dict[str, Any], pointer: str
) -> None:
    with service.client() as client:
        before = len(client.jobs()["jobs"])
        with pytest.raises(ApiError) as refused:
            client.submit(body(**problem))
        assert refused.value.status == 422
        assert refused.value.problem["errors"][0]["pointer"] == pointer
        assert len(client.jobs()["jobs"]) == before


def test_a_seed_is_refused(service: Installation) -> None:
    with service.client() as client, pytest.raises(ApiError) as refused:
        client.submit({**body(), "seed": 3})
    assert refused.value.problem["errors"][0]["pointer"] == "/seed"
