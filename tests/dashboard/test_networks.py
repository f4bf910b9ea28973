"""Networks on pages: from a town's own files to a stored network and an answer on it, with and
without JavaScript, as `discreet network add` reads them, and what is sent in bad will."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Browser as Chromium

from discreet.dashboard import network_forms
from discreet.isolation.network_files import ENCODINGS, read_network
from discreet.problems.road_networks.network import RoadNetwork
from discreet.web import form_files
from discreet_client import networks
from discreet_client.networks import FileInMemory
from discreet_client.networks.columns import (
    LINK_ROLES,
    NODE_ROLES,
    guess,
    tables_of,
    units_of_headings,
)
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser, Page
from tests.dashboard.chromium import problems_of, tab
from tests.growth import LINEAR, growth
from tests.problems.test_tntp import NETWORK, NODES

GERMAN = (
    "Von-Knoten;Nach-Knoten;Straße;Länge [km];Tempo [km/h];Kapazität;Farbe\n"
    "1;2;Markt;0,4;30;800;rot\n2;1;Markt;0,4;30;800;rot\n"
    "2;3;Süd;1,2;50;900;rot\n3;2;Süd;1,2;50;900;rot\n"
).encode("cp1252")
EVIL = '<img src=x onerror="globalThis.hacked=1">'
LINE = b"""{"features": [{"geometry": {"type": "LineString", "coordinates": [[0, 0], [1, 1]]},
"properties": {%b}}]}"""
LENGTHS = {"length_unit": "km", "speed_unit": "kph"}


@pytest.fixture(scope="module")
def owner(api_only: Installation) -> str:
    return api_only.owner_of("networks of pages")


@pytest.fixture
def visitor(api_only: Installation, owner: str) -> Iterator[Browser]:
    with Browser.logged_in(api_only, owner) as browser:
        yield browser


def sent(visitor: Browser, page: Page, files: dict[str, bytes], **fields: str) -> Page:
    parts = [("files", (name, content)) for name, content in (files or {"": b""}).items()]
    return visitor.submit(page, "/networks/new", files=parts, **fields)


def issues(page: Page) -> list[str]:
    """The fields that something is said beside."""
    ids = [str(values["id"]) for _, values in page.tags if str(values.get("id")).endswith("-wrong")]
    return [one.removesuffix("-wrong") for one in ids]


def stored(visitor: Browser, page: Page) -> dict[str, Any]:
    """The network of the page that an upload was answered with."""
    place = page.response.headers["content-location"]
    found: dict[str, Any] = visitor.http.get(f"{place}/network.json").json()
    return found


def test_a_german_table_comes_in_without_javascript_as_the_command_line_reads_it(
    visitor: Browser, tmp_path: Path
) -> None:
    """What is wrong is said beside its field, all that was typed is kept, and columns of names of
    their own are asked about, with the reader's guesses filled in."""
    page = sent(visitor, visitor.get("/networks/new"), {}, name="Kleinstadt")
    assert (page.status, issues(page)) == (422, ["files"])
    files = {"strassen.csv": GERMAN}
    page = sent(visitor, page, files)
    assert (page.status, issues(page)) == (422, ["encoding"])
    page = sent(visitor, page, files, encoding="cp1252")
    assert (page.status, issues(page)) == (422, ["columns"])
    fields = page.form("/networks/new")["fields"]
    assert (fields["name"], fields["encoding"]) == ("Kleinstadt", "cp1252")
    columns = [fields[f"column-{place}"] for place in range(7)]
    meant = dict(zip(columns, (fields[f"means-{place}"] for place in range(7)), strict=True))
    assert meant == {
        "Von-Knoten": "tail",
        "Nach-Knoten": "head",
        "Straße": "name",
        "Länge [km]": "length",
        "Tempo [km/h]": "speed",
        "Kapazität": "capacity",
        "Farbe": "",
    }
    assert (fields["length_unit"], fields["speed_unit"]) == ("km", "kph")  # as the headings say
    page = sent(visitor, page, files, speed_unit="")
    assert (page.status, issues(page)) == (422, ["speed_unit"])
    page = sent(visitor, page, files, speed_unit="kph", period_minutes="half an hour")
    assert (page.status, issues(page)) == (422, ["period_minutes"])
    page = sent(visitor, page, files, period_minutes="30")
    assert page.status == 201, page.text
    assert "nothing was asked of Farbe" in page.text
    (tmp_path / "strassen.csv").write_bytes(GERMAN)
    roles = {role: column for column, role in meant.items() if role}
    options: dict[str, Any] = {"units": "km,kph", "period_minutes": 30, "encoding": "cp1252"}
    expected = networks.read(tmp_path / "strassen.csv", columns=roles, **options).network
    made = RoadNetwork.model_validate(stored(visitor, page))
    assert made == RoadNetwork.model_validate(expected)
    again = visitor.get(page.response.headers["content-location"])
    assert again.status == 200
    assert "/jobs/new?network=net_" in again.response.text
    assert "nothing was asked" not in again.text
    listed = visitor.get("/networks")
    assert "Kleinstadt" in listed.text
    assert any(one.endswith("/network.json") for one in listed.links)


