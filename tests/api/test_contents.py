"""Contents from upload to erasure, on real processes: sealed, streamed, moved under other keys,
erased in time."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.errors import Conflict, InvalidInput, PayloadTooLarge, Unavailable
from discreet.observability import faults
from discreet.problems.contents import unpack
from discreet.storage import sealing, tamper_seals
from discreet.storage.secrets import Kind, stage
from discreet.usecases import datasets, erasure, rotation
from discreet.usecases.services import Services, open_services
from discreet_client.client import ApiError, Client
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually
from tests.postgres_fixture import Database

Answer = TypeVar("Answer")


@pytest.fixture
def sql(both: tuple[Installation, Database]) -> Iterator[Callable[..., Any]]:
    """Run SQL as the owner of the tables, in the scope of all tenants."""
    with psycopg.connect(both[1].owner_url, autocommit=True) as connection:
        connection.execute("SELECT set_config('discreet.tenant', '*', false)")

        def ask(statement: str, *values: Any) -> list[Any]:
            found = connection.execute(statement, values)  # type: ignore[call-overload]
            return list(found.fetchall()) if found.description else []

        yield ask


def objects(running: Installation) -> set[str]:
    folder = running.settings.state / "objects"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def inside(
    running: Installation, work: Callable[[Services], Awaitable[Answer]], **changed: Any
) -> Answer:
    """What `work` gives on the installation's own services, in this process."""

    async def run() -> Answer:
        async with open_services(running.settings.model_copy(update=changed)) as services:
            return await work(services)

    return asyncio.run(run())


def post(
    http: httpx.Client, body: dict[str, Any], content: bytes, filename: str, **files: Any
) -> httpx.Response:
    metadata = {name: value for name, value in body.items() if name != "content"}
    return http.post(
        "/v1/datasets",
        data={"metadata": json.dumps(metadata)},
        files={"content": (filename, content)},
    )


def parquet(rows: list[dict[str, Any]], group: int = 7) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=group)
    return sink.getvalue()


def csv(rows: list[dict[str, Any]]) -> bytes:
    lines = [",".join(rows[0]), *(",".join(str(value) for value in row.values()) for row in rows)]
    return "\n".join(lines).encode()


def balance(client: Client, account: str) -> tuple[float, float]:
    found = client.budget(account)
    return found["spent"]["epsilon"], found["reserved"]["epsilon"]


# Uploads ------------------------------------------------------------------------------------------


def test_the_same_content_in_any_format_is_the_same_dataset(stored: Installation) -> None:
    body = bodies.dataset()
    trips = body["content"]["trips"]
    split = [{**row, "count": count} for row in reversed(trips) for count in (row["count"] - 1, 1)]
    late_real = csv([*trips[:-1], {**trips[-1], "count": f"{trips[-1]['count']}.0"}])
    with stored.http() as http:
        first = http.post("/v1/datasets", json=body)
        assert first.status_code == 201
        for content, filename in (
            (parquet(split), "x.parquet"),
            (csv(split), "x.csv"),
            (late_real, "x.csv"),
            (json.dumps({"trips": trips}).encode(), "x.json"),
        ):
            again = post(http, body, content, filename)
            assert (again.status_code, again.json()["id"]) == (200, first.json()["id"]), filename
    assert first.json()["id"] in objects(stored)
    content = unpack(
        bytes(inside(stored, lambda services: datasets.open_content(services, first.json()["id"])))
    )
    expected = sorted(
        (row["period"], row["origin"], row["destination"], row["count"]) for row in trips
    )
    assert [tuple(row) for row in content["trips"].tolist()] == expected
    # What a refused or repeated upload had written is gone.
    assert objects(stored) <= {row["id"] for row in inside(stored, all_rows)}


async def all_rows(services: Services) -> list[dict[str, Any]]:
    from sqlalchemy import text

    async with services.database.transaction("*") as connection:
        return [
            dict(row)
            for row in (await connection.execute(text("SELECT * FROM datasets"))).mappings()
        ]


def test_rows_are_named_across_batches(stored: Installation) -> None:
    rows = [{"period": 0, "origin": 1, "destination": 2, "count": 1} for _ in range(400_000)]
    rows[399_990] = {**rows[0], "destination": 9}
    with stored.http() as http:
        for content, filename in ((parquet(rows, 100_000), "x.parquet"), (csv(rows), "x.csv")):
            answer = post(http, bodies.dataset(), content, filename)
            assert answer.status_code == 422
            assert answer.json()["errors"] == [
                {"pointer": "/content/399990/destination", "detail": "must be 1 to 3; found 9"}
            ], filename


