"""Charts, paths and downloads over HTTP: who gets them, and that plotly.js is the installed one."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import python_calamine

from discreet import cli
from discreet.dashboard import results, submissions, words
from discreet.dashboard.answers import _read
from discreet.dashboard.pages import environment
from discreet.dashboard.routes.jobs import _row
from discreet.problems import KINDS
from discreet.problems.answers import headlines_of
from discreet.web import drawings
from discreet_client import closing, intervals
from discreet_client.comparison import ONE_RELEASE, compare
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation
from tests.dashboard.browsing import Browser
from tests.dashboard.seed import tenant


@pytest.fixture(scope="module")
def routed(service: Installation) -> tuple[dict[str, str], str]:
    """Keys of a tenant by role, and its routing job."""
    with service.client(service.operator_key) as operator:
        operator.create_tenant("drawn")
        keys = {
            role: operator.create_key(role=role, principal=role, tenant="drawn")["key"]
            for role in ("owner", "analyst", "auditor")
        }
    with service.client(keys["owner"]) as owner:
        return keys, tenant().run(owner, KINDS["routing"].example())


def test_every_chart_of_the_page_is_there(
    service: Installation, routed: tuple[dict[str, str], str]
) -> None:
    keys, job = routed
    with Browser.logged_in(service, keys["analyst"]) as visitor:
        sources = [
            str(values["data-chart"])
            for _, values in visitor.get(f"/jobs/{job}").tags
            if "data-chart" in values
        ]
        assert [source.rpartition("/")[2] for source in sources] == [
            "network.json",
            "loads.json",
            "demand.json",
        ]
        for source in sources:
            answer = visitor.http.get(source)
            assert answer.headers["content-type"] == "application/json"
            assert json.loads(answer.content)["data"]
        missing = visitor.http.get(
            f"/jobs/{job}/charts/values.json", headers={"Accept": "application/json"}
        )
        assert (missing.status_code, missing.json()["code"]) == (404, "not_found")


def test_charts_are_for_who_may_see_results(
    service: Installation, routed: tuple[dict[str, str], str]
) -> None:
    keys, job = routed
    parts = (
        "charts/network.json",
        "policy",
        "policy?origin=1&destination=2&part=answer",
        "result.json",
        "result.xlsx",
    )
    for key, status in ((keys["auditor"], 403), (service.owner_key, 404)):
        with Browser.logged_in(service, key) as visitor:
            for part in parts:
                assert visitor.get(f"/jobs/{job}/{part}").status == status, part
            assert "data-chart" not in visitor.get(f"/jobs/{job}").response.text
    with Browser(service) as nobody:
        for part in parts:
            assert nobody.get(f"/jobs/{job}/{part}", follow=False).status in (303, 401)


def test_jobs_side_by_side_say_what_differs(
    service: Installation,
    routed: tuple[dict[str, str], str],
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Another weighing of the same demand differs in one field; both are read by who may read both,
    and by no other."""
    keys, job = routed
    with service.client(keys["owner"]) as owner:
        asked = owner.job(job)["problem"]
        other = {
            **{name: value for name, value in asked.items() if name != "dataset"},
            "objective": "user_equilibrium",
        }
        again = owner.submit({"problem": {**other, "release": job}})["id"]
        closed = owner.submit({"problem": {**other, "release": job, "closed_links": [1]}})["id"]
        for one in (again, closed):
            owner.wait(one)
        first, second = (owner.result(one)["result"]["total_travel_time"] for one in (job, again))
    address = f"/jobs/compare?job={job}&job={again}"
    with Browser.logged_in(service, keys["analyst"]) as visitor:
        page = visitor.get(address)
        text = " ".join(re.sub("<[^>]+>", " ", page.response.text).split())
        assert "objective system_optimum user_equilibrium" in text
        assert re.search(r"Of what its own release, of .+ asks .+ again objective", text)
        assert "network.nodes" in text.partition("What is the same in both")[2]
        assert "network.nodes" not in text.partition("What is the same in both")[0]
        told = re.search(
            r"Total travel time of a period ([\d,.]+) \(90 % noise interval: [^)]+\) ([\d,.]+) "
            r"\(90 % noise interval: ",
            text,
        )
        assert told is not None
        assert [float(one.replace(",", "")) for one in told.groups()] == pytest.approx(
            [first, second], rel=0.01
        )
        assert ONE_RELEASE in text
        with service.client(keys["owner"]) as owner:
            found = compare(*(owner.answer(one) for one in (job, again)))
        (moved,) = (one for one in found.figures if one.name == "total_travel_time")
        assert moved.change == pytest.approx(second - first)
        changes = text.partition("What changed")[2].partition("What was asked")[0]
        assert changes.count(found.links[0].name) == 1
        assert intervals.plain(moved.change, 3) in changes
        here = ["--server", service.url, "--key", keys["owner"], "--json"]
        assert cli.run(["compare", job, again, *here]) == 0
        assert json.loads(capfd.readouterr().out)["links"][0]["name"] == found.links[0].name
        assert cli.run(["compare", job, again, *here[:-1]]) == 0
        assert "whose noise moves both together" in capfd.readouterr().out.replace("\n", " ")
        sources = [str(values["data-chart"]) for _, values in page.tags if "data-chart" in values]
        assert [source.split("/")[2] for source in sources] == [job, again] * 3
        page = visitor.get(f"/jobs/compare?job={job}&job={closed}").response.text
        differs = " ".join(
            re.sub("<[^>]+>", " ", page.partition("What is the same in both")[0]).split()
        )
        assert f"closed_links [] {html.escape(closing.names_of(asked['network'])[1])}" in differs
        for wrong in ("", f"?job={job}", f"?job={job}&job={job}"):
            assert visitor.get(f"/jobs/compare{wrong}").status == 422
    with Browser.logged_in(service, keys["auditor"]) as auditor:
        page = auditor.get(address)
        assert page.status == 200
        assert "data-chart" not in page.response.text
        assert "What came out" not in page.text
        assert "What changed" not in page.text
    with service.client() as stranger, Browser.logged_in(service) as visitor:
        own = tenant().run(stranger, KINDS["coupled_qp"].example())
        for pair in (f"job={job}&job={again}", f"job={own}&job={job}", f"job={job}&job={own}"):
            assert visitor.get(f"/jobs/compare?{pair}").status == 404


