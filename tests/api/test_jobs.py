"""Jobs over HTTP, on real processes."""

from __future__ import annotations

import concurrent.futures
import io
import json
import re
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.certificates import is_signed
from discreet.observability import faults
from discreet_client.client import ApiError, Client
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, installation
from tests.templates import Process


def kinds(client: Client, account: str) -> list[str]:
    return [entry["kind"] for entry in client.entries(account)]


def test_life_of_a_job(service: Installation) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        body = bodies.job(dataset["id"])
        plan = client.plan(body)
        assert plan["price"] == {"epsilon": 0.1, "delta": 0.0, "rho": 0.005}
        assert plan["admitted"]
        assert plan["plan"]["noise"][0]["scale"] == 10.0
        assert kinds(client, dataset["account"]) == ["open"]

        job = client.submit(body)
        seen: list[tuple[str, int, int]] = []
        ended = client.wait(job["id"], lambda *news: seen.append(news))
        assert ended["state"] == "succeeded"
        assert seen[0][0] == "queued"
        assert seen[-1][0] == "succeeded"
        assert ended["progress"]["step"] == ended["progress"]["total"]

        answer = client.result(job["id"])
        result, certificate = answer["result"], answer["certificate"]
        assert np.shape(result["demand"]) == (3, 3)
        assert len(result["link_flows"]) == 12
        assert {(pair["origin"], pair["destination"]) for pair in result["policy"]} == {
            (origin, destination)
            for origin in (1, 2, 3)
            for destination in (1, 2, 3)
            if origin != destination
        }
        for pair in result["policy"]:
            assert sum(path["share"] for path in pair["paths"]) == pytest.approx(1)
        assert result["tables"] == []
        assert certificate["guarantee"] == {
            "type": "pure_dp",
            "epsilon": 0.1,
            "delta": 0.0,
            "unit": "request",
            "neighbours": "one trip added or removed",
        }
        assert certificate["filter"] == ["basic"]
        assert is_signed(certificate)
        assert not is_signed({**certificate, "assumptions": []})

        entries = list(client.entries(dataset["account"]))
        assert [entry["kind"] for entry in entries] == ["open", "reserve", "data_touched", "commit"]
        assert certificate["ledger_entry"] == [
            {"account": dataset["account"], "seq": 4, "hash": entries[3]["hash"]}
        ]
        budget = client.budget(dataset["account"])
        assert (
            budget["spent"]["epsilon"],
            budget["reserved"]["epsilon"],
            budget["remaining"]["epsilon"],
        ) == (
            0.1,
            0,
            0.9,
        )


def test_a_budget_in_other_words(service: Installation) -> None:
    """A preset is paid as its figures, once; the answer tells them, and the job's plan what was
    chosen."""
    with service.client() as client:
        dataset = client.register(bodies.dataset(epsilon=5))
        body = {**bodies.job(dataset["id"]), "privacy": {"preset": "usual"}}
        plan = client.plan(body)
        assert plan["privacy"] == {"epsilon": 1, "delta": 0}
        assert plan["price"] == {"epsilon": 1, "delta": 0, "rho": 0.5}
        assert plan["plan"]["advice"][0].startswith("usual is epsilon 1: whoever finds")
        assert "privacy" not in client.plan({**body, "privacy": {"epsilon": 1}})
        jobs = {client.submit(body, idempotency_key="usual")["id"] for _ in range(2)}
        assert len(jobs) == 1
        client.wait(jobs.pop())
        assert client.budget(dataset["account"])["spent"]["epsilon"] == 1
        with pytest.raises(ApiError) as reused:
            client.submit({**body, "privacy": {"epsilon": 1}}, idempotency_key="usual")
        assert reused.value.code == "idempotency_key_reused"


def test_a_rehearsal_is_a_job_without_data_and_without_a_price(service: Installation) -> None:
    with service.client() as client, service.http() as http:
        dataset = client.register(bodies.dataset())
        body = {
            **bodies.job(dataset["id"]),
            "epsilons": [0.1, 10],
            "privacy": {"epsilon": 1, "delta": "auto"},
        }
        text = json.dumps(body)
        missing = http.post("/v1/rehearsals", content=text)
        assert (missing.status_code, missing.json()["code"]) == (400, "idempotency_key_missing")
        key = {"Idempotency-Key": "rehearsed"}
        accepted, again = (http.post("/v1/rehearsals", content=text, headers=key) for _ in range(2))
        assert accepted.status_code == 202
        job = accepted.json()
        assert again.json()["id"] == job["id"]
        assert accepted.headers["Location"] == f"/v1/jobs/{job['id']}"
        assert (job["kind"], job["dataset"], job["price"]["epsilon"]) == ("rehearsal", None, 0)
        assert job["simulation"]
        assert next(one for one in client.jobs()["jobs"] if one["id"] == job["id"])["simulation"]
        other = http.post("/v1/rehearsals", content=text + " ", headers=key)
        assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
        assert client.wait(job["id"])["state"] == "succeeded"
        found = client.result(job["id"])
        assert found["certificate"]["guarantee"]["type"] == "none"
        assert found["certificate"]["ledger_entry"] == []
        assert {row["epsilon"] for row in found["result"]["rows"]} == {0.1, 10}
        assert found["result"]["data"].startswith("synthetic")
        assert kinds(client, dataset["account"]) == ["open"]
        for change, status, pointer in (
            ({"problem": {**body["problem"], "dataset": "dst_nobody"}}, 404, "/problem/dataset"),
            ({"public": {"unit": "request"}}, 422, "/public/zones"),
            ({"epsilons": []}, 422, "/epsilons"),
            (
                {"units": 10**9, "public": {**bodies.dataset()["public"], "unit": "person"}},
                422,
                "/units",
            ),
        ):
            refused = http.post(
                "/v1/rehearsals", json={**body, **change}, headers={"Idempotency-Key": pointer}
            )
            assert refused.status_code == status, refused.text
            assert pointer in [one["pointer"] for one in refused.json()["errors"]]


