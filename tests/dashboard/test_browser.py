"""The pages in a real browser, on a real server with real jobs of all five kinds.

Every tab is watched: a message on the console (and so every violation of the
Content-Security-Policy), an error, a dialog or a request to another host fails the test.
"""

from __future__ import annotations

import json
import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from playwright.sync_api import Browser

from discreet import cli
from discreet.dashboard.app import install
from discreet.problems import DATASETS, KINDS
from discreet.problems.road_networks.network import RoadNetwork
from discreet.usecases.oidc.configuration import CALLBACK
from discreet_client import Client
from tests import bodies
from tests.api.test_sources import filled
from tests.conftest import Installation, eventually, first_of
from tests.dashboard.chromium import Watched, problems_of, tab
from tests.dashboard.seed import tenant
from tests.dashboard.test_headers import routes_of
from tests.reliability.test_retention import forget

EVIL = (
    "<img src=x "
    'onerror="globalThis.hacked=1"></script><script>globalThis.hacked=1;alert(2)</script>\'{{7*7}}%{x}'
)
FIRST_PAINT_BYTES = 200_000
LIGHT_WITHOUT_CHARTS = (
    "/",
    "/jobs",
    "/jobs/new",
    "/datasets",
    "/datasets/new",
    "/networks/new",
    "/ledger",
    "/audit",
    "/changes",
    "/admin",
)


@dataclass
class Tenant:
    """A tenant of the shared service, with a hostile name and people of hostile names."""

    running: Installation
    browser: Browser
    keys: dict[str, str]
    jobs: dict[str, str] = field(default_factory=dict)
    """A succeeded job by kind."""

    def tab(self, **options: Any) -> AbstractContextManager[Watched]:
        return tab(self.browser, self.running.url, **options)

    def job(self, kind: str) -> str:
        """The address of a succeeded job of this kind, run over the API if no test has run one
        yet."""
        if kind not in self.jobs:
            with self.running.client(self.keys["owner"]) as owner:
                self.jobs[kind] = tenant().run(owner, KINDS[kind].example())
        return f"/jobs/{self.jobs[kind]}"


@pytest.fixture(scope="module")
def people(service: Installation, browser: Browser) -> Tenant:
    with service.client(service.operator_key) as operator:
        operator.create_tenant(EVIL)
        keys = {
            role: operator.create_key(role=role, principal=f"{role} {EVIL}", tenant=EVIL)["key"]
            for role in ("owner", "analyst", "auditor", "operator")
        }
    return Tenant(service, browser, keys)


def test_the_watch_sees_what_the_policy_refuses(people: Tenant) -> None:
    """A name that got into a page as markup would not run, and would not go unnoticed."""
    with people.tab() as seen:
        seen.go("/login")
        seen.page.evaluate("html => document.body.insertAdjacentHTML('beforeend', html)", EVIL)
        eventually(
            lambda: seen.page.evaluate("() => 1") and seen.complaints, "the browser complains"
        )
        assert any("Content Security Policy" in one for one in seen.complaints)
        assert seen.page.evaluate("() => globalThis.hacked") is None
        seen.complaints.clear()


# From registration to the result ------------------------------------------------------------------


@pytest.mark.parametrize("kind", first_of(sorted(KINDS), 2))
def test_a_job_from_its_form_to_its_drawn_result(people: Tenant, kind: str, tmp_path: Path) -> None:
    """Register with a form and an upload, price, submit, and see the result come without touching
    the page."""
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["owner"])
        if kind in DATASETS:
            seen.go(f"/datasets/new?kind={kind}&example=1")
            page.locator("#name").fill(f"{kind} {EVIL}")  # agents have names too
            seen.other_people()
            page.get_by_role("button", name="Next: the content").click()
            content = tmp_path / "content.json"
            content.write_text(json.dumps(KINDS[kind].example()["problem"]["dataset"]["content"]))
            page.get_by_label("CSV, Excel, Parquet").set_input_files(content)
            page.get_by_role("button", name="Send it, and see").click()
            page.get_by_role("button", name="Register", exact=True).first.click()
            page.get_by_role("link", name="New job on it").click()
        else:
            seen.go(f"/jobs/new?kind={kind}")
        page.get_by_role("button", name="What would this cost?").click()
        page.get_by_role("heading", name="It would cost").wait_for()
        if kind == min(KINDS):  # a server that is full refuses the first look at it
            page.route("**/jobs/*/events", lambda route: route.fulfill(status=429), times=1)
        page.get_by_role("button", name="Submit for").click()
        page.get_by_role("heading", name="Result", exact=True).wait_for()
        charts = seen.draw()
        assert page.locator(".plot .main-svg").count() >= charts > 0
        people.jobs[kind] = page.url.rpartition("/")[2]


