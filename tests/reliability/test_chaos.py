"""Parts of a running service are killed and stopped at random; see `chaos`, whose long form is
`make chaos`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from discreet.observability.faults import SWITCH, parse
from tests.reliability.chaos import SHORT, show, storm

JOBS = 12


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_lost_or_charged_twice(tmp_path: Path) -> None:
    report = storm(tmp_path, SHORT, jobs=JOBS, seed=1, deadline_seconds=1500)
    show(report, Console())
    assert sum(report.outcomes.values()) == JOBS + 1
    assert report.faults["postmaster killed"] > 0
    assert len(report.faults) > len(SHORT) / 2, "the storm has passed by"


def run_point(tmp_path: Path, **environment: str) -> tuple[int, str]:
    """A process that passes the point `a.b`: its status, and what it logged."""
    log = tmp_path / "log"
    status = subprocess.run(
        [sys.executable, "-c", "from discreet.observability import faults; faults.point('a.b')"],
        env={**os.environ, "DISCREET_FAULTS_LOG": str(log), **environment},
        check=False,
    ).returncode
    return status, log.read_text() if log.exists() else ""


def test_points_do_nothing_without_the_switch(tmp_path: Path) -> None:
    assert run_point(tmp_path, DISCREET_FAULTS="a.*=1") == (0, "")
    assert run_point(tmp_path, DISCREET_FAULTS="a.*=1", DISCREET_FAULTS_SWITCH="1") == (0, "")
    assert run_point(
        tmp_path, DISCREET_FAULTS="b.*=1 a.b=0 a.*=1", DISCREET_FAULTS_SWITCH=SWITCH
    ) == (0, "")
    assert run_point(tmp_path, DISCREET_FAULTS="b.*=0 a.*=1", DISCREET_FAULTS_SWITCH=SWITCH) == (
        -signal.SIGKILL,
        "a.b\n",
    )
    with pytest.raises(ValueError, match="could not convert"):
        parse({"DISCREET_FAULTS": "a.b=often", "DISCREET_FAULTS_SWITCH": SWITCH})
