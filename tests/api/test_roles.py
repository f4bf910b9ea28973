"""Every route, every role, every tenant: the walk goes over the application's own routes, so that
none is forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute

from discreet.api import examples
from discreet.api.app import create_app
from discreet.settings import Settings
from discreet_client.client import Client
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually

ROLES = ("operator", "owner", "analyst", "auditor")
OPEN = {"/healthz", "/readyz", "/v1/log/checkpoint", "/v1/log/tile/{tile:path}"}
"""All that answers without a key."""


def api_routes() -> list[APIRoute]:
    found = [
        route
        for route in create_app(Settings()).routes
        if isinstance(route, APIRoute) and route.include_in_schema
    ]
    assert len(found) > 25
    return found


ROUTES = {
    f"{method} {route.path}": route for route in api_routes() for method in sorted(route.methods)
}


def roles_of(name: str) -> list[str]:
    declared: list[str] = (ROUTES[name].openapi_extra or {})["x-roles"]
    return declared


@dataclass
class Tenants:
    """Two tenants with a key of every role each, and objects of the first."""

    running: Installation
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    objects: dict[str, str] = field(default_factory=dict)

    def ask(self, name: str, key: str | None, **request: Any) -> httpx.Response:
        method, _, path = name.partition(" ")
        objects = {
            **self.objects,
            "job_id": self.objects["session" if "/sessions/" in path else "job_id"],
        }
        for parameter, value in objects.items():
            path = path.replace(f"{{{parameter}}}", value).replace(f"{{{parameter}:path}}", value)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        with (
            httpx.Client(
                base_url=self.running.url,
                headers=headers,
                timeout=DEADLINE_SECONDS,
                trust_env=False,
            ) as http,
            http.stream(method, path, **request) as answer,
        ):
            if not answer.headers.get("content-type", "").startswith(
                "text/event-stream"
            ):  # that has no end yet
                answer.read()
            return answer


def webhook(running: Installation) -> str:
    with running.http() as http:
        answer = http.post(
            "/v1/webhooks", json={"url": "https://hooks.example.org/", "events": ["job.finished"]}
        )
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def person(running: Installation) -> str:
    """Somebody of an identity provider, removed before they came."""
    said = {"issuer": "https://login.example", "subject": "walker", "active": False}
    with running.http() as http:
        assert http.put("/v1/people", json=said).status_code == 200
        return str(http.get("/v1/people").json()["people"][0]["id"])


def roads(owner: Client) -> str:
    body: Any = {"name": "Roads", "network": bodies.network()}
    return str(owner.call(operations.add_network(body))["id"])


def draft(running: Installation, key: str) -> str:
    """A file of whoever has this key: nobody else finds it."""
    with running.client(key) as owner:
        trips = {"time": ["08:00"], "from": ["1"], "to": ["2"]}
        return str(owner.datasets.look(trips, kind="routing", public={"zones": 2})["id"])


@pytest.fixture(scope="module")
def tenants(api_only: Installation) -> Tenants:
    made = Tenants(api_only)
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("other tenant")
        for role in ROLES:
            made.keys["own", role] = operator.create_key(role=role, principal=f"walk {role}")["key"]
            made.keys["other", role] = operator.create_key(
                role=role, principal=role, tenant="other tenant"
            )["key"]
    with api_only.client() as owner:
        dataset = owner.register(bodies.dataset())
        job = owner.submit(bodies.job(dataset["id"], 0.01))
        session = owner.submit(bodies.federated())
        network = roads(owner)
        source = owner.sources.create(examples.sources()["days"])["id"]
        request = owner.request_budget(dataset["account"], epsilon=1, reason="walk")["id"]
        spare = owner.create_key(role="auditor", principal="spare")
    made.objects = {
        "dataset_id": dataset["id"],
        "job_id": job["id"],
        "session": session["id"],
        "account_id": dataset["account"],
        "key_id": spare["id"],
        "network_id": network,
        "source_id": source,
        "table": "demand",
        "webhook_id": webhook(api_only),
        "request_id": request,
        "fingerprint": "of nobody",
        "person_id": person(api_only),
        "tile": "0/000.p/1",
        "read_id": draft(api_only, made.keys["own", "owner"]),
    }
    tile = f"{api_only.url}/v1/log/tile/{made.objects['tile']}"
    eventually(
        lambda: httpx.get(tile, trust_env=False).status_code == 200,
        "the log has taken something in",
    )
    return made


def test_every_route_says_who_may(tenants: Tenants) -> None:
    for name, route in ROUTES.items():
        declared = roles_of(name)
        assert set(declared) <= set(ROLES), name
        assert bool(declared) != (route.path in OPEN), name
        for parameter in route.param_convertors:
            assert parameter in tenants.objects, f"{name} needs an object that this test makes"


def test_without_a_key_only_health_and_the_log_answer(tenants: Tenants) -> None:
    for name, route in ROUTES.items():
        answer = tenants.ask(name, None)
        assert (answer.status_code == 401) != (route.path in OPEN), name


@pytest.mark.parametrize("role", ROLES)
def test_a_role_opens_what_is_declared_and_nothing_else(tenants: Tenants, role: str) -> None:
    """An empty body is refused after the role: 403 for who may not, another refusal or an answer
    for who may."""
    with tenants.running.client() as owner:  # a walk before this one has cancelled its own
        tenants.objects["job_id"] = owner.submit(bodies.job(tenants.objects["dataset_id"], 0.01))[
            "id"
        ]
    last = ("/cancel", "DELETE /v1/reads")  # a queued job keeps its dataset
    for name in sorted(ROUTES, key=lambda one: any(words in one for words in last)):
        answer = tenants.ask(name, tenants.keys["own", role])
        declared = roles_of(name)
        if declared and role not in declared:
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden"), (
                name,
                answer.text,
            )
        else:
            assert answer.status_code not in (401, 403, 404), (name, answer.text)
            assert answer.status_code < 500, (name, answer.text)
        if name.startswith("DELETE") and answer.status_code == 204:  # for the roles that follow
            if "webhook_id" in name:
                tenants.objects["webhook_id"] = webhook(tenants.running)
                continue
            if "read_id" in name:
                owners = tenants.keys["own", "owner"]
                tenants.objects["read_id"] = draft(tenants.running, owners)
                continue
            with tenants.running.client() as owner:
                if "network_id" in name:
                    tenants.objects["network_id"] = roads(owner)
                    continue
                if "person_id" in name:
                    continue  # removed already, and still there
                assert "key_id" in name
                tenants.objects["key_id"] = owner.create_key(role="auditor", principal="spare")[
                    "id"
                ]


@pytest.mark.parametrize("role", ROLES)
def test_another_tenant_finds_nothing(tenants: Tenants, role: str) -> None:
    """Objects of the first tenant are 404 for all roles of another; lists hold none of them.
    Operators keep keys and people of every tenant: that is what they are for."""
    for name, route in ROUTES.items():
        declared = roles_of(name)
        everywhere = ("key_id", "people", "audit-log")
        if role not in declared or (
            role == "operator" and any(part in name for part in everywhere)
        ):
            continue
        answer = tenants.ask(name, tenants.keys["other", role], **_body(name))
        if route.param_convertors:
            # Where gRPC is not set up there are no invitations for anybody, whoever asks.
            expected = "no_rpc" if name == "POST /v1/sessions/{job_id}/tokens" else "not_found"
            assert answer.json()["code"] == expected, (name, answer.text)
        elif name.startswith("GET"):
            for known in tenants.objects.values():
                assert f'"{known}"' not in answer.text, name


def _body(name: str) -> dict[str, Any]:
    """A body that is good, so that what is missing is the object."""
    known: dict[str, Any] = {
        "POST /v1/budgets/{account_id}/grants": {"cap": {"epsilon": 2}, "reason": "test"},
        "POST /v1/budgets/{account_id}/requests": {"more": {"epsilon": 2}, "reason": "test"},
        "POST /v1/budgets/{account_id}/requests/{request_id}/decline": {"answer": "no"},
        "POST /v1/sessions/{job_id}/tokens": {"owner": "5f" * 32},
        "POST /v1/sessions/{job_id}/again": {},
        "PATCH /v1/sources/{source_id}": {"public": {"unit": "request"}},
        "PUT /v1/sources/{source_id}/rule": {"shares": {"ada": 1}},
        "PUT /v1/sessions/{job_id}/roster": {
            "roster": "{}",
            "signature": "A" * 86 + "==",
            "owner_key": "A" * 43 + "=",
        },
    }
    return {"json": known[name]} if name in known else {}


def test_a_foreign_dataset_cannot_be_used(tenants: Tenants) -> None:
    body = bodies.job(tenants.objects["dataset_id"], 0.01)
    for role in ("owner", "analyst"):
        key = tenants.keys["other", role]
        for name in ("POST /v1/plans", "POST /v1/jobs"):
            answer = tenants.ask(
                name, key, json=body, headers={"Idempotency-Key": f"foreign {role}"}
            )
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), answer.text


def test_a_route_without_a_role_is_for_nobody() -> None:
    """The declaration is what is enforced: a route that forgets it opens for no key."""
    import asyncio

    from starlette.requests import Request

    from discreet.errors import Forbidden
    from discreet.storage.tenants import Principal
    from discreet.usecases.keyring import Keyring, Rate
    from discreet.web.security import principal

    class Anybody(Keyring):
        def __init__(self) -> None:
            pass

        async def admit(self, key: str) -> tuple[Principal, Rate]:
            return Principal("ten_1", "ann", "owner", "key_1"), Rate(1, 1, 1, 1)

    app = create_app(Settings())
    app.state.keyring = Anybody()
    app.add_api_route("/v1/forgotten", lambda: None)
    scope = {
        "type": "http",
        "app": app,
        "headers": [(b"authorization", b"Bearer x")],
        "route": app.routes[-1],
    }
    with pytest.raises(Forbidden):
        asyncio.run(principal(Request(scope), None))