def test_events_resume_after_the_last_seen(service: Installation) -> None:
    with service.client() as client, service.http() as http:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        client.wait(job["id"])

        def events(last: int) -> list[str]:
            text = http.get(
                f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": str(last)}
            ).text
            return [line for line in text.splitlines() if line.startswith("id: ")]

        everything = events(0)
        assert everything == [f"id: {number}" for number in range(1, len(everything) + 1)]
        assert events(2) == everything[2:]


def test_twenty_identical_posts_are_one_job_and_one_charge(service: Installation) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        text = json.dumps(bodies.job(dataset["id"]))

        def post(_: int) -> httpx.Response:
            with service.http() as http:
                return http.post("/v1/jobs", content=text, headers={"Idempotency-Key": "twenty"})

        with concurrent.futures.ThreadPoolExecutor(20) as pool:
            answers = list(pool.map(post, range(20)))
        assert {answer.status_code for answer in answers} <= {202, 409}
        in_flight = [answer.json()["code"] for answer in answers if answer.status_code == 409]
        assert set(in_flight) <= {"request_in_flight"}
        jobs = {answer.json()["id"] for answer in answers if answer.status_code == 202}
        assert len(jobs) == 1
        assert post(0).json()["id"] in jobs
        client.wait(jobs.pop())
        assert kinds(client, dataset["account"]) == ["open", "reserve", "data_touched", "commit"]

        other = json.dumps(bodies.job(dataset["id"], 0.2))
        with service.http() as http:
            reused = http.post("/v1/jobs", content=other, headers={"Idempotency-Key": "twenty"})
            missing = http.post("/v1/jobs", content=other)
        assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
        assert (missing.status_code, missing.json()["code"]) == (400, "idempotency_key_missing")
        assert [issue["pointer"] for issue in missing.json()["errors"]] == [
            "/header/Idempotency-Key"
        ]
        assert client.budget(dataset["account"])["spent"]["epsilon"] == 0.1


def test_over_budget_says_the_numbers_and_burns_nothing(api_only: Installation) -> None:
    with api_only.client() as client:
        dataset = client.register(bodies.dataset(epsilon=0.5))
        client.submit(bodies.job(dataset["id"], 0.3))
        priced = client.plan(bodies.job(dataset["id"], 0.3))
        with pytest.raises(ApiError) as refused:
            client.submit(bodies.job(dataset["id"], 0.3), idempotency_key="over")
        binding = {
            "account": dataset["account"],
            "cap": {"epsilon": 0.5, "delta": 0.0},
            "spent": {"epsilon": 0.0, "delta": 0.0},
            "reserved": {"epsilon": 0.3, "delta": 0.0},
            "requested": {"epsilon": 0.3, "delta": 0.0},
            "largest": {"epsilon": 0.2, "delta": 0.0},
        }
        assert (refused.value.status, refused.value.code) == (409, "budget_exhausted")
        assert refused.value.problem["binding"] == binding
        assert (priced["admitted"], priced["binding"]) == (False, binding)
        assert kinds(client, dataset["account"]) == ["open", "reserve"]
        assert (
            len(
                [
                    job
                    for job in client.jobs(page_size=200)["jobs"]
                    if job["dataset"] == dataset["id"]
                ]
            )
            == 1
        )
        # What was refused is not remembered: the same key passes when the budget does.
        assert (
            client.submit(bodies.job(dataset["id"], 0.2), idempotency_key="over")["state"]
            == "queued"
        )
        assert client.budget(dataset["account"])["largest_request"]["epsilon"] == 0


def test_cancelling_before_data_are_touched_costs_nothing(api_only: Installation) -> None:
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        with pytest.raises(ApiError, match="cancel it first"):
            client.delete_dataset(dataset["id"])
        assert client.cancel(job["id"])["state"] == "cancelled"
        assert client.cancel(job["id"])["state"] == "cancelled"
        assert kinds(client, dataset["account"]) == ["open", "reserve", "release"]
        assert client.budget(dataset["account"])["remaining"]["epsilon"] == 1
        with pytest.raises(ApiError) as refused:
            client.result(job["id"])
        assert (refused.value.status, refused.value.code) == (409, "no_result")
        client.delete_dataset(dataset["id"])


def test_what_was_accepted_is_answered_so_after_its_dataset_is_gone(api_only: Installation) -> None:
    """The API plans from what it knows of a dataset; that it is still there, the acceptance itself
    looks."""
    with api_only.client() as client, api_only.http() as http:
        dataset = client.register(bodies.dataset(zones=4))
        body = bodies.job(dataset["id"])

        def post(key: str, body: Any) -> httpx.Response:
            return http.post("/v1/jobs", json=body, headers={"Idempotency-Key": key})

        accepted = post("gone 1", body)
        assert accepted.status_code == 202
        client.cancel(accepted.json()["id"])
        http.delete(f"/v1/datasets/{dataset['id']}").raise_for_status()
        before = kinds(client, dataset["account"])
        again = post("gone 1", body)
        assert (again.status_code, again.json()["id"]) == (202, accepted.json()["id"])
        reused = post("gone 1", bodies.job(dataset["id"], epsilon=0.2))
        assert (reused.status_code, reused.json()["code"]) == (422, "idempotency_key_reused")
        for answer in (post("gone 2", body), http.post("/v1/plans", json=body)):
            assert answer.status_code == 404
            assert answer.json()["errors"][0]["pointer"] == "/problem/dataset"
        # Not one that planning refuses either: the key was used before.
        wrong = post("gone 1", bodies.job(dataset["id"], max_trips_per_person=3))
        assert (wrong.status_code, wrong.json()["code"]) == (422, "idempotency_key_reused")
        assert kinds(client, dataset["account"]) == before


