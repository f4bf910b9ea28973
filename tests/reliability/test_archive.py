"""A PostgreSQL of one's own is archived in an object storage, destroyed, and restored to a moment
of its past.

The server's user may not be able to enter this checkout, so the commands that PostgreSQL gives are
run for it: a script of four lines hands them over, with their files and their exit status.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tarfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from discreet.errors import DiscreetError
from discreet.installation import archive, archived_log, postgres
from discreet.installation.database_roles import APP, DATABASE, OWNER, SUPERUSER
from discreet.settings import Settings
from discreet.storage.log_memory import LogMemory
from discreet.storage.migrations import migrate
from tests import bodies
from tests.conftest import Installation, eventually, settings_for
from tests.postgres_fixture import Database
from tests.reliability.servers import Server

SEGMENT = "00000001000000000000000A"
ASKED = "pgsql_tmp.asked"
"""Below the data folder, where the server's user may write; folders called so are in no copy of a
server."""
ASK = f"""\
place=$(mktemp -d {ASKED}/XXXXXX)
if [ "$2" = wal ]; then cp "$3" "$place/${{3##*/}}"; fi
printf '%s\\n' "$@" > "$place/new" && mv "$place/new" "$place/asked"
until [ -e "$place/status" ]; do sleep 0.05; done
if [ "$2" = fetch ] && [ "$(cat "$place/status")" = 0 ]; then cp "$place/fetched" "$4"; fi
status=$(cat "$place/status")
rm -r "$place"
exit "$status"
"""
ARCHIVING = """
archive_mode = on
archive_command = 'sh ask archive wal "%p"'
"""


class Archived(Server):
    """A server whose commands a thread of the test runs, with this environment."""

    def __init__(self, state: Path, environment: dict[str, str]) -> None:
        super().__init__(state)
        self._ended = threading.Event()
        self._runner = threading.Thread(target=self._run, daemon=True)
        self.asked: list[tuple[str, int]] = []
        """What PostgreSQL has asked for, and with which status it was answered."""
        self.environment = environment
        """An archive elsewhere, or none, from now on."""
        self.told = 0
        """After how many answers it got a new file of its log, in `kept_at_last`."""

    def _configure(self) -> None:
        super()._configure()
        self._write_data("ask", ASK)
        if not (self.data / ASKED).exists():
            self._make_folder(self.data / ASKED)
        if not self._runner.is_alive():
            self._runner.start()

    def _write_settings(self) -> None:
        super()._write_settings()
        self._write_data("postgresql.conf", (self.data / "postgresql.conf").read_text() + ARCHIVING)

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            for asked in sorted(self.data.glob(f"{ASKED}/*/asked")):
                place = asked.parent
                group, what, name, *more = asked.read_text().splitlines()
                asked.unlink()
                last = (
                    [str(place / Path(name).name)]
                    if what == "wal"
                    else [name, str(place / "fetched"), *more[1:]]
                )
                status = discreet(self.environment, group, what, *last).returncode
                self.asked.append((f"{what} {Path(name).name}", status))
                if (fetched := place / "fetched").exists() and self._user is not None:
                    os.chown(fetched, self._user.uid, self._user.gid)
                (place / "status.new").write_text(f"{status}\n")
                (place / "status.new").chmod(0o644)
                (place / "status.new").rename(place / "status")

    def end(self) -> None:
        self.stop()
        self._ended.set()


def discreet(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "discreet", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def bucket() -> Iterator[dict[str, str]]:
    """The environment in which `discreet archive` finds a bucket of its own."""
    pytest.importorskip("s3fs", reason="NO BUCKET: s3fs is in the extra `s3`")
    moto = pytest.importorskip("moto.server", reason="NO BUCKET: moto is in the extra `dev`")
    server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    try:
        assert httpx.put(f"{endpoint}/backups", trust_env=False).status_code == 200
        yield {
            "DISCREET_ARCHIVE_URL": "s3://backups/discreet",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "tr0ub4dor",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": endpoint,
        }
    finally:
        server.stop()


@contextmanager
def running_on(server: Server, state: Path, extra: dict[str, str]) -> Iterator[Installation]:
    urls = [server.place(role) for role in (OWNER, APP)]
    running = Installation(settings_for(Database(DATABASE, *urls), state), extra=extra)
    try:
        yield running
    finally:
        running.stop()


def remembered(running: Installation) -> bool:
    """Whether this machine has seen a checkpoint of all entries."""
    with running.client() as client:
        return LogMemory(running.settings.log_memory_path).last.size == int(
            client.ledger_head()["seq"]
        )


def switch_log(superuser: str) -> str:
    """Let the server begin a new file of its log; the one that it was at."""
    with psycopg.connect(superuser, autocommit=True) as connection:
        connection.execute("SELECT pg_logical_emit_message(true, 'discreet', 'something')")
        row = connection.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()
    assert row is not None
    return str(row[0])


def kept_at_last(server: Archived, superuser: str) -> bool:
    """Whether the files that were refused are archived. PostgreSQL tries thrice, and then waits for
    a minute, or for a new file: it gets one for each of its answers."""
    answers = list(server.asked)
    refused = {name for name, status in answers if status != 0}
    if refused and refused <= {name for name, status in answers if status == 0}:
        return True
    if server.told < len(answers):
        server.told = len(answers)
        switch_log(superuser)
    return False


def archive_fails(running: Installation) -> bool:
    (figure,) = re.findall(r"^discreet_archive_fails (.*)$", running.metrics(), re.MULTILINE)
    return float(figure) == 1


@pytest.mark.long
def test_a_destroyed_server_comes_back_as_it_was_at_a_moment(
    bucket: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, environment = tmp_path / "state", {**os.environ, **bucket}
    primary = Archived(tmp_path / "primary", environment)
    primary.start()
    try:
        with running_on(primary, state, {}) as running:
            migrate(running.settings)
            running.make_keys()
            running.start_api()
            running.start_worker()
            owner_key, superuser = running.owner_key, primary.place(SUPERUSER)
            named = {**running.environment(), **bucket, "DISCREET_ARCHIVE_DATABASE_URL": superuser}
            refused = discreet(
                {**named, "DISCREET_ARCHIVE_DATABASE_URL": primary.place(APP)}, "archive", "base"
            )
            assert refused.returncode == 1
            assert "gives no copy to DISCREET_ARCHIVE_DATABASE_URL" in refused.stderr
            copied = discreet(named, "archive", "base", "--json")
            assert copied.returncode == 0, copied.stderr
            assert json.loads(copied.stdout)["noted"] is True
            assert not archive_fails(running)
            primary.environment = {**environment, "DISCREET_ARCHIVE_URL": "file:///proc/nowhere"}
            switch_log(superuser)
            eventually(lambda: archive_fails(running), "the alert's metric says so")
            primary.environment = environment
            eventually(lambda: kept_at_last(primary, superuser), "what has waited is archived")
            eventually(lambda: not archive_fails(running), "and the metric says that")
            with running.client() as client:
                registered = client.register(bodies.dataset(epsilon=10))
                before = client.submit(bodies.job(registered["id"], 1))["id"]
                client.wait(before)
                running.stop_workers()
                queued = client.submit(bodies.job(registered["id"], 2))["id"]
                with psycopg.connect(superuser) as connection:
                    moment = connection.execute("SELECT clock_timestamp()").fetchone()
                assert moment is not None
                after = client.submit(bodies.job(registered["id"], 3))["id"]
                running.start_worker()
                client.wait(queued)
                client.wait(after)
                eventually(lambda: remembered(running), "this machine has seen all entries")
            archived = f"wal {switch_log(superuser)}"
            eventually(lambda: (archived, 0) in primary.asked, "the log is archived")
    finally:
        primary.kill()
        primary.end()
    shutil.rmtree(primary.data)

    restored = Archived(tmp_path / "restored", environment)
    shutil.copy2(tmp_path / "primary" / "postgres.json", tmp_path / "restored" / "postgres.json")
    made = discreet(
        environment,
        "archive",
        "restore",
        str(restored.data),
        "--at",
        moment[0].isoformat(),
        "--command",
        "sh ask",
    )
    assert made.returncode == 0, made.stderr
    assert "discreet adopt" in made.stdout
    if os.geteuid() == 0:  # it is made as the server's user elsewhere
        for path in (restored.data, *restored.data.rglob("*")):
            shutil.chown(path, "nobody", "nogroup")
    monkeypatch.setattr(
        postgres, "ensure_roles", lambda *_: None
    )  # it begins as a standby of the archive
    try:
        restored.start()
        with psycopg.connect(
            restored.place(SUPERUSER).partition("?")[0], autocommit=True
        ) as connection:
            still = "SELECT pg_is_in_recovery()"
            eventually(lambda: connection.execute(still).fetchone() == (False,), "it takes changes")
        assert any(name.startswith("fetch 0") and status == 0 for name, status in restored.asked)
        with running_on(restored, state, {}) as running:
            running.owner_key = owner_key
            running.spawn_api()
            ready = eventually(lambda: answer(running, "/readyz"), "the API answers")
            assert ready.status_code == 503
            assert "lacks ledger entries" in ready.json()["checks"]["ledger"]
            with running.http() as http:
                key = {"Idempotency-Key": str(uuid.uuid4())}
                refusal = http.post("/v1/jobs", json=bodies.job(registered["id"], 0.1), headers=key)
                assert (refusal.status_code, refusal.json()["code"]) == (503, "ledger_rolled_back")
            assert discreet(running.environment(), "adopt").returncode == 1
            adopted = discreet(running.environment(), "adopt", "--forget-spending", "--json")
            assert adopted.returncode == 0, adopted.stderr
            assert json.loads(adopted.stdout)["ended_jobs"] == 1
            running.start_worker()
            with running.client() as client:
                assert client.job(before)["state"] == "succeeded"
                assert client.result(before) is not None
                assert (client.job(queued)["state"], client.job(queued)["error"]["code"]) == (
                    "failed",
                    "restored",
                )
                with running.http() as http:
                    assert http.get(f"/v1/jobs/{after}").status_code == 404
                price = ["reserve", "data_touched", "commit"]
                assert [one["kind"] for one in client.entries(registered["account"])] == [
                    "open",
                    *price,
                    *price,
                ]
                again = client.submit(bodies.job(registered["id"], 3))["id"]
                client.wait(again)
                assert client.job(again)["state"] == "succeeded", (
                    "the contents open with the keys that were kept apart"
                )
    finally:
        restored.end()


def answer(running: Installation, path: str) -> httpx.Response | None:
    try:
        return httpx.get(f"{running.url}{path}", timeout=60, trust_env=False)
    except httpx.TransportError:
        return None


@pytest.fixture
def here(tmp_path: Path) -> Settings:
    return Settings(archive_url=f"file://{tmp_path}/archive")


def page(name: str, server: int = 7) -> bytes:
    """How the segment of this name begins, with 16 MB to a segment."""
    address = (int(name[8:16], 16) << 32) + (int(name[16:24], 16) << 24)
    fields = (0xD118, 2, int(name[:8], 16), address, 0, server, 1 << 24, 8192)
    return struct.pack("=HHIQI4xQII", *fields)


def test_an_archive_is_one_servers(here: Settings, tmp_path: Path) -> None:
    """Another one has got far beyond: no name of its files is that of one which is there."""
    for name, server in (
        (SEGMENT, 7),
        ("0000000100000009000000AA", 8),
        (f"{SEGMENT[:-1]}B", 7),
        (f"{SEGMENT[:-1]}C.partial", 8),
    ):
        (tmp_path / name).write_bytes(page(name, server))
        if server == 7:
            assert archived_log.put_wal(here, tmp_path / name)
        else:
            with pytest.raises(archived_log.BadArchive, match="that of server 7, and this is 8"):
                archived_log.put_wal(here, tmp_path / name)
    assert len(list((tmp_path / "archive/wal").iterdir())) == 2
    archived_log.fetch_wal(here, SEGMENT, tmp_path / "target", 7)
    (tmp_path / "target").unlink()
    with pytest.raises(archived_log.BadArchive, match="of another server"):
        archived_log.fetch_wal(here, SEGMENT, tmp_path / "target", 8)
    assert not (tmp_path / "target").exists()
    (tmp_path / "archive/server.json").write_text("{}")
    with pytest.raises(archived_log.BadArchive, match="cannot be read"):
        archived_log.put_wal(here, tmp_path / SEGMENT)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(bytes(8192), id="zeros"),
        pytest.param(page(SEGMENT)[:39], id="half a head"),
        pytest.param(page(f"{SEGMENT[:-1]}B"), id="another segment"),
        pytest.param(
            b"what anybody may have written there, who can write in a bucket" * 2, id="text"
        ),
    ],
)
def test_a_segment_begins_as_its_name_says(here: Settings, tmp_path: Path, content: bytes) -> None:
    (tmp_path / SEGMENT).write_bytes(content)
    with pytest.raises(archived_log.BadArchive, match="does not begin as this file"):
        archived_log.put_wal(here, tmp_path / SEGMENT)
    assert not (tmp_path / "archive").exists()


def test_a_gap_is_no_end_of_the_log(here: Settings, tmp_path: Path) -> None:
    """PostgreSQL would end its recovery there, and forget what lies behind."""
    ends = {f"{SEGMENT[:-1]}{one}": one for one in "ABDE"}
    ends["0000000100000001000000FF"] = ends["000000010000000200000000"] = "over"
    ends["000000020000000000000010"] = "another timeline"
    for name in ends:
        (tmp_path / name).write_bytes(page(name))
        archived_log.put_wal(here, tmp_path / name)
    (tmp_path / "00000003.history").write_text("1\t0/A000000\tno recovery target specified\n")
    archived_log.put_wal(here, tmp_path / "00000003.history")
    url, target = f"file://{tmp_path}/archive", str(tmp_path / "target")
    for name, status, behind in (
        (f"{SEGMENT[:-1]}C", 130, f"{SEGMENT[:-1]}D"),
        (f"{SEGMENT[:-1]}9", 130, SEGMENT),
        ("0000000100000001000000FE", 130, "0000000100000001000000FF"),
        ("000000010000000200000001", 1, None),  # the end of timeline 1
        ("000000020000000000000011", 1, None),
        (f"0000000300000000000000{SEGMENT[-2:]}", 1, None),
        ("00000004.history", 1, None),
    ):
        with pytest.raises(archived_log.BadArchive) as refused:
            archived_log.fetch_wal(here, name, Path(target))
        ended = isinstance(refused.value, archived_log.NotArchived)
        assert ended == (status == 1), name
        assert behind is None or f"which has {behind} of" in refused.value.detail
    done = discreet(
        {**os.environ, "DISCREET_ARCHIVE_URL": url}, "archive", "fetch", f"{SEGMENT[:-1]}C", target
    )
    assert done.returncode == 130, done.stderr
    assert not Path(target).exists()


def test_gaps_are_seen_in_a_bucket_too(bucket: dict[str, str], tmp_path: Path) -> None:
    environment = {**os.environ, **bucket, "DISCREET_ARCHIVE_URL": "s3://backups/gaps"}
    for last in "AC":
        name = f"{SEGMENT[:-1]}{last}"
        (tmp_path / name).write_bytes(page(name))
        put = discreet(environment, "archive", "wal", str(tmp_path / name))
        assert put.returncode == 0, put.stderr
    for last, status in (("B", 130), ("D", 1), ("A", 0)):
        name = f"{SEGMENT[:-1]}{last}"
        done = discreet(
            environment, "archive", "fetch", name, str(tmp_path / "target"), "--server", "7"
        )
        assert done.returncode == status, done.stderr


def test_a_file_of_the_log_is_kept_once_and_comes_back(here: Settings, tmp_path: Path) -> None:
    segment, target, kept = (
        tmp_path / SEGMENT,
        tmp_path / "target",
        tmp_path / "archive/wal" / f"{SEGMENT}.gz",
    )
    segment.write_bytes(page(SEGMENT) + os.urandom(3 << 20))
    assert archived_log.put_wal(here, segment)
    assert not archived_log.put_wal(here, segment), (
        "PostgreSQL asks again when it does not know whether it was told"
    )
    archived_log.fetch_wal(here, SEGMENT, target)
    assert target.read_bytes() == segment.read_bytes()
    kept.write_bytes(kept.read_bytes()[:-9])  # what a crash leaves in a file system
    with pytest.raises(archived_log.BadArchive, match="is damaged"):
        archived_log.fetch_wal(here, SEGMENT, target)
    assert archived_log.put_wal(here, segment)
    archived_log.fetch_wal(here, SEGMENT, target)
    segment.write_bytes(page(SEGMENT) + b"of a server that was copied")
    with pytest.raises(archived_log.BadArchive, match="a second server"):
        archived_log.put_wal(here, segment)
    archived_log.fetch_wal(here, SEGMENT, target)
    assert target.stat().st_size == (3 << 20) + len(page(SEGMENT))
    assert not list(tmp_path.glob("*.fetching"))


@pytest.mark.parametrize(
    "name", ["../secrets.json", "postgresql.conf", f"{SEGMENT}.gz", SEGMENT.lower(), ""]
)
def test_nothing_but_the_log_goes_to_its_archive(here: Settings, tmp_path: Path, name: str) -> None:
    (tmp_path / "secrets.json").write_text("keys")
    with pytest.raises(archived_log.BadArchive, match="not a file of a write-ahead log"):
        archived_log.put_wal(here, tmp_path / "wal" / name)
    with pytest.raises(archived_log.NotArchived):
        archived_log.fetch_wal(here, name, tmp_path / "target")
    assert not (tmp_path / "archive").exists()


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("file:///nowhere/archive", 1),  # not there: PostgreSQL looks in its own folder next
        (
            "file:///proc/self/mem",
            130,
        ),  # anything else ends its recovery, before it would go on without the rest
        ("nosuchstorage://archive", 130),
    ],
)
def test_a_storage_that_fails_is_no_end_of_the_archive(
    tmp_path: Path, url: str, status: int
) -> None:
    environment = {**os.environ, "DISCREET_ARCHIVE_URL": url}
    done = discreet(environment, "archive", "fetch", SEGMENT, str(tmp_path / "target"))
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("discreet: ")
    assert not list(tmp_path.iterdir())


def keep_base(
    here: Settings, tmp_path: Path, began: str, ended: str, **members: bytes
) -> dict[str, Any]:
    """A copy in the archive, of these files."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, content in {"PG_VERSION": b"18\n", **members}.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    folder = tmp_path / "archive/base"
    folder.mkdir(parents=True, exist_ok=True)
    described = {
        "began": began,
        "ended": ended,
        "bytes": 1,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    name = began.replace("-", "").replace(":", "")
    (folder / f"{name}.tar.gz").write_bytes(packed.getvalue())
    (folder / f"{name}.json").write_text(json.dumps(described))
    return described


def test_which_copy_a_moment_is_restored_from(here: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    moment = archive._moment
    with pytest.raises(archived_log.BadArchive, match="the archive holds no copy"):
        archive.restore_base(here, folder, None)
    keep_base(here, tmp_path, "2026-11-20T03:00:00Z", "2026-11-20T03:20:00Z")
    keep_base(
        here,
        tmp_path,
        "2026-11-21T03:00:00Z",
        "2026-11-21T03:20:00Z",
        **{"base/1/2": b"row", "global/pg_control": struct.pack("=Q", 2**63 + 7) + bytes(8184)},
    )
    (tmp_path / "archive/base/20261122T030000Z.tar.gz").write_bytes(
        b"half of a co"
    )  # it never ended
    with pytest.raises(archived_log.BadArchive, match="was complete before that moment"):
        archive.restore_base(here, folder, moment("2026-11-20T03:10:00Z"))
    taken = archive.restore_base(
        here, folder, moment("2026-11-21T04:10:00+01:00"), "/opt/it's here/discreet"
    )
    assert taken["began"] == "2026-11-20T03:00:00Z"
    told = (folder / "postgresql.auto.conf").read_text()
    assert "restore_command = '/opt/it''s here/discreet archive fetch \"%f\" \"%p\"'" in told
    assert "recovery_target_time = '2026-11-21 03:10:00.000000+00'" in told
    assert (folder / "recovery.signal").exists()
    with pytest.raises(Exception, match="exists already"):
        archive.restore_base(here, folder, None)
    newest = archive.restore_base(here, tmp_path / "other", None)
    assert newest["began"] == "2026-11-21T03:00:00Z"
    told = (tmp_path / "other/postgresql.auto.conf").read_text()
    assert "recovery_target_time" not in told
    assert f'archive fetch "%f" "%p" --server {2**63 + 7}\'' in told
    assert {
        path.stat().st_mode & 0o777 for path in (tmp_path / "other").rglob("*") if path.is_dir()
    } == {0o700}
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o700


def test_a_copy_that_was_changed_leaves_nothing_behind(here: Settings, tmp_path: Path) -> None:
    keep_base(here, tmp_path, "2026-11-20T03:00:00Z", "2026-11-20T03:20:00Z")
    place = tmp_path / "archive/base/20261120T030000Z.tar.gz"
    whole = place.read_bytes()
    for content in (whole[:-20], whole + b"\0", b"", gzip.compress(b"no tar")):
        place.write_bytes(content)
        with pytest.raises(archived_log.BadArchive, match=r"damaged|not as it was written"):
            archive.restore_base(here, tmp_path / "data", None)
        assert {path.name for path in tmp_path.iterdir()} == {"archive"}
    place.unlink()
    with pytest.raises(archived_log.BadArchive, match="damaged"):
        archive.restore_base(here, tmp_path / "data", None)


def test_a_place_that_cannot_be_made(here: Settings, tmp_path: Path) -> None:
    keep_base(here, tmp_path, "2026-11-20T03:00:00Z", "2026-11-20T03:20:00Z")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("link", "exists already"),
        ("empty", "exists already"),
        ("nowhere/data", "cannot be made: No such file or directory"),
        ("archive/server/base/data", "cannot be made"),
        ("n" * 300, "cannot be made: File name too long"),
    ):
        with pytest.raises(DiscreetError, match=why):
            archive.restore_base(here, tmp_path / name, None)
    assert {one.name for one in tmp_path.iterdir()} == {"archive", "link", "empty"}


@pytest.mark.parametrize("name", ["../beside", "base/../../beside"])
def test_a_copy_reaches_nothing_beside_its_folder(
    here: Settings, tmp_path: Path, name: str
) -> None:
    keep_base(here, tmp_path, "2026-11-20T03:00:00Z", "2026-11-20T03:20:00Z", **{name: b"x"})
    with pytest.raises(archived_log.BadArchive, match="damaged"):
        archive.restore_base(here, tmp_path / "data", None)
    assert {path.name for path in tmp_path.iterdir()} == {"archive"}