def test_the_answer_comes_first(service: Installation, routed: tuple[dict[str, str], str]) -> None:
    """On the job's page, on the page that is saved and in a comparison; price, times and plan are
    details below it."""
    keys, job = routed
    with service.client(keys["owner"]) as owner:
        answer = owner.result(job)["result"]
        (first, *_) = headlines_of(owner.job(job)["problem"], answer)
    assert first.good_for
    figure = intervals.spelt_out(first.figure)
    assert "noise interval" in figure
    with Browser.logged_in(service, keys["analyst"]) as visitor:
        page = visitor.get(f"/jobs/{job}").text
        saved = visitor.get(f"/jobs/{job}/page.html").text
        for text in (page, saved):
            flat = " ".join(text.split())
            places = [flat.index(part) for part in (figure, first.good_for, "Price")]
            assert places == sorted(places), places
            assert flat.index(figure) < flat.index("Iterations of the assignment")
        details = (
            visitor.get(f"/jobs/{job}")
            .response.text.partition('<details id="facts">')[2]
            .partition("</details>")
        )
        assert all(part in details[0] for part in ("Submitted", "Privacy unit"))
        both = visitor.get(
            f"/jobs/compare?job={job}&job={tenant_job(service, keys, job)}"
        ).response.text
        assert both.count('class="headline"') == 2
        assert both.index('class="headline"') < both.index("What was asked")
    with Browser.logged_in(service, keys["auditor"]) as auditor:
        told = auditor.get(f"/jobs/{job}")
        assert (figure in told.text, "Submitted" in told.text) == (False, True)


