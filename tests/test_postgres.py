"""The embedded PostgreSQL: who owns it, what it survives, where it works, what its roles may do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import sqlalchemy

from discreet.errors import DiscreetError, StateHeld, Unavailable
from discreet.installation import leftovers
from discreet.installation.binaries import Binaries, User
from discreet.installation.database_roles import APP, OWNER, SUPERUSER
from discreet.installation.postgres import EmbeddedPostgres
from discreet.installation.state import LogFile, StateLock
from discreet.isolation.processes import end
from discreet.private_files import private_folder, write_private
from tests.conftest import DEADLINE_SECONDS
from tests.postgres_fixture import Database, fresh_database, make_template
from tests.processes import alive, family, until

SUPERVISOR = """
    import json, sys
    from pathlib import Path
    from discreet.errors import DiscreetError
    from discreet.installation.postgres import EmbeddedPostgres
    server = EmbeddedPostgres(Path(sys.argv[1]))
    try:
        server.start()
    except DiscreetError as error:
        print(json.dumps({"error": error.detail, "code": error.code}), flush=True)
        raise SystemExit(1)
    print(json.dumps({"pid": server.pid, "owner_url": server.owner_url}), flush=True)
    sys.stdin.read()
    server.stop()
"""


def spawn(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    answer: dict[str, Any] = json.loads(process.stdout.readline())
    return answer


@contextmanager
def supervised(state: Path) -> Iterator[tuple[subprocess.Popen[str], dict[str, Any]]]:
    """A supervisor in a process of its own, to be killed by the test."""
    process = spawn(SUPERVISOR, state)
    try:
        yield process, said(process)
    finally:
        process.kill()
        process.communicate()


def write(url: str, text: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (text text)")
        connection.execute("INSERT INTO kept VALUES (%s)", [text])


def read(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [text for (text,) in connection.execute("SELECT text FROM kept ORDER BY text")]


def show(url: str, name: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT current_setting(%s)", [name]).fetchone()
        assert row is not None
        return str(row[0])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state folder after its first start and stop."""
    state = tmp_path_factory.mktemp("made") / "state"
    with EmbeddedPostgres(state) as server:
        write(server.owner_url, "first")
    return state


@pytest.fixture
def state(made: Path, tmp_path: Path) -> Path:
    """A copy of it: quicker than another initdb."""
    return copied(made, tmp_path / "state")


def copied(made: Path, place: Path) -> Path:
    place.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["/bin/cp", "-a", str(made), str(place)], check=True)
    return place


# -- a first start ---------------------------------------------------------------------------------


def test_first_start_makes_a_safe_server(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "new" / "state") as server:
        assert server.poll() is None
        wanted = {
            "data_checksums": "on",
            "fsync": "on",
            "synchronous_commit": "on",
            "full_page_writes": "on",
            "server_encoding": "UTF8",
            "password_encryption": "scram-sha-256",
            "listen_addresses": "",
            "unix_socket_permissions": "0700",
        }
        assert {name: show(server.superuser_url, name) for name in wanted} == wanted
        with psycopg.connect(server.superuser_url) as connection:
            query = (
                "SELECT datlocprovider::text || datlocale FROM pg_database WHERE datname = "
                "'discreet'"
            )
            assert connection.execute(query).fetchone() == ("bC.UTF-8",)

        credentials = json.loads((server.state / "postgres.json").read_text())
        assert sorted(credentials) == sorted([SUPERUSER, OWNER, APP])
        assert len(set(credentials.values())) == 3
        with psycopg.connect(server.owner_url) as connection:
            # State/run, or another folder where that path is too long.
            sockets = connection.info.host
        for path, mode in {
            "postgres.json": 0o600,
            "lock": 0o600,
            "logs/postgres.log": 0o600,
            sockets: 0o700,
        }.items():
            assert stat.S_IMODE((server.state / path).stat().st_mode) == mode, path
        assert stat.S_IMODE(server.state.stat().st_mode) == 0o700
        log = server.log.path.read_text()
        assert not [password for password in credentials.values() if password in log]
    assert server.poll() == 0


@pytest.mark.parametrize("role", [SUPERUSER, OWNER, APP])
def test_urls_serve_psycopg_and_sqlalchemy(postgres: EmbeddedPostgres, role: str) -> None:
    url = postgres.url(role)
    if role != SUPERUSER:
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT current_user, current_database()").fetchone() == (
                role,
                "discreet",
            )
    engine = sqlalchemy.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://"), poolclass=sqlalchemy.NullPool
    )
    with engine.connect() as bound:
        assert bound.scalar(sqlalchemy.text("SELECT current_user")) == role


