"""Who is removed, here or at the provider, is out within a second: pages, access tokens, open event
streams."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx
import psycopg
import pytest

from discreet.storage.database import libpq_url
from tests import bodies
from tests.conftest import DEADLINE_SECONDS, Installation, eventually
from tests.oidc.running import RunningProvider, Visitor, ask


@contextmanager
def second_process(trusted: Installation) -> Iterator[Installation]:
    """Another API on the same database."""
    other = Installation(trusted.settings, extra=dict(trusted.extra))
    other.start_api()
    try:
        yield other
    finally:
        other.stop()


class Stream:
    """An event stream that somebody holds open; `ended` is set when the service ends it."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.opened, self.ended = threading.Event(), threading.Event()
        self.ended_at = 0.0
        self._thread = threading.Thread(target=self._read, args=(url, headers), daemon=True)
        self._thread.start()
        assert self.opened.wait(DEADLINE_SECONDS)

    def _read(self, url: str, headers: dict[str, str]) -> None:
        with httpx.stream(
            "GET", url, headers=headers, timeout=DEADLINE_SECONDS, trust_env=False
        ) as answer:
            assert answer.status_code == 200, answer.read()
            for _ in answer.iter_lines():
                self.opened.set()
        self.ended_at = time.monotonic()
        self.ended.set()


def out(
    trusted: Installation, op: RunningProvider, login: str, remove: Callable[[str], None]
) -> float:
    """Everything that a person has ends by this removal, on two processes; the seconds until the
    last of it had."""
    subject = op.person(login, "dp-owners")
    token = op.mint(login)
    job = ask(
        trusted,
        token,
        "POST",
        json=bodies.federated(),
        headers={"Idempotency-Key": f"stream {login}"},
    )
    assert job.status_code == 202, job.text
    events = f"/jobs/{job.json()['id']}/events"
    with second_process(trusted) as other, Visitor(trusted) as visitor:
        assert visitor.log_in(login).status_code == 200
        assert visitor.status() == 200
        cookie = {"Cookie": f"discreet_session={visitor.own.cookies['discreet_session']}"}
        page = {**cookie, "Accept": "text/event-stream"}
        bearer = {"Authorization": f"Bearer {token}"}
        streams = [Stream(f"{one.url}/v1{events}", bearer) for one in (trusted, other)]
        streams += [Stream(f"{one.url}{events}", page) for one in (trusted, other)]
        assert not any(stream.ended.is_set() for stream in streams)
        begun = time.monotonic()
        remove(subject)
        # Without a word of anybody: what the processes have kept of the token is gone by notice.
        for one in (trusted, other):
            eventually(lambda one=one: ask(one, token).status_code == 401, "the access token ends")
            answer = httpx.get(
                f"{one.url}/jobs", headers={**cookie, "Accept": "text/html"}, trust_env=False
            )
            assert answer.status_code == 303
        for stream in streams:
            assert stream.ended.wait(DEADLINE_SECONDS), "an event stream stays open"
        return max(stream.ended_at for stream in streams) - begun


def test_removed_by_an_operator(trusted: Installation, op: RunningProvider) -> None:
    def remove(subject: str) -> None:
        with trusted.http(trusted.operator_key) as http:
            (person,) = http.get("/v1/people", params={"subject": subject}).json()["people"]
            assert http.delete(f"/v1/people/{person['id']}").status_code == 204

    print(f"all of it had ended after {out(trusted, op, 'rita', remove):.2f} s")
    refused = ask(trusted, op.mint("rita", claims={"jti": "new"}))
    assert (refused.status_code, refused.json()["code"]) == (401, "person_removed")
    trusted.owner_of("south")  # nor in a tenant where they never were
    elsewhere = ask(trusted, op.mint("rita", claims={"groups": ["dp/south/owner"]}))
    assert (elsewhere.status_code, elsewhere.json()["code"]) == (401, "person_removed")
    with Visitor(trusted) as visitor:
        page = visitor.log_in("rita")
        assert (page.status_code, "was removed here" in page.text) == (401, True)
        assert visitor.status() == 303
    said = {"subject": "sub-of-rita", "active": True}
    with trusted.http() as owner:  # what an operator has removed, no owner brings back
        assert owner.put("/v1/people", json=said).status_code == 403
    with trusted.http(trusted.operator_key) as http:
        old = op.mint("rita", claims={"iat": int(time.time()) - 600})
        assert http.put("/v1/people", json=said).status_code == 200
        assert http.put("/v1/people", json=said).json()["code"] == "not_found"
    # What was before the removal stays ended.
    assert ask(trusted, old).json()["code"] == "token_ended"
    later = op.mint("rita", claims={"iat": int(time.time()) + 5})
    assert ask(trusted, later).status_code == 200


