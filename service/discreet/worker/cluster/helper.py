"""A process on a node of the cluster that reads shares of one release, as an idle worker would.

It stays until the release is over, which is at a padded time, whether or not there is a share left
to read: how long a node's task takes tells Dask nothing of the data. Nor does its exit status,
which is that of its start.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys

import structlog
from procrastinate import App

from discreet.isolation.children import Zygote
from discreet.settings import Settings
from discreet.storage.queue import connector
from discreet.storage.schema import check_schema
from discreet.usecases import shares
from discreet.usecases.services import Services, keys_open, open_services
from discreet.worker.runner import Helper, PlacedJobs

log = structlog.get_logger()

LOOK_SECONDS = 1.0
"""How often it looks for an open share, and whether the release is over."""

AWAY_LOOKS = 60
"""So many times in a row the database may not answer before this process ends."""


async def serve(settings: Settings, job_id: str, attempt: int) -> None:
    """Help with this attempt until its release is over, or standard input ends."""
    left = asyncio.create_task(_left_alone())
    helping_now = asyncio.create_task(_serve(settings, job_id, attempt))
    tasks = (left, helping_now)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if helping_now.done():
            helping_now.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _serve(settings: Settings, job_id: str, attempt: int) -> None:
    async with open_services(settings) as services:
        await check_schema(services.database)
        over = asyncio.create_task(_over(services, job_id, attempt))
        reading = asyncio.create_task(_read(services, job_id))
        try:
            await asyncio.wait((over, reading), return_when=asyncio.FIRST_COMPLETED)
            if reading.done():  # it reads until it is ended, so it could not begin
                reading.result()
        finally:
            for task in (over, reading):
                task.cancel()
            await asyncio.gather(over, reading, return_exceptions=True)


async def _read(services: Services, job_id: str) -> None:
    await keys_open(services)
    zygote = Zygote(services.settings.least_isolation)
    app = App(connector=connector(services.database))
    placed = PlacedJobs(app.connector, 1)
    try:
        await zygote.start()
        async with app.open_async():
            number = await placed.register_worker()  # by which the rows of its shares are its own
            try:
                helper = Helper(services, zygote, placed, job_id)
                while True:
                    await _help(helper)
                    await asyncio.sleep(LOOK_SECONDS)
            finally:
                with contextlib.suppress(Exception):
                    await asyncio.shield(placed.unregister_worker(number))
    finally:
        await zygote.stop()


async def _help(helper: Helper) -> None:
    try:
        await helper.help()
    except Exception as error:
        log.warning("shares cannot be taken", error=type(error).__name__)


async def _over(services: Services, job_id: str, attempt: int) -> None:
    """Wait until no share of this attempt can be needed any more."""
    failures = 0
    while failures < AWAY_LOOKS:
        try:
            if not await shares.are_wanted(services, job_id, attempt):
                return
            failures = 0
        except Exception as error:
            failures += 1
            log.warning("the job cannot be seen", error=type(error).__name__)
        await asyncio.sleep(LOOK_SECONDS)


async def _left_alone() -> None:
    """Wait for the end of standard input: whoever started this process holds its other end."""
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    place = sys.stdin.fileno()

    def read() -> None:
        if not os.read(place, 4096):
            loop.remove_reader(place)
            ended.set()

    loop.add_reader(place, read)
    await ended.wait()