def test_no_password_no_entry(postgres: EmbeddedPostgres) -> None:
    for role in (SUPERUSER, OWNER, APP):
        url = postgres.url(role)
        password = url.split(":")[2].split("@")[0]
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(url.replace(password, "guess"))


# -- roles -----------------------------------------------------------------------------------------


def test_app_role_may_connect_and_nothing_else(postgres: EmbeddedPostgres) -> None:
    write(postgres.owner_url, "owner's")
    statements = [
        "CREATE TABLE mine (x int)",
        "CREATE TEMP TABLE mine (x int)",
        "CREATE SCHEMA mine",
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "SELECT * FROM kept",
        "INSERT INTO kept VALUES ('mine')",
        "COPY (SELECT 1) TO PROGRAM 'true'",
        "SELECT pg_read_file('postgresql.conf')",
        f"SET ROLE {OWNER}",
    ]
    for statement in statements:
        with (
            psycopg.connect(postgres.app_url, autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)
    for database in ("postgres", "template1"):
        with pytest.raises(psycopg.OperationalError, match="permission denied"):
            psycopg.connect(postgres.url(APP, database))


def test_owner_role_is_no_superuser(postgres: EmbeddedPostgres) -> None:
    for statement in (
        "CREATE DATABASE mine",
        "CREATE ROLE mine",
        "SET session_replication_role = replica",
    ):
        with (
            psycopg.connect(postgres.owner_url, autocommit=True) as connection,
            pytest.raises(psycopg.errors.InsufficientPrivilege),
        ):
            connection.execute(statement)


def test_fresh_databases_are_copies_of_their_own(postgres: EmbeddedPostgres) -> None:
    def migrate(database: Database) -> None:
        write(database.owner_url, "migrated")
        with psycopg.connect(database.owner_url) as connection:
            connection.execute(f"GRANT SELECT ON kept TO {APP}")

    template = make_template(postgres, migrate, "template_of_this_test")
    with fresh_database(postgres, template) as one, fresh_database(postgres, template) as other:
        write(one.owner_url, "one")
        assert read(one.app_url) == ["migrated", "one"]
        assert read(other.app_url) == ["migrated"]
        open_to_the_end = psycopg.connect(one.app_url)
    open_to_the_end.close()
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        psycopg.connect(one.app_url)
    postgres.drop_database(template)


# -- one owner -------------------------------------------------------------------------------------


def test_second_owner_is_told_who_holds_the_state(state: Path) -> None:
    lock = StateLock(private_folder(state))
    with lock, EmbeddedPostgres(state, lock=lock) as server:
        lock.announce("http://127.0.0.1:8321")
        with pytest.raises(StateHeld, match=rf"process {os.getpid()} \(http://127\.0\.0\.1:8321\)"):
            EmbeddedPostgres(state).start()
        with supervised(state) as (_, answer):
            assert answer["code"] == "state_held"
            assert f"process {os.getpid()} (http://127.0.0.1:8321)" in answer["error"]
        assert read(server.owner_url) == ["first"]
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]


def test_of_many_that_start_at_once_one_wins(state: Path) -> None:
    starters = [spawn(SUPERVISOR, state) for _ in range(4)]
    try:
        answers = [said(starter) for starter in starters]
        assert sorted("pid" in answer for answer in answers) == [False, False, False, True]
        assert {answer.get("code") for answer in answers} == {None, "state_held"}
    finally:
        for starter in starters:
            starter.communicate()  # closes its input: the winner stops


def test_lock_file_of_a_dead_owner_means_nothing(state: Path) -> None:
    (state / "lock").write_text(json.dumps({"pid": os.getpid(), "address": "http://127.0.0.1:1"}))
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]


# -- crashes ---------------------------------------------------------------------------------------


def test_killed_supervisor_leaves_no_server_and_no_loss(state: Path) -> None:
    with supervised(state) as (supervisor, answer):
        write(answer["owner_url"], "second")
        processes = family(supervisor.pid)
        assert answer["pid"] in processes
        assert len(processes) > 4
        supervisor.send_signal(signal.SIGKILL)
        until(lambda: not any(alive(pid) for pid in processes))
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first", "second"]


