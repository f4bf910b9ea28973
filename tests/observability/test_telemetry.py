"""What a running installation tells its operators: traces, logs, metrics, readiness; and that it
tells no more."""

from __future__ import annotations

import json
import math
import re
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from discreet.installation.postgres import EmbeddedPostgres
from discreet.observability import telemetry
from tests import bodies
from tests.conftest import Installation, eventually, settings_for
from tests.postgres_fixture import Database, fresh_database

ROOT = Path(__file__).parents[2]
TRACE, ABOVE = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
LABELS = {
    "check",
    "code",
    "kind",
    "le",
    "level",
    "method",
    "part",
    "route",
    "schema",
    "state",
    "status",
    "step",
    "version",
    "where",
}
"""None of them names a tenant, a principal, a dataset or a job."""
UNITS = ("_total", "_seconds", "_bytes")
COUNTS = {
    "discreet_archive_fails",
    "discreet_build",
    "discreet_check_passed",
    "discreet_child_isolation",
    "discreet_database_connections",
    "discreet_database_up",
    "discreet_jobs",
    "discreet_leases_over",
    "discreet_ledger_entries",
    "discreet_log_pending",
    "discreet_queue_jobs",
    "discreet_rpc_reserved",
    "discreet_rpc_streams",
    "discreet_rpc_waiting",
    "discreet_workers",
}
"""Gauges of things that have no unit."""


