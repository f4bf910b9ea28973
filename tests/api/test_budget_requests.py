"""Asking for more of a budget, and what an owner answers: in the ledger only by a grant."""

from __future__ import annotations

import json
import threading

import pytest

from discreet.ledger.verification import verify
from discreet.usecases.budget_requests import MOST_OPEN
from discreet_client.client import ApiError, Client
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser


@pytest.fixture(scope="module")
def keys(api_only: Installation) -> dict[str, str]:
    """Keys of a tenant of its own, by principal."""
    people = {"owner": "olga", "analyst": "ann", "auditor": "alf"}
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("asking")
        return {
            name: operator.create_key(role=role, principal=name, tenant="asking")["key"]
            for role, name in [*people.items(), ("analyst", "abe")]
        }


def refused(client: Client, account: str, *, request: str | None = None) -> tuple[int, str]:
    try:
        if request is None:
            client.request_budget(account, epsilon=0.1, reason="more")
        else:
            client.grant(account, epsilon=9, delta=0, reason="again", request=request)
    except ApiError as error:
        return error.status, error.code
    return 200, ""


def test_a_grant_answers_a_request_and_the_ledger_says_who_asked_and_why(
    api_only: Installation, keys: dict[str, str]
) -> None:
    with api_only.client(keys["olga"]) as owner, api_only.client(keys["ann"]) as analyst:
        dataset = owner.register(bodies.dataset(epsilon=0.5))
        account = dataset["account"]
        before = list(owner.entries(account))
        asked = analyst.request_budget(
            account, epsilon=0.25, delta=1e-6, reason="the bridge is closed"
        )
        assert (asked["state"], asked["principal"], asked["account"]) == ("open", "ann", account)
        assert asked["more"] == {"epsilon": 0.25, "delta": 1e-6}
        assert list(owner.entries(account)) == before  # asking is no entry
        assert owner.budget(account)["cap"] == {"epsilon": 0.5, "delta": 0}
        analyst.submit(bodies.job(dataset["id"], 0.4))
        with pytest.raises(ApiError) as low:  # what the ledger refuses leaves the request open
            owner.grant(account, epsilon=0.1, delta=0, reason="less", request=asked["id"])
        assert low.value.code == "cap_below_spent"
        assert analyst.budget_requests(account)[0]["state"] == "open"
        owner.grant(
            account, epsilon=0.75, delta=1e-6, reason="granted as asked", request=asked["id"]
        )
        entry = list(owner.entries(account))[-1]
        reason = "granted as asked (asked for by ann: the bridge is closed)"
        assert (entry["kind"], entry["actor"], entry["reason"]) == ("grant", "olga", reason)
        (shown,) = analyst.budget_requests(account)
        assert (shown["state"], shown["answered_by"], shown["answer"]) == (
            "granted",
            "olga",
            "granted as asked",
        )
        assert refused(owner, account, request=asked["id"]) == (409, "request_answered")
        assert owner.budget(account)["cap"]["epsilon"] == 0.75
        other = owner.register(bodies.dataset())["account"]
        assert refused(owner, other, request=asked["id"]) == (
            404,
            "not_found",
        )  # of another account
        exported = owner.call(operations.export_ledger())
        verify(exported.splitlines(keepends=True), head=owner.ledger_head())


def test_a_declined_request_leaves_the_ledger_as_it_was(
    api_only: Installation, keys: dict[str, str]
) -> None:
    with api_only.client(keys["olga"]) as owner, api_only.client(keys["ann"]) as analyst:
        account = owner.register(bodies.dataset())["account"]
        before = list(owner.entries(account))
        asked = analyst.request_budget(account, epsilon=1, reason="why not")
        said = owner.decline_budget_request(account, asked["id"], "ask the release of May again")
        assert (said["state"], said["answer"]) == ("declined", "ask the release of May again")
        assert list(owner.entries(account)) == before
        with pytest.raises(ApiError) as again:
            owner.decline_budget_request(account, asked["id"], "no")
        assert again.value.code == "request_answered"
        assert refused(owner, account, request=asked["id"]) == (409, "request_answered")
    for name in ("ann", "alf"):
        with api_only.client(keys[name]) as client, pytest.raises(ApiError) as forbidden:
            client.decline_budget_request(account, asked["id"], "no")
        assert forbidden.value.status == 403
    with api_only.client(keys["alf"]) as auditor:
        assert [one["id"] for one in auditor.budget_requests(account)] == [asked["id"]]
        assert refused(auditor, account) == (403, "forbidden")