def test_successor_of_a_killed_supervisor_need_not_wait(state: Path) -> None:
    for name in ("a", "b", "c"):
        with supervised(state) as (supervisor, answer):
            write(answer["owner_url"], name)
            supervisor.send_signal(signal.SIGKILL)
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["a", "b", "c", "first"]


@pytest.mark.parametrize("frozen", ["postmaster", "everything"])
def test_server_that_does_not_end_by_itself_is_stopped(
    state: Path, monkeypatch: pytest.MonkeyPatch, frozen: str
) -> None:
    *stages, last = leftovers.LEFTOVER_STAGES
    quick = tuple((signum, min(patience, 2.0)) for signum, patience in stages)
    monkeypatch.setattr(leftovers, "LEFTOVER_STAGES", (*quick, last))
    with supervised(state) as (supervisor, answer):
        write(answer["owner_url"], "second")
        processes = family(answer["pid"])
        for pid in processes if frozen == "everything" else [answer["pid"]]:
            with suppress(ProcessLookupError):  # the backend of the write above may just end
                os.kill(pid, signal.SIGSTOP)
        supervisor.send_signal(signal.SIGKILL)
    with EmbeddedPostgres(state) as server:
        assert not any(alive(pid) for pid in processes)
        assert read(server.owner_url) == ["first", "second"]


def test_killed_server_starts_again_at_the_same_address(state: Path) -> None:
    with EmbeddedPostgres(state) as server:
        before = server.owner_url
        write(before, "second")
        with closing(psycopg.connect(before)) as busy, closing(psycopg.connect(before)) as idle:
            busy.execute("SELECT 1")
            first = server.pid
            assert first is not None
            os.kill(first, signal.SIGKILL)
            assert server.wait(DEADLINE_SECONDS) == -signal.SIGKILL
            assert server.poll() == -signal.SIGKILL
            server.start()
            for broken in (busy, idle):
                with pytest.raises(psycopg.OperationalError):
                    broken.execute("SELECT 1")
        assert server.pid != first
        assert server.owner_url == before
        assert read(before) == ["first", "second"]


def test_pid_file_that_names_a_stranger_is_no_obstacle(state: Path) -> None:
    # After a restart of the machine or in a container, the pid of a dead server soon belongs to
    # somebody else.
    for path, line in (
        (state / "postgres" / "postmaster.pid", 1),
        (state / "run" / ".s.PGSQL.5432.lock", 1),
    ):
        path.parent.mkdir(
            exist_ok=True
        )  # the server's sockets lie elsewhere where this path is too long
        path.write_text(
            f"{os.getpid()}\n" * line + f"{state / 'postgres'}\n1\n5432\n\n\n0 0\nready\n"
        )
        shutil.copystat(state / "postgres" / "PG_VERSION", path)
        found = (state / "postgres" / "PG_VERSION").stat()
        os.chown(path, found.st_uid, found.st_gid)
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]


def test_unfinished_initdb_is_begun_anew(tmp_path: Path) -> None:
    for number in range(20):  # on a busy machine initdb may be over before the kill
        state = tmp_path / str(number)
        process = spawn(SUPERVISOR, state)
        until((state / "postgres.new" / "PG_VERSION").exists)
        process.kill()
        process.communicate()
        if not (state / "postgres").exists():
            break
    assert not (state / "postgres").exists()
    assert (state / "postgres.new").exists()
    with EmbeddedPostgres(state) as server:
        write(server.owner_url, "made")
        assert not (state / "postgres.new").exists()


def test_roles_left_half_made_are_completed(state: Path) -> None:
    with (
        EmbeddedPostgres(state) as server,
        psycopg.connect(server.superuser_url, autocommit=True) as connection,
    ):
        connection.execute("DROP DATABASE discreet")
        connection.execute(f"DROP ROLE {APP}")
    with EmbeddedPostgres(state) as server:
        write(server.owner_url, "new")
        with psycopg.connect(server.app_url) as connection:
            assert connection.execute("SELECT current_user").fetchone() == (APP,)


