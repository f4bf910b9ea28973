"""A browser without a screen: cookies, forms with their hidden fields, redirects."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Self

import httpx

from tests.conftest import DEADLINE_SECONDS, Installation

HTML = {"Accept": "text/html"}
VOID = ("input", "link", "meta", "br", "hr", "img", "path", "rect", "line")


@dataclass
class Page(HTMLParser):
    """What a page says, and the forms on it."""

    response: httpx.Response
    text: str = ""
    forms: list[dict[str, Any]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    scripts: list[dict[str, str | None]] = field(default_factory=list)
    tags: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()
        self._area: str | None = None
        self._option: str | None = None
        self._select: str | None = None
        self.feed(self.response.text)

    @property
    def status(self) -> int:
        return self.response.status_code

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        name = values.get("name")
        if tag == "form":
            self.forms.append(
                {
                    "action": values.get("action"),
                    "method": values.get("method", "get"),
                    "fields": {},
                    "attrs": values,
                }
            )
        elif tag == "a" and values.get("href"):
            self.links.append(str(values["href"]))
        elif tag == "script":
            self.scripts.append(values)
        elif not self.forms or name is None:
            pass
        elif tag == "input" and values.get("type") not in ("file", "submit"):
            if values.get("type") not in ("checkbox", "radio") or "checked" in values:
                self.forms[-1]["fields"][name] = values.get("value") or ""
        elif tag == "textarea":
            self._area = name
            self.forms[-1]["fields"][name] = ""
        elif tag == "select":
            self._select = name
        if tag == "option" and self._select is not None:
            fields = self.forms[-1]["fields"]
            if "selected" in values or self._select not in fields:
                fields[self._select] = values.get("value") or ""

    def handle_endtag(self, tag: str) -> None:
        if tag == "textarea":
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._area is not None:
            self.forms[-1]["fields"][self._area] += data

    def form(self, action: str) -> dict[str, Any]:
        """The form that posts to this address, whatever the query."""
        found = [form for form in self.forms if str(form["action"]).partition("?")[0] == action]
        assert found, (action, [form["action"] for form in self.forms])
        return found[0]


class Browser:
    """One visitor of an installation."""

    def __init__(self, running: Installation) -> None:
        self.origin = running.url
        self.http = httpx.Client(
            base_url=running.url, headers=HTML, timeout=DEADLINE_SECONDS, trust_env=False
        )

    @classmethod
    def logged_in(cls, running: Installation, key: str | None = None) -> Self:
        browser = cls(running)
        page = browser.submit(browser.get("/login"), "/login", key=key or running.owner_key)
        assert page.status == 200, page.text
        return browser

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.http.close()

    def get(self, address: str, *, follow: bool = True) -> Page:
        return Page(self.http.get(address, follow_redirects=follow))

    def submit(
        self,
        page: Page,
        to: str,
        /,
        *,
        follow: bool = True,
        files: Any = None,
        origin: str | None = None,
        **fields: Any,
    ) -> Page:
        """Send a form of the page, with these fields filled in. `origin`: what the browser would
        say."""
        form = page.form(to)
        data = {**form["fields"], **fields}
        headers = {"Origin": origin or self.origin}
        answer = self.http.post(
            form["action"], data=data, files=files, headers=headers, follow_redirects=follow
        )
        return Page(answer)