GERMAN_ROLES = {
    "tail": "Von-Knoten",
    "head": "Nach-Knoten",
    "name": "Straße",
    "length": "Länge [km]",
    "speed": "Tempo [km/h]",
    "capacity": "Kapazität",
}
GMNS_LINKS = (
    "link_id,from_node_id,to_node_id,length,free_speed,capacity\n1,1,2,1,60,900\n2,2,1,1,60,900\n"
)
GMNS_NODES = "node_id,name,x_coord,y_coord,zone_id\n1,Süd,0,0,1\n2,Nord,1,1,2\n"


@pytest.mark.parametrize(
    ("files", "fields", "zones"),
    [
        ({"a_net.tntp": NETWORK, "a_node.tntp": NODES}, {}, 2),
        ({"link.csv": GMNS_LINKS, "node.csv": GMNS_NODES}, LENGTHS, 2),
        ({"l.csv": "tail,head,free_flow_time,capacity\n1,2,3,4\n2,1,3,4\n"}, {}, None),
    ],
)
def test_formats_are_told_by_names_and_the_list_says_how_many_zones(
    visitor: Browser,
    files: dict[str, str],
    fields: dict[str, str],
    zones: int | None,
    tmp_path: Path,
) -> None:
    contents = {name: text.encode() for name, text in files.items()}
    page = sent(visitor, visitor.get("/networks/new"), contents, name="One", **fields)
    assert page.status == 201, page.text
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    units = {"units": "km,kph"} if fields else {}
    expected = networks.read(*(tmp_path / name for name in files), **units)  # type: ignore[arg-type]
    assert expected.zones == zones
    assert RoadNetwork.model_validate(stored(visitor, page)) == RoadNetwork.model_validate(
        expected.network
    )
    rows = [row for row in visitor.get("/networks").response.text.split("<tr>") if "One" in row]
    assert f'data-label="Zones" class="number">{zones or "–"}<' in rows[0]
    same = sent(visitor, visitor.get("/networks/new"), contents, name="Two", **fields)
    assert same.status == 200
    assert "is stored already, as One" in same.text


