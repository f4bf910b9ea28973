"""Every call of the contract with n, then 4n of what is wrong: processor time may grow in
proportion, and not more.

The bodies are the contract's own examples, so that a new call is met by itself. In each of them
every list, object, text and number is blown up in turn, and the text of the whole body is spoiled
in the ways of which parsers die.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from discreet.api.contract import contract
from tests.conftest import Installation
from tests.hostile import Attack, Reached

SECTION = "2. Any input"
FREE_SECONDS = 0.25
"""Processor time of 4n that needs no second look."""
MOST_GROWTH = 4 * 1.9
"""From n to 4n: n log n for n from 1000 on is 4.8, and what else the process did in the
meantime."""
MOST_ANSWER_BYTES = 1 << 16
MARK = "\u0001wrong\u0001"


@dataclass(frozen=True)
class Wrong:
    """A call whose body holds `size` of something wrong."""

    name: str
    method: str
    path: str
    roles: tuple[str, ...]
    statuses: frozenset[int]
    body: Callable[[int], bytes]


def wrongs() -> Iterator[Wrong]:
    for path, calls in json.loads(contract())["paths"].items():
        for method, call in calls.items():
            declared = frozenset(int(status) for status in call["responses"])
            roles = tuple(call.get("x-roles") or ())
            if "{" in path:
                yield Wrong(
                    f"{method} {path}, a long name", method, path, roles, declared, lambda _: b""
                )
            content = call.get("requestBody", {}).get("content", {}).get("application/json")
            if content is None:
                continue
            for how, spoiled in SPOILED.items():
                yield Wrong(f"{method} {path}, {how}", method, path, roles, declared, spoiled)
            for name, example in content.get("examples", {}).items():
                for where, blown in blown_up(example["value"]):
                    yield Wrong(
                        f"{method} {path}, {name}{where}", method, path, roles, declared, blown
                    )


SPOILED: dict[str, Callable[[int], bytes]] = {
    "brackets": lambda size: b"[" * size,
    "objects in objects": lambda size: b'{"a":' * size,
    "a text without an end": lambda size: b'"' + b'\\"' * size,
    "spaces": lambda size: b" " * size + b"x",
    "keys": lambda size: json.dumps({f"k{number}": 1 for number in range(size)}).encode(),
    "one key many times": lambda size: b"{" + b'"kind": 1,' * size + b'"kind": 1}',
    "surrogates": lambda size: b'{"kind": "' + b"\\ud800" * size + b'"}',
    "bytes that are no text": lambda size: b"\xff" * size,
}


def blown_up(value: Any) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Where something of the body is wrong many times, and the body by the number of times."""
    for path in places(value):
        where = "".join(f"/{part}" for part in path)
        here = at(value, path)

        def body(
            fill: Callable[[int], str], path: tuple[Any, ...] = path
        ) -> Callable[[int], bytes]:
            return lambda size: (
                json.dumps(put(value, path, MARK)).replace(json.dumps(MARK), fill(size)).encode()
            )

        if isinstance(here, list):
            yield f"{where}, wrong items", body(lambda size: f"[{','.join(['true'] * size)}]")
            if here and isinstance(here[0], dict | list):
                item = json.dumps(wrong_inside(here[0]))
                yield (
                    f"{where}, items with a mistake",
                    body(lambda size, item=item: f"[{','.join([item] * size)}]"),
                )  # type: ignore[misc]
        elif isinstance(here, dict):
            head = json.dumps(here)[:-1] + (", " if here else "")
            yield (
                f"{where}, keys",
                body(
                    lambda size, head=head: (
                        head + ", ".join(f'"k{number}": 1' for number in range(size)) + "}"
                    )
                ),  # type: ignore[misc]
            )
        elif isinstance(here, str):
            yield f"{where}, a long text", body(lambda size: f'"{"x" * size}"')
            yield f"{where}, parentheses", body(lambda size: f'"{"(" * size}"')
        elif isinstance(here, int | float) and not isinstance(here, bool):
            yield f"{where}, digits", body(lambda size: "1" * size)
            yield f"{where}, decimals", body(lambda size: "0." + "0" * size + "1")


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Everything below a value; of a list its first item."""
    yield path
    if isinstance(value, dict):
        for name, child in value.items():
            yield from places(child, (*path, name))
    elif isinstance(value, list) and value:
        yield from places(value[0], (*path, 0))


def at(value: Any, path: tuple[Any, ...]) -> Any:
    for part in path:
        value = value[part]
    return value


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    changed[path[0]] = put(changed[path[0]], path[1:], new)
    return changed


def wrong_inside(item: Any) -> Any:
    """The item with its last leaf replaced by what no field takes."""
    path = list(places(item))[-1]
    return put(item, path, {"": None})


def processor_seconds(pid: int) -> float:
    """Of a process, its descendants, and those of them that have ended and were waited for."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total = 0
    for process in parents:
        above = process
        while above not in (pid, 0):
            above = parents.get(above, 0)
        total += ticks[process] if above == pid else 0
    return total / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Grown:
    """What a wrong request cost."""

    wrong: Wrong
    seconds: float
    ratio: float | None
    """From n to 4n; None where 4n took next to nothing."""
    told: str
    """What else is wrong with the answer, if anything is."""

    @property
    def held(self) -> bool:
        return not self.told and (self.ratio is None or self.ratio <= MOST_GROWTH)


