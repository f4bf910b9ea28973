"""What tables must not shorten on 80 columns: ids that are copied, fingerprints that are
compared."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console

from discreet import cli
from discreet.cli import access, plans, showing, showing_answers
from discreet.errors import DiscreetError

JOB = "job_" + "0123456789abcdefghjkmnpqrs"
DATASET = "dst_" + "0123456789abcdefghjkmnpqrs"
ACCOUNT = "acc_" + "0123456789abcdefghjkmnpqrs"
FINGERPRINT = "0123456789abcdef" * 4


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")


def test_ids_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    at = "2026-11-21T18:00:00.000000Z"
    job = {
        "id": JOB,
        "kind": "off_policy_evaluation",
        "state": "succeeded",
        "price": {"epsilon": 0.1},
    }
    waiting = {**job, "kind": "multi_agent", "state": "awaiting_agents"}
    for one in (job, waiting):
        showing.show_jobs([{**one, "created_at": at}])
    lost = {"simulation": True, "mostly_noise": True, "dataset_name": "trips", "name": "tolls"}
    lost |= {"headline": "Total: 7 (90 % NI: 6–8) [bold]"}
    showing.show_jobs([{**job, **lost, "created_at": at}])
    listed = capsys.readouterr().out
    assert [word in listed for word in ("simulation", "mostly noise", "tolls")] == [True] * 3
    assert "Total: 7 (90 % NI: 6–8) [bold]" in " ".join(
        re.sub(r"job_\w+|2026\S+ \S+", "", listed).split()
    )
    assert listed.count(" 0.1") == 2
    print(listed)
    figures = {name: {"epsilon": 1.0} for name in ("cap", "spent", "reserved", "largest_request")}
    showing.show_budgets(
        [
            {
                "id": ACCOUNT,
                "datasets": [{"name": "trips"}],
                "scope": "data",
                "unit": "trajectory",
                **figures,
            }
        ]
    )
    price = {"epsilon": "100000000"}
    showing.show_entries(
        [{"seq": 1, "kind": "reserve", "job": JOB, "price": price, "at": at, "hash": FINGERPRINT}]
    )
    entries = capsys.readouterr().out
    print(entries)
    assert "…" not in entries
    assert " 0.1 " in entries
    assert "reserve: price reserved. Somebody submitted a job." in entries
    dataset = {
        "id": DATASET,
        "name": "trips of a city",
        "kind": "off_policy_evaluation",
        "mode": "simulation",
    }
    showing.show_datasets([{**dataset, "created_at": at}])
    showing.show_dataset(
        {
            **dataset,
            "public": {},
            "account": ACCOUNT,
            "created_at": at,
            "expires_at": None,
            "delete_after_job": True,
        }
    )
    shown = capsys.readouterr().out
    assert "…" not in shown
    for word in (
        "off_policy_evaluation",
        "waiting",
        "for agents",
        "simulation",
        "reserved",
        "largest",
        "trajectory",
    ):
        assert word in shown
    assert shown.count(JOB) == 4
    assert shown.count(ACCOUNT) == 2
    assert shown.count(DATASET) == 2


def test_fingerprints_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    agent = {
        "name": "north",
        "fingerprint": FINGERPRINT,
        "on_roster": False,
        "accepted": False,
        "speaks": ["masking/2"],
    }
    session = {
        "id": "ses_1",
        "kind": "multi_agent",
        "state": "awaiting_agents",
        "round": 0,
        "agents": [agent],
        "opened_before": {"jobs": 0, "numbers": 0, "for_each_agent": 0.0},
        "error": None,
        "roster": None,
    }
    showing.show_session(session)
    shown = capsys.readouterr().out
    assert "".join(re.findall(r"[0-9a-f]{20,}", shown)) == FINGERPRINT
    assert "…" not in shown


def test_few_numbers_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    guarantee = {"type": "pure_dp", "epsilon": 1.0, "delta": 0.0, "neighbours": "one trip"}
    ends = {"lower": [2.0, 0.0], "upper": [3.0, 1.0]}
    told = {
        "level": 0.9,
        "values": {"multipliers": ends},
        "noise_dominates": {},
        "mostly_noise": False,
    }
    result = {
        "uncertainty": told,
        "multipliers": [2.5, 0.125],
        "policy": [[1, 2]],
        "demand": list(range(40)),
        "robust_bounds": {"lower": 0.25, "upper": 0.5},
        "largest_weight": 12.42916707075908,
        "tables": [],
    }
    job = {"id": JOB, "kind": "multi_agent", "headline": "Largest multiplier: 2.5"}
    showing_answers.show_answer(
        {"job": job, "result": result, "certificate": {"guarantee": guarantee}}, None
    )
    shown = capsys.readouterr().out
    assert shown.startswith("Largest multiplier: 2.5\n")
    for text in (
        "2.5, 0.125 (2 intervals of 90 %: ± 0.5)",
        "1 entry",
        "40 entries",
        "0.25 to 0.5",
        " 12.4292 ",
    ):
        assert text in shown
    assert "certificate: epsilon 1; neighbouring datasets: one trip" in " ".join(shown.split())


def test_the_busiest_links_are_shown_by_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    guarantee = {"type": "pure_dp", "epsilon": 1.0, "delta": 0.0, "neighbours": "one trip"}
    links = [{"tail": 1, "head": 2, "free_flow_time": 1, "capacity": 200} for _ in range(12)]
    names = [f"Street [bold]{place}\x1b" for place in range(12)]
    roads = {"nodes": 2, "links": links, "link_names": names, "node_names": ["Inn", "Mill"]}
    flows = [float(10 * place) for place in range(12)]
    ends = {"lower": [max(0.0, flow - 4) for flow in flows], "upper": [flow + 4 for flow in flows]}
    noise = [flow < 5 for flow in flows]
    told = {
        "level": 0.9,
        "values": {"link_flows": ends},
        "kinds": {"link_flows": "noise"},
        "noise_dominates": {"link_flows": noise},
    }
    result = {"link_flows": flows, "uncertainty": told, "tables": []}
    answer = {"job": {"id": JOB}, "result": result, "certificate": {"guarantee": guarantee}}
    showing_answers.show_answer(answer, None, roads)
    shown = capsys.readouterr().out
    assert "The 10 busiest of 12 links" in shown
    flat = " ".join(shown.replace("│", " ").split())
    assert "1 of 12 rows is mostly" in flat
    assert "noise: Street [bold]0?" in flat
    assert "\x1b" not in shown
    lines = [
        " ".join(line.replace("│", " ").split())
        for line in shown.splitlines()
        if "Street" in line and "noise" not in line
    ]
    assert lines[0] == "Street [bold]11? Inn Mill 110.0 (90 % NI: 106.0–114.0) 55 %"
    assert [line.split("?")[0] for line in lines] == [
        f"Street [bold]{place}" for place in range(11, 1, -1)
    ]
    showing_answers.show_answer(
        answer, None, {**roads, "links": links[:3]}
    )  # of another network nothing is said
    assert "Street" not in capsys.readouterr().out


def test_a_rehearsal_is_a_table_without_broken_words(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "method": "minibatch",
        "epsilon": 0.1,
        "size": 134_021.0,
        "error": 69.2,
        "error_of_nine_in_ten": 130.4,
    }
    row |= {"half_width": 154.3, "runs": 20, "mostly_noise": 0.35, "no_better_than_zero": False}
    rows = [{**row, "quantity": name} for name in ("total_travel_time", "transitions")]
    rows.append({**rows[0], "epsilon": 1.0, "error": 140_000.0, "no_better_than_zero": True})
    why = "/problem/method: needs more"
    refused = [
        {"method": name, "epsilons": [0.1, 1.0], "why": why} for name in ("gradient", "constant")
    ]
    rows[1] |= {"farthest": "state 2 (1\u20132 kW)", "farthest_error": 0.25}
    result = {
        "data": "synthetic",
        "rows": rows,
        "refused": refused,
        "reference_epsilon": 1000.0,
        "tables": [],
    }
    fields = {"transitions": {"title": "Moves between states", "x-unit": "a share"}}
    showing_answers.show_answer(
        {"result": result}, None, fields=fields
    )  # as it is without a server
    said = capsys.readouterr().out
    words = " ".join(said.split())
    assert (
        "moves between states: farthest off is state 2 (1\u20132 kW), by 0.25 (a share) at epsilon "
        "0.1" in words
    )
    assert "not with gradient, constant at epsilon 0.1, 1: method: needs more" in words
    certificate = {"guarantee": {"type": "none"}}
    showing_answers.show_answer(
        {"job": {"id": JOB}, "result": result, "certificate": certificate}, None, fields=fields
    )
    assert capsys.readouterr().out == said
    lines = [line.split() for line in said.splitlines()]
    assert ["total", "travel", "time", "0.1", "134,000", "69.2", "130", "154", "35", "%"] in lines
    assert ["total", "travel", "time", "1", "134,000", "140,000", "130", "154", "35", "%*"] in lines
    assert ["*", "no", "better", "than", "an", "answer", "of", "0"] in lines


def test_what_is_paid_already_is_offered_and_refused_where_nobody_can_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(DiscreetError, match="Pay again: --anew"):
        plans.offered({"reusable": [JOB]}, "private", anew=False)
    plans.offered({"reusable": [JOB]}, "private", anew=True)
    plans.offered({"reusable": [JOB]}, "simulation", anew=False)  # costs nothing
    plans.offered({"reusable": []}, "private", anew=False)
    assert capsys.readouterr().err.count(f"discreet ask {JOB}") == 2


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert re.fullmatch(r"discreet \d+\.\d+\.\d+\S*\n", capsys.readouterr().out)


def test_texts_of_others_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever may name a dataset, a job or a network writes on the screens of all who list them."""
    evil = "a\x1b[31m\x1b]0;title\x07\u202e [/red] [link=http://evil.example]b[/link]"
    at = "2026-11-21T18:00:00.000000Z"
    one = {
        "id": DATASET,
        "name": evil,
        "kind": "routing",
        "mode": "private",
        "created_at": at,
        "account": ACCOUNT,
    }
    showing.show_datasets([one])
    showing.show_dataset(
        {**one, "public": {"ranges": evil}, "expires_at": None, "delete_after_job": False}
    )
    network = {
        "id": "net_1",
        "name": evil,
        "nodes": 1,
        "links": 1,
        "created_at": at,
        "created_by": evil,
    }
    showing.show_stored([network])
    showing.show_network(network, [evil])
    job = {
        "id": JOB,
        "kind": "routing",
        "state": "succeeded",
        "price": {"epsilon": 0.1},
        "created_at": at,
    }
    showing.show_jobs([{**job, "name": evil, "headline": evil}])
    key = dict.fromkeys(("created_at", "expires_at", "last_used_at", "revoked_at"))
    access.show_keys([{"id": "key_1", "principal": evil, "role": "owner", **key}])
    person = {
        "id": "per_1",
        "role": "owner",
        "last_used_at": None,
        "removed_at": None,
        "everywhere": False,
    }
    access.show_people([{**person, **dict.fromkeys(("name", "subject", "tenant"), evil)}])
    figures = {name: {"epsilon": 1.0} for name in ("cap", "spent", "reserved", "largest_request")}
    showing.show_budgets(
        [
            {
                "id": ACCOUNT,
                "datasets": [{"name": evil}],
                "scope": "data",
                "unit": "request",
                **figures,
            }
        ]
    )
    shown = capsys.readouterr().out
    assert not [letter for letter in shown if letter != "\n" and not letter.isprintable()]
    assert shown.count("[/red]") >= 5