@pytest.mark.parametrize(
    ("files", "fields"),
    [
        ({"town_net.tntp": NETWORK.encode(), "town_node.tntp": NODES.encode()}, {}),
        ({"town.geojson": LINE % b'"length": 1, "speed": 50, "capacity": 9'}, LENGTHS),
        ({"strassen.csv": GERMAN}, {"encoding": "cp1252"}),
    ],
)
def test_the_form_of_a_job_has_files_read_by_the_same_reader(
    visitor: Browser, tmp_path: Path, files: dict[str, bytes], fields: dict[str, str]
) -> None:
    """Also without JavaScript; all but the network stays as it was written, however long it is."""
    job = visitor.get("/jobs/new?kind=routing").form("/jobs/new")["fields"]
    body = json.loads(job["body"]) | {"privacy": {"epsilon": 0.123}}
    job = {**job, "body": json.dumps(body) + " " * 2 * form_files.FIELD_BYTES}
    headers = {"Origin": visitor.origin}
    asked = Page(visitor.http.post("/jobs/new/network", data=job, headers=headers))
    parts = [("files", (name, content)) for name, content in files.items()]
    page = visitor.submit(asked, "/jobs/new/network", files=parts, **fields)
    if issues(page) == ["columns"]:
        page = visitor.submit(page, "/jobs/new/network", files=parts)  # as it guesses
    assert "How the files were read" in page.text, page.text
    found = json.loads(page.form("/jobs/new")["fields"]["body"])
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    options: dict[str, Any] = {} if "town_net.tntp" in files else {"units": "km,kph"}
    if "strassen.csv" in files:
        options |= {"encoding": "cp1252", "columns": GERMAN_ROLES}
    expected = networks.read(*(tmp_path / name for name in files), **options).network
    network = RoadNetwork.model_validate(found["problem"].pop("network"))
    assert network == RoadNetwork.model_validate(expected)
    del body["problem"]["network"]
    assert found == body
    back = visitor.submit(asked, "/jobs/new", action="price")
    assert back.form("/jobs/new")["fields"]["body"].strip() == job["body"].strip()
    for wrong in ("", "[]", '{"problem": 3}', "[" * 5000):
        page = visitor.submit(asked, "/jobs/new/network", files=parts, **fields, body=wrong)
        assert page.status in (400, 422)


def test_who_reads_files_for_a_job(api_only: Installation, visitor: Browser, owner: str) -> None:
    """Whoever may submit one, whether or not they may store a network."""
    with api_only.client(owner) as client:
        keys = {
            role: client.create_key(role=role, principal=f"{role} of jobs")["key"]
            for role in ("analyst", "auditor")
        }
    for role, key in keys.items():
        with Browser.logged_in(api_only, key) as other:
            token = next(form for form in other.get("/networks").forms)["fields"]["csrf"]
            answer = other.http.post(
                f"/jobs/new/network?csrf={token}",
                files={"files": ("a_net.tntp", NETWORK)},
                data={"body": json.dumps({"problem": {"kind": "routing"}}), "kind": "routing"},
                headers={"Origin": other.origin},
            )
            assert (answer.status_code == 403) is (role == "auditor"), answer.text
    assert "a_net" not in visitor.get("/networks").text


def test_a_network_leads_to_a_dataset_with_its_zones_and_a_job_on_it(
    api_only: Installation, visitor: Browser, owner: str
) -> None:
    """Also where the dataset at hand has more zones: the job names it all the same, and its price
    says why it cannot be."""
    contents = {"a_net.tntp": NETWORK.encode(), "a_node.tntp": NODES.encode()}
    page = sent(visitor, visitor.get("/networks/new"), contents)
    network = page.response.headers["content-location"].rpartition("/")[2]
    form = page.form("/datasets/new")["fields"]
    assert form == {"kind": "routing", "zones": "2"}
    step = visitor.get(f"/datasets/new?kind={form['kind']}&zones={form['zones']}&unit=x&nodes=4")
    public = json.loads(step.form("/datasets/new")["fields"]["public"])
    assert (public["zones"], public["unit"]) == (2, "request")
    assert "nodes" not in public

    def asked() -> dict[str, Any]:
        text = visitor.get(f"/jobs/new?network={network}").form("/jobs/new")["fields"]["body"]
        body: dict[str, Any] = json.loads(text)["problem"]
        return body

    assert (asked()["network"], asked()["dataset"]) == (network, "dst_…")
    with api_only.client(owner) as client:
        large = client.register(bodies.dataset())["id"]
        assert asked() | {"network": network} == asked()
        fitting = bodies.dataset(name="two")
        fitting["public"]["zones"] = 2
        trip = {"period": 0, "origin": 1, "destination": 2, "count": 3}
        fitting["content"] = {"trips": [trip]}
        small = client.register(fitting)["id"]
        client.register(bodies.dataset(name="newer"))
    assert large != small
    assert asked()["dataset"] == small
    assert visitor.get("/jobs/new?network=net_never").status == 404