def test_a_rehearsal_from_its_button_to_its_pictures(people: Tenant, axe: str) -> None:
    """Beside a price: a job on synthetic data, whose page draws the errors; and a number with its
    interval."""
    with people.running.client(people.keys["owner"]) as owner:
        dataset = owner.register(bodies.dataset(name=EVIL))
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["owner"])
        seen.go(f"/jobs/new?dataset={dataset['id']}")
        page.get_by_role("tab", name="JSON").click()
        page.get_by_label("The job as JSON").fill(json.dumps(bodies.job(dataset["id"])))
        page.get_by_role("button", name="What would this cost?").click()
        page.get_by_role("button", name="Rehearse on synthetic data").click()
        page.get_by_role("heading", name="Result", exact=True).wait_for()
        page.get_by_role("heading", name="Error of total travel time").wait_for()
        assert seen.draw() >= 3
        assert page.get_by_text("nothing: a simulation").count() == 1
        assert not problems_of(seen, axe)
        with people.running.client(people.keys["owner"]) as owner:
            assert [entry["kind"] for entry in owner.entries(dataset["account"])] == ["open"]
        seen.go(people.job("routing"))
        assert re.search(
            r"\d.* \(90 % noise interval: [\d,.]+–[\d,.]+\)",
            page.locator(".answer .headline").inner_text(),
        )
        assert "intervals of 90 %" in page.locator("#uncertainty").inner_text()


def test_a_job_is_saved_as_one_page_that_needs_no_server(people: Tenant, tmp_path: Path) -> None:
    """Opened as a file without a network: its charts are drawn, its certificate
    is there, and it asks nobody for anything."""
    saved, asked = tmp_path / "saved.html", []
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["analyst"])
        seen.go(people.job("dr_ensemble"))
        drawn = page.locator(".plot").count()
        with page.expect_download() as download:
            page.get_by_role("link", name="Save as one page").click()
        download.value.save_as(saved)
    with people.running.client(people.keys["analyst"]) as analyst:
        certificate = analyst.result(people.jobs["dr_ensemble"])["certificate"]
    context = people.browser.new_context(offline=True)
    try:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(saved.as_uri())
        page.locator(".plot[data-drawn]").nth(drawn - 1).wait_for(state="attached")
        assert page.locator(".plot .main-svg").count() >= drawn > 0
        assert certificate["signature"] in page.locator("main").inner_text()
        assert page.locator('a[href^="/"]').count() == 0
        assert asked == [saved.as_uri()]
        assert complaints == []
    finally:
        context.close()


def test_two_jobs_are_ticked_and_compared(people: Tenant) -> None:
    """With the keyboard, on a list that goes on living: what is ticked stays so when rows come
    anew."""
    chosen = [people.job("routing"), people.job("dr_ensemble")]
    with people.tab() as seen, people.running.client(people.keys["analyst"]) as analyst:
        page = seen.page
        seen.login(people.keys["analyst"])
        seen.go("/jobs")
        boxes = [page.locator(f"input[value={address.rpartition('/')[2]}]") for address in chosen]
        for box in boxes:
            box.press("Space")
        fresh = analyst.submit(KINDS["coupled_qp"].example())["id"]
        page.locator(f"#{fresh}").get_by_text("succeeded").wait_for()
        assert all(box.is_checked() for box in boxes)
        page.get_by_role("button", name="Compare").press("Enter")
        page.get_by_role("heading", name="Two jobs side by side").wait_for()
        assert seen.draw() > 2
        for chart in ("network", "load"):
            assert page.locator(f"[id$=-{chart}] .main-svg").count() > 0


