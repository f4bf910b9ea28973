"""OpenADR 3 objects in and out, against the rules of the published schema of its reports and
events."""

from __future__ import annotations

import importlib
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from discreet_client import LeftOut, calls, openadr, readers
from discreet_client.tables import TableError

Json = dict[str, Any]

START = "2026-01-15T00:00:00+00:00"
PUBLIC: dict[str, Any] = {
    "unit": "participant",
    "states": 3,
    "participants": 2,
    "steps": 4,
    "edges": [0, 1, 2, 5],
    "meters": {"start": START, "interval_seconds": 1800},
}
KW = {"a": [0.5, 1.5, 4.0, 0.2], "b": [2.5, 2.5, 0.1, 1.1]}


def interval(place: int, payload: str, value: Any, **more: Any) -> dict[str, Any]:
    return {"id": place, "payloads": [{"type": payload, "values": [value]}], **more}


def report(
    client: str, resources: dict[str, list[float]], payload: str = "USAGE", units: Any = "KWH"
) -> dict[str, Any]:
    """Half-hourly values from START on."""
    return {
        "objectType": "REPORT",
        "programID": "program-1",
        "eventID": "event-1",
        "clientName": client,
        "payloadDescriptors": [
            {"payloadType": payload, "readingType": "DIRECT_READ", "units": units}
        ],
        "resources": [
            {
                "resourceName": name,
                "intervalPeriod": {"start": "2026-01-15T00:00:00Z", "duration": "PT30M"},
                "intervals": [
                    interval(place, payload, value) for place, value in enumerate(values)
                ],
            }
            for name, values in resources.items()
        ],
    }


def usage(kw: list[float]) -> list[float]:
    return [one / 2 for one in kw]


TEXT = {"type": "string", "minLength": 1, "maxLength": 128}
ID = {**TEXT, "pattern": "^[a-zA-Z0-9_-]*$"}
DURATION = {
    "type": "string",
    "pattern": "^P(?=[0-9]|T[0-9])([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9.]+S)?)?$",
}
PERIOD = {
    "type": "object",
    "required": ["start"],
    "properties": {"start": {"type": "string", "format": "date-time"}, "duration": DURATION},
}
VALUES = {
    "type": "object",
    "required": ["type", "values"],
    "properties": {"type": TEXT, "values": {"type": "array"}},
}
INTERVAL = {
    "type": "object",
    "required": ["id", "payloads"],
    "properties": {
        "id": {"type": "integer"},
        "intervalPeriod": PERIOD,
        "payloads": {"type": "array", "items": VALUES},
    },
}
DESCRIPTOR = {
    "type": "object",
    "required": ["payloadType"],
    "properties": {
        "payloadType": TEXT,
        "readingType": {"type": "string"},
        "units": {"enum": ["KWH", "KW"]},
        "accuracy": {"type": "number"},
        "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
    },
}
RESOURCE = {
    "type": "object",
    "required": ["resourceName", "intervals"],
    "properties": {
        "resourceName": TEXT,
        "intervalPeriod": PERIOD,
        "intervals": {"type": "array", "items": INTERVAL},
    },
}
REPORT = {
    "type": "object",
    "required": ["programID", "eventID", "clientName", "resources"],
    "properties": {
        "objectType": {"const": "REPORT"},
        "programID": ID,
        "eventID": ID,
        "clientName": TEXT,
        "reportName": {"type": "string"},
        "payloadDescriptors": {"type": "array", "items": DESCRIPTOR},
        "resources": {"type": "array", "items": RESOURCE},
    },
}
"""What the OpenAPI document of OpenADR 3.0.1 asks of a report."""
EVENT = {
    "type": "object",
    "required": ["programID", "intervals"],
    "properties": {
        "objectType": {"const": "EVENT"},
        "programID": ID,
        "intervalPeriod": PERIOD,
        "intervals": {"type": "array", "items": INTERVAL},
    },
}
REPORTS = [report("home-1", {"a": usage(KW["a"])}), report("home-2", {"b": usage(KW["b"])})]