def test_who_may_add_and_who_sees(api_only: Installation, visitor: Browser, owner: str) -> None:
    contents = {"a_net.tntp": NETWORK.encode()}
    page = sent(visitor, visitor.get("/networks/new"), contents)
    place = page.response.headers["content-location"]
    assert "There is no map" in page.text
    with api_only.client(owner) as client:
        keys = {
            role: client.create_key(role=role, principal=role)["key"]
            for role in ("analyst", "auditor")
        }
    addresses = ("/networks", place, f"{place}/network.json")
    for key in keys.values():
        with Browser.logged_in(api_only, key) as other:
            assert [other.http.get(one).status_code for one in addresses] == [200, 200, 200]
            assert other.get("/networks/new").status == 403
            token = next(form for form in other.get("/networks").forms)["fields"]["csrf"]
            answer = other.http.post(
                f"/networks/new?csrf={token}",
                files={"files": ("a_net.tntp", NETWORK)},
                headers={"Origin": other.origin},
            )
            assert answer.status_code == 403
    with Browser.logged_in(api_only, api_only.owner_of("others than those")) as stranger:
        found = [stranger.http.get(one).status_code for one in addresses]
        assert found == [200, 404, 404]
        assert stranger.http.get(f"{place}/charts/map.json").status_code == 404
        assert "a_net" not in stranger.get("/networks").text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.geojson", b"[" * 200_000),
        ("a.geojson", b'{"features": ' + b'{"a":' * 5000),
        ("a.csv", b"\x00\xff\xfe" * 100),
        ("a.csv", b'"' + b"a" * 200_000),
        ("a.csv", b"a;" * 100_000 + b"\n"),
        ("../../etc/passwd", b"root"),
        (EVIL + ".csv", f"{EVIL},b\n1,2\n".encode()),
        ("a_net.tntp", b"<NUMBER OF NODES> 900000000\n<NUMBER OF ZONES> 1\n<END OF METADATA>\n"),
        ("a.csv", b"tail,head,free_flow_time,capacity\n1,2,nan,1\n"),
        ("a.csv", b"tail,head,free_flow_time,capacity\n1,2,1,1e999\n"),
        ("a.csv", b"tail,head,free_flow_time,capacity\n1,2,1,0.0\n" * 2),
        ("a.geojson", LINE % rb'"\ud800": 1, "cap\udfff": 1'),
        ("a.geojson", LINE % rb'"tail": 1, "head": 2, "capacity": 1, "free_flow_time": "\ud800"'),
    ],
)
def test_hostile_files_are_refused_beside_a_field(
    visitor: Browser, name: str, content: bytes
) -> None:
    page = sent(visitor, visitor.get("/networks/new"), {name: content})
    assert page.status == 422, page.text
    assert EVIL not in page.response.text
    assert issues(page), page.text
    assert len(page.response.content) < 100_000


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400),
        (b"--x\r\n", 400),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + b"a" * 5000, 400),
        (b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 600 + b"--x--", 400),
        (b"--x\r\n" + b"".join(b"A%d: 1\r\n" % one for one in range(50)), 400),
        (b"--x\r\nContent-Disposition: form-data\r\n\r\n1\r\n--x--\r\n", 422),
    ],
)
def test_bodies_that_are_no_form(visitor: Browser, body: bytes, status: int) -> None:
    answer = visitor.http.post(
        visitor.get("/networks/new").form("/networks/new")["action"],
        content=body,
        headers={"Origin": visitor.origin, "Content-Type": "multipart/form-data; boundary=x"},
    )
    assert answer.status_code == status, answer.text


def test_a_name_that_no_text_of_the_database_holds(visitor: Browser) -> None:
    head = b"--x\r\nContent-Disposition: form-data; name="
    name = head + b'"name"\r\n\r\na\x00b\r\n'
    file = (
        head
        + b'"through_zones"\r\n\r\nyes\r\n'
        + head
        + b'"files"; filename="a.csv"\r\n\r\ntail,head,free_flow_time,capacity\n1,2,1,1\n'
    )
    answer = visitor.http.post(
        visitor.get("/networks/new").form("/networks/new")["action"],
        content=name + file + b"\r\n--x--\r\n",
        headers={"Origin": visitor.origin, "Content-Type": "multipart/form-data; boundary=x"},
    )
    assert (answer.status_code, issues(Page(answer))) == (422, ["name"])


