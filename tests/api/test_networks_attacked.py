"""Stored networks against hostile input, other tenants, races and the database's own role."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet_client.errors import Conflict, NotFound
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.reliability.chains import superuser_url

HOSTILE_IDS = [
    "net_%00",
    "%00",
    "net_" + "a" * 5000,
    "net_%F0%9F%92%A3",
    "..%2f..%2fjobs",
    "net_'; DROP TABLE jobs",
    "%ff",
]


@pytest.fixture(scope="module")
def owner(api_only: Installation) -> str:
    """The key of an owner of a tenant of its own."""
    return api_only.owner_of("attacked networks")


@pytest.fixture
def http(api_only: Installation, owner: str) -> Iterator[httpx.Client]:
    with api_only.http(owner) as client:
        yield client


def network(**more: Any) -> dict[str, Any]:
    """One that no other test has stored."""
    return {
        **bodies.network(),
        "nodes_xy": [[uuid.uuid4().int % 10**9, place] for place in range(4)],
        **more,
    }


def add(http: httpx.Client, name: str = "Town", **more: Any) -> httpx.Response:
    return http.post("/v1/networks", json={"name": name, "network": network(**more)})


@pytest.mark.parametrize("given", HOSTILE_IDS)
def test_ids_that_are_none(http: httpx.Client, given: str) -> None:
    for method in ("GET", "DELETE"):
        answer = http.request(method, f"/v1/networks/{given}")
        assert answer.status_code in (400, 404, 405, 422), answer.text
    dataset = http.post("/v1/datasets", json=bodies.dataset()).json()["id"]
    named = bodies.job(dataset, network=httpx.URL(f"http://x/{given}").path[1:65])
    assert http.post("/v1/plans", json=named).status_code in (400, 404, 422)


@pytest.mark.parametrize(
    "raw",
    [
        '{"nodes_xy": [[NaN, 0], [1, 1], [2, 2], [3, 3]]}',
        '{"nodes_xy": [[1e999, 0], [1, 1], [2, 2], [3, 3]]}',
        '{"nodes_xy": [[1e308, 0], [1, 1], [2, 2], [3, 3]]}',
        '{"nodes_xy": [[0, 0, 0], [1, 1], [2, 2], [3, 3]]}',
        '{"nodes_xy": {"0": [0, 0]}}',
        '{"node_names": ["a\\u0000", "b", "c", "d"]}',
        '{"node_names": ["\\ud800", "b", "c", "d"]}',
        '{"node_names": ["", "b", "c", "d"]}',
        '{"nodes": 4, "nodes": 5}',
        '{"nodes": 1e6}',
        '{"nodes": 99999999999999999999}',
        '{"first_through_node": -1}',
        '{"links": ' + "[" * 5000 + "]" * 5000 + "}",
        '{"unknown": 1}',
    ],
)
def test_what_no_network_has(http: httpx.Client, raw: str) -> None:
    whole = json.dumps({**bodies.network(), "name": 0}).replace('"name": 0', raw[1:-1])
    answer = http.post("/v1/networks", content=f'{{"name": "x", "network": {whole}}}'.encode())
    assert answer.status_code in (400, 422), answer.text
    assert len(answer.content) < 20_000


def test_refusing_many_wrong_links_is_short(http: httpx.Client) -> None:
    wrong = [{"tail": 1, "head": 1, "free_flow_time": 1, "capacity": 1, "power": 0.5}] * 20_000
    answer = http.post("/v1/networks", json={"name": "x", "network": {"nodes": 4, "links": wrong}})
    assert answer.status_code == 422
    assert len(answer.content) < 20_000


def test_names_stay_text(http: httpx.Client) -> None:
    hostile = "</script><img src=x onerror=alert(1)>" + "\U0001f4a3" * 40
    made = add(http, hostile, node_names=[hostile, "b", "c", "d"])
    assert made.status_code == 201
    assert (
        http.get(f"/v1/networks/{made.json()['id']}").json()["network"]["node_names"][0] == hostile
    )
    assert add(http, "x" * 201).status_code == 422
    assert add(http, node_names=["x" * 201, "b", "c", "d"]).status_code == 422


def test_many_who_store_the_same_at_once_store_it_once(api_only: Installation, owner: str) -> None:
    body = {"name": "Town", "network": network()}
    with api_only.http(owner) as http, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: http.post("/v1/networks", json=body), range(8)))
    assert sorted(one.status_code for one in answers) == [200] * 7 + [201]
    assert len({one.json()["id"] for one in answers}) == 1


def test_deletions_and_jobs_at_once(api_only: Installation, owner: str) -> None:
    """Whoever wins: no job names a network that is gone, and who was refused was charged
    nothing."""
    with (
        api_only.client(owner) as client,
        api_only.http(owner) as http,
        ThreadPoolExecutor(4) as pool,
    ):
        dataset = client.register({**bodies.dataset(epsilon=50), "name": str(uuid.uuid4())})
        made = [add(http).json()["id"] for _ in range(12)]

        def submit(one: str) -> str | None:
            try:
                return str(client.submit(bodies.job(dataset["id"], 0.1, network=one))["id"])
            except NotFound:
                return None

        def delete(one: str) -> bool:
            try:
                client.call(operations.delete_network(one))
            except Conflict as refused:
                return refused.code != "object_in_use"
            return True

        for one in made:
            job, gone = pool.submit(submit, one), pool.submit(delete, one)
            assert (job.result() is None) == gone.result()
            assert (http.get(f"/v1/networks/{one}").status_code == 404) == gone.result()
        jobs = [
            one
            for one in http.get("/v1/jobs?page_size=200").json()["jobs"]
            if one["dataset"] == dataset["id"]
        ]
        reserved = client.budget(dataset["account"])["reserved"]["epsilon"]
    assert float(reserved) == pytest.approx(0.1 * len(jobs))


def test_a_tenant_cannot_store_without_end(
    api_only: Installation, postgres: EmbeddedPostgres, http: httpx.Client
) -> None:
    made = add(http).json()["id"]
    with psycopg.connect(superuser_url(postgres, api_only.settings)) as connection:
        connection.execute(
            "INSERT INTO public_objects (tenant_id, id, type, name, sizes, content, created_by)"
            " SELECT tenant_id, 'net_many' || n, type, name, sizes, content, created_by"
            " FROM public_objects, generate_series(1, 1000) AS n WHERE id = %s",
            [made],
        )
    refused = add(http)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_objects")
    with psycopg.connect(superuser_url(postgres, api_only.settings)) as connection:
        connection.execute("DELETE FROM public_objects WHERE id LIKE 'net_many%'")
    assert add(http).status_code == 201


def test_the_services_own_role_changes_none(api_only: Installation, http: httpx.Client) -> None:
    """Content, id and what a job names are for ever, and rows of other tenants are not there."""
    made = add(http).json()["id"]
    url = api_only.settings.database_url
    assert url is not None
    with psycopg.connect(url) as connection:
        tenant = connection.execute(
            "SELECT set_config('discreet.tenant', 'nobody', false)"
        ).fetchone()
        assert tenant is not None
        seen = "SELECT (SELECT count(*) FROM public_objects), (SELECT count(*) FROM job_objects)"
        assert connection.execute(seen).fetchone() == (0, 0)
        assert connection.execute("DELETE FROM public_objects WHERE id = %s", [made]).rowcount == 0
    refused = [
        "UPDATE public_objects SET content = ''",
        "UPDATE public_objects SET id = 'net_x'",
        "UPDATE public_objects SET tenant_id = 'nobody'",
        "UPDATE public_objects SET sizes = '{}'",
        "UPDATE job_objects SET object_id = 'net_x'",
        "DELETE FROM job_objects",
        "TRUNCATE public_objects",
        "INSERT INTO public_objects (tenant_id, id, type, name, sizes, content, created_by)"
        " VALUES ('default', 'net_x', 'network', 'x', '{}', '', 'x')",
    ]
    for statement in refused:
        with psycopg.connect(url) as connection:
            connection.execute("SELECT set_config('discreet.tenant', 'nobody', false)")
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement)  # type: ignore[arg-type]
