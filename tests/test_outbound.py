"""The client for calls to other servers: whatever they answer is one family of errors, and what
they may not reach is not asked."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from discreet import outbound
from discreet.ledger.checkpoints import Checkpoint, Verifier
from discreet.outbound import Asks, OutboundError, Reach
from discreet.usecases import cosigning
from discreet.usecases.oidc.tokens import Provider, ProviderUnavailable
from discreet.witness.remote import LogUnreadable, RemoteLog
from tests.api.test_places_web import serve

LOOSE = Reach("private", http=True)
SHORT = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


def redirecting(location: bytes) -> bytes:
    return b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\nContent-Length: 0\r\n\r\n"


@contextmanager
def answering(answer: bytes, then: bytes = b"", every: float = 0.0) -> Iterator[str]:
    """A server that sends these bytes to whoever connects, and then others for as long as they are
    taken; its address."""
    server = socket.create_server(("127.0.0.1", 0))
    ends = threading.Event()

    def one(connection: socket.socket) -> None:
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(answer)
                while then and not ends.is_set():
                    connection.sendall(then)
                    time.sleep(every)
            except OSError:
                pass

    def work() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            threading.Thread(target=one, args=(connection,), daemon=True).start()

    threading.Thread(target=work, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/x"
    finally:
        ends.set()
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def asked(url: str, reach: Reach = LOOSE, silent: float = 2.0) -> outbound.Answer:
    return asyncio.run(outbound.fetch(Asks("GET", url, silent_seconds=silent), reach, 1000, 5))


LOCATIONS = (
    b"javascript:alert(1)",
    b"data:text/html,x",
    b"https://[",
    b"http://a:b:c:99999999/",
    b"//" + b"a" * 70_000,
    b"\xff\xfe",
    b"mailto:x@y",
    b"http://\xc3\xa4.example/%zz",
)


@pytest.mark.parametrize("location", LOCATIONS, ids=range(len(LOCATIONS)))
def test_a_redirect_is_an_answer_and_nothing_else(location: bytes) -> None:
    """`javascript:` raised `httpx.InvalidURL`, which is none of httpx's errors of HTTP."""
    with answering(redirecting(location)) as url:
        answer = asked(url)
    assert answer.status == 302
    assert answer.location


NO_ANSWERS: dict[str, tuple[bytes, bytes, float, type[OutboundError]]] = {
    "nothing": (b"", b"", 0, outbound.BrokenOff),
    "no HTTP": (b"220 mail.example ESMTP\r\n", b"", 0, outbound.BrokenOff),
    "half a head": (b"HTTP/1.1 200 OK\r\nContent-", b"", 0, outbound.BrokenOff),
    "half a body": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"",
        0,
        outbound.BrokenOff,
    ),
    "head for ever": (
        b"HTTP/1.1 200 OK\r\n",
        b"X: " + b"y" * 8000 + b"\r\n",
        0,
        outbound.BrokenOff,
    ),
    "head byte by byte": (b"HTTP/1.1 200 OK\r\nX: ", b"y", 0.1, outbound.NotInTime),
    "hints for ever": (
        b"",
        b"HTTP/1.1 103 Early Hints\r\n\r\n",
        0.05,
        outbound.NotInTime,
    ),
    "body for ever": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"4\r\naaaa\r\n",
        0,
        outbound.AnswerRefused,
    ),
    "no chunk": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
        0,
        outbound.BrokenOff,
    ),
    "compressed": (
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nzz",
        b"",
        0,
        outbound.AnswerRefused,
    ),
    "two lengths": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nzz",
        b"",
        0,
        outbound.BrokenOff,
    ),
}


@pytest.mark.parametrize("name", NO_ANSWERS)
def test_whatever_is_no_answer_is_of_one_family(name: str) -> None:
    first, then, every, error = NO_ANSWERS[name]
    with answering(first, then, every) as url, pytest.raises(error) as told:
        asked(url, silent=0.3)
    assert url not in str(told.value)
    assert "127.0.0.1" not in str(told.value)


