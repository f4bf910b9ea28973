"""Logging in and out, and forms that other sites send."""

from __future__ import annotations

from pathlib import Path

import httpx

from discreet.installation.postgres import EmbeddedPostgres
from discreet_client.client import Client
from tests.conftest import Installation, settings_for
from tests.dashboard.browsing import Browser, Page
from tests.postgres_fixture import fresh_database


def test_without_a_login_every_page_leads_to_it(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        for address in ("/", "/jobs?state=queued", "/nowhere-to-be-found/at-all"):
            answer = browser.http.get(address)
            if address.startswith("/nowhere"):
                assert answer.status_code == 404
                assert "<h1>" in answer.text
            else:
                assert answer.status_code == 303
        assert (
            browser.http.get("/jobs?state=queued").headers["location"]
            == "/login?next=%2Fjobs%3Fstate%3Dqueued"
        )
        page = browser.submit(browser.get("/jobs?state=queued"), "/login", key=api_only.owner_key)
        assert page.response.url.path == "/jobs"


def test_a_wrong_key_opens_nothing(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        for key in ("dsc_nonsense", "", api_only.owner_key[:-1] + "x"):
            page = browser.submit(browser.get("/login"), "/login", key=key)
            assert page.status == 401
            assert "whole key" in page.text
        assert browser.http.get("/").status_code == 303


def test_the_cookie_is_for_this_server_alone(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        answer = browser.submit(
            browser.get("/login"), "/login", key=api_only.owner_key, follow=False
        ).response
        (cookie,) = (
            value
            for value in answer.headers.get_list("set-cookie")
            if value.startswith("discreet_session=")
        )
        assert {"HttpOnly", "Path=/", "SameSite=strict"} <= {
            part.strip() for part in cookie.split(";")
        }
        # Plain http on loopback: the browser would throw a secure cookie away.
        assert "Secure" not in cookie
        assert api_only.owner_key not in answer.text + str(answer.headers)


def test_the_cookie_is_secure_behind_tls(api_only: Installation) -> None:
    """A proxy ends TLS; what it leaves is the browser's own word about the origin."""
    host = api_only.url.removeprefix("http://")
    with Browser(api_only) as browser:
        page = browser.get("/login")
        answer = browser.submit(
            page, "/login", key=api_only.owner_key, origin=f"https://{host}", follow=False
        ).response
        cookies = answer.headers.get_list("set-cookie")
        (cookie,) = (value for value in cookies if value.startswith("__Host-discreet_session="))
        assert {"HttpOnly", "Path=/", "SameSite=strict", "Secure"} <= {
            part.strip() for part in cookie.split(";")
        }
        assert "Domain" not in cookie


BEHIND_TLS = {"host": "discreet.example", "sec-fetch-site": "none", "accept": "text/html"}


def test_over_tls_a_planted_cookie_counts_for_nothing(api_only: Installation) -> None:
    """Another host of the domain can set a cookie with the plain name, and none with the prefix."""
    with Browser.logged_in(api_only) as browser:
        token = browser.http.cookies["discreet_session"]

    def status(cookie: str, **headers: str) -> int:
        sent = {"Cookie": cookie, "Accept": "text/html", **headers}
        return httpx.get(api_only.url + "/jobs", headers=sent, trust_env=False).status_code

    assert status(f"discreet_session={token}") == 200
    assert status(f"discreet_session={token}", **BEHIND_TLS) == 303
    assert status(f"__Host-discreet_session={token}", **BEHIND_TLS) == 200
    assert status(f"discreet_session={token}; __Host-discreet_session=x", **BEHIND_TLS) == 303
    # Chromium says Sec-Fetch-Site to loopback too, where there is no TLS and so no prefix.
    assert (
        status(f"discreet_session={token}", **{"sec-fetch-site": "none", "host": "localhost:8080"})
        == 200
    )
    # Plain http in a network of one's own.
    assert status(f"discreet_session={token}", host="10.0.0.7:8080") == 200


def test_from_login_to_logout_behind_tls(api_only: Installation) -> None:
    """Every cookie has the prefix, from the first look at the login page on."""
    secured = {**BEHIND_TLS, "origin": "https://discreet.example"}
    with httpx.Client(base_url=api_only.url, trust_env=False) as http:
        page = http.get("/login", headers=BEHIND_TLS)
        visitor = page.headers["set-cookie"].partition(";")[0]
        assert visitor.startswith("__Host-discreet_visitor=")
        http.cookies.clear()  # this client sends what it is told to; a browser would send the same
        fields = {**Page(page).form("/login")["fields"], "key": api_only.owner_key}
        opened = http.post("/login", data=fields, headers={**secured, "cookie": visitor})
        assert opened.status_code == 303, opened.text
        (session,) = (
            value.partition(";")[0]
            for value in opened.headers.get_list("set-cookie")
            if "discreet_session" in value
        )
        http.cookies.clear()
        jobs = http.get("/jobs", headers={**BEHIND_TLS, "cookie": session})
        assert jobs.status_code == 200
        gone = http.post(
            "/logout",
            data=Page(jobs).form("/logout")["fields"],
            headers={**secured, "cookie": session},
        )
        (dropped,) = (
            value for value in gone.headers.get_list("set-cookie") if value.startswith("__Host-")
        )
        assert {"Max-Age=0", "Secure", "Path=/"} <= {part.strip() for part in dropped.split(";")}
        http.cookies.clear()
        assert http.get("/jobs", headers={**BEHIND_TLS, "cookie": session}).status_code == 303


def test_logout_ends_the_session_on_the_server(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser:
        cookie = browser.http.cookies["discreet_session"]
        page = browser.submit(browser.get("/"), "/logout")
        assert page.response.url.path == "/login"
        again = httpx.get(
            api_only.url + "/",
            headers={"Cookie": f"discreet_session={cookie}", "Accept": "text/html"},
            trust_env=False,
        )
        assert again.status_code == 303


def test_a_session_ends_with_its_key(api_only: Installation) -> None:
    with api_only.client() as owner:
        made = owner.create_key(role="auditor", principal="leaving")
        with Browser.logged_in(api_only, made["key"]) as browser:
            assert browser.get("/").status == 200
            owner.revoke_key(made["id"])
            assert browser.http.get("/").status_code == 303


def link_of(api_only: Installation, client: Client) -> str:
    return str(client.login_link()["path"])


def test_a_login_link_works_once(api_only: Installation) -> None:
    with api_only.client() as client:
        path = link_of(api_only, client)
    with Browser(api_only) as browser, Browser(api_only) as second:
        page, other = (
            browser.get(path),
            second.get(path),
        )  # looking at it, as a mail scanner would, uses nothing up
        assert "Log in as owner" in page.text
        assert browser.submit(page, path).response.url.path == "/"
        assert browser.get("/").status == 200
        refused = second.submit(other, path)
        assert refused.status == 404
        assert "discreet login" in refused.text
        assert second.get(path).status == 404


def test_a_login_never_leads_elsewhere(api_only: Installation) -> None:
    for place in (
        "https://example.org/",
        "//example.org",
        "/\\example.org",
        "javascript:alert(1)",
        "/a\r\nX: y",
    ):
        with Browser(api_only) as browser:
            page = browser.submit(
                browser.get("/login"), "/login", key=api_only.owner_key, next=place, follow=False
            )
            assert page.response.headers["location"] == "/"


def test_forms_of_other_sites_are_refused(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as browser:
        page = browser.get("/")
        foreign = browser.submit(page, "/logout", origin="https://evil.example")
        assert (foreign.status, "another site" in foreign.text) == (403, True)
        stale = browser.submit(page, "/logout", csrf="0" * 64)
        assert (stale.status, "another session" in stale.text) == (403, True)
        no_origin = browser.http.post("/logout", data=page.form("/logout")["fields"])
        assert no_origin.status_code == 403
        assert browser.get("/").status == 200
        with Browser.logged_in(api_only) as other:
            token = other.get("/").form("/logout")["fields"]["csrf"]
            assert browser.submit(page, "/logout", csrf=token).status == 403
    with Browser(api_only) as browser:
        login = browser.get("/login")
        assert browser.submit(login, "/login", key=api_only.owner_key, csrf="x").status == 403
        assert (
            browser.submit(
                login, "/login", key=api_only.owner_key, origin="http://127.0.0.1:1"
            ).status
            == 403
        )


def test_light_and_dark_without_javascript(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        page = browser.submit(browser.get("/login"), "/theme", theme="dark")
        assert dict(page.tags)["html"]["data-theme"] == "dark"
        page = browser.submit(page, "/theme", theme="<script>")
        assert dict(page.tags)["html"]["data-theme"] == "dark"


def test_nobody_sends_large_forms_without_a_login(api_only: Installation) -> None:
    with Browser(api_only) as browser:
        page = browser.submit(browser.get("/login"), "/login", key="x" * 70_000)
        assert (page.status, "65536" in page.text) == (413, True)


def test_pages_are_counted_against_the_key_like_calls(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    with fresh_database(postgres, template) as database:
        running = Installation(settings_for(database, tmp_path / "state"))
        running.extra |= {
            "DISCREET_RATE_LIMIT_REQUESTS": "6",
            "DISCREET_RATE_LIMIT_SECONDS": "3600",
        }
        running.make_keys()
        running.start_api()
        try:
            with Browser(running) as browser, running.http() as http:
                browser.submit(browser.get("/login"), "/login", key=running.owner_key)
                left = int(
                    http.get("/v1/jobs").headers["ratelimit"].split(";")[1].removeprefix("r=")
                )
                for remaining in range(left - 1, -1, -1):
                    page = browser.get("/jobs")
                    assert page.status == 200
                    assert f"r={remaining};" in page.response.headers["ratelimit"]
                refused = browser.get("/jobs")
                assert refused.status == 429
                assert "may ask 6 times" in refused.text
                assert int(refused.response.headers["retry-after"]) > 0
                assert http.get("/v1/jobs").status_code == 429
                (style,) = (
                    values["href"]
                    for tag, values in refused.tags
                    if values.get("rel") == "stylesheet"
                )
                assert browser.http.get(str(style)).status_code == 200
        finally:
            running.stop()
