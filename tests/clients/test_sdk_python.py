"""The Python SDK against a running service: every kind, lost answers, typed errors, arrays and
frames in and out."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import io
import json
import os
import pickle
import pty
import re
import subprocess
import sys
import termios
import warnings
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import typeguard

import discreet_client
from discreet_client import (
    AlreadyReleased,
    AsyncClient,
    BudgetExhausted,
    Client,
    Conflict,
    InvalidInput,
    JobFailed,
    NotFound,
    Unauthenticated,
    Unreachable,
)
from discreet_client import progress as bars
from discreet_client.answers import ANSWERS, Answer, DrEnsembleAnswer, RoutingAnswer
from discreet_client.day_clock import step_names
from discreet_client.errors import OtherAccounts
from discreet_client.events import EventParser
from discreet_client.rest import models, operations
from discreet_client.retries import Attempts, retry_after
from discreet_client.webhooks import WebhookRefused, verify
from tests import bodies
from tests.clients.sdk_examples import examples
from tests.conftest import Installation


def spending(body: dict[str, Any]) -> dict[str, Any]:
    """What is said of privacy in a body, as keyword arguments."""
    return dict(body.get("privacy", {}))


def check(kind: str, answer: Answer, body: dict[str, Any]) -> None:
    assert type(answer) is ANSWERS[kind]
    assert answer.kind == kind
    named = {name: of for name, of in type(answer).__annotations__.items() if name != "KIND"}
    assert set() < set(answer) <= named.keys()
    assert any(of == "Floats" for name, of in named.items() if name in answer)
    for name, of in named.items():
        if of == "Floats" and name in answer:
            assert getattr(answer, name) is answer[name]
            assert answer[name].dtype == np.float64
            assert np.isfinite(answer[name]).all()
    assert answer.price.epsilon <= spending(body).get("epsilon", 0)
    private = body.get("privacy")
    guarantee = (
        "none" if private is None else "approximate_dp" if private.get("delta") else "pure_dp"
    )
    assert answer.certificate["guarantee"]["type"] == guarantee
    assert set(answer.fields) == set(answer.document["result"]) - {"tables"}


@pytest.mark.parametrize("kind", sorted(ANSWERS))
def test_every_kind_runs(service: Installation, kind: str) -> None:
    body = examples(1)[kind]
    seen: list[tuple[str, int, int]] = []
    with service.client() as client:
        answer = client.solve(
            body["problem"], **spending(body), progress=lambda *step: seen.append(step)
        )
        check(kind, answer, body)
        state, step, total = seen[-1]
        assert state == "succeeded"
        assert 0 <= step <= total
        again = client.answer(answer.id)
        assert again.document == answer.document
    assert answer.job["state"] == "succeeded"
    with pytest.raises(AttributeError, match="no 'nonsense'"):
        _ = answer.nonsense
    with pytest.raises(KeyError, match="nonsense"):
        _ = answer["nonsense"]


def test_every_kind_runs_asynchronously_and_side_by_side(service: Installation) -> None:
    async def run() -> None:
        async with AsyncClient(service.url, service.owner_key) as client:
            wanted = examples(2)
            answers = await asyncio.gather(
                *(client.solve(body["problem"], **spending(body)) for body in wanted.values())
            )
            for (kind, body), answer in zip(wanted.items(), answers, strict=True):
                check(kind, answer, body)
            account = (await client.dataset(answers[0].job["dataset"]))["account"]
            entries = [entry["kind"] async for entry in client.entries(account)]
            assert entries == ["open", "reserve", "data_touched", "commit"]
            with pytest.raises(NotFound):
                await client.job("job_nobody")
            first = next(answer for answer in answers if "link_flows" in answer)
            again = await client.ask_again(first, objective="user_equilibrium")
            assert (again.price.epsilon, again.job["release"]) == (0, [first.id])
            assert np.array_equal(again.demand, first.demand)
            assert again.total_travel_time != first.total_travel_time
            same = await client.ask_again([first.id])
            assert same.document["result"] == first.document["result"]
            with pytest.raises(Conflict) as refused:
                await client.ask_again(first, method="gradient")
            assert [one.pointer for one in refused.value.errors] == ["/problem/method"]

    asyncio.run(run())


def test_answers_are_those_of_the_generated_models(service: Installation) -> None:
    """What the service sends has the fields and types that were made from its contract, and no
    others."""
    with service.client() as client:
        registered = client.register(bodies.dataset())
        body = bodies.job("") | {"problem": {**bodies.job("")["problem"], "dataset": registered}}
        job = client.submit(body)
        client.wait(job["id"])
        result = client.result(job["id"])
        answers: list[tuple[Any, type]] = [
            (registered, models.DatasetAnswer),
            (client.plan(body), models.PlanAnswer),
            (client.plan(body["problem"], epsilon=7), models.PlanAnswer),
            (client.plan(body, preset="loose"), models.PlanAnswer),
            (client.job(job["id"]), models.JobAnswer),
            (client.jobs(state="succeeded", page_size=1), models.JobPage),
            (result, models.ResultAnswer),
            (client.budget(registered["account"]), models.BudgetAnswer),
            (
                client.grant(registered["account"], epsilon=2, delta=0, reason="more"),
                models.BudgetAnswer,
            ),
            (
                client.set_cap(
                    scope="principal", principal="nobody", epsilon=1, delta=0, reason="none"
                ),
                models.BudgetAnswer,
            ),
            *((cap, models.BudgetAnswer) for cap in client.caps()),
            (client.ledger_head(), models.HeadAnswer),
            (client.verify_certificate(result["certificate"]), models.CertificateVerdict),
            (client.create_key(role="analyst", principal="somebody"), models.KeyAnswer),
            *((key, models.KeyEntry) for key in client.list_keys()),
        ]
        assert "somebody" in {key["principal"] for key in client.list_keys()}
    for answer, model in answers:
        typeguard.check_type(
            answer, model, collection_check_strategy=typeguard.CollectionCheckStrategy.ALL_ITEMS
        )
    with pytest.raises(typeguard.TypeCheckError, match="prise"):
        typeguard.check_type({**answers[1][0], "prise": 1}, models.PlanAnswer)


def test_operations_without_a_method_are_called(service: Installation) -> None:
    """Of every kind of answer: JSON, nothing, bytes, text; refusals are errors; parameters are
    quoted."""
    hook = operations.create_webhook(
        {"url": "https://example.org/hook", "events": ["job.finished"]}
    )
    with service.client() as client:
        made = client.call(hook)
        assert made["id"] in {
            one["id"] for one in client.call(operations.list_webhooks())["webhooks"]
        }
        assert client.call(operations.delete_webhook(made["id"])) is None
        exported = client.call(operations.export_ledger())
        assert isinstance(exported, bytes)
        assert json.loads(exported.splitlines()[0])["tenant"].startswith("ten_")
        assert len(client.call(operations.list_datasets(page_size=1))["datasets"]) <= 1
        with pytest.raises(NotFound):
            client.call(operations.get_job("../datasets"))
        assert client.call(operations.check_health())["status"] == "ok"

    async def asynchronously() -> models.WebhookList:
        async with AsyncClient(service.url, service.owner_key) as client:
            return await client.call(operations.list_webhooks())

    assert made["id"] not in {one["id"] for one in asyncio.run(asynchronously())["webhooks"]}


@pytest.mark.long
def test_mypy_finds_what_is_wrong_in_a_users_code(tmp_path: Path) -> None:
    """Each line that says that it is wrong, for the reason that it says, and no other line."""
    code = Path(__file__).with_name("user_code.py")
    command = [
        "-m",
        "mypy",
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        "--cache-dir",
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, *command, "--no-pretty", "--hide-error-codes", str(code)],
        capture_output=True,
        text=True,
        check=False,
    )
    errors = re.findall(r"py:(\d+): error: (.*)", done.stdout)
    assert errors, done.stdout + done.stderr
    lines = enumerate(code.read_text().splitlines(), 1)
    wrong = {
        number: line.partition("# wrong: ")[2] for number, line in lines if "# wrong: " in line
    }
    assert {int(number) for number, _ in errors} == set(wrong)
    for number, reason in wrong.items():
        assert any(reason in error for line, error in errors if int(line) == number), (
            number,
            reason,
            errors,
        )


def test_the_two_clients_have_the_same_calls() -> None:
    def calls(kind: type) -> set[str]:
        return {name for name in vars(kind) if not name.startswith("_")}

    assert calls(Client) == calls(AsyncClient)
    assert len(calls(Client)) > 30


# Lost answers and refusals ------------------------------------------------------------------------


class Lossy(httpx.HTTPTransport):
    """Carries requests to the service, and loses or refuses what it is told to."""

    def __init__(
        self, path: str, *, lose: int = 0, refuse: tuple[httpx.Response, ...] = ()
    ) -> None:
        super().__init__()
        self.path, self.lose, self.refuse = path, lose, list(refuse)
        self.sent: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if not request.url.path.endswith(self.path):
            return super().handle_request(request)
        self.sent.append(request)
        if self.refuse:
            return self.refuse.pop(0)
        response = super().handle_request(request)
        if self.lose > 0:  # the request arrived; its answer does not
            self.lose -= 1
            response.read()
            raise httpx.RemoteProtocolError("lost", request=request)
        return response


def test_a_submission_whose_answer_is_lost_is_one_job_and_one_charge(service: Installation) -> None:
    lossy = Lossy("/v1/jobs", lose=2)
    with Client(service.url, service.owner_key, transport=lossy) as client:
        registered = client.register(bodies.dataset())
        answer = client.solve(bodies.job(registered["id"]))
        assert len(lossy.sent) == 3
        (key,) = {request.headers["Idempotency-Key"] for request in lossy.sent}
        assert len(key) >= 16
        assert len({request.content for request in lossy.sent}) == 1
        assert (
            client.budget(registered["account"])["spent"]["epsilon"] == answer.price.epsilon == 0.1
        )
        assert [
            job["id"] for job in client.jobs()["jobs"] if job["dataset"] == registered["id"]
        ] == [answer.id]


def test_paying_twice_is_warned_of_unless_it_is_meant(service: Installation) -> None:
    body = {**bodies.job(""), "name": "Monday"}
    with Client(service.url, service.owner_key) as client:
        body["problem"]["dataset"] = client.register(bodies.dataset())
        first = client.solve(body, epsilon=0.1)
        with pytest.warns(AlreadyReleased, match=f"what {first.id} has released already") as told:
            second = client.solve(body, epsilon=0.1, name="Tuesday")
        (warning,) = told
        assert warning.filename == __file__
        assert isinstance(warning.message, AlreadyReleased)
        assert (warning.message.job, warning.message.reusable) == (second.id, [first.id])
        third = client.solve(body, epsilon=0.2, anew=True)  # warnings are errors here
        client.ask_again(first, objective="user_equilibrium")
        assert [client.job(one.id)["name"] for one in (first, second, third)] == [
            "Monday",
            "Tuesday",
            "Monday",
        ]
        body["problem"]["dataset"] = client.register(bodies.dataset(mode="simulation"))
        for _ in range(2):
            client.solve(body, epsilon=0.1)

    async def asynchronous() -> None:
        async with AsyncClient(service.url, service.owner_key) as client:
            body["problem"]["dataset"] = await client.register(bodies.dataset())
            await client.solve(body, epsilon=0.1)
            with pytest.warns(AlreadyReleased) as told:
                await client.solve(body, epsilon=0.1)
            assert told[0].filename == __file__

    asyncio.run(asynchronous())


def test_whose_people_are_in_a_new_dataset_is_asked(service: Installation) -> None:
    """Over two accounts losses add up: where there is another of the unit, whoever adds a table
    hears of it."""
    kind, public = "routing", bodies.dataset()["public"]

    def table(count: int) -> dict[str, Any]:
        return {"period": [0], "origin": [1], "destination": [2], "count": [count]}

    with service.client(service.owner_of("an office of one")) as client, warnings.catch_warnings():
        warnings.simplefilter("error")  # of nobody else, of public data, and where it was said
        add = partial(client.datasets.add, kind=kind, public=public)
        add(table(7), cap=1, name="made up", mode="simulation")
        first = add(table(1), cap=1, name="first")
        assert add(table(1), cap=1) == first
        add(table(2), cap=1, name="second", other_people=True)
        assert add(table(3), same_people_as="first")["account"] == first["account"]
        assert add(table(4), same_people_as=first)["account"] == first["account"]
        with pytest.raises(ValueError, match="no dataset is called nobody"):
            add(table(5), same_people_as="nobody")
        with pytest.raises(TypeError, match="same_people_as"):
            add(table(5), same_people_as=first, other_people=True)
        with pytest.warns(OtherAccounts, match="same_people_as='dst_") as found:
            add(table(5), cap=1, name="third")
        assert "anybody of third" in str(found[0].message)
        assert "made up" not in str(found[0].message)
        assert found[0].filename == __file__


def test_what_cannot_be_repeated_is_sent_once(service: Installation) -> None:
    lossy = Lossy("/grants", lose=1)
    with Client(service.url, service.owner_key, transport=lossy) as client:
        account = client.register(bodies.dataset())["account"]
        with pytest.raises(Unreachable):
            client.grant(account, epsilon=2, delta=0, reason="more")
        assert len(lossy.sent) == 1


def test_refusals_for_being_busy_are_waited_out(service: Installation) -> None:
    busy = (
        httpx.Response(429, headers={"Retry-After": "0"}),
        httpx.Response(503, headers={"Retry-After": "0"}),
    )
    lossy = Lossy("/v1/budgets", refuse=busy)
    with Client(service.url, service.owner_key, transport=lossy) as client:
        client.budgets()
        assert len(lossy.sent) == 3
        lossy.refuse = [
            httpx.Response(429, headers={"Retry-After": "3600"}, json={"code": "rate_limited"})
        ]
        with pytest.raises(discreet_client.RateLimited) as refused:
            client.budgets()
        assert refused.value.retry_after == 3600
        assert refused.value.code == "rate_limited"


def test_waiting_is_as_long_as_the_server_asks() -> None:
    assert retry_after({"retry-after": "7"}) == 7
    assert retry_after({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}) == 0
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None
    attempts = Attempts(repeatable=True, server="here")
    waits = [attempts.refused(httpx.Response(503, headers={"Retry-After": "7"})) for _ in range(4)]
    assert waits == [7] * 4
    with pytest.raises(discreet_client.ServerError):
        attempts.refused(httpx.Response(503))
    once = Attempts(repeatable=False, server="here")
    assert once.refused(httpx.Response(429)) > 0  # it did nothing
    with pytest.raises(discreet_client.ServerError):
        once.refused(httpx.Response(503))
    never_sent = Attempts(repeatable=False, server="here")
    assert never_sent.broke(httpx.ConnectError("refused")) > 0
    with pytest.raises(Unreachable, match="at here"):
        never_sent.broke(httpx.ReadError("cut"))


def test_refusals_are_typed(service: Installation) -> None:
    with service.client() as client:
        registered = client.register(bodies.dataset())
        with pytest.raises(BudgetExhausted) as exhausted:
            client.solve(bodies.job(registered["id"], epsilon=5))
        assert exhausted.value.binding is not None
        assert exhausted.value.binding["largest"]["epsilon"] == 1
        revived = pickle.loads(pickle.dumps(exhausted.value))  # noqa: S301 - our own
        assert type(revived) is BudgetExhausted
        account = exhausted.value.problem["binding"]["account"]
        assert f"client.request_budget('{account}', " in "".join(exhausted.value.__notes__)
        assert revived.binding == exhausted.value.binding
        with pytest.raises(InvalidInput) as invalid:
            client.plan(bodies.job(registered["id"], relative_gap=7))
        assert [issue.pointer for issue in invalid.value.errors] == ["/problem/relative_gap"]
        assert client.budget(registered["account"])["spent"]["epsilon"] == 0
        with (
            pytest.raises(discreet_client.Unauthenticated),
            service.client("dsc_wrong") as stranger,
        ):
            stranger.budgets()
        dataset = bodies.dataset()
        client.register(dataset)
        with pytest.raises(discreet_client.Conflict) as other_mode:
            client.register({**dataset, "mode": "simulation"})
        assert type(other_mode.value) is discreet_client.Conflict
        assert other_mode.value.status == 409


def test_a_job_without_a_result_says_why(api_only: Installation) -> None:
    with api_only.client() as client:
        job = client.submit(bodies.job(client.register(bodies.dataset())["id"]))
        client.cancel(job["id"])
        with pytest.raises(JobFailed, match="cancelled") as failed:
            client.answer(job["id"])
        assert failed.value.job["id"] == job["id"]
        assert failed.value.code == "cancelled"


# Events -------------------------------------------------------------------------------------------


class Cut(httpx.HTTPTransport):
    """Breaks every event stream after its first event and some bytes of the next."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if not request.url.path.endswith("/events"):
            return response
        self.asked.append(request.headers["Last-Event-ID"])
        text = response.read()
        end = text.index(b"\n\n") + 2
        return httpx.Response(200, headers=response.headers, stream=CutStream(text[: end + 9]))


