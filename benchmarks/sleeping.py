"""A worker whose children do nothing for a given time: `python -m benchmarks.sleeping SECONDS`.

Claims, leases, ledger, queue and publishing are the real ones. What a child would send is worked
out once, from the kind's example; so what is measured is what the service itself can pass on,
whatever the solvers cost.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from discreet.isolation.children import Limits, OnProgress, Output
from discreet.privacy.noise import Noise
from discreet.problems import KINDS
from discreet.problems.base import read_example
from discreet.problems.contents import pack
from discreet.settings import Settings
from discreet.worker import main


class Sleeping:
    """Stands where the zygote stands."""

    seconds = 0.0

    def __init__(self) -> None:
        self._outputs: dict[tuple[str, str], bytes] = {}

    async def start(self) -> None:
        for name in ("routing",):
            problem, dataset, budget = read_example(KINDS[name])
            assert dataset is not None
            plan = problem.plan(dataset.public, budget)
            released = problem.release(dataset.public, plan, dataset.rows(), Noise.secure())
            result = problem.finish(dataset.public, plan, released, lambda step, total: None)
            self._outputs[name, "release"] = pack(released)
            self._outputs[name, "finish"] = json.dumps(result.to_json()).encode()

    async def stop(self) -> None:
        pass

    async def run(
        self,
        header: dict[str, Any],
        payload: bytes,
        limits: Limits,
        on_progress: OnProgress | None = None,
    ) -> Output:
        if header["step"] == "finish":
            await asyncio.sleep(self.seconds)
        return Output(self._outputs[header["kind"], header["step"]])


if __name__ == "__main__":
    Sleeping.seconds = float(sys.argv[1])
    main.Zygote = Sleeping  # type: ignore[assignment, attr-defined]
    asyncio.run(main.serve(Settings()))