def test_disabled_at_the_provider(trusted: Installation, op: RunningProvider) -> None:
    def disable(subject: str) -> None:
        assert op.control(disable="dirk")["statuses"] == [200]

    print(f"all of it had ended after {out(trusted, op, 'dirk', disable):.2f} s")
    with Visitor(trusted) as visitor:
        page = visitor.log_in("dirk")
        assert (page.status_code, "access_denied" in page.text) == (401, True)
    with trusted.http() as owner:
        (entry,) = owner.get("/v1/audit-log", params={"action": "login.end_by_provider"}).json()[
            "changes"
        ][:1]
    assert (entry["issuer"], entry["subject"]) == (op.issuer, "sub-of-dirk")


def test_an_owner_removes_from_the_own_tenant_only(
    trusted: Installation, op: RunningProvider
) -> None:
    key = trusted.owner_of("west")
    op.person("wanda", "dp/west/analyst")
    assert ask(trusted, op.mint("wanda")).status_code == 200
    with trusted.http(key) as west:
        assert (
            west.put("/v1/people", json={"subject": "sub-of-wanda", "active": False}).status_code
            == 200
        )
        assert ask(trusted, op.mint("wanda")).json()["code"] == "person_removed"
        assert ask(trusted, op.mint("wanda", claims={"groups": ["dp-analysts"]})).status_code == 200
        assert (
            west.put("/v1/people", json={"subject": "sub-of-wanda", "active": True}).status_code
            == 200
        )


def test_somebody_who_never_came_can_be_removed(trusted: Installation, op: RunningProvider) -> None:
    """As a SCIM client would: the person is known by the provider's name alone."""
    op.person("nina", "dp-analysts")
    with trusted.http(trusted.operator_key) as http:
        assert (
            http.put("/v1/people", json={"subject": "sub-of-nina", "active": False}).status_code
            == 200
        )
        assert ask(trusted, op.mint("nina")).json()["code"] == "person_removed"
        wrong = http.put("/v1/people", json={"subject": "sub-of-nina"})
        assert (wrong.status_code, wrong.json()["errors"][0]["pointer"]) == (422, "/active")


FORGED = (
    {"aud": "another client"},
    {"events": {}},
    {"events": "http://schemas.openid.net/event/backchannel-logout"},
    {"nonce": "n"},
    {"sub": None, "sid": None},
    {"sub": "a\0b"},
    {"sub": None, "sid": "\0"},
    {"iss": "https://login.evil.example"},
    {"exp": int(time.time()) - 600},
)


def test_forged_announcements_end_nothing(trusted: Installation, op: RunningProvider) -> None:
    op.person("felix", "dp-analysts")
    with Visitor(trusted) as visitor:
        assert visitor.log_in("felix").status_code == 200
        event = {"http://schemas.openid.net/event/backchannel-logout": {}}
        good = {"aud": "discreet", "events": event, "groups": None, "client_id": None}
        tokens = [
            op.mint("felix", claims={**good, **wrong}, header={"typ": "logout+jwt"})
            for wrong in FORGED
        ]
        tokens += [
            op.mint("felix", claims=good, header={"typ": "logout+jwt"}, key="foreign"),
            op.mint("felix", claims=good, header={"typ": "logout+jwt"}, key="none"),
            op.mint("felix", claims=good, header={"typ": "at+jwt"}),
            op.mint("felix"),
            "",
        ]
        for token in tokens:
            answer = httpx.post(
                f"{trusted.url}/sign-in/ended", data={"logout_token": token}, trust_env=False
            )
            assert answer.status_code == 400, answer.text
        assert visitor.status() == 200
        old = op.mint(
            "felix", claims={**good, "iat": int(time.time()) - 3000}, header={"typ": "logout+jwt"}
        )
        answer = httpx.post(
            f"{trusted.url}/sign-in/ended", data={"logout_token": old}, trust_env=False
        )
        assert answer.status_code == 200  # it ends what there was then: nothing of now
        assert visitor.status() == 200


