"""What holds for every call: problem documents, examples that run, limits that name themselves,
page tokens, ETags."""

from __future__ import annotations

import ast
import asyncio
import json
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import jsonschema
import psycopg
import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.routing import APIRoute

from discreet.api import examples
from discreet.api.app import create_app
from discreet.api.contract import contract
from discreet.api.operations import operation
from discreet.dashboard.app import install
from discreet.problems import DATASETS, KINDS
from discreet.settings import Settings
from discreet.storage.database import libpq_url
from discreet.usecases import access
from discreet.usecases import running as repairs
from discreet.usecases.endings import FAILURES
from discreet.usecases.services import open_services
from discreet.web import bodies as request_bodies
from discreet.web.codes import CODES
from discreet.web.problem_details import example
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually
from tests.dashboard.browsing import Browser

DOCUMENT: dict[str, Any] = json.loads(contract())
SERVICE = Path(__file__).parents[2] / "service" / "discreet"
FEDERATION_ONLY = {"token_used", "name_differs", "token_expired", "wrong_token", "not_enrolled"}
"""Codes of use cases that agents call over gRPC."""
PAGES_ONLY = {"foreign_answer", "login_refused"}
"""Codes of a login by an identity provider, which are shown on pages."""


def calls() -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, call)
        for path, methods in DOCUMENT["paths"].items()
        for method, call in methods.items()
    ]


def valid(schema: dict[str, Any], value: Any) -> None:
    jsonschema.Draft202012Validator({**DOCUMENT, **schema}).validate(value)


def new_tenant(running: Installation, name: str) -> str:
    """The key of its owner."""
    with running.client(running.operator_key) as operator:
        operator.create_tenant(name)
    return running.key_of("owner", tenant=name)


# The contract -------------------------------------------------------------------------------------


def test_every_code_in_the_source_is_documented() -> None:
    """A code that is raised anywhere below the API stands in the catalogue, with its status, title
    and example."""
    found = set()
    for file in (
        file for room in ("usecases", "api", "intake") for file in (SERVICE / room).rglob("*.py")
    ):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.keyword)
                and node.arg == "code"
                and isinstance(node.value, ast.Constant)
            ):
                found.add(node.value.value)
    assert len(found) > 15
    # What a job fails with stands in its error, not in a refusal: see `test_causes`.
    assert found - FEDERATION_ONLY - PAGES_ONLY - FAILURES.keys() <= CODES.keys()


def test_refusals_are_documented_with_an_example_of_each_code() -> None:
    for path, method, call in calls():
        for status, response in call["responses"].items():
            if status < "400":
                continue
            content = response["content"]["application/problem+json"]
            assert list(content["examples"]) == response["x-codes"], (path, method, status)
            for code, shown in content["examples"].items():
                assert CODES[code].status == int(status), (path, method, code)
                assert shown["value"] == example(code)
                valid(content["schema"], shown["value"])
    for code in CODES:
        valid({"$ref": "#/components/schemas/ProblemDocument"}, example(code))


def test_every_body_has_examples_that_its_schema_allows() -> None:
    shown = 0
    for path, method, call in calls():
        if "requestBody" in call:
            content = call["requestBody"]["content"]["application/json"]
            assert content["examples"], (path, method)
            for each in content["examples"].values():
                valid(content["schema"], each["value"])
                shown += 1
    assert shown >= len(KINDS) * 2 + len(DATASETS) + 6


def test_kinds_are_told_apart_by_name() -> None:
    problem = DOCUMENT["components"]["schemas"]["JobRequest"]["properties"]["problem"]
    dataset = DOCUMENT["components"]["schemas"]["DatasetRequest"]
    for union, kinds in ((problem, KINDS), (dataset, DATASETS)):
        assert union["discriminator"]["propertyName"] == "kind"
        assert union["discriminator"]["mapping"].keys() == kinds.keys()
        assert set(union["discriminator"]["mapping"].values()) == {
            one["$ref"] for one in union["oneOf"]
        }


