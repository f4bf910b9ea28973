"""The documentation as it is served: every page, link, anchor and picture, and the way to it from
every other page."""

from __future__ import annotations

import asyncio
import importlib.util
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import httpx
import pytest
from markupsafe import escape
from PIL import Image

from discreet.api.app import create_app
from discreet.dashboard import handbook, help_links, help_search, pages
from discreet.dashboard.app import install
from discreet.errors import Unauthenticated, Unavailable
from discreet.problems import DATASETS, KINDS
from discreet.settings import Settings
from discreet.usecases import logins
from discreet.usecases.services import Services
from tests.conftest import Installation
from tests.dashboard.browsing import Browser, Page
from tests.dashboard.test_headers import addresses
from tests.deployment.test_files import rehearsal

ROOT = Path(__file__).parents[2]
TEXT = {
    path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path.read_text()
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if "reference" not in path.parts
}


def help_of(page: Page) -> list[str]:
    """Where the help links of a page lead."""
    return [
        str(values["href"])
        for tag, values in page.tags
        if tag == "a" and values.get("class") == "help"
    ]


def leads_to_a_heading(address: str) -> bool:
    """Whether an address of this documentation exists, with its anchor."""
    place, _, anchor = address.partition("#")
    page = handbook.page(place.removeprefix("/help").removeprefix("/") or handbook.START)
    return not anchor or anchor in {section.anchor for section in page.sections}


def test_every_page_is_served_to_everybody(api_only: Installation) -> None:
    """With its headings, links, tables and pictures; with nothing that the policy of pages would
    refuse."""
    pictures, internal, outside = set[str](), 0, 0
    with Browser(api_only) as visitor:
        served = {name: visitor.get(handbook.address(name)) for name in TEXT}
    for name, page in served.items():
        text = TEXT[name]
        assert page.status == 200, name
        assert page.response.headers["content-security-policy"] == pages.policy(charts=False)
        assert [tag for tag, _ in page.tags].count("h1") == 1, name
        code = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        assert len([tag for tag, _ in page.tags if tag == "h2"]) == len(
            re.findall("^## ", code, re.MULTILINE)
        )
        rules = re.findall(r"^\|[-|: ]*-[-|: ]*\|$", code, re.MULTILINE)
        assert [tag for tag, _ in page.tags].count("table") == len(rules), name
        ids = [values["id"] for _, values in page.tags if "id" in values]
        assert len(ids) == len(set(ids)), name
        assert "<!--" not in page.text
        for tag, values in page.tags:
            assert "style" not in values, (name, tag)
            if tag == "img":
                pictures.add(str(values["src"]))
                assert values["alt"], name
                if ".png" in str(values["src"]):
                    with Image.open(
                        ROOT / "docs/pictures" / Path(httpx.URL(str(values["src"])).path).name
                    ) as drawn:
                        assert (values["width"], values["height"]) == tuple(map(str, drawn.size))
        for link in page.links:
            if link == "#main":  # of the frame
                continue
            if link.startswith("/help") or link.startswith("#"):
                internal += 1
                assert leads_to_a_heading(
                    link if link[0] == "/" else handbook.address(name) + link
                ), (name, link)
            else:
                outside += link.startswith("https://")
                assert link.startswith(("/", "https://")), (name, link)
    assert internal > 200
    assert outside > 0
    assert len(pictures) > 10
    with api_only.http() as http:
        for source in pictures:
            answer = http.get(source)
            assert answer.headers["content-type"] in ("image/png", "image/svg+xml")
            assert "immutable" in answer.headers["cache-control"], source
            assert (
                answer.content
                == (ROOT / "docs" / httpx.URL(source).path.removeprefix("/help/")).read_bytes()
            )


@pytest.mark.parametrize(
    "address",
    [
        "/help/nothing",
        "/help/reference/python",
        "/help/index.md",
        "/help/..%2FREADME",
        "/help/pictures/dashboard",
        "/help/pictures/..%2Findex.md",
    ],
)
def test_what_is_no_page_is_refused_with_a_page(api_only: Installation, address: str) -> None:
    with Browser(api_only) as visitor:
        page = visitor.get(address)
    assert page.status == 404
    assert help_of(page) == ["/help/dashboard#when-something-is-refused"]


def test_whoever_is_logged_in_keeps_the_menu(api_only: Installation) -> None:
    with Browser.logged_in(api_only) as owner:
        page = owner.get("/help/dashboard")
        assert {"/jobs", "/datasets", "/admin"} <= set(page.links)
    with Browser(api_only) as visitor:
        assert not {"/jobs", "/admin"} & set(visitor.get("/help/dashboard").links)


# The way from every page --------------------------------------------------------------------------


