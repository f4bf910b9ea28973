"""What was said to whoever cancels holds, wherever the worker dies and whoever goes on."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter

import pytest

from discreet.observability import faults
from discreet.settings import Settings
from discreet.storage import ledger
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases import jobs, running
from discreet.usecases.jobs import Cancellation
from discreet.usecases.running import CancelRequested
from discreet.usecases.services import Services
from tests.reliability.test_forged_rows import attack, submit
from tests.reliability.test_swapped_results import RESULT, change

POINTS = (
    "claim.committed",
    "touch.written",
    "touch.committed",
    "release.written",
    "release.committed",
    "publish.settled",
    "publish.written",
    "publish.ended",
    "publish.committed",
    "nowhere",
)


class Died(BaseException):
    """The worker is gone at this line; an open transaction goes with its connection."""


async def work(services: Services, job: str) -> None:
    """A worker from its claim to the end of the job."""
    held = await running.claim(services, job)
    if held is None:
        return
    try:
        if held.released is None:
            await running.touch(services, held)
            await running.keep_release(services, held, b"released")
        await running.publish(services, held, RESULT, {})
    except CancelRequested:
        await running.cancel(services, held)


async def race(
    services: Services,
    owner: Principal,
    job: str,
    draws: random.Random,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, str]:
    """A worker that dies at some line beside cancellations that come at any time; the last word of
    these."""
    death = draws.choice(POINTS)
    said: list[Cancellation] = []

    def point(name: str) -> None:
        if name == death:
            raise Died

    async def cancel() -> None:
        for _ in range(2):
            await asyncio.sleep(draws.random() * 0.06)
            with contextlib.suppress(jobs.Conflict):
                said.append((await jobs.cancel(services, owner, job))[1])

    monkeypatch.setattr(faults, "point", point)
    await asyncio.gather(work(services, job), cancel(), return_exceptions=True)
    monkeypatch.setattr(faults, "point", lambda _: None)
    return death, " then ".join(f"{one.cancel} {one.charge}" for one in said)


def test_promises_hold_wherever_a_worker_dies(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    draws = random.Random(15)
    seen: Counter[str] = Counter()

    async def go(services: Services, owner: Principal, dataset: str, job: str) -> None:
        await running.claim(services, job)  # the one that comes with the installation
        for _ in range(60):
            one = await submit(services, owner, dataset, privacy={"epsilon": 0.001})
            death, said = await race(services, owner, one, draws, monkeypatch)
            if (await jobs.find(services, owner, one))["state"] == "running":
                change(
                    settings,
                    "UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = %s",
                    one,
                )
            await work(services, one)
            row = await jobs.find(services, owner, one)
            async with services.database.transaction(SYSTEM) as connection:
                entries = [entry["kind"] for entry in await ledger.reservation(connection, one)]
            told = f"{one}: died at {death}; was told {said!r}; {row['state']}; {entries}"
            charged = entries == ["reserve", "data_touched", "commit"]
            assert charged or entries == ["reserve", "release"], told
            words = said.split(" then ") if said else []
            for word in words:
                cancel, charge = word.split()
                assert charged == (charge == "full"), told
                assert row["state"] == ("succeeded" if cancel == "too_late" else "cancelled"), told
            if not words:
                assert row["state"] == "succeeded", told
            seen.update(words)

    attack(settings, go)
    assert len(seen) >= 4, seen
