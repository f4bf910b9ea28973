"""Releases of contents much larger than memory should be: sums, with time and memory of the
children by how many of them read; and methods that sample trajectories, of which one child has
those in memory that its next steps draw.

`python -m benchmarks.parts [MILLIONS [NAME]]` runs it alone, of contents of so many million rows:
trips of persons, states of loads, transitions, or of those alone whose name begins so. Contents are
made up, sealed, and lie in a file as a worker spools them; the children and their walls are real.
Beside them is one child that reads the content as a whole, as every release did before, where the
machine has room for that.

Digests are of what is released with one seed: that they are equal is checked, not only shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from discreet.isolation.children import Limits, Output, Zygote
from discreet.problems import KINDS
from discreet.problems.numbers import Privacy
from discreet.storage.sealing import (
    STREAM_CHUNK_BYTES,
    ChunkCipher,
    SealedWriter,
    StreamOpener,
    new_data_key,
    open_stream,
)
from discreet.usecases.spooling import Spooled
from discreet.usecases.uploads import SealedFile
from discreet.worker.releasing import release_in_children

MILLIONS = 10
MOST_WHOLE = 20
"""Millions of rows up to which one child also reads all at once."""
PROCESSES = (1, 2, 4)
BLOCK = 200_000
"""Rows that are drawn; a content repeats them."""
ZONES, RECORD = 300, 20
LIMITS = Limits(memory_bytes=32 << 30, cpu_seconds=3600, wall_seconds=3600.0)
SAMPLE_SECONDS = 0.01
Block = Mapping[str, NDArray[Any]]


@dataclass
class Case:
    """A content of so many rows, in records of RECORD rows, and what is asked of it."""

    name: str
    kind: str
    public: dict[str, Any]
    asked: dict[str, Any]
    records: str
    block: Block
    delta: float = 0.0


def run(millions: int = MILLIONS, begins: str = "") -> list[dict[str, Any]]:
    """Seconds and peak memory of the children that sum, by their number, for each content."""
    with tempfile.TemporaryDirectory(prefix="discreet-bench-") as folder:
        return asyncio.run(_all(Path(folder), millions * 1_000_000, begins))


async def _all(folder: Path, rows: int, begins: str) -> list[dict[str, Any]]:
    zygote, found = Zygote(), []
    try:
        await zygote.start()
        for case in _cases(rows):
            if not case.name.startswith(begins):
                continue
            with SealedFile(folder) as file:
                content = _spooled(case, rows, file)
                found += [_opening(case, content, rows, folder)]
                found += await _measure(zygote, case, content, rows)
    finally:
        await zygote.stop()
    return found


def _opening(case: Case, content: Spooled, rows: int, folder: Path) -> dict[str, Any]:
    """What comes before, whoever reads: the sealed content goes into the spool, and each chunk is
    opened on the way."""
    (sealed,) = content.contents
    key, size = bytes.fromhex(sealed["data_key"]), sealed["sealed_bytes"]
    with SealedFile(folder) as spool:
        opener = StreamOpener(key, sealed["name"], size, lambda chunk, _: spool.append(chunk))
        started = time.perf_counter()
        for part in content.file.parts(STREAM_CHUNK_BYTES):
            opener.write(part)
        opener.finish()
        seconds = time.perf_counter() - started
    name = f"{case.name}, {rows:,} rows, into the spool"
    return {
        "benchmark": name,
        "ours": seconds,
        "unit": "s",
        "note": f"{size / 1e6 / seconds:.0f} MB/s of {size / 1e6:.0f}",
    }


async def _measure(zygote: Zygote, case: Case, content: Spooled, rows: int) -> list[dict[str, Any]]:
    kind = KINDS[case.kind]
    assert kind.Dataset is not None
    public = kind.Dataset.read_public(case.public)
    problem = kind.model_validate({**case.asked, "kind": case.kind, "dataset": "made up"})
    plan = problem.plan(
        public, problem.budget(Privacy.model_validate({"epsilon": 1, "delta": case.delta}))
    )
    header = {
        "step": "release",
        "kind": case.kind,
        "problem": problem.model_dump(mode="json"),
        "public": public.model_dump(mode="json"),
        "plan": plan.model_dump(mode="json"),
        "block": None,
        "simulation": False,
        "seed": 1,
    }
    seeded = {**header, "simulation": True}
    found, digests = [], set()

    async def measure(words: str, release: Callable[[Any], Awaitable[Output]]) -> None:
        with watched(zygote) as (peaks, cpu):
            started = time.perf_counter()
            await release(header)
            seconds = time.perf_counter() - started
        output = await release(seeded)
        digests.add(hashlib.sha256(output.payload).hexdigest())
        name = f"{case.name}, {rows:,} rows, {words}"
        each = ", ".join(f"{size / 1e6:.0f}" for size in sorted(peaks.values(), reverse=True))
        pace = (
            f"{content.sealed_bytes / 1e6 / seconds:.0f} MB/s of {content.sealed_bytes / 1e6:.0f}"
        )
        longest = f"the busiest child took {max(cpu.values()):.3g} s of processor time"
        told = f"{pace}; {longest}; peak RSS of each {each} MB; digest {min(digests)[:12]}"
        found.append({"benchmark": name, "ours": seconds, "unit": "s", "note": told})

    content = replace(content, sampled=plan.sampled_by is not None)
    for processes in (1,) if content.sampled else PROCESSES:
        by_parts = partial(
            release_in_children, zygote, content=content, limits=LIMITS, processes=processes
        )
        words = "what is drawn, by one" if content.sampled else f"{processes} that read"
        await measure(words, by_parts)
    if rows <= MOST_WHOLE * 1_000_000:
        (sealed,) = content.contents
        key = bytes.fromhex(sealed["data_key"])

        async def whole(asked: Any) -> Output:
            plain = open_stream(
                key, sealed["name"], sealed["sealed_bytes"], content.file.parts(1 << 20)
            )
            return await zygote.run(asked, plain, LIMITS)

        await measure("read as a whole by one", whole)
    if len(digests) > 1:
        raise RuntimeError(f"{case.name}: the releases differ: {digests}")
    return found


@contextmanager
def watched(zygote: Zygote) -> Iterator[tuple[dict[int, int], dict[int, float]]]:
    """Peak RSS in bytes, and seconds of processor time, of every child that the zygote has
    meanwhile, by its process."""
    assert zygote._process is not None
    pid, done = zygote._process.pid, threading.Event()
    peaks, cpu = dict[int, int](), dict[int, float]()
    tick = os.sysconf("SC_CLK_TCK")

    def look() -> None:
        while not done.wait(SAMPLE_SECONDS):
            with suppress(OSError):
                for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                    for line in Path(f"/proc/{child}/status").read_text().splitlines():
                        if line.startswith("VmHWM"):
                            peaks[int(child)] = int(line.split()[1]) * 1024
                    times = (
                        Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[11:13]
                    )
                    cpu[int(child)] = sum(map(int, times)) / tick

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks, cpu
    finally:
        done.set()
        thread.join()


# Contents -----------------------------------------------------------------------------------------


def _cases(rows: int) -> Iterator[Case]:
    draw = np.random.default_rng(22)
    ends = draw.integers(1, ZONES + 1, (2, BLOCK))
    trips = np.stack([draw.integers(0, 50, BLOCK), *ends, draw.integers(1, 9, BLOCK)], axis=1)
    links = [
        {"tail": node, "head": node % ZONES + 1, "capacity": 10, "free_flow_time": 1}
        for node in range(1, ZONES + 1)
    ]
    routing = KINDS["routing"].example()["problem"]
    network = {
        **routing["network"],
        "nodes": ZONES,
        "links": [
            {**routing["network"]["links"][0], "tail": link["tail"], "head": link["head"]}
            for link in links
        ],
    }
    yield Case(
        "trips of persons",
        "routing",
        {"unit": "person", "zones": ZONES, "periods": 50, "period_minutes": 60, "max_rows": rows},
        {**routing, "network": network, "max_trips_per_person": 40},
        "person_start",
        {"trips": trips},
    )
    steered = KINDS["dr_ensemble"].example()["problem"]
    yield Case(
        "states of loads",
        "dr_ensemble",
        {"unit": "participant", "states": len(steered["power"]), "max_rows": rows},
        steered,
        "start",
        {"states": draw.integers(0, len(steered["power"]), BLOCK)},
    )
    moves = draw.integers(0, 50, (2, BLOCK)).astype(np.int32)
    made = {
        "next_state": moves[0],
        "reward": draw.integers(0, 1000, BLOCK) / 1000,
        "state": moves[1],
        "terminal": np.arange(BLOCK) % RECORD == RECORD - 1,
    }
    public = {"unit": "trajectory", "states": 50, "reward_bound": 1, "horizon": RECORD}
    public |= {"max_rows": rows, "off_policy": False}
    for method, delta in (("moments", 0.0), ("minibatch", 1e-6), ("gradient", 1e-6)):
        yield Case(
            "transitions" if method == "moments" else f"transitions, {method}",
            "off_policy_evaluation",
            public if method == "moments" else {**public, "trajectories": rows // RECORD},
            {"discount": 0.9, "method": method},
            "start",
            made,
            delta,
        )
    chances = dict(zip(("behaviour", "target"), draw.uniform(0.4, 0.6, (2, BLOCK)), strict=True))
    yield Case(
        "weighted trajectories",
        "off_policy_evaluation",
        {**public, "off_policy": True, "max_trajectories": rows // RECORD},
        {"discount": 1.0, "method": "importance_sampling"},
        "start",
        {**made, **chances},
    )


def _spooled(case: Case, rows: int, file: SealedFile, name: str = "made up") -> Spooled:
    """The content of so many rows, packed and sealed under that name as the reader of uploads does,
    in memory for one block at a time."""
    key = new_data_key()
    writer = SealedWriter(ChunkCipher(key, name), file.append)
    with zipfile.ZipFile(writer, "w") as archive:
        for array in sorted([*case.block, case.records]):
            with archive.open(f"{array}.npy", "w", force_zip64=True) as member:
                if array == case.records:
                    start = np.arange(0, rows + 1, RECORD)
                    _head(member, start.dtype, start.shape)
                    member.write(start.data)
                    continue
                block = np.ascontiguousarray(case.block[array])
                _head(member, block.dtype, (rows, *block.shape[1:]))
                for _ in range(rows // BLOCK):
                    member.write(block.data)
    writer.finish()
    content = {"name": name, "data_key": key.hex(), "offset": 0}
    return Spooled(file, ({**content, "sealed_bytes": writer.sealed_bytes},))


def _head(member: Any, kind: np.dtype[Any], shape: tuple[int, ...]) -> None:
    head = {"descr": npy.dtype_to_descr(kind), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(member, head)


if __name__ == "__main__":
    for row in run(int(sys.argv[1]) if len(sys.argv) > 1 else MILLIONS, *sys.argv[2:]):
        print(f"{row['benchmark']}: {row['ours']:.4g} {row['unit']} ({row['note']})")
