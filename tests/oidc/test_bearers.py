"""Access tokens of the API: which count, which do not, and whose they are."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from tests import bodies
from tests.conftest import Installation, eventually
from tests.oidc.running import AUDIENCE, CLIENT, RunningProvider, ask

NOW = int(time.time())


def told(running: Installation, token: str, path: str = "/v1/jobs") -> tuple[int, str]:
    answer = ask(running, token, path=path)
    return answer.status_code, "" if answer.is_success else answer.json()["code"]


def test_a_person_does_what_the_claims_give(trusted: Installation, op: RunningProvider) -> None:
    subject = op.person("ada", "dp-owners")
    token = op.mint("ada")
    made = ask(
        trusted, token, "POST", "/v1/keys", json={"role": "auditor", "principal": "meter reader"}
    )
    assert made.status_code == 201, made.text
    assert "r=" in made.headers["ratelimit"]
    (person,) = ask(trusted, token, path=f"/v1/people?subject={subject}").json()["people"]
    assert (person["issuer"], person["role"], person["tenant"]) == (op.issuer, "owner", "default")
    assert (person["principal"], person["name"]) == (f"{op.issuer}#{subject}", "Ada")
    assert person["last_used_at"] is not None
    (entry,) = ask(trusted, token, path="/v1/audit-log?action=key.create&page_size=1").json()[
        "changes"
    ]
    assert (entry["issuer"], entry["subject"]) == (op.issuer, subject)
    assert (entry["principal"], entry["object"]) == (f"{op.issuer}#{subject}", made.json()["id"])
    # The same person with less: rights come from each token, and nothing is remembered of the last
    # one.
    op.person("ada", "dp-analysts")
    lesser = ask(
        trusted, op.mint("ada"), "POST", "/v1/keys", json={"role": "auditor", "principal": "x"}
    )
    assert (lesser.status_code, lesser.json()["code"]) == (403, "forbidden")
    assert "this person has the role analyst" in lesser.json()["detail"]


ATTACKS: list[tuple[str, dict[str, Any], str]] = [
    ("another audience", {"claims": {"aud": "https://payroll.example"}}, "token_invalid"),
    ("no audience", {"claims": {"aud": None}}, "token_invalid"),
    ("an audience that is no text", {"claims": {"aud": {AUDIENCE: True}}}, "token_invalid"),
    ("another issuer", {"claims": {"iss": "https://login.evil.example"}}, "token_invalid"),
    ("a longer issuer", {"claims": {"iss": "ISSUER/"}}, "token_invalid"),
    ("no issuer", {"claims": {"iss": None}}, "token_invalid"),
    ("expired", {"claims": {"exp": NOW - 120}}, "token_expired"),
    ("never expires", {"claims": {"exp": None}}, "token_invalid"),
    ("expires at no number", {"claims": {"exp": "tomorrow"}}, "token_invalid"),
    ("expires beyond all calendars", {"claims": {"exp": 10**30}}, "token_invalid"),
    ("made tomorrow", {"claims": {"iat": NOW + 86_400, "exp": NOW + 90_000}}, "token_invalid"),
    ("made at no time", {"claims": {"iat": None}}, "token_invalid"),
    ("not yet", {"claims": {"nbf": NOW + 3600}}, "token_invalid"),
    ("nobody's", {"claims": {"sub": None}}, "token_invalid"),
    ("two people's", {"claims": {"sub": ["a", "b"]}}, "token_invalid"),
    ("somebody with a line break", {"claims": {"sub": "a\nb"}}, "token_invalid"),
    ("somebody with a very long name", {"claims": {"sub": "a" * 250}}, "token_invalid"),
    ("another key of the same name", {"key": "foreign"}, "token_invalid"),
    ("a key that nobody publishes", {"header": {"kid": "unheard of"}}, "token_invalid"),
    (
        "a key by an address",
        {"key": "foreign", "header": {"jku": "http://127.0.0.1:1/jwks"}},
        "token_invalid",
    ),
    ("alg none", {"key": "none"}, "token_invalid"),
    ("the public key as a secret", {"key": "public as secret"}, "token_invalid"),
    ("an algorithm that is not allowed", {"header": {"alg": "RS512"}}, "token_invalid"),
    ("a logout token", {"header": {"typ": "logout+jwt"}}, "token_invalid"),
    (
        "a logout token without its type",
        {"header": {"typ": "JWT"}, "claims": {"events": {}}},
        "token_invalid",
    ),
    (
        "an ID token",
        {"header": {"typ": "JWT"}, "claims": {"aud": CLIENT, "nonce": "n"}},
        "token_invalid",
    ),
    (
        "an ID token for both",
        {"header": {"typ": "JWT"}, "claims": {"aud": [CLIENT, AUDIENCE]}},
        "token_invalid",
    ),
    (
        "an ID token of a client called as the API",
        {"header": {"typ": "JWT"}, "claims": {"at_hash": "x"}},
        "token_invalid",
    ),
    ("a client that is a list", {"claims": {"azp": [CLIENT]}}, "token_invalid"),
    ("a client that is an object", {"claims": {"client_id": {CLIENT: 1}}}, "token_invalid"),
    ("a type of one's own", {"header": {"typ": "dpop+jwt"}}, "token_invalid"),
    ("no role", {"claims": {"groups": []}}, "no_role"),
    ("no claim of roles", {"claims": {"groups": None}}, "no_role"),
    (
        "nearly a group",
        {"claims": {"groups": ["dp-owners ", "DP-OWNERS", "x dp-owners"]}},
        "no_role",
    ),
    (
        "a group inside another",
        {"claims": {"groups": [["dp-owners"], {"dp-owners": True}]}},
        "no_role",
    ),
    (
        "roles by other claims",
        {"claims": {"groups": None, "roles": ["owner"], "role": "operator"}},
        "no_role",
    ),
    ("a tenant that is not there", {"claims": {"groups": ["dp/nowhere/owner"]}}, "no_role"),
    ("a tenant that no text names", {"claims": {"groups": ["dp/\0/owner"]}}, "no_role"),
    (
        "roles in two tenants",
        {"claims": {"groups": ["dp-analysts", "dp/north/owner"]}},
        "several_tenants",
    ),
]


@pytest.mark.parametrize(
    ("wanted", "code"), [one[1:] for one in ATTACKS], ids=[one[0] for one in ATTACKS]
)
def test_tokens_that_do_not_count(
    trusted: Installation, op: RunningProvider, wanted: dict[str, Any], code: str
) -> None:
    op.person("eve", "dp-owners")
    assert told(trusted, op.mint("eve")) == (200, "")  # this one does
    wanted = json.loads(json.dumps(wanted).replace("ISSUER", op.issuer))
    status = 403 if code in ("no_role", "several_tenants") else 401
    assert told(trusted, op.mint("eve", **wanted)) == (status, code)


def test_tokens_that_were_changed(trusted: Installation, op: RunningProvider) -> None:
    op.person("eve", "dp-analysts")
    head, body, signature = op.mint("eve").split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=="))
    changed = (
        base64.urlsafe_b64encode(json.dumps({**claims, "groups": ["dp-owners"]}).encode())
        .rstrip(b"=")
        .decode()
    )
    for forged in (
        f"{head}.{changed}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.{signature[:-8]}AAAAAAAA",
        f"{head}..{signature}",
        "ey..",
        "eyJhbGciOiJSUzI1NiJ9.e30.AAAA",
        "eyJbW1tb.e30.AAAA",
        f"{head}.{'A' * 20_000}.{signature}",
    ):
        assert told(trusted, forged) == (401, "token_invalid")
    assert told(trusted, f"{head}.{body}.{signature}") == (200, "")
    assert told(trusted, f"{head}.{body}.{signature}.x")[0] == 401


def test_clocks_may_differ_a_little(trusted: Installation, op: RunningProvider) -> None:
    op.person("eve", "dp-owners")
    now = int(time.time())
    assert told(trusted, op.mint("eve", claims={"iat": now - 300, "exp": now - 600})) == (
        401,
        "token_expired",
    )
    assert told(trusted, op.mint("eve", claims={"iat": now + 20, "exp": now + 3600})) == (200, "")
    assert told(trusted, op.mint("eve", claims={"iat": now + 3600, "exp": now + 7200})) == (
        401,
        "token_invalid",
    )


def test_keys_rotate_and_withdrawn_ones_end(trusted: Installation, op: RunningProvider) -> None:
    op.person("eve", "dp-owners")
    before, later = (
        op.mint("eve"),
        op.mint("eve", claims={"jti": "not seen before the key was withdrawn"}),
    )
    assert told(trusted, before) == (200, "")
    for kid, more in (("second", {"curve": True}), ("third", {"withdraw": True})):
        op.control(rotate=kid, **more)
        new = op.mint("eve")
        eventually(
            lambda token=new: told(trusted, token) == (200, ""),
            "a new key is fetched for a token that names it",
        )
    assert told(trusted, later) == (401, "token_invalid")


def test_strangers_cannot_make_the_service_ask(trusted: Installation, op: RunningProvider) -> None:
    op.person("eve", "dp-owners")
    assert told(trusted, op.mint("eve")) == (200, "")
    forged = [op.mint("eve", header={"kid": f"made up {number}"}) for number in range(40)]
    before, begun = op.asked("jwks"), time.monotonic()
    for token in forged:
        assert told(trusted, token) == (401, "token_invalid")
    assert op.asked("jwks") - before <= 1 + (time.monotonic() - begun) / 5


def test_a_role_in_one_tenant_is_none_in_another(
    trusted: Installation, op: RunningProvider
) -> None:
    north_owner = trusted.owner_of("north")
    with trusted.client(north_owner) as client:
        dataset = client.register(bodies.dataset())
    op.person("olga", "dp/north/owner")
    op.person("otto", "dp-owners")
    assert ask(trusted, op.mint("olga"), path=f"/v1/datasets/{dataset['id']}").status_code == 200
    assert told(trusted, op.mint("otto"), f"/v1/datasets/{dataset['id']}") == (404, "not_found")
    (person,) = ask(trusted, op.mint("olga"), path="/v1/people?subject=sub-of-olga").json()[
        "people"
    ]
    assert ask(trusted, op.mint("otto"), path="/v1/people?subject=sub-of-olga").json() == {
        "people": []
    }
    assert told(trusted, op.mint("olga"), "/v1/people") == (200, "")
    removed = ask(trusted, op.mint("otto"), "DELETE", f"/v1/people/{person['id']}")
    assert (removed.status_code, removed.json()["code"]) == (404, "not_found")
    for change in ask(trusted, op.mint("otto"), path="/v1/audit-log?page_size=1000").json()[
        "changes"
    ]:
        assert change["object"] != dataset["id"]
    # `tenant`, which nobody asked for, gives nothing; a role of the mapping gives its own tenant
    # and no other.
    forged = op.mint(
        "otto", claims={"groups": ["dp-analysts"], "tenant": "north", "tenant_id": "north"}
    )
    assert told(trusted, forged, f"/v1/datasets/{dataset['id']}") == (404, "not_found")


def test_a_cap_holds_for_the_person(trusted: Installation, op: RunningProvider) -> None:
    subject = op.person("carl", "dp-analysts")
    op.person("dora", "dp-analysts")
    with trusted.client() as owner:
        dataset = owner.register(bodies.dataset())
        owner.set_cap(
            scope="principal",
            principal=f"{op.issuer}#{subject}",
            epsilon=0.02,
            delta=0,
            reason="test",
        )
    body = bodies.job(dataset["id"], 0.015)
    statuses = [
        ask(
            trusted, op.mint(login), "POST", json=body, headers={"Idempotency-Key": f"cap {number}"}
        )
        for number, login in enumerate(("carl", "carl", "dora"))
    ]
    assert [one.status_code for one in statuses] == [202, 409, 202], [one.text for one in statuses]
    assert statuses[1].json()["binding"]["subject"] == f"{op.issuer}#{subject}"
    with trusted.http() as http:  # no key spends, or signs, as a person
        refused = http.post(
            "/v1/keys", json={"role": "analyst", "principal": f"{op.issuer}#{subject}"}
        )
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "/principal")


def test_api_keys_are_as_before(trusted: Installation) -> None:
    with trusted.http() as http:
        assert http.get("/v1/jobs").status_code == 200
    assert told(trusted, "dsc_nonsense") == (401, "key_malformed")
    assert told(trusted, trusted.owner_key[:-1] + "x") == (401, "key_malformed")


def test_without_a_provider_a_token_is_no_key(api_only: Installation, op: RunningProvider) -> None:
    op.person("eve", "dp-owners")
    before = dict(op.control()["asked"])
    assert told(api_only, op.mint("eve")) == (401, "key_malformed")
    assert op.control()["asked"] == before
