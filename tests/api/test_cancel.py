"""What comes of a cancellation, at every point of a job's life, and that what was said of it
holds."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.children import Zygote
from discreet.usecases import running
from discreet.usecases.jobs import CANCELLATIONS
from discreet.usecases.running import CancelRequested, Claim, LostJob
from discreet.usecases.services import Services, open_services
from discreet.worker.runner import Runner
from discreet_client.client import ApiError, Client
from tests import bodies
from tests.conftest import Installation, eventually, installation
from tests.processes import alive, pid_of

Step = Callable[[Services, Claim], Awaitable[Any]]


async def touch(services: Services, held: Claim) -> None:
    await running.touch(services, held)


async def keep_release(services: Services, held: Claim) -> None:
    await running.keep_release(services, held, b"released")


async def publish(services: Services, held: Claim) -> None:
    await running.publish(services, held, b'{"link_flows":[]}', {})


def submitted(client: Client, *, simulation: bool = False) -> tuple[str, str]:
    """A job, and the account of its dataset."""
    body = bodies.dataset()
    dataset = client.register({**body, "mode": "simulation"} if simulation else body)
    return client.submit(bodies.job(dataset["id"]))["id"], dataset["account"]


def kinds(client: Client, account: str) -> list[str]:
    return [entry["kind"] for entry in client.entries(account)]


def outcome(answer: Any) -> tuple[str, str, str]:
    """State, cancel and charge; the sentence is the one of these two."""
    told = CANCELLATIONS[answer["cancel"], answer["charge"]]
    assert answer["detail"] == told.detail
    return answer["state"], answer["cancel"], answer["charge"]


def in_steps(
    installed: Installation,
    job: str,
    before: list[Step],
    meanwhile: Callable[[], None],
    after: Step,
) -> Exception | None:
    """A worker that has done the steps `before` when `meanwhile` happens, and then tries `after`;
    what it raises."""

    async def go() -> Exception | None:
        async with open_services(installed.settings) as services:
            held = await running.claim(services, job)
            assert held is not None
            for step in before:
                await step(services, held)
            await asyncio.to_thread(meanwhile)
            try:
                await after(services, held)
            except (CancelRequested, LostJob) as error:
                await running.cancel(services, held)
                return error
            return None

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("before", "after", "expected", "entries"),
    [
        ([], touch, ("running", "requested", "none"), ["open", "reserve", "release"]),
        (
            [touch],
            keep_release,
            ("running", "requested", "full"),
            ["open", "reserve", "data_touched", "commit"],
        ),
    ],
    ids=["untouched", "touched"],
)
def test_what_was_said_of_a_running_job_holds(
    api_only: Installation,
    before: list[Step],
    after: Step,
    expected: tuple[str, str, str],
    entries: list[str],
) -> None:
    """The worker's next step is refused, however soon it comes after the answer."""
    with api_only.client() as client:
        job, account = submitted(client)
        assert client.job(job)["cancel_requested"] is False

        def cancel() -> None:
            assert outcome(client.cancel(job)) == expected
            assert outcome(client.cancel(job)) == expected
            assert client.job(job)["cancel_requested"] is True

        assert isinstance(in_steps(api_only, job, before, cancel, after), CancelRequested)
        assert outcome(client.cancel(job)) == ("cancelled", "done", expected[2])
        assert client.job(job)["cancel_requested"] is False
        assert kinds(client, account) == entries


def test_a_job_whose_release_is_stored_goes_on(api_only: Installation) -> None:
    with api_only.client() as client:
        job, account = submitted(client)

        def cancel() -> None:
            assert outcome(client.cancel(job)) == ("running", "too_late", "full")
            assert client.job(job)["cancel_requested"] is False

        assert in_steps(api_only, job, [touch, keep_release], cancel, publish) is None
        assert client.result(job)["result"] == {"link_flows": []}
        assert kinds(client, account) == ["open", "reserve", "data_touched", "commit"]
        with pytest.raises(ApiError) as refused:
            client.cancel(job)
        assert (refused.value.status, refused.value.code) == (409, "job_ended")


