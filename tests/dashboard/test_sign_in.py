"""A login by an identity provider, in a browser: the provider is another site, as it is in life."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from discreet.installation.postgres import EmbeddedPostgres
from tests.conftest import Installation
from tests.dashboard.chromium import problems_of, tab
from tests.oidc.running import RunningProvider, provider, trusting


@pytest.fixture(scope="module")
def op() -> Iterator[RunningProvider]:
    with provider() as running:
        yield running


@pytest.fixture(scope="module")
def trusted(
    postgres: EmbeddedPostgres,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
    op: RunningProvider,
) -> Iterator[Installation]:
    with trusting(postgres, template, tmp_path_factory.mktemp("sign-in"), op) as running:
        yield running


def test_sign_in_and_out(
    browser: Browser, trusted: Installation, op: RunningProvider, axe: str, tmp_path: Path
) -> None:
    op.person("ada", "dp-owners", name="Ada Lovelace")
    with tab(browser, trusted.url) as seen:
        page = seen.page
        seen.go("/jobs")
        assert page.url == f"{trusted.url}/login?next=%2Fjobs"
        page.screenshot(path=tmp_path / "login.png")
        assert problems_of(seen, axe) == []
        page.get_by_role("link", name="Sign in with Example Hospital").click()
        page.get_by_role("heading", name="Provider of the tests").wait_for()
        assert page.url.startswith(op.issuer)
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill("ada's password")
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Log out").wait_for()
        page.wait_for_url(f"{trusted.url}/jobs")
        page.get_by_text("Ada Lovelace").wait_for()
        page.screenshot(path=tmp_path / "signed-in.png")
        # The provider knows the browser now: the way there and back asks for nothing.
        seen.go("/sign-in?next=/datasets")
        page.wait_for_url(f"{trusted.url}/datasets")
        page.get_by_role("button", name="Log out").click()
        page.get_by_role("link", name="Sign in with Example Hospital").wait_for()
        assert page.url == f"{trusted.url}/login"
        page.get_by_role("link", name="Sign in with Example Hospital").click()
        page.get_by_role(
            "heading", name="Provider of the tests"
        ).wait_for()  # its session has ended, too
        page.go_back()
        foreign = [one for one in seen.complaints if f" asks {op.issuer}/" in one]
        seen.complaints[:] = [one for one in seen.complaints if one not in foreign]
        assert foreign


def test_who_is_removed_stands_before_the_login(
    browser: Browser, trusted: Installation, op: RunningProvider
) -> None:
    op.person("rita", "dp-analysts")
    with tab(browser, trusted.url) as seen:
        page = seen.page
        seen.go("/login")
        page.get_by_role("link", name="Sign in with Example Hospital").click()
        page.get_by_label("Name").fill("rita")
        page.get_by_label("Password").fill("rita's password")
        page.get_by_role("button", name="Continue").click()
        page.get_by_role("button", name="Log out").wait_for()
        with trusted.http(trusted.operator_key) as http:
            said = {"subject": "sub-of-rita", "active": False}
            assert http.put("/v1/people", json=said).status_code == 200
        seen.go("/jobs")
        assert page.url.startswith(f"{trusted.url}/login")
        page.get_by_role("link", name="Sign in with Example Hospital").click()
        page.get_by_text("this person was removed here").wait_for()
        seen.complaints[:] = [one for one in seen.complaints if f" asks {op.issuer}/" not in one]
