"""Every surface reads a table as every other: the command line, both SDKs, the page, blocks of
sources, addresses and queries, with the rows of `vectors`.

What a file means is said by the reader at home, which `test_cells` holds to the rows. `make test`
looks at all of them through the TypeScript SDK, and takes those that differ in kind through all
surfaces; the long tests take all through all.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pandas as pd
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from discreet.cli import run
from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems import DATASETS
from discreet.problems.sources import DatasetInBlocks
from discreet_client import readers
from discreet_client.client import Client
from discreet_client.errors import ApiError
from discreet_client.tables import TableError
from tests.clients.node import compiled
from tests.clients.test_containers import opened, workbook
from tests.clients.vectors import ROWS, Row, content_of, described, meaning_of, text_of
from tests.conftest import Installation, eventually, settings_for
from tests.dashboard.chromium import chromium, chromium_path, missing, tab
from tests.databases import Front, Meters, meters_of
from tests.places import allowing
from tests.postgres_fixture import fresh_database

SEEN = ("columns", "count", "issues", "left_out", "notes", "proposal", "rows")
"""What a look says of a file."""
WITH_BLOCKS = ("zones", "except")
"""Rules that come with each block of a source."""
CAP = {"epsilon": 4}


def chosen(rows: list[Row]) -> list[Row]:
    """Of each kind of cell, and of each rule, one that is read and one that is refused."""
    kinds: dict[Any, Row] = {}
    for row in rows:
        rules = row.get("rules") or {"columns": 1} if "columns" in row else row.get("rules", {})
        for rule in rules or [row.get("encoding", "")]:
            kinds.setdefault((row["of"], rule, "refused" in row), row)
    return list({id(row): row for row in kinds.values()}.values())


CHOSEN = chosen(ROWS)
ALL = [
    pytest.param(CHOSEN, id="one of each kind"),
    # But those that leave a single participant, whom nothing can hide.
    pytest.param(
        [row for row in ROWS if row.get("is", "") is not None], id="all", marks=pytest.mark.long
    ),
]


def seen(found: Any) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads(json.dumps({name: found[name] for name in SEEN}))
    return kept


def at_home(row: Row) -> dict[str, Any]:
    """What the owner sees of the row's file at home: the figure or the sentence of the row."""
    kind, public = described(row)
    source = opened(content_of(row))
    found = readers.preview(kind, source, public, form="csv")
    said = " ".join(issue["detail"] for issue in found["issues"])
    if "refused" in row:
        assert row["refused"] in said
    else:
        assert not said
        columns = readers.read(kind, source, public, form="csv").columns
        assert meaning_of(row, columns) == row["is"]
    return seen(found)


