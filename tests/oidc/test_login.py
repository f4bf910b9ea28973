"""Logging in to the pages by the provider: what binds an answer to its login, and every way around
it."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from tests.conftest import Installation
from tests.dashboard.browsing import HTML, Page
from tests.oidc.running import CLIENT, RunningProvider, Visitor


def with_parameters(address: str, **changed: str | None) -> str:
    """The address with these parameters instead; None takes one away."""
    parts = urlsplit(address)
    fields: dict[str, Any] = {
        **{name: values[0] for name, values in parse_qs(parts.query).items()},
        **changed,
    }
    return parts._replace(
        query=urlencode({name: value for name, value in fields.items() if value is not None})
    ).geturl()


def test_from_the_login_page_to_a_session(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners", name="Ada <b>Lovelace</b>")
    with Visitor(trusted) as visitor:
        page = Page(visitor.ask("GET", f"{trusted.url}/login?next=/datasets"))
        assert "Sign in with Example Hospital" in page.text
        assert f"{trusted.url}/sign-in?next=%2Fdatasets" in page.links
        begun = visitor.ask("GET", f"{trusted.url}/sign-in?next=/datasets")
        asked = parse_qs(urlsplit(begun.headers["location"]).query)
        assert asked["redirect_uri"] == [f"{trusted.url}/sign-in/callback"]
        assert (asked["code_challenge_method"], asked["response_type"]) == (["S256"], ["code"])
        assert {"state", "nonce", "code_challenge"} <= asked.keys()
        (cookie,) = begun.headers.get_list("set-cookie")
        parts = {part.strip() for part in cookie.split(";")}
        assert {"HttpOnly", "Path=/", "SameSite=lax", "Max-Age=600"} <= parts
        assert asked["state"][0] not in cookie
        page = Page(visitor.log_in("ada", "/datasets"))
        assert page.status == 200
        assert ("meta", {"http-equiv": "refresh", "content": "0; url=/datasets"}) in page.tags
        cookies = page.response.headers.get_list("set-cookie")
        (session,) = (one for one in cookies if one.startswith("discreet_session="))
        assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {
            part.strip() for part in session.split(";")
        }
        assert any(one.startswith('discreet_sign_in="";') and "Max-Age=0" in one for one in cookies)
        shown = visitor.own.get(f"{trusted.url}/datasets")
        assert shown.status_code == 200
        assert "Ada &lt;b&gt;Lovelace&lt;/b&gt;" in shown.text
        assert (
            "script-src 'self'; style-src 'self'"
            in page.response.headers["content-security-policy"]
        )
        assert "form-action 'self'" in page.response.headers["content-security-policy"]


def test_over_tls_the_cookies_are_guarded(trusted: Installation, op: RunningProvider) -> None:
    """As behind a proxy that ends TLS: the browser's `Sec-Fetch-Site` tells."""
    told = {"host": "discreet.example", "sec-fetch-site": "cross-site", **HTML}
    begun = httpx.get(f"{trusted.url}/sign-in", headers=told, trust_env=False)
    (cookie,) = begun.headers.get_list("set-cookie")
    assert cookie.startswith("__Host-discreet_sign_in=")
    assert "Secure" in cookie
    # The host of a request changes nothing about where the provider sends people.
    assert parse_qs(urlsplit(begun.headers["location"]).query)["redirect_uri"] == [
        f"{trusted.url}/sign-in/callback"
    ]


def refused(page: httpx.Response, status: int, says: str) -> None:
    assert (page.status_code, says in page.text) == (status, True), page.text
    assert not any(
        one.startswith("discreet_session=") for one in page.headers.get_list("set-cookie")
    )


def test_an_answer_belongs_to_the_browser_that_asked(
    trusted: Installation, op: RunningProvider
) -> None:
    """Login CSRF: somebody is led to the answer of an attacker's login, and would work as the
    attacker."""
    op.person("mallory", "dp-owners")
    with Visitor(trusted) as mallory, Visitor(trusted) as victim:
        answer = mallory.to_the_answer("mallory")
        refused(victim.ask("GET", answer), 403, "begun in another browser")
        victim.to_the_form()  # the victim is on the way too
        refused(victim.ask("GET", answer), 403, "begun in another browser")
        # With the state of the victim's own login, the code is still of another: PKCE and nonce.
        state = parse_qs(urlsplit(victim.to_the_answer("mallory")).query)["state"][0]
        with Visitor(trusted) as third:
            code = parse_qs(urlsplit(third.to_the_answer("mallory")).query)["code"][0]
        mixed = with_parameters(answer, state=state, code=code)
        refused(victim.ask("GET", mixed), 401, "invalid_grant")
        assert victim.status() == 303  # and nobody is logged in there