def test_every_template_of_a_page_has_its_paragraph() -> None:
    folder = Path(pages.__file__).parent / "templates"
    whole = {
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*.html")
        if '{% extends "base.html" %}' in path.read_text()
    }
    assert set(help_links.PARAGRAPHS) == whole
    for template in whole:
        address = help_links.of(template)
        assert "#" in address
        assert leads_to_a_heading(address), (template, address)


def test_every_route_that_renders_a_page_has_its_link(api_only: Installation) -> None:
    """Refusals too: what is walked has no objects. Pages of objects are looked at in test_pages."""
    seen = set[str]()
    with Browser.logged_in(api_only) as owner, Browser(api_only) as visitor:
        answers = [
            each.http.get(address, follow_redirects=True)
            for each in (owner, visitor)
            for address in addresses()
        ]
    for answer in answers:
        path = answer.url.path
        # The API's contract has a page and a policy of its own.
        if path != "/docs" and answer.headers.get("content-type", "").startswith("text/html"):
            (link,) = help_of(Page(answer))
            assert leads_to_a_heading(link), (path, link)
            seen.add(link)
    assert len(seen) > 10


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_forms_lead_to_the_fields_of_their_kind(api_only: Installation, kind: str) -> None:
    address = help_links.of_fields(kind)
    assert leads_to_a_heading(address)
    forms = ["/jobs/new", *(["/datasets/new"] if kind in DATASETS else [])]
    with Browser.logged_in(api_only) as owner:
        for form in forms:
            assert address in owner.get(f"{form}?kind={kind}").links
        assert owner.get("/jobs/new?kind=nothing").status == 200


@pytest.mark.parametrize("trouble", [Unauthenticated, Unavailable])
def test_help_needs_neither_login_nor_database(
    monkeypatch: pytest.MonkeyPatch, trouble: type[Exception]
) -> None:
    """Whoever has a session reads it too when nobody can say whether that counts."""
    looked = []

    async def find(services: object, cookie: str) -> None:
        looked.append(cookie)
        raise trouble("away")

    monkeypatch.setattr(logins, "find", find)
    app = create_app(Settings(), pages=install)
    app.state.services = object.__new__(Services)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.get(
                "/help", headers={"Cookie": "discreet_session=kept", "Accept": "text/html"}
            )

    answer = asyncio.run(ask())
    assert (answer.status_code, looked) == (200, ["kept"])
    assert "All pages" in answer.text


# Search -------------------------------------------------------------------------------------------


def searched(visitor: Browser, words: str) -> Page:
    """What the form on the first page of help finds."""
    form = visitor.get("/help").form("/help/search")
    assert form["method"] == "get"
    return Page(visitor.http.get(form["action"], params={**form["fields"], "q": words}))


def test_search_finds_sections_by_all_their_words(api_only: Installation) -> None:
    with Browser(api_only) as visitor:
        page = searched(visitor, "sealed COLUMNS")
        links = [link for link in page.links if link.startswith("/help/") and "#" in link]
        assert "/help/dashboard#registering-a-dataset" in links
        assert all(leads_to_a_heading(link) for link in links)
        assert "Search the help" in page.text
        nothing = searched(visitor, "sealed zebra")
        assert "No section has all of these words" in nothing.text
        assert searched(visitor, "   ").status == 200
        assert searched(visitor, "x" * 201).status == 422
        hostile = searched(visitor, "<script>alert(1)</script> \"'")
        assert (hostile.status, "<script>alert" in hostile.response.text) == (200, False)


def test_a_word_in_a_heading_comes_first_and_is_marked() -> None:
    first = help_search.search("asking AGAIN")[0]
    assert (first.page, first.section) == ("Asking again", "Asking again")
    (found, *_) = help_search.search("budget binds")
    assert [piece.casefold() for piece, is_word in found.excerpt if is_word]
    assert all(
        ("budget" in piece.casefold() or "binds" in piece.casefold()) == is_word
        for piece, is_word in found.excerpt
    )
    assert help_search.search("mass clipped")  # of clipped_mass
    assert help_search.search("nterval") == []  # no part of a word
    assert len(help_search.search("the")) == help_search.MOST_FOUND
    assert help_search.search("c++ (") == help_search.search("( c++")  # words are no patterns


# The text as it is rendered -----------------------------------------------------------------------


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty documentation."""
    caches = (handbook.names, handbook.page, handbook.picture)
    (tmp_path / "pictures").mkdir()
    monkeypatch.setattr(handbook, "folder", lambda: tmp_path)
    for each in caches:
        each.cache_clear()
    yield tmp_path
    for each in caches:
        each.cache_clear()


HOSTILE = """# A *title* with `code`

<script>alert(1)</script>

Words <b onclick="alert(2)">bold</b><!-- nobody reads this --> [run](javascript:alert(3)).

<!-- nor
this -->

## Twice

## Twice

