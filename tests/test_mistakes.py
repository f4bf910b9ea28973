"""What new users do wrong, and the sentence that each of them gets: on the command line, by the
SDK, from the API."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import typer

from discreet import cli
from discreet.cli.jobs import field_of, fields_of
from discreet_client import readers
from discreet_client.errors import ApiError
from tests import bodies
from tests.conftest import Installation

TRIPS = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
PERSONS = {**TRIPS, "unit": "person"}
TIMED = {
    **TRIPS,
    "periods": 2,
    "reader": {"start": "2026-11-02T07:00", "time_zone": "Europe/Berlin"},
}
PATIENTS = {"unit": "trajectory", "states": 3, "reward_bound": 1, "horizon": 2}
AGED = {
    "unit": "trajectory",
    "ranges": [{"name": "age", "low": 0, "high": 100}],
    "reward_bound": 1,
    "horizon": 3,
}
HALVES = {"treat": 0.5, "wait": 0.5}
METERS = {"unit": "participant", "states": 2, "edges": [0, 1, 2]}


def ruled(public: dict[str, Any], **rules: Any) -> dict[str, Any]:
    return {**public, "reader": {**public.get("reader", {}), **rules}}


ROUTES = [
    (
        "from,to\n1,2\n",
        TRIPS,
        "",
        "no column origin (nor destination); columns are: from, to; say --columns o",
    ),
    (
        "from,to\n1,2\n",
        TRIPS,
        "origin=fromm,destination=to",
        "no column fromm; columns are: from, to",
    ),
    (
        "from,to\n1,2\n",
        TRIPS,
        "start=from",
        "nothing is called 'start' here; there are origin, destination, ",
    ),
    (
        "origin,destination\n0,1\n2,1\n",
        TRIPS,
        "",
        "line 2, column origin: count from 1; yours look 0-based: public.",
    ),
    (
        "origin,destination\n1,4\n2,5\n",
        TRIPS,
        "",
        "line 2, column destination: public.zones is 3, so zones ar",
    ),
    (
        "origin;destination;count\n1;2;1,5\n",
        TRIPS,
        "",
        "line 2, column count: a number of trips is an integer",
    ),
    (
        "origin,destination,count\n1,2,1,5\n",
        TRIPS,
        "",
        "line 2 has 4 values, the first line names 3 columns; numbers w",
    ),
    (
        "origin,destination,count\n1,2,NaN\n",
        TRIPS,
        "",
        "line 2, column count: a number is needed; found 'NaN'",
    ),
    (
        "origin,destination,count\n1,2,\n1,2,\n",
        TRIPS,
        "",
        "column count: a value is missing (reader.missing: leave_out takes the other trips) (and 1 "
        "more like this, up",
    ),
    (
        "origin,destination,count\n1,2,-3\n",
        TRIPS,
        "",
        "a number of trips is not negative; found -3",
    ),
    (
        "origin,destination\nnorth,south\n",
        TRIPS,
        "",
        "found 'north'. For named zones: reader.zones (--zones FILE)",
    ),
    (
        "origin,destination\nA,A\n",
        ruled(TRIPS, zones={"A": 9}),
        "",
        "its number in reader.zones is above public.zones, 3",
    ),
    (
        "origin,destination\n1,2\n",
        PERSONS,
        "",
        "public.unit is person, so a column person is needed; columns",
    ),
    (
        "origin,destination,who\n1,2,a\n",
        TRIPS,
        "person=who",
        "public.unit is request, so a trip has no person",
    ),
    (
        "origin,destination,at\n1,2,2026-11-02\n",
        TRIPS,
        "time=at",
        "reader.start is needed, the time at which period 0 b",
    ),
    (
        "origin,destination,time\n1,2,31.11.2026\n",
        TIMED,
        "",
        "a day and a time that exist are needed (if it stands for a missing value: reader.",
    ),
    (
        "origin,destination,time\n1,2,11/2/2026\n",
        TIMED,
        "",
        "is the day first here, or the month? reader.dates has to say d",
    ),
    (
        "origin,destination,time\n1,2,13/13/2026\n",
        ruled(TIMED, dates="day_first"),
        "",
        "a day and a time that exist are ne",
    ),
    (
        "origin,destination,time\n1,2,2/2/2026\n",
        ruled(TIMED, dates="us"),
        "",
        "reader.dates is day_first or month_fir",
    ),
    (
        "origin,destination\n1,2\n",
        ruled(TRIPS, other_zones="leave_out"),
        "",
        "goes with the names of the zones: reader",
    ),
    (
        "origin,destination\nA,B\n",
        ruled(TRIPS, zones=["A"], other_zones="leave_out"),
        "",
        "no trip lies between zones",
    ),
    (
        "origin,destination\nA,B\n",
        ruled(TRIPS, zones=["A"]),
        "",
        "(reader.other_zones: leave_out leaves out trips of others); found",
    ),
    (
        "origin,destination,time\n1,2,2026-11-03T00:00\n",
        TIMED,
        "",
        "outside the 2 public periods. To skip: reader.outside",
    ),
    (
        "origin,destination,time\n1,2,2026-11-02T00:00\n",
        ruled(TIMED, time_zone=None),
        "",
        "Set reader.time_zone, su",
    ),
    (
        "origin,destination,time\n1,2,2026-11-02\n",
        ruled(TIMED, time_zone="Berlin"),
        "",
        "there is no time zone 'Berlin'",
    ),
    (
        "origin,destination,time\n1,2,2026-11-02\n",
        ruled(TIMED, every="hour"),
        "",
        "reader.every is day or weekday or week, not 'ho",
    ),
    (
        "origin,destination\n1,2\n",
        ruled(TRIPS, zone=["A"]),
        "",
        "there is no rule 'zone' for trips; there are",
    ),
    (
        "origin,origin\n1,2\n",
        TRIPS,
        "destination=d",
        "column 'origin' stands twice in the first line of table.csv",
    ),
    (
        "origin,destination\n",
        TRIPS,
        "origin=origin",
        "table.csv has no row below its line of names",
    ),
    ("", TRIPS, "origin=o", "table.csv is empty"),
    (
        "origin,destination\nKöln,2\n",
        TRIPS,
        "origin=origin",
        "line 2 is not UTF-8: save table.csv as CSV in UTF-8",
    ),
    (
        "origin,destination\nKöln,2\n",
        TRIPS,
        "origin=origin",
        "or name its encoding, such as --encoding cp1252",
    ),
    (
        "origin,destination\nKöln,2\n",
        ruled(TRIPS, encoding="cp0"),
        "",
        "there is no encoding 'cp0' of texts; Excel's",
    ),
    (
        "origin,destination\nKöln,2\n",
        ruled(TRIPS, encoding="ascii"),
        "",
        "line 2 is not ascii: save table.csv as CSV",
    ),
    (
        "origin,destination\n,2\n1,\n",
        ruled(TRIPS, missing="leave_out"),
        "",
        "every trip lacks a value",
    ),
    (
        "origin,destination\n1,2\n",
        ruled(TRIPS, missing="guess"),
        "",
        "reader.missing is refuse or leave_out",
    ),
]
ROUTES += [  # what walking with trips of a German survey stumbled on
    (
        "origin,destination,time\n1,2,02.11.2026 07:30\n",
        ruled(TIMED, start="Monday at 7"),
        "",
        "reader.start is the time at which period 0 begins, as 2026-11-02T07:00 or 02.11.2026 "
        "07:00, not 'Monday at 7'",
    ),
    (
        "origin,destination,time\n1,2,02.11.2026 06:30\n",
        ruled(TIMED, start="02.11.2026 07:00"),
        "",
        "line 2, column time: outside the 2 public periods",
    ),
    (
        "Start;Ziel;um\nA;B;7\n",
        {**TRIPS, "periods": 2},
        "",
        "say --columns origin=…,destination=…,period=… (columns={'origin': …, ",
    ),
    (
        "who,to,period\n1,2,0\n",
        {**TRIPS, "unit": "person", "max_person": 2},
        "person=who,origin=who,destination=to",
        "the column who is named for person and for origin: whose a row is stands in a column of "
        "its own",
    ),
    (
        "PK\x03\x04\x14\n",
        TRIPS,
        "origin=o",
        "table.csv is a spreadsheet or an archive, and no CSV: save the sheet as CSV in UTF-8",
    ),
]
VISITS = [
    (
        "patient,time,state,reward\na,1,0,1\na,1,1,0\n",
        PATIENTS,
        "this patient has a visit of this time already",
    ),
    (
        "patient,time,state,reward\na,1,0,NaN\n",
        PATIENTS,
        "line 2, column reward: a number is needed; found 'NaN'",
    ),
    (
        "patient,time,state,reward\na,1,0,7\n",
        PATIENTS,
        "line 2, column reward: the public reward_bound is 1; found 7",
    ),
    (
        "patient,time,state,reward\na,1,1,0\na,2,3,0\n",
        PATIENTS,
        "count from 0; yours look 1-based: public.sta",
    ),
    (
        "patient,time,state,reward\na,3,0,0\na,2,0,0\na,1,0,0\n",
        PATIENTS,
        "line 2, column time: this patient has more vi",
    ),
    (
        "patient,time,state,reward\na,1,0,0\n",
        {**PATIENTS, "continuing": True},
        "no patient has two visits, so there",
    ),
    (
        "patient,time,state,reward\na,1,0,0\n",
        ruled(PATIENTS, last_row="end"),
        "reader.last_row is terminal or",
    ),
    (
        "patient,time,state,reward\na,1,0,0\na,5,0,0\n",
        ruled(PATIENTS, interval=1),
        "line 3, column time: more than an i",
    ),
    (
        "patient,time,state,reward\na,1,0,0\n",
        ruled(PATIENTS, interval="a day"),
        "reader.interval is a number above 0, n",
    ),
    (
        "patient,time,state,reward\na,2026-01-02,0,0\na,2026-01-03T00:00Z,0,0\n",
        PATIENTS,
        "without a time zone, where others",
    ),
    (
        "patient,time,state,reward,terminal\na,1,0,0,yes\na,2,0,0,no\n",
        PATIENTS,
        "visits after the one that ended the e",
    ),
    (
        "patient,time,state,reward,terminal\na,1,0,0,maybe\n",
        PATIENTS,
        "true or false is needed (or yes and no, ja and nein",
    ),
    (
        "patient,time,state,reward,probability\na,1,0,0,0.5\n",
        PATIENTS,
        "under the target policy is needed too: a column",
    ),
    (
        "patient,time,state,reward,probability,target\na,1,0,0,0,1\n",
        PATIENTS,
        "and above 0 of an action that was taken",
    ),
    (
        "patient,time,state,reward\na,1,0,0\n",
        ruled(PATIENTS, behaviour=HALVES, target=HALVES),
        "no column action; colum",
    ),
    (
        "patient,time,state,reward,action\na,1,0,0,treat\na,2,0,0,trat\nb,1,0,0,wiat\n",
        ruled(PATIENTS, behaviour=HALVES, target=HALVES),
        "line 3, column action: reader.behaviour knows the actions treat, wait; found 'trat' (and "
        "1 more like this, up",
    ),
    (
        "patient,time,state,reward,action\na,1,0,0,treat\n",
        ruled(PATIENTS, behaviour={"treat": 0.5, "wait": 0.4}, target=HALVES),
        "reader.behaviour: probabilities of all actions sum to 1, not 0.9",
    ),
    (
        "patient,time,age,reward\na,1,,0\n",
        AGED,
        "line 2, column age: a value is missing (reader.missing: carry takes",
    ),
    (
        "patient,time,age,reward\na,1,,0\n",
        ruled(AGED, missing="leave_out"),
        "every patient lacks a value",
    ),
    (
        "patient,time,age,reward\na,1,,0\na,2,7,0\n",
        ruled(AGED, missing="carry"),
        "and this patient has none before",
    ),
    (
        "patient,time,age,reward\na,1,7,0\nb,1,,0\n",
        ruled(AGED, missing="carry"),
        "line 3, column age: a value is mi",
    ),
    (
        "patient,time,state,reward\na,1,0,0\na,2,3,0\n",
        {"reward_bound": 1},
        "public.states is 1, so states are 0 to 0; found",
    ),
    (
        "patient,time,old,reward\na,1,0,0\n",
        AGED,
        "no column age; columns are: patient, time, old, reward; say --columns",
    ),
]
RULED = {"unit": "trajectory", "reward_bound": 1, "horizon": 3}
FOLLOWED = "age >= 65 -> treat, else wait"
SEEN = "patient,time,age,action,reward\na,1,70,treat,1\n"
VISITS += [  # what walking with a hospital's table stumbled on
    (
        "patient,time,state,reward\na,1,0,improved\n",
        PATIENTS,
        "a number is needed (reader.rewards says what texts cou",
    ),
    (
        "patient,time,state,reward\na,1,0,better\n",
        ruled(PATIENTS, rewards={"improved": 1}),
        "line 2, column reward: reader.rewards knows improved; found 'better'",
    ),
    (
        "patient,time,state,reward\na,1,0,1\n",
        ruled(PATIENTS, rewards=[1]),
        "reader.rewards: what each text counts is",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=HALVES, target="treat"),
        "reader.target, at the end: a feature is followed by one of >=",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=HALVES, target="age > 65,5 -> treat, else wait"),
        "a number has a decimal point here",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=HALVES, target="Age > 65 -> treat, else wait"),
        "no column Age; columns are: patient",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=HALVES, target="age > 65 -> operate, else wait"),
        "which reader.behaviour never does",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=HALVES, target="reward = 1 -> treat, else wait"),
        "known before it is decided, and rew",
    ),
    (
        "patient,time,age,action,reward\na,1,old,treat,1\n",
        ruled(RULED, behaviour=HALVES, target=FOLLOWED),
        "line 2, column age: a number is needed (reader.units_row: true where this row says the "
        "units); found 'old'",
    ),
    (
        "patient,time,age,action,reward\na,1,,treat,1\n",
        ruled(RULED, behaviour=HALVES, target=FOLLOWED),
        "line 2, column age: a value is missing (reader.missing: carry",
    ),
    (
        SEEN,
        ruled({**RULED, "target_policy": "x"}, behaviour=HALVES, target=FOLLOWED),
        "is what the rule in reader.targ",
    ),
    (
        SEEN,
        ruled(RULED, behaviour=FOLLOWED, target=FOLLOWED),
        "reader.behaviour: the probability of each action is nee",
    ),
]
VISITS += [  # probabilities as people write them
    (
        SEEN,
        ruled(RULED, behaviour={"treat": "0,5", "wait": "0,5"}, target=HALVES),
        """as in {"treat": 0.5, "wait": 0.5}, not '0,5' of treat""",
    ),
    (
        SEEN,
        ruled(RULED, behaviour={"treat": 0.5, "wait": "50%"}, target=HALVES),
        """reader.behaviour: the probability of each action is needed, as in {"treat": 0.5, """
        """"wait": 0.5}, not '50%' of wait""",
    ),
]
BEGUN = {"start": "10.02.2026 00:00", "interval_seconds": 900}
READINGS = [
    (
        "meter,at,kw\nm,10.02.2026 00:00,1\n",
        {**METERS, "meters": BEGUN},
        "public.meters.start has no time zone: say reader.time_zone, such as Europe/Berlin, or ",
    ),
    (
        "meter;at;kwh\nm;10.02.2026 00:00;0,1\n",
        ruled(
            {**METERS, "meters": {**BEGUN, "interval_seconds": "15 min"}}, time_zone="Europe/Berlin"
        ),
        "the seconds from one reading to the next, as 900 of a quarter of an hour, not '15 min'",
    ),
    (
        "meter;at;kwh\nm;10.02.2026 00:00;0,1\n",
        METERS,
        "as 900 of a quarter of an hour, which is not said",
    ),
    (
        "meter,at,kw\nm,2026-03-29T04:30,1\n",
        ruled(
            {**METERS, "meters": {"start": "2026-03-29T02:30", "interval_seconds": 900}},
            time_zone="Europe/Berlin",
        ),
        "public.meters.start: 2026-03-29T02:30:00 is a time that clocks in Europe/Berlin skip",
    ),
    (
        "meter,at,kw\nm,2026-03-29T02:30,1\n",
        ruled(METERS, time_zone="Europe/Berlin"),
        "a time that clocks in Europe/Berlin do not skip",
    ),
    (
        "meter,at,kw\nm,2026-03-29T01:30,one\n",
        METERS,
        "line 2, column kw: a number is needed (reader.units_row: true where this row says the "
        "units); found 'one'",
    ),
]
CASES = [
    *(("routing", text, public, columns, says) for text, public, columns, says in ROUTES),
    *(("off_policy_evaluation", text, public, "", says) for text, public, says in VISITS),
    *(
        ("dr_ensemble", text, public, "participant=meter,time=at", says)
        for text, public, says in READINGS
    ),
]


@pytest.mark.parametrize(
    ("kind", "text", "public", "columns", "says"), CASES, ids=[case[-1][:50] for case in CASES]
)
def test_tables_on_the_command_line(
    kind: str,
    text: str,
    public: Any,
    columns: str,
    says: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Refused before any server is asked, in one line, and one for each other column that is
    wrong."""
    file = tmp_path / "table.csv"
    file.write_text(text, encoding="latin-1" if "ö" in text else "utf-8")
    told = {**public, "reader": public.get("reader", {})}
    more = ["--columns", columns] if columns else []
    command = [
        "dataset",
        "add",
        str(file),
        "--kind",
        kind,
        "--public",
        json.dumps(told),
        "--epsilon",
        "1",
        "--local",
        *more,
    ]
    assert cli.run([*command, "--server", "http://127.0.0.1:9", "--key", "dsc_x"]) == 1
    told_them = capsys.readouterr()
    assert told_them.out == ""
    assert told_them.err.startswith("discreet: table.csv: ")
    assert says in told_them.err
    _, *others = told_them.err.splitlines()
    assert all(one.startswith("line ") for one in others)  # of other columns


