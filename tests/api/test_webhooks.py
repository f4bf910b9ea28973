"""Webhooks: what is told, how it is signed, that it comes, and where it never goes."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import http.server
import ipaddress
import json
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from discreet.outbound import AddressRefused, is_allowed_port, is_public, resolve
from discreet.settings import Settings
from discreet.usecases import webhooks
from discreet.usecases.services import open_services
from discreet_client.client import ApiError
from tests import bodies
from tests.conftest import Installation, eventually


@dataclass
class Receiver:
    """A web server of somebody who is told."""

    url: str = ""
    messages: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    """What the next answers are; 204 when there is none left."""

    def of(self, event: str) -> list[tuple[dict[str, str], dict[str, Any]]]:
        found = [(head, json.loads(body)) for head, body in self.messages]
        return [(head, body) for head, body in found if body["type"] == event]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    told = Receiver()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.messages.append(
                ({name.lower(): value for name, value in self.headers.items()}, body)
            )
            self.send_response(told.statuses.pop(0) if told.statuses else 204)
            self.send_header("Location", f"{told.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def do_GET(self) -> None:
            told.messages.append(({"path": self.path}, b'{"type": "followed"}'))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    told.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield told
    server.shutdown()
    thread.join()
    server.server_close()


ALL = ["job.finished", "job.failed", "job.cancelled", "budget.exhausted"]


def hook(running: Installation, url: str, *events: str, **values: Any) -> dict[str, Any]:
    with running.http() as client:
        answer = client.post(
            "/v1/webhooks", json={"url": url, "events": list(events) or ALL, **values}
        )
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def shown(running: Installation, webhook_id: str) -> dict[str, Any]:
    with running.http() as client:
        (found,) = [
            one for one in client.get("/v1/webhooks").json()["webhooks"] if one["id"] == webhook_id
        ]
    assert "secret" not in found
    return dict(found)


def remove(running: Installation, webhook_id: str) -> None:
    with running.http() as client:
        assert client.delete(f"/v1/webhooks/{webhook_id}").status_code == 204
        assert client.delete(f"/v1/webhooks/{webhook_id}").status_code == 404


def test_the_standards_own_example() -> None:
    """The example of the Standard Webhooks specification's reference libraries."""
    found = webhooks.signature(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        1614265330,
        '{"test": 2432232314}',
    )
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_the_end_of_every_job_is_told_and_nothing_more(
    stored: Installation, receiver: Receiver
) -> None:
    made = hook(stored, f"{receiver.url}/told?by=discreet")
    with stored.client() as client:
        dataset = client.register(bodies.dataset(epsilon=0.15))
        done = client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        for _ in range(2):
            with pytest.raises(ApiError) as refused:
                client.submit(bodies.job(dataset["id"]))
            assert refused.value.problem["code"] == "budget_exhausted"
        other = client.register(bodies.dataset())
        (stored.settings.state / "objects" / other["id"]).unlink()
        failed = client.wait(client.submit(bodies.job(other["id"]))["id"])
        for worker in stored.workers:
            worker.send_signal(signal.SIGSTOP)
        cancelled = client.submit(bodies.job(other["id"]))
        client.cancel(cancelled["id"])
        for worker in stored.workers:
            worker.send_signal(signal.SIGCONT)
        expected = {
            "job.finished": {"job": done["id"], "kind": "routing", "state": "succeeded"},
            "job.failed": {"job": failed["id"], "kind": "routing", "state": "failed"},
            "job.cancelled": {"job": cancelled["id"], "kind": "routing", "state": "cancelled"},
            "budget.exhausted": {"account": dataset["account"], "scope": "data"},
        }
        eventually(lambda: len(receiver.messages) >= 4, "all four are told")
    remove(stored, made["id"])
    key = base64.b64decode(made["secret"].removeprefix("whsec_"))
    assert len(key) == 32
    for event, data in expected.items():
        ((head, body),) = receiver.of(event)
        assert body == {"type": event, "timestamp": body["timestamp"], "data": data}
        (raw,) = [raw for told, raw in receiver.messages if told is head or told == head]
        signed = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + raw
        mac = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert head["webhook-signature"] == f"v1,{mac}"
        assert head["content-type"] == "application/json"
        assert head["host"] == receiver.url.removeprefix("http://")
    assert len({head["webhook-id"] for head, _ in receiver.messages}) == 4


def test_failed_deliveries_come_again_and_redirects_are_not_followed(
    stored: Installation, receiver: Receiver
) -> None:
    receiver.statuses += [500, 302]
    made = hook(stored, receiver.url, "job.cancelled")
    with stored.client() as client:
        for worker in stored.workers:
            worker.send_signal(signal.SIGSTOP)
        job = client.submit(bodies.job(client.register(bodies.dataset())["id"]))
        client.cancel(job["id"])
        for worker in stored.workers:
            worker.send_signal(signal.SIGCONT)
    eventually(lambda: len(receiver.messages) >= 3, "the third delivery")
    eventually(lambda: shown(stored, made["id"])["failing_since"] is None, "it came through")
    remove(stored, made["id"])
    assert len(receiver.messages) == 3
    assert {head["webhook-id"] for head, _ in receiver.messages} == {
        receiver.messages[0][0]["webhook-id"]
    }
    assert {body for _, body in receiver.messages} == {receiver.messages[0][1]}


