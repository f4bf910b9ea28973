"""Recognisable values are planted in the data of all kinds and among the secrets, jobs end in every
way they can, and then everything that the service left behind is searched: answers, logs, metrics,
traces, files, the database.

Values are searched as text, as the bytes of their numbers, and as PostgreSQL prints bytes.
"""

from __future__ import annotations

import base64
import gzip
import http.server
import io
import json
import re
import resource
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from psycopg import sql

from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability import faults
from discreet.problems import DATASETS, KINDS
from discreet.problems.contents import pack
from tests import bodies
from tests.conftest import eventually, settings_for
from tests.postgres_fixture import fresh_database
from tests.processes import alive
from tests.reliability.canary_zygote import ABORTS, RAISES
from tests.reliability.chains import superuser_url
from tests.rpc.conftest import Federation, free_port
from tests.rpc.test_coupled_qp import PAPER, PRIMAL, QpAgent, spec

# What is planted ----------------------------------------------------------------------------------

COUNTS = [837_261_900 + number for number in range(12)]
PERSONS = [f"Canary Weaver-{number:04d}" for number in range(8)]
VARIED = 735_902_649
"""What the record of each kind's example is varied by."""
ROW = [0.53109842675, 0.21890157325, 0.25]
CENTRES = [2.718459045235, 3.141902653589]
CURVATURE = 1.4142905623731


def routing(name: str, first: int, minutes: float = 60.0, **more: Any) -> dict[str, Any]:
    trips = [
        {
            "period": period,
            "origin": 1,
            "destination": 2,
            "count": COUNTS[first + period] if period < 2 else 7,
        }
        for period in range(4)
    ]
    return {
        "name": name,
        "kind": "routing",
        "public": {"unit": "request", "zones": 2, "periods": 4, "period_minutes": minutes},
        "content": {"trips": trips},
        "cap": {"epsilon": 1, "delta": 0},
        **more,
    }


def by_person() -> dict[str, Any]:
    dataset = routing("by person", 0)
    dataset["public"]["unit"] = "person"
    dataset["content"]["trips"] = [
        {"period": number % 4, "origin": 1, "destination": 2, "count": 1, "person": person}
        for number, person in enumerate(PERSONS)
    ]
    return dataset


