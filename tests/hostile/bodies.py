"""Bodies that were made to be dear: how their cost grows, what they take in memory, how long others
wait."""

from __future__ import annotations

import contextlib
import gc
import json
import random
import threading
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.intake.strict_json import memory_of
from discreet.problems import KINDS
from discreet.usecases.requests import JobRequest
from discreet.web.bodies import validate, value_of
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation
from tests.growth import LINEAR, growth
from tests.hostile import Attack, Reached

SIZE = 1 << 19
LARGEST = 32_000_000
MOST_WAIT = 1.0
"""Seconds that another request may wait meanwhile, or three times the longest quiet one."""
MOST_MEMORY = 300_000_000

TEXTS: dict[str, Callable[[int], bytes]] = {
    "unterminated string of escapes": lambda n: b'["' + b'\\"' * (n // 2),
    "one long string": lambda n: b'["' + b"x" * n + b'"]',
    "nesting without end": lambda n: b"[" * n,
    "nesting of 60": lambda n: b"[" + (b"[" * 60 + b"]" * 60 + b",") * (n // 121) + b"1]",
    "one long number": lambda n: b"[" + b"1" * n + b"]",
    "numbers of 4000 digits": lambda n: b"[" + (b"1" * 4000 + b",") * (n // 4001) + b"1]",
    "a key twice, last, below a long key": lambda n: (
        b'{"' + b"k" * (n // 2) + b'": [' + b"[1]," * (n // 8) + b'{"a": 1, "a": 2}]}'
    ),
    "halves of surrogate pairs": lambda n: b"[" + b'"\\ud83d\\ude00",' * (n // 15) + b'"\\ud800"]',
}

LINK = {"tail": 1, "head": 2, "free_flow_time": 1.0, "capacity": 1.0}


def routing_job(links: list[Any], **more: Any) -> Any:
    body = KINDS["routing"].example()
    body["problem"] |= {"dataset": "dst_1", "network": {"nodes": 2, "links": links}, **more}
    return body


def saddle_job(agents: list[Any]) -> Any:
    body = KINDS["coupled_qp"].example()
    body["problem"]["agents"] = agents
    return body


JOBS: dict[str, Callable[[int], Any]] = {
    "links: [1, 1, …]": lambda n: routing_job([1] * n),
    'links with "100" for 100': lambda n: routing_job([{**LINK, "capacity": "100"}] * n),
    "unknown fields": lambda n: routing_job([LINK], **{f"unknown{i}": 1 for i in range(n)}),
    "links with unknown fields, each another": lambda n: routing_job(
        [{**LINK, f"unknown{i}": 1} for i in range(n)]
    ),
    "agents that fit no branch": lambda n: saddle_job([{"x": 1}] * n),
}

VALUES: dict[str, Callable[[int], bytes]] = {
    '{"a":1}': lambda n: b'{"a":1},' * (n // 8),
    "{}": lambda n: b"{}," * (n // 3),
    "[1]": lambda n: b"[1]," * (n // 4),
    "1": lambda n: b"1," * (n // 2),
    "1.5": lambda n: b"1.5," * (n // 4),
    "17 digits": lambda n: b"0.1234567890123456," * (n // 19),
    "1e999": lambda n: b"1e999," * (n // 6),
    '"ab"': lambda n: b'"ab",' * (n // 5),
    "one emoji": lambda n: '"\N{GRINNING FACE}",'.encode() * (n // 7),
    "a long text and an emoji": lambda n: b'"' + b"x" * n + '\N{GRINNING FACE}",'.encode(),
    "a long text and an escaped emoji": lambda n: b'"' + b"x" * n + rb'\ud83d\ude00",',
    "another key each": lambda n: (
        b",".join(b'{"%x":1}' % one for one in range(4096, 4096 + n // 11)) + b","
    ),
    "ten other keys each": lambda n: (
        b",".join(
            b"{" + b",".join(b'"%x":1' % (10 * one + key) for key in range(10)) + b"}"
            for one in range(4096, 4096 + n // 90)
        )
        + b","
    ),
}
"""Values that take far more memory than text, with the comma after them."""


def array(name: str, size: int) -> bytes:
    return b"[" + VALUES[name](size) + b"1]"


def traced(call: Callable[[], object]) -> int:
    """The most memory that the call took."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def network_job(links: int) -> bytes:
    """A legal job of about 79 bytes a link."""
    draws = random.Random(1)
    nodes = links // 3
    roads = [
        {
            "tail": 1 + link % nodes,
            "head": 1 + (link + draws.randrange(1, nodes)) % nodes,
            "free_flow_time": round(draws.uniform(1, 50), 4),
            "capacity": round(draws.uniform(1, 5000), 3),
        }
        for link in range(links)
    ]
    body = KINDS["routing"].example()
    body["problem"] |= {"dataset": "dst_1", "network": {"nodes": nodes, "links": roads}}
    return json.dumps(body).encode()


_JOB: TypeAdapter[Any] = TypeAdapter(JobRequest)


def _read(body: bytes) -> None:
    with contextlib.suppress(InvalidInput, PayloadTooLarge):
        value_of(body)


def _refuse(body: Any) -> int:
    try:
        validate(_JOB, body)
    except InvalidInput as error:
        return len(error.issues)
    raise AssertionError("nothing was refused")


def _text(make: Callable[[int], bytes]) -> Callable[[Installation], Reached]:
    def run(_: Installation) -> Reached:
        ratio = growth(make, _read, SIZE)
        body = make(4 * SIZE)
        most = traced(lambda: _read(body))
        return Reached(
            f"time x{ratio:.1f}, memory x{most / len(body):.1f} of the body",
            ratio < LINEAR and most < memory_of(len(body)),
        )

    return run


def _values(name: str) -> Callable[[Installation], Reached]:
    def run(_: Installation) -> Reached:
        body = array(name, 4_000_000)
        most = traced(lambda: _read(body))
        return Reached(f"{most >> 20} MiB", most < memory_of(len(body)))

    return run


def _job(make: Callable[[int], Any]) -> Callable[[Installation], Reached]:
    def run(_: Installation) -> Reached:
        ratio = growth(make, _refuse, 200)
        issues = _refuse(make(9000))
        return Reached(f"time x{ratio:.1f}, {issues} issues", ratio < LINEAR and issues <= 20)

    return run


def _rows(
    make: Callable[[], bytes], status: int, path: str = "/v1/datasets"
) -> Callable[[Installation], Reached]:
    """A large body to a real API: the memory of API and readers, and the longest wait of others."""

    def run(service: Installation) -> Reached:
        assert service.api is not None
        body = make()
        with service.http() as http:
            http.post(
                "/v1/datasets", json=bodies.dataset(periods=1000)
            )  # whatever a first one loads
            with _Watch(service) as quiet:
                time.sleep(1)
            watch = _Watch(service)
            head = {"Content-Type": "application/json"}
            with watch:
                answer = http.post(path, content=body, headers=head, timeout=DEADLINE_SECONDS)
        code = answer.json().get("code", "registered")
        held = (
            answer.status_code == status
            and watch.memory < min(MOST_MEMORY, memory_of(len(body)))
            and watch.longest < max(MOST_WAIT, 3 * quiet.longest)
        )
        return Reached(
            f"{answer.status_code} {code}, {watch.memory >> 20} MB, others wait "
            f"{1000 * watch.longest:.0f} ms ({1000 * quiet.longest:.0f} ms quiet)",
            held,
        )

    return run


class _Watch:
    """The most memory that the API and all that it started grew by together, and the longest wait
    for an answer."""

    def __init__(self, service: Installation) -> None:
        self._service, self._over = service, threading.Event()
        self.memory, self.longest = 0, 0.0
        self._threads = [threading.Thread(target=self._memory), threading.Thread(target=self._wait)]

    def __enter__(self) -> _Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _memory(self) -> None:
        assert self._service.api is not None
        first: dict[int, int] = {}
        while not self._over.wait(0.02):
            now = _resident(self._service.api.pid)
            first = now | first
            self.memory = max(self.memory, sum(size - first[pid] for pid, size in now.items()))

    def _wait(self) -> None:
        with self._service.http() as http:
            while not self._over.wait(0.05):
                began = time.monotonic()
                http.get("/v1/jobs")
                self.longest = max(self.longest, time.monotonic() - began)


def _resident(pid: int) -> dict[int, int]:
    """Bytes of memory that is no file's, of this process and those it started. A child begins with
    its parent's."""
    parents: dict[int, list[int]] = {}
    sizes: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError):  # it has ended
            fields = dict(
                line.split(":", 1) for line in status.read_text().splitlines() if ":" in line
            )
            one = int(fields["Pid"])
            parents.setdefault(int(fields["PPid"]), []).append(one)
            sizes[one] = 1024 * int(fields.get("RssAnon", "0 kB").split()[0])
    found, waiting = {}, [pid]
    while waiting:
        one = waiting.pop()
        found[one] = sizes.get(one, 0)
        waiting += parents.get(one, [])
    return found


def _trips() -> bytes:
    body = bodies.dataset(periods=1000)
    del body["content"]
    row = b'{"period":%d,"origin":1,"destination":2,"count":1},'
    rows = b"".join(row % (number % 1000) for number in range((LARGEST - 1000) // 54))
    return json.dumps(body).encode()[:-1] + b', "content": {"trips": [' + rows[:-1] + b"]}}"


def _ones() -> bytes:
    body = bodies.dataset()
    del body["content"]
    return (
        json.dumps(body).encode()[:-1]
        + b', "content": {"trips": ['
        + b"1," * (LARGEST // 2 - 1000)
        + b"1]}}"
    )


BOUND = f"time below x{LINEAR:g} for four times the body"
MEMORY = "memory below 6 times the body and 64 MiB"
LATER = "32 MB below 300 MB in all processes together"
OF_JOB = "below 6 times the body and 64 MiB in all processes together"
ATTACKS = [
    *(
        Attack("2 bodies", f"strict JSON: {name}", BOUND, _text(make))
        for name, make in TEXTS.items()
    ),
    *(Attack("2 bodies", f"4 MB of {name}", MEMORY, _values(name)) for name in VALUES),
    *(
        Attack("2 bodies", f"a job: {name}", f"{BOUND}, at most 20 issues", _job(make))
        for name, make in JOBS.items()
    ),
    Attack("2 bodies", "a dataset of 32 MB of trips, legal", LATER, _rows(_trips, 201)),
    Attack(
        "2 bodies",
        "a plan of 16 MB, its network inline, legal",
        OF_JOB,
        _rows(lambda: network_job(190_000), 404, "/v1/plans"),
    ),
    Attack(
        "2 bodies",
        'a plan of 16 MB, [{"a":1}, …]',
        OF_JOB,
        _rows(lambda: array('{"a":1}', 15_999_000), 413, "/v1/plans"),
    ),
    Attack("2 bodies", "a dataset of 32 MB, trips: [1, 1, …]", LATER, _rows(_ones, 422)),
    Attack(
        "2 bodies",
        'a dataset of 32 MB of `\\"`',
        LATER,
        _rows(lambda: b'\\"' * (LARGEST // 2), 413),
    ),
    Attack("2 bodies", "a dataset of 32 MB of `[`", LATER, _rows(lambda: b"[" * LARGEST, 413)),
]
