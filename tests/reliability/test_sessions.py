"""Federated sessions while the rpc process and the API die; see `sessions`, whose long form is part
of `make chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.reliability.sessions import storm


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_sessions_end_for_all_agents_alike_and_charge_each_once(tmp_path: Path) -> None:
    report = storm(tmp_path, sessions=1, agents=2, rounds=6, kills=1, seed=1, deadline_seconds=1500)
    assert report.outcomes == {"succeeded, charged": 1}
    assert report.points, "no fault point has struck"
    assert report.entries == 2 * (1 + 3)