def test_what_is_too_large_is_refused_before_it_is_read(
    api_only: Installation, visitor: Browser
) -> None:
    most = api_only.settings.job_body_bytes
    page = sent(visitor, visitor.get("/networks/new"), {"a.csv": b"a" * (most + 1)})
    assert page.status == 413
    assert "job_body_bytes" in page.text


def test_names_of_half_a_surrogate_pair_and_places_that_touch_have_a_page(
    visitor: Browser,
) -> None:
    half = LINE % rb'"tail": "\ud800", "head": "b", "free_flow_time": 1, "capacity": 1'
    page = sent(visitor, visitor.get("/networks/new"), {"half.geojson": half})
    assert (page.status, stored(visitor, page)["node_names"]) == (201, ["?", "b"]), page.text
    links = b"tail,head,free_flow_time,capacity\n1,2,1,1\n2,1,1,1\n"
    for places in (b"1,0,0\n2,5e-324,0\n", b"1,0,0\n2,1e-320,1\n", b"1,0,0\n2,0,0\n"):
        files = {"links.csv": links, "nodes.csv": b"node,x,y\n" + places}
        page = sent(visitor, visitor.get("/networks/new"), files)
        assert page.status == 201, page.text
        place = page.response.headers["content-location"]
        drawn = visitor.http.get(f"{place}/charts/map.json")
        assert drawn.status_code == 200
        assert not {"Infinity", "NaN"} & {*drawn.text.replace(":", ",").split(",")}


def test_wide_tables_and_names_of_two_lines_are_asked_about(visitor: Browser) -> None:
    """All that two files may ask comes back with the form."""
    wide = {
        f"{name}.csv": ";".join(f"{name}{one}" for one in range(60)).encode() + b"\n"
        for name in ("tail", "other")
    }
    page = sent(visitor, visitor.get("/networks/new"), wide)
    assert (page.status, "means-119" in page.form("/networks/new")["fields"]) == (422, True)
    again = sent(visitor, page, wide)
    assert again.status == 422, again.text
    table = b'"Von\nKnoten";Nach;"Zeit\n[min]";Kap\n1;2;3;4\n'
    page = sent(visitor, visitor.get("/networks/new"), {"a.csv": table})
    fields = page.form("/networks/new")["fields"]
    assert fields["column-0"] == "Von\nKnoten"
    typed = {name: value.replace("\n", "\r\n") for name, value in fields.items()}
    page = sent(visitor, page, {"a.csv": table}, **{**typed, "means-0": "tail"})
    assert page.status == 201, page.text
    assert stored(visitor, page)["links"][0]["free_flow_time"] == 3


def test_choices_of_columns_that_cannot_be_meant_so() -> None:
    def said(*columns: tuple[str, str, str]) -> network_forms.Asked:
        form = {}
        for place, (of, column, means) in enumerate(columns):
            form |= {f"of-{place}": of, f"column-{place}": column, f"means-{place}": means}
        return network_forms.asked(form)

    twice = said(("links", "A", "tail"), ("links", "B", "tail"))
    assert [one.detail for one in twice.issues] == ["“A” and “B” are both chosen for tail"]
    left = said(("links", "capacity", ""))
    assert "is always read as capacity" in left.issues[0].detail
    other = said(("links", "capacity", ""), ("links", "Kapazität", "capacity"))
    assert (other.issues, other.options["columns"]) == ([], {"capacity": "Kapazität"})
    assert said(("links", "a", "os.system")).options["columns"] == {}
    both = said(("links", "Name", "name"), ("nodes", "Name", "node_name"))
    assert both.options["columns"] == {"name": "Name", "node_name": "Name"}
    assert {*LINK_ROLES, *NODE_ROLES} == network_forms.MEANINGS.keys()
    assert network_forms.asked({"doubled": "x", "encoding": "punycode"}).issues


CSV = "tail,head,length,speed,capacity,toll\n1,2,1,30,9,{}\n2,1,1,30,{},0\n"
TNTP = "<NUMBER OF NODES> 2\n<NUMBER OF ZONES> 2\n<END OF METADATA>\n1 2 1 1 1 0.15 4 0 0 1 ;\n"


