"""The Python SDK without a service: tables as they are sent, plans and budgets as notebooks show
them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from discreet_client import AsyncClient, Client

PUBLIC = {"unit": "request", "zones": 3, "periods": 2, "period_minutes": 60}
OWN = {"hour": [0, 1], "from": [1, 2], "to": [2, 3], "cars": [31, 7]}
COLUMNS = {"period": "hour", "origin": "from", "destination": "to", "count": "cars"}
SPENT = {"epsilon": 0.25, "delta": 1e-5}
PLAN = {
    "plan": {
        "neighbours": "one <trip>",
        "noise": [{"quantity": "counts", "distribution": "laplace", "standard_deviation": 5.65}],
        "advice": ["flows within 5 %"],
    },
    "price": SPENT,
    "admitted": True,
}
BUDGET = {
    "id": "acc_1",
    "subject": "x",
    "datasets": [{"name": "<b>Monday"}],
    "spent": SPENT,
    "reserved": {"epsilon": 0, "delta": 0},
    "remaining": {"epsilon": 0.75, "delta": 0},
    "cap": {"epsilon": 1, "delta": 1e-5},
}


class Service:
    """Answers what the contract says, and keeps what it was sent."""

    def __init__(self, plan: dict[str, Any] = PLAN) -> None:
        self.plan = plan
        self.sent: list[bytes] = []
        self.transport = httpx.MockTransport(self.answer)

    def answer(self, request: httpx.Request) -> httpx.Response:
        call = f"{request.method} {request.url.path}"
        if call == "POST /v1/datasets":
            boundary = request.headers["Content-Type"].partition("boundary=")[2]
            self.sent.append(request.read().replace(boundary.encode(), b"boundary"))
        answers: dict[str, Any] = {
            "GET /openapi.json": json.loads(
                (Path(__file__).parents[2] / "openapi" / "openapi.json").read_text()
            ),
            "POST /v1/datasets": {"id": "dst_1"},
            "GET /v1/datasets": {"datasets": [{"id": "dst_1"}], "next_page_token": None},
            "POST /v1/plans": self.plan,
            "GET /v1/budgets": {"budgets": [BUDGET]},
            "GET /v1/budgets/acc_1": BUDGET,
        }
        return httpx.Response(200, json=answers[call])

    def client(self) -> Client:
        return Client("http://service", "dsc_key", transport=self.transport)


def test_a_table_is_added_as_it_is(tmp_path: Path) -> None:
    """A table in memory is sent as Parquet, a file as it is; what its columns are called is said
    beside it."""
    service = Service()
    plain = dict(zip(COLUMNS, OWN.values(), strict=True))
    semicolons = tmp_path / "trips.csv"
    semicolons.write_text("cars;hour;from;to\n31;0;1;2\n7;1;2;3\n")
    with service.client() as client:
        client.register("routing", PUBLIC, plain, cap=1, name="Monday", columns={})
        client.datasets.add(
            OWN, kind="routing", public=PUBLIC, cap=1, name="Monday", columns=COLUMNS
        )
        client.datasets.add(
            semicolons, kind="routing", public=PUBLIC, cap=1, name="Monday", columns=COLUMNS
        )
        client.datasets.add(semicolons, kind="routing", public=PUBLIC, cap=1, columns=COLUMNS)
        assert [one["id"] for one in client.datasets()] == ["dst_1"]

    async def alike() -> list[str]:
        async with AsyncClient("http://service", "dsc_key", transport=service.transport) as client:
            await client.datasets.add(
                OWN, kind="routing", public=PUBLIC, cap=1, name="Monday", columns=COLUMNS
            )
            return [one["id"] async for one in client.datasets()]

    assert asyncio.run(alike()) == ["dst_1"]
    first, mapped, file, unnamed, awaited = service.sent
    assert b'"name":"Monday"' in first
    assert b'"columns":{}' in first
    assert mapped == awaited
    assert b"PAR1" in mapped
    assert semicolons.read_bytes() in file
    for name in COLUMNS.values():
        assert f'"{name}"'.encode() in mapped
    assert b'"name":"trips.csv"' in unnamed


@pytest.mark.parametrize(
    ("more", "verdict"),
    [
        ({}, "would be admitted"),
        ({"admitted": False}, "would be refused"),
        (
            {"admitted": False, "binding": {"largest": {"epsilon": 0.1, "delta": 0}}},
            "that passes is epsilon 0.1",
        ),
        ({"reusable": ["job_7"]}, "ask_again"),
    ],
)
def test_a_plan_in_a_notebook(more: dict[str, Any], verdict: str) -> None:
    with Service({**PLAN, **more}).client() as client:
        plan = client.plan({"kind": "routing"}, epsilon=0.25)
    assert plan == {**PLAN, **more}
    shown = plan._repr_html_()  # type: ignore[attr-defined]
    assert verdict in shown
    assert ("would be admitted" in shown) == plan["admitted"]
    assert "<th>price</th><td>epsilon 0.25, delta 1e-05</td>" in shown
    assert "<th>noise on counts</th><td>laplace, standard deviation 5.65</td>" in shown
    assert "one &lt;trip&gt;" in shown
    assert "flows within 5 %" in shown


def test_budgets_in_a_notebook() -> None:
    with Service().client() as client:
        one, several = client.budget("acc_1"), client.budgets()
    assert (one, several) == (BUDGET, [BUDGET])
    row = "<th>&lt;b&gt;Monday</th><td>epsilon 0.25, delta 1e-05</td>"
    for shown in (one._repr_html_(), several._repr_html_()):  # type: ignore[attr-defined]
        assert row in shown
        assert "<td>epsilon 0.75, delta 0</td>" in shown
