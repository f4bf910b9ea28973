"""The worker process: procrastinate's loop around the runner, and the repair of what others left
behind."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import structlog
from procrastinate import App, JobContext
from procrastinate.exceptions import AlreadyEnqueued
from prometheus_client import Counter

from discreet.errors import Unavailable
from discreet.isolation.children import Zygote, trimming_memory
from discreet.observability.heartbeat import beating
from discreet.observability.monitoring import answering
from discreet.settings import Settings
from discreet.storage.database import WrongPooler
from discreet.storage.queue import LONG_QUEUE, QUEUE, RUN_JOB, connector
from discreet.storage.schema import check_schema
from discreet.usecases import erasure, metrics, processes, running, transparency, waiting, webhooks
from discreet.usecases.services import Services, keys_open, open_services
from discreet.usecases.uploads import Reader
from discreet.worker.cluster.asking import Cluster
from discreet.worker.runner import Helper, PlacedJobs, Runner

log = structlog.get_logger()

_repaired = Counter(
    "discreet_jobs_repaired_total", "Jobs put back on the queue that no worker would have taken"
)

LOOK_SECONDS = 1.0
"""How often a worker with a free place looks at the queue, whether or not it hears of jobs."""

DECIDE_SECONDS = 1.0
"""How often a worker looks whether somebody who waits for budget is due."""

GRACE_SECONDS = 8.0
"""Running jobs get so long to end when the worker is told to stop; then they go back on the
queue."""


def queue_app(services: Services, runner: Runner) -> App:
    """procrastinate's app with our one task; its job manager is `PlacedJobs`."""
    app = App(connector=connector(services.database))
    app.job_manager = placed = PlacedJobs(app.connector, services.settings.worker_concurrency)

    @app.task(name=RUN_JOB, queue=QUEUE, pass_context=True)
    async def run_job(context: JobContext, job_id: str) -> None:
        try:
            await runner.run(job_id, lambda: placed.takes_long(context.job.id))
        finally:
            placed.ended(context.job.id)

    # procrastinate watches its side tasks only while a periodic task is registered: without one, a
    # worker whose database went away for a moment stays up and deaf.
    @app.periodic(cron="*/10 * * * *")
    @app.task(name="discreet.tidy", queue=QUEUE)
    async def tidy(timestamp: int) -> None:
        await running.repair(services)
        await webhooks.forget_old(services)
        if count := await erasure.remove_orphans(
            services
        ):  # last: it may wait for an object storage in vain
            log.info("objects without a dataset removed", count=count)

    return app


async def serve(settings: Settings, monitor: socket.socket | None = None) -> None:
    """Work until told to stop (SIGTERM, SIGINT). Health and metrics are answered on the listening
    socket `monitor`.

    WrongSchema when the database is of another version: this one neither works on it nor waits for
    a migration. InvalidInput when settings of a cluster do not suffice for one.
    """
    Cluster(settings)  # it says what it lacks before anything has started
    async with open_services(settings) as opened:
        # No job waits until another one's content is read: how long that took is private.
        reader = Reader(opened.children, settings.worker_concurrency)
        services = replace(opened, reader=reader)
        zygote = Zygote(settings.least_isolation)

        async def ready() -> None:
            if not zygote.alive:
                raise Unavailable("the process that jobs run in warms up, or is started again")

        figures = metrics.InstallationMetrics(services, installation=False)
        with figures.shown():
            async with answering(monitor, {**metrics.checks(services), "isolation": ready}):
                await _serve(settings, services, zygote)


async def _serve(settings: Settings, services: Services, zygote: Zygote) -> None:
    await check_schema(services.database)
    hears = await listens(services)
    await keys_open(services)
    await zygote.start()
    app = queue_app(services, Runner(services, zygote))
    placed = app.job_manager
    assert isinstance(placed, PlacedJobs)
    helpers = [
        _repair_forever(services, zygote),
        _expire_forever(services),
        _decide_forever(services),
        webhooks.Sender(services).run(),
        transparency.keep_memory(services),
    ]
    if settings.help_others:
        helpers.append(Helper(services, zygote, placed).run())
    seen = processes.present(
        services,
        "worker",
        zygote,
        places=settings.worker_concurrency,
        queue_worker=lambda: placed.worker,
    )
    try:
        async with (
            app.open_async(),
            beating(settings.watchdog_seconds),
            trimming_memory(),
            seen,
            alongside(helpers),
        ):
            await app.run_worker_async(
                queues=[QUEUE, LONG_QUEUE],
                concurrency=settings.worker_concurrency,
                delete_jobs="always",
                fetch_job_polling_interval=LOOK_SECONDS,
                listen_notify=hears,
                shutdown_graceful_timeout=GRACE_SECONDS,
            )
    finally:
        await zygote.stop()


@contextlib.asynccontextmanager
async def alongside(helpers: Sequence[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run these until the block ends. Where one ends before, so does the block, by its error: a
    worker that repairs nothing any more must not go on as if it did."""
    body = asyncio.current_task()
    assert body is not None
    ended: list[asyncio.Task[None]] = []

    def end(task: asyncio.Task[None]) -> None:
        if not ended:
            ended.append(task)
            body.cancel()

    tasks = [asyncio.create_task(helper) for helper in helpers]
    for task in tasks:
        task.add_done_callback(end)
    try:
        yield
    except asyncio.CancelledError:
        if not ended:
            raise
        body.uncancel()
        ended[0].result()  # its error
        raise RuntimeError("a part of the worker that never ends has ended") from None
    finally:
        for task in tasks:
            task.remove_done_callback(end)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def listens(services: Services) -> bool:
    """Whether this worker hears of new jobs at once: with one URL, through a pooler, it looks for
    them instead. WrongPooler where the direct URL does not serve its purpose."""
    try:
        await services.database.require_sessions()
    except WrongPooler as error:
        if services.settings.database_direct_url is not None:
            raise
        log.warning(f"new jobs are looked for every {LOOK_SECONDS:g} s", detail=error.detail)
        return False
    return True


async def _repair_forever(services: Services, zygote: Zygote) -> None:
    while True:
        try:
            await zygote.start()  # at once where it has died, not with the next job
            if count := await running.repair(services):
                _repaired.inc(count)
                log.info("jobs put back on the queue", count=count)
        except AlreadyEnqueued:  # another worker was faster
            pass
        except Exception as error:
            log.warning("repair failed", error=type(error).__name__)
        await asyncio.sleep(services.settings.lease_seconds / 3)


async def _decide_forever(services: Services) -> None:
    """Decide jobs that wait for budget; an index says which are due."""
    while True:
        try:
            await waiting.decide(services)
        except Exception as error:
            log.warning("waiting jobs could not be decided", error=type(error).__name__)
        await asyncio.sleep(DECIDE_SECONDS)


async def _expire_forever(services: Services) -> None:
    while True:
        try:
            if count := await erasure.expire(services):
                log.info("expired contents erased", count=count)
            if count := await erasure.forget_results(services):
                log.info("expired results deleted", count=count)
            await erasure.vacuum(services)
        except Exception as error:
            log.warning("contents could not be checked", error=type(error).__name__)
        await asyncio.sleep(services.settings.expiry_seconds)
