"""A real browser: Debian's Chromium, never one that is downloaded, and what it complains about."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import pytest
from playwright import sync_api
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, Request, sync_playwright

from tests.conftest import DEADLINE_SECONDS

MILLISECONDS = 1000 * DEADLINE_SECONDS


def missing(what: str) -> NoReturn:
    """Skip loudly where a program is missing; in CI that is a failure."""
    if os.environ.get("CI"):
        pytest.fail(f"{what} is needed in CI")
    pytest.skip(f"{what} is not installed: the pages are not looked at")


def chromium_path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Chromium without a screen. FileNotFoundError when there is none."""
    path = chromium_path()
    if path is None:
        raise FileNotFoundError("chromium")
    # Its sandbox refuses to run as root; the only pages it sees are those of our own server.
    root = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path,
            args=[*root, "--disable-dev-shm-usage", "--force-color-profile=srgb"],
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A tab whose console, dialogs and requests are watched."""

    page: Page
    origin: str
    complaints: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.set_default_timeout(MILLISECONDS)
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        self.page.on("dialog", self._dialog)
        self.page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        # Violations of the Content-Security-Policy come as errors. What was expected to be refused
        # is not a complaint.
        if (
            message.type in ("error", "warning")
            and "the server responded with a status of 4" not in message.text
        ):
            self.complaints.append(f"{message.type} on {self.page.url}: {message.text}")

    def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(f"dialog on {self.page.url}: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.origin + "/", "data:", "blob:")):
            self.complaints.append(f"{self.page.url} asks {request.url}")

    def go(self, address: str) -> int:
        """Open a page of this server; its status."""
        response = self.page.goto(self.origin + address)
        assert response is not None
        return response.status

    def login(self, key: str) -> None:
        self.go("/login")
        self.page.get_by_label("API key").fill(key)
        self.page.get_by_role("button", name="Log in").click()
        self.page.get_by_role("button", name="Log out").wait_for()

    def other_people(self) -> None:
        """Say in the form of a new dataset that its people are in no other, where that is asked."""
        account = self.page.get_by_label("Whose data are they?")
        if account.count():
            account.select_option("new")

    def draw(self) -> int:
        """Scroll to every chart and wait until it is drawn; how many there are."""
        charts = self.page.locator(".plot")
        for place in range(charts.count()):
            charts.nth(place).scroll_into_view_if_needed()
            self.page.locator(".plot[data-drawn]").nth(place).wait_for(state="attached")
        return charts.count()


@contextmanager
def tab(browser: Browser, origin: str, **options: Any) -> Iterator[Watched]:
    """A tab with cookies of its own, which must have had nothing to complain about at its end."""
    context = browser.new_context(**options)
    watched = Watched(context.new_page(), origin)
    try:
        yield watched
        assert watched.complaints == []
    except sync_api.TimeoutError as error:
        # What stood there instead says more than the name of what did not come.
        text = watched.page.inner_text("body", timeout=MILLISECONDS)
        raise AssertionError(f"{error}\nOn {watched.page.url}:\n{text}") from error
    finally:
        context.close()


WIDE = """() => [...document.querySelectorAll("main *")]
    .filter((one) => one.getBoundingClientRect().right > 360 && !one.closest(".scroll, pre, .plot"))
    .slice(0, 3).map((one) => one.outerHTML.slice(0, 120))"""
"""The first elements that reach out of a phone's window."""


def problems_of(seen: Watched, axe: str) -> list[str]:
    """What is wrong with the page that is open, in words: of axe, of any impact, in light, by
    contrast in dark, and on a phone in dark."""
    page, address = seen.page, seen.page.url.removeprefix(seen.origin)
    found = []
    if page.evaluate("() => globalThis.hacked") is not None:
        found.append(f"{address}: a name ran as a script")
    page.evaluate(f"() => {{ {axe} }}")

    def look(where: str, rules: list[str] | None = None) -> None:
        options = {"resultTypes": ["violations"], **({} if rules is None else {"runOnly": rules})}
        for one in page.evaluate("options => axe.run(document, options)", options)["violations"]:
            nodes = [node["html"][:160] for node in one["nodes"][:3]]
            found.append(f"{address}, {where}: {one['id']}, {one['impact']}: {nodes}")

    wear = "theme => { document.documentElement.dataset.theme = theme }"
    page.evaluate(wear, "light")
    look("light")
    page.evaluate(wear, "dark")
    look("dark", ["color-contrast"])
    page.set_viewport_size({"width": 360, "height": 740})
    look("on a phone")
    wide = page.evaluate("() => document.scrollingElement.scrollWidth")
    if wide > 360:
        found.append(f"{address}: {wide} pixels wide on a phone: {page.evaluate(WIDE)}")
    page.set_viewport_size({"width": 1280, "height": 720})
    return found
