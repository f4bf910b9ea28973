"""A PostgreSQL of one's own is archived by Barman as docs/deployment/archive says, destroyed, and
restored to a moment of its past; the storage is a server of S3 (moto's).

PostgreSQL itself runs `archive.sh`, as its own user. Where the tests run as root, that user may
have no access to this checkout and its Python, so the server gets the capability to pass all
permissions of files.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import httpx
import psycopg
import pytest

from discreet import cli
from discreet.installation import postgres
from discreet.installation.binaries import Binaries, User
from discreet.installation.database_roles import APP, DATABASE, OWNER, SUPERUSER
from discreet.installation.temporary_folder import PORT
from discreet.ledger.verification import verify
from discreet.storage.log_memory import LogMemory
from discreet.storage.migrations import migrate
from tests import bodies
from tests.conftest import Installation, eventually, settings_for
from tests.postgres_fixture import Database
from tests.reliability.servers import Server

if not os.environ.get("CI"):
    pytest.importorskip("barman", reason="NO ARCHIVE: barman is in the extra `dev`")
    pytest.importorskip("moto.server", reason="NO BUCKET: moto is in the extra `dev`")

FILES = Path(__file__).parents[2] / "docs" / "deployment" / "archive"
PASSWORD = "tr0ub4dor"
SEGMENT = "00000001000000000000000A"


@dataclass
class Archive:
    """The files of docs/deployment/archive in a folder that everybody may enter, and a bucket."""

    place: Path
    endpoint: str
    bucket: Any
    """As boto3 reaches it."""

    def set(self, **changed: str) -> None:
        """Write archive.env; `changed` says what is not as usual."""
        values = {
            "PATH": f"{Path(sys.executable).parent}:{Binaries.find().folder}/bin:/usr/bin:/bin",
            "ARCHIVE_URL": f"s3://{self.bucket.name}/discreet",
            "ARCHIVE_ENDPOINT": self.endpoint,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": PASSWORD,
            "AWS_DEFAULT_REGION": "us-east-1",
            **changed,
        }
        new = self.place / "archive.env.new"
        new.write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))
        new.replace(self.place / "archive.env")

    def run(self, *arguments: object, user: User | None = None, **environment: str) -> str:
        """What archive.sh says, which must succeed."""
        done = self.tried(*arguments, user=user, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tried(
        self, *arguments: object, user: User | None = None, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*as_user(user), "/bin/sh", str(self.place / "archive.sh"), *map(str, arguments)],
            env={"LC_ALL": "C", **environment},
            cwd=self.place,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def objects(self) -> dict[str, bytes]:
        """What the bucket holds, by name."""
        return {one.key: one.get()["Body"].read() for one in self.bucket.objects.all()}


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[Archive]:
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    endpoint = f"http://{host}:{port}"
    storage = boto3.resource(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="key",
        aws_secret_access_key=PASSWORD,
    )
    found = Archive(tmp_path, endpoint, storage.create_bucket(Bucket=f"backups-{uuid.uuid4()}"))
    try:
        shutil.copy(FILES / "archive.sh", tmp_path)
        found.set()
        yield found
    finally:
        server.stop()


def as_user(user: User | None) -> list[str]:
    """What begins a command that runs as this user, with every file open to it; PostgreSQL refuses
    to run as root."""
    if user is None:
        return []
    identity = f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"
    open_files = "--inh-caps=+dac_override", "--ambient-caps=+dac_override"
    return ["/usr/bin/setpriv", *identity, *open_files, "--pdeathsig=INT"]


@dataclass(frozen=True)
class Commands:
    """Stands for PostgreSQL's programs where what is run is a path already."""

    def program(self, path: str) -> str:
        return path