def test_grants_are_entries_with_a_reason(api_only: Installation) -> None:
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())
        client.submit(bodies.job(dataset["id"], 0.4))
        with pytest.raises(ApiError) as refused:
            client.grant(dataset["account"], epsilon=0.3, delta=0, reason="less")
        assert (refused.value.status, refused.value.code) == (409, "cap_below_spent")
        client.grant(dataset["account"], epsilon=0.4, delta=0, reason="no more")
        granted = list(client.entries(dataset["account"]))[-1]
        assert (granted["kind"], granted["reason"], granted["cap"]["epsilon"]) == (
            "grant",
            "no more",
            "400000000",
        )
        with api_only.http(api_only.key_of("analyst")) as http:
            answer = http.post(
                f"/v1/budgets/{dataset['account']}/grants",
                json={"cap": {"epsilon": 9}, "reason": "me"},
            )
        assert answer.status_code == 403


def test_simulation_is_free_and_says_so(service: Installation) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset(mode="simulation"))
        body = {**bodies.job(dataset["id"]), "seed": 7}
        answers = [client.result(client.wait(client.submit(body)["id"])["id"]) for _ in range(2)]
        assert answers[0]["result"] == answers[1]["result"]
        assert answers[0]["certificate"]["guarantee"]["type"] == "none"
        assert kinds(client, dataset["account"]) == ["open"]
        private = client.register(bodies.dataset())
        with pytest.raises(ApiError, match="/seed"):
            client.submit({**bodies.job(private["id"]), "seed": 7})


# The same content ---------------------------------------------------------------------------------


def test_the_same_content_is_the_same_account(api_only: Installation) -> None:
    body = bodies.dataset()
    trips = body["content"]["trips"]
    halves = [{**trip, "count": 50} for trip in trips if trip["period"] == 3]
    rewritten = [trip for trip in reversed(trips) if trip["period"] != 3] + halves + halves
    rewritten.append({"period": 0, "origin": 1, "destination": 2, "count": 0})
    with api_only.client() as client, api_only.http() as http:
        first = http.post("/v1/datasets", json=body)
        again = http.post(
            "/v1/datasets", json={**body, "name": "other", "content": {"trips": rewritten}}
        )
        assert (first.status_code, again.status_code) == (201, 200)
        assert first.json() == again.json()
        for name, value in (
            ("mode", "simulation"),
            ("public", {**body["public"], "period_minutes": 30}),
        ):
            other = http.post("/v1/datasets", json={**body, name: value})
            assert (other.status_code, other.json()["code"]) == (409, "content_known")
        client.delete_dataset(first.json()["id"])
        assert http.get(f"/v1/datasets/{first.json()['id']}").status_code == 404
        back = http.post("/v1/datasets", json=body)
        assert back.status_code == 201
        assert back.json()["account"] == first.json()["account"]
        assert back.json()["id"] != first.json()["id"]


def test_versions_of_one_source_share_an_account(api_only: Installation) -> None:
    with api_only.client() as client:
        first = client.register(bodies.dataset())
        second = client.register({**bodies.dataset(account=first["account"]), "cap": None})
        assert second["account"] == first["account"]
        names = [dataset["id"] for dataset in client.budget(first["account"])["datasets"]]
        assert names == [first["id"], second["id"]]
        with pytest.raises(ApiError, match="/account"):
            client.register({**bodies.dataset(account="acc_0"), "cap": None})
        with pytest.raises(ApiError, match="/cap"):
            client.register(bodies.dataset(account=first["account"]))


def test_the_same_people_come_to_one_account_while_nothing_is_spent(service: Installation) -> None:
    """Who finds out too late that they are in another dataset too: erased and registered again on
    that one's account; not where something was spent, or other data of theirs would be left
    behind."""
    with service.client() as client, service.http() as http:

        def registered(body: dict[str, Any], account: str) -> tuple[int, str]:
            answer = http.post("/v1/datasets", json={**body, "cap": None, "account": account})
            return answer.status_code, answer.json().get("code") or answer.json()["account"]

        first, body = client.register(bodies.dataset()), bodies.dataset()
        second = client.register(body)
        assert registered(body, first["account"]) == (409, "content_known")  # it is there
        client.delete_dataset(second["id"])
        assert registered(body, first["account"]) == (201, first["account"])
        again = client.register(body)  # and there it stays
        assert again["account"] == first["account"]
        client.delete_dataset(again["id"])
        assert registered(body, second["account"]) == (
            409,
            "content_known",
        )  # `first` would be left behind
        assert registered(body, first["account"]) == (201, first["account"])

        spent, other = bodies.dataset(), client.register(bodies.dataset())
        third = client.register(spent)
        client.wait(client.submit(bodies.job(third["id"]))["id"])
        client.delete_dataset(third["id"])
        assert registered(spent, other["account"]) == (409, "content_known")
        assert client.register(spent)["account"] == third["account"]