def test_a_simulation_costs_nothing_and_can_be_cancelled_until_its_end(
    api_only: Installation,
) -> None:
    with api_only.client() as client:
        job, _ = submitted(client, simulation=True)

        def cancel() -> None:
            assert outcome(client.cancel(job)) == ("running", "requested", "none")

        failure = in_steps(api_only, job, [touch, keep_release], cancel, publish)
        assert isinstance(failure, CancelRequested)
        assert outcome(client.cancel(job)) == ("cancelled", "done", "none")


@pytest.mark.parametrize(
    "end",
    [partial(running.count_failure, code="solver_failed"), running.hand_back],
    ids=["an attempt that failed", "a worker that stops"],
)
def test_a_job_that_shall_be_cancelled_waits_for_no_other_attempt(
    api_only: Installation, end: Step
) -> None:
    with api_only.client() as client:
        job, account = submitted(client)
        assert in_steps(api_only, job, [], lambda: assert_requested(client, job), end) is None
        assert client.job(job)["state"] == "cancelled"
        assert kinds(client, account) == ["open", "reserve", "release"]


def assert_requested(client: Client, job: str) -> None:
    assert client.cancel(job)["cancel"] == "requested"


def test_a_job_that_no_worker_holds_any_more_ends_at_once(
    postgres: EmbeddedPostgres, template: str, tmp_path: Any
) -> None:
    """Its lease has run out, so there is nobody to ask; what its worker would still do counts no
    more."""
    with (
        installation(postgres, template, tmp_path, workers=0, lease_seconds=0.2) as installed,
        installed.client() as client,
    ):
        job, account = submitted(client)

        def cancel() -> None:
            eventually(lambda: client.cancel(job)["cancel"] == "done", "the lease runs out")

        async def unwanted(services: Services, held: Claim) -> None:
            await running.keep_release(services, held, b"late")

        async def go() -> None:
            async with open_services(installed.settings) as services:
                held = await running.claim(services, job)
                assert held is not None
                await running.touch(services, held)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(cancel)
                with pytest.raises(LostJob):
                    await unwanted(services, held)

        asyncio.run(go())
        assert outcome(client.cancel(job)) == ("cancelled", "done", "full")
        assert kinds(client, account) == ["open", "reserve", "data_touched", "commit"]


@pytest.mark.timeout(400)  # its zygote may have to compile its kernels first
def test_a_cancelled_job_leaves_no_child(
    api_only: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its child is stopped before it is told anything, so that nothing but the cancellation can end
    it."""
    stopped: list[int] = []
    fork = Zygote._fork

    async def fork_and_stop(*arguments: Any) -> tuple[socket.socket, int, int]:
        ours, watch, report = await fork(*arguments)
        signal.pidfd_send_signal(watch, signal.SIGSTOP)
        stopped.append(pid_of(watch))
        return ours, watch, report

    monkeypatch.setattr(Zygote, "_fork", fork_and_stop)
    with api_only.client() as client:
        job, account = submitted(client)

        async def go() -> None:
            async with open_services(api_only.settings) as services:
                zygote = Zygote()
                try:
                    work = asyncio.create_task(Runner(services, zygote).run(job))
                    while not stopped:
                        await asyncio.wait([work], timeout=0.02)
                        assert not work.done(), work
                    assert alive(stopped[0])
                    answer = await asyncio.to_thread(client.cancel, job)
                    assert outcome(answer) == ("running", "requested", "full")
                    await work
                    # The signal is sent by then; the kernel may still be busy with it.
                    await asyncio.to_thread(
                        eventually, lambda: not alive(stopped[0]), "its child is gone"
                    )
                    assert zygote.alive, "it was not the end of the zygote that ended the child"
                finally:
                    await zygote.stop()

        asyncio.run(go())
        assert client.job(job)["state"] == "cancelled"
        assert kinds(client, account) == ["open", "reserve", "data_touched", "commit"]
        assert len(stopped) == 1
