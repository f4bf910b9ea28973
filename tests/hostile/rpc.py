"""Crowds at gRPC's door, and parts of `discreet up` that are alive and silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.storage.migrations import migrate
from discreet_agent.federation.links import Link
from tests.conftest import Installation
from tests.hostile import Attack, Reached
from tests.postgres_fixture import make_template
from tests.processes import until
from tests.rpc.conftest import Federation, federation
from tests.rpc.crowds import (
    endless_headers,
    enrolments,
    first_messages,
    memory_of,
    settled_memory,
    silence,
)
from tests.rpc.helpers import run
from tests.test_up import started

MEGABYTE = 1 << 20


@contextmanager
def _federation() -> Iterator[Federation]:
    """API and rpc that know the tests' kind, on a PostgreSQL of their own."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="discreet-hostile-")))
        postgres = stack.enter_context(EmbeddedPostgres(folder / "postgres", durable=False))
        template = make_template(
            postgres,
            lambda database: migrate(
                Settings(database_url=database.app_url, migration_database_url=database.owner_url)
            ),
        )
        yield stack.enter_context(federation(postgres, template, folder / "state"))


def _session_runs(where: Federation) -> bool:
    job = where.submit(agents=2, rounds=2, mode="simulation")
    return [agent.outcome()["state"] for agent in run(where, job, 2)] == ["succeeded"] * 2


def large_first_messages(_service: Installation) -> Reached:
    with _federation() as where:
        pid = where.rpcs[0].pid
        before = settled_memory(pid)
        answers = asyncio.run(first_messages(where.rpc_port, 230, 4_000_000))
        with contextlib.suppress(AssertionError):  # free memory is given back every other second
            until(lambda: memory_of(pid) - before < 24 * MEGABYTE, seconds=30)
        kept = max(0, memory_of(pid) - before) // MEGABYTE
        refused = answers["RESOURCE_EXHAUSTED", "message_too_large"]
    return Reached(
        f"{refused} refused, {kept} MB kept of {230 * 4}", held=refused == 230 and kept < 24
    )


def headers_without_end(_service: Installation) -> Reached:
    """gRPC reads up to 16 MB of a header block whatever its limits say; what counts is that it is
    given back."""
    with _federation() as where, ExitStack() as stack:
        pid = where.rpcs[0].pid
        before = settled_memory(pid)
        for _ in range(10):
            stack.enter_context(endless_headers(where.rpc_port, 16 * MEGABYTE))
        most = max(0, memory_of(pid) - before) // MEGABYTE
        with contextlib.suppress(AssertionError):
            until(lambda: memory_of(pid) - before < 100 * MEGABYTE, seconds=30)
        kept = max(0, memory_of(pid) - before) // MEGABYTE
        runs = _session_runs(where)
    return Reached(
        f"{most} MB at most, {kept} MB kept while they are open; agents let in: {runs}",
        held=kept < 100 and most < 320 and runs,
    )


def silent_streams(_service: Installation) -> Reached:
    with _federation() as where, silence(where.rpc_port, streams=2200, channels=22) as tally:
        runs = _session_runs(where)
        figures = (
            f"2 of 2 agents let in: {runs}; of 2200 silent streams "
            f"{tally['too_many_streams']} were sent away"
        )
    return Reached(figures, held=runs)


def flood_of_enrolments(_service: Installation) -> Reached:
    with _federation() as where:
        job = where.submit(agents=2, rounds=2, mode="simulation")
        session = Link.parse(where.invite(job, 1)[0]).session
        before = settled_memory(where.rpcs[0].pid)
        answers = asyncio.run(enrolments(where.rpc_port, 2000, session, "guess", at_once=500))
        kept = max(0, memory_of(where.rpcs[0].pid) - before) // MEGABYTE
        runs = _session_runs(where)
    known = answers["UNAUTHENTICATED", "wrong_token"] + answers["UNAVAILABLE", "too_many_streams"]
    return Reached(
        f"{known} of 2000 refused, {kept} MB kept, agents let in: {runs}", known == 2000 and runs
    )


def hello_then_silence(_service: Installation) -> Reached:
    """All seats are taken by agents that enrolled and wait; the members of a signed roster come all
    the same."""
    with _federation() as where:
        where.rpcs[0].terminate()
        where.extra["DISCREET_RPC_STREAMS"] = "6"
        until(lambda: where.rpcs[0].poll() is not None)
        where.start_rpc()
        waiting = where.submit(agents=6, rounds=2, mode="simulation")
        for number, link in enumerate(where.invite(waiting, 6)):
            where.agent(link, name=f"guest-{number}")
        where.joined(waiting, 6)
        runs = _session_runs(where)
    return Reached(f"6 of 6 seats taken by guests; 2 of 2 members let in: {runs}", held=runs)


def silent_part(name: str) -> Callable[[Installation], Reached]:
    def attack(_service: Installation) -> Reached:
        with (
            tempfile.TemporaryDirectory(prefix="discreet-hostile-") as folder,
            started(Path(folder) / "state", DISCREET_WORKERS="0") as up,
        ):
            up.await_ready()
            before = up.part(name)
            os.kill(before, signal.SIGSTOP)
            until(lambda: up.part(name) not in (0, before))
            reason = (
                (up.state / "logs" / f"{name}.log")
                .read_text()
                .rpartition("ended, ")[2]
                .split("\n")[0]
            )
        return Reached(f"replaced: {reason}", held=reason.startswith("3 probes in a row failed"))

    return attack


ATTACKS = [
    Attack(
        "2 rpc",
        "230 first messages of 4 MB",
        "all refused, less than 24 MB kept",
        large_first_messages,
    ),
    Attack("2 rpc", "2,200 silent streams", "2 of 2 agents let in", silent_streams),
    Attack(
        "2 rpc",
        "2,000 enrolments that are well signed",
        "all refused, agents let in",
        flood_of_enrolments,
    ),
    Attack(
        "2 rpc",
        "ten connections with headers without end",
        "less than 100 MB kept, below 320 MB at any time, agents let in",
        headers_without_end,
    ),
    Attack("2 rpc", "Hello, then silence", "members of a signed roster let in", hello_then_silence),
    Attack(
        "2 up", "an API that is alive and silent", "replaced after 3 probes", silent_part("api")
    ),
    Attack(
        "2 up", "an rpc that is alive and silent", "replaced after 3 probes", silent_part("rpc")
    ),
]