@pytest.mark.parametrize(
    ("file", "text", "options", "told"),
    [
        ("a.csv", CSV.replace("head", "to").format(0, 9), {},
         [("columns", "say which column is head, where"),
          ("length_unit", "are needed: say “Lengths in the file are in” and “Speeds"),
          ("speed_unit", "are needed: say “Lengths in the file are in” and “Speeds")]),
        ("a.csv", CSV.format(0, "x"), {"units": "km,kph"}, [("files", "line 3, column capacity")]),
        ("a.csv", CSV.format(5, 9), {"units": "km,kph"},
         [("toll_weight", "give “Time that a unit of toll is worth”, how much")]),
        ("a.csv", CSV.format(0, 9) + "1,2,1,30,9,0\n", {"units": "km,kph"},
         [("doubled", "“Duplicate links with the same figures: become one link with the sum")]),
        ("a.csv", "köpf".join(CSV.split("head")), {},
         [("encoding", "such as “CSV files are written in: cp1252” for one saved by Excel")]),
        ("a_net.tntp", TNTP, {"speed": 3.0}, [("speed", "“Speed on all links” says nothing of")]),
        ("a.csv", CSV.format(0, 9), {"units": "km,kph", "through_zones": False},
         [("through_zones", "“Paths may lead through other zones")]),
    ],
)  # fmt: skip
def test_the_readers_sentences_stand_beside_their_fields(
    file: str, text: str, options: dict[str, Any], told: list[tuple[str, str]]
) -> None:
    """In the words of the page: no option of the command line, nothing of Python."""
    content = text.encode("cp1252")
    asked = {
        "files": [[file, len(content)]],
        "options": options,
        **network_forms.WORDS,
        "chosen": True,
        "limit": {"setting": "most", "unit": "bytes", "allowed": 1 << 20},
    }
    answer, _ = read_network(asked, content, ())
    issues = network_forms.issues_of([(about, says) for about, says in answer["refused"]])
    assert [issue.pointer for issue in issues] == [f"/{field}" for field, _ in told]
    for issue, (_, words) in zip(issues, told, strict=True):
        assert words in issue.detail
        assert "--" not in issue.detail
        assert "Python" not in issue.detail


def test_guesses_take_each_role_once_and_own_names_first() -> None:
    assert guess(["From", "Von", "capacity", "cap"], LINK_ROLES) == {
        "From": "tail",
        "capacity": "capacity",
    }
    assert guess(["laenge_km", "Tempo km/h", "kap_kfz/h", "m"], LINK_ROLES) == {
        "laenge_km": "length",
        "Tempo km/h": "speed",
        "kap_kfz/h": "capacity",
    }
    for length, speed, units in (
        ("Länge km", "Tempo [km/h]", ("km", "km/h")),
        ("length_m", "speed (mph)", ("m", "mph")),
        ("Länge", "Tempo [km/h]", None),
        ("Länge [Meilen]", "Tempo [km/h]", None),
    ):
        assert units_of_headings({length: "length", speed: "speed"}) == units
    assert guess(["Höchstgeschwindigkeit km/h"], LINK_ROLES) == {
        "Höchstgeschwindigkeit km/h": "speed"
    }
    csv = FileInMemory("a.csv", b"Knoten;Name;X;Y\n")
    nodes = tables_of([FileInMemory("l.csv", b"von;nach\n"), csv])[1]
    assert nodes.guessed == {"Knoten": "node", "Name": "node_name", "X": "x", "Y": "y"}
    german = FileInMemory("a.csv", "Knoten;Länge;Breite\n".encode())
    nodes = tables_of([FileInMemory("l.csv", b"von;nach\n"), german])[1]
    assert nodes.guessed == {"Knoten": "node", "Länge": "x", "Breite": "y"}


