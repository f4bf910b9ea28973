"""`discreet reproduce networks FOLDER`: equilibria of public demands beside published flows, by
closed forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from discreet import cli
from discreet.reproduce.road_networks import Row, road_networks

# Two ways from 1 to 2: the link, time 10 and toll 4, and two links of 5 y each; x trips take the
# second: 10 x = 12.
NET = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 3
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 3
<END OF METADATA>
~ init term capacity length fft b power speed toll type ;
 1 2 99999 3 10 0 4 0 4 1 ;
 1 3 1 0 1e-8 5e8 1 0 0 1 ;
 3 2 1 0 1e-8 5e8 1 0 0 1 ;
"""
TRIPS = "<NUMBER OF ZONES> 2\n<END OF METADATA>\nOrigin 1\n 1 : 3; 2 : 2.5;\n"
FLOW = "From To Volume Cost\n1 2 1.3 12\n1 3 1.2 6.00000001\n3 2 1.2 6.00000001\n"


def write(
    folder: Path, name: str, net: str = NET, trips: str | None = TRIPS, flow: str | None = None
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for what, text in (("net", net), ("TRIPS", trips), ("flow", flow)):
        if text is not None:
            (folder / f"{name}_{what}.tntp").write_text(text)


def rows_of(folder: Path) -> dict[str, Row]:
    return {row.network: row for row in road_networks(folder)}


def test_the_weight_of_tolls_is_what_explains_the_published_costs(tmp_path: Path) -> None:
    write(tmp_path / "sub", "tolled", flow=FLOW)
    told = NET.replace("<END", "<TOLL FACTOR> .5\n<END")
    write(tmp_path, "told", net=told, flow=FLOW)
    # With a factor of 1 the ways level at 14 of 10 x, 1.4 trips: .2 off on each of three links, of
    # 1.3 and 3.7.
    write(tmp_path, "other", net=told.replace(".5", "1"), flow=FLOW)
    found = rows_of(tmp_path)
    for name in ("tolled", "told"):
        row = found[name]
        assert (row.status, row.reason) == ("loaded", None)
        assert row.gap is not None
        assert row.gap <= 1e-10
        assert row.largest_difference == pytest.approx(0, abs=1e-6)
        assert row.seconds >= 0
        assert row.mib > 1
    assert found["other"].largest_difference == pytest.approx(0.2 / 1.3, rel=1e-6)
    assert found["other"].total_difference == pytest.approx(0.6 / 3.7, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "network file, line 7: a toll of 4, but no factor that converts tolls to time"),
        ({"trips": None}, "there is no trips file x_trips beside it"),
        (
            {"net": NET.replace(" 1 3 1 0", " 1 3 z 0")},
            "network file, line 8: capacity is a number, not 'z'",
        ),
        ({"net": ""}, "network file: <NUMBER OF NODES> is missing"),
        ({"trips": TRIPS.replace("> 2", "> 3")}, "the network file has 2 zones, the trips file 3"),
        (
            {"trips": TRIPS + "Origin 2\n 1 : 1;\n"},
            "trips, but no path, lead from zone 2 to zone 1",
        ),
    ],
)
def test_what_is_refused_and_why(
    tmp_path: Path, options: dict[str, str | None], reason: str
) -> None:
    free = NET.replace(" 0 4 1 ;", " 0 0 1 ;")
    write(tmp_path / "good", "good", net=free)
    write(tmp_path / "x", "x", **({"net": free} if options else {}) | options)  # type: ignore[arg-type]
    found = rows_of(tmp_path)
    assert found["good"].status == "loaded"
    assert (found["x"].status, found["x"].gap) == ("refused", None)
    assert str(found["x"].reason).startswith(reason)


def test_asymmetric_costs_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "Town-Asymmetric", "Town")
    assert "asymmetric" in str(rows_of(tmp_path)["Town"].reason)


def test_flows_of_other_links_and_costs_say_so(tmp_path: Path) -> None:
    free = NET.replace(" 0 4 1 ;", " 0 0 1 ;")
    write(tmp_path, "few", net=free, flow=FLOW.replace("3 2 1.2", "2 3 1.2"))
    write(tmp_path, "dear", net=free, flow=FLOW.replace("6.00000001", "9"))
    found = rows_of(tmp_path)
    assert found["few"].reason == "the flow file has no flow of the link from 3 to 2"
    assert found["few"].largest_difference is None
    assert "not those of the network file" in str(found["dear"].reason)
    # Without a weight 10 x = 10: .2 off on each link.
    assert found["dear"].largest_difference == pytest.approx(0.2 / 1.3, rel=1e-6)


# From 1 to 2 a link that fills, time 1 + y, and two ways of time 3 at any flow by 3 and 4: two
# trips take the first, 0.5 one of the others, nobody knows which.
OPEN = """<NUMBER OF ZONES> 2
<NUMBER OF NODES> 4
<FIRST THRU NODE> 3
<NUMBER OF LINKS> 5
<END OF METADATA>
~ init term capacity length fft b power speed toll type ;
 1 2 1 0 1 1 1 0 0 1 ;
 1 3 1 0 1 0 4 0 0 1 ;
 3 2 1 0 2 0 4 0 0 1 ;
 1 4 1 0 1 0 4 0 0 1 ;
 4 2 1 0 2 0 4 0 0 1 ;
"""


def test_flows_that_the_model_leaves_open_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As in Winnipeg, where optimal flows differ by up to a thousand vehicles. What is published is
    another optimum than any that is found, the same objective, and the same flows elsewhere."""
    flow = "From To Volume Cost\n1 2 2 3\n1 3 .2 1\n3 2 .2 2\n1 4 .3 1\n4 2 .3 2\n"
    write(tmp_path, "open", net=OPEN, flow=flow)
    (row,) = rows_of(tmp_path).values()
    assert (row.status, row.undetermined) == ("loaded", 4)
    assert row.largest_difference == pytest.approx(0, abs=1e-9)
    assert row.objective_difference == pytest.approx(0, abs=1e-9)
    assert "4 of 5 links are not determined" in str(row.left)
    assert cli.run(["reproduce", "networks", str(tmp_path)]) == 0
    assert "are not determined" in " ".join(capsys.readouterr().out.split())


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "good", net=NET.replace(" 0 4 1 ;", " 0 0 1 ;"))
    write(tmp_path, "broken", net="x")
    assert cli.run(["reproduce", "networks", str(tmp_path), "--json"]) == 0
    broken, good = json.loads(capsys.readouterr().out)
    assert set(broken) == {"network", "status", "reason", "gap", "seconds", "mib"}
    assert set(good) == {"network", "status", "gap", "undetermined", "seconds", "mib"}
    assert (broken["gap"], good["status"]) == (None, "loaded")
    assert cli.run(["reproduce", "networks", str(tmp_path), "--threads", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["gap"] == good["gap"]
    assert cli.run(["reproduce", "networks", str(tmp_path)]) == 0
    assert "broken: network file" in capsys.readouterr().out
    (tmp_path / "good_net.tntp").unlink()
    assert cli.run(["reproduce", "networks", str(tmp_path)]) == 1
    assert cli.run(["reproduce", "networks"]) == 2
    assert cli.run(["reproduce", "networks", str(tmp_path / "none")]) == 1
