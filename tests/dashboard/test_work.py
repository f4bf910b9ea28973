"""What people do with the pages: register, price, submit, watch, grant, look at the ledger, hand
out keys."""

from __future__ import annotations

import contextlib
import io
import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet import cli
from discreet.dashboard import pages
from discreet.problems import DATASETS, KINDS
from discreet.problems.numbers import PRESETS
from discreet.settings import Settings
from discreet.usecases import access, audits, verification
from discreet.usecases.services import open_services
from discreet.usecases.verification import Verification, Verifier
from discreet.web.middleware import is_untimed
from discreet_client.errors import Conflict
from tests import bodies
from tests.conftest import Installation, eventually
from tests.dashboard.browsing import Browser, Page


def registered(browser: Browser, **values: Any) -> Page:
    """The page after registering a dataset with a file, as a browser without JavaScript does."""
    body = bodies.dataset(**values)
    page = browser.submit(
        browser.get("/datasets/new?kind=routing"),
        "/datasets/new",
        name=body["name"],
        public=json.dumps(body["public"]),
        epsilon=str(body["cap"]["epsilon"]),
        delta=str(body["cap"]["delta"]),
        retention_days="30",
    )
    assert "Step 2 of 2" in page.text, page.text
    content = json.dumps(body["content"]).encode()
    looked = browser.submit(page, "/datasets/read", files={"content": ("trips.json", content)})
    return browser.submit(looked, "/datasets/reading", register="yes")


OWN: list[tuple[str, dict[str, Any]]] = [
    ("routing", {"unit": "request", "zones": 7, "periods": 5, "period_minutes": 60}),
    ("routing", {"unit": "person", "zones": 3, "periods": 2, "period_minutes": 60}),
    ("dr_ensemble", {"unit": "participant", "states": 5, "participants": 30, "steps": 9}),
    ("dr_ensemble", {"unit": "row", "states": 3, "row_change": 0.02, "min_probability": 0.1}),
    (
        "off_policy_evaluation",
        {"unit": "trajectory", "states": 12, "reward_bound": 3, "horizon": 6},
    ),
    (
        "off_policy_evaluation",
        {"unit": "trajectory", "features": 2, "reward_bound": 1, "horizon": 4},
    ),
    (
        "off_policy_evaluation",
        {"unit": "trajectory", "features": 12, "reward_bound": 1, "horizon": 4},
    ),
    (
        "multi_agent",
        {
            "unit": "trajectory",
            "agents": [
                {"name": f"pump_{number}", "lower": -2, "upper": 6, "radius": 0.1, **extra}
                for number, extra in enumerate(({}, {"lower": 1}, {"upper": 0}))
            ],
        },
    ),
]
"""Public parts that no kind's own example has."""


@pytest.mark.parametrize(
    ("kind", "public"), OWN, ids=[f"{kind}-{number}" for number, (kind, _) in enumerate(OWN)]
)
def test_the_first_click_works_on_ones_own_data(
    api_only: Installation, kind: str, public: dict[str, Any]
) -> None:
    """The example that the page offers for a dataset is one of that dataset: planned and accepted
    as it stands."""
    dataset, synthesis = DATASETS[kind], KINDS[kind].synthesis
    assert synthesis is not None
    read = dataset.read_public(public)
    columns = synthesis.columns(read, np.random.default_rng(7), dataset.most_units(read))
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    file.seek(0)
    body: dict[str, Any] = {
        "kind": kind,
        "name": "own",
        "public": public,
        "cap": {"epsilon": 0.5, "delta": 1e-4},
    }
    if "row_change" in public:  # one row more or less is dear
        body["cap"] = {"epsilon": 5, "delta": 1e-4}
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        own = client.upload(body, file, "own.parquet")
        for address in (f"/jobs/new?dataset={own['id']}", f"/budgets/{own['account']}"):
            page = browser.get(address)
            priced = browser.submit(page, "/jobs/new", action="price")
            assert "Free to check. Submitting reserves the whole price" in priced.text, priced.text
        job = browser.submit(priced, "/jobs/new", action="submit")
        assert client.job(id_in(job, "job"))["dataset"] == own["id"]
        assert (
            0 < client.budget(own["account"])["reserved"]["epsilon"] <= body["cap"]["epsilon"] / 2
        )


@pytest.mark.parametrize("kind", sorted(DATASETS))
def test_the_cap_that_a_form_proposes_is_no_more_than_loose(
    api_only: Installation, kind: str
) -> None:
    with Browser.logged_in(api_only) as browser:
        proposed = browser.get(f"/datasets/new?kind={kind}").form("/datasets/new")["fields"][
            "epsilon"
        ]
    assert 0 < float(proposed) <= PRESETS["loose"]