@pytest.mark.long
def test_reading_costs_in_proportion(tmp_path: Path) -> None:
    """In the child: of links, of columns, of the parts of a form."""
    limit = {"setting": "most", "unit": "bytes", "allowed": 1 << 26}

    def read(content: bytes) -> None:
        asked = {
            "files": [["a.geojson" if content.startswith(b"{") else "a.csv", len(content)]],
            "options": {},
            **network_forms.WORDS,
            "chosen": False,
            "limit": limit,
        }
        read_network(asked, content, ())

    def links(size: int) -> bytes:
        rows = "".join(f"{one},{one + 1},1,1\n" for one in range(size))
        return f"tail,head,free_flow_time,capacity\n{rows}".encode()

    def columns(size: int) -> bytes:
        return ("(;" * size + ";".join(f"von{one}" for one in range(size)) + "\n1\n").encode()

    def properties(size: int) -> bytes:
        lines = (b'{"p%d": 1, "free_flow_time": 1, "capacity": 1}' % one for one in range(size))
        line = LINE.removeprefix(b'{"features": [').removesuffix(b"]}").replace(b"{%b}", b"%b")
        return b'{"features": [%b]}' % b",".join(line % one for one in lines)

    def marks(size: int) -> bytes:
        return ("a" + "\u0315\u0316" * size + "\n1\n").encode()

    def parts(size: int) -> bytes:
        return b'--x\r\nContent-Disposition: form-data; name="a"; filename="a"\r\n\r\n' + (
            b"\r\n--" * size
        )

    def form(body: bytes) -> None:
        with pytest.raises(Exception, match="not a multipart form"):
            form_files._Parts(b"x").read(body)

    assert growth(links, read, 2000) < LINEAR
    assert growth(columns, read, 4000) < LINEAR
    assert growth(properties, read, 500) < LINEAR
    assert growth(marks, read, 1500) < LINEAR
    assert growth(parts, form, 20_000) < LINEAR
    assert "punycode" not in ENCODINGS


# In a browser -------------------------------------------------------------------------------------


def town(folder: Path) -> list[Path]:
    """Four places on a ring with a bridge across, as a GIS exports them, and ten mornings of
    trips."""
    places = {"Nord": (9.9, 53.6), "Ost": (10.1, 53.5), "Süd": (9.95, 53.4), "West": (9.8, 53.5)}
    ways = [("Nord", "Ost"), ("Ost", "Süd"), ("Süd", "West"), ("West", "Nord"), ("Nord", "Süd")]
    features: list[dict[str, Any]] = [
        {
            "type": "Feature",
            "geometry": {"type": "LineString", "coordinates": [places[one], places[other]]},
            "properties": {"Straße": f"{one}–{other}", "Länge": 2.5, "Tempo": 50, "Autos": 300},
        }
        for one, other in ways
    ]
    features += [
        {
            "type": "Feature",
            "geometry": {"type": "Point", "coordinates": place},
            "properties": {"Bezirk": name},
        }
        for name, place in places.items()
    ]
    drawn, trips = folder / "Stadt.geojson", folder / "fahrten.csv"
    drawn.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    random = np.random.RandomState(6)
    rows = [
        f"{morning},{origin},{destination},{40 + random.poisson(30)}"
        for morning in range(10)
        for origin in sorted(places)
        for destination in sorted(places)
        if origin != destination
    ]
    trips.write_text("\n".join(["period,origin,destination,count", *rows]) + "\n")
    return [drawn, trips]


