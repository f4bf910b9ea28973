"""The form of a routing in a real browser, of its own schema and scripts: the law, streets that
stand twice, and a network from GMNS as `discreet network add` reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route

from discreet.dashboard import assets
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic
from discreet_client import networks

STATIC = Path(assets.__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css"}


GMNS_LINKS = """\
link_id,from_node_id,to_node_id,name,directed,length,free_speed,lanes,capacity,toll,geometry
1,1,2,Nordring,1,1.3,50,1,400,0,"LINESTRING (9.9 53.5, 9.92 53.5)"
2,2,1,Nordring,1,1.3,50,2,400,0,
3,2,3,Ostallee,0,2.2,50,1,400,0,
4,1,3,Elbtunnel,0,3.2,100,1,600,3.5,
"""


@contextmanager
def form(browser: Browser, width: int = 1280) -> Iterator[Page]:
    """The fields of a routing's example, which are `holder`, in a page of their own."""
    schema = json.dumps(Routing.model_json_schema())
    public = RoutingPublic(unit="request", zones=3, periods=1, period_minutes=60)
    body = json.dumps(Routing.example_for(public)["problem"])
    text = f"""<!doctype html><html lang=en><meta name=viewport content="width=device-width">
        <link rel=stylesheet href=/style.css><main id=main></main><script type=module>
        import {{ Fields }} from "/fields.js"; const schema = {schema}; window.holder = {body};
        const fields = new Fields(schema.$defs, {{ changed() {{}} }});
        const hidden = ["dataset", "release", "source", "kind"];
        main.append(fields.object(schema, holder, "/problem", {{ hidden }}));
        </script></html>"""

    def served(route: Route) -> None:
        file = STATIC / route.request.url.rpartition("/")[2]
        if file.suffix in TYPES and file.exists():
            route.fulfill(path=file, content_type=TYPES[file.suffix])
        else:
            route.fulfill(body=text, content_type="text/html")

    page = browser.new_page(viewport={"width": width, "height": 900})
    try:
        page.route("**/*", served)
        page.goto("http://form.test/form")
        page.get_by_label("Latency", exact=True).wait_for()
        yield page
    finally:
        page.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_the_form_asks_for_the_law_and_refuses_doubled_streets(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    doubled = tmp_path / "links.csv"
    doubled.write_text("tail,head,free_flow_time,capacity\n1,2,5,800\n1,2,5,800\n2,1,5,800\n")
    with form(browser, width) as page:
        law = page.get_by_label("Latency", exact=True)
        assert (
            law.locator("option:checked").inner_text() == "BPR: 0.15, power 4 of flow over capacity"
        )
        law.select_option("1")
        assert page.evaluate("holder.latency") == {"type": "affine", "factor": 1}
        file = page.get_by_label("Read it from a file")
        file.set_input_files(doubled)
        page.get_by_text("1 row stands more than once with the same figures: 1 to 2.").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_label("Duplicate lines in the file").select_option("sum")
        page.get_by_text("made one each with capacity together: 1 to 2.").wait_for()
        file.set_input_files(doubled)  # the same file again
        page.get_by_text("made one each with capacity together: 1 to 2.").wait_for()
        assert [link["capacity"] for link in page.evaluate("holder.network.links")] == [1600, 800]
        law.select_option("other")
        assert page.get_by_label("Latency: how").locator("option:checked").inner_text() == "Affine"


def test_a_network_of_gmns_is_read_as_the_command_line_reads_it(
    browser: Browser, tmp_path: Path
) -> None:
    """Lengths and speeds, lanes, tolls, links of both ways and names of streets; what the file does
    not tell is asked for, all of it at once."""
    links, nodes = tmp_path / "link.csv", tmp_path / "node.csv"
    links.write_text(GMNS_LINKS)
    nodes.write_text("node_id,x_coord,y_coord\n1,,\n2,,\n3,,\n")
    with form(browser, 360) as page:
        assert not page.get_by_label("Lengths in the file are in").is_visible()
        page.get_by_label("Read it from a file").set_input_files(links)
        page.get_by_text(
            "link.csv was not read: its free_flow_time follows from length and free_speed: say "
            "above in which units they are; and it has a column toll"
        ).wait_for()
        page.get_by_label("Lengths in the file are in").select_option("km")
        page.get_by_label("Speeds in the file are in").select_option("km/h")
        page.get_by_label("Time that a unit of toll is worth").fill("4")
        page.get_by_label("Minutes of a period").fill("120")
        page.get_by_label("Minutes of a period").press("Tab")
        page.get_by_text("Read from link.csv: 6 rows").wait_for()
        page.get_by_text("Columns left out: geometry.").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        found = page.evaluate("holder.network")
    read = networks.read(links, nodes, units="km,kph", toll_weight=4, period_minutes=120)
    expected = read.network
    assert found["nodes"] == expected["nodes"] == 3
    assert (found["time_unit"], found["period_minutes"]) == ("minutes", 120)
    for own, other in zip(found["links"], expected["links"], strict=True):
        assert own == pytest.approx(other)
    assert found["link_names"][:2] == ["Nordring (1 → 2)", "Nordring (2 → 1)"]
    assert len(set(found["link_names"])) == 6


NAMED_LINKS = """\
link_id,from_node_id,to_node_id,directed,length,free_speed,lanes,capacity
1,101,205,0,1.3,50,1,400
2,205,17,1,2.2,50,1,400
3,17,101,1,3.2,100,1,600
"""
NAMED_NODES = """\
node_id,name,x_coord,y_coord,zone_id
101,Nord,9.9,53.5,2
17,"Kreuz, alt",9.92,53.52,
205,Süd,9.95,53.4,1
"""


def test_a_file_with_columns_of_its_own_is_told_which_it_lacks(
    browser: Browser, tmp_path: Path
) -> None:
    """All at once, and which it has; and not that its rows are alike, of which nothing was read."""
    links, drawn = tmp_path / "strassen.csv", tmp_path / "netz.geojson"
    header = "Von-Knoten;Nach-Knoten;Straße;Länge [km];Tempo [km/h]\n"
    links.write_text(header + "1;2;Markt;0,4;30\n2;1;Markt;0,4;30\n", encoding="cp1252")
    drawn.write_text('{"type": "FeatureCollection",\n"features": []}')
    with form(browser) as page:
        before = page.evaluate("holder.network")
        file = page.get_by_label("Read it from a file")
        file.set_input_files(links)
        page.get_by_text(
            "strassen.csv was not read: it has no column tail, head, free_flow_time, capacity; its "
            "columns are Von-Knoten, Nach-Knoten, Straße, Länge [km], Tempo [km/h]."
        ).wait_for()
        file.set_input_files(drawn)
        page.get_by_text("netz.geojson was not read: it has no column tail").wait_for()
        assert (
            page.get_by_role("link", name="Add a network").get_attribute("href") == "/networks/new"
        )
        assert "more than once" not in page.inner_text("body")
        assert page.evaluate("holder.network") == before, "a file that was refused changes nothing"


def test_nodes_beside_links_have_names_and_places(browser: Browser, tmp_path: Path) -> None:
    """Both files at once, or one after the other; nodes are numbered as the client does it, and
    files that do not fit are refused in a sentence."""
    links, nodes = tmp_path / "link.csv", tmp_path / "node.csv"
    links.write_text(NAMED_LINKS)
    nodes.write_text(NAMED_NODES)
    read = networks.read(links, nodes, units="km,kph", columns={"node_name": "name"})
    with form(browser) as page:
        file = page.get_by_label("Read it from a file")
        file.set_input_files(nodes)
        page.get_by_text("node.csv was not read: it has the nodes; choose the file of").wait_for()
        file.set_input_files(links)
        page.get_by_text("link.csv was not read: its free_flow_time follows").wait_for()
        page.get_by_label("Lengths in the file are in").select_option("km")
        page.get_by_label("Speeds in the file are in").select_option("km/h")
        page.get_by_text("Read from link.csv and node.csv: 4 rows").wait_for()
        page.get_by_text("Nodes are called by name. The first 2 nodes are the zones").wait_for()
        one_by_one = page.evaluate("holder.network")
        file.set_input_files([nodes, links])
        page.get_by_text("Read from link.csv and node.csv: 4 rows").wait_for()
        assert page.evaluate("holder.network") == one_by_one
        for bad, said in (
            (NAMED_NODES.replace("101,", "102,"), "a link begins or ends at 101, which is not in"),
            (NAMED_NODES + "17,Ost,1,2,\n", "node 17 is in the file of nodes more than once"),
            (NAMED_NODES.replace("53.4,1", "53.4,2"), "zone 2 has the nodes Nord and Süd"),
            (NAMED_NODES.replace("53.4", "west"), "line 4, y_coord: “west” is not a number"),
        ):
            nodes.write_text(bad)
            file.set_input_files([links, nodes])
            page.get_by_text(said).wait_for()
    assert one_by_one["node_names"] == read.network["node_names"] == ["Süd", "Nord", "Kreuz, alt"]
    assert one_by_one["nodes_xy"] == read.network["nodes_xy"]
    assert one_by_one["nodes"] == 3
    unnamed = (
        NAMED_NODES.replace("name,", "label,")
        .replace(",2\n", ",West\n")
        .replace(",1\n", ",Mitte\n")
    )
    nodes.write_text(unnamed)
    read = networks.read(links, nodes, units="km,kph")
    with form(browser) as page:
        page.get_by_label("Read it from a file").set_input_files([nodes, links])
        page.get_by_label("Lengths in the file are in").select_option("km")
        page.get_by_label("Speeds in the file are in").select_option("km/h")
        page.get_by_text("in the order of the zones’ names: from zone 1 on Mitte, West.").wait_for()
        found = page.evaluate("holder.network")
    assert found["node_names"] == read.network["node_names"] == ["Mitte", "West", "17"]
    for own, other in zip(one_by_one["links"], read.network["links"], strict=True):
        assert own == pytest.approx(other)


def test_a_pasted_table_loses_no_cell(browser: Browser) -> None:
    """What has no column is told, and stays in its row, where the server refuses it too: a decimal
    comma among commas, a column that stands twice, one without a name."""
    read = """async (text) => (await import("/fields.js")).fromCsv(
        text, { name: { type: "string" }, radius: { type: "number" } },
        (one) => one.type === "number")"""
    known = "the columns are name, radius"
    with form(browser) as page:
        for text, rows, said in (
            ("name,radius,,\na,0.5,,\n", [{"name": "a", "radius": 0.5}], ""),
            ("name;radius\na;0,5", [{"name": "a", "radius": 0.5}], ""),
            (
                "name,radius\na,0,5",
                [{"name": "a", "radius": 0, "column 3": "5"}],
                "line 2 has more cells than there are columns",
            ),
            (
                "name,radius,radius\na,1,2",
                [{"name": "a", "radius": 1, "radius again": "2"}],
                f"no column is called radius again; {known}",
            ),
            (
                "name,\na,7",
                [{"name": "a", "column 2": "7"}],
                f"no column is called column 2; {known}",
            ),
            (
                "name,radius\n<img src=x onerror=alert(1)>,NaN",
                [{"name": "<img src=x onerror=alert(1)>", "radius": "NaN"}],
                "",
            ),
            ("", [], "the first line names the columns: name, radius"),
        ):
            assert page.evaluate(read, text) == [rows, said]