class Archived(Server):
    """A server that is archived. Its user reaches everything by its path, as Barman does."""

    def __init__(self, archive: Archive, name: str) -> None:
        super().__init__(archive.place / name)
        self._archive = archive

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[tuple[str, list[int]]]:
        yield str(folder), []

    def _spawn(self, program: str, arguments: Sequence[str], *more: Any) -> subprocess.Popen[bytes]:
        user, binaries = self._user, self._installed
        command = [*as_user(user), binaries.program(program), *arguments]
        self._user, self._binaries = None, cast("Binaries", Commands())
        try:
            return super()._spawn(command[0], command[1:], *more)
        finally:
            self._user, self._binaries = user, binaries

    def _write_settings(self) -> None:
        super()._write_settings()
        here = self.data / "postgresql.conf"
        told = (FILES / "archive.conf").read_text()
        told = told.replace("/etc/discreet/archive", str(self._archive.place))
        self._write_data("postgresql.conf", here.read_text() + told)

    def environment(self) -> dict[str, str]:
        """Where libpq finds it."""
        return {
            "PGHOST": self.address,
            "PGPORT": str(PORT),
            "PGUSER": SUPERUSER,
            "PGPASSWORD": self._passwords[SUPERUSER],
            "PGDATABASE": DATABASE,
        }

    def asked(self, query: str, *values: str) -> Any:
        with psycopg.connect(self.place(SUPERUSER).partition("?")[0], autocommit=True) as one:
            row = one.execute(query, values or None).fetchone()
        assert row is not None
        return row[0] if len(row) == 1 else row

    def switch_log(self) -> str:
        """Let it begin a new file of its log; the one that it was at."""
        self.asked("SELECT pg_logical_emit_message(true, 'discreet', 'something')")
        return str(self.asked("SELECT pg_walfile_name(pg_switch_wal())"))

    def has_archived(self, name: str) -> bool:
        last = self.asked("SELECT last_archived_wal FROM pg_stat_archiver")
        return last is not None and str(last)[:24] >= name


@contextmanager
def running_on(server: Server, state: Path) -> Iterator[Installation]:
    urls = [server.place(role) for role in (OWNER, APP)]
    running = Installation(settings_for(Database(DATABASE, *urls), state))
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


def archive_fails(running: Installation) -> bool:
    (figure,) = re.findall(r"^discreet_archive_fails (.*)$", running.metrics(), re.MULTILINE)
    return float(figure) == 1


def answer(running: Installation, path: str) -> httpx.Response | None:
    try:
        return httpx.get(f"{running.url}{path}", timeout=60, trust_env=False)
    except httpx.TransportError:
        return None


def unpacked(name: str, content: bytes) -> bytes:
    """An object of the archive as PostgreSQL wrote it; of a copy, all of its files."""
    plain = gzip.decompress(content) if name.endswith(".gz") else content
    if ".tar" not in name:
        return plain
    with tarfile.open(fileobj=io.BytesIO(plain)) as files:
        return b"".join(
            opened.read()
            for member in files
            if (opened := files.extractfile(member) if member.isfile() else None)
        )


def keys_of(secrets: Any) -> Iterator[bytes]:
    """Every key of a secrets file, as text and as bytes."""
    if isinstance(secrets, dict):
        for name, value in secrets.items():
            if isinstance(value, str) and name != "id":
                yield value.encode()
                yield base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
            else:
                yield from keys_of(value)
    elif isinstance(secrets, list):
        for one in secrets:
            yield from keys_of(one)


