"""The worker process: procrastinate's loop around the runner, and the repair of what others left behind."""

from __future__ import annotations

import asyncio

import structlog
from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued

from discreet.settings import Settings
from discreet.storage.queue import QUEUE, RUN_JOB
from discreet.usecases import datasets, running, webhooks
from discreet.usecases.services import Services, open_services
from discreet.worker.children import Zygote
from discreet.worker.runner import Runner

log = structlog.get_logger()

GRACE_SECONDS = 8.0
"""Running jobs get so long to end when the worker is told to stop; then they go back on the queue."""


def queue_app(services: Services, runner: Runner) -> App:
    """procrastinate's app with our one task."""
    app = App(connector=PsycopgConnector(conninfo=services.database.url, min_size=1, max_size=4))

    @app.task(name=RUN_JOB, queue=QUEUE)
    async def run_job(job_id: str) -> None:
        await runner.run(job_id)

    # procrastinate watches its side tasks only while a periodic task is registered: without one, a worker whose
    # database went away for a moment stays up and deaf.
    @app.periodic(cron="*/10 * * * *")
    @app.task(name="discreet.tidy", queue=QUEUE)
    async def tidy(timestamp: int) -> None:
        await running.repair(services)
        if count := await datasets.remove_orphans(services):
            log.info("objects without a dataset removed", count=count)
        await webhooks.forget_old(services)

    return app


async def serve(settings: Settings) -> None:
    """Work until told to stop (SIGTERM, SIGINT)."""
    async with open_services(settings) as services:
        zygote = Zygote()
        await zygote.start()
        helpers = [
            asyncio.create_task(_repair_forever(services)),
            asyncio.create_task(_expire_forever(services)),
            asyncio.create_task(webhooks.Sender(services).run()),
        ]
        app = queue_app(services, Runner(services, zygote))
        try:
            async with app.open_async():
                await app.run_worker_async(
                    queues=[QUEUE],
                    concurrency=settings.worker_concurrency,
                    delete_jobs="always",
                    fetch_job_polling_interval=1.0,
                    shutdown_graceful_timeout=GRACE_SECONDS,
                )
        finally:
            for helper in helpers:
                helper.cancel()
            await asyncio.gather(*helpers, return_exceptions=True)
            await zygote.stop()


async def _repair_forever(services: Services) -> None:
    while True:
        try:
            if count := await running.repair(services):
                log.info("jobs put back on the queue", count=count)
        except AlreadyEnqueued:  # another worker was faster
            pass
        except Exception as error:
            log.warning("repair failed", error=type(error).__name__)
        await asyncio.sleep(services.settings.lease_seconds / 3)


async def _expire_forever(services: Services) -> None:
    while True:
        try:
            if count := await datasets.expire(services):
                log.info("contents erased, their time was over", count=count)
        except Exception as error:
            log.warning("contents not looked at", error=type(error).__name__)
        await asyncio.sleep(services.settings.expiry_seconds)