def test_a_page_follows_its_job(api_only: Installation, browser: Browser) -> None:
    """Without a worker the job stays queued; when it is cancelled elsewhere the open page says
    so."""
    with api_only.client() as owner, tab(browser, api_only.url) as seen:
        job = owner.submit(bodies.job(owner.register(bodies.dataset())["id"]))["id"]
        seen.login(api_only.owner_key)
        seen.go(f"/jobs/{job}")
        seen.page.get_by_text("Waiting for a worker").wait_for()
        owner.cancel(job)
        seen.page.get_by_text("The job is cancelled; nothing was charged.").wait_for()
        assert seen.page.get_by_text("Waiting for a worker").count() == 0


def test_grant_export_and_logout(people: Tenant, tmp_path: Path) -> None:
    people.job("routing")
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["owner"])
        page.get_by_role("link", name="routing").or_(
            page.get_by_role("link", name="synthetic mornings")
        ).first.click()
        page.get_by_role("heading", name="Set another cap").wait_for()
        page.get_by_label("Epsilon", exact=True).fill("1.75")
        page.get_by_label("Reason (stays in the ledger)").fill(f"more of it {EVIL}")
        page.get_by_role("button", name="Set the cap").click()
        page.get_by_text("The cap is set.").wait_for()
        assert page.get_by_role("cell", name="epsilon 1.75").count() == 1
        seen.go("/ledger")
        with page.expect_download() as download:
            page.get_by_role("link", name="Export").first.click()
        export = tmp_path / "ledger.json"
        download.value.save_as(export)
        assert cli.run(["ledger", "verify", str(export)]) == 0
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("heading", name="Log in").wait_for()
        seen.go("/jobs")
        assert "/login" in page.url


# What charts do -----------------------------------------------------------------------------------


def test_the_paths_of_a_pair_are_drawn_on_the_map(people: Tenant) -> None:
    address = people.job("routing")
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["analyst"])
        seen.go(address)
        seen.draw()
        page.get_by_label("Origin zone").fill("1")
        page.get_by_label("Destination zone").fill("2")
        page.keyboard.press("Enter")
        page.get_by_text("From zone 1 to zone 2").wait_for()
        page.locator("#chart-network .legendtext", has_text="path 1:").wait_for()
        page.get_by_label("Destination zone").fill("1")
        page.get_by_role("button", name="Show the paths").click()
        page.get_by_text("Origin and destination are the same zone").wait_for()
        page.locator("#chart-network .legendtext", has_text="of capacity").first.wait_for()
        with page.expect_download() as download:
            page.locator("#chart-network .main-svg").first.hover()
            page.locator("#chart-network [data-title^=Download]").click()
        assert download.value.suggested_filename == "discreet-network.svg"


def test_without_scripts_pages_say_the_same(people: Tenant) -> None:
    address = people.job("routing")
    with people.tab(java_script_enabled=False) as seen:
        page = seen.page
        seen.login(people.keys["analyst"])
        seen.go(address)
        assert page.locator("noscript p").first.is_visible()
        page.get_by_text("The numbers of “Flows on the network”").click()
        page.get_by_role("region", name="Flows on the network: numbers").wait_for()
        page.get_by_label("Origin zone").fill("1")
        page.get_by_label("Destination zone").fill("2")
        page.get_by_role("button", name="Show the paths").click()
        page.get_by_text("From zone 1 to zone 2").wait_for()


def test_the_signal_of_every_period_is_drawn(people: Tenant) -> None:
    address = people.job("dr_ensemble")
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["analyst"])
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.textContent") == "Skip to the content"
        seen.go(address)
        seen.draw()
        with people.running.client(people.keys["analyst"]) as analyst:
            signal = analyst.result(address.rpartition("/")[2])["result"]["signal"]
        shown = page.evaluate("() => document.querySelector('#chart-signal .plot').data[0].z")
        assert len(shown) in (len(signal), len(signal[0]))
        assert len(shown) * len(shown[0]) == len(signal) * len(signal[0])