def test_the_audit_log_is_append_only(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    assert ask(
        trusted, op.mint("ada"), "POST", "/v1/keys", json={"role": "auditor", "principal": "x"}
    ).is_success
    settings = trusted.settings
    assert settings.database_url is not None
    assert settings.migration_database_url is not None
    denied = "42501"
    for url, state in ((settings.database_url, denied), (settings.migration_database_url, "DL005")):
        for statement in (
            b"UPDATE audit_log SET principal = 'nobody'",
            b"DELETE FROM audit_log",
            b"TRUNCATE audit_log",
        ):
            with psycopg.connect(libpq_url(url), autocommit=True) as connection:
                connection.execute("SET discreet.tenant = '*'")
                with pytest.raises(psycopg.Error) as refused:
                    connection.execute(statement)
                assert refused.value.sqlstate == state


def test_every_change_is_noted_with_who_made_it(trusted: Installation, op: RunningProvider) -> None:
    op.person("ines", "dp-owners")
    op.person("udo", "dp-auditors")
    token = op.mint("ines")

    def did(method: str, path: str, status: int, **body: object) -> dict[str, object]:
        answer = ask(trusted, token, method, path, **({"json": body} if body else {}))
        assert answer.status_code == status, answer.text
        return dict(answer.json()) if answer.content else {}

    dataset = did("POST", "/v1/datasets", 201, **bodies.dataset())
    account = dataset["account"]
    did("POST", f"/v1/budgets/{account}/grants", 200, cap={"epsilon": 2, "delta": 0}, reason="more")
    did(
        "POST",
        "/v1/caps",
        201,
        scope="principal",
        principal="somebody",
        cap={"epsilon": 1, "delta": 0},
        reason="cap",
    )
    key = did("POST", "/v1/keys", 201, role="analyst", principal="made here")
    did("DELETE", f"/v1/keys/{key['id']}", 204)
    network = did("POST", "/v1/networks", 201, name="Roads", network=bodies.network())
    did("DELETE", f"/v1/networks/{network['id']}", 204)
    assert ask(trusted, token, "DELETE", f"/v1/datasets/{dataset['id']}").is_success
    with Visitor(trusted) as visitor:
        visitor.log_in("ines")
    noted = ask(
        trusted, op.mint("udo"), path="/v1/audit-log", params={"by": f"{op.issuer}#sub-of-ines"}
    ).json()
    assert [one["action"] for one in noted["changes"]] == [
        "login.provider",
        "dataset.erase",
        "object.remove",
        "object.add",
        "key.revoke",
        "key.create",
        "cap.set",
        "cap.grant",
        "dataset.register",
    ]
    assert {(one["issuer"], one["subject"], one["role"]) for one in noted["changes"]} == {
        (op.issuer, "sub-of-ines", "owner")
    }
    assert "trips" not in json.dumps(noted)
    auditor = op.mint("udo")
    page = ask(trusted, auditor, path="/v1/audit-log", params={"page_size": 1}).json()
    next_page = {"page_size": 1, "page_token": page["next_page_token"]}
    after = ask(trusted, auditor, path="/v1/audit-log", params=next_page).json()
    assert after["changes"][0]["id"] < page["changes"][0]["id"]
    op.person("anna", "dp-analysts")
    assert ask(trusted, op.mint("anna"), path="/v1/audit-log").status_code == 403
