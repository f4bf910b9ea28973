"""The load in a short form; see `load`, whose long form is `make load`. Counts only: how fast it
goes is the machine's."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pytest
from rich.console import Console

from discreet.problems import KINDS
from tests.reliability.load import FAIR, as_json, fair_waits, load, show


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_crowd_of_all_kinds_and_nobody_is_starved(tmp_path: Path) -> None:
    report = load(tmp_path, seconds=8, submitters=24, tenants=3, seed=1)
    show(report, Console())
    assert json.loads(as_json(report))["kinds"] == report.kinds
    assert report.total == sum(report.kinds.values()) >= 24
    assert set(report.kinds) == set(KINDS)
    assert {outcome.split(",")[0] for outcome in report.outcomes} == {"succeeded"}
    assert len(report.waits) == 3
    assert max(most for _, most in report.waits.values()) <= FAIR


def test_waits_are_counted_in_fair_shares() -> None:
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)

    def row(tenant: str, came: float, began: float) -> dict[str, object]:
        times = {"created_at": came, "started_at": began}
        return {
            "tenant_id": tenant,
            **{name: start + datetime.timedelta(seconds=at) for name, at in times.items()},
        }

    in_turns = {f"a{n}": row("a", n / 1000, 2 * n) for n in range(1, 20)}
    in_turns |= {f"b{n}": row("b", n / 1000, 2 * n + 1) for n in range(1, 20)}
    assert max(most for waits in fair_waits(in_turns).values() for most in waits) <= 1
    behind = {f"a{n}": row("a", n / 1000, n) for n in range(1, 40)} | {"b": row("b", 1.5, 40)}
    assert fair_waits(behind)["b"] == [(38 - 2) / 2]
    assert max(fair_waits(behind)["a"]) <= 1