def test_a_webhook_that_is_gone_is_told_no_more(stored: Installation, receiver: Receiver) -> None:
    receiver.statuses += [410]
    made = hook(stored, receiver.url, "job.finished")
    with stored.client() as client:
        dataset = client.register(bodies.dataset())
        client.wait(client.submit(bodies.job(dataset["id"]))["id"])
        eventually(lambda: shown(stored, made["id"])["disabled_at"], "it is disabled")
        assert shown(stored, made["id"])["last_error"] == "status_410"
        client.wait(client.submit(bodies.job(dataset["id"]))["id"])
    watching = hook(stored, receiver.url, "job.finished")
    with stored.client() as client:
        client.wait(client.submit(bodies.job(dataset["id"]))["id"])
    eventually(lambda: len(receiver.messages) >= 2, "the other webhook is told")
    assert len(receiver.messages) == 2
    for one in (made, watching):
        remove(stored, one["id"])


def test_a_webhook_that_fails_for_long_is_disabled(stored: Installation) -> None:
    """And a worker that dies with a message in its hands leaves it to the next."""

    async def run() -> None:
        changed = stored.settings.model_copy(
            update={"webhook_give_up_seconds": 1e-9, "webhook_seconds": 5}
        )
        async with open_services(changed) as services:
            sender = webhooks.Sender(services)
            for _ in range(2):
                async with services.database.transaction("*") as connection:
                    await connection.exec_driver_sql(
                        "UPDATE webhook_deliveries SET next_at = now()"
                    )
                assert await sender.take() == 1
                await asyncio.gather(*sender._under_way)
            assert await sender.take() == 0

    for worker in stored.workers:
        worker.send_signal(signal.SIGSTOP)
    try:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            made = hook(stored, f"http://127.0.0.1:{closed.getsockname()[1]}", "job.cancelled")
            with stored.client() as client:
                client.cancel(
                    client.submit(bodies.job(client.register(bodies.dataset())["id"]))["id"]
                )
            asyncio.run(run())
        found = shown(stored, made["id"])
        assert found["disabled_at"] is not None
        assert found["last_error"] == "no_connection"
        remove(stored, made["id"])
    finally:
        for worker in stored.workers:
            worker.send_signal(signal.SIGCONT)


