"""What the API costs beside its one SELECT: `GET /v1/budgets/{id}` against a bare FastAPI route,
and submissions.

    python -m benchmarks.api

The peer is FastAPI under the same uvicorn with one route that does one SELECT by primary key on a
pool of the same kind and size, and sends the row's text: no key, no tenant, no quota, no metrics.
Both are one process on one PostgreSQL, asked by the same client over as many connections, in short
turns; the ratio is the median of those of neighbouring turns. The client writes bytes to sockets: a
library would be slower than what it measures.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
from rich.console import Console
from rich.table import Table

from benchmarks.ledger import Measured, row
from discreet.installation.database_roles import APP
from discreet.installation.prepared import embedded, running
from discreet.problems.routing.problem import Routing
from discreet.settings import Settings
from discreet.storage.database import libpq_url
from discreet_client.client import Client

CROWD = 16
ROUNDS = 12
SECONDS = 0.5
SUBMISSIONS = 400
BARE = "a bare FastAPI route with one SELECT"

TABLE = f"""
CREATE TABLE bench_rows (id text PRIMARY KEY, body text);
GRANT SELECT ON bench_rows TO {APP};
"""

Question = Callable[[], bytes]


class Connection:
    """One kept-alive HTTP connection that sends prepared bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, question: bytes, status: int) -> bytes:
        """The body of the answer, which must have this status."""
        self._writer.write(question)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        body = await self._reader.readexactly(length)
        if int(head[9:12]) != status:
            raise RuntimeError(f"{head!r} {body!r}")
        return body

    def close(self) -> None:
        self._writer.close()


@contextlib.asynccontextmanager
async def connections(url: str, count: int) -> AsyncIterator[list[Connection]]:
    host, _, port = url.partition("://")[2].partition(":")
    made = [Connection(*await asyncio.open_connection(host, int(port))) for _ in range(count)]
    try:
        yield made
    finally:
        for one in made:
            one.close()


def get(path: str, key: str | None = None) -> bytes:
    authorization = "" if key is None else f"Authorization: Bearer {key}\r\n"
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{authorization}\r\n".encode()


async def turn(
    measured: Measured, crowd: list[Connection], question: Question, seconds: float
) -> None:
    """All connections ask for some time, each its next question after the last answer."""
    count = 0
    begun = time.perf_counter()

    async def caller(connection: Connection) -> None:
        nonlocal count
        while (started := time.perf_counter()) - begun < seconds:
            await connection.ask(question(), 200)
            measured.seconds.append(time.perf_counter() - started)
            count += 1

    await asyncio.gather(*(caller(one) for one in crowd))
    measured.rates.append(count / (time.perf_counter() - begun))


