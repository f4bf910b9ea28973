"""Head, export, certificates and caps over HTTP and from the command line, on real processes."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
import rfc8785
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.ledger import certificates
from discreet.ledger.verification import verify
from discreet_client.client import ApiError, Client
from tests import bodies
from tests.cli import test_cli
from tests.conftest import Installation


def exported(client: Client) -> list[bytes]:
    out = io.BytesIO()
    client.export_ledger(out)
    return out.getvalue().splitlines(keepends=True)


def discreet(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command without a server and without a database."""
    return test_cli.discreet(
        *arguments, DISCREET_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none"
    )


def held(verdict: Any) -> dict[str, bool | None]:
    return {one["name"]: one["holds"] for one in verdict["checks"]}


@pytest.fixture(scope="module")
def finished(service: Installation) -> dict[str, Any]:
    """A job with its certificate."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        client.wait(job["id"])
        return client.result(job["id"])


def test_the_export_holds_and_ends_at_the_head(
    service: Installation, finished: dict[str, Any], tmp_path: Path
) -> None:
    with service.client() as client:
        head = client.ledger_head()
        lines = exported(client)
        assert sum(seq for _, seq, _ in head["accounts"]) == head["seq"]
        found = verify(lines, public_key=head["public_key"], head=head)
        assert found.entries >= head["seq"]
        entries = [json.loads(line)["body"] for line in lines[1:]]
        assert {entry["tenant"] for entry in entries} == {head["tenant"]}

    whole, cut, kept = tmp_path / "ledger.jsonl", tmp_path / "cut.jsonl", tmp_path / "head.json"
    whole.write_bytes(b"".join(lines))
    cut.write_bytes(b"".join(lines[:-1]))
    kept.write_text(json.dumps(head))
    good = discreet(
        "ledger",
        "verify",
        str(whole),
        "--public-key",
        head["public_key"],
        "--head",
        str(kept),
        "--json",
    )
    assert (good.returncode, json.loads(good.stdout)["valid"]) == (0, True), good.stderr
    bad = discreet("ledger", "verify", str(cut))
    assert bad.returncode == 1
    assert f"entry {entries[-1]['seq']} of account {entries[-1]['account']}" in bad.stdout

    answer = tmp_path / "answer.json"
    answer.write_text(json.dumps(finished))
    checked = discreet("certificate", "verify", str(answer), "--ledger", str(whole), "--json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert {check["name"]: check["holds"] for check in json.loads(checked.stdout)["checks"]} == {
        "signature": True,
        "price": True,
        "guarantee": True,
        "headline": True,
        "names": None,
        "result": True,
        "inclusion": True,
        "log": True,
        "witnesses": None,
    }
    finished["certificate"]["guarantee"]["epsilon"] /= 2
    answer.write_text(json.dumps(finished))
    finished["certificate"]["guarantee"]["epsilon"] *= 2
    assert discreet("certificate", "verify", str(answer)).returncode == 1


def test_a_file_that_holds_result_and_certificate_is_checked_as_one(
    finished: dict[str, Any], tmp_path: Path
) -> None:
    def checked(answer: dict[str, Any], *more: str) -> tuple[int, dict[str, Any]]:
        place = tmp_path / "answer.json"
        place.write_text(json.dumps(answer, indent=2))
        done = discreet("certificate", "verify", str(place), *more, "--json")
        assert done.stderr == ""
        return done.returncode, {
            one["name"]: one["holds"] for one in json.loads(done.stdout)["checks"]
        }

    certificate, result = finished["certificate"], finished["result"]
    assert certificate["result_digest"] == hashlib.sha256(rfc8785.dumps(result)).hexdigest()
    assert certificate["tables"] == {}
    assert checked(finished)[1]["result"] is True
    assert checked(certificate)[1]["result"] is None
    status, held = checked({**finished, "result": {**result, "total_travel_time": 1}})
    assert (status, held["result"], held["signature"]) == (1, False, True)
    status, held = checked({**finished, "job": {**finished["job"], "id": "job_other"}})
    assert (status, held["result"]) == (1, False)

    (tmp_path / "result.json").write_text(json.dumps(dict(reversed(result.items()))))
    (tmp_path / "flows.parquet").write_bytes(b"PAR1")
    assert checked(certificate, "--result", str(tmp_path / "result.json"))[1]["result"] is True
    status, held = checked(finished, "--table", f"flows={tmp_path / 'flows.parquet'}")
    assert (status, held["result"], held["table"]) == (1, True, False)
    wrong = discreet("certificate", "verify", str(tmp_path / "answer.json"), "--table", "flows")
    assert (wrong.returncode, "NAME=FILE" in wrong.stderr) == (1, True)


def test_certificates_are_checked_by_the_service(
    service: Installation, finished: dict[str, Any]
) -> None:
    true = finished["certificate"]
    with service.client() as client:
        assert client.verify_certificate(true)["valid"]
        for name, value in (
            ("events", []),
            ("ledger_entry", []),
            ("job", "job_other"),
            ("signature", ""),
        ):
            assert not client.verify_certificate({**true, name: value})["valid"], name
        assert not client.verify_certificate({})["valid"]
        result = finished["result"]
        with_result = client.verify_certificate(true, result=result)
        assert (with_result["valid"], held(with_result)["result"]) == (True, True)
        assert held(client.verify_certificate(true))["result"] is None
        for wrong in (
            {"result": {**result, "total_travel_time": 1}},
            {"result": result, "tables": {"flows": b"PAR1"}},
        ):
            assert not client.verify_certificate(true, **wrong)["valid"]
        stranger = certificates.sign({**true, "public_key": ""}, Ed25519PrivateKey.generate())
        found = {one["name"]: one["holds"] for one in client.verify_certificate(stranger)["checks"]}
        assert (found["signature"], found["price"]) == (False, None)
    with service.http() as http:
        assert http.post("/v1/certificates:verify", json={"certificate": 5}).status_code == 422
        assert http.post("/v1/certificates:verify", content=b"{").status_code == 400


def test_the_export_of_a_ledger_that_is_being_written(api_only: Installation) -> None:
    with api_only.client() as client:
        dataset = client.register(bodies.dataset(epsilon=100))
        stop = threading.Event()

        def write() -> None:
            with api_only.client() as writer:
                while not stop.is_set():
                    writer.cancel(writer.submit(bodies.job(dataset["id"], 0.001))["id"])

        thread = threading.Thread(target=write)
        thread.start()
        try:
            heads = []
            for _ in range(4):
                heads.append(client.ledger_head())
                verify(exported(client), head=heads[0])
        finally:
            stop.set()
            thread.join()
        final = exported(client)
        for head in heads:
            verify(final, head=head)


def test_who_may_read_the_ledger(api_only: Installation) -> None:
    for role, status in (("auditor", 200), ("analyst", 403)):
        with api_only.http(api_only.key_of(role)) as http:
            for call in ("head", "export"):
                assert http.get(f"/v1/ledger/{call}").status_code == status
    with api_only.http("dsc_none") as http:
        assert http.get("/v1/ledger/export").status_code == 401
    with api_only.http() as http:
        contract = http.get("/openapi.json").json()["paths"]
        assert {
            "/v1/ledger/head",
            "/v1/ledger/export",
            "/v1/caps",
            "/v1/certificates:verify",
        } <= set(contract)


@pytest.fixture
def tenant(api_only: Installation, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Keys of an owner and an analyst of a tenant of its own."""
    name = request.node.name
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant(name)
    return api_only.key_of("owner", name), api_only.key_of("analyst", name)


