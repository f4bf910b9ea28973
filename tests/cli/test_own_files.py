"""People's own files through `discreet dataset add`, to a dataset that the service has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from discreet import cli
from discreet.problems.road_networks.network import RoadNetwork
from tests.conftest import Installation

VISITS = (
    "pid;day;age;outcome;dose\na;2;50,5;1;high\na;1;40;0;low\nb;1;120;0,5;high\nc;9;30;0;high\n"
)
PATIENTS = {
    "unit": "trajectory",
    "reward_bound": 1,
    "horizon": 5,
    "ranges": [{"name": "age", "low": 0, "high": 100}],
    "reader": {"behaviour": {"high": 0.5, "low": 0.5}, "target": {"high": 1, "low": 0}},
}
TRIPS = {"unit": "person", "zones": 3, "periods": 1, "period_minutes": 60}


def add(service: Installation, file: Path, kind: str, public: Any, *more: str) -> list[str]:
    told = ["--kind", kind, "--public", json.dumps(public), "--epsilon", "1", "--json", *more]
    return ["dataset", "add", str(file), *told, "--server", service.url, "--key", service.owner_key]


def test_visits_become_transitions(
    api_only: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """The same dataset, whether the service reads the file or it is read at home."""
    file = tmp_path / "visits.csv"
    file.write_text(VISITS)
    columns = "patient=pid,time=day,reward=outcome,action=dose"
    assert (
        cli.run(add(api_only, file, "off_policy_evaluation", PATIENTS, "--columns", columns)) == 0
    )
    made = json.loads(capfd.readouterr().out)
    assert made["public"]["ranges"] == PATIENTS["ranges"]
    assert (made["public"]["features"], made["public"]["off_policy"]) == (1, True)
    assert made["public"]["columns"]["patient"] == "pid"
    given = ("--columns", columns, "--local")
    assert cli.run(add(api_only, file, "off_policy_evaluation", PATIENTS, *given)) == 0
    assert json.loads(capfd.readouterr().out)["id"] == made["id"]


def test_trips_by_names_of_zones(
    api_only: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file, zones = tmp_path / "trips.csv", tmp_path / "zones.csv"
    file.write_text(
        "from_zone,to_zone,traveller\nnorth,south,zoe\nsouth,east,adam\nnorth,south,zoe\n"
    )
    zones.write_text("id\nnorth\neast\nsouth\n")
    columns = "origin=from_zone,destination=to_zone,person=traveller"
    assert (
        cli.run(add(api_only, file, "routing", TRIPS, "--columns", columns, "--zones", str(zones)))
        == 0
    )
    made = json.loads(capfd.readouterr().out)
    trips = [(1, 3, 2, "a"), (3, 2, 1, "b")]
    names = ("origin", "destination", "count", "person")
    content = {"trips": [{"period": 0, **dict(zip(names, trip, strict=True))} for trip in trips]}
    with api_only.client() as client:
        assert client.register("routing", TRIPS, content, cap=1)["id"] == made["id"]


def test_tables_as_excel_writes_them(
    api_only: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In cp1252, with rows that lack a value: the same trips as in UTF-8, and the same roads."""
    file, zones, roads = (tmp_path / f"{name}.csv" for name in ("trips", "zones", "roads"))
    file.write_text(
        "origin,destination,count\nKöln,Süd,5\nSüd,,7\n,Köln,1\nSüd,Köln,\nSüd,Nord,2\n",
        encoding="cp1252",
    )
    zones.write_text("id\nKöln\nNord\nSüd\n", encoding="cp1252")
    public = {**TRIPS, "unit": "request", "reader": {"missing": "leave_out"}}
    given = add(api_only, file, "routing", public, "--zones", str(zones))
    assert cli.run(given) == 1
    assert "line 2 is not UTF-8" in capfd.readouterr().err
    assert cli.run([*given, "--encoding", "cp1252"]) == 0
    told = capfd.readouterr()
    assert "3 rows with a value that is missing are left out" in told.err
    trips = [{"period": 0, "origin": 1, "destination": 3, "count": 5}]
    trips += [{"period": 0, "origin": 3, "destination": 2, "count": 2}]
    plain = {**TRIPS, "unit": "request"}
    with api_only.client() as client:
        assert (
            client.register("routing", plain, {"trips": trips}, cap=1)["id"]
            == json.loads(told.out)["id"]
        )
    zones.write_text("id\nKöln\nNord\nSüd\n", encoding="utf-8")  # each file in its own
    assert cli.run([*given, "--encoding", "cp1252"]) == 0
    capfd.readouterr()

    links = "tail,head,free_flow_time,capacity,name\nKöln,Süd,3,50,Straße\n"
    roads.write_text(links, encoding="cp1252")
    stored = [
        "network",
        "add",
        str(roads),
        "--json",
        "--server",
        api_only.url,
        "--key",
        api_only.owner_key,
    ]
    assert cli.run(stored) == 1
    assert (
        "line 2 is not UTF-8: save roads.csv as CSV in UTF-8, or name its encoding"
        in capfd.readouterr().err
    )
    assert cli.run([*stored, "--encoding", "cp1252"]) == 0
    first = json.loads(capfd.readouterr().out)["id"]
    roads.write_text(links, encoding="utf-8")
    assert cli.run(stored) == 0
    assert json.loads(capfd.readouterr().out)["id"] == first