def test_charts_take_the_colours_of_the_page(people: Tenant) -> None:
    address = people.job("dr_ensemble")
    with people.tab(color_scheme="light") as seen:
        page = seen.page
        seen.login(people.keys["analyst"])
        seen.go(address)
        seen.draw()
        ink = "() => getComputedStyle(document.querySelector('#chart-load .xtick text')).fill"
        traces = "document.querySelector('#chart-load .plot').data"
        line = f"() => {traces}.find((one) => one.name === 'with control').line.color"
        light = page.evaluate(ink), page.evaluate(line)
        page.get_by_role("button", name="dark", exact=True).click()
        eventually(
            lambda: page.evaluate(ink) != light[0] and page.evaluate(line) != light[1],
            "charts are dark",
        )
        page.emulate_media(color_scheme="dark")
        page.get_by_role("button", name="auto", exact=True).click()
        page.get_by_role("button", name="light", exact=True).click()
        eventually(lambda: page.evaluate(ink) == light[0], "charts are light again")
        eventually(lambda: page.evaluate(line) == light[1], "so are their lines")
        assert (page.evaluate(ink), page.evaluate(line)) == light


def test_help_from_a_form_that_is_half_written(people: Tenant) -> None:
    """With the keyboard, from a page to the paragraph that explains it, which is in view; the form
    stays as it is."""
    with people.tab() as seen:
        seen.login(people.keys["owner"])
        seen.go("/jobs/new?kind=dr_ensemble")
        seen.page.get_by_role("tab", name="JSON").click()
        seen.page.get_by_label("The job as JSON").fill('{"half": "written')
        with seen.page.context.expect_page() as opened:
            seen.page.get_by_role("link", name="Help on this page").press("Enter")
        paragraph = opened.value
        paragraph.wait_for_load_state()
        assert paragraph.url == f"{seen.origin}/help/dashboard#a-new-job"
        heading = paragraph.get_by_role("heading", name="A new job")
        heading.wait_for()
        box = heading.bounding_box()
        assert box is not None
        assert 0 <= box["y"] < 200
        assert (
            paragraph.get_by_role("link", name="Help on this page").get_attribute("target") is None
        )
        paragraph.get_by_label("Search the help").fill("slider")
        paragraph.keyboard.press("Enter")
        paragraph.get_by_role("link", name="The dashboard: A new job").click()
        assert paragraph.url == f"{seen.origin}/help/dashboard#a-new-job"
        assert seen.page.get_by_label("The job as JSON").input_value() == '{"half": "written'


# Every page ---------------------------------------------------------------------------------------


APP = FastAPI()
install(APP)
ROUTES = [
    route
    for route in routes_of(APP.routes)
    if isinstance(route, APIRoute) and "GET" in (route.methods or ())
]
NO_PAGES = {
    "/budgets/{account_id}/charts/spending.json",
    "/datasets/examples/{kind}.json",
    "/help/pictures/{name}",
    "/jobs/events",
    "/jobs/{job_id}/ask",
    "/jobs/{job_id}/charts/{name}.json",
    "/jobs/{job_id}/events",
    "/jobs/{job_id}/problem.json",
    "/jobs/{job_id}/result.json",
    "/jobs/{job_id}/result.xlsx",
    "/jobs/{job_id}/result/{table}.parquet",
    "/ledger/export",
    "/ledger/head.json",
    "/ledger/verification.json",
    "/networks/{network_id}/charts/map.json",
    "/networks/{network_id}/network.json",
    "/plotly.js",
    "/static/{name}",
}
ELSEWHERE = {"/sign-in", CALLBACK}
"""Looked at beside a provider, in `test_sign_in`."""


def route_of(address: str) -> str | None:
    """The dashboard's route that answers an address."""
    path = address.partition("?")[0]
    return next((route.path for route in ROUTES if route.path_regex.match(path)), None)