def test_what_is_private_is_marked_and_nothing_else() -> None:
    """The content of datasets and blocks, in JSON and as a file; every other field of every schema
    is published."""

    def marked(value: Any, path: str = "") -> list[str]:
        items = (
            value.items()
            if isinstance(value, dict)
            else enumerate(value)
            if isinstance(value, list)
            else ()
        )
        own = [path] if isinstance(value, dict) and value.get("x-private") is True else []
        return own + [found for name, child in items for found in marked(child, f"{path}/{name}")]

    upload = (
        "/paths//v1/datasets/post/requestBody/content/multipart/form-data/schema/properties/content"
    )
    contents = {
        f"/components/schemas/{one.__name__}/properties/content" for one in DATASETS.values()
    }
    block = upload.replace("/v1/datasets", "/v1/sources/{source_id}/blocks")
    contents |= {
        f"/components/schemas/{name}/properties/content"
        for name in ("BlockRequest", "CorrectionRequest")
    }
    correction = upload.replace("/v1/datasets/post", "/v1/datasets/{dataset_id}/patch")
    look = upload.replace("/v1/datasets", "/v1/reads")
    assert set(marked(DOCUMENT)) == {upload, block, correction, look, *contents}


# Over HTTP ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_examples_of_the_served_contract_run(service: Installation, kind: str) -> None:
    with service.http() as http:
        paths = http.get("/openapi.json").json()["paths"]

    def shown(path: str) -> Any:
        return (
            paths[path]["post"]["requestBody"]["content"]["application/json"]["examples"]
            .get(kind, {})
            .get("value")
        )

    with service.client(new_tenant(service, f"examples of {kind}")) as client:
        body, dataset = shown("/v1/jobs"), shown("/v1/datasets")
        assert shown("/v1/plans") == body
        if dataset is not None:
            assert body["problem"]["dataset"] == examples.DATASET_ID
            body["problem"]["dataset"] = client.register(dataset)["id"]
        assert client.plan(body)["admitted"]
        ended = client.wait(client.submit(body)["id"])
        assert ended["state"] == "succeeded", ended
        url, headers = (
            f"/v1/jobs/{ended['id']}/result",
            {"Authorization": client._http.headers["Authorization"]},
        )
        with service.http() as http:
            first = http.get(url, headers=headers)
            valid({"$ref": "#/components/schemas/ResultAnswer"}, first.json())
            again = http.get(
                url, headers={**headers, "If-None-Match": f'"other", {first.headers["etag"]}'}
            )
            assert (again.status_code, again.content) == (304, b"")


def test_an_etag_names_a_state(api_only: Installation) -> None:
    with api_only.client() as client, api_only.http() as http:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        budget = f"/v1/budgets/{dataset['account']}"
        tags = {}
        for path in (budget, f"/v1/datasets/{dataset['id']}", f"/v1/jobs/{job['id']}"):
            first = http.get(path)
            tags[path] = first.headers["etag"]
            assert first.headers["cache-control"] == "private, no-cache"
            same = http.get(path, headers={"If-None-Match": tags[path]})
            assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tags[path])
            assert http.get(path, headers={"If-None-Match": "*"}).status_code == 304
            assert http.get(path, headers={"If-None-Match": '"other"'}).json() == first.json()
        client.submit(bodies.job(dataset["id"]))
        changed = http.get(budget, headers={"If-None-Match": tags[budget]})
        assert (changed.status_code, changed.json()["reserved"]["epsilon"]) == (200, 0.2)
        client.cancel(job["id"])
        # Two reservations less one are what one was: the same state again.
        assert http.get(budget).json()["reserved"]["epsilon"] == 0.1
        assert http.get(budget, headers={"If-None-Match": tags[budget]}).status_code == 304
        assert http.get(
            f"/v1/jobs/{job['id']}", headers={"If-None-Match": tags[f"/v1/jobs/{job['id']}"]}
        ).is_success