def test_parts_of_the_form(stored: Installation) -> None:
    body = bodies.dataset()
    metadata = json.dumps({name: value for name, value in body.items() if name != "content"})
    content = csv(body["content"]["trips"])
    too_long = b'{"trips": [' + b" " * 8_100_000 + b"]}"
    with stored.http() as http:
        for files, status, pointer in (
            ([("content", ("x.csv", content))], 422, "/metadata"),
            ([("metadata", (None, metadata))], 422, "/content"),
            ([("metadata", (None, metadata)), ("content", (None, content))], 422, "/content"),
            (
                [("metadata", (None, metadata)), ("content", ("x", b"")), ("content", ("y", b""))],
                422,
                "/content",
            ),
            ([("metadata", (None, metadata)), ("other", ("x", b""))], 422, "/other"),
            ([("metadata", (None, metadata)), ("content", ("x.json", too_long))], 413, None),
            ([("metadata", (None, metadata[:-1])), ("content", ("x.csv", content))], 400, None),
        ):
            answer = http.post("/v1/datasets", files=files)
            assert answer.status_code == status, (status, pointer, answer.text)
            assert pointer is None or pointer in {
                issue["pointer"] for issue in answer.json()["errors"]
            }
        swapped = http.post(
            "/v1/datasets", files=[("content", ("x.csv", content)), ("metadata", (None, metadata))]
        )
        assert swapped.status_code == 201
        head = {"Content-Type": "multipart/form-data; boundary=b"}
        cut = b'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{}'
        for broken in (b"--x", cut, b""):
            answer = http.post("/v1/datasets", content=broken, headers=head)
            assert answer.status_code == 400 or answer.json()["errors"][0]["pointer"] == "/kind"
    eventually(lambda: not spooled(stored), "no upload keeps its file")


def spooled(running: Installation) -> list[Path]:
    """Files without a name that the API holds open in the spool folder."""
    assert running.api is not None
    found = []
    for path in Path(f"/proc/{running.api.pid}/fd").iterdir():
        try:
            if os.readlink(path).startswith(f"{running.settings.spool}/"):
                found.append(path)
        except OSError:  # closed meanwhile
            continue
    return found


def test_an_upload_is_never_on_disk_in_the_clear(stored: Installation) -> None:
    """Half an upload stands still: what the API has on disk of it is sealed, and has no name."""
    body = bodies.dataset()
    metadata = json.dumps({name: value for name, value in body.items() if name != "content"})
    canary = b"0,1,2,770077\n"
    head = (
        f'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{metadata}\r\n'
        '--b\r\nContent-Disposition: form-data; name="content"; filename="x.csv"\r\n\r\n'
    ).encode()
    host, port = stored.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(
            f"POST /v1/datasets HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer "
            f"{stored.owner_key}\r\n"
            "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: "
            "90000000\r\n\r\n".encode()
            + head
        )
        connection.sendall(canary * 500_000)

        def written() -> bytes:
            data = b"".join(path.read_bytes() for path in spooled(stored))
            return data if len(data) > 3_000_000 else b""

        data = eventually(written, "the API writes what comes")
        assert canary not in data
        assert b"770077" not in data
        assert list((stored.settings.state / "spool").iterdir()) == []
    eventually(lambda: not spooled(stored), "a broken upload keeps nothing")


