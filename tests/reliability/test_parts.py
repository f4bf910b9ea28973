"""Jobs whose content is summed by several children, of one worker or several: the bits of one
process, and what is charged and left behind when any of them dies, lies or comes late."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import mmap
import operator
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from discreet.errors import InvalidInput, PayloadTooLarge
from discreet.installation.local import _DATASET, _JOB
from discreet.isolation import summing
from discreet.isolation.children import Zygote
from discreet.problems.contents import pack, unpack
from discreet.settings import Settings
from discreet.storage import jobs, ledger, results, sources
from discreet.storage.database import SYSTEM
from discreet.storage.tenants import Principal
from discreet.usecases import datasets, running, shares, spooling
from discreet.usecases import jobs as cancelling
from discreet.usecases import jobs as job_uses
from discreet.usecases import shares as helping
from discreet.usecases import sources as source_uses
from discreet.usecases.requests import SourceRequest
from discreet.usecases.running import LostJob
from discreet.usecases.services import Services
from discreet.usecases.uploads import SealedFile
from discreet.web.bodies import validate
from discreet.worker import releasing
from discreet.worker.runner import Helper, PlacedJobs, Runner, Step
from tests import bodies, causes
from tests.causes import CHARGED, FULL, NOTHING, RELEASED, Came, ended, inside
from tests.conftest import DEADLINE_SECONDS, eventually, settings_for
from tests.postgres_fixture import Database
from tests.processes import family, pid_of
from tests.reliability.test_forged_rows import submit
from tests.templates import FAULTY, programs_of_children, templates
from tests.test_backup import register

Work = Callable[[Services, Principal, Zygote], Awaitable[None]]


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> Settings:
    (tmp_path / "spool").mkdir()
    return settings_for(
        database, tmp_path / "state", max_attempts=2, spool=tmp_path / "spool", share_processes=2
    )


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents of these tests have several parts, and are offered to nobody unless they are."""
    monkeypatch.setattr(spooling, "PART_BYTES", 500)
    monkeypatch.setattr(releasing, "OFFERED_PARTS", sys.maxsize)
    monkeypatch.setattr(releasing, "LOOK_SECONDS", 0.01)
    causes.hasten(monkeypatch)


@pytest.fixture
def faults() -> Callable[[str], object]:
    """Names the fault of the children that are forked from now on."""
    return templates().faults.write_text


@pytest.fixture(scope="module")
def with_children() -> Iterator[Callable[[Settings, Work], None]]:
    """Runs work with the children of one fork server, which meet the fault that was named."""
    with asyncio.Runner() as loop:
        zygote = Zygote()

        def go(settings: Settings, work: Work) -> None:
            templates().faults.write_text("")

            async def run() -> None:
                async with causes.open_services(settings) as services:
                    await work(services, await causes.access.local_owner(services), zygote)

            with pytest.MonkeyPatch.context() as patch:
                programs_of_children(patch, FAULTY)
                loop.run(zygote.start())
                loop.run(run())

        yield go
        loop.run(zygote.stop())


def trips_of_persons(**values: Any) -> dict[str, Any]:
    body = bodies.dataset(**values)
    for number, trip in enumerate(body["content"]["trips"]):
        trip["person"] = number % 17
    return {**body, "public": {**body["public"], "unit": "person"}}


def walks(*, off_policy: bool = False, **values: Any) -> dict[str, Any]:
    """Of a content that no other has: more transitions than a part of these tests, of lengths that
    differ."""
    unique = next(bodies._numbers)
    rows = [
        {
            "trajectory": walk,
            "step": step,
            "state": (walk + step) % 3,
            "next_state": (walk + step + 1) % 3,
            "reward": step / (walk + 1 + unique),
            "terminal": step == walk % 4,
            **(
                {"behaviour": 0.5, "target": 0.5 + (0.2 - 0.1 * step) * (1, -1)[walk % 2]}
                if off_policy
                else {}
            ),
        }
        for walk in range(40)
        for step in range(1 + walk % 4)
    ]
    public = {"unit": "trajectory", "states": 3, "reward_bound": 4, "horizon": 4}
    return {
        **bodies.dataset(**values),
        "cap": {"epsilon": 1, "delta": 1e-3},
        "kind": "off_policy_evaluation",
        "public": public if off_policy else {**public, "trajectories": 40},
        "content": {"transitions": rows},
    }