def test_page_tokens_are_sealed(api_only: Installation) -> None:
    with api_only.client() as client, api_only.http() as http:
        dataset = client.register(bodies.dataset())
        client.register(bodies.dataset())
        for _ in range(2):
            client.submit(bodies.job(dataset["id"], 0.001))
        entries = f"/v1/budgets/{dataset['account']}/entries"
        tokens = {
            path: http.get(f"{path}&page_size=1").json()["next_page_token"]
            for path in (f"{entries}?", "/v1/jobs?", "/v1/jobs?state=queued", "/v1/datasets?")
        }
        for path, token in tokens.items():
            assert http.get(f"{path}&page_size=1&page_token={token}").status_code == 200
            swapped = token[:-3] + ("AAA" if token[-3:] != "AAA" else "BBB")
            others = [other for place, other in tokens.items() if place != path]
            for wrong in (swapped, token[:-1], token + "A", "", "a", "1", "é", *others):
                answer = http.get(f"{path}&page_token={wrong}")
                assert answer.status_code == 422, (path, wrong, answer.text)
                assert answer.json()["code"] == "invalid_page_token"
                assert answer.json()["errors"][0]["pointer"] == "/query/page_token"
    with api_only.http(new_tenant(api_only, "token thief")) as http:
        assert http.get("/v1/jobs", params={"page_token": tokens["/v1/jobs?"]}).status_code == 422


def test_answers_carry_their_headers(api_only: Installation) -> None:
    with api_only.client() as client, api_only.http() as http:
        dataset = client.register(bodies.dataset())
        answer = http.post(
            "/v1/jobs",
            json=bodies.job(dataset["id"]),
            headers={"Idempotency-Key": f"headers {dataset['id']}"},
        )
        assert answer.status_code == 202
        assert answer.headers["location"] == f"/v1/jobs/{answer.json()['id']}"
        assert int(answer.headers["retry-after"]) >= 1
        for each in (answer, http.get("/v1/jobs/job_none")):
            assert each.headers["ratelimit-policy"] == '"requests";q=30000;w=60'
            name, remaining, seconds = each.headers["ratelimit"].split(";")
            assert name == '"requests"'
            assert 0 <= int(remaining.removeprefix("r=")) < 30000
            assert 1 <= int(seconds.removeprefix("t=")) <= 60
            assert each.headers["x-content-type-options"] == "nosniff"
            assert each.headers["cache-control"] == "no-store"
        refused = http.get("/v1/jobs/a%00b")
        assert (refused.status_code, refused.headers["content-type"]) == (
            404,
            "application/problem+json",
        )
        wrong = http.get("/v1/jobs", params={"page_size": "many"}).json()
        assert (wrong["code"], wrong["errors"][0]["pointer"]) == (
            "invalid_parameter",
            "/query/page_size",
        )


def test_no_route_answers_to_a_parameter_that_it_does_not_know() -> None:
    """`?sttae=failed` was answered with all jobs."""
    app = create_app(Settings())
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.operation_id]
    assert len(routes) > 50

    async def ask() -> dict[str, tuple[int, str, str]]:
        found = {}
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
            for route in routes:
                path = re.sub(r"{[^}]*}", "1", route.path)
                for method in route.methods:
                    answer = await http.request(method, f"{path}?sttae=failed")
                    problem = answer.json()
                    found[f"{method} {path}"] = (
                        answer.status_code,
                        problem["code"],
                        problem["errors"][0]["pointer"],
                    )
            typo = (await http.get("/v1/jobs?page_sice=1")).json()["errors"]
            twice = (await http.get("/v1/jobs?page_size=1&page_size=2")).json()["errors"]
        assert "did you mean `page_size`?" in typo[0]["detail"]
        assert twice[0]["detail"] == "this parameter may be given once"
        return found

    answers = asyncio.run(ask())
    assert {name for name, one in answers.items() if one[:2] != (422, "invalid_parameter")} == set()
    assert {pointer for *_, pointer in answers.values()} == {"/query/sttae"}


# One process with small limits --------------------------------------------------------------------


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The application on a real socket, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", access_log=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            eventually(lambda: server.started, "the server starts")
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()


def first_key(settings: Settings) -> str:
    async def make() -> str:
        async with open_services(settings) as services:
            key = access.new_key()
            assert await access.bootstrap(services, {"owner": key})
            return key

    return asyncio.run(make())


def client_at(url: str, headers: dict[str, str]) -> httpx.Client:
    """One that waits as long as a busy machine needs."""
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=DEADLINE_SECONDS)


