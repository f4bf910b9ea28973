"""Plans are kept: the same request again costs one statement and no planning; nothing else is taken
for the same."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import event

from discreet.errors import NotFound
from discreet.installation.local import whole_registration
from discreet.problems import DATASETS
from discreet.problems.numbers import Privacy
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet.storage.tenants import Principal
from discreet.usecases import access, datasets, jobs
from discreet.usecases.services import Services, open_services


def test_the_same_request_again(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[tuple[str, int]] = []
    plan = Routing.plan

    def planned(self: Routing, public: Any, budget: Any) -> Any:
        plans.append((self.dataset, budget.epsilon))
        return plan(self, public, budget)

    monkeypatch.setattr(Routing, "plan", planned)

    async def submit(
        services: Services, owner: Principal, problem: Routing, key: str, epsilon: str = "0.1"
    ) -> Any:
        return await jobs.submit(
            services,
            owner,
            idempotency_key=key,
            request=key.encode(),
            problem=problem,
            privacy=Privacy(epsilon=Decimal(epsilon)),
            seed=None,
        )

    async def go() -> None:
        body = Routing.example()["problem"]
        spec = DATASETS["routing"].model_validate(body.pop("dataset"))
        async with open_services(settings) as services:
            owner = await access.local_owner(services)
            row, _ = await datasets.register(services, owner, whole_registration(spec))
            problem = Routing.model_validate({**body, "dataset": row["id"]})
            price = await jobs.price(
                services, owner, problem, Privacy(epsilon=Decimal("0.1")), None
            )
            assert price["admitted"]
            seen: list[str] = []
            event.listen(
                services.database.engine.sync_engine,
                "before_cursor_execute",
                lambda *call: seen.append(call[2]),
            )
            first = await submit(services, owner, problem, "first")
            second = await submit(
                services, owner, Routing.model_validate(problem.model_dump()), "second"
            )
            assert first["id"] != second["id"]
            assert plans == [(row["id"], 10**8)]  # once, for the price
            assert [one for one in seen if "pg_notify" not in one] == [
                one for one in seen if "accept_jobs" in one
            ]
            await submit(services, owner, problem, "dearer", "0.2")
            slower = problem.model_copy(update={"relative_gap": 1e-6})
            await submit(services, owner, slower, "other")
            assert plans == [(row["id"], 10**8), (row["id"], 2 * 10**8), (row["id"], 10**8)]
            stranger = Principal("ten_other", "owner", "owner", "key_other")
            with pytest.raises(NotFound):
                await submit(services, stranger, problem, "theirs")

    asyncio.run(go())