def power(found: readers.Reading) -> dict[str, dict[str, float]]:
    """kW by time, of each participant in the order of their first reading."""
    rows: dict[str, dict[str, float]] = {}
    for owner, time, kw in zip(
        *(found.columns[name].tolist() for name in ("participant", "time", "kw")), strict=True
    ):
        rows.setdefault(str(owner), {})[time] = kw
    return rows


def times(count: int = 4, minutes: int = 30) -> list[str]:
    begin = datetime.fromisoformat(START)
    return [(begin + place * timedelta(minutes=minutes)).isoformat() for place in range(count)]


def test_usage_becomes_power_by_the_length_of_its_interval(tmp_path: Path) -> None:
    file = tmp_path / "reports.json"
    file.write_text(json.dumps(REPORTS))
    for source in (REPORTS, str(file), file):
        found = readers.read("dr_ensemble", source, PUBLIC)
        assert list(power(found).values()) == [
            dict(zip(times(), KW[one], strict=True)) for one in "ab"
        ]
        assert found.public == PUBLIC
    demand = [report("home-1", KW, "DEMAND", "KW")]
    assert power(readers.read("dr_ensemble", demand, PUBLIC)) == power(
        readers.read("dr_ensemble", REPORTS, PUBLIC)
    )
    watts = [
        report(
            "home-1", {name: [1000 * one for one in kw] for name, kw in KW.items()}, "DEMAND", "W"
        )
    ]
    assert power(readers.read("dr_ensemble", watts, PUBLIC)) == power(found)


def test_periods_of_intervals_gaps_and_quality() -> None:
    one = report("home-1", KW)
    period = {"start": "2026-01-15T01:00:00+01:00", "duration": "PT1H"}
    long = interval(7, "USAGE", 3.0, intervalPeriod=period)
    missing = interval(8, "USAGE", 0.0, intervalPeriod={"start": "2026-01-15T01:00:00Z"})
    missing["payloads"].append({"type": "DATA_QUALITY", "values": ["MISSING"]})
    last = interval(9, "USAGE", 0.5)  # it follows the one before, for half an hour
    one["resources"][0]["intervals"] = [long, missing, last]
    (first, _) = power(
        readers.read("dr_ensemble", one, {**PUBLIC, "meters": {**PUBLIC["meters"], "carry": 1}})
    ).values()
    # An hour that spans two periods has its power in both; the third is a gap.
    assert first == {times()[0]: 3.0, times()[1]: 3.0, times()[3]: 1.0}


def test_the_resources_of_a_client_may_be_one_participant() -> None:
    public = {**PUBLIC, "edges": [0, 2, 4, 9], "reader": {"participant": "client"}}
    other = report("home-2", {"c": [1.0] * 4})
    both = [report("home-1", {name: usage(kw) for name, kw in KW.items()}), other]
    (home, _) = power(readers.read("dr_ensemble", both, public)).values()
    assert list(home.values()) == pytest.approx(
        [a + b for a, b in zip(KW["a"], KW["b"], strict=True)]
    )
    both[0]["resources"][1]["intervals"].pop()  # without it the sum would be too little
    short = {**public, "meters": {**PUBLIC["meters"], "carry": 1}}
    (home, _) = power(readers.read("dr_ensemble", both, short)).values()
    assert list(home) == times(3)


def changed(**more: Any) -> dict[str, Any]:
    return {**report("home-1", KW), **more}


