"""Pages over a real API: what every role sees, and what no page may do."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from typing import get_args

import pytest

from discreet.dashboard import words
from discreet.storage.audit_log import Action
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser, Page
from tests.dashboard.test_help import help_of, leads_to_a_heading

FIRST_PAINT_BYTES = 200_000
EVIL = "</textarea></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' {{7*7}}"


@dataclass
class Seeded:
    """An installation with a dataset, a job that waits, a cap, and the keys of all roles."""

    running: Installation
    keys: dict[str, str]
    dataset: str
    account: str
    job: str
    agents_job: str
    network: str

    def pages(self) -> list[str]:
        """Every page by address, with objects of this tenant."""
        return [
            "/",
            f"/budgets/{self.account}",
            "/ledger",
            f"/ledger?account={self.account}&kind=reserve&job={self.job}&since=2020-01-01&until=2999-01-01",
            f"/ledger/{self.account}/1",
            f"/ledger/{self.account}/2",
            "/jobs",
            "/jobs?state=failed",
            "/jobs/new",
            "/jobs/new?kind=dr_ensemble",
            f"/jobs/new?dataset={self.dataset}",
            f"/jobs/{self.job}",
            f"/jobs/{self.agents_job}",
            "/datasets",
            "/datasets/new",
            "/datasets/new?kind=off_policy_evaluation",
            f"/datasets/{self.dataset}",
            f"/datasets/{self.dataset}/delete",
            "/networks",
            "/networks/new",
            f"/networks/{self.network}",
            f"/jobs/new?network={self.network}",
            "/audit",
            "/changes",
            "/changes?action=key.create",
            "/operations",
            "/admin",
        ]


@pytest.fixture(scope="module")
def seeded(api_only: Installation) -> Seeded:
    """Names are all hostile: whatever page shows one shows it as text."""
    federated = {
        "problem": {
            "kind": "multi_agent",
            "constraints": ["left + right - 4"],
            "schedule": {"gamma": 0.05, "alpha": 0.05, "c1": 0.3333, "c2": 0.25, "iterations": 20},
            "protocol": "federated",
            "federation": {"agents": 2},
        },
        "privacy": {"epsilon": 1, "delta": 0.001},
    }
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant(EVIL)
        keys = {
            role: operator.create_key(role=role, principal=f"{role} {EVIL}", tenant=EVIL)["key"]
            for role in ("owner", "analyst", "auditor", "operator")
        }
    with api_only.client(keys["owner"]) as owner, api_only.client(keys["analyst"]) as analyst:
        dataset = owner.register(bodies.dataset(name=f"trips {EVIL}"))
        owner.grant(dataset["account"], epsilon=2, delta=0.001, reason=EVIL)
        owner.set_cap(
            scope="principal", principal=f"analyst {EVIL}", epsilon=5, delta=0.1, reason=EVIL
        )
        job = analyst.submit(bodies.job(dataset["id"], 0.1))
        waiting = analyst.submit(federated)
        hostile = {"node_names": [f"{one} {EVIL}" for one in range(4)]}
        hostile |= {"nodes_xy": [[0, 0], [1, 0], [1, 1], [0, 1]]}
        network = owner.networks.add({**bodies.network(), **hostile}, name=f"roads {EVIL}")
    return Seeded(
        *(api_only, keys, dataset["id"], dataset["account"], job["id"], waiting["id"]),
        network=network["id"],
    )


MAY = {
    "owner": {"/admin", "/changes", "/datasets/new", "/networks/new", "/delete", "/jobs/new"},
    "analyst": {"/jobs/new"},
    "auditor": {"/changes"},
}
"""Of the pages that not everybody sees, those of each role."""


@pytest.mark.parametrize("role", ["owner", "analyst", "auditor", "operator"])
def test_every_page_for_every_role(seeded: Seeded, role: str) -> None:
    with Browser.logged_in(seeded.running, seeded.keys[role]) as browser:
        for address in seeded.pages():
            page = browser.get(address)
            guarded = [
                part
                for part in (
                    "/admin",
                    "/changes",
                    "/operations",
                    "/datasets/new",
                    "/networks/new",
                    "/delete",
                    "/jobs/new",
                )
                if part in address
            ]
            if role == "operator":
                allowed = address in ("/", "/admin", "/operations", "/audit") or address.startswith(
                    "/changes"
                )
            else:
                allowed = not guarded or guarded[0] in MAY[role]
            assert page.status == (200 if allowed else 403), (address, page.text[:2000])
            check_page(page)


def check_page(page: Page) -> None:
    """What holds of every page, refusals too."""
    headers = page.response.headers
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    for script in page.scripts:
        assert str(script["src"]).startswith("/static/"), script
    for tag, values in page.tags:
        assert "style" not in values, (tag, values)
        assert not [name for name in values if name.startswith("on")], (tag, values)
        for name in ("src", "href", "action", "formaction"):
            assert str(values.get(name, "/")).startswith(("/", "#")), (tag, values)
    assert dict(page.tags)["html"]["lang"] == "en"
    assert len([tag for tag, _ in page.tags if tag == "h1"]) == 1, page.response.url
    (leads,) = help_of(page)
    assert leads_to_a_heading(leads), (page.response.url, leads)
    ids = [values["id"] for _, values in page.tags if "id" in values]
    assert len(ids) == len(set(ids)), page.response.url
    labelled = {values.get("for") for tag, values in page.tags if tag == "label"}
    for tag, values in page.tags:
        if tag in ("select", "textarea") or (
            tag == "input" and values.get("type") not in ("hidden", "submit")
        ):
            assert values.get("id") in labelled, (page.response.url, values)


def test_hostile_names_stay_text(seeded: Seeded) -> None:
    shown = 0
    for role in ("owner", "operator"):
        with Browser.logged_in(seeded.running, seeded.keys[role]) as browser:
            for address in seeded.pages():
                page = browser.get(address)
                assert not [tag for tag, values in page.tags if tag == "img"], address
                assert "<script>alert" not in page.response.text, address
                shown += EVIL in page.text
    assert shown > 15  # the names are there, on most pages


def test_other_tenants_objects_do_not_exist(seeded: Seeded) -> None:
    with Browser.logged_in(seeded.running) as stranger:
        for address in seeded.pages():
            if any(
                one in address
                for one in (f"/{seeded.job}", seeded.agents_job, seeded.dataset, seeded.account)
            ):
                page = stranger.get(address)
                if "?" in address:  # a filter or a choice that fits nothing
                    assert page.status == 200
                    assert f"/jobs/{seeded.job}" not in page.links
                else:
                    assert page.status == 404, address
                    check_page(page)
        csrf = stranger.get("/").form("/logout")["fields"]["csrf"]
        fields = {"csrf": csrf, "owner": "0" * 64, "epsilon": "9", "reason": "mine"}
        for address in (
            f"/jobs/{seeded.job}/cancel",
            f"/jobs/{seeded.agents_job}/tokens",
            f"/budgets/{seeded.account}/grants",
            f"/datasets/{seeded.dataset}/delete",
        ):
            kind, name, act = address.strip("/").split("/")
            never = f"/{kind}/{name[:4]}{'0' * 26}/{act}"
            answers = [
                stranger.http.post(path, data=fields, headers={"Origin": stranger.origin})
                for path in (address, never)
            ]
            # Links for agents cannot be made at all without an rpc address: 503 for everybody.
            assert (
                answers[0].status_code
                == answers[1].status_code
                == (503 if act == "tokens" else 404)
            ), address
            assert ("waiting does not help" in answers[0].text) == (act == "tokens")
            assert answers[0].text == answers[1].text.replace(never, address)
        for address in (
            f"/jobs/{seeded.job}/events",
            f"/budgets/{seeded.account}/charts/spending.json",
        ):
            assert stranger.http.get(address).status_code == 404
    with seeded.running.client(seeded.keys["owner"]) as owner:
        assert owner.job(seeded.job)["state"] == "queued"


def posts(running: Installation) -> list[str]:
    """The addresses that pages post to, from the application itself."""
    from discreet.dashboard.routes import (
        admin,
        budgets,
        datasets,
        jobs,
        ledger,
        login,
        networks,
        new_job,
    )

    found = []
    for module in (admin, budgets, datasets, jobs, ledger, login, networks, new_job):
        for route in module.router.routes:
            methods = getattr(route, "methods", None) or set()
            assert methods <= {"GET", "HEAD", "POST"}, route  # forms know no other
            if "POST" in methods:
                found.append(str(getattr(route, "path", "")))
    return found


def test_no_post_passes_without_its_token(seeded: Seeded) -> None:
    """Not even where the cookie is right: that is what another site's form could send."""
    found = posts(seeded.running)
    assert len(found) > 12
    with Browser.logged_in(seeded.running, seeded.keys["owner"]) as browser:
        for path in found:
            if path in (
                "/login/links",
                "/theme",
            ):  # takes a key and no cookie; changes nothing but colours
                continue
            address = re.sub(r"\{.*?\}", "x", path)
            for origin in (browser.origin, "https://evil.example"):
                answer = browser.http.post(
                    address, data={"csrf": "f" * 64}, headers={"Origin": origin}
                )
                assert answer.status_code == 403, (path, origin)
        with Browser(seeded.running) as nobody:
            answer = nobody.http.post("/login/links", headers={"Origin": nobody.origin})
            assert answer.status_code == 401