def with_classes(owner: Client) -> dict[str, Any]:
    """Trips of cars and trucks, with a road that is closed and pairs on a link."""
    body = bodies.dataset(name=f"classes {EVIL}")
    body["public"]["user_classes"] = ["car", "truck"]
    trips = body["content"]["trips"]
    body["content"]["trips"] = [{**trip, "user_class": "car"} for trip in trips]
    job: dict[str, Any] = bodies.job(owner.register(body)["id"])
    job["problem"] |= {"closed_links": [1], "select_links": [0], "skims": True}
    return job


def pages_of(people: Tenant) -> list[str]:
    """Every page that an owner sees, of objects with hostile names: of jobs of all kinds, in every
    state, with what was asked of them."""
    with (
        people.running.client(people.keys["owner"]) as owner,
        people.running.client(people.keys["analyst"]) as analyst,
    ):
        dataset = owner.register(bodies.dataset(name=EVIL))
        body = bodies.dataset(name=f"not yet asked {EVIL}")
        body["content"]["trips"] = body["content"]["trips"][1:]
        unasked = owner.register(body)["id"]
        account = dataset["account"]
        owner.grant(account, epsilon=2, delta=0, reason=EVIL)
        owner.set_cap(
            scope="principal", principal=f"analyst {EVIL}", epsilon=50, delta=0.1, reason=EVIL
        )
        gone = analyst.submit(bodies.job(dataset["id"]))["id"]
        analyst.wait(gone)
        forget(people.running.settings, gone)
        waiting = analyst.submit(tenant().federated_body())["id"]
        cancelled = analyst.submit(tenant().federated_body())["id"]
        analyst.cancel(cancelled)
        classes = owner.submit(with_classes(owner))["id"]
        assert owner.wait(classes)["state"] == "succeeded"
        again = owner.ask_again(classes, objective="user_equilibrium").id
        rehearsed = analyst.rehearse(bodies.job(dataset["id"])["problem"], epsilons=[1]).job["id"]
        analyst.request_budget(account, epsilon=1, reason=EVIL)
        source = filled(owner, 2, name=EVIL)["id"]
        roads = {**RoadNetwork.example(), "node_names": [f"{one} {EVIL}" for one in range(3)]}
        network = owner.networks.add(roads, name=EVIL)["id"]
    jobs = [people.job(kind) for kind in sorted(KINDS)]
    return [
        "/",
        f"/budgets/{account}",
        "/ledger",
        f"/ledger/{account}/3",
        "/jobs",
        "/jobs/new",
        *jobs,
        f"{people.job('routing')}/policy?origin=1&destination=2",
        f"{jobs[0]}/certificate",
        f"/jobs/{gone}",
        f"/jobs/{gone}/page.html",
        f"/jobs/{waiting}",
        f"/jobs/{cancelled}",
        f"/jobs/{classes}",
        f"/jobs/compare?job={jobs[0].rpartition('/')[2]}&job={jobs[1].rpartition('/')[2]}",
        f"/jobs/compare?job={classes}&job={again}",
        "/jobs/compare",
        f"/jobs/{rehearsed}",
        *(f"/jobs/new?kind={kind}" for kind in sorted(KINDS)),
        *(f"/datasets/new?kind={kind}" for kind in sorted(DATASETS)),
        "/sources",
        f"/sources/{source}",
        "/datasets",
        f"/datasets/{dataset['id']}",
        f"/datasets/{dataset['id']}/delete",
        f"/datasets/{dataset['id']}/correct",
        f"/datasets/{unasked}/correct",
        "/datasets/new",
        "/networks",
        "/networks/new",
        f"/networks/{network}",
        f"/jobs/new?network={network}",
        "/audit",
        "/changes",
        "/admin",
        "/jobs/job_of_nobody",
        "/help",
        "/help/search?q=own+columns",
        "/help/dashboard",
        "/help/problems/routing",
        "/help/papers",
    ]