def of_resource(**more: Any) -> dict[str, Any]:
    made = report("home-1", KW)
    made["resources"][0] |= more
    return made


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (changed(payloadDescriptors=None), "does not state one unit of USAGE"),
        (
            changed(payloadDescriptors=[{"payloadType": "USAGE", "units": "THERMS"}]),
            "USAGE in THERMS; WH, KWH, MWH",
        ),
        (of_resource(resourceName="AGGREGATED_REPORT"), "instead of one meter"),
        (of_resource(intervalPeriod=None), "without a time"),
        (of_resource(intervalPeriod={"start": START}), "do not follow each other"),
        (of_resource(intervalPeriod={"start": START, "duration": "P1M"}), "a duration P1M"),
        (
            of_resource(intervalPeriod={"start": "2026-01-15T00:00:00", "duration": "PT30M"}),
            "has no offset",
        ),
        (of_resource(intervalPeriod={"start": "today", "duration": "PT30M"}), "no date-time"),
        (
            of_resource(intervalPeriod={"start": "0001-01-01T00:00:00+05:00", "duration": "PT1H"}),
            "no date-time",
        ),
        (of_resource(intervalPeriod={"start": START, "duration": "P9999999999W"}), "a duration P9"),
        (of_resource(intervalPeriod={"start": START, "duration": "P900000W"}), "after the year"),
        (of_resource(intervalPeriod=START), "intervalPeriod must be an object"),
        (changed(payloadDescriptors=5), "payloadDescriptors must be a list"),
        (
            of_resource(intervalPeriod={"start": START, "duration": "PT45M"}),
            "not 1 to 10,000 times meters.interval",
        ),
        (
            of_resource(intervals=[interval(0, "USAGE", "high")]),
            "must have one number, not",
        ),
        (of_resource(intervals=[interval(0, "READING", 3.0)]), None),
        ({**REPORTS[0], "objectType": "EVENT"}, "is an OpenADR EVENT, not of type REPORT"),
        ([*REPORTS, REPORTS[0]], "a second interval that begins"),
        ([REPORTS[0], report("home-2", {"b": KW["b"]}, "DEMAND", "KW")], "choose one in reader"),
        (report("home-1", {"a": [1.0] * 4}, "READING"), "neither USAGE nor DEMAND, but READING"),
    ],
)
def test_what_is_not_read_is_refused_in_a_sentence(source: Any, says: str | None) -> None:
    # The other resource has usage, and this one none: a participant less, whom the service counts.
    if says is None:
        assert len(power(readers.read("dr_ensemble", source, PUBLIC))) == 1
        return
    with pytest.raises(TableError, match=says):
        readers.read("dr_ensemble", source, PUBLIC)


def test_rules_say_what_reports_do_not() -> None:
    bare = changed(payloadDescriptors=None)
    found = readers.read("dr_ensemble", bare, {**PUBLIC, "reader": {"units": "KWH"}})
    assert len(power(found)) == 2
    with pytest.raises(TableError, match="no rule 'unit'"):
        readers.read("dr_ensemble", REPORTS, {**PUBLIC, "reader": {"unit": "KWH"}})


def test_the_python_client_reads_them_too() -> None:
    with pytest.warns(LeftOut, match="middle of its bin"):  # as of any file of meters
        body = calls.dataset_body(
            "dr_ensemble", PUBLIC, REPORTS, cap=1, name=None, mode=None, account=None, local=True
        )
    assert set(body["content"]) == {"participant", "time", "kw"}
    assert not openadr.is_openadr([{"observations": []}])
    assert not openadr.is_openadr({"trajectories": [[0, 1]]})


def event(
    values: list[float], payload: str = "PRICE", units: str = "KWH", **more: Any
) -> dict[str, Any]:
    return {
        "objectType": "EVENT",
        "programID": "program-1",
        "eventName": "peak",
        "payloadDescriptors": [{"payloadType": payload, "units": units, "currency": "EUR"}],
        "intervalPeriod": {"start": "2026-01-15T17:00:00Z", "duration": "PT1H"},
        "intervals": [interval(place, payload, value) for place, value in enumerate(values)],
        **more,
    }


def fields(events: Any, steps: int = 48, **more: Any) -> dict[str, Any]:
    return openadr.fields_of_events(events, start=START, steps=steps, interval_seconds=1800, **more)


def test_prices_by_the_kwh_are_prices_by_the_step() -> None:
    found = fields([event([0.6, 0.8])], otherwise=0.2)
    expected = np.full(48, 0.1)
    expected[34:36], expected[36:38] = 0.3, 0.4
    assert found["price"] == pytest.approx(expected)
    assert found["event"] == [[34, 38]]
    assert "limits" not in found
    assert fields([event([600.0, 800.0], units="MWH")], otherwise=0.2)["price"] == pytest.approx(
        expected
    )
    whole = fields([event([0.1] * 24, intervalPeriod={"start": START, "duration": "PT1H"})])
    assert whole == {"price": pytest.approx([0.05] * 48)}  # nothing is outside of it: no event
    jsonschema.validate(
        event([0.6, 0.8]), EVENT
    )  # what is read here is what the schema calls an event