| left | right | |
|---|--:|---|
| [up](../README.md#top) | 1 | [there](folder/other.md#far) |

![seen](pictures/dot.svg) and [here](#twice_1), [the API](reference/api.md), [out](https://example.com/x).
"""


def test_markup_of_the_text_stays_text(book: Path) -> None:
    (book / "folder").mkdir()
    (book / "index.md").write_text(HOSTILE)
    (book / "folder" / "other.md").write_text(
        "# Other\n\n## Far\n\n[back](../index.md), [code](../../service/x.py)\n"
    )
    (book / "pictures" / "dot.svg").write_text("<svg/>")
    page = handbook.page("index")
    assert page.title == "A title with code"
    assert [(one.level, one.anchor) for one in page.sections] == [
        (1, "a-title-with-code"),
        (2, "twice"),
        (2, "twice_1"),
    ]
    assert str(escape("<script>alert(1)</script>")) in page.body
    assert "<script" not in page.body
    assert "<b onclick" not in page.body
    assert "nobody" not in page.body
    assert "nor\n" not in page.body
    assert 'href="javascript' not in page.body
    assert "style=" not in page.body
    assert page.body.count('class="number"') == 2
    assert page.body.count("<th") == 3  # of the head and of two of its cells: the third is empty
    assert "<td></td>" in page.body
    assert "up (<code>README.md</code>)" in page.body
    assert '<a href="/help/folder/other#far">there</a>' in page.body
    assert '<a href="#twice_1">here</a>' in page.body
    assert '<a href="/docs">the API</a>' in page.body
    assert '<a href="https://example.com/x" rel="noreferrer">out</a>' in page.body
    version = handbook.picture("dot.svg").version
    assert f'<img src="/help/pictures/dot.svg?v={version}" alt="seen"' in page.body
    assert (
        '<a href="/help">back</a>, code (<code>service/x.py</code>)'
        in handbook.page("folder/other").body
    )


def test_anchors_are_those_of_the_site() -> None:
    """By the rule of Python-Markdown's `toc`, whose ids other texts link to."""
    assert handbook.anchor(
        "Method `gradient`: the paper's Algorithm 1, as far as it holds".replace("`", "")
    ) == ("method-gradient-the-papers-algorithm-1-as-far-as-it-holds")
    assert (
        handbook.anchor("After: every number – with its  interval")
        == "after-every-number-with-its-interval"
    )


# The text in an installation ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply", ROOT / ".ci" / "supply.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["supply"] = module
    spec.loader.exec_module(module)
    return module


def test_the_wheel_carries_the_text_and_no_more(supply: ModuleType, tmp_path: Path) -> None:
    with zipfile.ZipFile(supply.build("discreet", tmp_path, 0o022)) as wheel:
        names = wheel.namelist()
        inside = {
            name.removeprefix("discreet/_docs/")
            for name in names
            if name.startswith("discreet/_docs/")
        }
        assert {f"{name}.md" for name in TEXT} <= inside
        pictures = {path.name for path in (ROOT / "docs/pictures").iterdir() if path.is_file()}
        assert inside - {f"{name}.md" for name in TEXT} == {f"pictures/{name}" for name in pictures}
        assert wheel.read("discreet/_docs/problems/routing.md").decode() == TEXT["problems/routing"]
        assert {name.partition("/")[0] for name in names} == {
            "discreet",
            "discreet-0.1.0.dist-info",
        }
        assert {
            "discreet/__init__.py",
            "discreet/_migrations/env.py",
            "discreet/dashboard/templates/help.html",
        } <= set(names)


@pytest.mark.long
def test_an_installation_from_the_wheel_shows_the_text(supply: ModuleType, tmp_path: Path) -> None:
    """Unpacked where pip would put it, with no source tree around."""
    with zipfile.ZipFile(supply.build("discreet", tmp_path, 0o022)) as wheel:
        wheel.extractall(tmp_path / "site")
    code = (
        "from discreet.dashboard import handbook as h; print(h.folder()); "
        "print(h.page('problems/routing').title)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "site")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [str(tmp_path / "site" / "discreet" / "_docs"), "Routing"]


@pytest.mark.long
def test_the_image_is_made_of_the_same_wheel(
    supply: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing that the wheel needs is kept out of the context of the image."""
    context = tmp_path / "context"
    for name in rehearsal.context_files(ROOT):
        (context / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, context / name)
    from_tree = supply.build("discreet", tmp_path / "tree", 0o022).read_bytes()
    monkeypatch.setattr(supply, "ROOT", context)
    assert supply.build("discreet", tmp_path / "image", 0o022).read_bytes() == from_tree


def test_routes_of_help_are_open_and_in_no_contract() -> None:
    schema = create_app(Settings(), pages=install).openapi()
    assert not [path for path in schema["paths"] if path.startswith("/help")]