def grow(service: Installation, wrong: Wrong, size: int) -> Grown:
    """The cost of `size` (4n) of what is wrong, and its ratio to that of a quarter of them."""
    assert service.api is not None
    pid = service.api.pid
    key = service.operator_key if wrong.roles == ("operator",) else service.owner_key
    told = ""
    with service.http(key) as http:

        def cost(number: int) -> float:
            nonlocal told
            body, path = wrong.body(number), wrong.path
            while "{" in path:
                path = (
                    path[: path.index("{")]
                    + "x" * min(number, 30_000)
                    + path[path.index("}") + 1 :]
                )
            before = processor_seconds(pid)
            try:
                answer = http.request(
                    wrong.method,
                    path,
                    content=body or None,
                    headers={"Content-Type": "application/json"},
                )
            except httpx.TransportError as error:
                told = f"no answer: {type(error).__name__}"
                return 0.0
            if answer.status_code not in wrong.statuses | {404, 405} or answer.status_code >= 500:
                told = f"status {answer.status_code}"
            elif answer.is_error and len(answer.content) > MOST_ANSWER_BYTES:
                told = f"an answer of {len(answer.content)} bytes"
            return processor_seconds(pid) - before

        seconds = cost(size)
        if seconds < FREE_SECONDS:
            return Grown(wrong, seconds, None, told)
        seconds = min(seconds, cost(size))  # the first may have met something for the first time
        if seconds < FREE_SECONDS:
            return Grown(wrong, seconds, None, told)
        ratio = seconds / max(0.01, *(cost(size // 4) for _ in range(2)))
        if ratio > MOST_GROWTH:  # a clock of 10 ms: four times as much is four times as sure
            ratio = min(cost(4 * size), cost(4 * size)) / seconds
    return Grown(wrong, seconds, ratio, told)


def refusals_grow(service: Installation) -> Reached:
    found = [grow(service, wrong, 100_000) for wrong in wrongs()]
    broken = [one for one in found if not one.held]
    ratios = [one.ratio for one in found if one.ratio is not None]
    worst = max(found, key=lambda one: one.seconds)
    figures = (
        f"{len(found)} wrong bodies of 100,000 mistakes: at most {worst.seconds:.2f} s "
        f"({worst.wrong.name}), ratio at "
        f"most {max(ratios, default=0.0):.1f}"
    )
    names = "; ".join(f"{one.wrong.name} ({one.told or f'{one.ratio:.1f}'})" for one in broken[:5])
    return Reached(f"{figures}{f'; {len(broken)} broken: {names}' if broken else ''}", not broken)


ATTACKS = [
    Attack(
        SECTION,
        "every call with many mistakes",
        f"from n to 4n at most {MOST_GROWTH:.1f} times the processor time, answers of at most 64 "
        "kB",
        refusals_grow,
    )
]
