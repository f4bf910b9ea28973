"""The alerts of docs/deployment: each fires on what it is for, is silent beside it, and names
metrics that exist."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest

from discreet.observability import monitoring
from tests.conftest import Installation
from tests.observability.test_telemetry import LABELS, names

ROOT = Path(__file__).parents[2]
RULES = ROOT / "docs" / "deployment" / "alerts.rules.yml"

CHECKS = "discreet_check_passed{check="
CASES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "DiscreetLedgerRolledBack": (
        {f'{CHECKS}"ledger"}}': "0x300", f'{CHECKS}"database"}}': "1x300"},
        {f'{CHECKS}"ledger"}}': "0x300", f'{CHECKS}"database"}}': "0x300"},  # then nobody knows
        "5m",
    ),
    "DiscreetDatabaseDown": (
        {"discreet_database_up": "0x300"},
        {"discreet_database_up": "1x300"},
        "5m",
    ),
    "DiscreetWrongSchema": (
        {f'{CHECKS}"schema"}}': "0x300", f'{CHECKS}"database"}}': "1x300"},
        {f'{CHECKS}"schema"}}': "1x300", f'{CHECKS}"database"}}': "1x300"},
        "10m",
    ),
    "DiscreetNoWorkers": ({"discreet_workers": "0x300"}, {"discreet_workers": "1x300"}, "5m"),
    "DiscreetQueueIsOld": (
        {"discreet_queue_oldest_seconds": "1801x300"},
        {"discreet_queue_oldest_seconds": "1800x300"},
        "20m",
    ),
    "DiscreetLeasesOver": (
        {"discreet_leases_over": "1x300"},
        {"discreet_leases_over": "0x300"},
        "10m",
    ),
    "DiscreetChildrenNotShutIn": (
        {'discreet_child_isolation{instance="w",level="partial"}': "1x300"},
        {'discreet_child_isolation{instance="w",level="full"}': "1x300"},
        "5m",
    ),
    "DiscreetChildrenFail": (
        {'discreet_child_failures_total{kind="k",step="release",cause="cpu_limit"}': "0+1x300"},
        {'discreet_child_failures_total{kind="k",step="release",cause="cpu_limit"}': "9x300"},
        "20m",
    ),
    "DiscreetReleasesOverdue": (
        {"discreet_releases_overdue_total": "0x30 1x300"},
        {"discreet_releases_overdue_total": "1x300"},
        "40m",
    ),
    "DiscreetLogStands": (
        {"discreet_log_pending": "3x300"},
        {"discreet_log_pending": "3x5 0x1 3x7 0x300"},
        "20m",
    ),
    "DiscreetWitnessesBehind": (
        {"discreet_witnesses_behind_seconds": "0+60x300"},
        {"discreet_witnesses_behind_seconds": "0x300"},
        "20m",
    ),
    "DiscreetBackupIsOld": (
        {"discreet_database_up": "1x300"},  # none is known
        {"discreet_database_up": "1x300", "discreet_backup_age_seconds": "93000x300"},
        "70m",
    ),
    "DiscreetArchiveFails": (
        {"discreet_archive_fails": "1x300"},
        {"discreet_archive_fails": "1x10 0x5 1x10 0x300"},  # archived in between
        "20m",
    ),
    "DiscreetRequestsFail": (
        {
            'discreet_http_requests_total{status="503"}': "0+10x300",
            'discreet_http_requests_total{status="200"}': "0+100x300",
        },
        {
            'discreet_http_requests_total{status="503"}': "0+4x300",
            'discreet_http_requests_total{status="200"}': "0+100x300",
        },
        "20m",
    ),
    "DiscreetVersionsDiffer": (
        {
            'discreet_build{version="1",schema="1"}': "1x300",
            'discreet_build{version="2",schema="1"}': "1x300",
        },
        {'discreet_build{version="1",schema="1"}': "1x300"},
        "150m",
    ),
}
"""By alert: samples (a minute apart, promtool's notation) on which it fires, on which it does not,
and when to look."""


def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_every_alert_has_a_case_and_says_what_it_is() -> None:
    assert rules().keys() == CASES.keys()
    documented = (ROOT / "docs" / "monitoring.md").read_text()
    for name, rule in rules().items():
        assert rule["annotations"]["summary"].endswith(".")
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert f"| `{name}` |" in documented, "what to do is in docs/monitoring.md"


def test_no_process_tells_how_much_it_worked() -> None:
    """Processor time around a registration told how large its content was, to whoever asked. Every
    process shows its metrics by the module that is asked here."""
    answer = asyncio.run(monitoring._answer(b"GET /metrics HTTP/1.1\r\n\r\n", {}, (), None))
    assert b"\npython_info{" in answer
    assert not re.search(rb"^(process|python_gc)_", answer, re.MULTILINE)
    code = Path(monitoring.__file__).parents[1]
    shown = {path.name for path in code.rglob("*.py") if "generate_latest" in path.read_text()}
    assert shown == {"monitoring.py"}


def test_alerts_name_metrics_and_labels_of_a_running_service(api_only: Installation) -> None:
    """Without promtool: what an API process has, and what workers and rpc register."""
    import discreet.rpc.server
    import discreet.worker.main  # noqa: F401  both register their metrics

    pages = [api_only.metrics(), generate_latest().decode()]
    known = set().union(*(names(text) for text in pages))
    labels = LABELS | {"cause", "instance"}
    for name, rule in rules().items():
        named = re.findall(r"\bdiscreet_\w+", rule["expr"])
        assert named, name
        assert set(named) <= known, name
        for selector in re.findall(r"\{(.*?)\}", rule["expr"]):
            assert set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selector)) <= labels, name
    found = set(re.findall(r'^discreet_check_passed\{check="(\w+)"\}', pages[0], re.MULTILINE))
    asked = {one for rule in rules().values() for one in re.findall(r'check="(\w+)"', rule["expr"])}
    assert asked <= found, "the checks that alerts ask for are made"


def test_each_alert_fires_on_what_it_is_for_and_not_beside_it(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        if os.environ.get("CI"):
            pytest.fail("promtool is needed in CI")
        pytest.skip("promtool is not installed (Debian: prometheus): no alert is evaluated")
    tests = []
    for name, (fires, silent, at) in CASES.items():
        rule = rules()[name]
        # What a series has of labels and the rule leaves is on its alerts.
        kept = {"DiscreetChildrenNotShutIn": {"instance": "w", "level": "partial"}}.get(name, {})
        alert = {"exp_labels": {**rule["labels"], **kept}, "exp_annotations": rule["annotations"]}
        for series, expected in ((fires, [alert]), (silent, [])):
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [
                        {"series": one, "values": values} for one, values in series.items()
                    ],
                    "alert_rule_test": [
                        {"eval_time": at, "alertname": name, "exp_alerts": expected}
                    ],
                }
            )
    file = tmp_path / "tests.yml"
    file.write_text(
        yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests})
    )
    done = subprocess.run(
        [promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    checked = subprocess.run(
        [promtool, "check", "rules", str(RULES)], capture_output=True, text=True, check=False
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