def refusal(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    with pytest.raises(ApiError) as refused:
        client.submit(body)
    assert (refused.value.status, refused.value.code) == (409, "budget_exhausted")
    priced = client.plan(body)
    assert (priced["admitted"], priced["binding"]) == (False, refused.value.problem["binding"])
    return refused.value.problem


def test_caps_on_tenant_and_principal_bind_all_or_none(
    api_only: Installation, tenant: tuple[str, str]
) -> None:
    with api_only.client(tenant[0]) as owner, api_only.client(tenant[1]) as analyst:
        first, second = owner.register(bodies.dataset()), owner.register(bodies.dataset())
        analyst.submit(bodies.job(first["id"], 0.3))  # before the caps: not in them
        whole = owner.set_cap(scope="tenant", epsilon=0.8, delta=0, reason="the year's")
        mine = owner.set_cap(
            scope="principal", principal="analyst", epsilon=0.5, delta=0, reason="on probation"
        )
        assert (whole["unit"], whole["scope"], mine["subject"]) == ("any", "tenant", "analyst")
        assert [cap["id"] for cap in owner.caps()] == [whole["id"], mine["id"]]

        job = analyst.submit(bodies.job(first["id"], 0.3))
        problem = refusal(analyst, bodies.job(second["id"], 0.3))
        assert problem["binding"]["account"] == mine["id"]
        assert (problem["binding"]["scope"], problem["binding"]["subject"]) == (
            "principal",
            "analyst",
        )
        assert problem["binding"]["largest"]["epsilon"] == 0.2
        assert problem["detail"].startswith("budget exceeded: the cap on analyst binds")
        assert owner.budget(second["account"])["reserved"]["epsilon"] == 0
        assert owner.budget(whole["id"])["reserved"]["epsilon"] == 0.3

        owner.submit(bodies.job(second["id"], 0.4))  # another principal
        assert refusal(owner, bodies.job(second["id"], 0.2))["binding"]["account"] == whole["id"]
        assert refusal(owner, bodies.job(second["id"], 0.7))["detail"].startswith(
            "budget exceeded: the cap on the tenant binds"
        )

        analyst.cancel(job["id"])
        for account in (first["account"], whole["id"], mine["id"]):
            assert [entry["kind"] for entry in owner.entries(account)][-1] == "release"
        assert owner.budget(mine["id"])["remaining"]["epsilon"] == 0.5

        again = owner.set_cap(
            scope="principal", principal="analyst", epsilon=0.1, delta=0, reason="less"
        )
        assert again["id"] == mine["id"]
        granted = list(owner.entries(mine["id"]))[-1]
        assert (granted["kind"], granted["reason"]) == ("grant", "less")
        with pytest.raises(ApiError) as below:
            owner.set_cap(scope="tenant", epsilon=0.3, delta=0, reason="below what is reserved")
        assert (below.value.status, below.value.code) == (409, "cap_below_spent")
        assert (
            refusal(analyst, bodies.job(first["id"], 0.2))["binding"]["largest"]["epsilon"] == 0.1
        )
        verify(exported(owner), head=owner.ledger_head())


def test_a_cap_on_a_principal_outlives_its_keys(
    api_only: Installation, tenant: tuple[str, str]
) -> None:
    with api_only.client(tenant[0]) as owner:
        dataset = owner.register(bodies.dataset())
        owner.set_cap(
            scope="principal", principal="ann", epsilon=0.5, delta=0, reason="before she has a key"
        )
        for epsilon in (0.3, 0.2):
            made = owner.create_key(role="analyst", principal="ann")
            with api_only.client(made["key"]) as ann:
                ann.submit(bodies.job(dataset["id"], epsilon))
                assert refusal(ann, bodies.job(dataset["id"], 0.3))["code"] == "budget_exhausted"
            owner.revoke_key(made["id"])


BAD_CAPS = [
    ({"epsilon": 0}, "/cap/epsilon", "greater than 0"),
    ({"epsilon": -1}, "/cap/epsilon", "greater than 0"),
    ({"epsilon": 1e30}, "/cap/epsilon", "at most"),
    ({"epsilon": 1e300}, "/cap/epsilon", "finite"),
    ({"epsilon": 1e-300}, "/cap/epsilon", "at most 9 decimals"),
    ({"epsilon": 0.0000000001}, "/cap/epsilon", "at most 9 decimals"),
    ({"epsilon": "1"}, "/cap/epsilon", "in JSON without quotes"),
    ({"epsilon": True}, "/cap/epsilon", "in JSON without quotes"),
    ({"epsilon": None}, "/cap/epsilon", "in JSON without quotes"),
    ({"epsilon": 1, "delta": 1}, "/cap/delta", "less than 1"),
    ({"epsilon": 1, "delta": -1e-9}, "/cap/delta", "at least 0"),
    ({"epsilon": 1, "delta": 1e-19}, "/cap/delta", "at most 18 decimals"),
    ({"epsilon": 1, "rho": 1}, "/cap/rho", "no such field"),
    ({}, "/cap/epsilon", "needed"),
]


@pytest.mark.parametrize(("cap", "pointer", "says"), BAD_CAPS)
def test_bad_caps_name_the_field(
    api_only: Installation, cap: dict[str, Any], pointer: str, says: str
) -> None:
    with api_only.client() as client, api_only.http() as http:
        account = client.register(bodies.dataset())["account"]
        before = len(client.caps())
        for path, body in (
            (f"/v1/budgets/{account}/grants", {"cap": cap, "reason": "r"}),
            ("/v1/caps", {"scope": "tenant", "cap": cap, "reason": "r"}),
        ):
            answer = http.post(path, json=body)
            assert answer.status_code == 422, answer.text
            found = {issue["pointer"]: issue["detail"] for issue in answer.json()["errors"]}
            assert says in found[pointer], found
        assert [entry["kind"] for entry in client.entries(account)] == ["open"]
        assert len(client.caps()) == before


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"scope": "principal"}, "/principal"),
        ({"scope": "tenant", "principal": "ann"}, "/principal"),
        ({"scope": "principal", "principal": ""}, "/principal"),
        ({"scope": "principal", "principal": "x" * 201}, "/principal"),
        ({"scope": "data"}, "/scope"),
        ({"scope": "tenant", "reason": ""}, "/reason"),
        ({"scope": "tenant", "cap": 5}, "/cap"),
        ({"scope": "tenant", "extra": 5}, "/extra"),
    ],
)
def test_bad_cap_requests(api_only: Installation, body: dict[str, Any], pointer: str) -> None:
    with api_only.http() as http:
        answer = http.post("/v1/caps", json={"cap": {"epsilon": 1}, "reason": "r", **body})
    assert answer.status_code == 422
    assert pointer in {issue["pointer"] for issue in answer.json()["errors"]}