def test_lists_say_what_each_job_answers_to_who_may_read_answers(
    service: Installation, routed: tuple[dict[str, str], str]
) -> None:
    keys, job = routed
    with service.client(keys["owner"]) as owner:
        expected = headlines_of(owner.job(job)["problem"], owner.result(job)["result"])[0].text
    for role, shown in (("owner", expected), ("analyst", expected), ("auditor", None)):
        with service.client(keys[role]) as client:
            listed = {one["id"]: one.get("headline") for one in client.jobs()["jobs"]}
            assert (listed[job], client.job(job).get("headline")) == (shown, shown)
        with Browser.logged_in(service, keys[role]) as visitor:
            listed_page = visitor.get("/jobs").text
            assert (intervals.spelt_out(expected) in listed_page) == (shown is not None)


def tenant_job(service: Installation, keys: dict[str, str], job: str) -> str:
    """Another job that asks the same release again."""
    with service.client(keys["owner"]) as owner:
        asked = {
            name: value for name, value in owner.job(job)["problem"].items() if name != "dataset"
        }
        again = str(owner.submit({"problem": {**asked, "release": job}})["id"])
        owner.wait(again)
        return again


def test_what_has_not_settled_says_so_above_everything(service: Installation) -> None:
    body = KINDS["coupled_qp"].example()
    body["problem"] |= {"steps": {**body["problem"].get("steps", {}), "iterations": 2}}
    with service.client() as owner, Browser.logged_in(service) as visitor:
        job = tenant().run(owner, body)
        assert owner.result(job)["result"]["status"] == "iteration_limit"
        for place in (f"/jobs/{job}", f"/jobs/{job}/page.html"):
            text = " ".join(visitor.get(place).text.split())
            assert text.index("Not optimal: the iteration did not converge") < text.index(
                "Total cost: "
            )
        assert (
            "not converged"
            in visitor.get(f"/jobs/compare?job={job}&job={tenant().run(owner, body)}").text
        )


def test_paths_are_those_of_the_result(
    service: Installation, routed: tuple[dict[str, str], str]
) -> None:
    keys, job = routed
    with service.client(keys["owner"]) as owner:
        answer = owner.result(job)
    pair = next(
        one for one in answer["result"]["policy"] if (one["origin"], one["destination"]) == (1, 2)
    )
    with Browser.logged_in(service, keys["owner"]) as visitor:
        page = visitor.get(f"/jobs/{job}/policy?origin=1&destination=2")
        for path in pair["paths"]:
            assert f"{100 * path['share']:.4g} %" in page.text
        assert any("1 → 3 → 2" in line for line in page.text.splitlines())
        refused = visitor.get(f"/jobs/{job}/policy?origin=1&destination=7")
        assert "The policy has no paths from zone 1 to zone 7. Zones are 1 to 2" in refused.text
        assert visitor.get(f"/jobs/{job}/policy?origin=x&destination=1").status == 422
        fragment = visitor.get(
            f"/jobs/{job}/policy?origin=1&destination=2&part=answer"
        ).response.text
        assert "<table" in fragment
        assert "<html" not in fragment
        download = visitor.http.get(f"/jobs/{job}/result.json")
        assert f'filename="{job}.json"' in download.headers["content-disposition"]
        assert download.json() == answer
        sheets = visitor.http.get(f"/jobs/{job}/result.xlsx").content
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(sheets))
        names, *rows = book.get_sheet_by_name("by link").to_python()
        flows = [row[names.index("flow")] for row in rows]
        assert flows == pytest.approx(answer["result"]["link_flows"])


