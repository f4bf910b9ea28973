"""What problems name is opened by few at once, however many ask: a stored network takes hundreds of
megabytes."""

from __future__ import annotations

import threading
import time
from typing import Any

import anyio
import pytest

from discreet.problems import KINDS
from discreet.problems.numbers import Privacy
from discreet.usecases import planning
from discreet.usecases.planning import PLANS_AT_ONCE, Planner


def test_many_small_plans_of_a_large_network(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, most, counting = 0, 0, threading.Lock()

    async def filled(database: Any, tenant: str, problem: Any) -> Any:
        nonlocal opened, most
        with counting:
            opened, most = opened + 1, max(most, opened + 1)
        return problem

    def make(*_: Any) -> Any:
        nonlocal opened
        time.sleep(0.01)
        with counting:
            opened -= 1
        return planning.Texts("", None, "", "", "", "", None)  # type: ignore[arg-type]

    monkeypatch.setattr(planning.naming, "filled", filled)
    monkeypatch.setattr(planning, "_make", make)
    problem = KINDS["coupled_qp"].model_validate(KINDS["coupled_qp"].example()["problem"])
    nobody: Any = type("Nobody", (), {"tenant_id": "t"})

    async def ask() -> None:
        planner = Planner()
        async with anyio.create_task_group() as group:
            for number in range(1, 30):
                asked = Privacy.model_validate({"epsilon": number, "delta": 0})
                group.start_soon(planner._made, nobody, nobody, problem, None, asked, True)

    anyio.run(ask)
    assert (opened, most) == (0, PLANS_AT_ONCE)