FEATURES = {"states": None, "topology": None, "rewards": None, "features": 1}
METERED = {
    "edges": [0, 1, 9],
    "meters": {"start": "2026-02-10T00:00:00+01:00", "interval_seconds": 900},
}


@pytest.mark.parametrize(
    ("kind", "changes", "says"),
    [
        ("dr_ensemble", {"states": 2}, "Your file has kW at times? Change the public part"),
        ("dr_ensemble", {"states": 2, **METERED}, None),
        ("off_policy_evaluation", {}, None),
        ("off_policy_evaluation", FEATURES, "Your file has one visit a row"),
        (
            "off_policy_evaluation",
            {**FEATURES, "ranges": [{"name": "age", "low": 20, "high": 90}]},
            None,
        ),
        ("routing", {}, None),
    ],
)
def test_files_of_another_shape_are_told_where_to_go(
    api_only: Installation, kind: str, changes: dict[str, Any], says: str | None
) -> None:
    public = {**KINDS[kind].example()["problem"]["dataset"]["public"], **changes}
    with Browser.logged_in(api_only) as browser:
        form = browser.get(f"/datasets/new?kind={kind}")
        page = browser.submit(
            form, "/datasets/new", name="own", public=json.dumps(public), epsilon="1", delta="0"
        )
        assert "Step 2 of 2" in page.text
        for sentence in ("Your file has kW", "Your file has one visit"):
            assert (sentence in page.text) == (says is not None and says.startswith(sentence))


def test_what_to_expect_is_a_list_in_which_names_are_set_apart() -> None:
    macro: Any = pages.environment.get_template("parts.html").module
    sentences = ["within 5 %: give `return_bounds`", "`discreet rehearse` tells", "<b>"]
    said = macro.advice({"advice": sentences})
    assert "<li>within 5\u00a0%: give “Return bounds”</li>" in said
    assert "<li><code>discreet rehearse</code> tells</li><li>&lt;b&gt;</li>" in said
    assert said.count("What to expect") == 1
    assert "expect" not in macro.advice({"advice": []})


def next_month() -> str:
    return (datetime.now(UTC) + timedelta(days=30)).date().isoformat()


def id_in(page: Page, prefix: str) -> str:
    found = re.search(rf"{prefix}_[0-9a-z]{{26}}", str(page.response.url))
    assert found, page.response.url
    return found[0]