@dataclass
class Site:
    """A service with its surfaces: a folder and a database that it may read, and programs."""

    running: Installation
    folder: Path
    database: Meters
    query: str
    """The address of the database, up to the text of a query."""
    node: Path
    """The SDK for TypeScript, compiled."""

    @property
    def key(self) -> str:
        return self.running.owner_key

    def client(self) -> Client:
        return self.running.client(self.key)

    def file(self, row: Row) -> Path:
        path = self.folder / "table.csv"
        path.write_bytes(content_of(row))
        return path

    def in_node(self, rows: list[Row], way: str) -> list[Any]:
        """What the SDK for TypeScript prints of each."""
        told = []
        for number, row in enumerate(rows):
            kind, public = described(row)
            path = self.folder / f"{number}.csv"
            path.write_bytes(content_of(row))
            told.append({"path": str(path), "kind": kind, "public": public})
        listed = self.folder / "list.json"
        listed.write_text(json.dumps(told))
        done = subprocess.run(
            [str(shutil.which("node")), "dist/test/surfaces.js", str(listed), way],
            cwd=self.node,
            env={**os.environ, "DISCREET_URL": self.running.url, "DISCREET_KEY": self.key},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def command(self, *words: str) -> Any:
        """What the command line prints: JSON, or what is wrong."""
        told, wrong = io.StringIO(), io.StringIO()
        where = ["--server", self.running.url, "--key", self.key, "--json"]
        with redirect_stdout(told), redirect_stderr(wrong):
            code = run(["dataset", *words, *where])
        return json.loads(told.getvalue()) if code == 0 else {"refused": wrong.getvalue()}


@pytest.fixture(scope="module")
def site(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("exports")
    node = compiled(tmp_path_factory.mktemp("typescript"))
    with ExitStack() as stack:
        database = stack.enter_context(meters_of(postgres))
        front = stack.enter_context(Front(database.sockets))
        database.run("CREATE TABLE vectors (number int, place int, c text[])")
        database.run(f"GRANT SELECT ON vectors TO {database.user}")
        place = database.place(front)
        path = allowing(tmp_path_factory.mktemp("operator"), {"url": f"file://{folder}/"}, place)
        fresh = stack.enter_context(fresh_database(postgres, template))
        running = Installation(settings_for(fresh, tmp_path_factory.mktemp("state")))
        running.extra["DISCREET_CONTENT_PLACES"] = str(path)
        running.extra["DISCREET_PLACE_FAILURES"] = "10000"
        stack.callback(running.stop)
        running.make_keys()
        running.start_api()
        eventually(lambda: _reads(running), "files are read")
        yield Site(running, folder, database, f"{place['url']}?query=", node)


def _reads(running: Installation) -> bool:
    """Whether files are read: at a first start their reader is compiled for minutes."""
    with running.http() as http:
        files = {"metadata": (None, '{"kind": "routing"}'), "content": ("a.csv", b"a\n1\n")}
        return http.post("/v1/reads", files=files).status_code == 200


# Looks --------------------------------------------------------------------------------------------


def test_typescript_sees_what_is_seen_at_home(site: Site) -> None:
    for row, found in zip(ROWS, site.in_node(ROWS, "look"), strict=True):
        assert seen(found) == at_home(row), row


@pytest.mark.parametrize("rows", ALL)
def test_python_and_the_command_line_see_what_is_seen_at_home(site: Site, rows: list[Row]) -> None:
    with site.client() as client:
        for row in rows:
            kind, public = described(row)
            file, home = site.file(row), at_home(row)
            words = ["preview", str(file), "--kind", kind, "--public", json.dumps(public)]
            local = site.command(*words, "--local")
            assert json.loads(json.dumps(local).replace(file.name, "the file")) == home, row
            if row.get("rules", {}).get("version", 1) != 1:  # which is said before it is sent
                with pytest.raises(TableError, match=row["refused"]):
                    client.datasets.look(file, kind=kind, public=public)
                assert row["refused"] in site.command(*words)["refused"]
                continue
            assert seen(client.datasets.look(file, kind=kind, public=public)) == home, row
            assert seen(site.command(*words)) == home, row


@pytest.mark.long
def test_the_page_shows_what_is_seen_at_home(site: Site) -> None:
    """Each file goes through the page's own form, with what step one says of it in its field."""
    if chromium_path() is None:
        missing("chromium")
    said = """said => {
      const field = document.querySelector("form[data-sends] [name=metadata]");
      field.value = JSON.stringify({ ...JSON.parse(field.value), ...said });
      document.querySelector("#outcome")?.remove();
    }"""
    with chromium() as browser, tab(browser, site.running.url) as shown:
        page = shown.page
        shown.login(site.key)
        shown.go("/datasets/new?kind=routing")
        page.get_by_label("Name", exact=True).fill("table")
        page.get_by_text("As JSON", exact=True).click()
        shown.other_people()
        page.get_by_role("button", name="Next: the content").press("Enter")
        page.get_by_text("The whole file is sent, sealed, and erased at registration").wait_for()
        for row in CHOSEN:
            kind, public = described(row)
            home = at_home(row)
            page.evaluate(said, {"kind": kind, "public": public})
            if (again := page.get_by_text("Send another file")).count():
                again.click()
            page.get_by_label("CSV, Excel, Parquet").set_input_files(site.file(row))
            page.get_by_role("button", name="Send it, and see").press("Enter")
            page.locator("#outcome").wait_for()
            text = " ".join(page.locator("#outcome").inner_text().split())
            for issue in home["issues"]:
                # Its first letter is made a large one there, and parts of it are marked as code.
                assert " ".join(issue["detail"].split())[1:].replace("`", "") in text, row
            assert ("not read yet" in text) == bool(home["issues"] and home["rows"]), row
            records = [one for each in home["rows"] for one in each["meaning"]]
            for name, value in (pair for one in records for pair in one.items()):
                figure = f"{value:.6g}" if isinstance(value, float) else value
                assert value is None or f"{name.replace('_', ' ')} {figure}" in text, (row, name)


# Registrations ------------------------------------------------------------------------------------

Outcome = str | frozenset[tuple[Any, ...]]
"""What became of a file: the id of a dataset, or where and what each mistake is."""
PLACE = ("row", "column", "cause", "found", "way_out", "count", "last")


def outcome(act: Callable[..., Any], *given: Any, **said: Any) -> Outcome:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = act(*given, **said)
        except TableError as error:
            return frozenset(mistake(one.as_dict()) for one in error.issues)
        except ApiError as error:
            if "errors" not in error.problem:  # it failed, and refused nothing
                raise
            return frozenset(mistake(one) for one in error.problem["errors"])
    return str(made["version" if "version" in made else "id"])


def mistake(told: dict[str, Any]) -> tuple[Any, ...]:
    if "cause" not in told:  # of a public part, which the service refuses before any file is read
        return ("public",)
    return tuple(re.sub(r"table\.\w+", "the file", str(told.get(name))) for name in PLACE)


def of_description(row: Row) -> bool:
    """Whether what is refused is a rule, which the service says in words of its own."""
    rules = row.get("rules", {})
    return rules.get("version", 1) != 1 or rules.get("encoding") == "latin-17"


def at_once(client: Client, site: Site, row: Row) -> tuple[Path, dict[str, Any], Outcome]:
    """The row's file, what is said of it where it is registered, and what becomes of it when it is
    read at home."""
    kind, public = described(row)
    about = {"name": "table", "kind": kind, "public": public, "cap": CAP}
    file = site.file(row)
    found = outcome(client.datasets.add, file, **about, local=True, other_people=True)
    assert isinstance(found, str) == ("is" in row), (row, found)
    return file, about, found


def without_rows(found: Outcome) -> Outcome:
    """Without where a mistake is, which sheets count as people see them."""
    if isinstance(found, str):
        return found
    keep = [place for place, name in enumerate(PLACE) if name not in ("row", "last")]
    return frozenset(tuple(one[place] for place in keep if len(one) > 1) for one in found)


def is_same(row: Row, home: Outcome, found: Any) -> bool:
    """Whether a program that prints has registered, or refused, what the reader at home has."""
    if isinstance(home, str):
        return bool(found.get("id") == home)
    return of_description(row) or row["refused"] in " ".join(found["refused"].split())


@pytest.mark.parametrize("rows", ALL)
def test_the_python_sdk_registers_what_is_read_at_home(site: Site, rows: list[Row]) -> None:
    with site.client() as client:
        for row in rows:
            file, about, home = at_once(client, site, row)
            sent = outcome(client.datasets.add, file, **about, other_people=True)
            assert sent == home or of_description(row), row


@pytest.mark.parametrize("rows", ALL)
def test_the_typescript_sdk_registers_what_is_read_at_home(site: Site, rows: list[Row]) -> None:
    """A file, or the draft of one."""
    added, drafted = (site.in_node(rows, way) for way in ("add", "register"))
    with site.client() as client:
        for row, *each in zip(rows, added, drafted, strict=True):
            _, _, home = at_once(client, site, row)
            for found in each:
                assert is_same(row, home, found), (row, found)


@pytest.mark.parametrize("rows", ALL)
def test_the_command_line_registers_what_is_read_at_home(site: Site, rows: list[Row]) -> None:
    with site.client() as client:
        for row in rows:
            file, about, home = at_once(client, site, row)
            words = ["add", str(file), "--kind", about["kind"], "--epsilon", "4", "--other-people"]
            words += ["--public", json.dumps(about["public"])]
            for more in ([], ["--local"]):
                found = site.command(*words, *more)
                assert is_same(row, home, found), (row, found)


@pytest.mark.parametrize("rows", ALL)
def test_a_block_is_what_is_read_at_home(site: Site, rows: list[Row]) -> None:
    with site.client() as client:
        for number, row in enumerate(rows):
            kind, public = described(row)
            if not issubclass(DATASETS[kind], DatasetInBlocks):  # its units are in all blocks
                continue
            rules, file = public["reader"], site.file(row)
            names = {name: rules[name] for name in WITH_BLOCKS if name in rules}
            kept = {name: one for name, one in rules.items() if name not in names}
            source = {"name": f"{len(rows)}-{number}", "kind": kind, "by": "label", "cap": CAP}
            source["public"] = {**public, "reader": kept}
            if of_description(row) or public["unit"] == "person":
                with pytest.raises(ApiError):
                    client.sources.create(source)
                continue
            given = client.sources.create(source)["id"], "one", file
            sent, home = (
                outcome(client.sources.add, *given, reader=names, local=how)
                for how in (False, True)
            )
            assert sent == home, row
            # A table of names alone is a block without records.
            assert isinstance(home, str) == ("is" in row or row["refused"] == "no row"), (row, home)


@pytest.mark.parametrize("rows", ALL)
def test_an_address_is_read_as_at_home(site: Site, rows: list[Row]) -> None:
    """Of what is refused there no value, row or number is told, but the same way out."""
    with site.client() as client, site.running.http(site.key) as http:
        for row in rows:
            file, about, home = at_once(client, site, row)
            found = http.post("/v1/datasets", json={**about, "content_from": f"file://{file}"})
            if isinstance(home, str):
                assert found.json().get("id") == home, (row, found.text)
                continue
            assert found.status_code == 422, (row, found.text)
            way_out = str(found.json()["errors"][0].get("way_out"))
            ways = {one[PLACE.index("way_out")] for one in home if len(one) > 1}
            assert way_out in {*ways, "None"} or of_description(row), row


OF_CELLS = [row for row in ROWS if row["of"] != "file" and "encoding" not in row]
"""What a table may be whose cells are parted by no signs."""


def cells_of(row: Row) -> tuple[list[str], list[list[str]]]:
    """Names of columns and texts of the table that the row's file is."""
    names, *lines = csv.reader(io.StringIO(text_of(row)), delimiter=row.get("separator", ";"))
    return names, lines


def forms_of(names: list[str], lines: list[list[str]]) -> dict[str, bytes]:
    """The table in files of other forms."""
    columns = dict(zip(names, map(list, zip(*lines, strict=True)), strict=True))
    sinks = io.BytesIO(), io.BytesIO()
    pq.write_table(pa.table(columns), sinks[0])
    pd.DataFrame(columns).to_parquet(sinks[1])
    return {
        "arrow.parquet": sinks[0].getvalue(),
        "pandas.parquet": sinks[1].getvalue(),
        "table.xlsx": workbook([names, *lines]),
        "table.json": json.dumps([dict(zip(names, line, strict=True)) for line in lines]).encode(),
    }


@pytest.mark.parametrize("rows", [chosen(OF_CELLS)])  # a query has no separator
def test_a_query_and_files_of_all_forms_are_one_table(site: Site, rows: list[Row]) -> None:
    """The same dataset as of a frame at home, or the same mistakes."""
    with site.client() as client, site.running.http(site.key) as http:
        for number, row in enumerate(rows):
            kind, public = described(row)
            about: Any = {"name": "table", "kind": kind, "public": public, "cap": CAP}
            names, lines = cells_of(row)
            frame = pd.DataFrame(lines, columns=names)
            home = outcome(client.datasets.add, frame, **about, local=True, other_people=True)
            if row["of"] in ("time", "zones", "people"):
                assert isinstance(home, str) == ("is" in row), (row, home)
            for name, content in forms_of(names, lines).items():
                (site.folder / name).write_bytes(content)
                sent = outcome(client.datasets.add, site.folder / name, **about, other_people=True)
                assert without_rows(sent) == without_rows(home), (row, name)
            with psycopg.connect(site.database.owner_url, autocommit=True) as connection:
                for place, line in enumerate(lines):
                    connection.execute(
                        "INSERT INTO vectors VALUES (%s, %s, %s)", (number, place, line)
                    )
            listed = ", ".join(f'c[{place}] AS "{name}"' for place, name in enumerate(names, 1))
            query = f"SELECT {listed} FROM vectors WHERE number = {number} ORDER BY place"  # noqa: S608
            placed = {**about, "content_from": f"{site.query}{quote(query)}"}
            found = http.post("/v1/datasets", json=placed)
            if isinstance(home, str):
                assert found.json().get("id") == home, (row, found.text)
            else:
                assert found.status_code == 422, (row, found.text)
            site.database.run("DELETE FROM vectors")