def test_a_policy_in_a_table_is_looked_up_there() -> None:
    table = pa.table(
        {
            "origin": [1, 1, 2],
            "destination": [2, 2, 1],
            "share": [0.25, 0.75, 1.0],
            "links": [[0], [1, 2], [3]],
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    found = results._paths_of_table(file.getvalue(), 1, 2)
    assert found == [{"links": [0], "share": 0.25}, {"links": [1, 2], "share": 0.75}]
    assert results._paths_of_table(file.getvalue(), 2, 3) == []


def test_fields_and_rows_are_called_as_people_call_them() -> None:
    assert words.field("default_power", "dr_ensemble") == "default power"
    assert words.field("cost_to_go", "dr_ensemble") == "Expected cost by first state"
    assert words.field("total_travel_time", "routing") == "Total travel time of a period"
    road = {"free_flow_time": 1, "capacity": 1}
    links = [{"tail": 6, "head": 8, **road}, {"tail": 8, "head": 6, **road}]
    problem = {"kind": "routing", "network": {"nodes": 8, "links": links}}
    said = {
        "values": {},
        "noise_dominates": {"link_flows": [False, True], "demand": [True] + [False] * 7},
    }
    text = json.dumps({"link_flows": [1, 2], "uncertainty": said}).encode()
    _, told, _, _ = _read(text, problem)
    assert {name: shown for name, shown, _ in told} == {
        "link_flows": "1 of 2 rows is mostly noise: 1 (8 \u2192 6)",
        "demand": "1 of 8 rows is mostly noise: zone 1",
    }


def test_what_costs_nothing_has_a_dash_and_a_simulation_hides_nothing() -> None:
    """Simulations and rehearsals, which have no dataset; a job asked again costs 0, a private one
    its price."""
    job = {
        "id": "job_1",
        "kind": "routing",
        "state": "succeeded",
        "progress": {"step": 1, "total": 1},
    }
    job |= {
        "created_by": "owner",
        "created_at": None,
        "simulation": False,
        "mostly_noise": False,
        "release": [],
    }
    job |= {"name": None, "dataset_name": None, "asked_name": None, "headline": None}
    for more, shown in (
        ({"dataset": None, "price": {"epsilon": 0}}, "\u2013</span>"),
        ({"dataset": "dst_1", "price": {"epsilon": 0.5}, "simulation": True}, "\u2013</span>"),
        ({"dataset": "dst_1", "price": {"epsilon": 0.5}}, "0.5"),
        ({"dataset": None, "price": {"epsilon": 0}, "release": ["job_0"]}, "0"),
    ):
        cell = _row({**job, **more}).partition('data-label="Epsilon"')[2].partition("</td>")[0]
        assert cell.endswith(shown), (more, cell)
    resources = {"memory_bytes": 1, "release_quantum_seconds": 0.0625}
    plan = {
        "neighbours": "one trip",
        "unit": "request",
        "iterations": {},
        "resources": resources,
        "noise": [],
    }
    plan |= {"advice": [], "assumptions": []}
    facts = environment.get_template("parts.html").module.plan_facts
    assert ("none: its data" in facts(plan, True), "Touching data" in facts(plan, True)) == (
        True,
        False,
    )
    assert ("none: its data" in facts(plan), "Touching data" in facts(plan)) == (False, True)
    lists = {"assumptions": ["a"], "not_covered": ["b"], "model": ["c"]}
    titles = ("Holds if", "Not covered", "Model")
    assert [f"<h3>{title}</h3>" in facts({**plan, **lists}) for title in titles] == [True] * 3
    assert [f"<h3>{title}</h3>" in facts({**plan, "model": ["c"]}) for title in titles] == [
        False,
        False,
        True,
    ]


def test_a_result_that_cannot_be_drawn_is_no_reason_to_hide_it() -> None:
    row = {"id": "job_x", "kind": "of the future", "problem": {"kind": "of the future"}, "plan": {}}
    found = drawings._draw(row, b'{"answer": 1}')
    assert (found.result, found.charts) == ({"answer": 1}, ())


def test_plotly_is_the_installed_one_kept_for_ever_under_its_digest(service: Installation) -> None:
    installed = resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes()
    with Browser(service) as nobody:
        answer = nobody.http.get(results.plotly_address(), headers={"Accept-Encoding": "gzip"})
        assert answer.content == installed
        assert answer.headers["content-encoding"] == "gzip"
        assert int(answer.headers["content-length"]) == len(gzip.compress(installed, mtime=0))
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert nobody.http.get("/plotly.js?v=old").headers["cache-control"] == "no-cache"
        again = nobody.http.get("/plotly.js", headers={"If-None-Match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def drawing(monkeypatch: pytest.MonkeyPatch, draw: Callable[[Any, bytes], Any]) -> None:
    """Have results of jobs that nobody stored drawn by `draw`, and none kept yet."""

    async def result(services: Any, principal: Any, job_id: str) -> Any:
        return (
            {"id": job_id, "kind": "routing", "problem": {"kind": "routing"}, "plan": {}},
            b"{}",
            {},
        )

    async def whole(services: Any, principal: Any, stored: Any) -> Any:
        return stored

    monkeypatch.setattr(drawings.published, "result", result)
    monkeypatch.setattr(drawings.objects, "filled_text", whole)
    monkeypatch.setattr(drawings, "_draw", draw)
    monkeypatch.setattr(drawings, "_kept", OrderedDict())


def test_charts_do_not_stay_in_memory_beyond_their_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody asks for them any more, and no process is told when a result is deleted."""
    drawing(monkeypatch, lambda row, text: drawings.Drawn(row, {}, ()))
    monkeypatch.setattr(drawings, "KEPT_SECONDS", 0)
    nobody: Any = None

    async def ask() -> None:
        assert (await drawings.drawn(nobody, nobody, "job_1")).row["id"] == "job_1"
        assert "job_1" in drawings._kept
        with anyio.fail_after(DEADLINE_SECONDS):
            while drawings._kept:
                await anyio.lowlevel.checkpoint()

    anyio.run(ask)


def test_one_result_is_drawn_once_however_many_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drawing takes many times its result in memory: a hundred requests for one that is not kept
    yet make it once, and of others two are made at a time."""
    busy, most, made, counting = 0, 0, list[str](), threading.Lock()

    def draw(row: Any, text: bytes) -> drawings.Drawn:
        nonlocal busy, most
        with counting:
            busy, most = busy + 1, max(most, busy + 1)
            made.append(row["id"])
        time.sleep(0.05)
        with counting:
            busy -= 1
        return drawings.Drawn(row, {}, ())

    drawing(monkeypatch, draw)
    nobody: Any = None

    async def ask() -> None:
        async with anyio.create_task_group() as group:
            for number in range(40):
                group.start_soon(drawings.drawn, nobody, nobody, f"job_{number % 4}")

    anyio.run(ask)
    assert sorted(made) == [f"job_{number}" for number in range(4)]
    assert most == drawings.DRAWN_AT_ONCE


def test_long_problems_are_written_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for the text of somebody's hundred thousand links."""
    threads = set()
    monkeypatch.setattr(
        submissions, "as_text", lambda value: str(threads.add(threading.get_ident()))
    )
    anyio.run(submissions.shown, {})
    assert threads
    assert threading.get_ident() not in threads
    pages = (
        Path(submissions.__file__).parent / "routes" / name
        for name in ("jobs.py", "compare.py", "datasets.py")
    )
    assert not [page.name for page in pages if "_text=submissions.as_text(" in page.read_text()]


HOSTILE = (
    '</script><!--<script><a href="javascript:alert(1)">x</a><img src=y '
    "onerror=alert(2)></head></body>' {{7*7}}"
)


@pytest.fixture(scope="module")
def hostile(service: Installation) -> tuple[dict[str, str], str]:
    """Keys of a tenant by role, and a job whose every name is hostile: its own, its dataset's,
    nodes', links'."""
    with service.client(service.operator_key) as operator:
        operator.create_tenant("hostile names")
        keys = {
            role: operator.create_key(role=role, principal=role, tenant="hostile names")["key"]
            for role in ("owner", "analyst", "auditor", "operator")
        }
    names = [f"{place}{HOSTILE}" for place in range(4)]
    network = {
        **bodies.network(),
        "nodes_xy": [[0, 0], [4, 0], [4, 3], [0, 3]],
        "node_names": names,
    }
    with service.client(keys["owner"]) as owner:
        stored = owner.networks.add(network, name=HOSTILE)["id"]
        dataset = owner.register(bodies.dataset(name=HOSTILE, epsilon=10))["id"]
        job = owner.submit({**bodies.job(dataset, 5, network=stored), "name": HOSTILE})["id"]
        assert owner.wait(job)["state"] == "succeeded"
    return keys, job


def test_a_saved_page_runs_and_asks_for_nothing_of_names(
    service: Installation, hostile: tuple[dict[str, str], str]
) -> None:
    keys, job = hostile
    with Browser.logged_in(service, keys["analyst"]) as visitor:
        page = visitor.get(f"/jobs/{job}/page.html")
        assert page.response.headers["content-disposition"] == f'attachment; filename="{job}.html"'
        csrf = visitor.get("/").form("/logout")["fields"]["csrf"]
        cookies = [cookie.value for cookie in visitor.http.cookies.jar]
        for address in (f"/jobs/{job}", "/jobs", "/jobs/new", f"/jobs/{job}/policy"):
            shown = visitor.get(address)
            assert not [tag for tag, values in shown.tags if tag == "img" or "onerror" in values], (
                address
            )
            assert not [link for link in shown.links if not link.startswith(("/", "#"))], address
        policy = visitor.get(f"/jobs/{job}/policy?origin=1&destination=2")
        assert f"From 0{HOSTILE} to 1{HOSTILE}: " in policy.text
        chosen = [values for tag, values in policy.tags if tag == "option" and "selected" in values]
        assert [one["value"] for one in chosen] == ["1", "2"]
        for name in ("network", "loads", "demand"):
            chart = visitor.http.get(f"/jobs/{job}/charts/{name}.json").text
            assert "<a" not in chart
            assert "<img" not in chart
    text = page.response.text
    assert page.status == 200
    kinds = [values.get("type") for values in page.scripts]
    assert kinds == ["application/json"] * 3 + [None, "module"]
    assert not [
        tag for tag, values in page.tags if tag in ("img", "form", "iframe", "object", "base", "a")
    ]
    assert not [
        values
        for _, values in page.tags
        if {"onerror", "onload", "onclick", "src", "action"} & values.keys()
    ]
    assert text.count("</body>") == text.count("</head>") == 1
    policy = next(
        str(values["content"])
        for tag, values in page.tags
        if tag == "meta" and "http-equiv" in values
    )
    assert policy.startswith("default-src 'none'; ")
    assert not [secret for secret in (csrf, *cookies, *keys.values()) if secret and secret in text]


def test_what_is_taken_from_a_job_is_for_who_may(
    service: Installation, hostile: tuple[dict[str, str], str]
) -> None:
    """Saved pages, problems, and forms that begin with a job: for owners and analysts of its own
    tenant."""
    keys, job = hostile
    parts = (
        f"/jobs/{job}/page.html",
        f"/jobs/{job}/problem.json",
        f"/jobs/new?release={job}",
        f"/jobs/new?around={job}",
    )
    expected = {
        keys["owner"]: 200,
        keys["analyst"]: 200,
        keys["auditor"]: 403,
        keys["operator"]: 403,
    }
    for key, status in (*expected.items(), (service.owner_key, 404)):
        with Browser.logged_in(service, key) as visitor:
            assert [visitor.get(part).status for part in parts] == [status] * len(parts)
            if status == 404:
                token = visitor.get("/").form("/logout")["fields"]["csrf"]
                asked: Any = {
                    "problem": {"kind": "routing", "release": job, "network": bodies.network()}
                }
                form = {"csrf": token, "body": json.dumps(asked), "around": job}
                priced = visitor.http.post(
                    "/jobs/new/price", data=form, headers={"Origin": visitor.origin}
                )
                assert priced.status_code == 404
                assert HOSTILE not in priced.text
    with Browser(service) as nobody:
        for part in parts:
            assert nobody.get(part, follow=False).status in (303, 401)
    for key, status in (*expected.items(), (service.owner_key, 404)):
        with service.http(key) as api:
            assert api.get(f"/v1/jobs/{job}/charts").status_code == status
