"""Every kind over HTTP: its example runs, in private and in simulation; uploads; bad input charges
nothing."""

from __future__ import annotations

import copy
import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.ledger.certificates import is_signed
from discreet.problems import DATASETS, KINDS
from discreet.problems.results import properties_of
from discreet_client.client import ApiError, Client
from tests.conftest import Installation


def example(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kind's example: the dataset, and the job body to be given its id."""
    body = copy.deepcopy(KINDS[kind].example())
    return body["problem"].pop("dataset"), body


def run(
    client: Client, dataset: dict[str, Any], body: dict[str, Any], **extra: Any
) -> dict[str, Any]:
    registered = client.register(dataset)
    job = client.submit(
        {**body, "problem": {**body["problem"], "dataset": registered["id"]}, **extra}
    )
    ended = client.wait(job["id"])
    assert ended["state"] == "succeeded", ended
    return client.result(job["id"])


@pytest.mark.parametrize("kind", sorted(DATASETS))
def test_the_example_runs_over_http(service: Installation, kind: str) -> None:
    dataset, body = example(kind)
    with service.client() as client:
        answer = run(client, dataset, body)
        certificate = answer["certificate"]
        assert is_signed(certificate)
        assert certificate["guarantee"]["type"] in ("pure_dp", "approximate_dp")
        assert certificate["guarantee"]["epsilon"] <= body["privacy"]["epsilon"]
        assert client.verify_certificate(certificate)["valid"]
        account = certificate["ledger_entry"][0]["account"]
        assert client.budget(account)["spent"]["epsilon"] == certificate["guarantee"]["epsilon"]
        told = answer["result"].keys() - {
            "states"
        }  # what the public part and the request say of them
        assert not any(name.startswith("true_") or "state" in name for name in told)


@pytest.mark.parametrize("kind", sorted(DATASETS))
def test_a_simulation_repeats_with_its_seed_and_costs_nothing(
    service: Installation, kind: str
) -> None:
    dataset, body = example(kind)
    with service.client() as client:
        # Other content than the private example's, which is registered under another mode.
        dataset = {**dataset, "mode": "simulation", "name": f"simulated {kind}"}
        KINDS[kind].vary(dataset["content"], 900)
        first = run(client, dataset, body, seed=5)
        second = run(client, dataset, body, seed=5)
        assert first["result"] == second["result"]
        assert first["certificate"]["guarantee"]["type"] == "none"
        assert first["certificate"]["ledger_entry"] == []
        said = properties_of(KINDS[kind].Fields)
        assert {name for name in said if "for simulations" in said[name]["description"]} <= first[
            "result"
        ].keys()


def test_parquet_and_json_are_the_same_dataset(service: Installation) -> None:
    for kind, table in (
        ("dr_ensemble", trajectories_table),
        ("off_policy_evaluation", pa.Table.from_pylist),
    ):
        dataset, _ = example(kind)
        (rows,) = dataset["content"].values()
        file = io.BytesIO()
        pq.write_table(table(rows), file)
        file.seek(0)
        with service.client() as client:
            first = client.register(dataset)
            metadata = {name: value for name, value in dataset.items() if name != "content"}
            assert client.upload(metadata, file, "content.parquet")["id"] == first["id"]


def trajectories_table(trajectories: list[list[int]]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"participant": name, "step": step, "state": state}
            for name, each in enumerate(trajectories)
            for step, state in enumerate(each)
        ]
    )


def test_off_policy_columns_show_in_the_public_part(service: Installation) -> None:
    dataset, body = example("off_policy_evaluation")
    for number, row in enumerate(dataset["content"]["transitions"]):
        row |= {"behaviour": 0.5, "target": (0.25, 0.75)[number % 2]}
    with service.client() as client:
        registered = client.register({**dataset, "name": "off policy"})
        assert registered["public"]["off_policy"] is True
        asked = {**body["problem"], "dataset": registered["id"], "method": "dp_lsw"}
        with pytest.raises(ApiError) as refused:
            client.submit({"problem": asked, "privacy": {"epsilon": 1, "delta": 1e-5}})
        assert refused.value.problem["errors"][0]["pointer"] == "/problem/method"
        assert [entry["kind"] for entry in client.entries(registered["account"])] == ["open"]


BAD: list[tuple[str, list[Any], Any, str]] = [
    ("dr_ensemble", ["content", "trajectories", 3, 2], 3, "/content/trajectories/3/2"),
    ("dr_ensemble", ["content", "trajectories", 3], [], "/content/trajectories/3"),
    ("dr_ensemble", ["public", "participants"], 79, "/content/trajectories"),
    ("dr_ensemble", ["public", "min_probability"], 0.5, "/public/min_probability"),
    (
        "off_policy_evaluation",
        ["content", "transitions", 2, "reward"],
        7,
        "/content/transitions/2/reward",
    ),
    (
        "off_policy_evaluation",
        ["content", "transitions", 2, "state"],
        -1,
        "/content/transitions/2/state",
    ),
    (
        "off_policy_evaluation",
        ["content", "transitions", 2, "behaviour"],
        0.5,
        "/content/transitions/0/behaviour",
    ),
    ("off_policy_evaluation", ["public", "states"], None, "/public/states"),
    ("off_policy_evaluation", ["kind"], "no such kind", "/kind"),
    ("multi_agent", ["content", "objectives", "left"], "-(left^2)", "/content/objectives/left"),
    ("multi_agent", ["public", "agents", 0, "upper"], None, "/public/agents/0/upper"),
]


@pytest.mark.parametrize(("kind", "path", "value", "pointer"), BAD, ids=str)
def test_bad_content_is_refused_by_place(
    service: Installation, kind: str, path: list[Any], value: Any, pointer: str
) -> None:
    dataset, _ = example(kind)
    here: Any = dataset
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    with service.http() as http:
        answer = http.post("/v1/datasets", json=dataset)
        assert answer.status_code == 422, answer.text
        assert pointer in {issue["pointer"] for issue in answer.json()["errors"]}, answer.text