def test_the_address_that_was_checked_is_the_one_that_is_called(
    stored: Installation, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that leads elsewhere at the second look: there is no second look."""
    port = receiver.url.rpartition(":")[2]
    looks: list[str] = []

    async def look(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        looks.append(host)
        address = "127.0.0.1" if len(looks) == 1 else "192.0.2.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", look)

    async def run() -> int:
        async with open_services(stored.settings) as services:
            sender = webhooks.Sender(services)
            from discreet.storage import sealing

            keys = services.secrets
            sealed = sealing.seal_whole(keys, "whk_1", b"whsec_" + base64.b64encode(bytes(24)))
            delivery = {
                "id": "evt_1",
                "webhook_id": "whk_1",
                "url": f"http://rebinding.example:{port}/x",
                "attempts": 1,
                "body": '{"type":"x"}',
                "content_key_id": keys.content_key_id,
                "sealed_secret": sealed,
            }
            return await sender._send(delivery)

    assert asyncio.run(run()) == 204
    assert looks == ["rebinding.example"]
    ((head, _),) = receiver.messages
    assert head["host"] == f"rebinding.example:{port}"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/",
        "ftp://example.org/",
        "https://",
        "https://user:word@192.0.9.1/",
        "https://192.0.9.1/#part",
        "https://192.0.9.1:99999/",
        "https://127.0.0.1/",
        "https://localhost/",
        "https://2130706433/",
        "https://0/",
        "https://10.1.2.3/",
        "https://172.16.0.1/",
        "https://192.168.0.1/",
        "https://100.64.0.1/",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/",
        "https://[fe80::1]/",
        "https://[fd00::1]/",
        "https://[::ffff:10.0.0.1]/",
        "https://[64:ff9b::7f00:1]/",
        "https://[2002:a00:1::]/",
        "https://224.0.0.1/",
        "https://8.8.8.8:22/",
        "https://8.8.8.8:0/",
        "https://8.8.8.8:5432/",
        "https://" + "a" * 70 + ".example/",
        "https://exam ple.org/",
    ],
)
def test_addresses_that_are_refused(api_only: Installation, url: str) -> None:
    with api_only.http() as client:
        answer = client.post("/v1/webhooks", json={"url": url, "events": ["job.finished"]})
    assert answer.status_code == 422, answer.text
    assert [issue["pointer"] for issue in answer.json()["errors"]] == ["/url"]


@pytest.mark.parametrize(
    "address",
    [
        "192.0.9.1",
        "11.0.0.1",
        "100.128.0.1",
        "223.255.255.1",
        "2a00::1",
        "2001:200::1",
        "2600:1f00::5efe:1",
        "64:ff9b::c000:901",
        "::ffff:8.8.8.8",
        "2a00:1:2:3:0:5efe:8.8.8.8",
    ],
)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


SPECIAL = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24
    192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24
    192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15
    198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32 ::1/128 ::/128 ::/96
    ::ffff:0:0:0/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128
    2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28
    2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3ffe::/16 3fff::/20 5f00::/16 fc00::/7
    fe80::/10 fec0::/10 ff00::/8 4000::/2 8000::/1 ::ffff:10.0.0.0/104 ::ffff:127.0.0.0/104
    64:ff9b::10.0.0.0/104 64:ff9b::169.254.0.0/112 2a00:1:2:3:0:5efe:10.0.0.0/104
    2a00:1:2:3:200:5efe:192.168.0.0/112 2a00:1:2:3:100:5efe:192.168.0.0/112 2002:808:808::/48
"""
"""What IANA's registries of special-purpose addresses hold (November 2026), what was deprecated and
what carries an IPv4 address from inside."""


@pytest.mark.parametrize("network", SPECIAL.split())
def test_special_addresses(network: str) -> None:
    found = ipaddress.ip_network(network)
    assert not is_public(str(found[0]))
    assert not is_public(str(found[-1]))


def test_an_address_of_a_link_is_not_public() -> None:
    assert not is_public("2a00::1%eth0")


@pytest.mark.parametrize(
    ("ports", "inside", "outside"),
    [
        ("80,443,8443", (80, 443, 8443), (0, 22, 444, 8444)),
        ("443,8000-8999", (443, 8000, 8999), (442, 7999, 9000)),
    ],
)
def test_ports(ports: str, inside: tuple[int, ...], outside: tuple[int, ...]) -> None:
    chosen = Settings(webhook_ports=ports).webhook_ports
    assert all(is_allowed_port(chosen, port) for port in inside)
    assert not any(is_allowed_port(chosen, port) for port in outside)


@pytest.mark.parametrize("ports", ["", "https", "443;80", "-1", "443,", "1-2-3"])
def test_ports_that_are_none(ports: str) -> None:
    with pytest.raises(ValueError, match="webhook_ports"):
        Settings(webhook_ports=ports)


def test_a_name_is_refused_when_one_of_its_addresses_is_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def look(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        assert port == 443
        families = {"8.8.8.8": socket.AF_INET, "5f00::1": socket.AF_INET6}
        return [
            (family, socket.SOCK_STREAM, 6, "", (address, port))
            for address, family in families.items()
        ]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", look)
    with pytest.raises(AddressRefused, match="not the public internet"):
        asyncio.run(resolve("example.org", 443, "public"))


def test_where_an_address_leads() -> None:
    assert asyncio.run(resolve("8.8.8.8", 8443, "public")) == ["8.8.8.8"]


def test_who_may_and_what(api_only: Installation) -> None:
    good = {"url": "https://8.8.8.8/", "events": ["job.failed", "job.failed"]}
    for role in ("analyst", "auditor", "operator"):
        with api_only.http(api_only.key_of(role)) as client:
            assert client.get("/v1/webhooks").status_code == 403
            assert client.post("/v1/webhooks", json=good).status_code == 403
            assert client.delete("/v1/webhooks/whk_1").status_code == 403
    own = "whsec_" + base64.b64encode(bytes(range(40))).decode()
    with api_only.http() as client:
        for other in client.get("/v1/webhooks").json()[
            "webhooks"
        ]:  # of tests that send whatever the contract allows
            remove(api_only, other["id"])
        made = client.post("/v1/webhooks", json={**good, "secret": own}).json()
        assert (made["secret"], made["events"]) == (own, ["job.failed"])
        for field_name, value in (
            ("events", []),
            ("events", ["job.exploded"]),
            ("secret", "whsec_AAAA"),
            ("secret", own.removeprefix("whsec_")),
            ("more", 1),
        ):
            answer = client.post("/v1/webhooks", json={**good, field_name: value})
            assert answer.status_code == 422
            assert answer.json()["errors"][0]["pointer"].startswith(f"/{field_name}")
        with api_only.client(api_only.operator_key) as operator:
            operator.create_tenant("listeners")
        with api_only.http(api_only.key_of("owner", "listeners")) as stranger:
            assert stranger.get("/v1/webhooks").json() == {"webhooks": []}
            assert stranger.delete(f"/v1/webhooks/{made['id']}").status_code == 404
        kept = [client.post("/v1/webhooks", json=good) for _ in range(webhooks.MOST)]
        assert [answer.status_code for answer in kept] == [201] * (webhooks.MOST - 1) + [409]
    remove(api_only, made["id"])