def test_versions_with_other_neighbours_have_an_account_of_their_own(
    api_only: Installation,
) -> None:
    """Prices of one account add up, which says something of one neighbouring relation only: what is
    epsilon for a trajectory added is up to twice that for one replaced."""

    def walks(*, states: int, **more: Any) -> dict[str, Any]:
        rows = [
            {
                "trajectory": walk,
                "step": 0,
                "state": walk % states,
                "next_state": 0,
                "reward": 0.0,
                "terminal": True,
            }
            for walk in range(4)
        ]
        return {
            "name": "walks",
            "kind": "off_policy_evaluation",
            "public": {
                "unit": "trajectory",
                "states": states,
                "reward_bound": 1,
                "horizon": 5,
                **more,
            },
            "content": {"transitions": rows},
        }

    with api_only.client() as client:
        first = client.register({**walks(states=2), "cap": {"epsilon": 1, "delta": 0}})
        with pytest.raises(ApiError) as refused:
            client.register({**walks(states=3, trajectories=4), "account": first["account"]})
        assert (refused.value.status, refused.value.code) == (409, "unit_differs")
        assert "replaced" in str(refused.value)
        again = client.register({**walks(states=4), "account": first["account"]})
        assert again["account"] == first["account"]
        client.delete_dataset(first["id"])
        client.delete_dataset(again["id"])
        with pytest.raises(ApiError):  # what they have spent is spent for their neighbours
            client.register({**walks(states=3, trajectories=4), "account": first["account"]})


def as_file(trips: list[dict[str, int]], kind: str) -> bytes:
    if kind == "json":
        return json.dumps({"trips": trips}).encode()
    table = pa.Table.from_pylist(trips)
    sink = io.BytesIO()
    if kind == "csv":
        pa_csv.write_csv(table, sink)
    else:
        pq.write_table(table, sink)
    return sink.getvalue()


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_uploads_are_the_same_content(api_only: Installation, kind: str) -> None:
    body = bodies.dataset()
    metadata = {name: value for name, value in body.items() if name != "content"}
    with api_only.client() as client:
        first = client.register(body)
        uploaded = client.upload(
            metadata, io.BytesIO(as_file(body["content"]["trips"], kind)), f"trips.{kind}"
        )
        assert uploaded == first


# Bad input ----------------------------------------------------------------------------------------


def changed(body: Any, path: str, value: Any) -> Any:
    """A copy of `body` with the value at the pointer replaced."""
    copy = json.loads(json.dumps(body))
    *parents, last = [int(part) if part.isdigit() else part for part in path.split("/")[1:]]
    place = copy
    for part in parents:
        place = place[part]
    place[last] = value
    return copy


@pytest.fixture(scope="module")
def known(api_only: Installation) -> Iterator[dict[str, Any]]:
    """A dataset that stays unspent through all bad requests."""
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())
        yield dataset
        assert kinds(client, dataset["account"]) == ["open"]
        assert all(job["dataset"] != dataset["id"] for job in client.jobs(page_size=200)["jobs"])


BAD_JOBS = [
    ("/problem/network/links/2/head", 9, "node 9 of 4 nodes"),
    ("/problem/network/links/2/head", 0, "at least 1: nodes are numbered from 1"),
    ("/problem/network/links/2/head", "two", "integer"),
    ("/problem/network/links/0/tail", 2, "itself"),
    ("/problem/network/links/0/capacity", 0, "greater than 0"),
    ("/problem/network/links/0/capacity", -5, "greater than 0"),
    ("/problem/network/links/1/free_flow_time", -1, "at least 0"),
    ("/problem/network/links/1/speed", 50, "no such field"),
    ("/problem/network/nodes", 2, "3 zones"),
    ("/problem/network/first_through_node", 7, "4 nodes"),
    ("/problem/network/links", [], "no path leads from zone"),
    ("/problem/dataset", "dst_unknown", "no dataset dst_unknown"),
    ("/problem/dataset", "trips", "an id is needed, which begins with dst_"),
    ("/problem/kind", "teleport", "routing"),
    ("/problem/method", "magic", "auto"),
    ("/problem/max_trips_per_person", 3, "not a person"),
    ("/problem/latency", {"type": "quadratic"}, "'affine', 'bpr'"),
    ("/privacy/epsilon", 0, "greater than 0"),
    ("/privacy/epsilon", -0.1, "greater than 0"),
    ("/privacy/epsilon", 1e30, "at most"),
    ("/privacy/epsilon", 1e300, "finite"),
    ("/privacy/epsilon", 1e-300, "at most 9 decimals"),
    ("/privacy/epsilon", "0.1", "in JSON without quotes"),
    ("/privacy/epsilon", True, "in JSON without quotes"),
    ("/privacy/rho", 0, "greater than 0"),
    ("/privacy/preset", "wild", "'strict', 'usual' or 'loose'"),
    ("/privacy", {"epsilon": 1, "preset": "usual"}, "one of epsilon, rho, preset and accuracy"),
    ("/privacy/delta", "automatic", "in JSON without quotes"),
    ("/privacy/accuracy", {"within": "five"}, "a text such as `5%`"),
    ("/privacy/delta", 1, "less than 1"),
    ("/privacy/delta", -1e-9, "at least 0"),
    ("/privacy/delta", 1e-19, "at most 18 decimals"),
    ("/privacy/unit", "person", "unit of this dataset is request"),
    ("/seed", 3, "simulation"),
    ("/extra", 1, "no such field"),
]


