"""Whether a process can serve, and metrics of the whole installation, for operators."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

import anyio.to_thread
import structlog
from prometheus_client import REGISTRY
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import text

from discreet.errors import DiscreetError, Unavailable
from discreet.observability.monitoring import Check, run_checks
from discreet.storage import log_memory, metrics
from discreet.storage.database import SYSTEM, trouble
from discreet.storage.schema import check_schema, revisions
from discreet.usecases import cosigning
from discreet.usecases.services import Services

log = structlog.get_logger()

FRESH_SECONDS = 5.0
"""Figures of the database are read at most so often, however many ask."""


_TRIES_TO_WRITE = tuple(
    text(statement)
    for statement in (
        # Refused by a database that takes no changes, although it would change nothing.
        "UPDATE processes SET id = id WHERE false",
        # More than a sort may hold in memory goes to the server's disk, and needs room there.
        "SET LOCAL work_mem = '64kB'",
        "SELECT count(*) FROM (SELECT n, repeat('x', 200) FROM generate_series(1, 2000) AS n "
        "ORDER BY -n OFFSET 0) AS sorted",
    )
)


def checks(services: Services) -> dict[str, Check]:
    """What every process needs: a database that takes changes and has room, with a schema that this
    version can use, and the keys that the secrets file names."""

    async def database() -> None:
        try:
            async with services.database.transaction(SYSTEM) as connection:
                for statement in _TRIES_TO_WRITE:
                    await connection.execute(statement)
        except DiscreetError:
            raise
        except Exception as error:
            raise trouble(error) or Unavailable("the database does not answer") from error

    async def schema() -> None:
        try:
            await check_schema(services.database)
        except DiscreetError:
            raise
        except Exception as error:
            raise Unavailable("cannot be known while the database does not answer") from error

    async def ledger() -> None:
        try:
            async with services.database.transaction(SYSTEM) as connection:
                await log_memory.require(connection, services.database.log_memory.last)
        except DiscreetError:
            raise
        except Exception as error:
            raise trouble(error) or Unavailable(
                "cannot be known while the database does not answer"
            ) from error

    async def keys() -> None:
        await anyio.to_thread.run_sync(services.secrets_file.check)

    return {"database": database, "schema": schema, "ledger": ledger, "keys": keys}


class InstallationMetrics(Collector):
    """Metrics of the installation, read from its database when somebody scrapes, and of this
    process's connections."""

    def __init__(self, services: Services, *, installation: bool = True) -> None:
        self._services = services
        self._installation = installation
        self._figures: metrics.Figures | None = None
        self._checks: dict[str, str] = {}
        self._read_at = -FRESH_SECONDS

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Among the metrics of this process while the block runs."""
        REGISTRY.register(self)
        try:
            yield
        finally:
            REGISTRY.unregister(self)

    async def refresh(self) -> None:
        """Read the figures if they are old. If the database does not answer they are left out:
        no figure is better than an old one."""
        if time.monotonic() - self._read_at < FRESH_SECONDS:
            return
        self._read_at = time.monotonic()
        self._checks = await run_checks(checks(self._services))
        try:
            witnesses = [one.verifier.name for one in cosigning.addresses(self._services.settings)]
            self._figures = await metrics.figures(self._services.database, witnesses)
        except Exception as error:
            self._figures = None
            log.warning("figures not read", error=type(error).__name__)

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily(
            "discreet_build", "This version and its schema; always 1", labels=["version", "schema"]
        )
        build.add_metric([version("discreet"), revisions()[-1]], 1)
        yield build
        pool = GaugeMetricFamily(
            "discreet_database_connections",
            "Pooled connections of this process; `most` is the limit",
            labels=["state"],
        )
        for state, count in self._services.database.connections.items():
            pool.add_metric([state], count)
        yield pool
        if self._installation:
            yield GaugeMetricFamily(
                "discreet_database_up",
                "Whether the database answered at this scrape",
                value=int(self._figures is not None),
            )
            yield self._passed()
        if self._figures is None:
            return
        jobs = GaugeMetricFamily(
            "discreet_jobs", "Jobs that have not ended", labels=["kind", "state"]
        )
        for (kind, state), count in sorted(self._figures.jobs.items()):
            jobs.add_metric([kind, state], count)
        yield jobs
        for name, text_, value in (
            ("discreet_queue_jobs", "Entries that wait on the queue", self._figures.queued),
            (
                "discreet_queue_oldest_seconds",
                "How long the oldest queued job has waited",
                self._figures.oldest_queued_seconds,
            ),
            (
                "discreet_ledger_entries",
                "Entries of the ledger, by PostgreSQL's statistics",
                self._figures.ledger_entries,
            ),
            (
                "discreet_workers",
                "Workers that reported within the last 30 s",
                self._figures.workers,
            ),
            (
                "discreet_leases_over",
                "Running jobs whose worker was silent for too long, and which no other has taken "
                "yet",
                self._figures.leases_over,
            ),
            (
                "discreet_log_pending",
                "Ledger entries that the transparency log does not hold yet, up to "
                f"{metrics.MOST_PENDING}",
                self._figures.log_pending,
            ),
            (
                "discreet_witnesses_behind_seconds",
                "Age of the oldest checkpoint that too few witnesses have signed; 0 if there is "
                "none",
                self._behind(self._figures.witnesses_behind_seconds),
            ),
            (
                "discreet_archive_fails",
                "Whether PostgreSQL's last attempt to archive its log failed; 0 if it archives "
                "none",
                int(self._figures.archive_fails),
            ),
        ):
            yield GaugeMetricFamily(name, text_, value=value)
        backup = GaugeMetricFamily(
            "discreet_backup_age_seconds", "Age of the last known backup; absent if none is known"
        )
        if self._figures.backup_age_seconds is not None:
            backup.add_metric([], self._figures.backup_age_seconds)
        yield backup

    def _passed(self) -> Metric:
        passed = GaugeMetricFamily(
            "discreet_check_passed",
            "Whether a check of /readyz passed at this scrape, by check",
            labels=["check"],
        )
        for name, answer in self._checks.items():
            passed.add_metric([name], int(answer == "ok"))
        return passed

    def _behind(self, seconds: Sequence[float]) -> float:
        """How far the slowest of the fastest needed witnesses is behind."""
        needed = cosigning.needed(self._services.settings)
        return sorted(seconds)[needed - 1] if needed else 0.0
