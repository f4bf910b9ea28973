"""Contents that cannot be right are refused to their owner, whatever way they come, before anything
is opened or charged; and taken if the owner insists."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet_client.errors import InvalidInput
from tests.conftest import Installation

PUBLIC = {
    "unit": "trajectory",
    "states": 1,
    "reward_bound": 1,
    "least_reward": 0,
    "horizon": 1,
    "off_policy": True,
}


def patients(first: int, people: int = 300) -> list[dict[str, Any]]:
    """Four of five get B, and the column holds P(A) = .2 in all rows: the mean of B's weights is
    4."""
    return [
        {
            "trajectory": first + number,
            "step": 0,
            "reward": (number % 7) / 7 + first / 1e9,
            "terminal": True,
            "behaviour": 0.2,
            "target": float(number % 5 > 0),
        }
        for number in range(people)
    ]


def body(first: int, **more: Any) -> dict[str, Any]:
    fields = {"name": f"patients {first}", "kind": "off_policy_evaluation", "public": PUBLIC}
    return {**fields, "cap": {"epsilon": 1, "delta": 0}, **more}


def test_wrong_propensities_open_no_account_whatever_way_they_come(stored: Installation) -> None:
    with stored.client() as client:
        before = client.budgets()
        rows = patients(1000)
        sink = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rows), sink)
        sink.seek(0)
        for come in (
            lambda: client.register(body(1, content={"transitions": rows})),
            lambda: client.upload(body(1), sink, "patients.parquet"),
        ):
            with pytest.raises(InvalidInput) as refused:
                come()
            assert "/content/behaviour" in str(refused.value)
            assert "found 4 in 300 rows" in str(refused.value)
        assert client.budgets() == before
        assert not any(one["name"] == "patients 1" for one in client.datasets())
        made = client.register(body(1, content={"transitions": rows}, accept_doubts=True))
        assert "doubt" not in json.dumps(client.dataset(made["id"]))  # analysts see the same


def test_blocks_of_a_source_are_judged_too(stored: Installation) -> None:
    with stored.client() as client:
        source = client.sources.create(
            {
                "name": "doubted patients",
                "kind": "off_policy_evaluation",
                "public": PUBLIC,
                "by": "label",
                "cap": {"epsilon": 1, "delta": 0},
            }
        )
        content = {"transitions": patients(5000)}
        with pytest.raises(InvalidInput, match="found 4 in 300 rows"):
            client.sources.add(source["id"], "north", content)
        assert not client.sources.get(source["id"])["blocks"]
        client.sources.add(source["id"], "north", content, accept_doubts=True)
        assert len(client.sources.get(source["id"])["blocks"]) == 1