def test_event_streams_are_counted_by_key(settings: Settings) -> None:
    small = settings.model_copy(update={"key_streams": 2})
    headers = {"Authorization": f"Bearer {first_key(settings)}"}
    app = create_app(small)
    install(app)
    with served(app) as url, client_at(url, headers) as http:
        dataset = http.post("/v1/datasets", json=bodies.dataset()).json()["id"]
        job = http.post(
            "/v1/jobs", json=bodies.job(dataset), headers={"Idempotency-Key": "streams"}
        ).json()["id"]
        path = f"/v1/jobs/{job}/events"
        with http.stream("GET", path), http.stream("GET", path):
            # A stream counts a little after its answer has begun.
            told = eventually(lambda: _opened(http, path, 429), "a third stream is refused")
            valid({"$ref": "#/components/schemas/ProblemDocument"}, told.json())
            assert (told.json()["code"], told.headers["retry-after"]) == ("too_many_streams", "5")
            assert http.get(f"/v1/jobs/{job}").status_code == 200  # only streams are refused
        eventually(lambda: _opened(http, path, 200), "a stream that has ended makes room")


def _opened(http: httpx.Client, path: str, status: int) -> httpx.Response | None:
    """The answer to a request for a stream, if it has this status."""
    with http.stream("GET", path) as answer:
        if answer.status_code == 429:
            answer.read()
        return answer if answer.status_code == status else None


def test_uploads_at_once_are_counted_by_tenant(settings: Settings) -> None:
    small = settings.model_copy(update={"tenant_uploads": 1})
    headers = {"Authorization": f"Bearer {first_key(settings)}"}
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield b'{"kind": '
        begun.set()
        go_on.wait()
        yield b"5}"

    app = create_app(small)
    install(app)
    with served(app) as url, client_at(url, headers) as http:
        answers: list[int] = []
        first = threading.Thread(
            target=lambda: answers.append(http.post("/v1/datasets", content=slow()).status_code),
            daemon=True,
        )
        first.start()
        begun.wait()

        def refused() -> (
            httpx.Response | None
        ):  # the server takes the turn a little after the client has begun
            answer = http.post("/v1/datasets", json={"kind": 5})
            return answer if answer.status_code == 429 else None

        told = eventually(refused, "the second upload is refused")
        valid({"$ref": "#/components/schemas/ProblemDocument"}, told.json())
        assert (told.json()["code"], told.headers["retry-after"]) == ("too_many_uploads", "5")
        assert told.json()["limit"] == {
            "setting": "tenant_uploads",
            "unit": "uploads",
            "allowed": 1,
            "came": 2,
        }
        go_on.set()
        first.join()
        assert answers == [422]
        # The turn was given back.
        assert http.post("/v1/datasets", json={"kind": 5}).status_code == 422


