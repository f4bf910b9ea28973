"""The check of the contract finds what would break programs, and lets pass what would not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from discreet.api.compatibility import breaks
from discreet.api.contract import contract, faults, main

FOLDER = Path(__file__).parents[2] / "openapi"
SERVED: dict[str, Any] = json.loads(contract())
Change = Callable[[dict[str, Any]], Any]


def schema(document: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def call(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][path][method]
    return found


def answer(document: dict[str, Any], method: str, path: str, status: str) -> dict[str, Any]:
    found: dict[str, Any] = call(document, method, path)["responses"][status]
    return found


BREAKING: dict[str, tuple[Change, str]] = {
    "a call": (
        lambda d: d["paths"]["/v1/jobs/{job_id}"].pop("get"),
        "GET /v1/jobs/{job_id} is gone",
    ),
    "a name": (
        lambda d: call(d, "get", "/v1/jobs").update(operationId="list_all_jobs"),
        "GET /v1/jobs: the name list_jobs became list_all_jobs",
    ),
    "a field that is read": (
        lambda d: schema(d, "BudgetAnswer")["properties"].pop("remaining"),
        "/remaining is gone",
    ),
    "a field that may be missing": (
        lambda d: schema(d, "JobAnswer")["required"].remove("price"),
        "/price may be missing now",
    ),
    "a field that may be null": (
        lambda d: schema(d, "JobAnswer")["properties"].update(
            id={"anyOf": [{"type": "string"}, {"type": "null"}]}
        ),
        "/id: it may be null now",
    ),
    "a value that is read": (
        lambda d: schema(d, "JobAnswer")["properties"]["state"]["enum"].remove("awaiting_agents"),
        "/state: the value 'awaiting_agents' is gone",
    ),
    "a value that is sent": (
        lambda d: schema(d, "KeyRequest")["properties"]["role"]["enum"].remove("auditor"),
        "POST /v1/keys body/role: the value 'auditor' is gone",
    ),
    "a field that must be sent": (
        lambda d: schema(d, "KeyRequest")["required"].append("expires_at"),
        "POST /v1/keys body/expires_at must be sent now",
    ),
    "a new field that must be sent": (
        lambda d: (
            schema(d, "TenantRequest")["required"].append("region"),
            schema(d, "TenantRequest")["properties"].update(region={"type": "string"}),
        ),
        "POST /v1/tenants body/region must be sent now",
    ),
    "a field that is no longer taken": (
        lambda d: schema(d, "JobRequest")["properties"].pop("seed"),
        "POST /v1/jobs body/seed is gone",
    ),
    "a narrower type": (
        lambda d: schema(d, "Cap")["properties"]["epsilon"].update(type="integer"),
        "body/cap/epsilon: number is gone",
    ),
    "a wider type that is read": (
        lambda d: schema(d, "JobProgress")["properties"]["step"].update(type="number"),
        "/progress/step: a number where there was an integer",
    ),
    "a lower bound": (
        lambda d: schema(d, "Privacy")["properties"]["epsilon"]["anyOf"][0].update(maximum=10),
        "POST /v1/jobs body/privacy object/epsilon number: maximum is 10, was 1000",
    ),
    "a kind": (
        lambda d: schema(d, "JobRequest")["properties"]["problem"]["oneOf"].pop(0),
        "POST /v1/jobs body/problem: object routing is gone",
    ),
    "a query parameter": (
        lambda d: call(d, "get", "/v1/jobs").update(
            parameters=[
                one for one in call(d, "get", "/v1/jobs")["parameters"] if one["name"] != "state"
            ]
        ),
        "GET /v1/jobs: query parameter state is gone",
    ),
    "a header that must be sent": (
        lambda d: call(d, "post", "/v1/plans").update(
            parameters=[
                {
                    "in": "header",
                    "name": "X-Purpose",
                    "required": True,
                    "schema": {"type": "string"},
                }
            ]
        ),
        "POST /v1/plans: header parameter X-Purpose must be sent now",
    ),
    "an upload": (
        lambda d: call(d, "post", "/v1/datasets")["requestBody"]["content"].pop(
            "multipart/form-data"
        ),
        "POST /v1/datasets body: the media type multipart/form-data is gone",
    ),
    "an answer": (
        lambda d: call(d, "post", "/v1/datasets")["responses"].pop("200"),
        "POST /v1/datasets: the answer 200 is gone",
    ),
    "an answer's header": (
        lambda d: answer(d, "get", "/v1/budgets/{account_id}", "200")["headers"].pop("ETag"),
        "GET /v1/budgets/{account_id} 200: the header ETag is gone",
    ),
    "a role": (
        lambda d: call(d, "get", "/v1/budgets")["x-roles"].remove("auditor"),
        "GET /v1/budgets: the role auditor is no longer allowed",
    ),
    "a key": (
        lambda d: call(d, "get", "/healthz").update({"x-roles": ["owner"]}),
        "GET /healthz: a key is needed now",
    ),
    "what was private": (
        lambda d: schema(d, "RoutingDataset")["properties"]["content"].pop("x-private"),
        "POST /v1/datasets body object routing/content was private",
    ),
    "a kind's results": (
        lambda d: schema(d, "Results")["properties"].pop("routing"),
        "Results/routing is gone",
    ),
    "a field of a result": (
        lambda d: schema(d, "RoutingResult")["properties"].pop("link_flows"),
        "Results/routing/link_flows is gone",
    ),
    "a column of a result": (
        lambda d: schema(d, "RoutingResult")["properties"]["demand"]["x-table"].remove("trips"),
        "Results/routing/demand: the column trips of its table is gone",
    ),
    "what could be asked again": (
        lambda d: schema(d, "DrEnsemble")["properties"]["price"].pop("x-asked-again"),
        "POST /v1/jobs body/problem object dr_ensemble/price could be asked again for a release",
    ),
}


def _let_in(field: dict[str, Any]) -> None:
    number = field["anyOf"][0]
    number["minimum"] = number.pop("exclusiveMinimum")


HARMLESS: dict[str, Change] = {
    "another call": lambda d: d["paths"].update(
        {"/v1/news": {"get": {"operationId": "read_news", "responses": {}}}}
    ),
    "another field that is read": lambda d: schema(d, "JobAnswer")["properties"].update(
        note={"type": "string"}
    ),
    "another field that may be sent": lambda d: schema(d, "KeyRequest")["properties"].update(
        note={"type": "string"}
    ),
    "another value that is read": lambda d: schema(d, "JobAnswer")["properties"]["state"][
        "enum"
    ].append("paused"),
    "a wider bound": lambda d: schema(d, "Privacy")["properties"]["epsilon"].update(maximum=10**6),
    "an end that was shut out": lambda d: _let_in(
        schema(d, "OffPolicyEvaluation")["properties"]["max_importance"]
    ),
    "a narrower type that is read": lambda d: schema(d, "Figures")["properties"]["epsilon"].update(
        type="integer"
    ),
    "another refusal": lambda d: call(d, "get", "/v1/jobs")["responses"].update(
        {"418": {"description": "tea"}}
    ),
    "words": lambda d: call(d, "get", "/v1/jobs").update(description="Other words"),
}


@pytest.mark.parametrize("name", BREAKING)
def test_what_breaks_is_found(name: str) -> None:
    change, sentence = BREAKING[name]
    changed = copy.deepcopy(SERVED)
    change(changed)
    found = breaks(SERVED, changed)
    assert any(one.endswith(sentence) for one in found), found


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_added_breaks_nothing(name: str) -> None:
    changed = copy.deepcopy(SERVED)
    HARMLESS[name](changed)
    assert changed != SERVED
    assert breaks(SERVED, changed) == []


def test_a_deprecated_call_may_go_after_its_sunset() -> None:
    old, new = copy.deepcopy(SERVED), copy.deepcopy(SERVED)
    call(old, "get", "/v1/caps")["x-sunset"] = "Tue, 01 Jun 2027 00:00:00 GMT"
    del new["paths"]["/v1/caps"]["get"]
    assert breaks(old, new, datetime(2027, 5, 31, tzinfo=UTC)) == ["GET /v1/caps is gone"]
    assert breaks(old, new, datetime(2027, 6, 1, tzinfo=UTC)) == []


def test_the_served_contract_keeps_what_was_released() -> None:
    assert faults(FOLDER) == []


def test_the_check_fails_on_drift_and_on_a_break(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make check` runs this command."""
    released = json.loads((FOLDER / "released.json").read_text())
    schema(released, "TenantAnswer")["properties"]["region"] = {"type": "string"}
    (tmp_path / "released.json").write_text(json.dumps(released))
    (tmp_path / "openapi.json").write_text(
        (FOLDER / "openapi.json").read_text().replace("list_jobs", "list_job", 1)
    )
    assert main(["--check", str(tmp_path)]) == 1
    told = capsys.readouterr().err
    assert "differs from what is served" in told
    assert "breaks the released contract: POST /v1/tenants 201/region is gone" in told
    assert "discreet.api.contract --check openapi" in (FOLDER.parent / "Makefile").read_text()