class CutStream(httpx.SyncByteStream):
    def __init__(self, text: bytes) -> None:
        self.text = text

    def __iter__(self) -> Iterator[bytes]:
        yield self.text
        raise httpx.ReadError("cut")


def test_events_go_on_after_the_last_one(service: Installation) -> None:
    with service.client() as client:
        job = client.submit(examples(3)["coupled_qp"])
        whole = list(client.events(job["id"]))
    assert whole[-1] == ("state", {"state": "succeeded"})
    cut = Cut()
    with Client(service.url, service.owner_key, transport=cut) as client:
        assert list(client.events(job["id"])) == whole
    assert len(cut.asked) == len(set(cut.asked)) == len(whole)


class Trouble(httpx.AsyncHTTPTransport):
    """Loses the first answer to each submission, then asks for patience once, and cuts every event
    stream."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: list[str] = []
        self.asked: list[str] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        submission = request.method == "POST" and request.url.path == "/v1/jobs"
        if submission:
            self.keys.append(request.headers["Idempotency-Key"])
            if len(self.keys) == 2:
                return httpx.Response(429, headers={"Retry-After": "0"})
        response = await super().handle_async_request(request)
        if submission and len(self.keys) == 1:
            await response.aread()
            raise httpx.ReadError("lost", request=request)
        if request.url.path.endswith("/events"):
            self.asked.append(request.headers["Last-Event-ID"])
            text = await response.aread()
            return httpx.Response(200, stream=AsyncCutStream(text[: text.index(b"\n\n") + 11]))
        return response


class AsyncCutStream(httpx.AsyncByteStream):
    def __init__(self, text: bytes) -> None:
        self.text = text

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.text
        raise httpx.ReadError("cut")


def test_an_answer_to_a_file_is_waited_for_as_long_as_it_may_be_read() -> None:
    """A large one takes more than a minute, after which it was sent again."""
    limits: list[tuple[str, dict[str, Any]]] = []

    def refuse(request: httpx.Request) -> httpx.Response:
        limits.append((f"{request.method} {request.url.path}", request.extensions["timeout"]))
        return httpx.Response(404, json={"code": "not_found", "detail": "none"})

    with Client("http://here", "key", transport=httpx.MockTransport(refuse)) as client:
        for ask in (
            lambda: client.register(examples(1)["routing"]["problem"]["dataset"]),
            lambda: client.datasets.look({"origin": [1]}, kind="routing", public={}),
            lambda: client.datasets.correct("dst_1", {"zones": 4}),
            lambda: client.job("job_1"),
        ):
            with pytest.raises(NotFound):
                ask()
    waited = {what: limit["read"] for what, limit in limits}
    assert waited["POST /v1/datasets"] == waited["POST /v1/reads"] == 7200
    assert waited["GET /v1/jobs/job_1"] == 60
    assert all(limit["connect"] == 60 for _, limit in limits)


def test_the_asynchronous_client_keeps_on_too(service: Installation) -> None:
    trouble = Trouble()

    async def run() -> None:
        async with AsyncClient(service.url, service.owner_key, transport=trouble) as client:
            answer = await client.solve(examples(6)["coupled_qp"]["problem"])
            assert answer.rounds > 0

    asyncio.run(run())
    assert len(trouble.keys) == 3
    assert len(set(trouble.keys)) == 1
    assert len(trouble.asked) == len(set(trouble.asked)) >= 2


def test_a_stream_is_read_the_same_wherever_it_is_cut() -> None:
    stream = (
        ": hello\r\nid: 1\r\nevent: state\r\ndata: é\r\ndata:b\r\n\r\nretry: 5\rid: 2\rdata: "
        "x\r\rdata: half\n"
    ).encode()
    for size in range(1, len(stream) + 1):
        parser = EventParser()
        parts = (stream[at : at + size] for at in range(0, len(stream), size))
        found = [
            (event.event, event.data, event.last_id)
            for part in parts
            for event in parser.feed(part)
        ]
        assert found == [("state", "é\nb", "1"), ("message", "x", "2")], size


# In and out ---------------------------------------------------------------------------------------


def test_content_in_any_form_is_the_same_dataset(
    service: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The service knows a dataset by its content: the same id means that the same content
    arrived."""
    dataset = examples(4)["dr_ensemble"]["problem"]["dataset"]
    trajectories = np.array(dataset["content"]["trajectories"])
    columns = {
        "participant": np.repeat(np.arange(80), 12),
        "step": np.tile(np.arange(12), 80),
        "state": trajectories.ravel(),
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "states.csv", index=False)
    forms = [
        trajectories,
        columns,
        frame,
        pa.table(columns),
        tmp_path / "states.csv",
        {"trajectories": trajectories},
    ]
    with service.client() as client:
        known = client.register(dataset)

        def register(content: Any) -> str:
            return client.register("dr_ensemble", dataset["public"], content, cap=dataset["cap"])[
                "id"
            ]

        assert {register(form) for form in forms} == {known["id"]}
        monkeypatch.setitem(sys.modules, "pyarrow", None)  # as if it were not installed: CSV
        assert {register(form) for form in forms[:3]} == {known["id"]}
        assert client.dataset(known["id"])["account"] == known["account"]
        assert known["id"] in {one["id"] for one in client.datasets()}