def test_first_paint_is_light(seeded: Seeded) -> None:
    """A page with all that it loads at once, as it goes over the wire, without what charts load
    later."""
    with Browser.logged_in(seeded.running, seeded.keys["owner"]) as browser:
        for address in seeded.pages():
            page = browser.get(address)
            total = len(page.response.content)
            for tag, values in page.tags:
                source = (
                    values.get("src")
                    if tag == "script"
                    else values.get("href")
                    if tag == "link"
                    else None
                )
                if source:
                    asset = browser.http.get(source, headers={"Accept-Encoding": "gzip"})
                    assert asset.status_code == 200
                    assert "immutable" in asset.headers["cache-control"]
                    total += len(gzip.compress(asset.content))
            assert total < FIRST_PAINT_BYTES, (address, total)


def test_assets_are_asked_for_again_under_other_versions(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        answer = browser.http.get("/static/style.css?v=old")
        assert answer.headers["cache-control"] == "no-cache"
        again = browser.http.get(
            "/static/style.css?v=old", headers={"If-None-Match": answer.headers["etag"]}
        )
        assert (again.status_code, again.content) == (304, b"")
        for name in ("nothing.css", "..%2fapp.py", "%2e%2e/pages.py"):
            assert browser.http.get(f"/static/{name}").status_code == 404


def test_the_api_keeps_its_problem_documents(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        for address in ("/v1/nothing", "/v1/jobs"):
            answer = browser.http.get(address)
            assert answer.headers["content-type"] == "application/problem+json"
        script = browser.http.get("/jobs", headers={"Accept": "application/json"})
        assert (script.status_code, script.json()["code"]) == (401, "unauthenticated")


def test_every_change_of_the_audit_log_has_words() -> None:
    assert set(words.CHANGES) == set(get_args(Action))
    assert words.change("login.key") == "logged in with a key"
    assert words.change("of.a_later_version") == "of.a_later_version"