@pytest.mark.long
def test_every_page_is_accessible_fits_a_phone_and_runs_no_foreign_script(
    people: Tenant, axe: str
) -> None:
    """axe-core finds nothing of any impact in light, in dark or on a phone; no page is wider than a
    phone; names stay text. Every route that answers a page is looked at."""
    found: list[str] = []
    looked: set[str | None] = set()

    def look(seen: Watched, address: str) -> None:
        seen.go(address)
        seen.draw()
        looked.add(route_of(address))
        found.extend(problems_of(seen, axe))

    with people.tab() as seen:
        look(seen, "/login")
        seen.login(people.keys["owner"])
        for address in pages_of(people):
            look(seen, address)
        seen.go("/jobs")
        assert EVIL in seen.page.locator("main").inner_text()
        seen.page.get_by_role("button", name="Log out").click()
        seen.page.get_by_role("button", name="Log out").wait_for(state="detached")
        found += problems_of(seen, axe)
        with people.running.client(people.keys["auditor"]) as auditor:
            look(seen, auditor.login_link()["path"])
        seen.page.get_by_role("button", name="Log in").click()
        seen.page.get_by_role("button", name="Log out").wait_for()
        for address in ("/", "/jobs", "/jobs/new"):
            look(seen, address)
    with people.tab() as seen:
        seen.login(people.keys["operator"])
        for address in ("/operations", "/admin", "/changes", "/", "/nowhere"):
            look(seen, address)
    assert not found, "\n".join(found)
    pages = {route.path for route in ROUTES}
    assert pages - NO_PAGES - ELSEWHERE <= looked
    assert pages >= NO_PAGES | ELSEWHERE


def test_another_answer_beside_the_first_is_accessible_and_fits_a_phone(
    people: Tenant, axe: str
) -> None:
    """With every field that is free open, an answer beside the first, and one that is refused."""
    with people.tab() as seen:
        page = seen.page
        seen.login(people.keys["owner"])
        seen.go(people.job("dr_ensemble"))
        page.get_by_text("More that is free to ask").press("Enter")
        page.get_by_role("slider", name="Discomfort weight: slider").press("ArrowRight")
        page.locator("[data-ask-status]", has_text="Updated. Price: 0.").wait_for()
        seen.draw()
        found = problems_of(seen, axe)
        page.get_by_label("Discomfort weight", exact=True).fill("none")
        page.get_by_text("Correct the marked fields").wait_for()
        assert not [*found, *problems_of(seen, axe)]


def test_other_tenants_have_no_pages_here(people: Tenant) -> None:
    address = people.job("routing")
    with people.tab() as seen:
        seen.login(people.running.owner_key)
        for place in (
            "",
            "/certificate",
            "/policy?origin=1&destination=2",
            "/charts/network.json",
            "/result.json",
        ):
            assert seen.go(address + place) == 404
            assert "there is no such job" in seen.page.content().lower()


def test_first_paint_is_light_and_plotly_comes_once(people: Tenant) -> None:
    """Bytes as they come over the wire, headers included, with an empty cache."""
    chart_page = people.job("off_policy_evaluation")
    with people.tab() as seen:
        cdp = seen.page.context.new_cdp_session(seen.page)
        cdp.send("Network.enable")
        sizes: dict[str, int] = {}
        names: dict[str, str] = {}
        cdp.on(
            "Network.requestWillBeSent",
            lambda event: names.update({event["requestId"]: event["request"]["url"]}),
        )
        cdp.on(
            "Network.loadingFinished",
            lambda event: sizes.update(
                {names.get(event["requestId"], "?"): int(event["encodedDataLength"])}
            ),
        )
        seen.login(people.keys["owner"])
        for address in LIGHT_WITHOUT_CHARTS:
            cdp.send("Network.clearBrowserCache")
            sizes.clear()
            seen.go(address)
            assert 1000 < sum(sizes.values()) < FIRST_PAINT_BYTES, (address, sizes)
            assert not any("plotly" in name for name in sizes)
        for expected in (True, False):
            sizes.clear()
            seen.go(chart_page)
            assert seen.draw() == 1
            plotly = [size for name, size in sizes.items() if "plotly" in name and size > 0]
            assert (len(plotly) == 1 and plotly[0] < 2_000_000) if expected else not plotly