def of_kind(kind: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A kind's example with a varied record, and its job."""
    body = KINDS[kind].example()
    dataset = body["problem"].pop("dataset")
    KINDS[kind].vary(dataset["content"], VARIED)
    return dataset, body


def varied(before: Any, after: Any) -> Iterator[int | float | list[int]]:
    """What stands in a content that did not before: numbers, those in expressions too, and rows of
    small integers."""
    if isinstance(after, dict):
        for name, value in after.items():
            yield from varied(before[name], value)
    elif isinstance(after, list) and isinstance(after[0], int):
        if after != before:
            yield after
    elif isinstance(after, list):
        for one, other in zip(before, after, strict=True):
            yield from varied(one, other)
    elif isinstance(after, str):
        yield from (float(number) for number in re.findall(r"\d+\.\d{6,}", after))
    elif after != before:
        yield after


def transition_rows() -> tuple[dict[str, Any], dict[str, Any]]:
    dataset, body = of_kind("dr_ensemble")
    rows = [ROW, [0.0, 0.5, 0.5], [0.0, 0.5, 0.5]]
    support = [[origin, to] for origin, part in enumerate(rows) for to in range(3) if part[to] > 0]
    dataset["public"] = {
        "unit": "row",
        "states": 3,
        "min_probability": 0.1,
        "row_change": 0.03,
        "support": support,
    }
    dataset["content"] = {"transitions": rows}
    body["privacy"] = {"epsilon": 4, "delta": 1e-5}
    return {**dataset, "name": "rows"}, body


class Words:
    """What must not be found, in every form it could take."""

    def __init__(self) -> None:
        numbers: list[int | float] = [*COUNTS, *ROW[:2], *CENTRES, CURVATURE]
        texts = {"Canary Weaver"}
        raw = set()
        for kind in DATASETS:
            planted = list(
                varied(
                    KINDS[kind].example()["problem"]["dataset"]["content"],
                    of_kind(kind)[0]["content"],
                )
            )
            assert planted, kind
            for one in planted:
                if isinstance(one, list):
                    texts |= {str(one)[1:-1], str(one)[1:-1].replace(" ", "")}
                    raw.add(struct.pack(f"<{len(one)}q", *one))
                else:
                    numbers.append(one)
        texts |= {str(number) for number in numbers}
        raw |= {struct.pack("<q", number) for number in numbers if isinstance(number, int)}
        raw |= {struct.pack("<d", float(number)) for number in numbers}
        self.secret_texts: set[str] = set()
        self.data = {text.encode() for text in texts} | raw | {one.hex().encode() for one in raw}
        self.data |= {text.encode().hex().encode() for text in texts}

    def add_secret(self, text: str, raw: bytes = b"") -> None:
        self.data |= {text.encode(), text.encode().hex().encode()}
        if raw:
            self.data |= {
                raw,
                raw.hex().encode(),
                base64.b64encode(raw),
                base64.urlsafe_b64encode(raw),
            }

    def found_in(self, haystack: bytes) -> list[bytes]:
        """Those that stand there; digits of a longer number are not meant."""
        return [
            word
            for word in self.data
            if word in haystack
            and (
                not word.isdigit()
                or re.search(rb"(?<![\w.+/=-])" + word + rb"(?![\w.+/=-])", haystack)
            )
        ]


# Where it is searched -----------------------------------------------------------------------------


@contextmanager
def collector() -> Iterator[tuple[str, list[bytes]]]:
    """Takes what a tracing exporter sends: its address, and the bodies."""
    bodies: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            bodies.append(
                gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body
            )
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", bodies
        finally:
            server.shutdown()
            thread.join()


@dataclass
class Watched(Federation):
    """An installation whose processes write everything into `place` and may dump core there."""

    place: Path = Path()
    answers: list[tuple[str, bytes]] = field(default_factory=list)

    def program(self, *arguments: str, **more: Any) -> subprocess.Popen[bytes]:
        log = (
            self.place / "logs" / f"{arguments[0]}-{len(list(self.place.glob('logs/*')))}.log"
        ).open("wb")
        more = {"stdout": log, "stderr": log, **more}
        before = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
        try:
            with log:
                return subprocess.Popen(
                    [sys.executable, "-m", "tests.reliability.canary_program", *arguments],
                    env={**self.environment(), "TMPDIR": str(self.place / "tmp")},
                    cwd=self.place / "cwd",
                    **more,
                )
        finally:
            resource.setrlimit(resource.RLIMIT_CORE, before)

    def start_worker(self) -> subprocess.Popen[bytes]:
        process = self.program("worker")
        self.workers.append(process)
        return process

    def ask(self, method: str, path: str, **more: Any) -> Any:
        """One request as the owner; its answer is kept, headers and all."""
        with self.http() as client:
            answer = client.request(method, path, **more)
        self.answers.append(
            (f"{method} {path}", repr(answer.headers.raw).encode() + answer.content)
        )
        return answer

    def register(self, dataset: dict[str, Any]) -> dict[str, Any]:
        answer = self.ask("POST", "/v1/datasets", json=dataset)
        assert answer.status_code == 201, answer.text
        return dict(answer.json())

    def submit(self, body: dict[str, Any]) -> str:  # type: ignore[override]  # by HTTP, as everybody does
        answer = self.ask(
            "POST", "/v1/jobs", json=body, headers={"Idempotency-Key": f"{len(self.answers)}"}
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["id"])

    def ended(self, job: str) -> dict[str, Any]:
        with self.client() as client:
            return client.wait(job)

    def searched(self, postgres: EmbeddedPostgres) -> Iterator[tuple[str, bytes]]:
        """Everything that came out: (where, what)."""
        yield from self.answers
        for path in sorted(self.place.rglob("*")):
            own = path.name in ("secrets.json", "owner.key", "operator.key", "owner.pem", "rpc.key")
            agents = path.is_relative_to(self.place / "agents")
            if path.is_file() and not own and not agents:
                yield str(path.relative_to(self.place)), path.read_bytes()
        with psycopg.connect(superuser_url(postgres, self.settings), autocommit=True) as connection:
            tables = connection.execute(
                # that holds verifiers
                "SELECT schemaname, tablename FROM pg_tables WHERE tablename <> 'pg_authid'"
            ).fetchall()
            for table in tables:
                rows = connection.execute(
                    sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(*table))
                ).fetchall()
                yield f"table {table[1]}", "\n".join(row[0] for row in rows).encode()
            connection.execute("CHECKPOINT")
            folder = connection.execute(
                "SELECT oid FROM pg_database WHERE datname = current_database()"
            ).fetchone()
        assert folder is not None
        for part in (
            postgres.data / "base" / str(folder[0]),
            postgres.data / "pg_wal",
            postgres.state / "logs",
        ):
            for path in sorted(part.rglob("*")):
                if path.is_file():
                    yield f"PostgreSQL's {path.name}", path.read_bytes()