def test_from_data_to_certificate(service: Installation) -> None:
    with Browser.logged_in(service) as browser, service.client() as client:
        page = registered(browser)
        dataset = id_in(page, "dst")
        assert "Registered." in page.text
        assert "It is erased at" in page.text
        account = client.dataset(dataset)["account"]

        form = browser.get(f"/jobs/new?dataset={dataset}")
        assert dataset in form.form("/jobs/new")["fields"]["body"]
        text = json.dumps(bodies.job(dataset, 0.1))
        priced = browser.submit(form, "/jobs/new", body=text, action="price")
        assert "It would cost" in priced.text
        assert "Submit for epsilon 0.1" in priced.text
        assert client.budget(account)["reserved"]["epsilon"] == 0

        # A text that was changed after its price was shown is priced again, never submitted.
        changed = browser.submit(
            priced, "/jobs/new", body=text.replace("0.1", "0.2"), action="submit"
        )
        assert "changed after its price was shown" in changed.text
        assert "Submit for epsilon 0.2" in changed.text
        assert client.budget(account)["reserved"]["epsilon"] == 0

        job_page = browser.submit(priced, "/jobs/new", action="submit")
        job = id_in(job_page, "job")
        again = browser.submit(
            priced, "/jobs/new", action="submit"
        )  # a double click is the same job
        assert id_in(again, "job") == job
        client.wait(job)
        with browser.http.stream("GET", f"/jobs/{job}/events") as stream:
            events = "".join(stream.iter_text())
        assert '"state": "succeeded"' in events

        done = browser.get(f"/jobs/{job}")
        assert "succeeded" in done.text
        assert f"/jobs/{job}/certificate" in done.links
        certificate = browser.get(f"/jobs/{job}/certificate")
        signed = client.result(job)["certificate"]
        assert signed["signature"] in certificate.text
        assert "epsilon 0.1" in certificate.text
        log, size, *_ = signed["proofs"]["checkpoint"].splitlines()
        for page in (certificate, browser.get(f"/jobs/{job}/page.html")):
            for one in signed["proofs"]["leaves"]:
                assert f"; number {one['number']} of the transparency log" in page.text
            assert f"The transparency log {log} holds" in page.text
            assert f"by a checkpoint of {size} entr" in page.text
            assert "that this service has signed, and no witness." in page.text
        # Another question about what it released is free, and its price is shown first as any.
        assert f"/jobs/new?release={job}" in done.links
        offered = browser.submit(
            browser.get(f"/jobs/new?dataset={dataset}"), "/jobs/new", body=text, action="price"
        )
        assert f"/jobs/new?release={job}" in offered.links
        assert "Reuse the release, free" in offered.text
        assert "Release again for epsilon 0.1" in offered.text
        assert "mostly noise" not in offered.text
        question = browser.get(f"/jobs/new?release={job}")
        asked = question.form("/jobs/new")["fields"]["body"].replace(
            "system_optimum", "user_equilibrium"
        )
        free = browser.submit(question, "/jobs/new", body=asked, action="price")
        assert "free" in free.text
        answer = browser.submit(free, "/jobs/new", action="submit")
        second = next(one for one in re.findall(r"job_[0-9a-z]{26}", answer.text) if one != job)
        client.wait(second)
        assert (
            "the release that it asks again was charged when it was made"
            in browser.get(f"/jobs/{second}").text
        )
        follows = browser.get(f"/jobs/{second}/certificate").text
        assert "Nothing beyond what was released before" in follows
        assert client.result(job)["certificate"]["release_digest"] in follows
        # Its release serves as figures for another: an accuracy, and a rehearsal.
        assert f"/jobs/new?around={job}" in done.links
        assert f"/jobs/new?around={second}" not in browser.get(f"/jobs/{second}").links
        around = browser.get(f"/jobs/new?around={job}")
        asked = around.form("/jobs/new")["fields"]["body"].replace("5%", "20%")
        near = browser.submit(around, "/jobs/new", body=asked, action="price")
        assert f"if the data are as {job} released them" in near.text
        wrong = browser.submit(near, "/jobs/new", around="the last one", action="rehearse")
        assert "/around" in wrong.response.text
        wrong = browser.submit(near, "/jobs/new", units="many", action="rehearse")
        assert "/units" in wrong.response.text
        assert wrong.form("/jobs/new")["fields"]["units"] == "many"
        other = browser.submit(around, "/jobs/new", body=asked, action="price")
        few = browser.submit(other, "/jobs/new", units="70", action="rehearse")
        assert client.job(id_in(few, "job"))["problem"]["of_units"] == 70
        with contextlib.suppress(Conflict):
            client.cancel(id_in(few, "job"))
        rehearsed = browser.submit(near, "/jobs/new", action="rehearse")
        assert f"made of what {job} released" in rehearsed.text
        with contextlib.suppress(Conflict):  # it may have ended
            client.cancel(id_in(rehearsed, "job"))
        budget = browser.get(f"/budgets/{account}")
        assert re.search(r"spent\s+0.1", budget.text)
        assert re.search(r"remaining\s+0.9", budget.text)
        assert any(
            values.get("data-chart") == f"/budgets/{account}/charts/spending.json"
            for _, values in budget.tags
        )
        assert client.budget(account)["spent"]["epsilon"] == 0.1

        deleted = browser.submit(
            browser.get(f"/datasets/{dataset}/delete"), f"/datasets/{dataset}/delete"
        )
        assert "The content is erased" in deleted.text
        assert browser.get(f"/datasets/{dataset}").status == 404
        assert re.search(r"spent\s+0.1", browser.get(f"/budgets/{account}").text)


