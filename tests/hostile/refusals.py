"""Attacks that cost the client next to nothing: headers that never end, plans of many steps, files
of columns."""

from __future__ import annotations

import io
import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from discreet.api import examples
from discreet.ledger import certificates
from tests.conftest import Installation, eventually
from tests.hostile import Attack, Reached
from tests.hostile.contract import SECTION, processor_seconds

STEPS = 10_000_000


def unfinished_headers(service: Installation) -> Reached:
    address = httpx.URL(service.url)
    held = [socket.create_connection((address.host, address.port or 80)) for _ in range(400)]
    try:
        for connection in held:
            connection.sendall(b"GET /v1/jobs HTTP/1.1\r\nX: ")
        with service.http() as http:
            answered = sum(http.get("/v1/jobs").is_success for _ in range(20))

        def ended() -> int:
            count = 0
            for connection in held:
                connection.setblocking(False)
                try:
                    count += connection.recv(4096, socket.MSG_PEEK) is not None
                except BlockingIOError:
                    pass
                except OSError:
                    count += 1
            return count

        begun = time.monotonic()
        eventually(lambda: ended() == len(held), "the connections end")
        figures = (
            f"{answered} of 20 calls answered beside 400 of them, all ended after "
            f"{time.monotonic() - begun:.0f} s"
        )
        return Reached(figures, answered == 20)
    finally:
        for connection in held:
            connection.close()


def plans_of_many_steps(service: Installation) -> Reached:
    assert service.api is not None
    body = examples.jobs()["off_policy_evaluation"]
    with service.client() as client:
        dataset = client.register(examples.datasets()["off_policy_evaluation"])["id"]
    worst, seen = 0.0, 0
    with service.http() as http:
        for epsilon, delta, sampling in (
            (0.5, 1e-12, 1e-6),
            (1.0, 1e-6, 1e-5),
            (3.0, 1e-12, 1e-6),
            (0.01, 1e-6, 1e-6),
        ):
            problem = {
                **body["problem"],
                "dataset": dataset,
                "method": "minibatch",
                "steps": STEPS,
                "sampling": sampling,
            }
            before = processor_seconds(service.api.pid)
            answer = http.post(
                "/v1/plans",
                json={"problem": problem, "privacy": {"epsilon": epsilon, "delta": delta}},
            )
            worst = max(worst, processor_seconds(service.api.pid) - before)
            seen += answer.status_code == 200
    return Reached(
        f"{seen} plans of {STEPS} steps, {worst:.1f} s of processor time at most",
        seen == 4 and worst < 3,
    )


def wide_file(service: Installation) -> Reached:
    assert service.api is not None
    out = io.BytesIO()
    pq.write_table(pa.table({f"c{number}": [1] for number in range(50_000)}), out)
    metadata = {
        name: value for name, value in examples.datasets()["routing"].items() if name != "content"
    }
    with service.http() as http:
        before = processor_seconds(service.api.pid)
        answer = http.post(
            "/v1/datasets",
            files={
                "metadata": (None, json.dumps(metadata)),
                "content": ("x.parquet", out.getvalue()),
            },
        )
    seconds = processor_seconds(service.api.pid) - before
    figures = (
        f"{answer.status_code} to {len(out.getvalue()) >> 20} MB after {seconds:.1f} s of "
        "processor time"
    )
    return Reached(figures, answer.status_code == 422 and seconds < 5)


def certificate_of_a_stranger(service: Installation) -> Reached:
    assert service.api is not None
    event: dict[str, Any] = {
        "mechanism": "one_draw_gaussian",
        "neighbours": "x",
        "sensitivity": 2.0,
        "scale": 0.5,
        "count": 10**9,
        "sampling": {"scheme": "one_draw", "population": 1000},
        "charged_epsilon": "1000000000",
        "charged_delta": "1000000000000",
    }
    body = certificates.sign(
        {"events": [event], "price": {}, "guarantee": {}}, Ed25519PrivateKey.generate()
    )
    with service.http() as http:
        before = processor_seconds(service.api.pid)
        checks = http.post("/v1/certificates:verify", json={"certificate": body}).json()["checks"]
    seconds = processor_seconds(service.api.pid) - before
    price = next(check["holds"] for check in checks if check["name"] == "price")
    return Reached(
        f"priced: {price is not None}, {seconds:.2f} s of processor time",
        price is None and seconds < 1,
    )