def test_meter_series_in_any_form_are_the_dataset_of_their_states(
    service: Installation, tmp_path: Any
) -> None:
    """Read by the service, or by the same code here: who sends states tells no power."""
    start = datetime(2026, 3, 29, tzinfo=UTC)
    rule = {"start": start.isoformat(), "interval_seconds": 1800}
    public = {"unit": "participant", "states": 3, "steps": 4, "edges": [0, 1, 2, 3], "meters": rule}
    times = [start + timedelta(minutes=15 * row) for row in range(8)] * 3
    power = [load + 0.25 * row for load in (0, 0.5, 1) for row in range(8)]
    columns = {
        "participant": [f"meter {row // 8}" for row in range(24)],
        "time": times,
        "kw": power,
    }
    frame = pd.DataFrame(columns)
    frame.to_csv(tmp_path / "meters.csv", index=False)
    frame.to_parquet(tmp_path / "meters.parquet")
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    forms = [
        frame,
        tmp_path / "meters.csv",
        tmp_path / "meters.parquet",
        {"power": rows},
        {"power": frame},
    ]
    with service.client() as client:
        states = [[0, 0, 1, 1], [0, 1, 1, 2], [1, 1, 2, 2]]
        known = client.register("dr_ensemble", public, {"trajectories": states}, cap=1)["id"]
        for content in forms:
            assert client.register("dr_ensemble", public, content, cap=1)["id"] == known
        with pytest.raises(InvalidInput, match="no reading in the period from 2026-03-29T02:00:00"):
            client.register("dr_ensemble", public | {"steps": 5}, frame, cap=1)


