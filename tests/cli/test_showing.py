"""What tables must not shorten on 80 columns: ids that are copied, fingerprints that are compared."""

from __future__ import annotations

import re

import pytest

from discreet import cli
from discreet.cli import showing

JOB = "job_" + "0123456789abcdefghjkmnpqrs"
DATASET = "dst_" + "0123456789abcdefghjkmnpqrs"
ACCOUNT = "acc_" + "0123456789abcdefghjkmnpqrs"
FINGERPRINT = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_ids_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    at = "2026-11-21T18:00:00.000000Z"
    job = {"id": JOB, "kind": "off_policy_evaluation", "state": "awaiting_agents", "price": {"epsilon": 0.1}}
    showing.show_jobs([{**job, "created_at": at}])
    figures = {name: {"epsilon": 1.0} for name in ("cap", "spent", "reserved", "largest_request")}
    showing.show_budgets([{"id": ACCOUNT, "datasets": [{"name": "trips"}], "unit": "request", **figures}])
    price = {"epsilon": "100000000"}
    showing.show_entries([{"seq": 1, "kind": "reserve", "job": JOB, "price": price, "at": at, "hash": FINGERPRINT}])
    one = {"id": DATASET, "name": "trips of a city", "kind": "off_policy_evaluation", "mode": "simulation"}
    showing.show_datasets([{**one, "created_at": at}])
    showing.show_dataset(
        {**one, "public": {}, "account": ACCOUNT, "created_at": at, "expires_at": None, "delete_after_job": True}
    )
    shown = capsys.readouterr().out
    assert shown.count(JOB) == 2
    assert shown.count(ACCOUNT) == 2
    assert shown.count(DATASET) == 2


def test_fingerprints_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    agent = {"name": "north", "fingerprint": FINGERPRINT, "on_roster": False, "accepted": False}
    session = {"id": "ses_1", "kind": "multi_agent", "state": "awaiting_agents", "round": 0, "agents": [agent]}
    showing.show_session(session)
    shown = capsys.readouterr().out
    assert "".join(re.findall(r"[0-9a-f]{20,}", shown)) == FINGERPRINT
    assert "…" not in shown


def test_few_numbers_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    guarantee = {"type": "pure_dp", "epsilon": 1.0, "delta": 0.0, "neighbours": "one trip"}
    result = {"multipliers": [2.5, 0.125], "policy": [[1, 2]], "demand": list(range(40)), "tables": []}
    showing.show_answer({"job": {"id": JOB}, "result": result, "certificate": {"guarantee": guarantee}}, None)
    shown = capsys.readouterr().out
    for text in ("2.5, 0.125", "1 entry", "40 entries"):
        assert text in shown


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert re.fullmatch(r"discreet \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)
