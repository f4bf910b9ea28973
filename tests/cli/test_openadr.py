"""OpenADR 3 through the command line: reports in, events into a job, limits asked again, the
released load out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet import cli
from tests.conftest import Installation

START, HOMES, STEPS = "2026-01-12T00:00:00+01:00", 120, 12
PUBLIC: dict[str, Any] = {
    "unit": "participant",
    "participants": HOMES,
    "states": 3,
    "steps": STEPS,
    "edges": [0, 1, 2, 4],
    "meters": {"start": START, "interval_seconds": 3600},
}


def reports(seed: int = 3) -> list[dict[str, Any]]:
    """Hourly usage in kWh of homes that mostly stay where they are."""
    rng = np.random.default_rng(seed)
    state = rng.integers(0, 3, HOMES)
    usage = np.empty((HOMES, STEPS))
    for step in range(STEPS):
        moves = rng.random(HOMES) < 0.4
        state[moves] = rng.integers(0, 3, int(moves.sum()))
        usage[:, step] = np.array([0.5, 1.5, 3.0])[state]
    return [
        {
            "objectType": "REPORT",
            "programID": "winter",
            "eventID": "e",
            "clientName": f"home {home}",
            "payloadDescriptors": [{"payloadType": "USAGE", "units": "KWH"}],
            "resources": [
                {
                    "resourceName": "meter",
                    "intervalPeriod": {"start": START, "duration": "PT1H"},
                    "intervals": [
                        {"id": step, "payloads": [{"type": "USAGE", "values": [one]}]}
                        for step, one in enumerate(row.tolist())
                    ],
                }
            ],
        }
        for home, row in enumerate(usage)
    ]


def event(payload: str, value: float, units: str) -> dict[str, Any]:
    return {
        "objectType": "EVENT",
        "programID": "winter",
        "payloadDescriptors": [{"payloadType": payload, "units": units}],
        "intervalPeriod": {"start": "2026-01-12T05:00:00+01:00", "duration": "PT3H"},
        "intervals": [{"id": 0, "payloads": [{"type": payload, "values": [value]}]}],
    }


def test_from_reports_to_a_report(
    service: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    here = ["--server", service.url, "--key", service.owner_key]
    meters, events, job, asked, out = (
        tmp_path / f"{name}.json" for name in ("meters", "events", "job", "asked", "report")
    )
    meters.write_text(json.dumps(reports()))

    def said(*words: str, code: int = 0) -> str:
        assert cli.run([*words]) == code, capfd.readouterr().err
        told = capfd.readouterr()
        return told.out if code == 0 else told.err

    told = [
        "--kind",
        "dr_ensemble",
        "--public",
        json.dumps(PUBLIC),
        "--epsilon",
        "9",
        "--other-people",
        "--json",
    ]
    made = json.loads(said("dataset", "add", str(meters), "--format", "openadr", *told, *here))
    with service.client() as client:  # recognized by its content too, and the same content
        assert client.register("dr_ensemble", PUBLIC, meters, cap=9)["id"] == made["id"]

    problem = {
        "kind": "dr_ensemble",
        "dataset": made["id"],
        "discomfort_weight": 1.0,
        "initial": [0.2, 0.4, 0.4],
        "utility": [[0, 0, 0]] * STEPS,
    }
    job.write_text(json.dumps({"problem": problem, "privacy": {"epsilon": 4}}))
    events.write_text(json.dumps([event("PRICE", 0.9, "KWH")]))
    options = ["--start", START, "--steps", str(STEPS), "--interval-seconds", "3600"]
    assert "has no price" in said("convert", "openadr", str(events), *options, code=1)
    said(
        "convert",
        "openadr",
        str(events),
        *options,
        "--otherwise",
        "0.2",
        "--job",
        str(job),
        "--out",
        str(asked),
    )
    body = json.loads(asked.read_text())
    assert body["problem"]["price"] == pytest.approx([0.2] * 5 + [0.9] * 3 + [0.2] * 4)
    assert body["problem"]["event"] == [[5, 8]]
    assert "utility" not in body["problem"]
    shown = said("submit", str(asked), "--wait", *here)
    assert "event_saving" in shown
    with service.client() as client:
        first = next(iter(client.jobs()["jobs"]))["id"]
        result = client.result(first)["result"]
        assert result["event"] == [5, 6, 7]
        spent = client.budget(made["account"])["spent"]

        # Limits on what is imported, asked again of the same release: nothing more is paid.
        most = 0.5 * (max(result["expected_power"]) + min(result["expected_power"])) * HOMES
        events.write_text(json.dumps(event("IMPORT_CAPACITY_LIMIT", most, "KW")))
        limits = json.loads(said("convert", "openadr", str(events), *options))["limits"]
        assert limits["feeder"] == [None] * 5 + [most] * 3 + [None] * 4
        again = client.ask_again(
            first,
            limits={"of": "all", "feeder": [None, None, *[most] * (STEPS - 2)]},
            progress=False,
        )
        assert client.budget(made["account"])["spent"] == spent
        assert again["limits"]["kept"]
        assert np.max(again.expected_power[2:]) * HOMES <= most + 1e-3
        assert np.array_equal(again.transitions, result["transitions"])

    assert "--start says when" in said(
        "result", first, "--format", "openadr", "--out", str(out), *here, code=1
    )
    said("result", first, "--format", "signal", "--out", str(out), *here)
    head, *lines = out.read_text().split()
    assert head == "step,state,cost"
    assert [float(line.split(",")[2]) for line in lines] == pytest.approx(
        np.ravel(result["signal"]).tolist()
    )
    said("result", first, "--format", "openadr-signal", "--start", START, "--out", str(out), *here)
    sent = [one["payloads"][0]["values"] for one in json.loads(out.read_text())["intervals"]]
    assert np.array(sent) == pytest.approx(np.array(result["signal"]))
    said("result", first, "--format", "openadr", "--start", START, "--out", str(out), *here)
    (resource,) = json.loads(out.read_text())["resources"]
    assert [one["payloads"][0]["values"][0] for one in resource["intervals"]] == pytest.approx(
        [HOMES * one for one in result["expected_power"]]
    )


def test_what_holds_no_reports_is_refused(
    api_only: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "other.json"
    file.write_text('{"trajectories": [[0, 1], [1, 0]]}')
    told = ["--kind", "dr_ensemble", "--public", json.dumps(PUBLIC), "--epsilon", "1"]
    here = ["--server", api_only.url, "--key", api_only.owner_key]
    assert cli.run(["dataset", "add", str(file), "--format", "openadr", *told, *here]) == 1
    assert "holds no OpenADR reports" in capfd.readouterr().err
    assert cli.run(["dataset", "add", str(file), "--format", "excel", *told, *here]) == 2