def test_what_is_published_is_said_without_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Field by field, beside a file and in the place of one; the same sentences follow."""
    file, part = tmp_path / "table.csv", tmp_path / "public.json"
    file.write_text("origin,destination\n1,9\n")
    part.write_text(json.dumps({**TRIPS, "zones": 99}))
    said = [f"--set={name}={value}" for name, value in TRIPS.items()]
    for given in (said, ["--public", str(part), "--set=zones=3"]):
        more = [*given, "--set=reader.other_zones=refuse", "--columns", "origin=origin"]
        command = ["dataset", "add", str(file), "--kind", "routing", "--epsilon", "1", "--local"]
        assert cli.run([*command, *more, "--server", "http://127.0.0.1:9", "--key", "dsc_x"]) == 1
        assert "public.zones is 3, so zones are 1 to 3; found 9" in capsys.readouterr().err
    assert cli.run([*command, "--set=zones"]) == 2
    assert "FIELD=VALUE is needed" in capsys.readouterr().err
    assert cli.run(["dataset", "add", str(file), "--kind", "routing", "--epsilon", "1"]) == 2
    told = re.sub(r"[│\s]+", " ", capsys.readouterr().err)
    assert "--set unit=request --set zones=2 --set periods=30 --set period_minutes=60, or" in told
    assert "`discreet init` asks for all of it" in told


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0,0.5,2,5", [0, 0.5, 2, 5]),
        ("0, 0.5, 2", [0, 0.5, 2]),
        ("0; 0,5; 2; 5", [0, 0.5, 2, 5]),
        ("1;2", [1, 2]),
        ("[0, 0.5, 2]", [0, 0.5, 2]),
        ("0,5", "0,5"),
        ("0.5", 0.5),
        ("a,b,c", "a,b,c"),
        ("1,,2", "1,,2"),
        ("true,false,true", "true,false,true"),
        ("1,NaN,2", "1,NaN,2"),
        ("sex = f -> A, else B; C", "sex = f -> A, else B; C"),
    ],
)
def test_lists_of_numbers_are_written_as_people_do(text: str, value: Any) -> None:
    """Two numbers between commas may be one with a decimal comma, so they stay text."""
    assert field_of(f"edges={text}") == ("edges", value)


def test_another_question_is_what_convert_wrote_or_another_job(tmp_path: Path) -> None:
    """Of a job all but the data that it asks; an object that is the value stays one."""
    price, limits = {"price": [0.1, 0.2]}, {"of": "all", "feeder": 420}
    written, job = tmp_path / "price.json", tmp_path / "job.json"
    written.write_text(json.dumps(price))
    asked = {"kind": "dr_ensemble", "dataset": "homes", **price, "limits": limits}
    job.write_text(json.dumps({"problem": asked, "privacy": {"epsilon": 1}, "name": "priced"}))
    assert fields_of(f"price=@{written}") == fields_of(f"@{written}") == [("price", [0.1, 0.2])]
    assert dict(fields_of(f"@{job}")) == {**price, "limits": limits}
    written.write_text(json.dumps(limits))
    assert fields_of(f"limits=@{written}") == [("limits", limits)]
    with pytest.raises(typer.BadParameter, match="the file cannot be read"):
        fields_of(f"@{tmp_path}/none.json")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("meters.xls", "meters.xls is an old workbook: save it as .xlsx in Excel or LibreOffice"),
        ("meters.csv.gz", "meters.csv.gz is compressed: unpack it first"),
        ("meters.doc", ".omx, .json is needed, not meters.doc "),
    ],
)
def test_files_that_are_no_content(
    name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text("meter,at,kw\nm,1,1\n")
    assert cli.run(["dataset", "add", str(file), "--kind", "dr_ensemble", "--epsilon", "1"]) == 2
    assert says in re.sub(r"[│\s]+", " ", capsys.readouterr().err)


@pytest.mark.parametrize("name", ["trips.tsv", "trips.txt", "Trips.CSV"])
def test_text_is_read_whatever_it_is_called(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the command line as by Python and pages; a name in quotes may have two lines."""
    file = tmp_path / name
    file.write_text('"from\nzone"\tto\tperiod\n1\t2\t0\n')
    assert readers.needed("routing", file, TRIPS, None)
    fields = [f"--set={field}={value}" for field, value in TRIPS.items()]
    columns = "--columns=origin=from\nzone,destination=to"
    asked = ["dataset", "preview", str(file), "--kind", "routing", "--local", columns, *fields]
    assert cli.run(asked) in (0, None)
    assert "read as period 0, origin 1, destination 2" in capsys.readouterr().out