def test_a_transition_matrix_as_an_array(service: Installation) -> None:
    public = {
        "unit": "row",
        "states": 3,
        "min_probability": 0.1,
        "row_change": 0.1,
        "support": [[0, 0], [0, 2], [1, 1], [2, 0]],
    }
    matrix = np.array([[0.25, 0, 0.75], [0, 1, 0], [1, 0, 0]])
    with service.client() as client:
        known = client.register("dr_ensemble", public, {"transitions": matrix.tolist()}, cap=1)
        assert client.register("dr_ensemble", public, matrix, cap=1)["id"] == known["id"]


def test_trips_as_an_array_or_a_frame(service: Installation) -> None:
    body = bodies.dataset(zones=2, periods=3)
    trips = np.zeros((3, 2, 2), dtype=np.int64)
    for trip in body["content"]["trips"]:
        trips[trip["period"], trip["origin"] - 1, trip["destination"] - 1] = trip["count"]
    with service.client() as client:
        known = client.register(body)
        frame = pd.DataFrame(body["content"]["trips"])
        for content in (trips, frame, {"trips": frame}):
            assert client.register("routing", body["public"], content, cap=1)["id"] == known["id"]
        with pytest.raises(TypeError, match="4 dimensions"):
            client.register("routing", body["public"], trips[None], cap=1)
        with pytest.raises(ValueError, match="JSON"):
            client.register("dr_ensemble", {}, {"transitions": np.array([[np.nan]])}, cap=1)
        plan = client.plan(bodies.job("")["problem"] | {"dataset": known}, epsilon=0.25)
        assert plan["price"]["epsilon"] == 0.25
        assert plan["admitted"]