def test_a_price_that_changes_within_a_step_is_its_mean() -> None:
    quarter = event([1.0, 2.0], intervalPeriod={"start": START, "duration": "PT15M"})
    assert fields([quarter], steps=2, otherwise=0.4)["price"] == pytest.approx([0.75, 0.2])
    half_known = event([1.0], intervalPeriod={"start": START, "duration": "PT15M"})
    assert fields([half_known], steps=2, otherwise=0.4)["price"] == pytest.approx([0.5 * 0.7, 0.2])


def test_events_of_higher_priority_hold() -> None:
    usual = event([0.2] * 48, intervalPeriod={"start": START, "duration": "PT30M"})
    peak, less = event([0.9], priority=0), event([0.5, 0.5], priority=3)
    found = fields([peak, usual, less])
    assert found["price"][33:39] == pytest.approx([0.1, 0.45, 0.45, 0.25, 0.25, 0.1])


def test_a_limit_on_what_is_imported_is_that_of_the_feeder() -> None:
    found = fields([event([300.0], "IMPORT_CAPACITY_LIMIT", "KW")])
    assert found["limits"]["of"] == "all"
    assert found["limits"]["feeder"] == [None] * 34 + [300.0] * 2 + [None] * 12
    assert found["event"] == [[34, 36]]
    part = {"start": "2026-01-15T17:15:00Z", "duration": "PT30M"}  # part of a step: all of it
    found = fields([event([0.3], "IMPORT_CAPACITY_LIMIT", "MW", intervalPeriod=part)])
    assert found["limits"]["feeder"] == [None] * 34 + [300.0] * 2 + [None] * 12


@pytest.mark.parametrize(
    ("events", "more", "says"),
    [
        ([event([0.6])], {}, "step 0 .* has no price: give `otherwise`"),
        ([event([2], "SIMPLE")], {"otherwise": 1}, "a payload SIMPLE, which is neither PRICE"),
        ([event([0.6], units="THERMS")], {"otherwise": 1}, "PRICE in THERMS"),
        ([report("home-1", KW)], {}, "not of type EVENT"),
        ([event([])], {}, "no event covers any"),
        ([event([0.6], priority="high")], {"otherwise": 1}, "peak: priority must be a number"),
        ([event([0.6], start="x")], {"start": "2026-01-15T00:00:00"}, "offset"),
    ],
)
def test_events_that_say_something_else_are_refused(events: Any, more: Any, says: str) -> None:
    given = {"start": START, "steps": 48, "interval_seconds": 1800, **more}
    with pytest.raises(TableError, match=says):
        openadr.fields_of_events(events, **given)


RESULT: dict[str, Any] = {
    "states": {"power": [0.0, 2.0], "participants": 100, "step_seconds": 900},
    "expected_power": [0.5, 0.25, 1.0],
    "default_power": [0.75, 1.0, 1.0],
    "uncertainty": {
        "level": 0.9,
        "values": {"expected_power": {"lower": [0.4, 0.2, 0.9], "upper": [0.6, 0.5, 1.0]}},
    },
}


