"""What the processes of an installation load: each takes memory as often as there are processes."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.test_up import clean_environment

PROCESSES = {
    "parts": (
        "import discreet.rpc.server, discreet.worker.main\n"
        "from discreet.api.app import create_app; from discreet.dashboard.app import install\n"
        "from discreet.settings import Settings; create_app(Settings(), install)"
    ),
    "supervisor": "import discreet.installation.supervisor",
}
"""What they load as they start, the parts together."""
NEVER = ("alembic", "cvxpy", "discreet_client.client", "discreet_client.rest", "matplotlib", "plotly.graph_objs")
"""Migrations, drawings, conic programs and the HTTP API's client are for those who ask for them."""
NOT_BEFORE_A_TABLE = ("pyarrow.compute", "pyarrow.parquet")
NOT_IN_THE_SUPERVISOR = ("cryptography", "numpy", "sqlalchemy")


@pytest.mark.parametrize("process", PROCESSES)
def test_processes_load_what_they_need_and_no_more(process: str) -> None:
    code = f"import sys, discreet.cli\n{PROCESSES[process]}\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "discreet.cli.installation" in loaded
    refused = NEVER + NOT_BEFORE_A_TABLE
    if process == "supervisor":
        refused += NOT_IN_THE_SUPERVISOR
    assert [name for name in refused if name in loaded] == []
    assert [name for name in refused if importlib.util.find_spec(name) is None] == []  # they are called so