class Collector(ThreadingHTTPServer):
    """Takes what OpenTelemetry's exporters send."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[tuple[str, Span]] = []
        self.paths: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def of(self, trace: str) -> list[tuple[str, Span]]:
        return [(part, span) for part, span in list(self.spans) if span.trace_id.hex() == trace]


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            import gzip

            body = gzip.decompress(body)
        self.server.paths.add(self.path)
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            parts = [
                one.value.string_value
                for one in group.resource.attributes
                if one.key == "discreet.part"
            ]
            for scope in group.scope_spans:
                self.server.spans += [(parts[0], span) for span in scope.spans]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@dataclass
class Observed(Installation):
    """An installation that tells a collector, with a worker whose metrics can be read."""

    database: Database | None = None
    logs: Path = Path()
    worker_url: str = ""
    collector: Collector = field(default_factory=Collector)

    def start(self) -> None:
        self.extra = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.collector.url,
            "OTEL_BSP_SCHEDULE_DELAY": "100",
        }
        self.make_keys()
        with socket.create_server(("127.0.0.1", 0)) as monitor:
            monitor.set_inheritable(True)
            self.worker_url = f"http://127.0.0.1:{monitor.getsockname()[1]}"
            with self.logs.open("wb") as logs:
                self.workers.append(
                    subprocess.Popen(
                        [
                            sys.executable,
                            "-m",
                            "discreet",
                            "worker",
                            "--metrics-fd",
                            str(monitor.fileno()),
                        ],
                        env=self.environment(),
                        pass_fds=(monitor.fileno(),),
                        stderr=logs,
                    )
                )
            self.start_api()
        eventually(self._working, "the worker is ready")

    def _working(self) -> bool:
        assert self.workers[0].poll() is None, self.logs.read_text()
        return (
            httpx.get(f"{self.worker_url}/readyz", timeout=60, trust_env=False).status_code == 200
        )

    def submit(self, **headers: str) -> str:
        with self.http() as http:
            dataset = http.post("/v1/datasets", json=bodies.dataset()).json()
            more = {"Idempotency-Key": str(uuid.uuid4()), **headers}
            return str(
                http.post("/v1/jobs", json=bodies.job(dataset["id"]), headers=more).json()["id"]
            )

    def finished(self, job: str) -> dict[str, Any]:
        def end() -> dict[str, Any] | None:
            assert self.workers[0].poll() is None, self.logs.read_text()
            body: dict[str, Any] = http.get(f"/v1/jobs/{job}").json()
            return body if body["finished_at"] else None

        with self.http() as http:
            done = eventually(end, "the job ends")
            assert done["state"] == "succeeded"
            return dict(http.get(f"/v1/jobs/{job}/result").json())


@pytest.fixture(scope="module")
def observed(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Observed]:
    state = tmp_path_factory.mktemp("observed")
    with ExitStack() as stack:
        database = stack.enter_context(fresh_database(postgres, template))
        running = Observed(
            settings_for(database, state), database=database, logs=state / "worker.log"
        )
        stack.callback(running.collector.server_close)
        stack.callback(running.collector.shutdown)
        stack.callback(running.stop)
        running.start()
        yield running


def read(url: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Samples by name and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics", trust_env=False).text):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_one_job_is_one_trace_from_request_to_publication(observed: Observed) -> None:
    job = observed.submit(traceparent=f"00-{TRACE}-{ABOVE}-01")
    answer = observed.finished(job)
    names = {
        "POST /v1/jobs",
        "plan",
        "queue",
        "job",
        "release",
        "keep release",
        "finish",
        "publish",
    }
    eventually(
        lambda: {span.name for _, span in observed.collector.of(TRACE)} >= names, "all spans arrive"
    )
    found = observed.collector.of(TRACE)
    assert sorted(span.name for _, span in found) == sorted(names)  # and no library's
    assert observed.collector.paths == {"/v1/traces"}
    parts = {span.name: part for part, span in found}
    assert {name for name, part in parts.items() if part == "api"} == {"POST /v1/jobs", "plan"}
    spans = {span.name: span for _, span in found}
    request, attempt = spans["POST /v1/jobs"].span_id, spans["job"].span_id
    parents = {name: span.parent_span_id for name, span in spans.items()}
    assert parents == {
        "POST /v1/jobs": bytes.fromhex(ABOVE),
        **dict.fromkeys(("plan", "queue", "job"), request),
        **dict.fromkeys(("release", "keep release", "finish", "publish"), attempt),
    }
    assert all(span.status.code != Status.STATUS_CODE_ERROR for span in spans.values())

    # What a release took is seen as the quantum or its doublings alone, and nothing happens inside
    # of it.
    assumption = next(
        text for text in answer["certificate"]["assumptions"] if "data access was padded" in text
    )
    release = spans["release"]
    quantum = float(re.findall(r"[0-9.]+(?= s)", assumption)[0])
    quanta = (release.end_time_unix_nano - release.start_time_unix_nano) / (quantum * 1e9)
    assert quanta >= 1 - 1e-6
    assert math.log2(quanta) == pytest.approx(round(math.log2(quanta)), abs=1e-6)
    assert release.span_id not in {span.parent_span_id for span in spans.values()}
    assert spans["keep release"].start_time_unix_nano >= release.end_time_unix_nano

    # Attributes are these and no others, and there are no events, which could carry an exception's
    # text.
    said = {one.key for span in spans.values() for one in span.attributes}
    assert said == {
        *(
            "discreet.job",
            "discreet.problem",
            "discreet.attempt",
            "http.route",
            "http.response.status_code",
        ),
    }
    assert not any(span.events for span in spans.values())


def test_registration_of_content_leaves_neither_span_nor_time(observed: Observed) -> None:
    observed.finished(observed.submit())
    names = {span.name for _, span in list(observed.collector.spans)}
    assert "POST /v1/jobs" in names
    assert not [name for name in names if "/v1/datasets" in name or name in ("GET /readyz")]
    samples = read(observed.metrics_url)
    labels = (("method", "POST"), ("route", "/v1/datasets"), ("status", "201"))
    assert samples["discreet_http_requests_total"][labels] >= 1
    assert labels not in samples["discreet_http_request_seconds_count"]


def test_event_stream_does_not_show_the_trace(observed: Observed) -> None:
    job = observed.submit(traceparent=f"00-{TRACE[::-1]}-{ABOVE}-01")
    observed.finished(job)
    with observed.http() as http:
        for after in ({}, {"Last-Event-ID": "0"}):
            stream = http.get(f"/v1/jobs/{job}/events", headers=after).text
            assert "trace" not in stream
            assert stream.startswith("id: 1\nevent: state\n")


def test_logs_are_json_with_job_and_trace(observed: Observed) -> None:
    trace = uuid.uuid4().hex
    job = observed.submit(traceparent=f"00-{trace}-{ABOVE}-01")
    observed.finished(job)

    def published() -> dict[str, Any] | None:
        written = observed.logs.read_text().splitlines()
        assert [line for line in written if not line.startswith("{")] == []
        lines = [json.loads(line) for line in written]
        return next(
            (one for one in lines if one.get("job") == job and one["event"] == "job published"),
            None,
        )

    line = eventually(published, "the worker says that it has published")
    assert line["trace_id"] == trace
    assert line["part"] == "worker"
    assert line["level"] == "info"
    assert line["timestamp"].endswith("Z")


def test_metrics_have_units_and_no_tenants(observed: Observed) -> None:
    observed.finished(observed.submit())
    with observed.http() as http:
        dataset = http.post("/v1/datasets", json=bodies.dataset()).json()
        refused = http.post(
            "/v1/jobs",
            json=bodies.job(dataset["id"], epsilon=50),
            headers={"Idempotency-Key": "dear"},
        )
        assert refused.json()["code"] == "budget_exhausted"
    done_of = ("discreet_jobs_ended_total", (("kind", "routing"), ("state", "succeeded")))

    def counted() -> dict[str, dict[tuple[tuple[str, str], ...], float]] | None:
        """The worker's samples once it has counted all that it has published: it does so after the
        publication."""
        found = read(observed.worker_url)
        ended = found.get(done_of[0], {}).get(done_of[1], 0)
        return found if ended == found["discreet_attempts_total"][(("kind", "routing"),)] else None

    worker = eventually(counted, "the job is counted")
    api = read(observed.metrics_url)
    for samples in (api, worker):
        for name, values in samples.items():
            if not name.startswith("discreet_"):
                assert name == "python_info", name  # the client library's own
                continue
            stem = re.sub(r"_(bucket|count|sum|created)$", "", name)
            assert stem.endswith(UNITS) or stem in COUNTS or f"{stem}_total" in samples, name
            assert {label for labels in values for label, _ in labels} <= LABELS, name
    assert api["discreet_budget_refusals_total"][()] == 1
    assert api["discreet_database_up"][()] == 1
    assert api["discreet_database_connections"][(("state", "most"),)] == observed.settings.pool_size
    done = worker[done_of[0]][done_of[1]]
    steps = worker["discreet_child_seconds_count"]
    assert done >= 1
    assert {steps[(("kind", "routing"), ("step", step))] for step in ("release", "finish")} == {
        done
    }
    assert worker["discreet_attempts_total"][(("kind", "routing"),)] == done
    assert "discreet_attempts_total" not in api
    eventually(
        lambda: read(observed.metrics_url)["discreet_ledger_entries"][()] >= 2,
        "the ledger's entries are counted",
    )
    assert read(observed.metrics_url)["discreet_workers"][()] == 1


def test_metrics_have_an_address_of_their_own(observed: Observed) -> None:
    """That of the contract has none, with a key or without."""
    for url in (observed.metrics_url, observed.worker_url):
        of_libraries = {name for name in read(url) if not name.startswith("discreet_")}
        assert of_libraries == {"python_info"}
    with httpx.Client(trust_env=False) as stranger:
        assert stranger.get(f"{observed.url}/metrics").status_code == 404
        assert stranger.get(f"{observed.metrics_url}/healthz").json() == {"status": "ok"}
        assert stranger.get(f"{observed.metrics_url}/readyz").json()["status"] == "ready"


def test_queue_is_measured(api_only: Installation) -> None:
    with api_only.http() as http:
        dataset = http.post("/v1/datasets", json=bodies.dataset()).json()
        http.post(
            "/v1/jobs",
            json=bodies.job(dataset["id"]),
            headers={"Idempotency-Key": str(uuid.uuid4())},
        )
    waiting = eventually(
        lambda: (found := read(api_only.metrics_url))["discreet_queue_jobs"][()] >= 1 and found,
        "the job is on the queue",
    )
    assert waiting["discreet_jobs"][(("kind", "routing"), ("state", "queued"))] >= 1
    assert waiting["discreet_queue_oldest_seconds"][()] > 0
    assert waiting["discreet_workers"][()] == 0


def test_dashboard_asks_for_metrics_that_exist(observed: Observed) -> None:
    dashboard = json.loads((ROOT / "docs" / "deployment" / "grafana.json").read_text())
    import discreet.rpc.server  # noqa: F401  registers its metrics here

    pages = [
        httpx.get(f"{url}/metrics", trust_env=False).text
        for url in (observed.metrics_url, observed.worker_url)
    ]
    known = set().union(*(names(text) for text in [*pages, generate_latest().decode()]))
    expressions = [
        target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())
    ]
    assert len(expressions) >= 15
    asked = {name for text in expressions for name in re.findall(r"\bdiscreet_\w+", text)}
    assert asked - known == set()
    for text in expressions:  # counters are asked for their rate, histograms by their buckets
        for name in re.findall(r"\bdiscreet_\w+_total", text):
            assert re.search(rf"(rate|increase)\({name}", text), text
    for panel in dashboard["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["fieldConfig"]["defaults"]["unit"]
    ours = {
        name for name in known if name.startswith("discreet_") and not name.endswith("_created")
    }
    shown = {re.sub(r"_(bucket|count|sum)$", "", name) for name in asked}
    assert {re.sub(r"_(bucket|count|sum)$", "", name) for name in ours} - shown <= {
        "discreet_rpc_messages_total"
    }


def names(text: str) -> set[str]:
    """Every name that a query may use, also of what has no samples yet."""
    types = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    return {
        name + end
        for name, kind in types
        for end in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    }


# Readiness ----------------------------------------------------------------------------------------


def superuser(observed: Observed, postgres: EmbeddedPostgres) -> psycopg.Connection[Any]:
    assert observed.database is not None
    return psycopg.connect(postgres.url("postgres", observed.database.name), autocommit=True)


def problem(observed: Observed) -> dict[str, Any]:
    answer = httpx.get(f"{observed.url}/readyz", trust_env=False)
    if answer.status_code == 200:
        return {}
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    return dict(answer.json())


def test_readiness_names_a_schema_of_another_version(
    observed: Observed, postgres: EmbeddedPostgres
) -> None:
    with superuser(observed, postgres) as connection:
        ((present,),) = connection.execute("SELECT version_num FROM alembic_version").fetchall()
        for number, comment, text in (
            ("0000", None, "run `discreet migrate`"),
            ("9999", "9999", "start the newer version instead"),
        ):
            connection.execute("UPDATE alembic_version SET version_num = %s", [number])
            ((before,),) = connection.execute(
                "SELECT obj_description('alembic_version'::regclass)"
            ).fetchall()
            if comment:
                connection.execute(f"COMMENT ON TABLE alembic_version IS '{comment}'")
            try:
                found = problem(observed)
                assert found["code"] == "not_ready"
                assert found["detail"].startswith(f"schema: the database has schema {number}")
                assert text in found["detail"]
                assert found["checks"]["database"] == found["checks"]["hub"] == "ok"
                worker = httpx.get(f"{observed.worker_url}/readyz", trust_env=False)
                assert worker.status_code == 503
                assert worker.json()["checks"]["isolation"] == "ok"
                assert text in worker.json()["checks"]["schema"]
            finally:
                connection.execute("UPDATE alembic_version SET version_num = %s", [present])
                connection.execute(f"COMMENT ON TABLE alembic_version IS '{before}'")
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        try:  # a newer schema that only expands: this version goes on while it is being replaced
            assert problem(observed) == {}
        finally:
            connection.execute("UPDATE alembic_version SET version_num = %s", [present])
    assert problem(observed) == {}


def test_readiness_names_a_deaf_hub(observed: Observed, postgres: EmbeddedPostgres) -> None:
    assert observed.database is not None
    name = observed.database.name
    with psycopg.connect(postgres.superuser_url, autocommit=True) as connection:
        listening = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = %s AND query ILIKE "
            "'LISTEN%%procrastinate%%'"
        )
        # A worker that cannot begin to listen ends, for its supervisor to start it again: here
        # there is none.
        eventually(
            lambda: (connection.execute(listening, [name]).fetchone() or (0,))[0],
            "the worker listens",
        )
        connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS false")
        try:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = %s AND query LIKE 'LISTEN discreet%%'",
                [name],
            )
            found = eventually(lambda: problem(observed), "the API is not ready")
        finally:
            connection.execute(f"ALTER DATABASE {name} WITH ALLOW_CONNECTIONS true")
    assert found["detail"] == "hub: not connected; event streams would wait in vain"
    eventually(lambda: not problem(observed), "it listens again")


def test_check_command_tells_what_fails(observed: Observed) -> None:
    def check(url: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "discreet", "check", url],
            capture_output=True,
            text=True,
            check=False,
        )

    assert check(f"{observed.worker_url}/readyz").stdout == "ready\n"
    assert "answers 404" in check(f"{observed.worker_url}/nothing").stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    done = check(f"http://127.0.0.1:{port}/readyz")
    assert done.returncode == 1
    assert "does not answer" in done.stderr


# The pieces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        f"00-{'0' * 32}-{ABOVE}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{ABOVE}-01" + "0" * 4000,
        "x" * 55,
    ],
)
def test_traceparents_that_say_nothing(text: str) -> None:
    from opentelemetry import trace

    assert not trace.get_current_span(telemetry.context_of(text)).get_span_context().is_valid


def test_without_a_collector_nothing_is_loaded_to_send() -> None:
    code = (
        "import sys; from discreet.observability import telemetry; telemetry.configure('api')\n"
        "with telemetry.span('x'): assert telemetry.traceparent() is None\n"
        "assert not [name for name in sys.modules if name.startswith(('opentelemetry.sdk', "
        "'opentelemetry.exporter'))]"
    )
    from tests.test_up import clean_environment

    environment = {
        name: value for name, value in clean_environment().items() if not name.startswith("OTEL_")
    }
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_a_full_disk_below_the_log_fails_nothing_that_writes_to_it() -> None:
    """/dev/full answers every write as a full disk does."""
    program = """
import logging, structlog, warnings
from discreet.observability import telemetry
telemetry.configure("worker")
for _ in range(100):
    structlog.get_logger().warning("a line", detail="x" * 1000)
    logging.getLogger("library").warning("a line of a library")
warnings.warn("a warning")
print("alive")
"""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            check=False,
        )
    assert done.stdout == "alive\n"