def test_large_fields_come_as_tables(service: Installation) -> None:
    """119 * 100 * 100 numbers of a policy, which are no JSON any more."""
    rng = np.random.default_rng(1)
    states, steps = 100, 120
    with service.client() as client:
        registered = client.register(
            "dr_ensemble",
            {"unit": "participant", "states": states, "participants": 50, "steps": 12},
            rng.integers(0, states, (50, 12)),
            cap=10,
        )
        problem = {
            "kind": "dr_ensemble",
            "dataset": registered,
            "power": np.arange(states),
            "price": rng.random(steps),
            "discomfort_weight": 1.0,
            "initial": np.full(states, 1 / states),
        }
        answer = client.solve(problem, epsilon=1)
    assert isinstance(answer, DrEnsembleAnswer)
    assert answer.document["result"]["tables"] == ["policy"]
    assert "policy" in answer
    assert "policy" not in answer.document["result"]
    assert answer.policy.shape == (steps - 1, states, states)
    np.testing.assert_allclose(answer.policy.sum(axis=2), 1)
    frame = answer.frame("policy")
    assert list(frame.columns) == ["step", "from", "to", "probability"]
    assert len(frame) == (steps - 1) * states * states
    assert answer.frame("transitions").shape == (states, states)


def test_frames(service: Installation) -> None:
    document = {
        "job": {"id": "job_1", "kind": "routing", "price": {"epsilon": 0, "delta": 0, "rho": 0}},
        "certificate": {},
        "result": {
            "link_flows": [1.5, 2.0],
            "cube": [[[1, 2]], [[3, 4]]],
            "policy": [{"origin": 1, "destination": 2, "paths": []}],
            "ragged": [[1.0], [1.0, 2.0]],
            "status": "optimal",
            "tables": ["paths"],
        },
    }
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"origin": [1], "share": [0.5], "links": [[1, 2]]}), file)
    answer = RoutingAnswer(document, {"paths": file.getvalue()})
    assert answer.frame("link_flows")["link_flows"].tolist() == [1.5, 2.0]
    assert answer.frame("link_flows").index.name == "link"
    ends = {"values": {"total_travel_time": {"lower": 4.0, "upper": 6.0}}}
    figures = {"total_travel_time": 5.0, "uncertainty": ends}
    one = RoutingAnswer({**document, "result": figures}, {}).frame("total_travel_time")
    assert one.iloc[0].tolist() == [5.0, 4.0, 6.0, False]
    assert answer.frame("cube").loc[(1, 0, 1), "cube"] == 4
    assert answer.frame("policy")["destination"].tolist() == [2]
    assert [row.tolist() for row in answer["ragged"]] == [[1.0], [1.0, 2.0]]
    assert answer.cube.dtype == np.int64
    with pytest.raises(TypeError, match="not a table"):
        answer.frame("status")
    with pytest.raises(TypeError, match=r"use answer\.table"):
        _ = answer.paths
    assert answer.table("paths").num_rows == 1
    assert set(answer) == {"link_flows", "cube", "policy", "ragged", "status", "paths"}