@pytest.fixture
def watched(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> Iterator[tuple[Watched, list[bytes]]]:
    for name in ("logs", "tmp", "cwd", "agents"):
        (tmp_path / name).mkdir()
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        address, traces = stack.enter_context(collector())
        extra = {"OTEL_EXPORTER_OTLP_ENDPOINT": address, "DISCREET_LEAST_ISOLATION": "none"}
        settings = settings_for(database, tmp_path / "state", lease_seconds=2.0, max_attempts=2)
        mine = {"rpc_port": free_port(), "folder": tmp_path / "agents", "place": tmp_path}
        running = Watched(settings, extra=extra, alone=True, **mine)
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        yield running, traces


@pytest.mark.long
@pytest.mark.timeout(1800)  # a dozen processes, one after another
def test_no_private_value_and_no_secret_comes_out(
    watched: tuple[Watched, list[bytes]], postgres: EmbeddedPostgres
) -> None:
    running, traces = watched
    words = Words()
    kept = json.loads((running.settings.state / "secrets.json").read_text())
    for text in _strings(kept):
        if len(text) > 30:  # 32 bytes in base64, not a name or a date
            words.add_secret(text, base64.urlsafe_b64decode(text + "==="))
    for key in (running.owner_key, running.operator_key):
        words.add_secret(key)
    for url in (running.settings.database_url, running.settings.migration_database_url):
        words.add_secret(str(httpx.URL(str(url)).password))

    # One job of every kind; the worker of the first one is killed with the release in its hands.
    jobs: dict[str, str] = {}
    for kind in DATASETS:
        dataset, body = of_kind(kind)
        body["problem"]["dataset"] = running.register(dataset)["id"]
        jobs[kind] = running.submit(body)
    dataset, body = transition_rows()
    jobs["rows"] = running.submit(
        {**body, "problem": {**body["problem"], "dataset": running.register(dataset)["id"]}}
    )
    ends = {
        "counts": routing("counts", 2),
        "raises": routing("raises", 4, RAISES),
        "aborts": routing("aborts", 6, ABORTS),
    }
    for name, dataset in ends.items():
        registered = running.register(dataset)
        body = bodies.job(registered["id"], network=bodies.network(2))
        jobs[name] = running.submit(body)
        refused = running.ask(
            "POST",
            "/v1/jobs",
            json={**body, "privacy": {"epsilon": 5}},
            headers={"Idempotency-Key": name},
        )
        assert refused.status_code == 409
    registered = running.register(by_person())
    problem = {
        "kind": "routing",
        "dataset": registered["id"],
        "network": bodies.network(2),
        "max_trips_per_person": 3,
    }
    jobs["by person"] = running.submit({"problem": problem, "privacy": {"epsilon": 0.1}})
    for sent, told in refusals(running):
        assert set(words.found_in(told)) <= set(words.found_in(sent))

    running.extra |= {
        "DISCREET_FAULTS_SWITCH": faults.SWITCH,
        "DISCREET_FAULTS": "runner.released=1",
    }
    unlucky = running.start_worker()
    running.start_rpc()
    sessions_end = federated(running)
    eventually(lambda: not alive(unlucky.pid), "the worker is killed with a release in its hands")
    del running.extra["DISCREET_FAULTS"]
    running.start_worker()
    for name, job in jobs.items():
        expected = "failed" if name in ("raises", "aborts") else "succeeded"
        assert running.ended(job)["state"] == expected, name
    sessions_end()

    for job in jobs.values():
        for path in ("", "/result", "/certificate"):
            running.ask("GET", f"/v1/jobs/{job}{path}")
    for path in (
        "/v1/jobs",
        "/v1/datasets",
        "/v1/budgets",
        "/v1/keys",
        "/v1/ledger/head",
        "/readyz",
    ):
        running.ask("GET", path)
    running.answers.append(("metrics", running.metrics().encode()))
    for budget in running.ask("GET", "/v1/budgets").json()["budgets"]:
        running.ask("GET", f"/v1/budgets/{budget['id']}/entries")
    processes = [running.api, *running.workers, *running.rpcs]
    for process in processes:
        if process is not None and process.poll() is None:
            limits = Path(f"/proc/{process.pid}/limits").read_text()
            assert re.search(r"^Max core file size +0 ", limits, re.MULTILINE)
    running.stop()  # whatever is said last is said

    # The search finds what is there: in what was sent, as JSON and as the arrays that workers hold.
    sent, _ = of_kind("off_policy_evaluation")
    assert words.found_in(json.dumps(sent).encode())
    assert words.found_in(pack(_read(routing("counts", 2))))
    assert words.found_in(f"\\x{running.owner_key.encode().hex()}".encode())

    places = [
        *running.searched(postgres),
        *((f"trace {number}", body) for number, body in enumerate(traces)),
    ]
    assert [(where, hits) for where, what in places if (hits := words.found_in(what))] == []
    searched = {where for where, _ in places}
    assert len([where for where in searched if where.startswith("logs/")]) >= 4
    assert "table jobs" in searched
    assert not [path.name for path in running.place.rglob("core*")]
    logs = b"".join(what for where, what in places if where.startswith("logs/"))
    assert logs.count(b'"child failed"') == 4  # two attempts at each of two jobs
    assert list((running.place / "cwd").iterdir()) == []


def refusals(running: Watched) -> Iterator[tuple[bytes, bytes]]:
    """Content that is refused, in every form it can be sent in: what was sent, and what its owner
    was told, which may quote what was wrong with it."""
    wrong = routing("wrong", 8)
    wrong["content"]["trips"].append(
        {"period": 0, "origin": 1, "destination": 3, "count": COUNTS[10]}
    )
    double = json.dumps(wrong)[:-1] + ', "cap": {"epsilon": 1}}'
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(wrong["content"]["trips"]), table)
    metadata = json.dumps({name: value for name, value in wrong.items() if name != "content"})
    forms: list[Callable[[], Any]] = [
        lambda: running.ask("POST", "/v1/datasets", json=wrong),
        lambda: running.ask(
            "POST", "/v1/datasets", content=double, headers={"Content-Type": "application/json"}
        ),
        lambda: running.ask(
            "POST",
            "/v1/datasets",
            content=double[:-40],
            headers={"Content-Type": "application/json"},
        ),
    ]
    for content, name in (
        (table.getvalue(), "a.parquet"),
        (table.getvalue()[:-9], "b.parquet"),
        (b"1,2\n", "c.csv"),
    ):
        forms.append(
            lambda content=content, name=name: running.ask(  # type: ignore[misc]
                "POST",
                "/v1/datasets",
                data={"metadata": metadata},
                files={"content": (name, content)},
            )
        )
    dataset, _ = of_kind("multi_agent")
    dataset["content"]["objectives"]["left"] = f"-(left - {CENTRES[0]})^2"
    forms.append(
        lambda: running.ask("POST", "/v1/datasets", json={**dataset, "name": "no minimum"})
    )
    for form in forms:
        answer = form()
        assert 400 <= answer.status_code < 500
        running.answers.pop()
        yield answer.request.read(), answer.content


def federated(running: Watched) -> Callable[[], None]:
    """A session of `coupled_qp`, whose agents' data are the planted values; returns a wait for its
    end."""
    problem = spec("masking", iterations=5)
    job = running.submit({"problem": problem})
    for place, token in enumerate(running.invite(job, 3)):
        data = {**PAPER[place], "primal": PRIMAL[place]}
        data["a_l"] = [value * CURVATURE for value in data["a_l"]]
        data["upper"] = CENTRES[0]
        agent = QpAgent(running.folder / f"agent-{place}", token, data)
        running.agents.append(agent)
        agent.start()
    running.joined(job, 3)
    running.cli("approve", job)

    def wait() -> None:
        for agent in running.agents:
            agent.outcome()
        assert running.ended(job)["state"] == "succeeded"
        running.ask("GET", f"/v1/jobs/{job}/result")
        running.ask("GET", f"/v1/sessions/{job}")

    return wait


def _read(dataset: dict[str, Any]) -> Any:
    kind = KINDS["routing"].Dataset
    assert kind is not None
    return kind.model_validate(dataset).described().rows()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from _strings(one)
