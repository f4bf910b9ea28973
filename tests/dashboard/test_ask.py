"""Other questions beside an answer, in a real browser: what is free is turned, and another answer
comes, at price 0."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Browser, Page, Route

from discreet.problems import DATASETS, KINDS
from discreet_client.client import Client
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser as Visitor
from tests.dashboard.chromium import Watched, tab


@pytest.fixture(scope="module")
def keys(service: Installation) -> dict[str, str]:
    """Of a tenant of its own: its jobs and networks are counted here."""
    owner = service.owner_of("what if")
    with service.client(owner) as client:
        made = {
            role: client.create_key(role=role, principal=f"{role} who asks")["key"]
            for role in ("analyst", "auditor")
        }
    return {"owner": owner, **made}


@pytest.fixture(scope="module")
def jobs(service: Installation, keys: dict[str, str]) -> dict[str, str]:
    """A job that released, by kind."""
    found = {}
    with service.client(keys["owner"]) as owner:
        for kind in DATASETS:
            body = KINDS[kind].example()
            data = {**body["problem"]["dataset"], "name": f"asked of {kind}"}
            problem = {**body["problem"], "dataset": owner.register(data)["id"]}
            found[kind] = owner.submit({**body, "problem": problem, "name": f"The first {kind}"})[
                "id"
            ]
        for job in found.values():
            owner.wait(job)
    return found


def written(client: Client) -> int:
    """How many entries the ledger has."""
    return sum(1 for one in client.budgets() for _ in client.entries(one["id"]))


def opened(seen: Watched, job: str) -> Page:
    seen.go(f"/jobs/{job}")
    seen.page.locator("#what-if .field").first.wait_for()
    return seen.page


def answered(page: Page) -> str:
    """The id of the job whose answer came beside the first."""
    page.locator("[data-ask-status]", has_text="Updated. Price: 0.").wait_for()
    return str(page.locator("#asked-again a").get_attribute("href")).rpartition("/")[2]


def test_a_slider_brings_another_answer_at_price_0(
    service: Installation, browser: Browser, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    """With the keyboard; the same question a second time is the job that exists."""
    with service.client(keys["owner"]) as owner, tab(browser, service.url) as seen:
        spent = [one["spent"] for one in owner.budgets()]
        entries = written(owner)
        seen.login(keys["owner"])
        page = opened(seen, jobs["dr_ensemble"])
        slider = page.get_by_role("slider", name="Discomfort weight: slider")
        assert (slider.get_attribute("aria-valuetext"), slider.input_value()) == ("1", "0.5")
        slider.press("ArrowRight")
        assert slider.get_attribute("aria-valuetext") == "1.1"  # no key is pressed in vain
        slider.press("PageUp")
        value = float(page.get_by_label("Discomfort weight", exact=True).input_value())
        assert value > 1
        again = answered(page)
        first, second = owner.job(jobs["dr_ensemble"]), owner.job(again)
        assert second["problem"]["discomfort_weight"] == value
        assert (second["price"]["epsilon"], second["release"]) == (0, [first["id"]])
        assert second["name"].startswith("Discomfort weight ")
        shown = [page.locator("#what-if .headline").nth(place).inner_text() for place in range(2)]
        assert shown == [f"{owner.job(one)['headline']}." for one in (first["id"], again)]
        assert shown[0] != shown[1]
        seen.draw()
        assert page.locator("#what-if .plot[data-drawn]").count() == 2
        page.get_by_role("button", name="Reset").press("Enter")
        page.locator("[data-ask-status]", has_text="Original.").wait_for()
        assert page.locator("#asked-again").count() == 0
        page.get_by_label("Discomfort weight", exact=True).fill(str(value))
        assert answered(page) == again
        assert [one["spent"] for one in owner.budgets()] == spent
        assert written(owner) == entries
        seen.go("/jobs")
        assert "asks The first dr_ensemble again" in page.locator(f"#{again} td.on").inner_text()


def test_choices_lists_and_what_is_refused(
    service: Installation, browser: Browser, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    with service.client(keys["owner"]) as owner, tab(browser, service.url) as seen:
        seen.login(keys["owner"])
        page = opened(seen, jobs["dr_ensemble"])
        page.get_by_label("Price", exact=True).wait_for()
        page.get_by_role("slider", name="Price: slider").press("End")
        dear = owner.job(answered(page))["problem"]["price"]
        assert dear == pytest.approx(
            [10 * one for one in owner.job(jobs["dr_ensemble"])["problem"]["price"]]
        )
        page.get_by_label("Discomfort weight", exact=True).fill("-1")
        page.get_by_text("Correct the marked fields").wait_for()
        assert (
            page.get_by_label("Discomfort weight", exact=True).get_attribute("aria-invalid")
            == "true"
        )
        page.get_by_role("button", name="Reset").click()
        page.locator("[data-ask-status]", has_text="Original.").wait_for()
        page.get_by_text("More that is free to ask").click()
        page.get_by_label("Policy", exact=True).select_option(label="Taylor")
        page.get_by_label("Concentration", exact=True).fill("20")
        problem = owner.job(answered(page))["problem"]
        assert (problem["policy"], problem["concentration"]) == ("taylor", 20)


def test_one_question_is_under_way_at_a_time(
    service: Installation, browser: Browser, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    """However often it is turned: of those that come meanwhile the last alone is asked."""
    with service.client(keys["owner"]) as owner, tab(browser, service.url) as seen:
        before = len(owner.jobs()["jobs"])
        seen.login(keys["owner"])
        page = opened(seen, jobs["off_policy_evaluation"])
        posts: list[str] = []
        page.on(
            "request",
            lambda request: posts.append(request.url) if request.method == "POST" else None,
        )
        held: list[Route] = []
        page.route("**/ask", lambda route: route.continue_() if held else held.append(route))
        field = page.get_by_label("Discount", exact=True)
        field.fill("0.31")
        page.wait_for_timeout(900)  # longer than the pause: the first is under way, and held
        for value in ("0.32", "0.33", "0.34"):
            field.fill(value)
            page.wait_for_timeout(700)
        assert len(posts) == 1
        held[0].continue_()
        again = answered(page)
        assert owner.job(again)["problem"]["discount"] == 0.34
        assert len(posts) == 2
        assert len(owner.jobs()["jobs"]) == before + 2


def test_a_stored_network_is_asked_of_where_it_fits(
    service: Installation, browser: Browser, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    with (
        service.client(keys["owner"]) as owner,
        tab(browser, service.url, viewport={"width": 360, "height": 800}) as seen,
    ):
        owner.networks.add({"nodes": 1, "links": []}, name="Too small")
        owner.networks.add(bodies.network(), name="Fits")
        seen.login(keys["analyst"])
        page = opened(seen, jobs["routing"])
        offered = page.get_by_label("Network", exact=True).locator("option").all_inner_texts()
        assert [one.split(",")[0] for one in offered] == ["Original", "Fits"]
        page.get_by_label("Objective", exact=True).select_option(label="User equilibrium")
        found = owner.job(answered(page))
        assert found["problem"]["objective"] == "user_equilibrium"
        assert found["name"] == "Objective user equilibrium"
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 360


def test_roads_are_closed(
    service: Installation, browser: Browser, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    """By their names, several at once, and opened again; what leaves a zone without a way is
    refused beside them."""
    out, on, back = ("1 \u2192 3", "3 \u2192 2", "2 \u2192 1")
    with service.client(keys["owner"]) as owner, tab(browser, service.url) as seen:
        first = owner.job(jobs["routing"])
        ends = [
            f"{link['tail']} \u2192 {link['head']}" for link in first["problem"]["network"]["links"]
        ]

        def chosen(number: int) -> str:
            return (
                page.get_by_label(f"Closed Links: {number}").locator("option:checked").inner_text()
            )

        seen.login(keys["owner"])
        page = opened(seen, jobs["routing"])
        page.get_by_label("Closed Links: 1").select_option(label=out)
        found = owner.job(answered(page))
        assert found["problem"]["network"] == first["problem"]["network"]
        assert found["problem"]["closed_links"] == [ends.index(out)]
        page.get_by_text("to total travel time (90 % NI: ").first.wait_for()
        assert (found["price"]["epsilon"], found["release"]) == (0, [first["id"]])
        assert found["name"] == f"Closed links {out}"
        page.get_by_label("Closed Links: 2").focus()
        page.keyboard.type(back)  # its first letters: the choice stays under them while it is asked
        page.get_by_text("no path leads from zone 2 to zone 1").wait_for()
        assert (chosen(2), chosen(3)) == (back, "And \u2026")
        page.get_by_label("Closed Links: 2").select_option(label=on)
        page.locator("#asked-again", has_text=f"Closed links {out}, {on}").wait_for()
        again = answered(page)
        both = sorted([ends.index(out), ends.index(on)])
        assert owner.job(again)["problem"]["closed_links"] == both
        page.get_by_label("Closed Links: 1").select_option(label="None")
        page.locator("#asked-again", has_text=re.compile(f"Closed links {on}")).wait_for()
        page = opened(seen, again)  # whose roads are closed already
        assert [chosen(1), chosen(2), chosen(3)] == [ends[place] for place in both] + ["And \u2026"]
        page.get_by_label("Closed Links: 2").select_option(label="And \u2026")
        assert owner.job(answered(page))["problem"]["closed_links"] == both[:1]


def test_of_what_answers_nothing_else_nothing_is_promised(
    service: Installation, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    with Visitor.logged_in(service, keys["owner"]) as owner:
        page = owner.get(f"/jobs/{jobs['multi_agent']}").response.text
        assert "No free follow-ups: another question" in page
        assert 'id="what-if"' not in page
        form = owner.get(f"/jobs/new?release={jobs['dr_ensemble']}").response.text
        assert "Fixed at the release" in form
        assert "&#34;fixed&#34;: [&#34;clip&#34;" in form


def test_names_of_no_road_are_refused(
    service: Installation, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    """Whatever stands in the list, and of whichever network: beside the field, and nothing is
    asked."""
    with Visitor.logged_in(service, keys["owner"]) as owner:
        address = f"/jobs/{jobs['routing']}"
        token = re.search(r'data-csrf="([0-9a-f]+)"', owner.get(address).response.text)
        assert token is not None
        of_none = {"closed_links": ["1 \u2192 3"], "network": "net_none"}
        for changes, pointer, says in (
            ({"closed_links": ["Low St"]}, "/problem/closed_links", "no link is called"),
            ({"closed_links": ["1 \u2192 3", 1.5]}, "/problem/closed_links/1", "integer"),
            ({"closed_links": ["1 \u2192 3", {"deep": []}]}, "/problem/closed_links/1", "integer"),
            ({"closed_links": ["1 \u2192 3", 99]}, "/problem/closed_links/1", "the network has"),
            ({"closed_links": ["1 \u2192 3"] * 301}, "/problem/closed_links", "at most 300 names"),
            (of_none, "/problem/network", "there is no network net_none"),
            ({"select_links": ["1 \u2192 3"]}, "/problem/select_links/0", "integer"),
        ):
            data = {"csrf": token[1], "changes": json.dumps(changes)}
            headers = {"Origin": owner.origin, "Accept": "application/json"}
            answer = owner.http.post(f"{address}/ask", data=data, headers=headers)
            assert answer.status_code in (404, 422), (changes, answer.text)
            found = answer.json()
            told = [(one["pointer"], one["detail"]) for one in found["issues"]] or [
                (pointer, found["detail"])
            ]
            assert told[0][0] == pointer, (changes, told)
            assert says in told[0][1], (changes, told)


def test_it_is_for_who_may_ask(
    service: Installation, keys: dict[str, str], jobs: dict[str, str]
) -> None:
    job = jobs["dr_ensemble"]
    with Visitor.logged_in(service, keys["auditor"]) as auditor:
        assert 'id="what-if"' not in auditor.get(f"/jobs/{job}").response.text
        assert auditor.http.get(f"/jobs/{job}/ask").status_code == 403
    with Visitor.logged_in(service) as stranger:
        assert stranger.http.get(f"/jobs/{job}/ask").status_code == 404
    with Visitor.logged_in(service, keys["owner"]) as owner:
        token = re.search(r'data-csrf="([0-9a-f]+)"', owner.get(f"/jobs/{job}").response.text)
        assert token is not None
        for changes, status in (
            ('{"method": "dirichlet"}', 422),
            ('{"dataset": "dst_x"}', 422),
            ('{"discomfort_weight": 0}', 422),
            ("[]", 422),
            ("{", 400),
            ("{}", 200),
        ):
            data = {"csrf": token[1], "changes": changes}
            answer = owner.http.post(
                f"/jobs/{job}/ask",
                data=data,
                headers={"Origin": owner.origin, "Accept": "application/json"},
            )
            assert answer.status_code == status, (changes, answer.text)
        assert answer.json() == {"id": job, "state": "succeeded"}