def test_links_of_a_stored_network_have_their_ends_in_frames(service: Installation) -> None:
    """Of a network by its id and inline, for both clients; it is fetched once."""
    asked: list[str] = []

    class Listening(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            asked.append(request.url.path)
            return super().handle_request(request)

    owner = service.owner_of("ends of links")
    roads = bodies.network()
    ends = [(link["tail"], link["head"]) for link in roads["links"]]
    with Client(service.url, owner, transport=Listening()) as client:
        stored = client.networks.add(roads, name="Ring with ends")["id"]
        dataset = client.register(bodies.dataset())
        problem = bodies.job(dataset["id"])["problem"]
        for network in (stored, roads, stored):
            answer = client.solve({**problem, "network": network}, epsilon=0.01, anew=True)
            frame = answer.frame("link_flows")
            assert list(frame.columns) == ["tail", "head", "link_flows"]
            assert list(zip(frame["tail"], frame["head"], strict=True)) == ends
            assert frame["link_flows"].tolist() == answer.link_flows.tolist()
            assert list(answer.frame("link_flows", intervals=True).columns[:2]) == ["tail", "head"]
            assert copy.deepcopy(answer).frame("link_flows").equals(frame)
        names = [f"crossing {node}" for node in range(1, roads["nodes"] + 1)]
        assert answer.frame("link_flows", called={"tail": names})["tail"].tolist() == [
            names[tail - 1] for tail, _ in ends
        ]
        zones = list(range(1, len(answer.demand) + 1))  # as in `policy`, and in the request
        assert list(answer.frame("demand").index) == list(answer.frame("demand").columns) == zones
        assert set(answer.frame("policy")["origin"]) == set(zones)
        by_pair = answer.frame("demand", intervals=True)
        assert by_pair.loc[(1, 2), "demand"] == answer.demand[0, 1]
        job = answer.id
        named = client.solve(
            {**problem, "network": {**roads, "node_names": names}}, epsilon=0.01, anew=True
        )
        assert list(named.frame("demand").columns) == names[: len(zones)]
        assert named.frame("policy")["origin"].isin(names[: len(zones)]).all()
        assert list(answer.frame("demand", called={"origin": names}).index) == names[: len(zones)]
        named = named.frame("link_flows", called={"tail": names})
        assert list(zip(named["tail"], named["head"], strict=True)) == [
            (names[tail - 1], names[head - 1]) for tail, head in ends
        ]
    assert asked.count(f"/v1/networks/{stored}") == 1

    async def later() -> Answer:
        async with AsyncClient(service.url, owner) as client:
            return await client.answer(job)

    assert asyncio.run(later()).frame("link_flows").equals(frame)


def test_an_answer_that_was_pickled_before_has_frames_without_ends() -> None:
    """As a version left it that knew nothing of networks."""
    answer = Answer({"job": {"id": "job_1"}, "result": {"link_flows": [1.0, 2.0]}}, {})
    state = answer.__getstate__()
    state.pop("_network", None)
    old = Answer.__new__(Answer)
    old.__dict__.update(state)
    assert list(pickle.loads(pickle.dumps(old)).frame("link_flows").columns) == ["link_flows"]  # noqa: S301


def test_an_answer_is_not_lost_where_its_network_is(service: Installation) -> None:
    class Closed(httpx.HTTPTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.path.startswith("/v1/networks/"):
                return httpx.Response(404, json={"code": "not_found", "detail": "gone"})
            return super().handle_request(request)

    owner = service.owner_of("roads that are gone")
    with Client(service.url, owner) as client:
        stored = client.networks.add(bodies.network(), name="Gone")["id"]
        problem = bodies.job(client.register(bodies.dataset())["id"])["problem"]
        job = client.solve({**problem, "network": stored}, epsilon=0.01).id
    with Client(service.url, owner, transport=Closed()) as client:
        assert list(client.answer(job).frame("link_flows").columns) == ["link_flows"]


def test_an_answer_in_a_notebook() -> None:
    document = {
        "job": {"id": "job_1", "kind": "routing", "price": {"epsilon": 0.5, "delta": 0, "rho": 0}},
        "certificate": {},
        "result": {
            "demand": [[0.0, 2.5], [1.0, 0.0]],
            "total_travel_time": 12.0,
            "status": "<b>",
            "policy": [{"origin": 1}],
            "uncertainty": {
                "level": 0.9,
                "values": {"total_travel_time": {"lower": 10.0, "upper": 14.0}},
                "kinds": {"total_travel_time": "noise"},
                "noise_dominates": {},
                "mostly_noise": True,
            },
        },
    }
    shown = RoutingAnswer(document, {})._repr_html_()
    assert "<strong>Mostly noise" in shown
    assert "<th>total_travel_time</th><td>12.0 (90 % NI: 10.0–14.0)</td>" in shown
    assert "<th>demand</th><td>an array by origin (2), destination (2)</td>" in shown
    assert "paid: epsilon 0.5" in shown
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert list(RoutingAnswer(document, {}).frame("demand").index) == [1, 2]
    assert RoutingAnswer(document, {}).frame("demand").columns.name == "destination"


def test_frames_call_positions_as_a_network_calls_its_nodes() -> None:
    uncertainty = {"level": 0.9, "values": {}, "noise_dominates": {}}
    result = {
        "demand": [[0.0, 2.5], [1.0, 0.0]],
        "link_flows": [1.0, 2.0],
        "policy": [{"origin": 1, "destination": 2, "paths": []}],
        "uncertainty": uncertainty,
    }
    answer = RoutingAnswer({"job": {"kind": "routing"}, "certificate": {}, "result": result}, {})
    names = {"origin": ["Inn", "Mill"], "destination": ["Inn", "Mill"]}
    demand = answer.frame("demand", called=names)
    assert (demand.loc["Inn", "Mill"], demand.loc["Mill", "Inn"]) == (2.5, 1.0)
    assert (
        answer.frame("demand", intervals=True, called=names).loc[("Inn", "Mill"), "demand"] == 2.5
    )
    assert answer.frame("policy", called=names)[["origin", "destination"]].values.tolist() == [
        ["Inn", "Mill"]
    ]
    assert answer.frame(
        "link_flows", called={**names, "link": ["High Street", "back"]}
    ).index.tolist() == [
        "High Street",
        "back",
    ]
    file = io.BytesIO()
    table = {"origin": [0, 0, 1, 1], "destination": [0, 1, 0, 1], "skims": [0.0, 3.0, 4.0, 0.0]}
    pa.parquet.write_table(pa.table(table), file)  # of a large field: positions count from 0
    large = RoutingAnswer(answer.document, {"skims": file.getvalue()}).frame("skims", called=names)
    assert large["destination"].tolist() == ["Inn", "Mill", "Inn", "Mill"]
    assert large["origin"].tolist() == ["Inn", "Inn", "Mill", "Mill"]
    for field in ("demand", "policy"):
        with pytest.raises(ValueError, match="destination: 2 positions, and 1 names"):
            answer.frame(field, called={"destination": ["Inn"]})


def test_frames_tell_the_time_of_steps_and_blocks() -> None:
    """As the result says it; numbers where it does not say where the horizon begins."""
    states = {
        **{"day_begins": "00:00:00", "step_seconds": 21_600, "day_steps": 4, "blocks": [0, 3]},
        "first_step": 1,
    }
    result = {
        "states": states,
        "expected_power": [1.0, 2.0, 3.0, 4.0, 5.0],
        "block_transitions": [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.0, 1.0]]],
        "cost_of_privacy": [[1.0, 2.0], [3.0, 4.0]],
    }
    document = {"job": {"kind": "dr_ensemble"}, "certificate": {}, "result": result}
    answer = DrEnsembleAnswer(document, {})
    assert answer.frame("expected_power").index.tolist() == [
        *("06:00", "12:00", "18:00", "00:00", "06:00 (2)")
    ]
    power = answer.frame("expected_power", intervals=True)
    assert power.loc["18:00", "expected_power"] == 3
    assert answer.frame("cost_of_privacy").loc["12:00", 1] == 4
    blocks = answer.frame("block_transitions")
    assert blocks.loc[("18:00 to 00:00", 0, 1), "block_transitions"] == 0.5
    file = io.BytesIO()
    pa.parquet.write_table(pa.table({"step": [0, 2], "from": [0, 0], "probability": [1, 1]}), file)
    large = DrEnsembleAnswer(document, {"policy": file.getvalue()})
    assert large.frame("policy")["step"].tolist() == ["06:00", "18:00"]
    two_weeks = {**states, "day_steps": 56, "day_begins_on": "Monday", "first_step": 0}
    names = step_names(two_weeks, 57)
    assert names is not None
    assert len({*names}) == 57
    assert names[28:30] == ["week 2, Mon 00:00", "week 2, Mon 06:00"]
    half = {**states, "day_steps": 2880, "step_seconds": 30, "day_begins": "23:59:45"}
    assert step_names({**half, "first_step": 0}, 3) == ["23:59:45", "00:00:15", "00:00:45"]
    named = answer.frame("expected_power", called={"step": ["a", "b", "c", "d", "e"]})
    assert named.index.tolist() == ["a", "b", "c", "d", "e"]
    del states["first_step"]
    assert answer.frame("expected_power").index.tolist() == [0, 1, 2, 3, 4]


