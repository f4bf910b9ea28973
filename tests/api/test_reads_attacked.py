"""Looks at files under attack: processes that die between any two steps, requests at once, senders
who go, files without end, and what others see of them."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import httpx
import psycopg
import pyarrow as pa
import pytest

from discreet.errors import InvalidInput, NotFound, Unavailable
from discreet.installation.postgres import EmbeddedPostgres
from discreet.isolation.children import Crashed
from discreet.observability import faults
from discreet.problems import DATASETS
from discreet.storage import sealing
from discreet.storage.identifiers import new_id
from discreet.storage.tenants import Principal
from discreet.usecases import access, erasure, reads, rotation
from discreet.usecases.places.reading import RULES, untold
from discreet.usecases.requests import ReadRequest
from discreet.usecases.services import Services, open_services
from discreet.usecases.uploads import Reader, Upload
from discreet.web import bodies
from tests.api.test_reads import CSV, PUBLIC, metadata, send
from tests.conftest import DEADLINE_SECONDS, Installation, eventually, settings_for
from tests.postgres_fixture import fresh_database

Answer = TypeVar("Answer")
ROOM = 2_000_000
"""Bytes of the files of a tenant."""
OBJECT = 20_000
"""Above so many a file is an object."""
LOOK = {"kind": "routing", "public": {}}


@dataclass
class Site:
    """An installation, its objects and its tables."""

    running: Installation
    sql: Callable[..., list[Any]]

    def inside(self, work: Callable[[Services, Principal], Awaitable[Answer]]) -> Answer:
        """What `work` gives on services of its own, in this process."""

        async def run() -> Answer:
            async with open_services(self.running.settings) as services:
                return await work(services, await access.local_owner(services))

        return asyncio.run(run())

    def objects(self) -> set[str]:
        folder = self.running.settings.state / "objects"
        return {path.name for path in folder.iterdir()} if folder.exists() else set()

    def rows(self) -> list[str]:
        return [row[0] for row in self.sql("SELECT id FROM reads ORDER BY created_at")]

    @contextmanager
    def http(self, principal: str = "", tenant: str | None = None) -> Iterator[httpx.Client]:
        """As a new owner of the first tenant, or of that one."""
        with self.running.client(self.running.operator_key) as operator:
            name = principal or new_id("who")
            key = operator.create_key(role="owner", principal=name, tenant=tenant or "default")
        with self.running.http(key["key"]) as http:
            yield http


@pytest.fixture(scope="module")
def site(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    state = tmp_path_factory.mktemp("reads")
    values: dict[str, Any] = {
        "object_url": f"file://{state}/objects",
        "object_bytes": OBJECT,
        "draft_bytes": ROOM,
        "uploads_at_once": 1,
        "tenant_uploads": 20,
        "spool": state / "spool",
    }
    with fresh_database(postgres, template) as database:
        running = Installation(settings_for(database, state, **values))
        running.extra |= {f"DISCREET_{name.upper()}": str(one) for name, one in values.items()}
        try:
            running.make_keys()
            running.start_api()
            with psycopg.connect(database.owner_url, autocommit=True) as connection:
                connection.execute("SELECT set_config('discreet.tenant', '*', false)")

                def sql(statement: str, *values: Any) -> list[Any]:
                    found = connection.execute(statement, values)  # type: ignore[call-overload]
                    return list(found.fetchall()) if found.description else []

                with running.http() as http:
                    eventually(
                        lambda: send(http, "/v1/reads", LOOK, CSV).status_code == 200,
                        "what reads files is compiled",
                    )
                sql("DELETE FROM reads")
                yield Site(running, sql)
        finally:
            running.stop()


@pytest.fixture(autouse=True)
def empty(site: Site) -> Iterator[None]:
    yield
    site.sql("DELETE FROM reads")


def longer(size: int) -> bytes:
    """A table of about so many bytes."""
    row = "Köln;Bonn;02.11.2026 07:10;1,5;Anna\n".encode("cp1252")
    return CSV + row * ((size - len(CSV)) // len(row))


async def received(services: Services, content: bytes) -> Upload:
    upload = Upload(services.settings.spool_folder)
    upload.format = "csv"
    upload.write(content)
    upload.finish()
    return upload


# Bytes --------------------------------------------------------------------------------------------


def test_the_files_of_a_tenant_have_so_many_bytes(site: Site) -> None:
    half = ROOM // 2 - 20_000  # a seal takes some
    with site.http() as first, site.http() as second:
        mine = [send(first, "/v1/reads", LOOK, longer(ROOM // 4)).json()["id"] for _ in range(2)]
        send(second, "/v1/reads", LOOK, longer(ROOM // 4))
        refused = send(second, "/v1/reads", LOOK, longer(half))
        assert (refused.status_code, refused.json()["code"]) == (409, "too_many_drafts")
        assert refused.json()["limit"]["setting"] == "draft_bytes"
        assert refused.json()["limit"]["allowed"] == ROOM
        told = begun(site, first.headers["Authorization"].removeprefix("Bearer "))
        assert all(one in told for one in mine)
        assert "DELETE /v1/reads" in told
        assert not any(one in refused.text for one in mine)  # whose are not one's own to name
        with site.running.client(site.running.operator_key) as operator:
            tenant = new_id("name")
            operator.create_tenant(tenant)
        with site.http(tenant=tenant) as elsewhere:
            assert send(elsewhere, "/v1/reads", LOOK, longer(half)).status_code == 200
        assert first.delete(f"/v1/reads/{mine[0]}").status_code == 204
        assert send(second, "/v1/reads", LOOK, longer(half)).status_code == 200


def begun(site: Site, key: str) -> str:
    """What is answered of a form with a file of ROOM bytes, of which none comes."""
    url = httpx.URL(site.running.url)
    more = 1 << 21  # of the form, which may be metadata
    head = (
        f"POST /v1/reads HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: {ROOM + more}\r\n\r\n"
    )
    answer = b""
    with socket.create_connection((url.host, url.port), timeout=DEADLINE_SECONDS) as raw:
        raw.sendall(head.encode())
        while not answer.endswith(b"}"):
            part = raw.recv(65536)
            assert part, answer
            answer += part
    return answer.decode()


def test_a_file_without_room_is_refused_before_it_comes(site: Site) -> None:
    """By its length, without a byte of it."""
    told = begun(site, site.running.owner_key)
    assert " 409 " in told.splitlines()[0]
    assert "too_many_drafts" in told


def test_the_oldest_file_makes_room_for_the_newest(site: Site) -> None:
    """Of ten files the oldest is not counted against the one that takes its place."""
    with site.http() as http:
        size = ROOM // reads.MOST_FILES - 2_000
        sent = [send(http, "/v1/reads", LOOK, longer(size)) for _ in range(reads.MOST_FILES + 1)]
    assert [one.status_code for one in sent] == [200] * len(sent)
    assert sorted(site.rows()) == sorted(one.json()["id"] for one in sent[1:])
    assert site.objects() >= set(site.rows())
    assert sent[0].json()["id"] not in site.objects()


def test_files_that_come_at_once_are_counted(site: Site) -> None:
    """However many are stored at one moment: the newest ten of a principal, and the bytes of a
    tenant."""

    async def store(services: Services, owner: Principal, count: int, content: bytes) -> list[Any]:
        uploads = [await received(services, content) for _ in range(count)]
        kept = (reads._keep(services, owner, new_id("read"), upload) for upload in uploads)
        found = await asyncio.gather(*kept, return_exceptions=True)
        for upload in uploads:
            upload.close()
        return found

    async def many(services: Services, owner: Principal) -> None:
        found = await store(services, owner, 3 * reads.MOST_FILES, CSV)
        assert not [one for one in found if isinstance(one, BaseException)]
        assert len(site.rows()) == reads.MOST_FILES
        site.sql("DELETE FROM reads")
        # Of eight principals, each of whom would find room alone.
        others = [replace(owner, name=f"owner {number}") for number in range(8)]
        stored = await asyncio.gather(
            *(store(services, other, 1, longer(ROOM * 2 // 5)) for other in others)
        )
        refused = [one for found in stored for one in found if isinstance(one, BaseException)]
        assert all(isinstance(one, reads.TooManyDrafts) for one in refused), refused
        assert (len(refused), len(site.rows())) == (6, 2)
        assert {one for one in site.objects() if one.startswith("read_")} == set(site.rows())

    for one in site.objects():
        (site.running.settings.state / "objects" / one).unlink()
    site.inside(many)


# Processes that die -------------------------------------------------------------------------------

KEEP = """
import asyncio, sys
from discreet.settings import Settings
from discreet.storage.identifiers import new_id
from discreet.usecases import access, reads, services
from discreet.usecases.uploads import Upload
async def main():
    async with services.open_services(Settings()) as all_of_them:
        owner = await access.local_owner(all_of_them)
        upload = Upload(all_of_them.settings.spool_folder)
        upload.write(b"x" * int(sys.argv[1]))
        upload.finish()
        await reads._keep(all_of_them, owner, new_id("read"), upload)
asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("point", "size"),
    [("read.object_written", OBJECT), ("read.written", OBJECT), ("read.written", 9)],
)
def test_a_process_that_dies_while_a_file_is_kept_leaves_nothing(
    site: Site, point: str, size: int
) -> None:
    """No row, no chunk, nothing in the spool; an object that nobody can open goes with the next
    sweep."""
    before = site.objects()
    fatal = {"DISCREET_FAULTS": f"{point}=1", "DISCREET_FAULTS_SWITCH": faults.SWITCH}
    killed = subprocess.run(
        [sys.executable, "-c", KEEP, str(size)],
        env={**site.running.environment(), **fatal},
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert killed.returncode == -signal.SIGKILL
    assert site.rows() == []
    assert site.sql("SELECT 1 FROM read_chunks") == []
    assert list((site.running.settings.state / "spool").iterdir()) == []
    left = site.objects() - before
    assert len(left) == (1 if size == OBJECT else 0)

    async def sweep(services: Services, _: Principal) -> int:
        settings = services.settings.model_copy(update={"orphan_seconds": 0})
        return await erasure.remove_orphans(replace(services, settings=settings))

    assert site.inside(sweep) >= len(left)
    assert not left & site.objects()


def test_a_reader_that_is_killed_keeps_no_file(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sent it is told that it was not read, and not why."""

    class Killed:
        async def call(self, *_: Any) -> Any:
            raise Crashed("the child was ended by SIGKILL")

    async def look(services: Services, owner: Principal) -> None:
        services = replace(services, reader=Reader(Killed(), 1))  # type: ignore[arg-type]
        upload = await received(services, CSV)
        with pytest.raises(Unavailable, match="nothing was registered") as ended:
            await reads.look(services, owner, ReadRequest(kind="routing"), upload)
        assert ended.value.code == "not_read"
        assert upload.file.descriptor < 0

    site.inside(look)
    assert site.rows() == []


def test_a_look_ends_with_whoever_asked_for_it(site: Site) -> None:
    """Its place is free for the next one, and nothing of it stays but that somebody looked: the
    entry is written before the file is read, and says nothing of how long that takes."""
    wide = ",".join(f"c{number}" for number in range(200_000)).encode()
    form = httpx.Request(
        "POST",
        f"{site.running.url}/v1/reads",
        files={"metadata": (None, json.dumps(LOOK)), "content": ("wide.csv", wide + b"\n1\n")},
        headers={"Authorization": f"Bearer {site.running.owner_key}"},
    )
    url = httpx.URL(site.running.url)
    head = b"".join(b"%s: %s\r\n" % pair for pair in form.headers.raw)

    def looks() -> int:
        return len(site.sql("SELECT 1 FROM audit_log WHERE action = 'read.look'"))

    before = looks()
    with socket.create_connection((url.host, url.port), timeout=DEADLINE_SECONDS) as raw:
        raw.sendall(b"POST /v1/reads HTTP/1.1\r\n" + head + b"\r\n" + form.read())
        eventually(lambda: looks() > before, "the file came")
    with site.http() as http:
        draft = send(http, "/v1/reads", LOOK, CSV).json()["id"]
    assert site.rows() == [draft]


def test_work_ends_with_whoever_asked_for_it() -> None:
    """And its errors and answers are as they were, where they stay."""

    class Asking:
        def __init__(self, leaves: bool) -> None:
            self.messages = ["http.request"] + ["http.disconnect"] * leaves

        async def receive(self) -> dict[str, str]:
            if not self.messages:
                await asyncio.sleep(3600)
            return {"type": self.messages.pop(0)}

    ended = list[str]()

    async def work(seconds: float, error: Exception | None = None) -> str:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            ended.append("in time")
            raise
        if error is not None:
            raise error
        return "done"

    async def run() -> None:
        there: Any = Asking(leaves=False)
        assert await bodies.while_there(there, work(0)) == "done"
        with pytest.raises(NotFound):
            await bodies.while_there(there, work(0, NotFound()))
        with pytest.raises(InvalidInput, match="closed the connection"):
            await bodies.while_there(Asking(leaves=True), work(3600))  # type: ignore[arg-type]
        assert ended == ["in time"]

    asyncio.run(run())


# At once ------------------------------------------------------------------------------------------


def test_a_file_that_is_registered_and_erased_at_once(site: Site) -> None:
    """Two registrations are one dataset, and what is erased meanwhile was registered or was not."""
    with site.http() as http, ThreadPoolExecutor() as pool:
        for number in range(3):
            content = CSV + b"Bonn;Bonn;02.11.2026 07:1%d;1;Otto\n" % number
            content += longer(OBJECT * (number == 2))[len(CSV) :]
            draft = send(http, "/v1/reads", LOOK, content).json()["id"]
            body = metadata("Fahrten", draft=draft)
            asked = [pool.submit(http.post, "/v1/datasets", json=body) for _ in range(3)]
            asked += [pool.submit(http.delete, f"/v1/reads/{draft}")]
            asked += [pool.submit(http.post, "/v1/reads", json={"draft": draft, **LOOK})]
            *made, erased, looked = [one.result() for one in asked]
            assert {one.status_code for one in made} <= {200, 201, 404}, [one.text for one in made]
            assert len({one.json()["id"] for one in made if one.status_code < 300}) <= 1
            assert erased.status_code in (204, 404)
            assert looked.status_code in (200, 404), looked.text
            assert site.rows() == []
            assert draft not in site.objects()


def test_a_file_that_is_erased_while_it_is_copied_is_not_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def copy(services: Services, owner: Principal) -> None:
        upload = await received(services, longer(OBJECT + 1000))
        with upload.file:
            row = await reads._keep(services, owner, new_id("read"), upload)
        assert row["object_name"] is not None
        (await reads.open_draft(services, owner, row["id"])).close()
        objects = services.objects
        assert objects is not None
        read = objects.read

        def erased(name: str) -> Iterator[bytes]:
            site.sql("DELETE FROM reads WHERE id = %s", name)
            objects.erase(name)
            return read(name)

        monkeypatch.setattr(objects, "read", erased)
        with pytest.raises(NotFound):
            await reads.open_draft(services, owner, row["id"])

    site.inside(copy)


def test_a_key_that_is_retired_while_a_file_is_kept(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is sealed under the key in use instead, and opens."""
    wrap, read_id = sealing.wrap, new_id("read")
    times = list[int]()

    async def keep(services: Services, owner: Principal) -> None:
        path = services.settings.secrets_path
        loop = asyncio.get_running_loop()

        async def replaced() -> None:
            old = services.secrets.content_key_id
            await rotation.rotate(services, path, "content")
            await rotation.retire(services, path, "content", old)

        def wrapped(*arguments: Any) -> bytes:
            found = wrap(*arguments)
            if arguments[1] != read_id:  # by the rotation
                return found
            times.append(1)
            if len(times) == 1:
                asyncio.run_coroutine_threadsafe(replaced(), loop).result(60)
            return found

        monkeypatch.setattr(reads.sealing, "wrap", wrapped)
        upload = await received(services, longer(OBJECT + 1000))
        with upload.file:
            row = await reads._keep(services, owner, read_id, upload)
        assert len(times) == 2
        assert row["content_key_id"] == services.secrets.content_key_id
        opened = await reads.open_draft(services, owner, row["id"])
        assert opened.key == upload.key
        opened.close()

    site.inside(keep)


# Places -----


def told_of_a_place(agent: str, objective: str) -> str:
    """What is told of a table at a place with this agent and this objective."""
    kind = DATASETS["multi_agent"]
    public, columns = next(iter(kind.sample_tables()))
    columns = {name: list(values) for name, values in columns.items()}
    columns["agent"][1], columns["objective"][1] = agent, objective
    with pytest.raises(InvalidInput) as refused:
        kind.read_table(kind.read_public(public), pa.table(columns))
    told = untold(refused.value, "multi_agent")
    assert isinstance(told, InvalidInput)
    return told.issues[0].detail


def test_what_a_cell_holds_does_not_choose_what_is_told_of_it() -> None:
    """An owner wrote `clocks` into a cell of a query, and was told of clocks: one of eight
    sentences, three bits of the cell."""
    signs = [sign for some, _ in RULES for sign in some]
    columns = next(iter(DATASETS["multi_agent"].sample_tables()))[1]
    agent, objective = columns["agent"][1], columns["objective"][1]
    assert (
        len({told_of_a_place(agent, sign) for sign in ["nobody", *signs] if " " not in sign}) == 1
    )
    assert (
        len({told_of_a_place(sign, objective) for sign in ["nobody", *signs] if sign.isalpha()})
        == 1
    )


# Others -------------------------------------------------------------------------------------------


def test_others_see_no_file(site: Site) -> None:
    """Another owner of the same tenant is told what one of another tenant is, and what is told of
    a file that never was; other roles nothing at all."""
    with site.http() as http:
        draft = send(http, "/v1/reads", LOOK, CSV).json()["id"]
    told = set()
    with site.http() as other:
        for one in (draft, new_id("read"), "read_x"):
            for answer in (
                other.get(f"/v1/reads/{one}"),
                other.delete(f"/v1/reads/{one}"),
                other.post("/v1/reads", json={"draft": draft, **LOOK}),
                other.post("/v1/datasets", json=metadata("x", draft=draft)),
            ):
                told.add((answer.status_code, answer.json()["detail"]))
    assert len(told) == 1
    assert {status for status, _ in told} == {404}
    for role in ("analyst", "auditor", "operator"):
        with site.running.http(site.running.key_of(role)) as http:
            for answer in (
                http.get(f"/v1/reads/{draft}"),
                http.delete(f"/v1/reads/{draft}"),
                http.post("/v1/reads", json={"draft": draft, **LOOK}),
                send(http, "/v1/reads", LOOK, CSV),
            ):
                assert answer.status_code == 403
            if role != "analyst":
                entries = http.get("/v1/audit-log").json()["changes"]
                (look,) = [one for one in entries if draft in json.dumps(one)]
                assert str(len(CSV)) not in json.dumps(look)
    shown = site.running.metrics()
    assert 'discreet_http_requests_total{method="POST",route="/v1/reads"' in shown
    for route in ('method="POST",route="/v1/reads"', 'method="DELETE",route="/v1/reads/{read_id}"'):
        assert f"discreet_http_request_seconds_count{{{route}" not in shown


def test_dead_rows_of_files_are_vacuumed(site: Site) -> None:
    with site.http() as http:
        draft = send(http, "/v1/reads", LOOK, CSV).json()["id"]
        http.delete(f"/v1/reads/{draft}")

    def vacuumed() -> bool:
        found = (
            "SELECT min(vacuum_count) FROM pg_stat_user_tables "
            "WHERE relname IN ('reads', 'read_chunks')"
        )
        site.inside(lambda services, _: erasure.vacuum(services))
        return bool(site.sql(found)[0][0])

    assert eventually(vacuumed, "the service's role vacuums")


def test_a_description_without_end_is_refused_and_keeps_nothing(site: Site) -> None:
    """Too long, too deep, or of what no text is: never an error of ours."""
    deep = "[" * 5000 + "]" * 5000
    with site.http() as http:
        for text, status in (
            (json.dumps({"reader": {"except": ["x" * 100] * 12_000}}), 413),
            (json.dumps({"reader": {"except": ["x"] * 400_000}}), 413),
            (f'{{"reader": {{"zones": {deep}}}}}', 400),
            (json.dumps({"reader": {"zones": {"network": "net_\0"}}}), 400),
            ('{"reader": {"zones": {"network": "net_\\ud800"}}}', 400),
            (json.dumps({"reader": {"zones": {"network": ["net"]}}}), 422),
            (json.dumps({**PUBLIC, "reader": {"zones": {"network": "net_1"}}, "zones": "x"}), 422),
        ):
            said = f'{{"kind": "routing", "public": {text}}}'
            files = {"metadata": (None, said), "content": ("a.csv", CSV)}
            assert http.post("/v1/reads", files=files).status_code == status, text[:80]
    assert site.rows() == []