def test_text_of_two_bytes_a_letter_is_read(tmp_path: Path) -> None:
    """Excel's Unicode text, whose first bytes say so, unless another encoding is said."""
    file = tmp_path / "table.csv"
    file.write_text("origin,destination,period\n1,2,0\n", encoding="utf-16")
    with pytest.raises(ValueError, match=r"such as --encoding utf-16 .*, in which it begins"):
        readers.read("routing", file, ruled(TRIPS, encoding="utf-8"))
    assert readers.needed("routing", file, TRIPS, {})
    reading = readers.read("routing", file, TRIPS)
    assert reading.columns["origin"].tolist() == [1]


@pytest.mark.parametrize(
    ("zones", "says"),
    [("AB", "1 A, 2 B"), ("ABC", "1 A, 2 B, 3 C"), ("ABCDE", "1 A, 2 B, …, 5 E")],
)
def test_zones_are_told_once(zones: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "zones.csv"
    file.write_text("\n".join(["district", *zones]))
    trips = {"origin": ["A"], "destination": ["B"]}
    reading = readers.read("routing", trips, ruled({**TRIPS, "zones": 5}, zones=str(file)))
    assert f"zones.csv: {says}; a job's network must begin" in reading.notes[0]


def test_the_way_out_of_a_zone_that_is_a_name_is_the_names_of_zones() -> None:
    """And not the words for a missing value, which it is not."""
    table = {"origin": ["Übersee", "1"], "destination": [1, 1]}
    (issue,) = readers.preview("routing", table, TRIPS)["issues"]
    assert (issue["way_out"], issue["expected"]) == ("reader.zones", None)
    assert "For named zones: reader.zones" in issue["detail"]


def test_period_0_begins_as_the_times_of_the_table_are_written() -> None:
    trips = {"origin": [1], "destination": [2], "time": ["03/11/2026 08:10"]}
    days = ruled(TIMED, dates="day_first", start="02/11/2026 07:00", every="day")
    assert readers.read("routing", trips, {**days, "period_minutes": 120}).columns["period"] == [1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--columns", "origin"], "--columns"),
        (["--columns", "origin=from", "--zones", "nowhere.csv"], "nowhere.csv"),
        (["--epsilon", "none"], "--epsilon"),
    ],
)
def test_commands_that_say_too_little(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "table.csv"
    file.write_text("from,to\n1,2\n")
    told = ["--kind", "routing", "--public", json.dumps(TRIPS), "--epsilon", "1"]
    assert cli.run(["dataset", "add", str(file), *told, *arguments]) == 2
    assert says in re.sub(r"\s+", " ", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (
            ["--day", "2026-10-26"],
            "a day begins by the clock of a place: say its time zone, such as Europe/Berlin",
        ),
        (
            ["--start", "2026-10-26T00:00", "--steps", "24"],
            "the start has no time zone: say that of the market",
        ),
        (
            ["--day", "26.10.2026", "--time-zone", "Europe/Berlin"],
            "a day such as 2026-10-25 is needed, not '26.10.2026'",
        ),
        (
            ["--day", "2026-10-26", "--time-zone", "Europe/Berlin"],
            "several columns are named like a price, A [EUR/MWh]",
        ),
        (
            [
                "--day",
                "2026-10-26",
                "--time-zone",
                "Europe/Berlin",
                "--columns",
                "price=A [EUR/MWh]",
            ],
            "no price of the step from 2026-10-26 02:00 on; the file has 2026-10-26 00:00 to "
            "2026-10-26 02:00",
        ),
        (
            ["--day", "2026-10-26", "--time-zone", "Europe/Berlin", "--columns", "price=C"],
            "no column C; columns are: ",
        ),
    ],
)
def test_price_files(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "prices.csv"
    file.write_text(
        "Zeit;A [EUR/MWh];B [EUR/MWh]\n26.10.2026 00:00;80,5;1\n26.10.2026 01:00;-3;1\n"
    )
    command = ["convert", "prices", str(file), "--interval-seconds", "3600", *arguments]
    assert cli.run(command) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("discreet: prices.csv: ")
    assert says in told.err


@pytest.mark.parametrize(
    ("kind", "table", "public", "says"),
    [
        (
            "routing",
            {"origin": [1, 2], "destination": [2]},
            TRIPS,
            "columns of one length are needed: origin",
        ),
        ("routing", {}, TRIPS, "the table is empty"),
        (
            "routing",
            {"origin": [1], "destination": [np.nan]},
            TRIPS,
            "row 0, column destination: a value is missing",
        ),
        (
            "off_policy_evaluation",
            {"patient": ["a", None], "time": [1, 2], "state": [0, 1], "reward": [0, 0]},
            PATIENTS,
            "row 1, column patient: a value is missing",
        ),
        (
            "off_policy_evaluation",
            {"patient": ["a"], "when": [1], "state": [0], "reward": [0]},
            PATIENTS,
            "or columns={'time': …} in Python",
        ),
    ],
)
def test_frames_in_python(kind: str, table: Any, public: Any, says: str) -> None:
    sources = [table]
    if table and len({len(column) for column in table.values()}) == 1:
        sources.append(pd.DataFrame(table))
    for source in sources:
        with pytest.raises(ValueError, match=re.escape(says)):
            readers.read(kind, source, public)


UPLOADS = [
    (
        "from,to,period,count\n1,2,0,1\n",
        TRIPS,
        "column 'origin' is missing; columns are: from, to, period, count",
    ),
    (
        "period,origin,destination,count\n0,0,1,1\n0,1,2,1\n",
        TRIPS,
        "count from 1; yours look 0-based: must be",
    ),
    (
        'period,origin,destination,count\n0,1,2,"1,5"\n',
        TRIPS,
        "numbers with decimal commas need ';' between columns",
    ),
    (
        "period,origin,destination,count\n0,1,2,one\n0,2,1,two\n",
        TRIPS,
        "found 'one' (and 1 more like this, at /content/1",
    ),
    ("period,origin,destination,count\n0,1,2,NaN\n", TRIPS, "an integer is needed; found nan"),
    (
        "period,origin,destination,count\n0,1,2,1\n",
        PERSONS,
        "column 'person' is missing; public.unit is perso",
    ),
    ("period;origin;destination;count\n0;1;2;1,5\n", TRIPS, "an integer is needed; found 1.5"),
    ("", TRIPS, "the file is not read: it is empty"),
]


@pytest.mark.parametrize(
    ("text", "public", "says"), UPLOADS, ids=[case[-1][:50] for case in UPLOADS]
)
def test_uploads(text: str, public: Any, says: str, api_only: Installation, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(text)
    with api_only.client() as client, pytest.raises(ApiError) as refused:
        client.register("routing", public, file, cap=1)
    assert any(says in issue["detail"] for issue in refused.value.problem["errors"]), (
        refused.value.problem
    )


def test_tables_with_semicolons_are_read(api_only: Installation, tmp_path: Path) -> None:
    """The same dataset, however it is written, also where the command line and its readers have no
    part."""
    texts = (
        "trajectory,step,state,next_state,reward,terminal\n1,0,0,1,0.25,true\n2,0,1,1,-0.5,true\n",
        "trajectory;step;state;next_state;reward;terminal\n1;0;0;1;0,25;true\n2;0;1;1;-0,5;true\n",
        "trajectory\tstep\tstate\tnext_state\treward\tterminal\n1\t0\t0\t1\t0.25\ttrue\n2\t0\t1\t1\t-0.5\ttrue\n",
    )
    made = []
    with api_only.client() as client:
        for text in texts:
            file = tmp_path / "table.csv"
            file.write_text(text)
            made.append(client.register("off_policy_evaluation", PATIENTS, file, cap=1)["id"])
    assert len(set(made)) == 1


MONTH = {**bodies.dataset(), "name": "november trips"}


@pytest.fixture(scope="module")
def dataset(api_only: Installation) -> str:
    with api_only.client() as client:
        return str(client.register(MONTH)["id"])


def job(dataset: str, changes: dict[str, Any]) -> dict[str, Any]:
    body = bodies.job(dataset, 0.1)
    return {**body, "problem": {**body["problem"], **changes}}


@pytest.mark.parametrize(
    ("change", "privacy", "pointer", "says"),
    [
        ({"kind": "rooting"}, {}, "/problem/kind", "must be one of 'routing', "),
        (
            {"dataset": "november trips"},
            {},
            "/problem/dataset",
            "an id is needed, which begins with dst_",
        ),
        ({}, {"epsilon": 0}, "/privacy/epsilon", "must be greater than 0"),
        ({}, {"epsilon": "1"}, "/privacy/epsilon", "a number is needed, in JSON without quotes"),
        ({}, {"epsilon": 1, "unit": "household"}, "/privacy/unit", "request"),
        (
            {"network": bodies.network(2)},
            {},
            "/problem/network/nodes",
            "your network has 2 nodes, the dataset",
        ),
        ({"objektive": "x"}, {}, "/problem/objektive", "did you mean `objective`?"),
        (
            {"max_trips_per_person": 2},
            {},
            "/problem/max_trips_per_person",
            "the dataset's unit is a request",
        ),
    ],
)
def test_jobs(
    change: Any, privacy: Any, pointer: str, says: str, api_only: Installation, dataset: str
) -> None:
    body = job(dataset, change)
    body["privacy"] = {**body["privacy"], **privacy}
    with api_only.client() as client, pytest.raises(ApiError) as refused:
        client.submit(body)
    found = {issue["pointer"]: issue["detail"] for issue in refused.value.problem["errors"]}
    assert says in found.get(pointer, ""), refused.value.problem


def test_what_is_known_under_another_mode_names_the_dataset(
    api_only: Installation, dataset: str
) -> None:
    with api_only.client() as client, pytest.raises(ApiError) as refused:
        client.register({**MONTH, "mode": "simulation"})
    says = f"this content is registered with another mode, private, as november trips ({dataset})"
    assert refused.value.problem["detail"] == says


def test_what_is_known_with_another_public_part_says_what_differs_and_what_to_do(
    api_only: Installation, dataset: str
) -> None:
    with api_only.client() as client, pytest.raises(ApiError) as refused:
        client.register({**MONTH, "public": {**MONTH["public"], "period_minutes": 7}})
    says = f"this content is registered with another public part as november trips ({dataset})"
    do = "; they differ in period_minutes: submit jobs on that dataset, undo the difference here, "
    do += f"or correct it, since nothing was given away: discreet dataset correct {dataset} "
    do += f"--set FIELD=VALUE, PATCH /v1/datasets/{dataset}, or its page"
    assert refused.value.problem["detail"] == says + do


def test_an_exhausted_budget_says_who_grants(api_only: Installation, dataset: str) -> None:
    with api_only.client() as client, pytest.raises(ApiError) as refused:
        client.submit({**job(dataset, {}), "privacy": {"epsilon": 500}})
    account = refused.value.problem["binding"]["account"]
    says = f"Nothing was charged. Owner: discreet cap grant {account},"
    says += f" POST /v1/budgets/{account}/grants, or the dashboard"
    says += f". To ask one: POST /v1/budgets/{account}/requests"
    assert refused.value.problem["detail"].endswith(says)