def test_names_in_a_table_count_as_its_numbers_do() -> None:
    """Links and positions of a large array from 0, zones of a list and of its table from 1."""
    names = ["Inn", "Mill", "Pond"]
    called = dict.fromkeys(("origin", "destination", "link", "tail"), names)
    large = {
        "demand": {"origin": [0, 2], "destination": [2, 0], "trips": [2.5, 1.0]},
        "policy": {"origin": [1, 3], "destination": [3, 1], "share": [1.0, 1.0]},
        "link_flows": {"link": [0, 1, 2], "flow": [1.0, 2.0, 3.0]},
    }
    tables = {}
    for name, columns in large.items():
        pa.parquet.write_table(pa.table(columns), file := io.BytesIO())
        tables[name] = file.getvalue()
    selected = {"link": 0, "origin": 1, "destination": 3, "share": 1.0, "trips": 4.0}
    document = {
        "job": {"kind": "routing"},
        "certificate": {},
        "result": {"select_link": [selected, {**selected, "link": 2}], "tables": list(large)},
    }
    answer = RoutingAnswer(document, tables)
    answer.network = {"links": [{"tail": k, "head": 1} for k in (1, 2, 3)]}
    for name in ("demand", "policy"):
        frame = answer.frame(name, called=called)
        assert frame[["origin", "destination"]].values.tolist() == [
            ["Inn", "Pond"],
            ["Pond", "Inn"],
        ]
    for name, links in (("link_flows", names), ("select_link", ["Inn", "Pond"])):
        frame = answer.frame(name, called=called)
        assert frame["link"].tolist() == frame["tail"].tolist() == links
        assert frame["head"].unique().tolist() == [1]
    with pytest.raises(ValueError, match="link: 3 positions, and 2 names"):
        answer.frame("link_flows", called={"link": names[:2]})