SAMPLING: tuple[dict[str, Any], ...] = (
    {"method": "minibatch", "steps": 40, "sampling": 0.1},
    {"method": "gradient", "steps": 60},
)


def evaluation(dataset: str | None, **asked: Any) -> dict[str, Any]:
    problem = {"kind": "off_policy_evaluation", "dataset": dataset, "discount": 0.9, **asked}
    return {"problem": problem, "privacy": {"epsilon": 0.1, "delta": 1e-6}}


async def source_of(
    services: Services, owner: Principal, blocks: list[dict[str, Any]]
) -> dict[str, Any]:
    """The newest blocks of a source that has these, as a problem names them."""
    public = {**blocks[0]["public"], "off_policy": True}
    asked = {"name": "walks", "kind": blocks[0]["kind"], "public": public, "by": "label"}
    asked |= {"mode": "simulation", "cap": blocks[0]["cap"]}
    source, _ = await source_uses.create(services, owner, SourceRequest.model_validate(asked))
    for number, body in enumerate(blocks):
        given = validate(_DATASET, {**body, "public": public}).root
        request = datasets.Registration(
            f"block {number}", body["kind"], given.public, "simulation", None, None, given.rows
        )
        async with datasets.sealed_content(services, owner, request) as sealed:
            store = partial(source_uses._store, services, owner, source, f"{number}", request)
            await datasets.keep(services, sealed, partial(store, sealed))
    return {"id": source["id"], "blocks": [str(number) for number in range(len(blocks))]}


async def outcome(services: Services, owner: Principal, job: str) -> tuple[str, list[str]]:
    found = job_uses.view(await job_uses.find(services, owner, job), owner)
    async with services.database.transaction(SYSTEM) as connection:
        kinds = [entry["kind"] for entry in await ledger.reservation(connection, job)]
    return found["state"], kinds


async def released(services: Services, job: str) -> str:
    async with services.database.transaction(SYSTEM) as connection:
        certificate = await results.certificate(connection, job)
    assert certificate is not None
    return f"{certificate['release_digest']} {certificate['result_digest']}"


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The steps that children take from now on."""
    steps: list[str] = []
    run = Zygote.run

    async def noted(self: Zygote, header: dict[str, Any], *more: Any) -> Any:
        steps.append(header["step"])
        return await run(self, header, *more)

    monkeypatch.setattr(Zygote, "run", noted)
    return steps


@pytest.mark.long
def test_one_result_of_any_number_of_processes(
    settings: Settings,
    with_children: Callable[[Settings, Work], None],
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """1, 2 and 4 that read, parts of any size, and one child that reads the content as a whole."""

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        for body in (
            bodies.dataset(mode="simulation"),
            trips_of_persons(mode="simulation"),
            walks(mode="simulation", off_policy=True),
        ):
            evaluated = body["kind"] == "off_policy_evaluation"
            dataset, digests = await register(services, owner, body), set()
            for processes, part_bytes in ((1, 500), (2, 500), (4, 100), (2, 1 << 20)):
                monkeypatch.setattr(spooling, "PART_BYTES", part_bytes)
                taken.clear()
                asked = services.settings.model_copy(update={"share_processes": processes})
                person = body["public"]["unit"] == "person"
                more = {"max_trips_per_person": 3} if person else {}
                asks = bodies.job(dataset, **more)
                if evaluated:  # whose clip is chosen from the sums of all shares
                    asks = evaluation(dataset, method="importance_sampling")
                job = await submit(services, owner, dataset, seed=7, **asks)
                await Runner(replace(services, settings=asked), zygote).run(job)
                assert (await outcome(services, owner, job))[0] == "succeeded"
                digests.add(await released(services, job))
                shares = 0 if part_bytes == 1 << 20 else processes
                assert taken == [*["share"] * shares, "release", "finish"]
            assert len(digests) == 1

    with_children(settings, work)


@pytest.mark.long
def test_one_result_whatever_is_in_memory(
    settings: Settings,
    faults: Callable[[str], object],
    with_children: Callable[[Settings, Work], None],
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A method that samples reads a content as a whole, or what its next steps draw; and a job is
    charged once, where its child dies over that."""
    in_children, windows, spooled = releasing.release_in_children, [0], list[bool]()

    async def watched(zygote: Zygote, header: dict[str, Any], content: Any, *more: Any) -> Any:
        spooled.append(isinstance(content, spooling.Spooled))
        return await in_children(zygote, {**header, "window_bytes": windows[0]}, content, *more)

    monkeypatch.setattr("discreet.worker.runner.release_in_children", watched)

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        dataset = await register(services, owner, walks(mode="simulation"))
        source = await source_of(services, owner, [walks(off_policy=True) for _ in range(2)])
        for asked in (*SAMPLING, {**SAMPLING[0], "dataset": None, "source": source}):
            digests = set()
            for part_bytes, windows[0] in ((1 << 20, 0), (500, 0), (500, 300)):
                monkeypatch.setattr(spooling, "PART_BYTES", part_bytes)
                taken.clear()
                spooled.clear()
                body = evaluation(**{"dataset": dataset, **asked})
                job = await submit(services, owner, dataset, seed=7, **body)
                await Runner(services, zygote).run(job)
                assert (await outcome(services, owner, job))[0] == "succeeded"
                digests.add(await released(services, job))
                assert taken == ["release", "finish"]
                assert spooled == [part_bytes == 500]
            assert len(digests) == 1

        sampled = await register(services, owner, walks())
        summed = await register(services, owner, walks(off_policy=True))
        importance = {"method": "importance_sampling"}
        for dataset, asked, fault in (
            (sampled, SAMPLING[0], "release_sampled segv"),
            (sampled, SAMPLING[1], ""),
            (summed, importance, "part_sums segv"),
            (summed, importance, ""),
        ):
            faults(fault)
            job = await submit(services, owner, dataset, **evaluation(dataset, **asked))
            await Runner(services, zygote).run(job)
            state = "failed" if fault else "succeeded"
            assert await outcome(services, owner, job) == (state, list(CHARGED))

    with_children(settings, work)