def test_memory_of_the_api_does_not_grow_with_the_upload(stored: Installation) -> None:
    """64 MB pass through; at its highest the API's memory stands less than 32 MB over what it
    was."""
    assert stored.api is not None
    block = csv([{"period": p, "origin": 1, "destination": 2, "count": 1} for p in range(10)])
    header, _, rows = block.partition(b"\n")
    rows = rows + b"\n"
    repeats = 64_000_000 // len(rows)
    body = bodies.dataset()
    metadata = json.dumps({name: value for name, value in body.items() if name != "content"})

    def pieces() -> Iterator[bytes]:
        yield (
            (
                f'--b\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{metadata}\r\n'
                '--b\r\nContent-Disposition: form-data; name="content"; filename="x.csv"\r\n\r\n'
            ).encode()
            + header
            + b"\n"
        )
        many = rows * 20_000
        for _ in range(repeats // 20_000):
            yield many
        yield b"\r\n--b--\r\n"

    def highest() -> int:
        status = Path(f"/proc/{stored.api.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    with stored.http() as http:
        post(http, bodies.dataset(), b"", "x.csv")  # whatever a first upload loads is there
        Path(f"/proc/{stored.api.pid}/clear_refs").write_text(
            "5"
        )  # the highest begins at what is now
        before = highest()
        head = {"Content-Type": "multipart/form-data; boundary=b"}
        answer = http.post("/v1/datasets", content=pieces(), headers=head, timeout=DEADLINE_SECONDS)
        assert answer.status_code == 201, answer.text
    assert highest() - before < 32_000_000
    dataset_id = answer.json()["id"]
    content = unpack(
        bytes(inside(stored, lambda services: datasets.open_content(services, dataset_id)))
    )
    assert content["trips"].tolist() == [[p, 1, 2, repeats // 20_000 * 20_000] for p in range(10)]


def test_limits_name_themselves(stored: Installation, tmp_path: Path) -> None:
    from discreet.isolation.children import Zygote
    from discreet.isolation.tasks import READING
    from discreet.usecases.uploads import Reader, Upload

    def job(**limits: int) -> dict[str, Any]:
        return {
            "kind": "dr_ensemble",
            "public": {"unit": "participant", "states": 3, "support": "all"},
            "mode": "private",
            "tenant": "ten_1",
            "name": "dst_1",
            "data_key": bytes(32).hex(),
            "digest_key": bytes(32).hex(),
            "content_bytes": 1 << 30,
            "accept_doubts": True,
            **limits,
        }

    async def read(
        reader: Reader, memory_bytes: int = 8 << 30, participants: int = 1000, **limits: int
    ) -> str:
        upload = Upload(tmp_path)
        who, step = np.divmod(np.arange(20 * participants), 20)
        sink = io.BytesIO()
        pq.write_table(
            pa.table({"participant": who, "step": step, "state": np.ones_like(who)}), sink
        )
        upload.write(sink.getvalue())
        upload.finish()
        try:
            (await reader.read(upload, tmp_path, job(**limits), memory_bytes)).file.close()
        except PayloadTooLarge as refused:
            return refused.detail
        finally:
            upload.close()
        return "read"

    async def each() -> list[str]:
        children = Zygote("full", (READING,))
        reader = Reader(children, 1)
        try:
            found = [await read(reader)]
            # A small file takes no more memory than a child has when it is forked.
            no_memory = {"memory_bytes": 1000, "participants": 500_000}
            for limits in ({"content_bytes": 1000}, {"content_bytes": 165_000}, no_memory):
                found.append(await read(reader, **limits))
            assert children._watch is not None
            signal.pidfd_send_signal(children._watch, signal.SIGKILL)
            await asyncio.to_thread(eventually, lambda: not children.alive, "it is dead")
            return [*found, await read(reader)]  # a reader that died is started again
        finally:
            await children.stop()

    fine, too_much, just, no_memory, again = asyncio.run(each())
    assert (fine, again) == ("read", "read")
    assert "20000 rows take at least 160000 bytes" in too_much
    assert "of at most 1000" in too_much
    assert "takes 168008 bytes in memory, of at most 165000" in just
    assert "1000 bytes" in no_memory


# Objects ------------------------------------------------------------------------------------------


def test_a_killed_registration_leaves_nothing_that_opens(
    stored: Installation, tmp_path: Path
) -> None:
    """A process dies between object and row: the object's key was never stored, and the sweep finds
    the object."""
    inside(stored, erasure.remove_orphans, orphan_seconds=0)  # what other tests left
    before = objects(stored)
    (tmp_path / "body.json").write_text(json.dumps(body := bodies.dataset()))
    program = (
        "import asyncio, sys\n"
        "from discreet.settings import Settings\n"
        "from discreet.usecases.requests import DatasetRequest\n"
        "from discreet.web.uploads import whole_registration\n"
        "from discreet.usecases import access, datasets, services\n"
        "async def main():\n"
        "    async with services.open_services(Settings()) as all_of_them:\n"
        "        owner = await access.local_owner(all_of_them)\n"
        "        whole = DatasetRequest.model_validate_json(open(sys.argv[1]).read()).root\n"
        "        await datasets.register(all_of_them, owner, whole_registration(whole))\n"
        "asyncio.run(main())"
    )
    fatal = {"DISCREET_FAULTS": "object.written=1", "DISCREET_FAULTS_SWITCH": faults.SWITCH}
    command = [sys.executable, "-c", program, str(tmp_path / "body.json")]
    killed = subprocess.run(
        command, env={**stored.environment(), **fatal}, check=False, timeout=DEADLINE_SECONDS
    )
    assert killed.returncode == -signal.SIGKILL
    (orphan,) = objects(stored) - before
    with stored.client() as client:
        kept = client.register(body)["id"]
        assert orphan not in {row["id"] for row in inside(stored, all_rows)}
        assert inside(stored, erasure.remove_orphans) == 0  # it is not old enough yet
        assert inside(stored, erasure.remove_orphans, orphan_seconds=0) == 1
        assert orphan not in objects(stored)
        assert kept in objects(stored)


def test_what_was_erased_is_vacuumed_and_what_remains_is_told(
    stored: Installation, sql: Callable[..., Any]
) -> None:
    """The table's dead rows are gone, and the answer names every place that still has sealed
    bytes."""

    def vacuums() -> int:
        ((count,),) = sql("SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'datasets'")
        return int(count)

    before = vacuums()
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
        with stored.http() as http:
            plain = http.delete(f"/v1/datasets/{dataset['id']}")
            assert (plain.status_code, plain.content) == (204, b"")
        again = client.register(bodies.dataset())
        remains = client.delete_dataset(again["id"])
    assert [place.partition(":")[0] for place in remains] == [
        "in the database's files",
        "in the write-ahead log",
        "in earlier backups",
        "in the object storage, if it keeps versions",
        "all of these are sealed",
    ]
    assert "a worker vacuums the table" in remains[0]

    def vacuumed() -> bool:
        inside(
            stored, erasure.vacuum
        )  # unless a worker has come first: then there is nothing left to do
        return vacuums() > before

    eventually(vacuumed, "the service's role vacuums")


def test_deleting_forgets_object_and_key(stored: Installation, sql: Callable[..., Any]) -> None:
    with stored.client() as client:
        dataset = client.register(body := bodies.dataset())
        sealed = (stored.settings.state / "objects" / dataset["id"]).read_bytes()
        assert b"trips" not in sealed
        ((wrapped,),) = sql("SELECT wrapped_key FROM datasets WHERE id = %s", dataset["id"])
        assert len(wrapped) == 12 + 32 + 16
        client.delete_dataset(dataset["id"])
        assert dataset["id"] not in objects(stored)
        assert sql("SELECT wrapped_key FROM datasets WHERE id = %s", dataset["id"]) == [(None,)]
        assert sql("SELECT count(*) FROM dataset_chunks WHERE dataset_id = %s", dataset["id"]) == [
            (0,)
        ]
        again = client.register(body)
        assert again["account"] == dataset["account"]
        assert again["id"] != dataset["id"]


@pytest.mark.parametrize("damage", ["changed", "gone", "cut"])
def test_a_damaged_content_fails_the_job_and_charges_nothing(
    stored: Installation, damage: str
) -> None:
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
        path = stored.settings.state / "objects" / dataset["id"]
        data = bytearray(path.read_bytes())
        if damage == "gone":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(data[:-20])
        else:
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        job = client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        assert job["state"] == "failed"
        assert job["error"]["code"] == "content_unreadable"
        assert balance(client, dataset["account"]) == (0, 0)
        assert [entry["kind"] for entry in client.entries(dataset["account"])] == [
            "open",
            "reserve",
            "release",
        ]


@pytest.mark.parametrize("why", ["storage", "key"])
def test_content_that_does_not_come_fails_the_job_in_the_end(
    stored: Installation, monkeypatch: pytest.MonkeyPatch, sql: Callable[..., Any], why: str
) -> None:
    """Three attempts, none of which has touched data."""
    from discreet.isolation.children import Zygote
    from discreet.storage.objects import Objects
    from discreet.usecases.endings import FAILURES
    from discreet.worker import runner

    def silent(self: Objects, name: str) -> Iterator[bytes]:
        raise Unavailable()
        yield b""

    for worker in stored.workers:
        worker.send_signal(signal.SIGSTOP)
    try:
        with stored.client() as client:
            dataset = client.register(bodies.dataset())
            job = client.submit(bodies.job(dataset["id"]))
            if why == "storage":
                monkeypatch.setattr(Objects, "read", silent)
            else:
                sql("UPDATE datasets SET content_key_id = 'elsewhere' WHERE id = %s", dataset["id"])
            monkeypatch.setattr(runner, "STORAGE_SECONDS", 0.01)
            inside(stored, lambda services: runner.Runner(services, Zygote()).run(job["id"]))
            ended = client.job(job["id"])
            code = {"storage": "content_unavailable", "key": "master_key_unknown"}[why]
            assert ended["error"] == {
                "code": code,
                "detail": f"{FAILURES[code]}; nothing was charged",
            }
            assert balance(client, dataset["account"]) == (0, 0)
            client.delete_dataset(dataset["id"])
    finally:
        for worker in stored.workers:
            worker.send_signal(signal.SIGCONT)


# Retention ----------------------------------------------------------------------------------------


def test_content_goes_after_the_first_job_that_succeeds(stored: Installation) -> None:
    with stored.client() as client:
        body = bodies.dataset(delete_after_job=True)
        dataset = client.register(body)
        assert dataset["delete_after_job"]
        assert dataset["expires_at"] is None
        job = client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        assert job["state"] == "succeeded"
        with pytest.raises(ApiError, match="no such dataset"):
            client.dataset(dataset["id"])
        with pytest.raises(ApiError, match="no dataset"):
            client.submit(bodies.job(dataset["id"]))
        eventually(lambda: dataset["id"] not in objects(stored), "the content is erased")
        assert balance(client, dataset["account"]) == (0.1, 0)
        assert client.result(job["id"])["job"]["state"] == "succeeded"
        again = client.register(body)
        assert (again["account"], again["id"] == dataset["id"]) == (dataset["account"], False)


def test_content_goes_when_its_time_is_over(stored: Installation, sql: Callable[..., Any]) -> None:
    with stored.client() as client:
        kept = client.register(bodies.dataset())
        dataset = client.register(body := bodies.dataset(retention_days=1))
        assert dataset["expires_at"] is not None
        longer = client.register({**body, "retention_days": 3})
        assert longer["id"] == dataset["id"]
        assert longer["expires_at"] > dataset["expires_at"]
        sql(
            "UPDATE datasets SET expires_at = now() - interval '1 second' WHERE id = %s",
            dataset["id"],
        )
        with pytest.raises(ApiError, match="no such dataset"):
            client.dataset(dataset["id"])
        eventually(lambda: dataset["id"] not in objects(stored), "the content is erased")
        assert [row["deleted"] for row in client.budget(dataset["account"])["datasets"]] == [True]
        assert client.dataset(kept["id"])["id"] == kept["id"]
        with pytest.raises(ApiError) as refused:
            client.register(bodies.dataset(retention_days=0))
        assert refused.value.problem["errors"][0]["pointer"] == "/retention_days"


def test_a_job_that_waits_keeps_its_content(stored: Installation, sql: Callable[..., Any]) -> None:
    for worker in stored.workers:
        worker.send_signal(signal.SIGSTOP)
    try:
        with stored.client() as client:
            dataset = client.register(bodies.dataset(retention_days=1))
            job = client.submit(bodies.job(dataset["id"]))
            sql(
                "UPDATE datasets SET expires_at = now() - interval '1 second' WHERE id = %s",
                dataset["id"],
            )
            assert inside(stored, erasure.expire) == 0
            assert dataset["id"] in objects(stored)
    finally:
        for worker in stored.workers:
            worker.send_signal(signal.SIGCONT)
    with stored.client() as client:
        assert client.wait(job["id"])["state"] == "succeeded"
    eventually(
        lambda: dataset["id"] not in objects(stored), "the content is erased after its last job"
    )


# Rotation -----------------------------------------------------------------------------------------


def discreet(running: Installation, *arguments: str) -> Any:
    """What `discreet secrets …` prints, beside running processes."""
    done = subprocess.run(
        [sys.executable, "-m", "discreet", "secrets", *arguments, "--json"],
        env=running.environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def rotated(running: Installation, kind: Kind) -> Any:
    return inside(
        running, lambda services: rotation.rotate(services, running.settings.secrets_path, kind)
    )


def retired(running: Installation, kind: Kind, key_id: str, **options: bool) -> Any:
    path = running.settings.secrets_path
    return inside(
        running, lambda services: rotation.retire(services, path, kind, key_id, **options)
    )


@pytest.mark.long
def test_master_keys_rotate_while_everything_runs(
    stored: Installation, sql: Callable[..., Any]
) -> None:
    with stored.client() as client:
        dataset, oldest = client.register(bodies.dataset()), client.register(bodies.dataset())
        secrets = inside(stored, secrets_of)
        sealed = (stored.settings.state / "objects" / dataset["id"]).read_bytes()
        old = secrets.content_key_id
        assert "rows cannot be read" in discreet(stored, "retire", "content", old)
        done = discreet(stored, "rotate", "content")
        assert done["moved"] >= 2
        assert sql(
            "SELECT count(*) FROM datasets WHERE deleted_at IS NULL AND content_key_id <> %s",
            done["used"],
        ) == [(0,)]
        assert discreet(stored, "retire", "content", old) == {"kind": "content", "retired": old}
        assert old not in inside(stored, secrets_of).content_keys
        assert (stored.settings.state / "objects" / dataset["id"]).read_bytes() == sealed
        for row in (dataset, oldest, client.register(bodies.dataset())):
            assert client.wait(client.submit(bodies.job(row["id"]))["id"])["state"] == "succeeded"


async def secrets_of(services: Services) -> Any:
    return services.secrets


def test_a_key_that_rows_need_is_not_forgotten(
    stored: Installation, sql: Callable[..., Any]
) -> None:
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
    secrets = inside(stored, secrets_of)
    staged = stage(stored.settings.secrets_path, "content")
    row = row_of(sql, dataset["id"])
    data_key = tamper_seals.unwrap(secrets, row)
    wrapped = tamper_seals.wrap(
        replace(inside(stored, secrets_of), content_key_id=staged), row, data_key
    )
    sql(
        "UPDATE datasets SET content_key_id = %s, wrapped_key = %s WHERE id = %s",
        staged,
        wrapped,
        dataset["id"],
    )
    with pytest.raises(Conflict, match="1 rows cannot be read"):
        retired(stored, "content", staged)
    assert inside(stored, rotation.rewrap) == 1
    retired(stored, "content", staged)
    with stored.client() as client:
        assert client.wait(client.submit(bodies.job(dataset["id"]))["id"])["state"] == "succeeded"


def test_rotation_names_the_content_that_does_not_open(
    stored: Installation, sql: Callable[..., Any]
) -> None:
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
        sql("UPDATE datasets SET content_key_id = 'lost' WHERE id = %s", dataset["id"])
        with pytest.raises(sealing.SealBroken, match=dataset["id"]):
            inside(stored, rotation.rewrap)
        client.delete_dataset(dataset["id"])
        assert inside(stored, rotation.rewrap) == 0


def row_of(sql: Callable[..., Any], dataset_id: str) -> dict[str, Any]:
    """What binds a dataset's key, and the key."""
    names = (
        "id",
        "tenant_id",
        "account_id",
        "kind",
        "mode",
        "public",
        "digest",
        "content_key_id",
        "wrapped_key",
    )
    (row,) = sql(
        "SELECT id, tenant_id, account_id, kind, mode, public, digest, content_key_id, wrapped_key "
        "FROM datasets"
        " WHERE id = %s",
        dataset_id,
    )
    return dict(zip(names, row, strict=True))


def test_pepper_and_signing_key_rotate(stored: Installation, tmp_path: Path) -> None:
    from discreet.ledger.entries import Broken
    from discreet.ledger.verification import verify

    unused = stored.key_of("auditor")
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
        job = client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        certificate = client.result(job["id"])["certificate"]
        head = client.ledger_head()

        old = inside(stored, secrets_of).pepper_id
        rotated(stored, "pepper")
        assert inside(stored, secrets_of).pepper_id != old
        assert client.budgets()  # the old key counts, and is now under the new pepper
        with pytest.raises(Conflict, match="were not used"):
            retired(stored, "pepper", old)
        fresh = stored.key_of("analyst")  # the operator's key moves too
        with stored.client(unused) as auditor:
            assert auditor.budgets()
        retired(stored, "pepper", old, force=True)
        for key in (stored.owner_key, stored.operator_key, unused, fresh):
            with stored.http(key) as http:
                assert http.get("/v1/jobs").status_code == (
                    403 if key == stored.operator_key else 200
                )

        rotated(stored, "signing")
        after = client.ledger_head()
        assert after["public_key"] != head["public_key"]
        assert client.verify_certificate(certificate)["valid"]
        with (tmp_path / "export").open("wb") as out:
            client.export_ledger(out)
    both_keys = [head["public_key"], after["public_key"]]
    lines = (tmp_path / "export").read_bytes().splitlines(keepends=True)
    assert verify(lines, public_key=both_keys, head=head).public_key == after["public_key"]
    for known in (head["public_key"], [head["public_key"]], None):
        with pytest.raises(Broken, match="another key"):
            verify(lines, public_key=known, head=head)
    (tmp_path / "head.json").write_text(json.dumps(head))
    keys = [word for key in both_keys for word in ("--public-key", key)]
    export, kept = str(tmp_path / "export"), str(tmp_path / "head.json")
    verified = subprocess.run(
        [sys.executable, "-m", "discreet", "ledger", "verify", export, "--head", kept, *keys],
        capture_output=True,
        text=True,
        check=False,
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_sums_of_batches_are_those_of_the_whole() -> None:
    """Against a dictionary of sums, on sizes that are merged several times."""
    from discreet.problems.routing import dataset as routing
    from discreet.problems.routing import public

    public = public.RoutingPublic(unit="request", zones=3000, periods=100_000, period_minutes=1)
    draw = np.random.default_rng(5)
    columns = {
        "period": draw.choice([0, 1, 65_536, 99_999], 5000),
        "origin": draw.choice([1, 2, 2999, 3000], 5000),
        "destination": draw.choice([1, 7, 3000], 5000),
        "count": draw.integers(0, 3, 5000),
    }
    sums: dict[tuple[int, ...], int] = {}
    for period, origin, destination, count in zip(
        *(column.tolist() for column in columns.values()), strict=True
    ):
        cell = (period, origin, destination)
        sums[cell] = sums.get(cell, 0) + count
    expected = [[*cell, count] for cell, count in sorted(sums.items()) if count]
    table = pa.table(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "MERGE_ROWS", 100)
        found = routing.RoutingDataset.read_batches(
            public, iter(table.to_batches(max_chunksize=37)), table.schema
        )
    assert found["trips"].tolist() == expected
    assert found["trips"].dtype == np.int64
    assert routing.RoutingDataset.read_table(public, table)["trips"].tolist() == expected
    for bound in ("max_total", "max_pair"):
        most = {"max_total": sum(sums.values()), "max_pair": max(sums.values())}[bound]
        for limit, keeps in ((most, True), (1, False)):
            bounded = public.model_copy(update={bound: limit})
            batches = iter(table.to_batches(max_chunksize=37))
            if keeps:
                routing.RoutingDataset.read_batches(bounded, batches, table.schema)
            else:
                with pytest.raises(InvalidInput, match=bound):
                    routing.RoutingDataset.read_batches(bounded, batches, table.schema)


@pytest.mark.parametrize("cells_a_row", [0, 16, 0.5])
def test_sums_of_many_rows_and_few_cells_are_those_of_the_whole(cells_a_row: float) -> None:
    """Sorted and merged, with a place for every cell from the beginning, and with one for each from
    the middle on."""
    from discreet.problems.routing import dataset as routing
    from discreet.problems.routing import public as routing_public

    public = routing_public.RoutingPublic(unit="request", zones=9, periods=5, period_minutes=1)
    draw = np.random.default_rng(6)
    columns = {
        "period": draw.integers(0, 5, 3000),
        "origin": draw.integers(1, 10, 3000),
        "destination": draw.choice([1, 7, 9], 3000),
        "count": draw.integers(0, 2, 3000) * draw.integers(0, routing.MAX_COUNT, 3000),
    }
    table = pa.table(columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(routing, "CELLS_A_ROW", cells_a_row)
        found = routing.RoutingDataset.read_batches(
            public, iter(table.to_batches(max_chunksize=100)), table.schema
        )
    whole = routing.RoutingDataset.read_table(public, table)["trips"]
    assert found["trips"].dtype == whole.dtype
    assert found["trips"].tolist() == whole.tolist()


def test_files_without_a_name_where_the_file_system_knows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    from discreet.usecases.uploads import SealedFile

    plain_open = os.open

    def older(path: Any, flags: int, *rest: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return plain_open(path, flags, *rest, **named)

    monkeypatch.setattr(os, "open", older)
    with SealedFile(tmp_path) as file:
        file.append(b"abc")
        assert list(tmp_path.iterdir()) == []
        assert list(file.parts(2)) == [b"ab", b"c"]
    with pytest.raises(Unavailable, match="cannot be stored while it is read"):
        SealedFile(Path("/proc/none"))
