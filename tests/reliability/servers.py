"""A server that tests reach as other machines would, by TCP on a loopback address of its own."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import psycopg

from discreet.installation import postgres
from discreet.installation.binaries import Binaries
from discreet.installation.database_roles import DATABASE, SUPERUSER
from discreet.installation.postgres import ENVIRONMENT, EmbeddedPostgres
from discreet.installation.temporary_folder import PORT
from discreet.private_files import sync_folder
from tests.conftest import eventually
from tests.processes import family

REPLICATING = """
listen_addresses = '{address}'
max_wal_senders = 4
synchronous_commit = on
synchronous_standby_names = '{awaited}'
"""
ACCESS = "host all all 127.0.0.0/8 scram-sha-256\nhost replication all 127.0.0.0/8 scram-sha-256\n"


class Server(EmbeddedPostgres):
    """A server that also listens on a loopback address of its own, on the port that all have; with
    `source` it begins as a standby of that one."""

    def __init__(self, state: Path, source: Server | None = None) -> None:
        super().__init__(state, durable=False)  # it loses nothing but with the machine
        numbers = random.SystemRandom()  # other runs of these tests use the same port
        self.address = ".".join(["127", *(str(numbers.randint(2, 250)) for _ in range(3))])
        self._source = source
        self._awaited, self._told = "", ""

    def place(self, role: str, *others: Server) -> str:
        """A URL of this server and these for libpq: of those that take changes the first."""
        hosts = ",".join(f"{one.address}:{PORT}" for one in (self, *others))
        password = quote(self._passwords[role], safe="")
        return f"postgresql://{role}:{password}@{hosts}/{DATABASE}?target_session_attrs=read-write"

    def wait_for(self, standby: str) -> None:
        """From now on no commit is told before this standby has it."""
        self._awaited = standby
        self._write_settings()
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
            state = "SELECT sync_state FROM pg_stat_replication"
            eventually(
                lambda: connection.execute(state).fetchall() == [("sync",)],
                "the standby is synchronous",
            )

    def kill(self) -> None:
        """SIGKILL to every process of the server at once, so that none commits anything more."""
        assert self.pid is not None
        for pid in family(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.wait()

    def promote(self) -> None:
        with psycopg.connect(self.superuser_url, autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote(true, 60)").fetchone() == (True,)

    def _configure(self) -> None:
        super()._configure()
        self._write_data("pg_hba.conf", postgres.ACCESS + ACCESS)
        self._told = (self.data / "postgresql.conf").read_text()
        self._write_settings()

    def _write_settings(self) -> None:
        more = REPLICATING.format(address=self.address, awaited=self._awaited)
        self._write_data("postgresql.conf", self._told + more)

    def _initialize(self, inherited: int) -> None:
        if self._source is None:
            super()._initialize(inherited)
            return
        new = self._unfinished
        self._make_folder(new)
        password = self._source._passwords[SUPERUSER]
        source = (
            f"host={self._source.address} port={PORT} user={SUPERUSER} password={password} "
            "application_name=standby"
        )
        program = Binaries.find().program("pg_basebackup")
        copied = subprocess.run(
            [
                program,
                f"--pgdata={new}",
                f"--dbname={source}",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ],
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert copied.returncode == 0, copied.stderr
        if self._user is not None:
            for path in new.rglob("*"):
                os.chown(path, self._user.uid, self._user.gid, follow_symlinks=False)
        new.rename(self.data)
        sync_folder(self.state)