# -- places ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "a state",
        "ein Ort, 100 % 'mit' \"Namen\" + ümläut & ?#=@:",
        "long" * 40,
        "deep/" * 40 + "state",
    ],
    ids=["spaces", "every character", "long name", "deep folder"],
)
def test_any_path_will_do(made: Path, tmp_path: Path, name: str) -> None:
    state = copied(made, tmp_path / name)
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]
        engine = sqlalchemy.create_engine(
            server.owner_url.replace("postgresql://", "postgresql+psycopg://"),
            poolclass=sqlalchemy.NullPool,
        )
        with engine.connect() as connection:
            assert connection.scalar(sqlalchemy.text("SELECT text FROM kept")) == "first"
        with psycopg.connect(server.owner_url) as connection:
            folder = Path(connection.info.host)
        found = folder.stat()
        assert stat.S_IMODE(found.st_mode) == 0o700
        assert found.st_uid == (state / "postgres").stat().st_uid
    assert folder == state / "run" or not folder.exists()


def test_a_temporary_folder_whose_path_is_too_long_is_passed_over(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = copied(made, tmp_path / ("long" * 40))
    place = Path(
        tempfile.mkdtemp(prefix="discreet-test-")
    )  # open to the server's user, as pytest's are not
    try:
        (place / ("long" * 20)).mkdir()
        for folder in (place, place / ("long" * 20)):
            folder.chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with EmbeddedPostgres(state) as server:
            assert read(server.owner_url) == ["first"]
    finally:
        shutil.rmtree(place)


def test_folder_in_the_way_of_the_socket_is_not_used(made: Path, tmp_path: Path) -> None:
    # Somebody who could foresee the name could own the folder: names are random, and of old ones
    # only ours are removed.
    state = copied(made, tmp_path / ("long" * 40))
    stranger = tmp_path / "theirs"
    stranger.mkdir()
    (stranger / "file").touch()
    (state / "temporary").write_text(str(stranger))
    with EmbeddedPostgres(state) as server:
        assert str(stranger) not in server.owner_url
    assert (stranger / "file").exists()


def test_killed_supervisor_leaves_one_temporary_folder_at_most(made: Path, tmp_path: Path) -> None:
    state = copied(made, tmp_path / ("long" * 40))
    with supervised(state) as (supervisor, _):
        supervisor.send_signal(signal.SIGKILL)
    left = Path((state / "temporary").read_text())
    assert left.exists()
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]
        assert not left.exists()
        second = Path((state / "temporary").read_text())
    assert not second.exists()


