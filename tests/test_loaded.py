"""What the processes of an installation load: each takes memory as often as there are processes."""

from __future__ import annotations

import asyncio
import importlib.util
import math
import subprocess
import sys

import pytest

from discreet.isolation import children
from discreet.isolation.processes import FORKING
from tests.test_up import clean_environment

PROCESSES = {
    "parts": (
        "import discreet.rpc.server, discreet.worker.main\n"
        "from discreet.api.app import create_app; from discreet.dashboard.app import install\n"
        "from discreet.settings import Settings; create_app(Settings(), install)"
    ),
    "template": "from discreet.installation import template\nfor name in template.GROUND: "
    "__import__(name)",
    "supervisor": "import discreet.installation.supervisor",
}
"""What they load as they start, the parts together."""
NEVER = (
    "alembic",
    "cvxpy",
    "discreet_client.client",
    "discreet_client.rest",
    "matplotlib",
    "plotly.graph_objs",
)
"""Migrations, drawings, conic programs and the HTTP API's client are for those who ask for them."""
NOT_BEFORE_A_TABLE = ("pyarrow.compute", "pyarrow.parquet")
NOT_BEFORE_A_SEARCH = ("scipy.optimize",)
"""8 MB for calibrations that look for a root, and for audits."""
NOT_IN_THE_SUPERVISOR = ("cryptography", "numpy", "sqlalchemy")


@pytest.mark.parametrize("process", PROCESSES)
def test_processes_load_what_they_need_and_no_more(process: str) -> None:
    code = f"import sys, discreet.cli\n{PROCESSES[process]}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert "discreet.cli.installation" in loaded
    refused = NEVER + NOT_BEFORE_A_TABLE + NOT_BEFORE_A_SEARCH
    if process == "supervisor":
        refused += NOT_IN_THE_SUPERVISOR
    assert [name for name in refused if name in loaded] == []
    assert [
        name for name in refused if importlib.util.find_spec(name) is None
    ] == []  # they are called so


PARTS = {
    "api": "import discreet.api.app",
    "rpc": "import discreet.rpc.server",
    "worker": "import discreet.worker.main",
}
METRICS = (
    "from prometheus_client import REGISTRY\nprint(*(each.name for each in "
    "REGISTRY.collect()), sep=' ')"
)


def said(code: str, **more: str) -> set[str]:
    environment = clean_environment(**more)
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.long
def test_the_template_has_no_thread_and_no_metric_that_a_part_lacks() -> None:
    """A part shows the metrics of the modules that it has; a fork has no thread but its own."""
    count = "import os\nprint('threads', len(os.listdir('/proc/self/task')))"
    ground = said(f"{PROCESSES['template']}\n{METRICS}\n{count}", **FORKING)
    assert {"threads", "1"} <= ground
    for name, part in PARTS.items():
        assert ground - {"threads", "1"} <= said(f"{part}\n{METRICS}"), name


def test_what_only_starting_needs_is_given_back() -> None:
    code = """
import numpy
from pathlib import Path
from discreet.isolation.processes import give_back

def mapped():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    sizes = [line.split()[1] for line in lines if line[:4] in ("Rss:", "Anon")]
    return int(sizes[0]) - int(sizes[1])

numpy.linalg.eigh(numpy.eye(50))
before = mapped()
give_back()
after = mapped()
values, _ = numpy.linalg.eigh(numpy.diag(numpy.arange(50.0)))
assert values.tolist() == list(range(50)), values
print(before, after)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = (int(word) for word in done.stdout.split())
    assert after < before / 2


def test_conic_programs_come_without_statistics() -> None:
    """Which CVXPY takes for an atom that has them when it is asked for its value."""
    code = """
import sys
import numpy as np
from discreet.solvers.saddle.convexity import variables

variables({"x": (0.0, 1.0)})
assert "cvxpy" in sys.modules
assert "scipy.stats" not in sys.modules
import cvxpy

half, quarter = (cvxpy.Constant(np.diag([part, 1 - part])) for part in (0.5, 0.25))
print(cvxpy.quantum_rel_entr(half, quarter).value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert float(done.stdout) == pytest.approx(
        0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75), rel=1e-6
    )


@pytest.mark.long
def test_children_come_without_the_solvers_that_nobody_asks() -> None:
    """Slater points are looked for by Clarabel; the rehearsal of a fork server, which opens
    everything once, needs none of the others, and a child may import nothing."""
    code = """
import sys
from discreet.isolation.zygote import UNASKED, Unasked
from discreet.isolation import solving

sys.meta_path.insert(0, Unasked())
solving.warm_up()
assert {"cvxpy", "clarabel"} <= sys.modules.keys()
print(*(UNASKED & sys.modules.keys()), "without")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["without"]


def test_a_part_gives_its_pages_back_when_it_has_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(children, "give_pages_back", lambda: given.append("pages"))
    monkeypatch.setattr(children, "SETTLED_SECONDS", 0.0)

    async def part() -> None:
        async with children.trimming_memory():
            assert given == []
            await asyncio.sleep(0.01)
            await asyncio.sleep(0.01)
            assert given == ["pages"]
        async with children.trimming_memory():
            pass  # it has ended before: nothing is left to run
        await asyncio.sleep(0.01)
        assert given == ["pages"]

    asyncio.run(part())
