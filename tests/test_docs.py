"""The documentation: builds without a broken link, names what exists, and its runnable blocks
run."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from discreet.web.codes import CODES
from tests import rooms, tables
from tests.conftest import DEADLINE_SECONDS, Installation, first_of

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").rglob("*.md"))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT / "docs")))
def test_links_lead_somewhere(page: Path) -> None:
    made = {"reference/api.md"}
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path = (page.parent / target).resolve()
        assert path.exists() or str(path.relative_to(ROOT / "docs")) in made, (
            f"{target} does not exist"
        )


@pytest.mark.parametrize("page", [ROOT / "README.md", *DOCS], ids=lambda page: page.stem)
def test_rows_of_tables_have_as_many_cells_as_their_heads(page: Path) -> None:
    """What stands beyond the last column is left out by most readers of Markdown, a `|` in code
    splits a cell too."""
    for table in re.findall(r"(?:^\|.*\n)+", page.read_text(), re.MULTILINE):
        cells = [len(re.findall(r"(?<!\\)\|", row)) - 1 for row in table.splitlines()]
        assert set(cells) == {cells[0]}, table.splitlines()[
            next(at for at, n in enumerate(cells) if n != cells[0])
        ]


def test_every_page_is_in_the_navigation() -> None:
    nav = [(ROOT / ".ci/mkdocs.yml").read_text(), *docs_pages().problem_pages(ROOT / "docs")]
    names = [str(page.relative_to(ROOT / "docs")) for page in DOCS]
    missing = [name for name in names if not any(name in part for part in nav)]
    assert not missing
    decisions = text("decisions/index").replace("](", "](decisions/")
    listed = text("index").partition("## All pages")[2] + decisions
    # are in a table that is made of the registry, so that a new kind needs no line there
    kinds = "problems/"
    assert not [
        name
        for name in names
        if name != "index.md" and kinds not in name and f"]({name})" not in listed
    ]


def test_the_map_is_true() -> None:
    page, known = (
        text("architecture"),
        {name for layer in rooms.layers() for name in layer} - {"__main__"},
    )
    table = page[page.index("| room |") : page.index("The clients are")]
    named = {
        name
        for row in re.findall(r"^\| (`[^|]*) \|", table, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == known
    for name in re.findall(r"`((?:[a-z_]+/)+[a-z0-9_]+\.(?:py|sql))`", page):
        places = (ROOT / "service/discreet" / name, ROOT / name)
        assert any(place.exists() for place in places), name
    assert rooms.PICTURE.read_text() == rooms.drawing(), "python -m tests.rooms draws it again"


@pytest.mark.parametrize("name", tables.TABLES)
def test_the_tables_of_kinds_are_those_of_the_registry(name: str) -> None:
    page = (ROOT / name).read_text()
    assert page.count(tables.BEGIN) == page.count(tables.END) == 1
    assert page == tables.page(name), "python -m tests.tables writes it again"


def test_papers_name_modules_that_exist() -> None:
    for name in re.findall(
        r"`((?:solvers|privacy|problems|reproduce|discreet_client)/[a-z_/]+(?:\.py)?/?)",
        text("papers"),
    ):
        base = (
            ROOT / "clients/python"
            if name.startswith("discreet_client")
            else ROOT / "service/discreet"
        )
        assert (base / name).exists(), name


def test_the_page_of_the_api_lists_every_code() -> None:
    """Those of no operation of the contract stand in the text of the API's conventions."""
    contract = json.loads((ROOT / "openapi/openapi.json").read_text())
    page = docs_pages().api_page(contract)
    listed = re.findall(r"^\| `([a-z_]+)` \| (\d{3}) \| (.*) \|$", page, re.MULTILINE)
    beside = re.findall(r"`([a-z_]+)` \((\d{3})\)", text("api"))
    assert sorted([*((code, status) for code, status, _ in listed), *beside]) == sorted(
        (code, str(known.status)) for code, known in CODES.items()
    )


def docs_pages() -> Any:
    """The hook of the documentation's site."""
    spec = importlib.util.spec_from_file_location("docs_pages", ROOT / ".ci" / "docs_pages.py")
    assert spec is not None
    assert spec.loader is not None
    pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(pages)
    return pages


def text(page: str) -> str:
    return (ROOT / "docs" / f"{page}.md").read_text()


def test_the_page_of_the_api_has_every_operation() -> None:
    pages = docs_pages()
    contract = json.loads((ROOT / "openapi/openapi.json").read_text())
    page = pages.api_page(contract)
    for path, operations in contract["paths"].items():
        for method in operations:
            assert f"## {method.upper()} {path}\n" in page
    for name in contract["components"]["schemas"]:
        assert f"#schema-{name.lower()} " in page


@pytest.mark.parametrize(
    ("page", "block"),
    [
        (page, block)
        for page in [ROOT / "README.md", *DOCS]
        for block in re.findall(r"<!-- runs -->\n```python\n(.*?)```", page.read_text(), re.DOTALL)
    ],
    ids=lambda value: value.name if isinstance(value, Path) else "",
)
def test_runnable_blocks_run(
    page: Path, block: str, service: Installation, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Python blocks after the comment `runs`: each for itself, in an empty folder, against a
    running service."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DISCREET_URL", service.url)
    monkeypatch.setenv("DISCREET_KEY", service.owner_key)
    names = {"__name__": "__main__"}
    exec(compile(block, str(page), "exec"), names)  # noqa: S102 - our own pages
    assert set(names) - {"__name__", "__builtins__"}, "the block made nothing"


WAYS = re.findall(r"<!-- a way in -->\n```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)


@pytest.mark.parametrize("way", first_of(WAYS))
def test_ways_in_lead_to_a_picture(way: str, service: Installation, tmp_path: Path) -> None:
    """The lines of the README as they are printed, in an empty folder, against a running
    service."""
    assert len(way.splitlines()) <= 10
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    (tmp_path / ".venv").symlink_to(sys.prefix)
    owner = service.owner_of(f"way of {tmp_path}")  # other tests have datasets of these names
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DISCREET_")}
    done = subprocess.run(
        ["/bin/bash", "-e", "-c", way],
        cwd=tmp_path,
        env={**kept, "DISCREET_URL": service.url, "DISCREET_KEY": owner},
        capture_output=True,
        text=True,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (result,) = tmp_path.glob("*-result.json")
    # Its signals are dozens of times the noise: less than once in 1e9 runs that drowns them.
    assert not json.loads(result.read_text())["result"]["uncertainty"]["mostly_noise"]
    (picture,) = tmp_path.glob("*.png")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_there_are_three_ways_in() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("<!-- a way in -->") == 3
    words = text[text.index("| word |") :].partition("\n\n")[0].splitlines()[2:]
    assert len(words) <= 15