def test_a_job_is_charged_once_whichever_child_dies(
    settings: Settings,
    faults: Callable[[str], object],
    with_children: Callable[[Settings, Work], None],
) -> None:
    """At every attempt; and in the first alone, killed amid its work beside one that goes on."""

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        for fault in ("part_sums segv", "part_sums raise", "release_sums abort"):
            faults(fault)
            job = await causes.new_job(services, owner)
            await Runner(services, zygote).run(job)
            assert await ended(services, owner, job) == Came.told("solver_failed", FULL, CHARGED)

        faults("part_sums wall")
        job = await causes.new_job(services, owner)
        attempt = asyncio.create_task(Runner(services, zygote).run(job))
        assert zygote._watch is not None
        server = pid_of(zygote._watch)
        await asyncio.to_thread(eventually, lambda: len(family(server)) == 3, "two read")
        faults("")
        os.kill(family(server)[1], signal.SIGKILL)
        await attempt
        assert await outcome(services, owner, job) == ("succeeded", list(CHARGED))
        await asyncio.to_thread(
            eventually, lambda: len(family(server)) == 1, "the other one was ended as well"
        )

    with_children(settings, work)


def in_the_spool(folder: Path) -> int:
    """Files below the folder that this process holds open."""
    held = 0
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            held += os.readlink(f"/proc/self/fd/{descriptor}").startswith(str(folder))
    return held


def has_children(server: int, number: int) -> bool:
    return len(family(server)) == 1 + number