def test_a_principal_waits_for_answers(api_only: Installation, keys: dict[str, str]) -> None:
    """However many ask at once; others still may."""
    with api_only.client(keys["olga"]) as owner:
        account = owner.register(bodies.dataset())["account"]
    codes: list[str] = []

    def ask() -> None:
        with api_only.client(keys["abe"]) as client:
            try:
                codes.append(client.request_budget(account, epsilon=0.1, reason="more")["state"])
            except ApiError as error:
                codes.append(error.code)

    threads = [threading.Thread(target=ask) for _ in range(2 * MOST_OPEN)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(codes) == ["open"] * MOST_OPEN + ["too_many_open_requests"] * MOST_OPEN
    with api_only.client(keys["olga"]) as owner, api_only.client(keys["abe"]) as analyst:
        first, *others = owner.budget_requests(account)
        owner.decline_budget_request(account, first["id"], "one at a time")
        assert analyst.request_budget(account, epsilon=0.1, reason="then this")["state"] == "open"
        for one in others:
            owner.decline_budget_request(account, one["id"], "no")


def test_pages_ask_and_answer(api_only: Installation, keys: dict[str, str]) -> None:
    """From a price that does not fit to the form that asks, to the owner's first page, to the
    grant."""
    with api_only.client(keys["olga"]) as owner:
        dataset = owner.register(bodies.dataset(epsilon=0.25))
    place = f"/budgets/{dataset['account']}"
    with (
        Browser.logged_in(api_only, keys["ann"]) as analyst,
        Browser.logged_in(api_only, keys["olga"]) as visitor,
    ):
        text = json.dumps(bodies.job(dataset["id"], 0.75))
        priced = analyst.submit(analyst.get("/jobs/new"), "/jobs/new", body=text, action="price")
        assert f'href="{place}?more=0.5#more"' in priced.response.text
        page = analyst.get(f"{place}?more=0.5")
        assert page.form(f"{place}/requests")["fields"]["epsilon"] == "0.5"
        assert (
            visitor.get(f"{place}?more=0.5").form(f"{place}/grants")["fields"]["epsilon"] == "0.75"
        )
        nameless = analyst.submit(page, f"{place}/requests", reason=" ")
        assert (nameless.status, "/reason" in nameless.text) == (422, True)
        asked = analyst.submit(page, f"{place}/requests", reason="the <bridge> is closed")
        assert "the <bridge> is closed" in asked.text
        assert (
            "Grant" not in asked.text.partition("Requests for more")[2].partition("Ask an owner")[0]
        )
        front = visitor.get("/")
        assert "the <bridge> is closed" in front.text
        assert f'href="{place}#requests"' in front.response.text
        assert "the <bridge> is closed" not in analyst.get("/").text
        answered = visitor.submit(
            visitor.get(place), f"{place}/grants"
        )  # the first form: that of the request
        assert "granted as asked (asked for by ann: the <bridge> is closed)" in answered.text
        assert "the <bridge> is closed" not in visitor.get("/").text
    with api_only.client(keys["olga"]) as owner:
        assert owner.budget(dataset["account"])["cap"]["epsilon"] == 0.75
    with Browser.logged_in(api_only) as stranger:
        assert stranger.get(place).status == 404
        assert "bridge" not in stranger.get("/").text


def test_a_page_declines(api_only: Installation, keys: dict[str, str]) -> None:
    with api_only.client(keys["olga"]) as owner, api_only.client(keys["ann"]) as analyst:
        account = owner.register(bodies.dataset())["account"]
        asked = analyst.request_budget(account, epsilon=1, reason="why not")["id"]
    place = f"/budgets/{account}"
    with Browser.logged_in(api_only, keys["olga"]) as visitor:
        page = visitor.submit(
            visitor.get(place), f"{place}/requests/{asked}/decline", answer="not this year"
        )
        assert "not this year" in page.text
        assert "declined" in page.text
    with Browser.logged_in(api_only, keys["ann"]) as analyst:
        assert "not this year" in analyst.get(place).text