def test_answers_draw_themselves_as_their_pages_do(
    service: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies_of = examples(8)
    with service.client() as client:
        for kind in ("routing", "dr_ensemble"):
            body = bodies_of[kind]
            answer = client.solve(body["problem"], **spending(body))
            charts = client.charts(answer.id)
            names = [chart["name"] for chart in charts]
            assert names[0] == {"routing": "network", "dr_ensemble": "load"}[kind]
            for chart in charts:
                figure = answer.plot(chart["name"])  # plotly refuses what it does not know
                assert figure.layout.title.text
                assert "paper-colour" not in figure.to_json()
                assert len(figure.frames) == len(chart["figure"].get("frames", ()))
                assert len(figure.layout.sliders) == bool(figure.frames)
            assert answer.plot() == answer.plot(names[0])
            with pytest.raises(KeyError, match=rf"there are {names[0]}"):
                answer.plot("flows")
        (zones,) = (one for one in charts if one["name"] == "transitions")
        assert zones["caption"]
        kept = pickle.loads(pickle.dumps(answer))  # noqa: S301 - our own
        assert (kept.expected_power == answer.expected_power).all()
        with pytest.raises(TypeError, match=r"client\.charts"):
            kept.plot()

        async def awaited() -> Any:
            async with AsyncClient(service.url, service.owner_key) as same:
                return await (await same.answer(answer.id)).plot()

        assert asyncio.run(awaited()) == answer.plot()
        monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
        with pytest.raises(ImportError, match=re.escape("discreet-client[plot]")):
            answer.plot()


def test_a_client_finds_its_server(
    service: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the command line does: what is given, the environment, the `discreet up` of this user."""
    for name in ("DISCREET_URL", "DISCREET_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DISCREET_STATE", str(tmp_path))
    with pytest.raises(Unreachable, match="discreet up"):
        Client()
    ready = tmp_path / "ready.json"
    ready.write_text(json.dumps({"api": service.url, "pid": os.getpid()}))
    with pytest.raises(Unauthenticated, match="DISCREET_KEY"):
        Client()
    (tmp_path / "owner.key").write_text(service.owner_key + "\n")
    with Client() as client, Client(service.url, service.owner_key) as given:
        assert list(client.budgets()) == list(given.budgets())
    with pytest.raises(Unauthenticated, match="is for"):  # the owner's key goes to no other server
        Client("http://127.0.0.1:9")
    monkeypatch.setenv("DISCREET_URL", "http://127.0.0.1:9")
    with pytest.raises(Unauthenticated, match="is for"):
        Client()
    with Client(service.url) as client:
        client.budgets()
    monkeypatch.setenv("DISCREET_URL", service.url)
    monkeypatch.setenv("DISCREET_KEY", service.owner_key)
    ready.write_text(
        json.dumps({"api": "http://127.0.0.1:9", "pid": 2**22 + 1})
    )  # of one that has ended
    with Client() as client:
        client.budgets()


# Progress -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("installed", [True, False], ids=["tqdm", "own"])
def test_a_terminal_shows_a_bar(monkeypatch: pytest.MonkeyPatch, installed: bool) -> None:
    if not installed:
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    reader, writer = pty.openpty()
    termios.tcsetwinsize(writer, (24, 100))
    with os.fdopen(writer, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        bar = bars.bar(None)
        assert type(bar) is (bars.TqdmBar if installed else bars.TerminalBar)
        bar.show("running", 1, 4)
        bar.show("succeeded", 3, 4)
        bar.close()
    shown = ""
    with contextlib.suppress(OSError):  # how Linux says that the other end was closed
        while part := os.read(reader, 1 << 16).decode():
            shown += part
    os.close(reader)
    assert "running" in shown
    assert "1/4" in shown
    assert "succeeded" in shown
    assert "4/4" in shown


def test_nothing_is_drawn_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(sys, "stderr", out)
    for wanted in (None, False):
        bar = bars.bar(wanted)
        bar.show("running", 1, 2)
        bar.close()
    assert out.getvalue() == ""


def test_a_notebook_shows_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its stderr is no terminal; what it can show is tqdm's to know, and without tqdm nothing is
    drawn."""

    class ZMQInteractiveShell:
        pass

    shell = ZMQInteractiveShell()
    ipython = ModuleType("IPython")
    monkeypatch.setattr(ipython, "get_ipython", lambda: shell, raising=False)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    bar = bars.bar(None)
    assert type(bar) is bars.TqdmBar
    bar.close()
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert type(bars.bar(None)) is bars.NoBar


# Webhooks -----------------------------------------------------------------------------------------


def test_webhooks_are_verified() -> None:
    """The example of the Standard Webhooks libraries."""
    secret, body, now = (
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        b'{"test": 2432232314}',
        1614265400,
    )
    headers = {
        "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "Webhook-Timestamp": "1614265330",
        "Webhook-Signature": "v1,bm9wZQ== v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verify(secret, headers, body, now=now) == {"test": 2432232314}
    for bad, says in (
        ({"body": body + b" "}, "no signature"),
        ({"secret": "whsec_AAAA"}, "no signature"),
        ({"now": now + 600}, "too old"),
        ({"headers": {**headers, "Webhook-Timestamp": "soon"}}, "seconds"),
        ({"headers": {**headers, "Webhook-Timestamp": "9" * 5000}}, "seconds"),
        ({"headers": {"Webhook-Id": "msg"}}, "missing"),
    ):
        given: dict[str, Any] = {
            "secret": secret,
            "headers": headers,
            "body": body,
            "now": now,
            **bad,
        }
        with pytest.raises(WebhookRefused, match=says):
            verify(given["secret"], given["headers"], given["body"], now=given["now"])


@pytest.mark.parametrize("server", ["", "127.0.0.1:8080", "ftp://example.org"])
def test_what_is_no_address_is_named(server: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(Unreachable, match="begins with http"):
            kind(server, "dsc_key")


@pytest.mark.parametrize("key", ["", " \n", "dsc_a b", "dsc_ä", "dsc_a\nX-Other: 1"])
def test_what_is_no_key_is_named(key: str) -> None:
    for kind in (Client, AsyncClient):
        with pytest.raises(Unauthenticated, match="API key") as refused:
            kind("http://127.0.0.1:8080", key)
        assert refused.value.code == "key_malformed"


def test_a_key_read_with_its_line_break(api_only: Installation) -> None:
    with Client(api_only.url + "/", api_only.owner_key + "\n") as client:
        assert isinstance(client.budgets(), list)
