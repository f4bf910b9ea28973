"""Contents in a bucket: what a pattern brings, and what an object store that fails in all its ways
is taken for."""

from __future__ import annotations

import http.client
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from discreet.errors import PayloadTooLarge
from discreet.settings import Settings
from discreet.usecases.places import buckets
from discreet.usecases.places.local import ContentChanged
from discreet.usecases.places.rules import PlaceRefused, PlaceUnavailable
from discreet.usecases.uploads import Upload
from tests.conftest import settings_for
from tests.places import allowing, fetched
from tests.postgres_fixture import Database

s3fs = pytest.importorskip("s3fs", reason="NO BUCKET: s3fs is in the extra `s3`")
moto = pytest.importorskip("moto.server", reason="NO BUCKET: moto is in the extra `dev`")

SECRET = "tr0ub4dor"
SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Reduce your request rate.</Message></Error>"
DENIED = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
_numbers = itertools.count()


class Store:
    """An S3 server behind a door that can throttle, cut, refuse and keep silent; counts what it is
    asked."""

    def __init__(self) -> None:
        self._moto = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        self.behind = self._moto.get_host_and_port()
        self.faults: Counter[str] = Counter()
        """How often each is still to happen, to requests of objects' bytes."""
        self.asked: Counter[str] = Counter()
        self.released = threading.Event()
        store = self

        class Door(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                store.asked[self.command] += 1
                is_object = self.command == "GET" and "list-type" not in self.path
                fault = (
                    next((name for name, count in store.faults.items() if count > 0), "")
                    if is_object
                    else ""
                )
                if fault:
                    store.faults[fault] -= 1
                if fault == "silent":
                    store.released.wait(30)
                    self.close_connection = True
                    return
                if fault in ("throttled", "denied"):
                    status, body = {"throttled": (503, SLOW_DOWN), "denied": (403, DENIED)}[fault]
                    self.reply(status, [], body)
                    return
                body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
                connection = http.client.HTTPConnection(*store.behind, timeout=30)
                connection.request(self.command, self.path, body, dict(self.headers))
                answer = connection.getresponse()
                content = answer.read()
                headers = [
                    one
                    for one in answer.getheaders()
                    if one[0].lower() not in ("connection", "transfer-encoding")
                ]
                connection.close()
                self.reply(answer.status, headers, content, cut=fault == "cut")

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - the names of the base class

            def reply(
                self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False
            ) -> None:
                self.send_response_only(status)
                known = {name.lower() for name, _ in headers}
                if "content-length" not in known:
                    self.send_header("Content-Length", str(len(body)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: len(body) // 2] if cut else body)
                self.close_connection = cut

            def log_message(self, *_: Any) -> None:
                pass

        class Quiet(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: Any) -> None:
                """Drivers that go away are what these tests are about."""

        self._door = Quiet(("127.0.0.1", 0), Door)
        self.endpoint = f"http://127.0.0.1:{self._door.server_address[1]}"
        threading.Thread(target=self._door.serve_forever, daemon=True).start()
        self.files = s3fs.S3FileSystem(
            key="key",
            secret=SECRET,
            endpoint_url=f"http://{self.behind[0]}:{self.behind[1]}",
            client_kwargs={"region_name": "us-east-1"},
            use_listings_cache=False,
            skip_instance_cache=True,
        )

    def stop(self) -> None:
        self.released.set()
        self._door.shutdown()
        self._door.server_close()
        self._moto.stop()


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    made = Store()
    yield made
    made.stop()


@pytest.fixture
def bucket(store: Store) -> Iterator[str]:
    """A bucket with parts of a month."""
    name = f"exports-{next(_numbers)}"
    store.files.call_s3("create_bucket", Bucket=name)
    for key, content in {
        "daily/day=1/part-0.parquet": b"one",
        "daily/day=2/part-0.parquet": b"twotwo",
        "daily/day=2/part-1.parquet": b"three",
        "daily/day=2/_SUCCESS": b"",
        "daily/whole.csv": b"period\n1\n",
        "secret/part-0.parquet": b"secret",
    }.items():
        store.files.pipe_file(f"{name}/{key}", content)
    store.faults.clear()
    store.asked.clear()
    yield name
    store.faults.clear()


@pytest.fixture
def setting(
    database: Database, tmp_path: Path, store: Store, bucket: str
) -> Callable[..., Settings]:
    def make(**values: Any) -> Settings:
        place = {"url": f"s3://{bucket}/daily/", "endpoint": store.endpoint, "region": "us-east-1"}
        given = {**place, "access_key": "key", "secret_key": SECRET, **values}
        return settings_for(database, tmp_path / "state", content_places=allowing(tmp_path, given))

    return make


def test_objects_and_patterns(setting: Callable[..., Settings], bucket: str) -> None:
    where, allowed = f"s3://{bucket}/daily", setting()
    assert fetched(allowed, f"{where}/whole.csv") == (b"period\n1\n", [9], "csv")
    assert fetched(allowed, f"{where}/day=2/*.parquet") == (b"twotwothree", [6, 5], "parquet")
    assert fetched(allowed, f"{where}/*/part-?.parquet") == (
        b"onetwotwothree",
        [3, 6, 5],
        "parquet",
    )


def test_a_pattern_looks_through_so_many_names(
    setting: Callable[..., Settings], store: Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Page by page, and no further: a bucket may have billions of names, most of which a pattern
    does not fit."""
    for number in range(40):
        store.files.pipe_file(f"{bucket}/daily/many/x{number}.csv", b"x")
    store.files.pipe_file(f"{bucket}/daily/many/part-0.parquet", b"part")
    monkeypatch.setattr(buckets, "MOST_LOOKED_THROUGH", 30)
    assert fetched(setting(), f"s3://{bucket}/daily/many/part-*.parquet") == (
        b"part",
        [4],
        "parquet",
    )
    with pytest.raises(PlaceRefused, match="at most 30 names are searched"):
        fetched(setting(), f"s3://{bucket}/daily/many/*.parquet")
    with pytest.raises(PlaceRefused, match="at most 30 names are searched"):
        fetched(setting(), f"s3://{bucket}/daily/*/*.parquet")
    real = s3fs.S3FileSystem.call_s3

    def paged(self: Any, method: str, *rest: Any, **more: Any) -> Any:
        return real(
            self, method, *rest, **more, **({"MaxKeys": 7} if method == "list_objects_v2" else {})
        )

    monkeypatch.setattr(s3fs.S3FileSystem, "call_s3", paged)
    monkeypatch.setattr(buckets, "MOST_LOOKED_THROUGH", 1000)
    content, parts, _ = fetched(setting(), f"s3://{bucket}/daily/*/*.parquet")
    assert (sorted(parts), len(content)) == ([3, 4, 5, 6], 18)


@pytest.mark.parametrize("name", ["none.parquet", "day=3/*.parquet", "day=2", "*.parquet"])
def test_names_of_no_object(setting: Callable[..., Settings], bucket: str, name: str) -> None:
    with pytest.raises(PlaceRefused, match="there is no object of this name"):
        fetched(setting(), f"s3://{bucket}/daily/{name}")


@pytest.mark.parametrize(
    "name", ["secret/part-0.parquet", "*/part-0.parquet", "daily", "dail?/whole.csv"]
)
def test_names_beside_the_place(
    setting: Callable[..., Settings], store: Store, bucket: str, name: str
) -> None:
    with pytest.raises(PlaceRefused, match="no content is read from this address"):
        fetched(setting(), f"s3://{bucket}/{name}")
    assert not store.asked


@pytest.mark.parametrize("fault", ["throttled", "cut"])
def test_what_passes_is_waited_for(
    setting: Callable[..., Settings], store: Store, bucket: str, fault: str
) -> None:
    """A store that throttles, and an object that comes shorter than it is, are asked again."""
    store.faults[fault] = 1
    content, parts, _ = fetched(setting(), f"s3://{bucket}/daily/*/*.parquet")
    assert (content, parts) == (b"onetwotwothree", [3, 6, 5])
    assert store.faults[fault] == 0
    assert store.asked["GET"] >= 4


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("throttled", "does not answer, or with an error"),
        ("cut", "does not answer, or with an error|was shorter"),
        ("denied", "does not let this service in"),
        ("silent", "said nothing for"),
    ],
)
def test_what_does_not_pass(
    setting: Callable[..., Settings],
    store: Store,
    bucket: str,
    fault: str,
    why: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The owner is told of which kind it is; nobody is told credentials, bucket or name."""
    monkeypatch.setattr(buckets, "ATTEMPTS", 1)
    if fault == "silent":
        monkeypatch.setattr(buckets, "SILENT_SECONDS", 2.0)
    store.faults[fault] = 1000
    with pytest.raises(PlaceUnavailable, match=why) as refused:
        fetched(setting(), f"s3://{bucket}/daily/day=2/part-0.parquet")
    out, err = capfd.readouterr()
    assert "place failed" in out + err
    for secret in (SECRET, bucket, "day=2"):
        assert secret not in refused.value.detail + out + err


def test_a_store_that_is_away(
    setting: Callable[..., Settings], bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buckets, "ATTEMPTS", 1)
    with pytest.raises(PlaceUnavailable, match="does not answer"):
        fetched(setting(endpoint="http://127.0.0.1:9"), f"s3://{bucket}/daily/whole.csv")


def test_an_object_that_changes_while_it_is_read(
    setting: Callable[..., Settings], store: Store, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Upload.write

    def writing(self: Upload, part: memoryview | bytes) -> None:
        real(self, part)
        store.files.pipe_file(f"{bucket}/daily/whole.csv", b"period\n2\n")

    monkeypatch.setattr(Upload, "write", writing)
    with pytest.raises(ContentChanged):
        fetched(setting(), f"s3://{bucket}/daily/whole.csv")


def test_more_than_an_upload_may_have(
    setting: Callable[..., Settings], store: Store, bucket: str
) -> None:
    """The sizes are known before a byte is asked for."""
    small = setting().model_copy(update={"upload_bytes": 13})
    with pytest.raises(PayloadTooLarge):
        fetched(small, f"s3://{bucket}/daily/*/*.parquet")