@pytest.mark.long
def test_a_destroyed_server_comes_back_as_it_was_at_a_moment(
    archive: Archive,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    state = tmp_path / "state"
    primary = Archived(archive, "primary")
    primary.start()
    try:
        with running_on(primary, state) as running:
            migrate(running.settings)
            running.make_keys()
            running.start_api()
            running.start_worker()
            owner_key = running.owner_key
            archive.run("base", **primary.environment())
            with httpx.Client(base_url=running.url, trust_env=False) as http:
                key = {"Authorization": f"Bearer {running.operator_key}"}
                noted = http.get("/v1/operations", headers=key, timeout=60).json()["backup"]
            assert noted["last"]["made_with"] == "other"
            assert noted["archive"]["archived_at"] is not None
            assert not archive_fails(running)
            archive.set(ARCHIVE_URL="s3://nowhere/discreet")
            waiting = primary.switch_log()
            eventually(lambda: archive_fails(running), "the alert's metric says so")
            archive.set()
            primary.switch_log()  # PostgreSQL tries again after a minute, or for another file
            eventually(lambda: primary.has_archived(waiting), "what has waited is archived")
            eventually(lambda: not archive_fails(running), "and the metric says that")
            with running.client() as client:
                registered = client.register(bodies.dataset(epsilon=10))
                erased = client.register(bodies.dataset())["id"]
                sealed = bytes(
                    primary.asked("SELECT sealed FROM dataset_chunks WHERE dataset_id = %s", erased)
                )
                before = client.submit(bodies.job(registered["id"], 1))["id"]
                client.wait(before)
                running.stop_workers()
                queued = client.submit(bodies.job(registered["id"], 2))["id"]
                moment = primary.asked("SELECT clock_timestamp()").isoformat()
                after = client.submit(bodies.job(registered["id"], 3))["id"]
                client.delete_dataset(erased)
                running.start_worker()
                client.wait(queued)
                client.wait(after)
                eventually(lambda: remembered(running), "this machine has seen all entries")
            last = primary.switch_log()
            eventually(lambda: primary.has_archived(last), "the log is archived")
    finally:
        primary.kill()
        primary.stop()
    shutil.rmtree(primary.data)

    kept = {name: unpacked(name, content) for name, content in archive.objects().items()}
    assert {name.split("/")[2] for name in kept} == {"base", "wals"}
    everything = b"".join(kept.values())
    assert sealed[100:200] in everything, "erased contents remain, sealed,"
    secrets = list(keys_of(json.loads((state / "secrets.json").read_text())))
    assert len(secrets) >= 10
    assert not [one for one in secrets if one in everything], "and the keys are not there"

    restored = Archived(archive, "restored")
    shutil.copy2(primary.state / "postgres.json", restored.state / "postgres.json")
    said = archive.run("restore", restored.data, moment, user=User.choose(restored.data))
    assert "discreet adopt" in said
    # It begins as a standby of the archive.
    monkeypatch.setattr(postgres, "ensure_roles", lambda *_: None)
    try:
        restored.start()
        eventually(
            lambda: restored.asked("SELECT pg_is_in_recovery()") is False, "it takes changes"
        )
        with running_on(restored, state) as running:
            running.owner_key = owner_key
            running.spawn_api()
            ready = eventually(lambda: answer(running, "/readyz"), "the API answers")
            assert ready.status_code == 503
            assert "lacks ledger entries" in ready.json()["checks"]["ledger"]
            with running.http() as http:
                key = {"Idempotency-Key": str(uuid.uuid4())}
                refusal = http.post("/v1/jobs", json=bodies.job(registered["id"], 0.1), headers=key)
                assert (refusal.status_code, refusal.json()["code"]) == (503, "ledger_rolled_back")
            with monkeypatch.context() as patch:
                for name, value in running.environment().items():
                    patch.setenv(name, value)
                capsys.readouterr()
                assert cli.run(["adopt", "--forget-spending", "--json"]) == 0
                assert json.loads(capsys.readouterr().out)["ended_jobs"] == 1
            running.start_worker()
            with running.client() as client:
                assert client.job(before)["state"] == "succeeded"
                assert client.result(before) is not None
                assert (client.job(queued)["state"], client.job(queued)["error"]["code"]) == (
                    "failed",
                    "restored",
                )
                assert client.dataset(erased)["id"] == erased  # to be deleted again
                with running.http() as http:
                    assert http.get(f"/v1/jobs/{after}").status_code == 404
                    exported = http.get("/v1/ledger/export").content.splitlines(keepends=True)
                assert verify(exported).hash == client.ledger_head()["hash"]
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
        restored.stop()


def test_a_storage_that_fails_is_no_end_of_the_log(archive: Archive) -> None:
    """PostgreSQL takes a status up to 125 for a file that is not there, and goes on without it."""
    segment, target = archive.place / SEGMENT, archive.place / "target"
    segment.write_bytes(os.urandom(1 << 20))
    archive.run("wal", segment)
    archive.run("fetch", SEGMENT, target)
    assert target.read_bytes() == segment.read_bytes()
    assert archive.tried("fetch", f"{SEGMENT[:-1]}B", target).returncode == 1
    ((name, whole),) = archive.objects().items()
    archive.bucket.put_object(Key=name, Body=whole[:-999])
    assert archive.tried("fetch", SEGMENT, target).returncode == 255
    archive.set(ARCHIVE_URL="s3://nowhere/discreet")
    assert archive.tried("fetch", SEGMENT, target).returncode == 255
    assert archive.tried("wal", segment).returncode != 0


def test_nothing_is_restored_where_no_copy_fits(archive: Archive, tmp_path: Path) -> None:
    done = archive.tried("restore", tmp_path / "data", "2026-11-20T03:10:00Z")
    assert done.returncode != 0
    assert list((tmp_path / "data").iterdir()) == []
