"""Runs one party's computation in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet_agent.mpc.terms import Terms

Floats = NDArray[np.float64]
GRACE_SECONDS = 10.0
ENGINE = ("-m", "discreet_agent.mpc.engine")


class NotInstalled(Exception):
    """MPyC is not installed."""

    def __init__(self) -> None:
        super().__init__("computing on shares needs MPyC: pip install 'discreet-agent[mpc]'")


class BrokenOff(Exception):
    """The computation ended without an answer; `code` is a key of CAUSES."""

    def __init__(self, code: str) -> None:
        super().__init__(f"the computation on shares broke off: {CAUSES.get(code, code)}")
        self.code = code


CAUSES = {
    "party": "a party that connected is not the one on the roster",
    "message": "a party sent a message that holds no shares",
    "connection": "the connection with a party was lost, or its bytes were changed",
    "terms": "the owner has signed terms of an earlier version, in which all agents compute",
    "time": "the parties were not done in time",
    "internal": "an error in this party's own process",
}


@dataclass(frozen=True)
class Place:
    """Where a party listens, and its certificate (DER, base64)."""

    host: str
    port: int
    certificate: str


@dataclass(frozen=True)
class Computed:
    """What was opened to this party: its own quantities, and how good they are, see
    `prices.verdict_of`; None also if nobody asked."""

    quantities: Floats
    kept: bool | None
    seconds: float
    sent_bytes: int


def require_engine() -> None:
    """NotInstalled if MPyC is not installed."""
    if find_spec("mpyc") is None:
        raise NotInstalled()


def order_of(
    terms: Terms,
    index: int,
    places: Sequence[Place],
    *,
    listen: tuple[str, int],
    pem: bytes,
    rows: Floats,
    summands: Sequence[Sequence[int]],
    seconds: float,
) -> dict[str, Any]:
    """The order that the engine reads: one party's part. `rows` is `responses.Response.rows`;
    `summands` are this party's summands of the operator's figures, in units of reach 2^-(fraction
    bits), [rows of c, d][hours]."""
    return {
        "terms": terms.fields,
        "index": index,
        "parties": [
            {"host": one.host, "port": one.port, "certificate": one.certificate} for one in places
        ],
        "listen": list(listen),
        "pem": pem.decode(),
        "rows": np.asarray(rows).tolist(),
        "summands": [[str(one) for one in row] for row in summands],
        "seconds": seconds,
    }


def start(order: dict[str, Any], program: Sequence[str] = ENGINE) -> subprocess.Popen[bytes]:
    """Start the engine with its order; `answer` reads its result. Its seconds begin here, before it
    has imported anything."""
    order = {**order, "until": time.monotonic() + order["seconds"]}  # a clock of the whole system
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("MPYC_", "DISCREET_"))
    }
    package = str(Path(__file__).parents[2])
    environment["PYTHONPATH"] = os.pathsep.join(
        [package, *filter(None, [environment.get("PYTHONPATH")])]
    )
    process = subprocess.Popen(
        [sys.executable, *program],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the engine has ended; `answer` says so
        process.stdin.write(json.dumps(order).encode())
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
    process.stdin = None
    return process


def answer(process: subprocess.Popen[bytes], seconds: float) -> Computed:
    """The engine's result; BrokenOff if it has none within `seconds`. The process has ended
    afterwards."""
    try:
        said, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        raise BrokenOff("time") from None
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    try:
        found = json.loads(said)
    except ValueError:
        raise BrokenOff("internal") from None
    if "broken" in found:
        raise BrokenOff(str(found["broken"]))
    quantities = np.array(found["quantities"], dtype=np.float64)
    return Computed(quantities, found["kept"], float(found["seconds"]), int(found["bytes"]))


def compute(order: dict[str, Any]) -> Computed:
    """Run one party's part of a computation. NotInstalled if MPyC is not installed; BrokenOff if
    there is no result in time."""
    require_engine()
    return answer(start(order), order["seconds"] + GRACE_SECONDS)