async def submissions(
    url: str, key: str, body: dict[str, Any], crowd: int, prefix: str
) -> Measured:
    """The whole of `POST /v1/jobs`, many times."""
    text = json.dumps(body).encode()
    numbers = itertools.count()
    measured = Measured()

    def question() -> bytes:
        head = (
            f"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nIdempotency-Key: {prefix} {next(numbers)}\r\n"
            f"Content-Length: {len(text)}\r\n\r\n"
        )
        return head.encode() + text

    async with connections(url, crowd) as opened:
        for one in opened:
            await one.ask(question(), 202)
        begun = time.perf_counter()

        async def caller(connection: Connection) -> None:
            for _ in range(SUBMISSIONS // crowd):
                started = time.perf_counter()
                await connection.ask(question(), 202)
                measured.seconds.append(time.perf_counter() - started)

        await asyncio.gather(*(caller(one) for one in opened))
        measured.rates.append(len(measured.seconds) / (time.perf_counter() - begun))
    return measured


async def measure(
    ours: str, bare: str, key: str, account: str, body: dict[str, Any]
) -> list[dict[str, Any]]:
    budget, plain = get(f"/v1/budgets/{account}", key), get(f"/rows/{account}")
    deltas = itertools.count(1)
    questions: dict[str, tuple[str, Question]] = {
        "bare": (bare, lambda: plain),
        "budget": (ours, lambda: budget),
        # Another delta each time: nothing of the answer can be kept from an earlier one.
        "anew": (ours, lambda: get(f"/v1/budgets/{account}?delta={next(deltas)}e-15", key)),
    }
    found: dict[tuple[str, int], Measured] = {}
    for crowd in (1, CROWD):
        async with connections(ours, crowd) as to_us, connections(bare, crowd) as to_bare:
            opened = {ours: to_us, bare: to_bare}
            for name, (url, question) in questions.items():
                found[name, crowd] = Measured()
                await turn(Measured(), opened[url], question, 1.0)
            for _ in range(ROUNDS):
                for name, (url, question) in questions.items():
                    await turn(found[name, crowd], opened[url], question, SECONDS)
    alone, together = (
        await submissions(ours, key, body, 1, "one"),
        await submissions(ours, key, body, CROWD, "many"),
    )

    def against(title: str, name: str, crowd: int) -> dict[str, Any]:
        measured, peer = found[name, crowd], found["bare", crowd]
        note = (
            f"{crowd} connection{'s' * (crowd > 1)}; p50 {measured.percentile(0.5):.2f} ms,"
            f" p99 {measured.percentile(0.99):.2f} ms"
        )
        answer = row(title, measured.rate, "1/s", note, BARE, peer.rate)
        answer["ratio"] = statistics.median(
            a / b for a, b in zip(measured.rates, peer.rates, strict=True)
        )
        return answer

    def submitted(measured: Measured, share: float, note: str) -> dict[str, Any]:
        title = f"POST /v1/jobs, p{share * 100:.0f}"
        return {"benchmark": title, "ours": measured.percentile(share), "unit": "ms", "note": note}

    return [
        against("GET /v1/budgets/{id}", "budget", CROWD),
        against("GET /v1/budgets/{id}", "budget", 1),
        against("GET /v1/budgets/{id}, figures computed anew", "anew", CROWD),
        submitted(alone, 0.5, "one connection"),
        submitted(alone, 0.99, "one connection"),
        submitted(together, 0.5, f"{CROWD} connections, {together.rate:.0f} submissions a second"),
        submitted(together, 0.99, f"{CROWD} connections"),
    ]


@contextlib.contextmanager
def bare_server(settings: Settings) -> Iterator[str]:
    """The peer in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        number = listener.fileno()
        environment = {**os.environ, "DISCREET_DATABASE_URL": settings.database_url or ""}
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.api", "bare", str(number)],
            env=environment,
            pass_fds=(number,),
        )
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            process.terminate()
            process.wait(timeout=30)


def serve_bare(descriptor: int) -> None:
    """One route, one SELECT."""
    import uvicorn
    from fastapi import FastAPI
    from sqlalchemy import text
    from starlette.responses import Response

    from discreet.storage.database import Database

    database = Database(Settings())
    statement = text("SELECT body FROM bench_rows WHERE id = :id")
    app = FastAPI()

    @app.get("/rows/{row_id}")
    async def read(row_id: str) -> Response:
        async with database.engine.connect() as connection:
            body = (await connection.execute(statement, {"id": row_id})).scalar_one()
        return Response(body, media_type="application/json")

    config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=descriptor)])


def run() -> list[dict[str, Any]]:
    """Rates (more is better) and milliseconds (less is better); `ratio` is ours by the peer's."""
    body = Routing.example()
    spec = body["problem"].pop("dataset")
    with (
        tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder,
        embedded(Settings(state=Path(folder) / "database", workers=0)) as settings,
    ):
        served = settings.model_copy(
            update={
                "state": Path(folder) / "served",
                "secrets_file": settings.secrets_path,
                "rate_limit_requests": 10**9,
            }
        )
        with running(served) as ready, bare_server(served) as bare:
            key = (served.state / "owner.key").read_text().strip()
            with Client(ready["api"], key) as client:
                registered = client.register({**spec, "cap": {"epsilon": 1000, "delta": 1e-6}})
                text = json.dumps(client.budget(registered["account"]))
            assert settings.migration_database_url is not None
            with psycopg.connect(libpq_url(settings.migration_database_url)) as connection:
                connection.execute(TABLE.encode())
                connection.execute(
                    "INSERT INTO bench_rows VALUES (%s, %s)", (registered["account"], text)
                )
            body["problem"]["dataset"] = registered["id"]
            body["privacy"] = {"epsilon": 0.001}
            return asyncio.run(measure(ready["api"], bare, key, registered["account"], body))


def main() -> None:
    """Run and print, or be the peer."""
    if sys.argv[1:2] == ["bare"]:
        serve_bare(int(sys.argv[2]))
        return
    table = Table("benchmark", "ours", "peer", "ratio", "note", title="the API, one process")
    for one in run():
        peer = f"{one['peer_value']:.4g} {one['unit']} ({one['peer']})" if "peer" in one else ""
        ratio = f"{one['ratio']:.3g}" if "ratio" in one else ""
        table.add_row(
            one["benchmark"], f"{one['ours']:.4g} {one['unit']}", peer, ratio, one["note"]
        )
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