def test_the_same_content_is_the_same_dataset(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        body = bodies.dataset()
        known = client.register(body)
        page = browser.submit(
            browser.get("/datasets/new"),
            "/datasets/new",
            name="again",
            public=json.dumps(body["public"]),
            epsilon="9",
        )
        typed = browser.submit(page, "/datasets/content", content=json.dumps(body["content"]))
        assert id_in(typed, "dst") == known["id"]
        assert "registered before" in typed.text


def test_people_of_no_other_dataset_get_a_budget_of_their_own(api_only: Installation) -> None:
    """Where there are other data, the form asks whose these are; what is said is kept when one goes
    back."""
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        known = client.register(bodies.dataset())
        public = json.dumps(bodies.dataset()["public"])
        form = browser.get("/datasets/new?kind=routing")
        assert form.form("/datasets/new")["fields"]["account"] == ""
        own = browser.submit(
            form, "/datasets/new", name="others", public=public, epsilon="1", account="new"
        )
        metadata = json.loads(own.form("/datasets/content")["fields"]["metadata"])
        assert "account" not in metadata
        assert metadata["cap"]["epsilon"] == 1
        back = browser.submit(own, "/datasets/new")
        assert back.form("/datasets/new")["fields"]["account"] == "new"
        same = browser.submit(
            form, "/datasets/new", name="same", public=public, epsilon="1", account=known["account"]
        )
        assert (
            json.loads(same.form("/datasets/content")["fields"]["metadata"])["account"]
            == known["account"]
        )


def test_how_long_a_page_took_to_register_content_is_told_nobody(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser:
        registered(browser)
        body = bodies.dataset()
        step = browser.submit(
            browser.get("/datasets/new"),
            "/datasets/new",
            name="x",
            public=json.dumps(body["public"]),
            epsilon="1",
        )
        browser.submit(step, "/datasets/content", content=json.dumps(body["content"]))
        metadata = step.form("/datasets/content")["fields"]["metadata"]
        fields = {"csrf": step.form("/logout")["fields"]["csrf"], "content_from": "file:///x.csv"}
        sent: dict[str, Any] = {"headers": {"Origin": browser.origin}}
        browser.http.post("/datasets/address", data={**fields, "metadata": metadata}, **sent)
        source = {"name": "untimed", "kind": "routing", "by": "label", "public": body["public"]}
        with api_only.client() as owner:
            made = owner.sources.create({**source, "cap": {"epsilon": 1, "delta": 0}})["id"]
            block = owner.sources.add(made, "first", {"trips": []})
        wrong = {**fields, "metadata": metadata, "content_query": "SELECT 1"}
        refused = browser.http.post("/datasets/address", data=wrong, **sent)
        assert refused.status_code == 422
        assert "beside a query, a database is needed" in refused.text
        assert "discreet source create" in browser.get("/sources").text
        first = browser.get(f"/budgets/{block['account']}")
        proposed = json.loads(first.form("/jobs/new")["fields"]["body"])["problem"]
        assert proposed["source"] == {"id": made, "blocks": "first"}
        assert "dataset" not in proposed
        page = browser.get(f"/sources/{made}")
        file = ("x.csv", b"period,origin,destination,count\n0,1,2,3\n")
        browser.submit(page, f"/sources/{made}/upload", metadata="2", files={"content": file})
        browser.http.post(f"/sources/{made}/address", data={**fields, "block": "3"}, **sent)
        figures = api_only.metrics()
    counted, timed = (
        set(re.findall(rf'discreet_http_{name}\{{method="POST",route="([^"]*)"', figures))
        for name in ("requests_total", "request_seconds_count")
    )
    registering = {f"/datasets/{way}" for way in ("read", "reading", "content", "address")}
    registering |= {f"/sources/{{source_id}}/{way}" for way in ("upload", "address")}
    registering.add("/v1/sources/{source_id}/blocks")
    assert counted >= {"/datasets/new", "/v1/sources", *registering}
    others = {f"/datasets/{{dataset_id}}/correct{end}" for end in ("", "/read", "/reading")}
    others |= {"/v1/datasets", "/v1/reads", "/datasets/upload"}  # as tests before this one asked
    assert counted - timed - others == registering
    for route in registering | others:  # traces are begun before the route is known
        assert is_untimed("POST", route.replace("{source_id}", made))
        assert not is_untimed("GET", route)
    for route in ("/v1/datasets/{dataset_id}", "/v1/sources/{source_id}"):
        assert is_untimed("PATCH", route)


def test_what_is_wrong_with_a_dataset_is_named(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser:
        form = browser.get("/datasets/new")
        for fields, pointer in (
            ({"public": "{"}, "/public"),
            ({"public": '{"unit": "request"}'}, "/public/zones"),
            ({"name": ""}, "/name"),
            ({"epsilon": "-1"}, "/cap/epsilon"),
            ({"epsilon": "much"}, "/cap/epsilon"),
            ({"epsilon": "1e999999999"}, "/cap/epsilon"),
            ({"delta": "2"}, "/cap/delta"),
            ({"mode": "open"}, "/mode"),
            ({"retention_days": "0"}, "/retention_days"),
        ):
            page = browser.submit(form, "/datasets/new", **{"name": "x", **fields})
            assert (page.status, pointer in page.text) == (
                400 if fields == {"public": "{"} else 422,
                True,
            ), fields
            marked = [values.get("name") for _, values in page.tags if "aria-invalid" in values]
            marks = not {"public", "mode"} & {*fields}
            assert marked == (list(fields) if marks else []), fields
            assert page.form("/datasets/new")["fields"]["name"] == fields.get(
                "name", "x"
            )  # what was typed stays
        nul = browser.submit(form, "/datasets/new", name="a\0b")
        assert (nul.status, "/name" in nul.text) == (422, True)
        content = browser.submit(form, "/datasets/new", name="x")
        typed = browser.submit(content, "/datasets/content", content='{"trips": [{"period": 0}]}')
        assert (typed.status, "/content/trips/0/origin" in typed.text) == (422, True)
        upload = browser.submit(
            content, "/datasets/read", files={"content": ("x.csv", b"period,origin\n1,2,3\n")}
        )
        assert "to set or to mend" in upload.text


def test_a_job_over_budget_is_priced_and_refused(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        dataset = client.register(bodies.dataset(epsilon=0.3))
        text = json.dumps(bodies.job(dataset["id"], 0.5))
        priced = browser.submit(browser.get("/jobs/new"), "/jobs/new", body=text, action="price")
        assert "does not fit" in priced.text
        assert "epsilon 0.3" in priced.text
        assert "Submit for" not in priced.text
        refused = browser.submit(priced, "/jobs/new", action="submit")
        assert refused.status == 409
        assert "nothing was changed or charged" in refused.text
        assert len(list(client.entries(dataset["account"]))) == 1


def test_an_accuracy_is_priced_and_submitted_in_figures(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        dataset = client.register(bodies.dataset())
        accuracy = {"accuracy": {"quantity": "demand", "within": 40}}
        text = json.dumps({**bodies.job(dataset["id"]), "privacy": accuracy})
        priced = browser.submit(browser.get("/jobs/new"), "/jobs/new", body=text, action="price")
        found = client.plan({**bodies.job(dataset["id"]), "privacy": accuracy}).get("privacy")
        assert found is not None
        assert json.loads(priced.form("/jobs/new")["fields"]["body"])["privacy"] == found
        job = browser.submit(priced, "/jobs/new", action="submit")
        assert job.status == 200, job.text
        assert f"{found['epsilon']:g}" in job.text


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("{", "/"),
        ('{"problem": {"kind": "weather"}}', "/problem/kind"),
        ('{"problem": {"kind": "routing", "dataset": "dst_none"}}', "/problem/network"),
        (json.dumps(bodies.job("dst_none")), "/problem/dataset"),
        (json.dumps(bodies.job("dst_none", -1)), "/privacy/epsilon"),
    ],
)
def test_what_is_wrong_with_a_job_is_named(api_only: Installation, text: str, pointer: str) -> None:
    with Browser.logged_in(api_only) as browser:
        page = browser.submit(browser.get("/jobs/new"), "/jobs/new", body=text, action="price")
        assert page.status in (400, 404, 422)
        assert re.search(rf"<code>{pointer}</code>", page.response.text), page.text
        assert page.form("/jobs/new")["fields"]["body"] == text


def test_grants_with_reasons(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        dataset = client.register(bodies.dataset(epsilon=1))
        client.submit(bodies.job(dataset["id"], 0.5))
        place = f"/budgets/{dataset['account']}"
        page = browser.submit(
            browser.get(place),
            f"{place}/grants",
            epsilon="1.25",
            delta="0.001",
            reason="a new study",
        )
        assert "The cap is set" in page.text
        assert "a new study" in page.text
        assert client.budget(dataset["account"])["cap"] == {"epsilon": 1.25, "delta": 0.001}
        below = browser.submit(page, f"{place}/grants", epsilon="0.4", delta="0", reason="less")
        assert (below.status, "spent or reserved already" in below.text) == (409, True)
        nameless = browser.submit(page, f"{place}/grants", epsilon="2", delta="0", reason=" ")
        assert (nameless.status, "/reason" in nameless.text) == (422, True)
        assert client.budget(dataset["account"])["cap"]["epsilon"] == 1.25


def test_the_cap_that_binds_is_named(api_only: Installation) -> None:
    with api_only.client() as owner:
        dataset = owner.register(bodies.dataset(epsilon=1))
        owner.set_cap(
            scope="principal", principal="carla", epsilon=0.25, delta=0, reason="an intern"
        )
        key = owner.create_key(role="analyst", principal="carla")["key"]
    with Browser.logged_in(api_only, key) as browser:
        page = browser.get(f"/budgets/{dataset['account']}")
        assert re.search(r"epsilon 0.25\s+at delta 0", page.text)
        assert "the cap on carla binds" in page.text
    with Browser.logged_in(api_only) as browser:
        assert "carla binds" not in browser.get(f"/budgets/{dataset['account']}").text


def test_cancel_and_the_states_after_it(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"]))["id"]
        remains = browser.get(f"/datasets/{dataset['id']}/delete").text
        assert ("discreet secrets rotate content" in remains, "`" in remains) == (True, False)
        in_use = browser.submit(
            browser.get(f"/datasets/{dataset['id']}/delete"), f"/datasets/{dataset['id']}/delete"
        )
        assert (in_use.status, "still needs this dataset" in in_use.text) == (409, True)
        page = browser.submit(browser.get(f"/jobs/{job}"), f"/jobs/{job}/cancel")
        assert "The job is cancelled; nothing was charged." in page.text
        entries = browser.get(f"/ledger?job={job}")
        assert re.search(r">release<", entries.response.text)
        assert client.budget(dataset["account"])["spent"]["epsilon"] == 0


def test_the_list_of_jobs_is_live(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        dataset = client.register(bodies.dataset())
        with browser.http.stream("GET", "/jobs/events") as stream:
            lines = stream.iter_lines()
            job = None
            for line in lines:
                if job is None:  # the stream is open: what is submitted now has to come by itself
                    job = client.submit(bodies.job(dataset["id"], 0.01))["id"]
                if line.startswith("data:") and json.loads(line[5:])["id"] == job:
                    assert "queued" in json.loads(line[5:])["html"]
                    break
            client.cancel(str(job))
            for line in lines:
                if line.startswith("data:") and json.loads(line[5:])["id"] == job:
                    assert "cancelled" in json.loads(line[5:])["html"]
                    break


def test_links_for_agents_need_a_fingerprint(api_only: Installation) -> None:
    problem = {
        "kind": "multi_agent",
        "constraints": ["left + right - 4"],
        "schedule": {"gamma": 0.05, "alpha": 0.05, "c1": 0.3333, "c2": 0.25, "iterations": 20},
        "protocol": "federated",
        "federation": {"agents": 2},
    }
    with Browser.logged_in(api_only) as browser, api_only.client() as client:
        job = client.submit({"problem": problem, "privacy": {"epsilon": 1, "delta": 0.001}})["id"]
        page = browser.get(f"/jobs/{job}")
        assert f"discreet session approve {job}" in page.text
        refused = browser.submit(page, f"/jobs/{job}/tokens", owner="mine")
        assert (refused.status, "/owner" in refused.text) == (422, True)


def test_keys_are_shown_once(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser:
        page = browser.submit(
            browser.get("/admin"),
            "/admin/keys",
            principal="dora",
            role="auditor",
            expires=next_month(),
        )
        (key,) = re.findall(r"dsc_[0-9A-Za-z]{58}", page.text)
        admin = browser.get("/admin")
        assert key not in admin.response.text
        with Browser.logged_in(api_only, key) as dora:
            assert dora.get("/").status == 200
            row = next(
                form
                for form in admin.forms
                if "revoke" in str(form["action"]) and "dora" in str(form["attrs"])
            )
            assert "opens nothing any more" in browser.submit(admin, row["action"]).text
            assert dora.http.get("/").status_code == 303
        refused = browser.submit(admin, "/admin/keys", principal="eve", role="operator")
        assert refused.status == 403
        past = browser.submit(admin, "/admin/keys", principal="eve", role="analyst", expires="soon")
        assert (past.status, "/expires_at" in past.text) == (422, True)


def test_caps_over_all_data(api_only: Installation) -> None:
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("capped")
    with Browser.logged_in(api_only, api_only.key_of("owner", "capped")) as browser:
        page = browser.submit(
            browser.get("/admin"), "/admin/caps", epsilon="3", delta="0", reason="the board"
        )
        assert "The cap is set" in page.text
        assert "Cap on the whole tenant capped" in browser.get("/").text


def test_operators_see_operations_and_tenants(service: Installation) -> None:
    with Browser.logged_in(service, service.operator_key) as browser:
        page = browser.get("/")
        assert page.response.url.path == "/operations"
        eventually(
            lambda: "seccomp" in browser.get("/operations").text,
            "the fixture's worker has told its walls",
        )
        for word in ("Queue", "alive", "none known", "No witness is named", "schema"):
            assert word in browser.get("/operations").text, word
        assert "<dt>Keys lie in</dt><dd>file</dd>" in browser.get("/operations").response.text
        page = browser.get("/admin")
        made = browser.submit(page, "/admin/tenants", name="new from the page")
        assert "new from the page" in made.text
        taken = browser.submit(made, "/admin/tenants", name="new from the page")
        assert (taken.status, "there is a tenant" in taken.text) == (409, True)
        key = browser.submit(
            made, "/admin/keys", principal="first", role="owner", tenant="new from the page"
        )
        (secret,) = re.findall(r"dsc_[0-9A-Za-z]{58}", key.text)
    with Browser.logged_in(service, secret) as owner:
        assert "No budget yet" in owner.get("/").text


# The ledger ---------------------------------------------------------------------------------------


def entries_of(page: Page) -> list[str]:
    return [link for link in page.links if re.fullmatch(r"/ledger/acc_\w+/\d+", link)]


def test_entries_follow_each_other_over_pages(api_only: Installation) -> None:
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("ledger pages")
    key = api_only.key_of("owner", "ledger pages")
    with api_only.client(key) as client, Browser.logged_in(api_only, key) as browser:
        datasets = [client.register(bodies.dataset(epsilon=10)) for _ in range(2)]
        jobs = [
            client.submit(bodies.job(datasets[number % 2]["id"], 0.01))["id"]
            for number in range(54)
        ]
        client.cancel(jobs[0])
        expected = {
            f"/ledger/{dataset['account']}/{entry['seq']}"
            for dataset in datasets
            for entry in client.entries(dataset["account"])
        }
        first = browser.get("/ledger")
        older = browser.get(next(link for link in first.links if "after=" in link))
        assert len(entries_of(first)) == 50
        assert len(entries_of(first) + entries_of(older)) == len(expected) == 57
        assert set(entries_of(first) + entries_of(older)) == expected
        one = browser.get(f"/ledger?account={datasets[0]['account']}&kind=reserve")
        assert len(entries_of(one)) == 27
        assert len(entries_of(browser.get(f"/ledger?job={jobs[0]}"))) == 2
        assert "No entry fits" in browser.get("/ledger?since=2999-01-01").text
        assert "No entry fits" in browser.get("/ledger?until=2000-01-01").text
        assert len(entries_of(browser.get("/ledger?since=2000-01-01&until=2999-01-01"))) == 50
        for query, pointer in (
            ("since=yesterday", "/query/since"),
            ("after=abc", "/query/after"),
            ("job=a%00b", "/query/job"),
        ):
            page = browser.get(f"/ledger?{query}")
            assert (page.status, pointer in page.text) == (422, True)

        entry = browser.get(f"/ledger/{datasets[0]['account']}/2")
        assert "Price reserved" in entry.text
        assert "one trip added or removed" in entry.text
        stored = list(client.entries(datasets[0]["account"]))[1]
        assert stored["hash"] in entry.text
        assert stored["previous_hash"] in entry.text
        assert browser.get(f"/ledger/{datasets[0]['account']}/999").status == 404

        export = browser.http.get("/ledger/export")
        assert len(export.text.splitlines()) == 58
        assert "attachment" in export.headers["content-disposition"]
        assert browser.http.get("/ledger/head.json").json() == client.ledger_head()
        assert "verified to entry 57 of 57" in first.text
        assert client.ledger_head()["hash"] in first.text


@pytest.mark.anyio
async def test_verification_goes_on_where_it_was_and_finds_changes(
    api_only: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("tampered")
    key = api_only.key_of("owner", "tampered")
    with api_only.client(key) as client:
        dataset = client.register(bodies.dataset(epsilon=10))
        for _ in range(6):
            client.submit(bodies.job(dataset["id"], 0.01))
    monkeypatch.setattr(verification, "STEP", 4)
    verifier = Verifier()
    async with open_services(api_only.settings) as services:
        principal = await access.authenticate(services, key)

        async def look(*, again: bool = False) -> tuple[str, int, int]:
            found: Verification = await verifier.look(services, principal, again=again)
            return found.state, found.entries, found.total

        assert await look() == ("partial", 4, 7)
        assert await look() == ("whole", 7, 7)
        with api_only.client(key) as client:
            client.submit(bodies.job(dataset["id"], 0.01))
        assert await look() == ("whole", 8, 8)

        change(api_only.settings, dataset["account"], 3)
        assert (await look())[
            0
        ] == "whole"  # it was verified before the change, and is not read again
        assert (await look(again=True)) == ("broken", 2, 8)
        found = await verifier.look(services, principal)
        assert found.broken is not None
        assert (found.broken.account, found.broken.seq) == (dataset["account"], 3)
        assert "it was changed" in found.broken.what
    with Browser.logged_in(api_only, key) as browser:
        page = browser.get("/ledger")
        assert "it was changed" in page.text
        assert "keep the file" in page.text


@pytest.mark.anyio
async def test_entries_that_vanish_are_noticed(api_only: Installation) -> None:
    with api_only.client(api_only.operator_key) as operator:
        operator.create_tenant("cut short")
    key = api_only.key_of("owner", "cut short")
    with api_only.client(key) as client:
        dataset = client.register(bodies.dataset())
        client.submit(bodies.job(dataset["id"], 0.01))
    verifier = Verifier()
    async with open_services(api_only.settings) as services:
        principal = await access.authenticate(services, key)
        assert (await verifier.look(services, principal)).state == "whole"
        run_as_owner(
            api_only.settings,
            "DELETE FROM ledger_entries WHERE account_id = %s AND seq = %s",
            dataset["account"],
            2,
        )
        found = await verifier.look(services, principal)
        assert found.broken is not None
        assert (found.broken.seq, "verified before" in found.broken.what) == (2, True)


def change(settings: Settings, account: str, seq: int) -> None:
    """What somebody with the owner's password could do."""
    run_as_owner(
        settings,
        'UPDATE ledger_entries SET body = replace(body, \'"actor":"owner"\', \'"actor":"nobody"\')'
        " WHERE account_id = %s AND seq = %s",
        account,
        seq,
    )


def run_as_owner(settings: Settings, statement: str, *values: object) -> None:
    with psycopg.connect(str(settings.migration_database_url)) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', true)")
        connection.execute("ALTER TABLE ledger_entries DISABLE TRIGGER ledger_entries_append_only")
        assert connection.execute(statement.encode(), values).rowcount == 1
        connection.execute("ALTER TABLE ledger_entries ENABLE TRIGGER ledger_entries_append_only")


# The rest -----------------------------------------------------------------------------------------


def test_the_audit_that_was_run_last(
    api_only: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        audits, "CONFIDENCE", 1 - 1e-10
    )  # else one audit of a hundred finds a fault that is none
    with Browser.logged_in(api_only) as browser:
        assert "Never run here" in browser.get("/audit").text
        arguments = [
            "audit",
            "discrete_laplace",
            "--short",
            "--save",
            "--state",
            str(api_only.settings.state),
            "--json",
        ]
        assert cli.run(arguments) == 0
        page = browser.get("/audit")
        (row,) = (json.loads((api_only.settings.state / audits.FILE).read_text()))["rows"]
        assert row["name"] in page.text
        assert "no fault found" in page.text
        assert "only names with discrete_laplace" in page.text
        (api_only.settings.state / audits.FILE).write_text("{")
        assert "Never run here" in browser.get("/audit").text


def test_the_command_prints_a_link(
    api_only: Installation, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["login", "--server", api_only.url, "--key", api_only.owner_key]) == 0
    link = capsys.readouterr().out.strip()
    assert link.startswith(f"{api_only.url}/login/")
    with Browser(api_only) as browser:
        path = link.removeprefix(api_only.url)
        assert browser.submit(browser.get(path), path).status == 200


def test_failures_are_pages_with_a_next_step(api_only: Installation) -> None:
    """Whatever the API can refuse has a next step written beside it."""
    from discreet.dashboard.app import NEXT_STEPS
    from discreet.web.codes import STATUS

    assert {status for _, status in STATUS} - {500} <= set(NEXT_STEPS)
    with Browser.logged_in(api_only) as browser:
        page = browser.get("/jobs/job_nothing")
        assert (page.status, NEXT_STEPS[404] in page.text) == (404, True)


def test_templates_escape_by_themselves() -> None:
    assert pages.environment.autoescape is True
    for path in (Path(pages.__file__).parent / "templates").rglob("*.html"):
        text = path.read_text()
        assert "|safe" not in text.replace(" ", ""), path
        assert "autoescape" not in text, path


def test_a_page_over_a_connection_that_says_nothing(api_only: Installation) -> None:
    """No cookie, no header: still an answer, and no page without a policy."""
    answer = httpx.get(f"{api_only.url}/login", trust_env=False)
    assert answer.status_code == 200
    assert "content-security-policy" in answer.headers