@pytest.mark.parametrize("call", ["plans", "jobs"])
@pytest.mark.parametrize(("pointer", "value", "says"), BAD_JOBS)
def test_bad_jobs_name_the_field(
    api_only: Installation, known: dict[str, Any], call: str, pointer: str, value: Any, says: str
) -> None:
    body = changed(bodies.job(known["id"]), pointer, value)
    with api_only.http() as http:
        answer = http.post(
            f"/v1/{call}", json=body, headers={"Idempotency-Key": f"bad {pointer} {value}"}
        )
    assert answer.status_code in (404, 422)
    assert answer.headers["content-type"] == "application/problem+json"
    problem = answer.json()
    assert problem["type"] == f"urn:discreet:problem:{problem['code']}"
    found = {issue["pointer"]: issue["detail"] for issue in problem["errors"]}
    place = pointer.removesuffix("/tail")
    assert any(says in detail for at, detail in found.items() if at.startswith(place)), found


@pytest.mark.parametrize(
    ("epsilon", "says"),
    [
        ("NaN", "finite"),
        ("Infinity", "finite"),
        ("1e999", "finite"),
        ("1e999999999", "finite"),
        ("1e-999999999", "at most 9 decimals"),
        ("0.123456789012345678901234567890", "at most 9 decimals"),
        ("0.1000000000000000000001", "at most 9 decimals"),
    ],
)
def test_privacy_figures_are_read_from_their_text(
    api_only: Installation, known: dict[str, Any], epsilon: str, says: str
) -> None:
    text = json.dumps(bodies.job(known["id"], 0.5)).replace("0.5", epsilon)
    with api_only.http() as http:
        answer = http.post("/v1/jobs", content=text, headers={"Idempotency-Key": f"text {epsilon}"})
        cap = f'{{"scope": "tenant", "cap": {{"epsilon": {epsilon}}}, "reason": "text"}}'
        capped = http.post("/v1/caps", content=cap)
    assert (answer.status_code, capped.status_code) == (422, 422)
    (issue,) = answer.json()["errors"]
    assert issue["pointer"] == "/privacy/epsilon"
    assert says in issue["detail"]
    assert capped.json()["errors"] == [{"pointer": "/cap/epsilon", "detail": issue["detail"]}]


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        (b"[" * 10_000 + b"]" * 10_000, "", "64 levels"),
        (b'{"problem": {"kind": "routing", "kind": "routing"}}', "/problem/kind", "twice"),
        (b'{"problem": ', "", "not JSON"),
        (b"\xff\xfe", "", "UTF-8"),
    ],
)
def test_bodies_that_are_no_strict_json(
    api_only: Installation, known: dict[str, Any], body: bytes, pointer: str, says: str
) -> None:
    with api_only.http() as http:
        answer = http.post("/v1/jobs", content=body, headers={"Idempotency-Key": "unreadable"})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")
    (issue,) = answer.json()["errors"]
    assert issue["pointer"] == pointer
    assert says in issue["detail"]


@pytest.mark.parametrize(
    ("path", "body", "pointer"),
    [
        ("/v1/plans", {"problem": {"kind": "routing", "dataset": "dst_\0"}}, "/problem/dataset"),
        ("/v1/datasets", {"name": "a\0b"}, "/name"),
        ("/v1/caps", {"scope": "principal", "principal": "\ud800"}, "/principal"),
        ("/v1/keys", {"role": "analyst", "principal": "a\0"}, "/principal"),
    ],
)
def test_texts_that_no_database_takes(
    api_only: Installation, path: str, body: dict[str, Any], pointer: str
) -> None:
    with api_only.http() as http:
        answer = http.post(path, content=json.dumps(body))
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")
    assert [issue["pointer"] for issue in answer.json()["errors"]] == [pointer]