def test_an_answer_counts_once(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    with Visitor(trusted) as visitor:
        answer = visitor.to_the_answer("ada")
        cookie = visitor.own.cookies["discreet_sign_in"]
        assert visitor.ask("GET", answer).status_code == 200
        refused(visitor.ask("GET", answer), 403, "another browser")  # the cookie is gone
        again = httpx.get(
            answer, headers={**HTML, "Cookie": f"discreet_sign_in={cookie}"}, trust_env=False
        )
        refused(again, 401, "invalid_grant")


@pytest.mark.parametrize(
    "changed",
    [
        {"state": "x"},
        {"state": None},
        {"state": ""},
        {"iss": "https://login.evil.example"},
        {"iss": None},
        {"iss": ""},
    ],
)
def test_answers_that_are_of_another_login_or_provider(
    trusted: Installation, op: RunningProvider, changed: dict[str, str | None]
) -> None:
    op.person("ada", "dp-owners")
    with Visitor(trusted) as visitor:
        asked = op.asked("token")
        answer = visitor.to_the_answer("ada")
        page = visitor.ask("GET", with_parameters(answer, **changed))
        assert page.status_code == 403
        assert visitor.status() == 303
        assert op.asked("token") == asked  # no code goes anywhere before


def test_a_parameter_that_comes_twice_is_no_answer(
    trusted: Installation, op: RunningProvider
) -> None:
    op.person("ada", "dp-owners")
    with Visitor(trusted) as visitor:
        answer = visitor.to_the_answer("ada")
        refused(visitor.ask("GET", f"{answer}&code=another"), 403, "another browser")
        assert visitor.status() == 303


def test_cookies_that_nobody_here_made(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    with Visitor(trusted) as visitor:
        answer = visitor.to_the_answer("ada")
        cookie = visitor.own.cookies["discreet_sign_in"]
    asked = op.asked("token")
    word, until, place, mac = cookie.split(".")
    for forged in (
        "",
        "x",
        "...",
        f"{word}.{int(until) + 9}.{place}.{mac}",
        f"{word}.{until}.Ly9ldmls.{mac}",
    ):
        page = httpx.get(
            answer, headers={**HTML, "Cookie": f"discreet_sign_in={forged}"}, trust_env=False
        )
        refused(page, 403, "another browser")
    assert op.asked("token") == asked  # no code goes anywhere before


FAULTS: list[tuple[dict[str, Any], int, str]] = [
    ({"id_token": {"aud": "another client"}}, 401, "not for this service"),
    ({"id_token": {"aud": [CLIENT, "another client"]}}, 401, "not for this service"),  # and no azp
    (
        {"id_token": {"aud": [CLIENT, "another client"], "azp": "another client"}},
        401,
        "not for this service",
    ),
    ({"id_token": {"azp": "another client"}}, 401, "not for this service"),
    ({"id_token": {"iss": "https://login.evil.example"}}, 401, "not for this service"),
    ({"id_token": {"nonce": "of another login"}}, 401, "not for this service"),
    ({"id_token": {"nonce": None}}, 401, "not for this service"),
    ({"id_token": {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}}, 401, "not for this service"),
    ({"id_token": {"at_hash": ["A", {}]}}, 401, "a wrong type"),
    ({"id_token": {"exp": 1}}, 401, "has expired"),
    ({"id_token": {"sub": None}}, 401, "not for this service"),
    ({"id_token": {"events": {}}}, 401, "not an ID token"),
    ({"id_token_header": {"typ": "at+jwt"}}, 401, "another kind"),
    ({"id_token_header": {"kid": "unheard of"}}, 401, "does not publish"),
    ({"token": {"id_token": None}}, 503, "no ID token"),
    ({"token": {"id_token": "ey.ey.ey"}}, 401, "not a token"),
    ({"token": {"access_token": "of another login"}}, 401, "not for this service"),  # at_hash
    ({"id_token": {"groups": ["staff"]}}, 403, "no role here"),
    ({"id_token": {"groups": ["dp-owners", "dp/north/owner"]}}, 403, "several tenants"),
    ({"id_token": {"groups": ["dp/\0/owner"]}}, 403, "no role here"),
    ({"bare_id_token": True, "userinfo": {"sub": "somebody-else"}}, 401, "another person"),
    ({"bare_id_token": True, "userinfo": {"groups": ["staff"]}}, 403, "no role here"),
]


@pytest.mark.parametrize(("faults", "status", "says"), FAULTS)
def test_tokens_that_are_not_the_answer(
    trusted: Installation, op: RunningProvider, faults: dict[str, Any], status: int, says: str
) -> None:
    op.person("ada", "dp-owners")
    with op.faulty(**faults), Visitor(trusted) as visitor:
        refused(visitor.log_in("ada"), status, says)
        assert visitor.status() == 303


def test_roles_that_only_userinfo_tells(trusted: Installation, op: RunningProvider) -> None:
    op.person("uma", "dp-auditors")
    with op.faulty(bare_id_token=True), Visitor(trusted) as visitor:
        assert visitor.log_in("uma").status_code == 200
        assert visitor.status("/ledger") == 200


def test_a_login_never_leads_elsewhere(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    for place in (
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "/" + "x" * 5000,
    ):
        with Visitor(trusted) as visitor:
            page = Page(visitor.log_in("ada", place))
            assert ("meta", {"http-equiv": "refresh", "content": "0; url=/"}) in page.tags
    with Visitor(trusted) as visitor:
        page = Page(visitor.log_in("ada", '/jobs?state="><script>'))
        assert [one for one in page.scripts if not str(one.get("src")).startswith("/static/")] == []


def test_what_the_provider_says_of_a_refusal_is_not_repeated(
    trusted: Installation, op: RunningProvider
) -> None:
    with Visitor(trusted) as visitor:
        _, fields = visitor.to_the_form()
        told = {"state": fields["state"], "iss": op.issuer, "error_description": "call 0900 666"}
        for error, shown in (
            ("access_denied", "access_denied"),
            ("<script>alert(1)</script>", "no reason"),
        ):
            visitor.to_the_form()
            _, fields = visitor.to_the_form()
            answer = {**told, "state": fields["state"], "error": error}
            page = visitor.ask("GET", f"{trusted.url}/sign-in/callback?{urlencode(answer)}")
            refused(page, 401, shown)
            assert "0900" not in page.text
            assert "<script>alert" not in page.text


def test_logging_out_ends_both_sessions(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    with Visitor(trusted) as visitor:
        assert visitor.log_in("ada").status_code == 200
        assert visitor.ask("GET", f"{trusted.url}/sign-in").status_code == 303
        cookie = visitor.own.cookies["discreet_session"]
        page = Page(visitor.own.get(f"{trusted.url}/jobs"))
        fields = page.form("/logout")["fields"]
        gone = Page(
            visitor.ask(
                "POST", f"{trusted.url}/logout", data=fields, headers={"Origin": trusted.url}
            )
        )
        # A page, and no redirect, which the pages' policy forbids to forms.
        assert gone.status == 200
        (place,) = (one for one in gone.links if one.startswith(op.issuer))
        asked = parse_qs(urlsplit(place).query)
        assert asked.keys() == {"client_id", "id_token_hint", "post_logout_redirect_uri"}
        back = visitor.ask("GET", place)
        assert (back.status_code, back.headers["location"]) == (303, f"{trusted.url}/login")
        again = httpx.get(
            f"{trusted.url}/jobs",
            headers={**HTML, "Cookie": f"discreet_session={cookie}"},
            trust_env=False,
        )
        assert again.status_code == 303
        form = visitor.to_the_form()  # the provider asks for the password again
        assert form[0].endswith("/authorize")


def test_a_key_logs_in_as_before(trusted: Installation) -> None:
    with Visitor(trusted) as visitor:
        page = Page(visitor.ask("GET", f"{trusted.url}/login"))
        fields = {**page.form("/login")["fields"], "key": trusted.owner_key}
        opened = visitor.ask(
            "POST", f"{trusted.url}/login", data=fields, headers={"Origin": trusted.url}
        )
        assert opened.status_code == 303
        page = Page(visitor.own.get(f"{trusted.url}/jobs"))
        fields = page.form("/logout")["fields"]
        gone = visitor.ask(
            "POST", f"{trusted.url}/logout", data=fields, headers={"Origin": trusted.url}
        )
        assert gone.headers["location"] == "/login"


def test_a_person_makes_no_login_links(trusted: Installation, op: RunningProvider) -> None:
    op.person("ada", "dp-owners")
    answer = httpx.post(
        f"{trusted.url}/login/links",
        headers={"Authorization": f"Bearer {op.mint('ada')}"},
        trust_env=False,
    )
    assert answer.status_code == 403


def test_without_a_provider_there_is_nothing(api_only: Installation) -> None:
    page = httpx.get(f"{api_only.url}/login", headers=HTML, trust_env=False)
    assert "Sign in with" not in page.text
    for method, path in (
        ("GET", "/sign-in"),
        ("GET", "/sign-in/callback?code=x&state=y"),
        ("POST", "/sign-in/ended"),
    ):
        assert (
            httpx.request(method, api_only.url + path, headers=HTML, trust_env=False).status_code
            == 404
        )
