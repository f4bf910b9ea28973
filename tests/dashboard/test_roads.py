"""Roads on pages: the law that is asked, streets that stand twice in a file, and answers on closed roads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from discreet.problems.road_network import RoadNetwork
from tests.conftest import Installation
from tests.dashboard.chromium import tab

NETWORK = {
    **RoadNetwork.example(),
    "link_names": ["Main", "Main (back)", "River", "River (back)", "Ring", "Ring 2"],
    "node_names": ["Inn", "Mill", "Dam"],
    "time_unit": "minutes",
}
PUBLIC = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60}
TRIPS = [{"period": 0, "origin": 1, "destination": 2, "count": 900}]
PICTURES = os.environ.get("DISCREET_PICTURES")
"""A folder for pictures of these pages, to be looked at."""


@pytest.fixture(scope="module")
def owner(service: Installation) -> str:
    return service.owner_of("a road office")


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.wait_for_timeout(1500)
        page.screenshot(path=Path(PICTURES) / f"{name}.png", full_page=True)


@pytest.mark.parametrize("width", [1280, 360])
def test_roads_from_the_form_to_a_closed_road(
    service: Installation, browser: Browser, owner: str, width: int, tmp_path: Path
) -> None:
    twice = tmp_path / "links.csv"
    rows = ["1,2,5,800", "1,2,5,800", "2,1,5,800", "2,3,5,800", "3,2,5,800"]
    twice.write_text("\n".join(["tail,head,free_flow_time,capacity", *rows]))
    with service.client(owner) as client, tab(browser, service.url, viewport={"width": width, "height": 900}) as seen:
        dataset = client.register("routing", {**PUBLIC, "max_total": width}, {"trips": TRIPS}, cap=2)["id"]
        seen.login(owner)
        page = seen.page
        seen.go(f"/jobs/new?dataset={dataset}")
        law = page.get_by_label("Latency", exact=True)
        law.wait_for()
        assert law.locator("option:checked").inner_text() == "BPR: 0.15, power 4 of flow over capacity"
        law.select_option(label="With figures of its own")
        assert page.get_by_label("Latency: how").locator("option:checked").inner_text() == "Bpr"
        file = page.get_by_label("Read it from a file")
        file.set_input_files(twice)
        page.get_by_text("1 row stands more than once with the same figures: 1 to 2.").wait_for()
        picture(page, f"form-{width}")
        page.get_by_label("What stands twice in the file").select_option("sum")
        file.set_input_files(twice)
        page.get_by_text("made one each with capacity together: 1 to 2.").wait_for()
        assert '"capacity": 1600' in page.locator("textarea[name=body], #body").first.input_value()

        job = client.solve({"kind": "routing", "dataset": dataset, "network": NETWORK}, epsilon=1).id
        seen.go(f"/jobs/{job}")
        assert "Travel times grow in proportion to the flow" in page.inner_text("main")
        page.locator("#what-if .field").first.wait_for()
        asked = page.locator("#what-if").get_by_label("Latency", exact=True)
        asked.select_option(label="BPR: 0.15, power 4 of flow over capacity")
        page.locator("[data-ask-status]", has_text="Answered, at price 0: below").wait_for()
        page.locator("#what-if").get_by_label("Network", exact=True).select_option(label="Without Main")
        page.get_by_text("With Main (Inn → Mill) and Main (back) (Mill → Inn) closed, all trips").first.wait_for()
        picture(page, f"what-if-{width}")
        link = str(page.locator("#asked-again a").get_attribute("href"))
        seen.go(link)
        told = page.inner_text("main")
        assert "Closing adds " in told
        assert "Travel times grow by the BPR law: 0.15, power 4 of flow over capacity" in told
        assert "Another law can be asked of what was released, for free." in told
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        picture(page, f"closed-{width}")
        saved = page.request.get(f"{service.url}{link}/page.html").text()
        assert "With Main (Inn → Mill) and Main (back) (Mill → Inn) closed" in saved
        assert "BPR law: 0.15, power 4" in saved