def test_the_load_of_a_policy_as_a_report_of_the_schema() -> None:
    made = openadr.report_of(RESULT, start=START, program_id="program-1", event_id="event-1")
    assert json.loads(json.dumps(made)) == made
    for one in (made, *REPORTS):
        jsonschema.validate(one, REPORT, format_checker=jsonschema.FormatChecker())
    (resource,) = made["resources"]
    assert resource["resourceName"] == "AGGREGATED_REPORT"
    assert resource["intervalPeriod"] == {"start": START, "duration": "PT15M"}
    assert [
        [payload["values"] for payload in one["payloads"]] for one in resource["intervals"]
    ] == [
        [[50.0], [75.0]],
        [[25.0], [100.0]],
        [[100.0], [100.0]],
    ]
    kinds = {one["payloadType"]: one for one in made["payloadDescriptors"]}
    assert {(one["readingType"], one["units"]) for one in kinds.values()} == {("FORECAST", "KW")}
    assert {one["objectType"] for one in kinds.values()} == {"REPORT_PAYLOAD_DESCRIPTOR"}
    assert kinds["DEMAND"]["accuracy"] == pytest.approx(100 * 0.3 / 2)
    assert kinds["DEMAND"]["confidence"] == 90
    assert "accuracy" not in kinds["BASELINE"]
    assert "all 100 loads" in made["reportName"]
    # A forecast of a total is nobody's reading, and is not taken for one.
    with pytest.raises(TableError, match="instead of one meter"):
        readers.read("dr_ensemble", made, {**PUBLIC, "reader": {"payload": "DEMAND"}})
    # Of one resource the same report is a content: what was written is what is read.
    resource["resourceName"] = "feeder"
    public = {**PUBLIC, "steps": 3, "meters": {**PUBLIC["meters"], "interval_seconds": 900}}
    again = readers.read("dr_ensemble", made, public)
    assert list(power(again).values()) == [
        dict(zip(times(3, 15), [50.0, 25.0, 100.0], strict=True))
    ]


def test_the_fields_own_library_reads_what_is_written() -> None:
    """`openadr3` reads reports as OpenADR 3.1 has them. It is in alpha, and no part of the tests'
    requirements: it and three more packages would be."""
    missing = "NO ORACLE FOR OPENADR 3: `pip install openadr3` in an environment for this test"
    pytest.importorskip("openadr3", reason=missing)
    raw, models = (
        importlib.import_module(f"openadr3.entities.{name}") for name in ("raw", "models")
    )
    made = openadr.report_of(RESULT, start=START, program_id="program-1", event_id="event-1")
    raw.RawReport.model_validate(made)
    read = models.Report.from_raw(made)
    (resource,) = read.resources
    assert resource.interval_period.start.isoformat() == START
    assert resource.interval_period.duration.total_seconds() == 900
    values = [
        [list(map(float, one.values)) for one in interval.payloads]
        for interval in resource.intervals
    ]
    assert values == [[[50.0], [75.0]], [[25.0], [100.0]], [[100.0], [100.0]]]
    kinds = {one.payload_type: one for one in read.payload_descriptors}
    assert float(kinds["DEMAND"].accuracy) == pytest.approx(15)
    assert kinds["DEMAND"].confidence == 90
    # What it takes for an event with prices is what is read as one.
    prices = event([0.6, 0.8])
    prices["payloadDescriptors"][0]["objectType"] = "EVENT_PAYLOAD_DESCRIPTOR"
    raw.RawEvent.model_validate(prices)
    theirs = [float(one.payloads[0].values[0]) for one in models.Event.from_raw(prices).intervals]
    ours = fields([prices], otherwise=0.2)["price"]
    assert theirs == pytest.approx([ours[34] * 2, ours[36] * 2])


def test_a_signal_as_an_event_of_the_schema() -> None:
    signal = [[0.0, 0.3], [0.4, 0.0]]
    made = openadr.event_of({**RESULT, "signal": signal}, 0.5, start=START, program_id="program-1")
    jsonschema.validate(made, EVENT)
    (first, second) = made["intervals"]
    assert first["payloads"] == [{"type": "COST_TO_GO", "values": [0.0, 0.6]}]
    assert second["payloads"][0]["values"] == [0.8, 0.0]
    with pytest.raises(ValueError, match="needs a signal"):
        openadr.event_of(RESULT, 0.5, start=START)


def test_a_report_of_one_load_and_what_has_none() -> None:
    bare = {**RESULT, "states": {"power": [0.0, 2.0]}}
    made = openadr.report_of(bare, start=START, interval_seconds=3600)
    assert made["resources"][0]["intervals"][0]["payloads"][0]["values"] == [0.5]
    assert "one load" in made["reportName"]
    with pytest.raises(ValueError, match="how long a step is"):
        openadr.report_of(bare, start=START)
    with pytest.raises(ValueError, match="does not have"):
        openadr.report_of({"link_flows": []}, start=START)
    with pytest.raises(ValueError, match="offset"):
        openadr.report_of(RESULT, start="2026-01-15T00:00:00")
