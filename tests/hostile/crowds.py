"""A crowd of one key: what its requests and event streams take from other tenants."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections import Counter

import httpx

from tests import bodies
from tests.conftest import Installation
from tests.hostile import Attack, Reached

STREAMS = 600
"""As many as one key opened at the default quota when another tenant's list took 20 s."""
LOOKS = 100
"""Requests of the other tenant that are timed, quiet and under the crowd."""


async def _looks(http: httpx.AsyncClient, key: str) -> list[float]:
    """Seconds that each of LOOKS requests takes: lists of jobs of another tenant, and /healthz."""
    seconds: list[float] = []
    for number in range(LOOKS):
        since = time.perf_counter()
        path = "/healthz" if number % 2 else "/v1/jobs"
        answer = await http.get(path, headers={"Authorization": f"Bearer {key}"})
        assert answer.status_code == 200, answer.text
        seconds.append(time.perf_counter() - since)
        await asyncio.sleep(0.02)
    return sorted(seconds)


async def crowd(url: str, key: str, path: str, seconds: float) -> Counter[str]:
    """Open STREAMS event streams at once, each again as soon as it ends; by status or error, how
    often each came. Bare sockets: a client that does more is slower than the service."""
    heard: Counter[str] = Counter()
    host, _, port = url.removeprefix("http://").rpartition(":")
    asked = (
        f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        "Connection: close\r\n\r\n"
    ).encode()

    async def stream() -> None:
        while True:
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                try:
                    writer.write(asked)
                    heard[(await reader.readline()).decode().split(" ")[1]] += 1
                    while await reader.read(1 << 16):
                        pass
                finally:
                    writer.close()
            except (OSError, IndexError) as error:
                heard[type(error).__name__] += 1
                await asyncio.sleep(0.1)

    tasks = [asyncio.create_task(stream()) for _ in range(STREAMS)]
    await asyncio.sleep(0.5)
    print("here", flush=True)
    await asyncio.sleep(seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return heard


async def _looked(url: str, key: str) -> list[float]:
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as http:
        return await _looks(http, key)


def crowd_of_streams(service: Installation) -> Reached:
    """Another tenant's requests while one key opens 600 streams of a job that has ended."""
    other = service.owner_of("others of the crowd")
    with service.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.submit(bodies.job(dataset["id"], 0.1))["id"]
        while client.job(job)["state"] != "succeeded":  # its streams end at once, and come again
            time.sleep(0.1)
    asyncio.run(_looked(service.url, other))  # what is slow the first time only
    quiet = asyncio.run(_looked(service.url, other))
    arguments = [service.url, service.owner_key, f"/v1/jobs/{job}/events", "20"]
    process = subprocess.Popen(  # of its own, so that it does not slow who measures
        [sys.executable, "-m", "tests.hostile.crowds", *arguments], stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()  # the crowd is there
    loud = asyncio.run(_looked(service.url, other))
    heard = json.loads(process.communicate()[0])
    before, under = quiet[int(0.99 * LOOKS) - 1], loud[int(0.99 * LOOKS) - 1]
    return Reached(
        f"p99 of others {under:.3f} s ({before:.3f} s quiet); the crowd heard {heard}",
        held=under < 1 and under < 2 * max(before, 0.1),
    )


ATTACKS = [
    Attack(
        "2 crowds",
        f"{STREAMS} event streams of one key",
        "p99 of others below 1 s, and below twice the quiet one",
        crowd_of_streams,
    )
]

if __name__ == "__main__":
    print(json.dumps(asyncio.run(crowd(*sys.argv[1:4], float(sys.argv[4])))))
