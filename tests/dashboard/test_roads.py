"""The form of a routing in a real browser, of its own schema and scripts: the law, and streets that
stand twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route

from discreet.dashboard import assets
from discreet.problems.routing.problem import Routing
from discreet.problems.routing.public import RoutingPublic

STATIC = Path(assets.__file__).parent / "static"
TYPES = {".js": "text/javascript", ".css": "text/css"}


@pytest.mark.parametrize("width", [1280, 360])
def test_the_form_asks_for_the_law_and_refuses_doubled_streets(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    schema = json.dumps(Routing.model_json_schema())
    public = RoutingPublic(unit="request", zones=3, periods=1, period_minutes=60)
    body = json.dumps(Routing.example_for(public)["problem"])
    form = f"""<!doctype html><html lang=en><meta name=viewport content="width=device-width">
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
            route.fulfill(body=form, content_type="text/html")

    doubled = tmp_path / "links.csv"
    doubled.write_text("tail,head,free_flow_time,capacity\n1,2,5,800\n1,2,5,800\n2,1,5,800\n")
    page = browser.new_page(viewport={"width": width, "height": 900})
    try:
        page.route("**/*", served)
        page.goto("http://form.test/form")
        law = page.get_by_label("Latency", exact=True)
        law.wait_for()
        assert (
            law.locator("option:checked").inner_text() == "BPR: 0.15, power 4 of flow over capacity"
        )
        law.select_option("1")
        assert page.evaluate("holder.latency") == {"type": "affine", "factor": 1}
        file = page.get_by_label("Read it from a file")
        file.set_input_files(doubled)
        page.get_by_text("1 row stands more than once with the same figures: 1 to 2.").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.get_by_label("What stands twice in the file").select_option("sum")
        file.set_input_files(doubled)  # the same file again
        page.get_by_text("made one each with capacity together: 1 to 2.").wait_for()
        assert [link["capacity"] for link in page.evaluate("holder.network.links")] == [1600, 800]
        law.select_option("other")
        assert page.get_by_label("Latency: how").locator("option:checked").inner_text() == "Affine"
    finally:
        page.close()