@pytest.mark.long
def test_a_worker_that_stops_while_children_read_leaves_nothing_behind(
    settings: Settings,
    tmp_path: Path,
    taken: list[str],
    faults: Callable[[str], object],
    with_children: Callable[[Settings, Work], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No child, no sealed file, and a job that another worker goes on with, charged once."""

    def closed() -> bool:
        return in_the_spool(tmp_path / "spool") == 0

    async def stopped(services: Services, owner: Principal, zygote: Zygote, job: str) -> None:
        for fault, steps in (
            ("part_sums wall", ["share", "share"]),
            ("release_sums wall", ["share", "share", "release"]),
        ):
            faults(fault)
            taken.clear()
            children = steps.count(steps[-1])
            attempt = asyncio.create_task(Runner(services, zygote).run(job))
            assert zygote._watch is not None
            server = pid_of(zygote._watch)
            await asyncio.to_thread(eventually, partial(operator.eq, taken, steps), fault)
            await asyncio.to_thread(eventually, partial(has_children, server, children), fault)
            assert in_the_spool(tmp_path / "spool") > 0
            attempt.cancel()
            await asyncio.gather(attempt, return_exceptions=True)
            assert attempt.cancelled()
            # A child that is being forked has its descriptor until it is there, and is ended then.
            await asyncio.to_thread(eventually, closed, "the sealed file is closed")
            await asyncio.to_thread(eventually, partial(has_children, server, 0), "all ended")
            assert await outcome(services, owner, job) == ("queued", list(CHARGED[:2]))
        faults("")
        await Runner(services, zygote).run(job)
        assert await outcome(services, owner, job) == ("succeeded", list(CHARGED))
        assert closed()

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        await stopped(services, owner, zygote, await causes.new_job(services, owner))
        dataset = await register(services, owner, walks(off_policy=True))
        asked = evaluation(dataset, method="importance_sampling")
        job = await submit(services, owner, dataset, **asked)
        await stopped(services, owner, zygote, job)

    with_children(settings, work)


def test_a_content_that_does_not_open_charges_nothing(
    settings: Settings,
    with_children: Callable[[Settings, Work], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A chunk that was changed, cut off or made longer; a master key that is not known. When that
    is told follows from no content: the time of opening is over first."""
    waited = []
    end = Step._end

    async def noted(step: Step, called_off: float | None) -> None:
        await end(step, called_off)
        waited.append(time.monotonic() - step._started >= step.seconds)

    monkeypatch.setattr(Step, "_end", noted)

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        async def comes_to(code: str) -> None:
            waited.clear()
            await Runner(services, zygote).run(job)
            assert waited
            assert all(waited)
            assert await ended(services, owner, job) == Came.told(code, NOTHING, RELEASED)

        chunk = "UPDATE dataset_chunks SET sealed = {} WHERE dataset_id = (SELECT dataset_id FROM"
        chunk += " jobs WHERE id = %s)"
        for value in (
            "set_byte(sealed, 40, get_byte(sealed, 40) # 1)",
            "substring(sealed FROM 1 FOR 400)",
            "sealed || '\\x00'",
            "''",
        ):
            job = await causes.new_job(services, owner)
            assert causes.as_owner(settings, chunk.format(value), (job,)) == 1
            await comes_to("content_unreadable")

        job = await causes.new_job(services, owner)
        causes.as_owner(
            settings,
            "UPDATE datasets SET content_key_id = 'elsewhere' WHERE id = (SELECT dataset_id FROM"
            " jobs WHERE id = %s)",
            (job,),
        )
        await comes_to("master_key_unknown")

    with_children(settings, work)


@pytest.mark.parametrize("call", ["open", "write", "open again"])
def test_a_spool_without_room_is_done_without(
    settings: Settings,
    with_children: Callable[[Settings, Work], None],
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
    call: str,
) -> None:
    """A content is then read as a whole, as a small one is: what a job comes to does not tell how
    large its content is beside the worker's disk. So is one on a file system that opens no file
    without a name again."""

    real = getattr(os, call.removesuffix(" again"))

    def full(*given: Any) -> int:
        if call == "open again" and not str(given[0]).startswith("/proc/self/fd"):
            return real(*given)
        raise OSError(errno.ENOSPC, "full")

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        job = await causes.new_job(services, owner)
        monkeypatch.setattr(f"discreet.usecases.uploads.os.{real.__name__}", full)
        taken.clear()
        await Runner(services, zygote).run(job)
        assert taken == ["release", "finish"]
        assert await outcome(services, owner, job) == ("succeeded", list(CHARGED))

    with_children(settings, work)


def test_what_lies_in_the_spool(settings: Settings, tmp_path: Path) -> None:
    """Sealed bytes as they are stored, in a file without a name: of one content or several, from
    the database or from object storage."""

    async def work(services: Services, owner: Principal) -> None:
        made = [bodies.dataset() for _ in range(2)]
        versions = [await register(services, owner, body) for body in made]
        spooled = await spooling.spool_large(services, versions)
        assert spooled is not None
        assert isinstance(spooled.file, SealedFile)
        assert list((tmp_path / "spool").iterdir()) == []
        descriptor = spooled.file.to_read()
        for writes in (lambda fd: os.write(fd, b"x"), lambda fd: os.truncate(fd, 0)):
            with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument"):
                writes(descriptor)
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, 0)  # writable and shared
        assert not any(content["data_key"] in repr(spooled) for content in spooled.contents)
        lying = b"".join(spooled.file.parts(1 << 16))
        assert len(lying) == spooled.sealed_bytes
        plain = [bytes(await datasets.open_content(services, version)) for version in versions]
        for content in plain:
            assert content[100:164] not in lying
            assert unpack(content)["trips"].tobytes()[:64] not in lying

        header = await header_of(services, owner, versions[0])
        asked = {**header, "contents": spooled.contents, "part_bytes": 64}
        shares = [
            summing.sums_of_share({**asked, "share": [number, 3]}, descriptor)
            for number in range(3)
        ]
        found = sum(share["trips"] for share in shares)
        assert (
            found.tolist() == sum(sums_of(header, content)["trips"] for content in plain).tolist()
        )
        spooled.close()
        assert await spooling.spool_large(services, []) is None, "nothing to read is no file"

    inside(settings, work)
    objects = {"object_url": f"file://{tmp_path}/objects", "object_bytes": 0}
    inside(settings.model_copy(update=objects), work)


async def header_of(services: Services, owner: Principal, dataset: str) -> dict[str, Any]:
    held = await running.claim(services, await submit(services, owner, dataset))
    assert held is not None
    return {
        "kind": held.problem.kind,
        "problem": held.problem.model_dump(mode="json"),
        "public": held.public.model_dump(mode="json"),
        "plan": held.plan.model_dump(mode="json"),
        "simulation": False,
    }


def sums_of(header: dict[str, Any], content: bytes) -> dict[str, Any]:
    problem, public, plan = summing.read_job(header)
    sums: dict[str, Any] = problem.part_sums(public, plan, unpack(content))
    return unpack(pack(sums))


# Shares that other workers read ------------------------------------------------------------------


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contents of the test are offered to other workers."""
    monkeypatch.setattr(releasing, "OFFERED_PARTS", 0)


class Leader:
    """The run of a job that waits where its worker would take its first share."""

    def __init__(self, patch: pytest.MonkeyPatch, runner: Runner, job: str) -> None:
        self.offers: list[shares.Offer] = []
        self._offered, self._go_on = asyncio.Event(), asyncio.Event()
        take = shares.Offer.take

        async def later(offer: shares.Offer) -> int | None:
            self.offers.append(offer)
            self._offered.set()
            await self._go_on.wait()
            return await take(offer)

        patch.setattr(shares.Offer, "take", later)
        self.run = asyncio.create_task(runner.run(job))

    async def has_offered(self) -> None:
        await self._offered.wait()

    async def ends(self) -> dict[str, int]:
        """Who has read how many shares."""
        self._go_on.set()
        await self.run
        return dict(self.offers[0].read)


def idle_worker(services: Services, zygote: Zygote, number: int = 7) -> Helper:
    """A worker without a job, that has this number in the queue."""
    placed = PlacedJobs(None, 2)  # type: ignore[arg-type]
    placed.worker = number
    return Helper(services, zygote, placed)


def stored_shares(settings: Settings) -> list[tuple[Any, ...]]:
    """Number, attempt, who has it, and what was found, of each."""
    with psycopg.connect(str(settings.migration_database_url)) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")
        return connection.execute(
            "SELECT number, attempt, taken_by, sealed FROM job_shares ORDER BY number"
        ).fetchall()


async def seeded(services: Services, owner: Principal, body: dict[str, Any], dataset: str) -> str:
    more = {"max_trips_per_person": 3} if body["public"]["unit"] == "person" else {}
    return await submit(services, owner, dataset, seed=7, **bodies.job(dataset, **more))


@pytest.mark.long
def test_one_result_of_any_number_of_workers(
    settings: Settings,
    tmp_path: Path,
    offered: None,
    with_children: Callable[[Settings, Work], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Wherever the content lies. Nothing of a share is left, and nobody's sums are in the clear.
    Sums of which one child could not add SHARES are not gathered."""
    one = settings.model_copy(update={"share_processes": 1})
    objects = {"object_url": f"file://{tmp_path}/objects", "object_bytes": 0}
    elsewhere = one.model_copy(update=objects)
    body, digests, most = trips_of_persons(mode="simulation"), set(), shares.SHARES

    def among(helpers: int, read: int = most) -> Work:
        async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
            dataset = await register(services, owner, body)
            job = await seeded(services, owner, body, dataset)
            with pytest.MonkeyPatch.context() as patch:
                leader = Leader(patch, Runner(services, zygote), job)
                await leader.has_offered()
                workers = [idle_worker(services, zygote, 7 + n) for n in range(helpers)]
                counts = await asyncio.gather(*(worker.help() for worker in workers))
                assert all(counts), "each of them has read some"
                found = stored_shares(settings)
                assert len(found) == most
                header = await job_header(services, job)
                content = bytes(await datasets.open_content(services, dataset))
                whole = pack(sums_of(header, content))
                assert len({len(row[3]) for row in found if row[3]}) <= 1, "of one length"
                assert all(row[3] is None or whole[:40] not in row[3] for row in found)
                who = "elsewhere" if helpers else "here"
                assert await leader.ends() == ({who: read} if read else {})
            assert (await outcome(services, owner, job))[0] == "succeeded"
            digests.add(await released(services, job))
            assert stored_shares(settings) == []

        return work

    with_children(one, among(0))
    with_children(one, among(1))
    with_children(one, among(3))
    with_children(elsewhere, among(2))
    monkeypatch.setattr(releasing, "MOST_SUMS_BYTES", 10)
    with_children(one, among(0, read=0))
    assert len({digest.split()[0] for digest in digests}) == 1


async def job_header(services: Services, job: str) -> dict[str, Any]:
    async with services.database.transaction(SYSTEM) as connection:
        row = await jobs.find(connection, job)
        assert row is not None
        (data,) = await sources.of_job(connection, row)
    return {**row, "public": data["public"]}


@pytest.mark.long
def test_a_helper_that_dies_or_is_called_away_costs_nothing(
    settings: Settings,
    offered: None,
    faults: Callable[[str], object],
    with_children: Callable[[Settings, Work], None],
) -> None:
    """It is killed after it has taken a share; its child is killed, fails, or finds the content
    altered; it lacks the key; a job comes for it; or it is stopped while it holds a row's lock. A
    worker that has a job takes none."""

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        job = await causes.new_job(services, owner)
        with pytest.MonkeyPatch.context() as patch:
            leader = Leader(patch, Runner(services, zygote), job)
            await leader.has_offered()
            assert await helping.take(services, 6, []) is not None  # and never heard of again
            for fault in ("part_sums segv", "part_sums raise"):
                faults(fault)
                assert await idle_worker(services, zygote).help() == 0

            faults("part_sums wall")
            worker = idle_worker(services, zygote, 8)
            assert zygote._watch is not None
            server = pid_of(zygote._watch)
            hanging = asyncio.create_task(worker.help())
            await asyncio.to_thread(eventually, partial(has_children, server, 1), "it reads")
            assert [row[2] for row in stored_shares(settings)].count(8) == 1
            worker._placed.running.add(1)
            worker._placed.comes.set()
            assert await hanging == 0
            await asyncio.to_thread(eventually, partial(has_children, server, 0), "it has ended")
            assert [row[2] for row in stored_shares(settings)].count(8) == 0
            assert await worker.help() == 0, "it has a job"

            faults("")
            altered = "UPDATE dataset_chunks SET sealed = set_byte(sealed, 40, get_byte(sealed, 40)"
            altered += " # 1) WHERE dataset_id = (SELECT dataset_id FROM jobs WHERE id = %s)"
            assert causes.as_owner(settings, altered, (job,)) == 1
            assert await idle_worker(services, zygote).help() == 0
            assert causes.as_owner(settings, altered, (job,)) == 1
            with pytest.MonkeyPatch.context() as keys:
                none = replace(services.secrets, content_keys={})
                keys.setattr(type(services.secrets_file), "current", none)
                assert await idle_worker(services, zygote).help() == 0
            assert all(row[3] is None for row in stored_shares(settings))
            assert await idle_worker(services, zygote).help() == shares.SHARES - 4
            with psycopg.connect(str(settings.migration_database_url)) as stopped:
                stopped.execute("SELECT set_config('discreet.tenant', '*', false)")
                stopped.execute("UPDATE job_shares SET taken_by = 9 WHERE number = 3")
                ending = asyncio.create_task(leader.ends())
                await asyncio.wait({ending}, timeout=DEADLINE_SECONDS)
                assert ending.done(), "it waits for the other's lock"
                assert ending.result() == {"here": 4, "elsewhere": shares.SHARES - 4}
        assert await outcome(services, owner, job) == ("succeeded", list(CHARGED))
        assert [row[0] for row in stored_shares(settings)] == [3], "the stopped one has had it"
        await running.repair(services)
        assert stored_shares(settings) == []

    with_children(settings, work)


def test_sums_that_no_worker_sealed_for_this_share_are_refused(
    settings: Settings,
    offered: None,
    with_children: Callable[[Settings, Work], None],
) -> None:
    """Those of an earlier attempt, of another share, cut off, made up: its own worker reads them
    instead. Nor does any other help with a job whose rows were changed, or one of another version,
    which may cut shares elsewhere."""
    change = "UPDATE job_shares SET taken_by = 9, sealed = {} WHERE number = {} AND job_id = %s"

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        body = trips_of_persons(mode="simulation")
        dataset = await register(services, owner, body)
        honest, job = [await seeded(services, owner, body, dataset) for _ in range(2)]
        await Runner(services, zygote).run(honest)
        with pytest.MonkeyPatch.context() as patch:
            stopped = Leader(patch, Runner(services, zygote), job)
            await stopped.has_offered()
            assert await idle_worker(services, zygote).help() == shares.SHARES
            earlier = [row[3].hex() for row in stored_shares(settings)]
            stopped.run.cancel()
            await asyncio.gather(stopped.run, return_exceptions=True)
        assert stored_shares(settings) == []

        with pytest.MonkeyPatch.context() as patch:
            leader = Leader(patch, Runner(services, zygote), job)
            await leader.has_offered()
            assert {row[1] for row in stored_shares(settings)} == {2}
            price = "UPDATE jobs SET price = jsonb_set(price, '{epsilon}', '9') WHERE id = %s"
            kept = await job_header(services, job)
            assert causes.as_owner(settings, price, (job,)) == 1
            assert await idle_worker(services, zygote).help() == 0
            back = "UPDATE jobs SET price = %s WHERE id = %s"
            assert causes.as_owner(settings, back, (json.dumps(kept["price"]), job)) == 1
            with pytest.MonkeyPatch.context() as older:
                older.setattr(shares, "VERSION", "0.0.1")
                assert await idle_worker(services, zygote).help() == 0
            fewer = "UPDATE job_shares SET shares = 12 WHERE number = 11 AND job_id = %s"
            assert causes.as_owner(settings, fewer, (job,)) == 1
            assert await idle_worker(services, zygote).help() == shares.SHARES

            now = [row[3].hex() for row in stored_shares(settings)]
            for number, sealed in enumerate(
                (
                    *(earlier[0], earlier[1], now[3], now[2], now[4][:-2], now[5] + "00", ""),
                    *("00" * 99, "00" * 200_001),
                )
            ):
                forged = change.format(f"'\\x{sealed}'", number)
                assert causes.as_owner(settings, forged, (job,)) == 1
            patch.setattr(shares, "MOST_SUMS_BYTES", 100_000)
            assert await leader.ends() == {"here": 10, "elsewhere": shares.SHARES - 10}
            assert leader.offers[0]._strange == {*range(8), 11}, "the long one was not fetched"
        assert await released(services, job) == await released(services, honest)
        assert stored_shares(settings) == []

    with_children(settings, work)


def test_no_share_outlives_its_attempt(
    settings: Settings,
    offered: None,
    faults: Callable[[str], object],
    with_children: Callable[[Settings, Work], None],
) -> None:
    """Whether it fails, is cancelled, or its worker is killed, before another takes the job or
    after; and what comes later is not kept."""

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        faults("part_sums segv")
        job = await causes.new_job(services, owner)
        await Runner(services, zygote).run(job)
        assert await ended(services, owner, job) == Came.told("solver_failed", FULL, CHARGED)
        assert stored_shares(settings) == []
        faults("")

        job = await causes.new_job(services, owner)
        with pytest.MonkeyPatch.context() as patch:
            leader = Leader(patch, Runner(services, zygote), job)
            await leader.has_offered()
            late = await helping.take(services, 7, [])
            assert late is not None
            read = await helping.job_of(services, late)
            assert await idle_worker(services, zygote).help() == shares.SHARES - 1
            await cancelling.cancel(services, owner, job)
            await asyncio.gather(leader.run, return_exceptions=True)
        assert await outcome(services, owner, job) == ("cancelled", list(CHARGED))
        assert stored_shares(settings) == []
        assert not await helping.hand_back(services, read, late, b"sums")
        read.close()

        job = await causes.new_job(services, owner)
        for swept in (True, False):
            held = await running.claim(services, job)
            assert held is not None
            await running.touch(services, held)
            offer = shares.Offer(services, held)
            await offer.open()
            assert await idle_worker(services, zygote).help() == shares.SHARES
            over = "UPDATE jobs SET lease_until = now() - interval '1 second' WHERE id = %s"
            assert await running.repair(services) == 0
            assert len(stored_shares(settings)) == shares.SHARES
            assert causes.as_owner(settings, over, (job,)) == 1
            if swept:
                await running.repair(services)
                assert stored_shares(settings) == []
        await Runner(services, zygote).run(job)
        assert await ended(services, owner, job) == Came.told("solver_failed", FULL, CHARGED)
        assert stored_shares(settings) == []
        with pytest.raises(LostJob):
            await offer.open()

    with_children(settings, work)


def test_what_may_be_too_large_for_one_child(
    settings: Settings,
    with_children: Callable[[Settings, Work], None],
    taken: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By the bounds that its owner declared, whatever is in it: it is read by parts or not at all;
    a plan that would hold it is refused; without room for these bounds its job waits, uncharged."""
    whole = 4096
    monkeypatch.setattr(spooling, "PART_BYTES", 2000)
    monkeypatch.setattr("discreet.problems.parts.WINDOW_BYTES", 1000)
    monkeypatch.setattr(Settings, "whole_bytes", whole)
    full = list[int]()

    def set_aside(descriptor: int, size: int) -> bool:
        full.append(size)
        raise OSError(errno.ENOSPC, "full")

    def large(body: dict[str, Any], rows: int, number: int) -> dict[str, Any]:
        """With so many rows, that say nothing of what may be in it."""
        (name, items), *_ = body["content"].items()
        return {
            **body,
            "public": {**body["public"], "max_rows": rows},
            "content": {name: items[:number]},
        }

    async def work(services: Services, owner: Principal, zygote: Zygote) -> None:
        with pytest.raises(PayloadTooLarge, match="bytes in memory, of at most 4096"):
            await register(services, owner, trips_of_persons(zones=4, periods=20))
        bound = 1000 * 40 + 8
        every, few = [
            await register(
                services, owner, large(trips_of_persons(zones=4, periods=20), 1000, number)
            )
            for number in (200, 3)
        ]
        for dataset in (every, few):
            asked = bodies.job(dataset, max_trips_per_person=3)
            job = await submit(services, owner, dataset, **asked)
            taken.clear()
            await Runner(services, zygote).run(job)
            assert await outcome(services, owner, job) == ("succeeded", list(CHARGED))
            assert taken[-2:] == ["release", "finish"]
            assert "share" in taken, "its room is kept as long, however little is in it"

        says = rf"may take {240 * 32} bytes, of at most {whole} .*the method counts"
        for number in (200, 3):
            requests = large(bodies.dataset(zones=4, periods=15), 1000, number)
            requests["public"] |= {"max_total": 10**5, "max_pair": 1000}
            dataset = await register(services, owner, requests)
            gradient = bodies.job(dataset, method="gradient", regularization=1)
            gradient["privacy"] = {"epsilon": 0.1, "delta": 1e-6}
            with pytest.raises(InvalidInput, match=says):
                await submit(services, owner, dataset, **gradient)

        steps = large(walks(), 2000, 100)
        del steps["public"]["trajectories"]
        walked = await register(services, owner, steps)
        await planned(services, owner, evaluation(walked, method="moments"))
        with pytest.raises(InvalidInput, match="bytes would be in memory at once, of at most 4096"):
            await planned(services, owner, evaluation(walked, method="minibatch"))
        monkeypatch.setattr("discreet.problems.parts.MOST_PASSING", 1e9)
        await planned(services, owner, evaluation(walked, method="minibatch"))
        of_one_step = evaluation(walked, method="minibatch", steps=2, sampling=0.9)
        with pytest.raises(InvalidInput, match="bytes would be in memory at once, of at most 4096"):
            await planned(services, owner, of_one_step)
        regressed = evaluation(walked, method="dp_lsw")
        with pytest.raises(InvalidInput, match=r"reads the content as a whole.*minibatch"):
            await submit(services, owner, walked, **regressed)

        monkeypatch.setattr("discreet.usecases.uploads.set_aside", set_aside)
        for dataset in (every, few):
            job = await submit(
                services, owner, dataset, **bodies.job(dataset, max_trips_per_person=2)
            )
            taken.clear()
            await Runner(services, zygote).run(job)
            assert taken == [], "nobody has read it"
            came = Came.told("content_unavailable", NOTHING, RELEASED)
            assert await ended(services, owner, job) == came
        assert len(full) == 2 * settings.max_attempts
        assert set(full) == {full[0]}, "of one size, whatever is in them"
        assert full[0] > bound

    with_children(settings, work)


async def planned(services: Services, owner: Principal, body: dict[str, Any]) -> None:
    asked = validate(_JOB, body)
    await services.planner.plan(services.database, owner, asked.problem, asked.privacy, None)