def test_a_file_that_is_as_the_service_reads_it_goes_there_as_it_is(
    api_only: Installation,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from discreet_client import readers

    def never(*_: Any) -> Any:
        raise AssertionError

    file = tmp_path / "plain.csv"
    file.write_text("period,origin,destination,count\n0,1,2,5\n0,2,3,7\n")
    monkeypatch.setattr(readers, "read", never)
    assert cli.run(add(api_only, file, "routing", {**TRIPS, "unit": "request"})) == 0
    assert json.loads(capfd.readouterr().out)["name"] == "plain"


def test_trips_by_the_names_of_a_stored_network(
    service: Installation, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Zones are called and numbered as its nodes, whose order is not that of any file; a job and a
    picture of its answer need neither an id nor the job file."""
    roads, places, trips = (tmp_path / f"{name}.csv" for name in ("roads", "places", "trips"))
    roads.write_text("tail,head,free_flow_time,capacity\nWest,East,3,50\nEast,West,3,50\n")
    places.write_text("node,x,y,zone\nWest,0,0,2\nEast,1,0,1\n")
    trips.write_text("origin,destination,count\nWest,East,40\n")
    far = tmp_path / "far.csv"
    far.write_text("tail,head,length,speed,capacity\nWest,East,800,50,9\n")
    here = ["--server", service.url, "--key", service.owner_key]
    assert (
        cli.run(["network", "add", str(roads), str(places), "--name", "two districts", *here]) == 0
    )
    public = {"unit": "request", "zones": 2, "periods": 1, "period_minutes": 60}
    named = {**public, "reader": {}}
    assert cli.run(["network", "list", "--json", *here]) == 0
    capfd.readouterr()
    assert cli.run(["network", "show", "two districts", "--json", *here]) == 0
    assert json.loads(capfd.readouterr().out)["network"]["node_names"] == ["East", "West"]
    assert cli.run(["network", "show", "three districts", *here]) == 1
    assert "no network is called three districts. The names are: " in capfd.readouterr().err
    assert (
        cli.run(["network", "add", str(far), "--units", "km,kph", "--both-ways", "--json", *here])
        == 0
    )
    told = capfd.readouterr()
    made = json.loads(told.out)
    assert (made["links"], len(made["warnings"])) == (2, 1)
    assert f"warning: {made['warnings'][0]}" in told.err
    assert (
        cli.run(
            add(
                service,
                trips,
                "routing",
                named,
                "--zones",
                "two districts",
                "--name",
                "two districts",
            )
        )
        == 0
    )
    made = json.loads(capfd.readouterr().out)
    with service.client() as client:
        content = {"trips": [{"period": 0, "origin": 2, "destination": 1, "count": 40}]}
        assert client.register("routing", public, content, cap=1)["id"] == made["id"]
    assert (
        cli.run(add(service, trips, "routing", {**named, "zones": 3}, "--zones", "two districts"))
        == 1
    )
    assert "the network has 2 nodes, and public.zones is 3" in capfd.readouterr().err

    job, answer, picture = tmp_path / "job.json", tmp_path / "answer.json", tmp_path / "answer.png"
    problem = {"kind": "routing", "dataset": made["id"], "network": "two districts"}
    job.write_text(json.dumps({"problem": problem, "privacy": {"epsilon": 1}}))
    assert cli.run(["submit", str(job), "--wait", "--out", str(answer), *here]) == 0
    assert cli.run(["draw", str(answer), "--out", str(picture), *here]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    asked = json.loads(answer.read_text())["job"]["id"]
    assert "Links, busiest first" in capfd.readouterr().out
    sheet = tmp_path / "flows.csv"
    assert cli.run(["result", asked, "--format", "csv", "--out", str(sheet), *here]) == 0
    assert "West → East" in capfd.readouterr().out
    assert (
        sheet.read_text(encoding="utf-8-sig").splitlines()[1].startswith("West → East,West,East,3")
    )
    assert cli.run(["ask", asked, "--close", "West->East", *here]) == 1  # of a stored network
    refused = capfd.readouterr().err
    assert "closed: West → East" in refused
    assert "no path leads from zone 2 (West) to zone 1 (East)" in refused
    picture.unlink()
    assert cli.run(["draw", str(answer), "--problem", str(job), "--out", str(picture), *here]) == 0
    assert picture.exists()


def test_what_a_closed_road_changes_is_told(
    service: Installation, capfd: pytest.CaptureFixture[str]
) -> None:
    """The total before and after, and the links whose flows change most: the way over the third
    place takes it."""
    network = {
        **RoadNetwork.example(),
        "link_names": ["Main", "Main (back)", "River", "River (back)", "Ring", "Ring 2"],
    }
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    trips = [{"period": 0, "origin": 1, "destination": 2, "count": 400}]
    here = ["--server", service.url, "--key", service.owner_key]
    with service.client() as client:
        dataset = client.register("routing", public, {"trips": trips}, cap=1)["id"]
        first = client.solve(
            {"kind": "routing", "dataset": dataset, "network": network}, epsilon=1
        ).id
    assert cli.run(["ask", first, "--close", "Main", *here]) == 0
    told = capfd.readouterr()
    assert "closed: Main, Main (back)" in told.err, "both ways of a street"
    assert re.search(
        r"Closing Main \(1 → 2\) and Main \(back\) \(2 → 1\) adds [\d,.]+ \([\d.]+ %\) "
        r"to total travel time \(90 % NI: [\d,.]+–[\d,.]+\)",
        " ".join(told.out.split()),
    )
    changed = told.out[told.out.index("The flows that change most") :]
    ring = next(line for line in changed.splitlines() if "Ring " in line and "+" in line)
    assert float(ring.split("+")[1].split(" (")[0]) > 100
