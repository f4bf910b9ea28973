"""What the walls around a child cost: `python .ci/measure_walls.py [TIMES]`.

Two zygotes with everything loaded, one with all walls and one with namespaces and the change of
user alone; children start, fail and end on both in turns. Prints the times from request to end, in
milliseconds.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from discreet.isolation import children
from discreet.isolation.children import ChildFailed, Limits, Zygote

LIMITS = Limits(memory_bytes=8 << 30, cpu_seconds=60, wall_seconds=60.0)
WALLS = {"all walls": "filter landlock namespaces user", "before": "namespaces user"}


async def main(times: int) -> None:
    environment = children.plain_environment()
    path = os.pathsep.join(filter(None, [sys.path[0], environment.get("PYTHONPATH")]))
    children.ZYGOTE_MODULE = "tests.isolation.zygote"
    zygotes = {}
    for name, walls in WALLS.items():
        made = {**environment, "PYTHONPATH": path, "WALLS": walls}
        children.plain_environment = lambda made=made: made
        zygotes[name] = Zygote()
        await zygotes[name].start()
    taken: dict[str, list[float]] = {name: [] for name in zygotes}
    for turn in range(2 * times):
        name = list(zygotes)[turn % 2]
        began = time.perf_counter()
        try:
            await zygotes[name].run({"step": "release", "kind": "none"}, b"", LIMITS)
        except ChildFailed:
            taken[name].append(time.perf_counter() - began)
    for name, zygote in zygotes.items():
        one = sorted(taken[name])
        tenth, median, late = (1e3 * one[len(one) * part // 10] for part in (1, 5, 9))
        print(
            f"{name:10} p10 {tenth:.2f}  median {median:.2f}  p90 {late:.2f}  mean "
            f"{1e3 * statistics.mean(one):.2f}"
        )
        await zygote.stop()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300))