def test_nobody_there_and_no_such_name() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(outbound.NoConnection):
            asked(f"http://127.0.0.1:{closed.getsockname()[1]}/")
    with pytest.raises(outbound.NameUnknown):
        asked("http://nowhere.invalid/")


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "ftp://example.org/",
        "http://example.org/ x",
        "http://",
        "https://user@example.org/",
        "https://@example.org/",
        "https://example.org/#x",
        "https://example.org:99999/",
        "https://[::1",
        "https://ä.example/",
        "https://" + "a" * 70 + ".example/",
        "https://169.254.169.254/latest/meta-data",
        "https://[fd00:ec2::254]/",
        "https://100.100.100.200/latest/meta-data",
        "https://168.63.129.16/machine",
        "https://0.0.0.0/",
    ],
)
def test_what_is_not_asked(url: str) -> None:
    with pytest.raises(outbound.AddressRefused):
        asked(url)


def test_two_names_at_one_address_are_two_servers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A connection to the one, whose certificate was checked, is not used for the other: a client
    with a pool keeps them by IP address, and sent a webhook of `third.test` to `data.test`."""
    http, known = serve(tmp_path)

    async def look(_: Any, host: str, port: int, **__: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", look)

    async def both() -> None:
        for name, there in (("data.test", True), ("third.test", False)):
            asks = Asks("GET", f"https://{name}:{known.port}/rows", authority=known.certificate)
            if there:
                assert (await outbound.fetch(asks, LOOSE, 1000, 5)).status == 200
            else:
                with pytest.raises(outbound.CertificateRefused):
                    await outbound.fetch(asks, LOOSE, 1000, 5)

    try:
        asyncio.run(both())
    finally:
        http.shutdown()
        http.server_close()


# Who uses it --------------------------------------------------------------------------------------


def _provider(url: str) -> None:
    configuration = SimpleNamespace(issuer=url, authorities=None)
    with pytest.raises(ProviderUnavailable):
        asyncio.run(Provider(cast(Any, configuration)).ask("GET", url))


def _log(url: str) -> None:
    with pytest.raises(LogUnreadable):
        RemoteLog(url).checkpoint()


def _witness(url: str, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether it has cosigned."""

    class Connection:
        async def __aenter__(self) -> None: ...

        async def __aexit__(self, *_: object) -> None: ...

    async def newest(_: object) -> tuple[int, str]:
        return 1, "note"

    async def last(_: object, name: str) -> int:
        return 0

    async def tiles(*_: object) -> dict[Any, Any]:
        return {}

    checkpoint = SimpleNamespace(size=1)
    monkeypatch.setattr(cosigning.leaves, "newest", newest)
    monkeypatch.setattr(cosigning.leaves, "last_cosigned", last)
    monkeypatch.setattr(cosigning.leaves, "tiles", tiles)
    monkeypatch.setattr(cosigning, "read_checkpoint", lambda _: cast(Checkpoint, checkpoint))
    monkeypatch.setattr(cosigning, "request_text", lambda *_: "text")
    services = SimpleNamespace(database=SimpleNamespace(transaction=lambda *_, **__: Connection()))
    verifier = cast(Verifier, SimpleNamespace(name="w"))
    asked_of = [cosigning.Address(verifier, url)]
    return asyncio.run(cosigning.collect(cast(Any, services), asked_of))


@pytest.mark.parametrize("answer", [redirecting(b"javascript:x"), b"", b"junk\r\n\r\n"])
def test_providers_logs_and_witnesses_that_answer_badly(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(answer) as url:
        _provider(url)
        _log(url)
        assert _witness(url, monkeypatch) is False


def test_what_a_provider_answers() -> None:
    with answering(SHORT.replace(b"{}", json.dumps({}).encode())) as url:
        configuration = SimpleNamespace(issuer=url, authorities=None)
        assert asyncio.run(Provider(cast(Any, configuration)).ask("GET", url)) == (200, {})