def test_programs_in_a_closed_folder_are_copied(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, a clone below a home of mode 0700; anybody else runs the programs where they are."""
    monkeypatch.setattr(Binaries, "usable_by", lambda _self, _user: False)
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]
        program = os.readlink(f"/proc/{server.pid}/exe")
        if os.geteuid() == 0:
            place = Path((state / "temporary").read_text())
            assert Path(program).is_relative_to(place)
        else:
            assert Path(program) == Binaries.find().folder / "bin" / "postgres"
    assert not (state / "temporary").exists()


def test_root_is_dropped(state: Path) -> None:
    with EmbeddedPostgres(state) as server:
        assert server.pid is not None
        seen = 0
        for pid in family(server.pid):
            with suppress(FileNotFoundError):  # backends come and go
                status = Path(f"/proc/{pid}/status").read_text()
                for kind in ("Uid", "Gid"):
                    numbers = status.partition(f"{kind}:")[2].split()[:4]
                    assert "0" not in numbers or os.geteuid() != 0
                assert "CapEff:\t0000000000000000" in status
                seen += 1
        assert seen > 2


UNPRIVILEGED = """
    import json, os, sys
    from pathlib import Path
    import psycopg
    from discreet.installation.binaries import Binaries, User
    from discreet.installation.postgres import EmbeddedPostgres
    place, user = Path(sys.argv[1]), User(65534, 65534)
    if os.geteuid() == 0:
        programs = Binaries.find()
        if not programs.usable_by(user):  # the clone lies below a closed folder
            programs = programs.copied_to(place / "programs")
            Binaries.find = classmethod(lambda cls: programs)
        os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    for text in ("one", "two"):
        with (
            EmbeddedPostgres(place / "state") as server,
            psycopg.connect(server.owner_url) as connection,
        ):
            connection.execute("CREATE TABLE IF NOT EXISTS kept (text text)")
            connection.execute("INSERT INTO kept VALUES (%s)", [text])
            rows = connection.execute("SELECT text FROM kept ORDER BY text").fetchall()
            owner = os.stat(f"/proc/{server.pid}").st_uid
    print(json.dumps({"rows": rows, "server": owner, "supervisor": os.geteuid()}), flush=True)
"""


def test_ordinary_user() -> None:
    """The whole of it without root, below the temp folder (root's test folders are closed to
    others)."""
    place = Path(tempfile.mkdtemp(prefix="discreet-test-"))
    try:
        if os.geteuid() == 0:
            os.chown(place, 65534, 65534)
        process = spawn(UNPRIVILEGED, place)
        answer = said(process)
        process.communicate()
        assert process.returncode == 0
        assert answer["rows"] == [["one"], ["two"]]
        assert answer["server"] == answer["supervisor"] != 0
    finally:
        shutil.rmtree(place)


# -- what cannot work says so ----------------------------------------------------------------------


def test_data_of_another_version(state: Path) -> None:
    (state / "postgres" / "PG_VERSION").write_text("12\n")
    with pytest.raises(
        DiscreetError, match="was made by PostgreSQL 12, this discreet brings PostgreSQL"
    ) as refused:
        EmbeddedPostgres(state).start()
    assert refused.value.code == "database_version"
    StateLock(state).acquire()  # a failed start gives the folder back


def test_lost_credentials(state: Path) -> None:
    (state / "postgres.json").rename(state / "elsewhere.json")
    with pytest.raises(DiscreetError, match=r"postgres\.json is missing"):
        EmbeddedPostgres(state).start()
    (state / "elsewhere.json").rename(state / "postgres.json")
    with EmbeddedPostgres(state) as server:
        assert read(server.owner_url) == ["first"]


def test_foreign_credentials(state: Path) -> None:
    write_private(
        state / "postgres.json", json.dumps(dict.fromkeys((SUPERUSER, OWNER, APP), "foreign"))
    )
    server = EmbeddedPostgres(state)
    with pytest.raises(DiscreetError, match=r"postgres\.json does not belong to"):
        server.start()
    assert server.pid is None


def test_damaged_data(state: Path) -> None:
    (state / "postgres" / "global" / "pg_control").write_bytes(b"\0" * 8192)
    with pytest.raises(Unavailable, match="PostgreSQL did not start: "):
        EmbeddedPostgres(state).start()


def test_folder_of_somebody_else(tmp_path: Path) -> None:
    theirs = Path("/")
    if os.geteuid() == 0:
        theirs = tmp_path / "theirs"
        theirs.mkdir()
        os.chown(theirs, 65534, 65534)
    with pytest.raises(DiscreetError, match="belongs to user"):
        EmbeddedPostgres(theirs)


def test_address_of_a_server_that_was_not_started(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="not started"):
        _ = EmbeddedPostgres(tmp_path).app_url


# -- the pieces ------------------------------------------------------------------------------------


def test_reach_follows_every_folder(tmp_path: Path) -> None:
    user = User(64000, 64000)
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o755)
    file = folder / "file"
    file.touch(mode=0o644)
    below = {
        path: path.stat().st_mode for path in (tmp_path, *tmp_path.parents) if path != Path("/")
    }
    assert user.reaches(file) == all(mode & 1 for mode in below.values())
    assert user.reaches(Path("/etc/passwd"))
    folder.chmod(0o700)
    assert not user.reaches(file)
    assert not user.reaches(tmp_path / "missing")


def test_log_keeps_within_its_size_and_shows_what_is_new(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "part.log", limit=100)
    log.path.write_text("of an earlier run\n")
    file = log.open()
    with (tmp_path / "shown").open("w+b") as shown:
        os.write(file, b"first\n")
        log.follow(shown)
        log.rotate()
        assert log.last == f"first ({log.path})"
        os.write(file, b"second " * 20 + b"\n")
        log.follow(shown)
        log.rotate()
        assert log.path.stat().st_size == 0
        assert (
            (tmp_path / "part.log.1").read_bytes().startswith(b"of an earlier run\nfirst\nsecond")
        )
        os.write(file, b"third\n")  # the same descriptor goes on in the emptied file
        log.follow(shown)
        assert log.path.read_bytes() == b"third\n"
        shown.seek(0)
        assert shown.read() == b"first\n" + b"second " * 20 + b"\nthird\n"
    os.close(file)
    assert stat.S_IMODE((tmp_path / "part.log.1").stat().st_mode) == 0o600


def test_private_files_are_whole_and_closed(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    (tmp_path / "secret.new").write_text("left by a crash")
    for text in ("one", "two"):
        write_private(path, text)
        assert path.read_text() == text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_stubborn_process_is_killed() -> None:
    process = subprocess.Popen(
        ["/bin/sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], stdout=-1
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert end(process, (signal.SIGTERM, 0.1)) == -signal.SIGKILL
    process.stdout.close()