def test_large_bodies_of_a_tenant_take_turns(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A body above 64 KiB waits while its tenant's others are held, then reads why; small ones
    never wait."""
    monkeypatch.setattr(request_bodies, "WAIT_SECONDS", 0.2)
    small = settings.model_copy(update={"tenant_bodies": 1})
    key = first_key(settings)
    headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": "bodies"}
    large = b'{"problem": "' + b"x" * request_bodies.THREAD_BYTES + b'"}'
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> Iterator[bytes]:
        yield large[:-1]
        begun.set()
        go_on.wait()
        yield large[-1:]

    app = create_app(small)
    install(app)
    with served(app) as url, client_at(url, headers) as http:
        answers: list[int] = []
        first = threading.Thread(
            target=lambda: answers.append(http.post("/v1/jobs", content=slow()).status_code),
            daemon=True,
        )
        first.start()
        begun.wait()

        def refused() -> (
            httpx.Response | None
        ):  # the server takes the turn a little after the client has begun
            answer = http.post("/v1/plans", content=large)
            return answer if answer.status_code == 429 else None

        told = eventually(refused, "the second body is refused")
        valid({"$ref": "#/components/schemas/ProblemDocument"}, told.json())
        assert (told.json()["code"], told.headers["retry-after"]) == ("too_many_bodies", "5")
        assert told.json()["limit"] == {
            "setting": "tenant_bodies",
            "unit": "bodies",
            "allowed": 1,
            "came": 2,
        }
        assert http.post("/v1/plans", content=b"{}").status_code == 422
        browser = Browser.logged_in(cast(Installation, SimpleNamespace(url=url, owner_key=key)))
        form: Any = {
            "content": b"problem=" + b"x" * request_bodies.THREAD_BYTES,
            "headers": {"Origin": url},
        }
        # Forms of pages take the same turns.
        assert browser.http.post("/jobs/new", **form).status_code == 429
        go_on.set()
        first.join()
        assert answers == [422]
        assert browser.http.post("/jobs/new", **form).status_code == 403  # of no page of ours
        browser.http.close()
        for path in (
            "/v1/plans",
            "/v1/jobs",
            "/v1/rehearsals",
            "/v1/plans",
        ):  # each gives its turn back
            assert http.post(path, content=large).status_code == 422


def test_limits_name_themselves(settings: Settings) -> None:
    small = settings.model_copy(
        update={
            "json_body_bytes": 3000,
            "rate_limit_requests": 8,
            "rate_limit_seconds": 10**9,  # windows begin at multiples of it: the next in 2033
        }
    )
    app = create_app(small)
    since, sunset = datetime(2026, 11, 1, tzinfo=UTC), datetime(2027, 6, 1, tzinfo=UTC)
    old = operation("read_old", roles=None, answers={200: "text/plain"}, deprecated=(since, sunset))
    app.add_api_route("/v1/old", lambda: "old", **old)
    headers = {"Authorization": f"Bearer {first_key(settings)}"}
    with served(app) as url, client_at(url, headers) as http:

        def post(text: str | Iterator[bytes]) -> dict[str, Any]:
            answer = http.post("/v1/plans", content=text)
            assert answer.status_code in (400, 413), answer.text
            body: dict[str, Any] = answer.json()
            valid({"$ref": "#/components/schemas/ProblemDocument"}, body)
            return body

        big = post(" " * 3001)
        assert big["code"] == "payload_too_large"
        assert big["limit"] == {
            "setting": "json_body_bytes",
            "unit": "bytes",
            "allowed": 3000,
            "came": 3001,
        }
        assert "json_body_bytes" in big["detail"]
        unannounced = post(iter([b" " * 2000, b" " * 2000]))
        assert unannounced["limit"] == {
            "setting": "json_body_bytes",
            "unit": "bytes",
            "allowed": 3000,
            "came": None,
        }
        deep = post("[" * 70 + "]" * 70)
        assert deep["code"] == "invalid_json"
        assert deep["limit"] == {
            "setting": "json_depth",
            "unit": "levels of nesting",
            "allowed": 64,
            "came": 70,
        }

        for left in range(4, -1, -1):
            answer = http.get("/v1/jobs")
            assert answer.status_code == 200
            assert answer.headers["ratelimit"].startswith(f'"requests";r={left};t=')
        refused = http.get("/v1/jobs")
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert refused.json()["limit"]["setting"] == "rate_limit_requests"
        assert 1 <= int(refused.headers["retry-after"]) <= 10**9
        assert refused.headers["ratelimit"].startswith('"requests";r=0;t=')
        assert http.get("/healthz").status_code == 200

        announced = http.get("/v1/old").headers
        assert announced["deprecation"] == f"@{int(since.timestamp())}"
        assert announced["sunset"] == "Tue, 01 Jun 2027 00:00:00 GMT"


def test_idempotency_keys_are_kept_for_a_day_and_swept_after_two(api_only: Installation) -> None:
    settings = api_only.settings
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"], 0.001)
        jobs = {
            hours: client.submit(body, idempotency_key=f"aged {hours}")["id"] for hours in (25, 49)
        }
        assert settings.migration_database_url is not None
        with psycopg.connect(
            libpq_url(settings.migration_database_url), autocommit=True
        ) as connection:
            connection.execute("SET discreet.tenant = '*'")
            for hours, job in jobs.items():
                connection.execute(
                    "UPDATE idempotent_requests SET created_at = now() - make_interval(hours => "
                    "%s) WHERE job_id = %s",
                    (hours, job),
                )

        async def repair() -> None:  # what a worker does every few seconds
            async with open_services(settings) as services:
                await repairs.repair(services)

        asyncio.run(repair())
        again = {
            hours: client.submit(body, idempotency_key=f"aged {hours}")["id"] for hours in jobs
        }
        assert again[25] == jobs[25]
        assert again[49] != jobs[49]
