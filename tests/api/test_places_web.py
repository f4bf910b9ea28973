"""Contents that an HTTPS server has: what is fetched, and where a name or a redirect cannot
lead."""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from discreet import outbound
from discreet.errors import PayloadTooLarge
from discreet.settings import Settings
from discreet.usecases.places import web
from discreet.usecases.places.rules import PlaceRefused, PlaceUnavailable
from discreet.usecases.rpc_tls import self_signed
from tests.conftest import settings_for
from tests.places import allowing, fetched, parquet, trips
from tests.postgres_fixture import Database

CONTENT = parquet(trips())
SECRET = "Bearer tr0ub4dor"


@dataclass
class Server:
    """An HTTPS server on loopback, and what it was asked."""

    port: int
    certificate: Path
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    """Host, path and authorization of each request."""
    busy: Counter[str] = field(default_factory=Counter)
    """How often a path is still to be answered that the server is too busy."""
    leads: dict[str, str] = field(default_factory=dict)


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            server.asked.append(
                (self.headers["Host"], self.path, self.headers.get("Authorization"))
            )
            name = path.rpartition("/")[2]
            if server.busy[path] > 0:
                server.busy[path] -= 1
                self.reply(503, b"", {"Retry-After": "0"})
            elif path in server.leads:
                self.reply(302, b"", {"Location": server.leads[path]})
            elif name == "whole.parquet":
                self.reply(200, CONTENT)
            elif name == "rows":
                self.reply(200, b"period,origin\n", {"Content-Type": "text/csv; charset=utf-8"})
            elif name == "cut.parquet":
                self.reply(200, CONTENT[:100], {"Content-Length": str(len(CONTENT))})
            elif name == "squeezed.parquet":
                self.reply(200, gzip.compress(CONTENT), {"Content-Encoding": "gzip"})
            elif name == "endless.parquet":
                self.send_response(200)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while True:
                    self.wfile.write(b"10000\r\n" + bytes(65536) + b"\r\n")
            else:
                self.reply({"denied.parquet": 403, "broken.parquet": 500}.get(name, 404), b"")

        def reply(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
            self.send_response(status)
            for key, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def serve(
    folder: Path, host: str = "127.0.0.1", port: int = 0
) -> tuple[ThreadingHTTPServer, Server]:
    certificate, key = folder / "server.crt", folder / "server.key"
    if not certificate.exists():
        for path, text in zip(
            (certificate, key), self_signed(("data.test", "other.test", "localhost")), strict=True
        ):
            path.write_bytes(text)
    known = Server(port, certificate)

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Clients that go away are what these tests are about."""

    http = Quiet((host, port), handler(known))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    http.socket = context.wrap_socket(http.socket, server_side=True, do_handshake_on_connect=False)
    known.port = http.server_address[1]
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http, known


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    http, known = serve(tmp_path)
    yield known
    http.shutdown()
    http.server_close()


Names = dict[str, list[list[str]]]
"""What each look-up of a name answers, one after the other; the last one again and again."""


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """The names that there are; all others, and addresses, are as ever."""
    known: Names = {"data.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}
    real = asyncio.base_events.BaseEventLoop.getaddrinfo

    async def getaddrinfo(self: Any, host: str, port: int, **more: Any) -> Any:
        if host not in known:
            return await real(self, host, port, **more)
        found = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in found]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return known


@pytest.fixture
def setting(
    database: Database, tmp_path: Path, server: Server, names: Names
) -> Callable[..., Settings]:
    """Settings that allow `https://data.test:PORT/exports/`, with what else is given."""

    def make(*others: dict[str, Any], **values: Any) -> Settings:
        place = {
            "url": f"https://data.test:{server.port}/exports/",
            "authority": str(server.certificate),
        }
        return settings_for(
            database,
            tmp_path / "state",
            content_places=allowing(tmp_path, {**place, "private": True, **values}, *others),
        )

    return make


def address(server: Server, path: str, host: str = "data.test") -> str:
    return f"https://{host}:{server.port}{path}"


def test_what_a_server_has(setting: Callable[..., Settings], server: Server) -> None:
    """With its name, whatever the address, and its credentials."""
    allowed = setting(authorization=SECRET)
    content, parts, form = fetched(allowed, address(server, "/exports/whole.parquet?signature=x"))
    assert (content, parts, form) == (CONTENT, [len(CONTENT)], "parquet")
    assert fetched(allowed, address(server, "/exports/rows"))[2] == "csv"
    host = f"data.test:{server.port}"
    assert server.asked == [
        (host, "/exports/whole.parquet?signature=x", SECRET),
        (host, "/exports/rows", SECRET),
    ]


@pytest.mark.parametrize(
    "address_of_it",
    [
        *(
            "127.0.0.1",
            "10.0.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.100.100.200",
            "0.0.0.0",
            "::1",
            "::ffff:127.0.0.1",
        ),
        *(
            "64:ff9b::a9fe:a9fe",
            "fd00:ec2::254",
            "fe80::1",
            "fc00::1",
            "2002:7f00:1::",
            "224.0.0.1",
        ),
    ],
)
def test_names_that_lead_into_other_networks(
    setting: Callable[..., Settings], server: Server, names: Names, address_of_it: str
) -> None:
    """Nothing is asked there, also where a public address stands beside it."""
    names["data.test"] = [["8.8.8.8", address_of_it]]
    with pytest.raises(PlaceRefused, match=r"this address (leads into a network|is link-local)"):
        fetched(setting(private=False), address(server, "/exports/whole.parquet"))
    assert server.asked == []


@pytest.mark.parametrize(
    "address_of_it",
    [
        *("169.254.169.254", "fe80::1", "fd00:ec2::254", "::ffff:169.254.169.254", "0.0.0.0"),
        *("100.100.100.200", "::ffff:100.100.100.200", "168.63.129.16", "192.0.0.192"),
    ],
)
def test_where_clouds_keep_credentials_no_place_leads(
    setting: Callable[..., Settings], server: Server, names: Names, address_of_it: str
) -> None:
    names["data.test"] = [[address_of_it]]
    with pytest.raises(PlaceRefused, match="this address is link-local"):
        fetched(setting(private=True), address(server, "/exports/whole.parquet"))


def test_the_address_that_was_checked_is_the_one_that_is_asked(
    setting: Callable[..., Settings],
    server: Server,
    names: Names,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A name that leads elsewhere a moment later (DNS rebinding) leads nobody there."""
    other, stranger = serve(tmp_path, "127.0.0.2", server.port)
    try:
        monkeypatch.setattr(outbound, "is_public", lambda one: one == "127.0.0.1")
        names["data.test"] = [["127.0.0.1"], ["127.0.0.2"]]
        allowed = setting(private=False)
        assert fetched(allowed, address(server, "/exports/whole.parquet"))[0] == CONTENT
        assert (len(server.asked), len(stranger.asked)) == (1, 0)
        with pytest.raises(
            PlaceRefused, match="leads into a network"
        ):  # the second look-up is checked as the first
            fetched(allowed, address(server, "/exports/whole.parquet"))
        assert stranger.asked == []
    finally:
        other.shutdown()
        other.server_close()


@pytest.mark.parametrize(
    ("leads", "why"),
    [
        ("https://data.test:{port}/secret/whole.parquet", "no content is read from this address"),
        ("/secret/whole.parquet", "no content is read from this address"),
        ("/exports/../secret/whole.parquet", "no content is read from this address"),
        (
            "/exports/%2e%2e/secret/whole.parquet",
            "the server redirects to an address from which nothing may be read",
        ),
        ("https://other.test:{port}/exports/whole.parquet", "no content is read from this address"),
        ("http://data.test:{port}/exports/whole.parquet", "the server redirects to an address"),
        (
            "https://user:pass@data.test:{port}/exports/whole.parquet",
            "the server redirects to an address",
        ),
        ("file:///etc/passwd", "no content is read from this address"),
        ("https://[", "the server redirects to an address"),
        ("javascript:alert(1)", "the server redirects to an address"),
        ("https://a:b:c", "the server redirects to an address"),
        ("", "redirects more than 5 times"),
        ("/exports/first.parquet", "redirects more than 5 times"),
    ],
)
def test_redirects_lead_nowhere_that_was_not_allowed(
    setting: Callable[..., Settings], server: Server, leads: str, why: str
) -> None:
    server.leads["/exports/first.parquet"] = leads.format(port=server.port)
    with pytest.raises(PlaceRefused, match=why):
        fetched(setting(), address(server, "/exports/first.parquet"))
    assert {path for _, path, _ in server.asked} == {"/exports/first.parquet"}


def test_redirects_within_what_is_allowed(
    setting: Callable[..., Settings], server: Server, names: Names
) -> None:
    """To another place of the same owner they go without the first one's credentials; each is
    looked up anew."""
    server.leads["/exports/first.parquet"] = f"https://other.test:{server.port}/store/whole.parquet"
    other = {
        "url": f"https://other.test:{server.port}/store/",
        "authority": str(server.certificate),
    }
    allowed = setting({**other, "private": True}, authorization=SECRET)
    assert fetched(allowed, address(server, "/exports/first.parquet"))[0] == CONTENT
    assert [(path, secret) for _, path, secret in server.asked] == [
        ("/exports/first.parquet", SECRET),
        ("/store/whole.parquet", None),
    ]
    with pytest.raises(PlaceRefused, match="leads into a network"):
        fetched(setting(other), address(server, "/exports/first.parquet"))


@pytest.mark.parametrize(
    ("name", "error", "why"),
    [
        ("none.parquet", PlaceRefused, "has nothing at this address"),
        ("denied.parquet", PlaceUnavailable, "does not let this service in"),
        ("broken.parquet", PlaceUnavailable, "status 500"),
        ("squeezed.parquet", PlaceUnavailable, "compressed"),
        ("cut.parquet", PlaceUnavailable, "before all content came"),
    ],
)
def test_servers_that_do_not_give_it(
    setting: Callable[..., Settings], server: Server, name: str, error: type[Exception], why: str
) -> None:
    with pytest.raises(error, match=why):
        fetched(setting(), address(server, f"/exports/{name}"))


def test_a_server_that_is_busy_is_asked_again(
    setting: Callable[..., Settings], server: Server, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/exports/whole.parquet"
    server.busy[path] = web.ATTEMPTS - 1
    assert fetched(setting(), address(server, path))[0] == CONTENT
    assert len(server.asked) == web.ATTEMPTS
    server.busy[path] = web.ATTEMPTS
    with pytest.raises(PlaceUnavailable, match="too busy"):
        fetched(setting(), address(server, path))
    names["data.test"] = [["127.0.0.9", "127.0.0.1"]]  # one of its addresses is dead
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.01)
    assert fetched(setting(), address(server, path))[0] == CONTENT


def test_a_server_that_sends_too_slowly_is_not_waited_for(
    setting: Callable[..., Settings], server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbound, "SLOW_BYTES", 1e15)
    assert fetched(setting(), address(server, "/exports/whole.parquet"))[0] == CONTENT
    monkeypatch.setattr(outbound, "SLOW_SECONDS", 0.0)
    with pytest.raises(PlaceUnavailable, match="too slowly"):
        fetched(setting(), address(server, "/exports/whole.parquet"))


def test_more_than_an_upload_may_have(setting: Callable[..., Settings], server: Server) -> None:
    """What says its size is not even read; what does not is read to the limit."""
    small = setting().model_copy(update={"upload_bytes": len(CONTENT) - 1})
    for name in ("whole.parquet", "endless.parquet"):
        with pytest.raises(PayloadTooLarge, match="bytes"):
            fetched(small, address(server, f"/exports/{name}"))


def test_the_certificate_must_be_that_of_the_name(
    setting: Callable[..., Settings], server: Server, names: Names
) -> None:
    names["third.test"] = [["127.0.0.1"]]
    place = {
        "url": f"https://third.test:{server.port}/",
        "authority": str(server.certificate),
        "private": True,
    }
    with pytest.raises(PlaceUnavailable, match="the server's certificate"):
        fetched(setting(place), address(server, "/whole.parquet", "third.test"))
    stranger = {
        "url": f"https://other.test:{server.port}/",
        "private": True,
    }  # signed by nobody known
    with pytest.raises(PlaceUnavailable, match="the server's certificate"):
        fetched(setting(stranger), address(server, "/whole.parquet", "other.test"))


def test_no_error_and_no_log_tells_an_address(
    setting: Callable[..., Settings],
    server: Server,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be signed, which makes it a credential; the operator's are none of an owner's business
    either."""
    monkeypatch.setattr(web, "LONGEST_PAUSE_SECONDS", 0.01)
    caplog.set_level(logging.DEBUG)
    told = []
    for name in ("none.parquet", "denied.parquet", "cut.parquet", "whole.parquet"):
        try:
            fetched(
                setting(authorization=SECRET), address(server, f"/exports/{name}?signature=s1gned")
            )
        except (PlaceRefused, PlaceUnavailable) as error:
            told += [str(error), error.detail]
    assert told
    out, err = capfd.readouterr()
    everything = "\n".join([*told, out, err])
    assert "content fetched" in everything
    for secret in ("s1gned", "tr0ub4dor", "data.test"):
        assert secret not in everything