@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"Content-Encoding": "gzip"}, "compressed (gzip)"),
        ({"Content-Type": "multipart/form-data; boundary=x"}, "takes JSON"),
    ],
)
def test_bodies_that_are_something_else(
    api_only: Installation, headers: dict[str, str], says: str
) -> None:
    with api_only.http() as http:
        answer = http.post("/v1/plans", content=b"\x1f\x8b", headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_json")
    assert says in answer.json()["detail"]


def test_addresses_and_methods_that_are_not_there(api_only: Installation) -> None:
    with api_only.http() as http:
        for address in ("/v1/nothing", "/v1/plans/", "/v1/jobs/%00"):
            answer = http.post(address, content=b"{}", headers={"Accept": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert "/docs" in answer.json()["detail"]
        answer = http.put("/v1/jobs", content=b"{}")
    assert (answer.status_code, answer.json()["code"]) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"
    assert answer.json()["detail"] == "PUT is not possible here; possible: GET, POST"


def test_events_after_more_than_there_can_be(api_only: Installation) -> None:
    """Of a job that has ended, by a number that no event has: a whole, empty stream."""
    with api_only.client() as client:
        job = client.submit(bodies.job(client.register(bodies.dataset())["id"]))
        client.cancel(job["id"])
    with api_only.http() as http:
        answer = http.get(f"/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": "9" * 30})
    assert (answer.status_code, answer.text) == (200, "")


def test_a_zone_without_a_path_is_named(api_only: Installation, known: dict[str, Any]) -> None:
    body = bodies.job(known["id"])
    links = body["problem"]["network"]["links"]
    body["problem"]["network"]["links"] = [link for link in links if link["head"] != 2]
    with api_only.http() as http:
        answer = http.post("/v1/plans", json=body)
    details = {issue["detail"] for issue in answer.json()["errors"]}
    assert details == {"no path leads from zone 1 to zone 2", "no path leads from zone 3 to zone 2"}


def test_a_body_over_the_limit(api_only: Installation, known: dict[str, Any]) -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(33):
            yield b" " * 1_000_000

    with api_only.http() as http:
        declared = http.post(
            "/v1/jobs", content=b" " * 32_000_001, headers={"Idempotency-Key": "large"}
        )
        chunked = http.post("/v1/plans", content=parts())
    for answer in (declared, chunked):
        assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
        assert "16000000 bytes (job_body_bytes)" in answer.json()["detail"]


BAD_DATASETS = [
    ("/content/trips/4/count", -1, "at least 0"),
    ("/content/trips/4/count", 1.5, "integer"),
    ("/content/trips/4/count", 10**10, "at most"),
    ("/content/trips/4/origin", 4, "must be 1 to 3; found 4"),
    ("/content/trips/4/destination", 0, "must be 1 to 3; found 0"),
    ("/content/trips/4/period", 10, "must be 0 to 9; found 10"),
    ("/content/trips/4/person", "ann", "public.unit is request, so a trip has no `person`"),
    ("/content/trips/4/weight", 1, "no such field"),
    ("/content/trips", "none", "array"),
    ("/public/zones", 0, "at least 1"),
    ("/public/unit", "household", "request"),
    ("/public/period_minutes", "x", "number"),
    ("/cap/epsilon", 0, "greater than 0"),
    ("/cap/delta", 1.0, "less than 1"),
    ("/name", "", "not be empty"),
    ("/kind", "weather", "routing"),
    ("/mode", "test", "private"),
]


@pytest.mark.parametrize(("pointer", "value", "says"), BAD_DATASETS)
def test_bad_datasets_name_the_field(
    api_only: Installation, pointer: str, value: Any, says: str
) -> None:
    with api_only.client() as client, api_only.http() as http:
        before = len(client.budgets())
        answer = http.post("/v1/datasets", json=changed(bodies.dataset(), pointer, value))
        assert len(client.budgets()) == before
    assert answer.status_code == 422
    found = {issue["pointer"]: issue["detail"] for issue in answer.json()["errors"]}
    assert says in found[pointer], found


def upload(http: httpx.Client, content: bytes, filename: str, **values: Any) -> httpx.Response:
    metadata = {
        name: value for name, value in bodies.dataset(**values).items() if name != "content"
    }
    return http.post(
        "/v1/datasets",
        data={"metadata": json.dumps(metadata)},
        files={"content": (filename, content)},
    )


def test_bad_uploads(api_only: Installation) -> None:
    good = bodies.dataset()["content"]["trips"]
    table = pa.Table.from_pylist(good)
    cases = [
        (b"PAR1 but not really", "x.parquet", "/content", "cannot be read as Parquet"),
        (b"", "x.parquet", "/content", "it is empty"),
        (b"", "x.csv", "/content", "it is empty"),
        (as_file(good, "parquet")[:-20], "x.parquet", "/content", "cannot be read as Parquet"),
        (
            as_parquet(table.rename_columns(["period", "origin", "target", "count"])),
            "x.parquet",
            "/content",
            "missing",
        ),
        (
            as_parquet(table.append_column("weight", table["count"])),
            "x.parquet",
            "/content",
            "not known",
        ),
        (
            as_parquet(table.set_column(3, "count", pa.array(["x"] * len(good)))),
            "x.parquet",
            "/content/0/count",
            "integers",
        ),
        (as_parquet(with_value(table, None)), "x.parquet", "/content/5/count", "missing"),
        (
            as_parquet(with_value(table, 1.5)),
            "x.parquet",
            "/content/5/count",
            "integer is needed; found 1.5",
        ),
        (as_parquet(with_value(table, -2)), "x.parquet", "/content/5/count", "found -2"),
        (as_parquet(with_value(table, float("nan"))), "x.parquet", "/content/5/count", "found nan"),
        (b"period,origin\n1,2,3\n", "x.csv", "/content", "cannot be read as CSV"),
        (b"period,origin,destination,count\n", "x.csv", "/content", "'period' is empty"),
        (b"period,origin,destination,count\n0,1,2,\n", "x.csv", "/content", "'count' is empty"),
        (
            b"period,origin,destination,count\n0,1,2,3\n0,1,2,\n",
            "x.csv",
            "/content/1/count",
            "missing",
        ),
        (
            b"period,origin,destination,count\n0,1,2,3\n0,1,2,NaN\n",
            "x.csv",
            "/content/1/count",
            "found nan",
        ),
        (
            b"period,origin,destination,count,count\n0,1,2,5,5\n",
            "x.csv",
            "/content",
            "'count' appears twice",
        ),
        (b'{"trips": [{"period": 0}]}', "x.json", "/content/trips/0/origin", "needed"),
    ]
    with api_only.http() as http:
        for content, filename, pointer, says in cases:
            answer = upload(http, content, filename)
            assert answer.status_code == 422, (filename, says, answer.text)
            found = [
                issue["detail"] for issue in answer.json()["errors"] if issue["pointer"] == pointer
            ]
            assert any(says in detail for detail in found), answer.text
        metadata = {name: value for name, value in bodies.dataset().items() if name != "content"}
        no_file = http.post("/v1/datasets", files={"metadata": (None, json.dumps(metadata))})
        assert {issue["pointer"] for issue in no_file.json()["errors"]} == {"/content"}
        broken = http.post(
            "/v1/datasets", content=b"--x", headers={"Content-Type": "multipart/form-data"}
        )
        assert (broken.status_code, broken.json()["code"]) == (400, "invalid_multipart")
        form = {"Content-Type": "multipart/form-data; boundary=b"}
        for head in (
            b"x-one: " + b"a" * 5000 + b"\r\n",
            b"".join(b"x-%d: a\r\n" % n for n in range(20)),
        ):
            body = b"--b\r\n" + head + b"\r\n\r\n--b--\r\n"
            long = http.post("/v1/datasets", content=body, headers=form)
            assert (long.status_code, long.json()["code"]) == (400, "invalid_multipart"), long.text


def as_parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def with_value(table: pa.Table, value: Any) -> pa.Table:
    counts = table["count"].to_pylist()
    counts[5] = value
    return table.set_column(3, "count", pa.array(counts))


def test_other_tenants_objects_do_not_exist(api_only: Installation, known: dict[str, Any]) -> None:
    with api_only.client(api_only.operator_key) as operator:
        made = operator.create_tenant("neighbours")
        with pytest.raises(ApiError) as unknown:
            operator.create_key(role="owner", principal="owner", tenant="ten_nobody")
        assert unknown.value.detail == "there is no tenant with the name or id ten_nobody"
        by_name = operator.create_key(role="owner", principal="owner", tenant="neighbours")
    assert by_name["tenant"] == made["id"]
    stranger = api_only.key_of("owner", made["id"])
    with api_only.client() as client, api_only.http(stranger) as http:
        queued = client.submit(bodies.job(client.register(bodies.dataset())["id"]))
        assert http.get("/v1/datasets").json()["datasets"] == []
        assert http.get("/v1/jobs").json()["jobs"] == []
        assert http.get("/v1/budgets").json()["budgets"] == []
        for method, path in (
            ("GET", f"/v1/datasets/{known['id']}"),
            ("DELETE", f"/v1/datasets/{known['id']}"),
            ("GET", f"/v1/budgets/{known['account']}"),
            ("GET", f"/v1/budgets/{known['account']}/entries"),
            ("GET", f"/v1/jobs/{queued['id']}"),
            ("GET", f"/v1/jobs/{queued['id']}/result"),
            ("GET", f"/v1/jobs/{queued['id']}/events"),
            ("POST", f"/v1/jobs/{queued['id']}/cancel"),
        ):
            assert http.request(method, path).status_code == 404, path
        answer = http.post(
            "/v1/jobs", json=bodies.job(known["id"]), headers={"Idempotency-Key": "mine"}
        )
        assert answer.status_code == 404
        assert answer.json()["errors"][0]["pointer"] == "/problem/dataset"


def test_keys_and_roles(api_only: Installation) -> None:
    with api_only.http("dsc_nonsense") as http:
        assert http.get("/v1/jobs").status_code == 401
        assert http.get("/v1/jobs").headers["www-authenticate"] == "Bearer"
    auditor = api_only.key_of("auditor")
    with api_only.http(auditor) as http:
        assert http.get("/v1/budgets").status_code == 200
        assert http.post("/v1/plans", json=bodies.job("dst_x")).status_code == 403
        assert http.post("/v1/datasets", json=bodies.dataset()).status_code == 403
        assert http.post("/v1/tenants", json={"name": "mine"}).status_code == 403
    with api_only.client() as owner:
        made = owner.create_key(role="analyst", principal="ann")
        with api_only.http(made["key"]) as http:
            assert http.get("/v1/jobs").status_code == 200
            owner.revoke_key(made["id"])
            assert http.get("/v1/jobs").status_code == 401
        with pytest.raises(ApiError) as refused:
            owner.create_key(role="operator", principal="me")
        assert refused.value.status == 403


def test_pages_follow_each_other(api_only: Installation) -> None:
    with api_only.client() as client:
        dataset = client.register(bodies.dataset())
        made = [client.submit(bodies.job(dataset["id"], 0.001))["id"] for _ in range(5)]
        listed: list[str] = []
        token: str | None = None
        while True:
            page = client.jobs(page_size=2, **({"page_token": token} if token else {}))
            listed += [job["id"] for job in page["jobs"]]
            token = page["next_page_token"]
            if token is None:
                break
        assert len(listed) == len(set(listed))
        assert [job for job in listed if job in made] == made[::-1]
    with api_only.http() as http:
        for call in ("datasets", "jobs", f"budgets/{dataset['account']}/entries"):
            answer = http.get(f"/v1/{call}", params={"page_token": "!"})
            assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (
                422,
                "/query/page_token",
            )


def test_contract_pages_answer(api_only: Installation) -> None:
    with api_only.http() as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        assert http.get("/openapi.json").json()["openapi"].startswith("3.1")
        docs = http.get("/docs").text
        assert http.get("/").headers["location"] == "/login"
        assert http.get("/metrics").status_code == 404, "metrics have a port of their own"
        assert "discreet_http_request_seconds" in api_only.metrics()
        assert http.get("/v1/nothing").json()["code"] == "not_found"
        assert http.put("/v1/jobs").json()["code"] == "method_not_allowed"
    assert 'id="submit_job"' in docs
    assert "Successful Response" not in docs
    assert "`" not in docs.partition("<h2>Schemas")[0]
    links, places = (set(re.findall(rf'{what}schema-(\w+)"', docs)) for what in ('href="#', 'id="'))
    assert len(links) > 50
    assert links <= places
    calls = {html.partition('"')[0]: html for html in docs.split('<details id="')[1:]}
    assert {name for name, html in calls.items() if "Needs no API key" in html} == {
        "check_health",
        "check_readiness",
        "get_log_checkpoint",
        "get_log_tile",
    }


# Faults -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def short_leases(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    """An API whose workers come and go with each test, since another API is seconds of processor
    time."""
    state = tmp_path_factory.mktemp("faults")
    with installation(postgres, template, state, workers=0, lease_seconds=2.0) as running:
        yield running


@pytest.fixture
def running(short_leases: Installation) -> Iterator[Installation]:
    yield short_leases
    short_leases.stop_workers()


def worker_with(running: Installation, **environment: str) -> Process:
    running.extra = environment
    try:
        return running.start_worker()
    finally:
        running.extra = {}


def die_at(running: Installation, point: str) -> Process:
    """A worker that dies when it comes to this point of its work."""
    return worker_with(running, DISCREET_FAULTS=f"{point}=1", DISCREET_FAULTS_SWITCH=faults.SWITCH)


def test_a_worker_killed_in_the_child_phase_is_one_result_and_one_charge(
    running: Installation,
) -> None:
    with running.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        assert die_at(running, "runner.released").wait() == -signal.SIGKILL
        assert client.job(job["id"])["state"] == "running"
        running.start_worker()
        assert client.wait(job["id"])["state"] == "succeeded"
        assert client.result(job["id"])["certificate"]["guarantee"]["epsilon"] == 0.1
        assert kinds(client, dataset["account"]) == ["open", "reserve", "data_touched", "commit"]
        assert client.budget(dataset["account"])["spent"]["epsilon"] == 0.1


@pytest.mark.long
def test_a_worker_killed_while_a_job_is_asked_again_charges_nothing(running: Installation) -> None:
    with running.client() as client:
        dataset = client.register(bodies.dataset())
        first = client.submit(bodies.job(dataset["id"]))
        worker = running.start_worker()
        assert client.wait(first["id"])["state"] == "succeeded"
        worker.kill()
        before = list(client.entries(dataset["account"]))
        asked = bodies.job("", release=first["id"], objective="user_equilibrium")["problem"]
        job = client.submit(
            {"problem": {name: value for name, value in asked.items() if name != "dataset"}}
        )
        for point in ("runner.finished", "publish.written"):
            assert die_at(running, point).wait() == -signal.SIGKILL
        running.start_worker()
        assert client.wait(job["id"])["state"] == "succeeded"
        assert client.result(job["id"])["certificate"]["guarantee"]["type"] == "post_processing"
        assert list(client.entries(dataset["account"])) == before


def test_a_worker_that_wakes_up_too_late_publishes_nothing(running: Installation) -> None:
    with running.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        zombie = running.start_worker()
        eventually(
            lambda: "data_touched" in kinds(client, dataset["account"]),
            "the first worker touches data",
        )
        zombie.send_signal(signal.SIGSTOP)
        running.start_worker()
        assert client.wait(job["id"])["state"] == "succeeded"
        answer = client.result(job["id"])
        zombie.send_signal(signal.SIGCONT)
        follow = client.register(bodies.dataset())
        client.wait(client.submit(bodies.job(follow["id"]))["id"])
        assert client.result(job["id"]) == answer
        assert kinds(client, dataset["account"]) == ["open", "reserve", "data_touched", "commit"]


def test_cancelling_after_data_were_touched_is_charged(running: Installation) -> None:
    with running.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))
        assert die_at(running, "touch.committed").wait() == -signal.SIGKILL
        assert kinds(client, dataset["account"])[-1] == "data_touched"
        # Its lease holds for two seconds more: by then a cancellation is noted, afterwards it is
        # done at once.
        answer = client.cancel(job["id"])
        assert (answer["charge"], answer["state"]) in (("full", "running"), ("full", "cancelled"))
        running.start_worker()
        assert client.wait(job["id"])["state"] == "cancelled"
        assert kinds(client, dataset["account"]) == ["open", "reserve", "data_touched", "commit"]


def test_a_child_over_its_limits_fails_the_job_and_charges_it(running: Installation) -> None:
    with running.client() as client:
        # The release is given the time of its plan all the same; what follows it is not.
        worker_with(running, DISCREET_JOB_WALL_SECONDS="0.001")
        dataset = client.register(bodies.dataset())
        ended = client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        assert ended["state"] == "failed"
        assert ended["error"]["code"] == "result_wall_limit"
        assert kinds(client, dataset["account"]) == ["open", "reserve", "data_touched", "commit"]


def test_a_stopped_worker_gives_its_jobs_back(running: Installation) -> None:
    with running.client() as client:
        first = worker_with(running, DISCREET_LEASE_SECONDS="600")
        dataset = client.register(bodies.dataset(epsilon=10))
        jobs = [client.submit(bodies.job(dataset["id"], 0.01))["id"] for _ in range(6)]
        eventually(lambda: "data_touched" in kinds(client, dataset["account"]), "the worker began")
        first.send_signal(signal.SIGTERM)
        assert first.wait(timeout=DEADLINE_SECONDS) == 0
        worker_with(running, DISCREET_LEASE_SECONDS="600")
        for job in jobs:
            assert client.wait(job)["state"] == "succeeded"
        found = kinds(client, dataset["account"])
        assert (found.count("reserve"), found.count("commit")) == (6, 6)


def test_a_long_name_of_no_dataset_is_not_repeated(api_only: Installation) -> None:
    body = bodies.job("x" * 100_000)
    with api_only.http() as http:
        for path, headers in (("/v1/plans", {}), ("/v1/jobs", {"Idempotency-Key": "long"})):
            answer = http.post(path, json=body, headers=headers)
            assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
            assert len(answer.content) < 1000