def test_a_source_says_where_its_blocks_lie(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"epsilon": 0, "delta": 0}
    figures = {"version": 1, "spent": nothing, "reserved": nothing, "remaining": {"epsilon": 1}}
    place = {"at": "s3", "unchanged_at": "2026-10-03T07:30:12Z"}
    source = {
        "name": "City trips",
        "id": "src_1",
        "kind": "routing",
        "by": "day",
        "mode": "private",
        "cap": {"epsilon": 1, "delta": 0},
        "cap_of": "block",
    }
    blocks = [
        {**figures, "block": "2026-10-01", "erased": False},
        {**figures, "block": "2026-10-02", "erased": False, "place": place},
        {**figures, "block": "2026-10-03", "erased": True, "place": place},
    ]
    showing.show_source({**source, "blocks": blocks})
    said = " ".join(re.sub("[^ -~]", " ", capsys.readouterr().out).split())
    assert re.search("2026-10-01 1 0 0 1 sealed", said)
    assert re.search("2026-10-02 1 0 0 1 stays at s3://.*unchanged.*2026-10-03", said)
    assert said.count("2026-10-03 1 0 0 1 erased") == 1
    showing.show_source({**source, "blocks": []})
    assert "discreet source add" in capsys.readouterr().out


def test_what_is_left_of_many_blocks_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    def budget(day: int, left: float) -> dict[str, Any]:
        return {
            "id": f"{ACCOUNT}.{day}",
            "scope": "data",
            "subject": "",
            "datasets": [{"name": f"City trips, 2026-10-{day:02}"}],
            "largest_request": {"epsilon": left},
            "cap": {"epsilon": 1},
        }

    budgets = [budget(3, 0.9), budget(1, 0.9), budget(4, 0), budget(5, 0), budget(2, 0.9)]
    showing_answers._show_left([*budgets, budget(6, 0.5)], Console(width=300))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    first = "left on 3 accounts, City trips, 2026-10-01 to City trips, 2026-10-03, each: "
    assert lines[0] == f"{first}epsilon 0.9 of 1"
    for line, day in zip(lines[1:3], (4, 5), strict=True):
        assert f"left on City trips, 2026-10-0{day}: epsilon 0 of 1" in line
        assert f"cap grant {ACCOUNT}.{day}" in line
    assert lines[3] == "left on City trips, 2026-10-06: epsilon 0.5 of 1"
