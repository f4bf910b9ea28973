"""The form of a routing in a real browser, of its own schema and scripts: the law, and tables that
are pasted."""

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

STATIC = Path(assets.__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css"}


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
def test_the_form_asks_for_the_law(browser: Browser, width: int) -> None:
    with form(browser, width) as page:
        law = page.get_by_label("Latency", exact=True)
        assert (
            law.locator("option:checked").inner_text() == "BPR: 0.15, power 4 of flow over capacity"
        )
        law.select_option("1")
        assert page.evaluate("holder.latency") == {"type": "affine", "factor": 1}
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        law.select_option("other")
        assert page.get_by_label("Latency: how").locator("option:checked").inner_text() == "Affine"


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