def uploads_at_once(service: Installation) -> Reached:
    """Bodies that are announced and do not come: who is refused hears of it, who is let in
    waits."""
    address, most = httpx.URL(service.url), service.settings.tenant_uploads
    head = (
        f"POST /v1/datasets HTTP/1.1\r\nHost: {address.netloc.decode()}\r\nContent-Length: 100\r\n"
        f"Authorization: Bearer {service.owner_key}\r\nContent-Type: application/json\r\n\r\n"
    )
    held = [socket.create_connection((address.host, address.port or 80)) for _ in range(20)]
    try:
        for connection in held:
            connection.sendall(head.encode() + b"{")
            connection.setblocking(False)

        def refused() -> int:
            return sum(peeked(connection).startswith(b"HTTP/1.1 429") for connection in held)

        eventually(
            lambda: refused() >= len(held) - most, "the uploads beyond the limit are refused"
        )
        taken = len(held) - refused()
        return Reached(f"{taken} of {len(held)} uploads of one tenant were let in", taken <= most)
    finally:
        for connection in held:
            connection.close()


def bodies_at_once(service: Installation) -> Reached:
    """Bodies of 15 MB that stop before their last byte: more than a few of one tenant are not taken
    to memory."""
    address, size = httpx.URL(service.url), 15_000_000
    head = (
        f"POST /v1/plans HTTP/1.1\r\nHost: {address.netloc.decode()}\r\nContent-Length: {size}\r\n"
        f"Authorization: Bearer {service.owner_key}\r\nContent-Type: application/json\r\n\r\n"
    )
    before = resident_bytes(service.api.pid)
    left = {
        socket.create_connection((address.host, address.port or 80)): size - 1 for _ in range(40)
    }
    held, part, most = list(left), b" " * (1 << 20), 0
    try:
        for connection in held:
            connection.sendall(head.encode())
            connection.setblocking(False)
        end = time.monotonic() + 8.0
        while time.monotonic() < end:
            for connection in held:
                try:
                    left[connection] -= connection.send(part[: left[connection]])
                except BlockingIOError:
                    continue
            most = max(most, resident_bytes(service.api.pid) - before)
    finally:
        for connection in held:
            connection.close()
    allowed = service.settings.tenant_bodies * size + (64 << 20)
    return Reached(f"{most / 2**20:.0f} MiB for 40 bodies of 15 MB", most < allowed)


def resident_bytes(process: int) -> int:
    """The memory of a process that is its own."""
    fields = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(
        int(line.split()[1]) << 10
        for line in fields
        if line.startswith(("Private_Dirty", "Private_Clean"))
    )


def peeked(connection: socket.socket) -> bytes:
    """What a connection has to say so far."""
    try:
        return connection.recv(4096, socket.MSG_PEEK)
    except BlockingIOError:
        return b""


ATTACKS = [
    Attack(
        SECTION,
        "400 unfinished headers",
        "all calls answered, all of them ended",
        unfinished_headers,
    ),
    Attack(
        SECTION, "plans of 10,000,000 steps", "below 3 s of processor time", plans_of_many_steps
    ),
    Attack(SECTION, "a file of 50,000 columns", "422, below 5 s of processor time", wide_file),
    Attack(SECTION, "a stranger's certificate", "not priced, below 1 s", certificate_of_a_stranger),
    Attack(SECTION, "20 uploads at once", "as many as tenant_uploads", uploads_at_once),
    Attack(
        SECTION,
        "40 bodies of 15 MB at once",
        "memory of tenant_bodies of them, and 64 MiB",
        bodies_at_once,
    ),
]