def test_caps_and_grants_of_others(api_only: Installation, tenant: tuple[str, str]) -> None:
    grant = {"cap": {"epsilon": 1}, "reason": "mine now"}
    with (
        api_only.client() as client,
        api_only.http(tenant[0]) as stranger,
        api_only.http(tenant[1]) as analyst,
    ):
        account = client.register(bodies.dataset())["account"]
        assert stranger.post(f"/v1/budgets/{account}/grants", json=grant).status_code == 404
        assert stranger.post("/v1/budgets/acc_none/grants", json=grant).status_code == 404
        assert [entry["kind"] for entry in client.entries(account)] == ["open"]
        assert stranger.get("/v1/caps").json() == {"caps": []}
        assert analyst.post("/v1/caps", json={"scope": "tenant", **grant}).status_code == 403
        assert analyst.get("/v1/caps").status_code == 200


def test_two_first_caps_at_once_are_one_account(
    api_only: Installation, tenant: tuple[str, str]
) -> None:
    answers: list[httpx.Response] = []

    def post(number: int) -> None:
        with api_only.http(tenant[0]) as http:
            body = {"scope": "tenant", "cap": {"epsilon": 1 + number}, "reason": "race"}
            answers.append(http.post("/v1/caps", json=body))

    threads = [threading.Thread(target=post, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in answers) == [200] * 5 + [201]
    with api_only.client(tenant[0]) as owner:
        (cap,) = owner.caps()
        assert [entry["kind"] for entry in owner.entries(cap["id"])] == ["open"] + ["grant"] * 5