def test_from_login_to_an_answer_on_a_town_of_geojson(
    service: Installation, browser: Chromium, axe: str, tmp_path: Path
) -> None:
    """The chosen file stays chosen while the page asks for what it does not say; the network has
    its map and its zones by name, and a dataset and a job begin on its page."""
    drawn, trips = town(tmp_path)
    found: list[str] = []
    with tab(browser, service.url) as seen:
        page = seen.page
        seen.login(service.owner_of("a town of geojson"))
        seen.go("/networks")
        found += problems_of(seen, axe)
        page.get_by_role("link", name="Add a network").first.click()
        found += problems_of(seen, axe)
        page.get_by_label("Files of the network").set_input_files(drawn)
        page.get_by_role("button", name="Add the network").click()
        page.get_by_role("heading", name="Which column is which?").wait_for()
        assert page.get_by_label("Länge").input_value() == "length"
        assert page.get_by_label("Bezirk").input_value() == "zone"
        assert page.evaluate("document.activeElement.id") == "refusal"
        found += problems_of(seen, axe)
        page.get_by_label("Autos").select_option("capacity")
        page.get_by_label("Name", exact=True).fill("Ring")
        page.get_by_role("button", name="Add the network").click()
        page.locator(
            "#length_unit-wrong", has_text="are needed: say “Lengths in the file are in” and"
        ).wait_for()
        assert page.get_by_label("Autos").input_value() == "capacity"
        page.get_by_label("Lengths in the file are in").select_option("km")
        page.get_by_label("Speeds in the file are in").select_option("kph")
        page.get_by_label("Links without an opposite one lead both ways").check()
        page.get_by_label("Minutes of a period").fill("60")
        page.get_by_role("button", name="Add the network").click()
        page.get_by_role("heading", name="How the files were read").wait_for()
        assert "/networks/net_" in page.url
        seen.draw()
        found += problems_of(seen, axe)
        assert page.get_by_role("cell", name="Süd", exact=True).count()
        page.reload()
        assert page.get_by_role("heading", name="Ring").count()
        network = page.url.rpartition("/")[2]
        page.get_by_role("button", name="New dataset with its zones").click()
        page.get_by_label("Name", exact=True).fill("mornings")
        assert page.get_by_label("Zones", exact=True).input_value() == "4"
        page.get_by_label("Periods", exact=True).fill("10")
        page.get_by_role("button", name="Next: the content").click()
        page.get_by_label("CSV, Excel, Parquet").set_input_files(trips)
        page.get_by_role("button", name="Send it, and see").click()
        page.locator("#outcome-status", has_text="to set or to mend").wait_for()
        page.get_by_label("Zones have the names of a network’s nodes").select_option("Ring")
        page.locator("#outcome-status", has_text="all of them can be read").wait_for()
        page.get_by_role("button", name="Register", exact=True).first.click()
        page.get_by_role("link", name="New job on it").wait_for()
        seen.go(f"/networks/{network}")
        page.get_by_role("link", name="New job on it").click()
        page.locator("#quote-status", has_text="It would cost epsilon").wait_for()
        page.get_by_role("button", name="Submit for").click()
        page.get_by_role("heading", name="Result", exact=True).wait_for()
        assert page.get_by_text("Nord").count()
    assert not found, "\n".join(found)


# Networks of a dataset ----------------------------------------------------------------------------


def test_a_form_takes_the_network_of_the_trips_and_no_made_up_one(
    api_only: Installation,
) -> None:
    """Networks that are stored later call zones otherwise; a job on a made-up one is charged like
    any other, and answers nothing."""
    owner = api_only.owner_of("networks of trips")
    ways = [(1, 2), (2, 3), (3, 1)]
    links = [
        {"tail": tail, "head": head, "free_flow_time": 1, "capacity": 9} for tail, head in ways
    ]
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
    with api_only.client(owner) as client, Browser.logged_in(api_only, owner) as browser:

        def store(name: str, *names: str) -> str:
            body = {"nodes": 3, "links": links, "node_names": list(names)}
            return str(client.networks.add(body, name=name)["id"])

        def add(zones: Any, count: int) -> str:
            made = client.datasets.add(
                {"von": ["Ost", "West"], "nach": ["West", "Nord"], "count": [5, count]},
                kind="routing",
                public={**public, "reader": {"zones": zones}},
                columns={"origin": "von", "destination": "nach"},
                cap=1,
                name=f"trips {count}",
                other_people=True,
            )
            return str(made["id"])

        def begun(dataset: str) -> tuple[dict[str, Any], Page]:
            page = browser.get(f"/jobs/new?dataset={dataset}")
            return json.loads(page.form("/jobs/new")["fields"]["body"])["problem"], page

        own = store("Own roads", "Ost", "West", "Nord")
        by_network, by_names = add({"network": own}, 6), add(["Ost", "West", "Nord"], 7)
        for number in range(4):
            store(f"Other roads {number}", "Nord", "West", f"Ost {number}")
        problem, page = begun(by_network)
        assert problem["network"] == own
        assert "with what is stored as Own roads" in page.text
        problem, page = begun(by_names)
        assert "network" not in problem
        assert "A network is needed" in page.text
        assert "made up" not in page.text
        refused = browser.submit(page, "/jobs/new", action="price")
        assert refused.status == 422
        client.call(operations.delete_network(own))
        assert "network" not in begun(by_network)[0]
