"""Contents that are read where they lie: which addresses may be read, by whom; files; the way
through the API."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio.from_thread
import anyio.to_thread
import httpx
import psycopg
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import PayloadTooLarge
from discreet.installation.postgres import EmbeddedPostgres
from discreet.settings import Settings
from discreet.usecases.places import local, rules
from discreet.usecases.places.local import ContentChanged
from discreet.usecases.places.rules import (
    FolderPlace,
    PlaceRefused,
    PlacesUnreadable,
    PlaceUnavailable,
    parse,
    place_of,
    read_places,
)
from discreet.usecases.uploads import FileClosed, Upload
from discreet_client.contents import rows_of
from tests import bodies
from tests.clients.test_containers import workbook
from tests.conftest import Installation, settings_for
from tests.dashboard.browsing import Browser
from tests.databases import SECRET, Front, Meters, meters_of
from tests.places import allowing, fetched, parquet, trips
from tests.postgres_fixture import Database, fresh_database

NOTHING_ALLOWED = "no content is read from this address"


@pytest.mark.parametrize(
    "text",
    [
        *(
            "/etc/passwd",
            "file:/srv/x",
            "file://other.host/srv/x.csv",
            "file:///",
            "ftp://h/x",
            "http://h/x",
            "gopher://h/x",
        ),
        *(
            "https://h",
            "https://user:secret@h/x",
            "https://h/x#y",
            "https://h\\@evil/x",
            "https://h /x",
            "https://h/\u212a",
        ),
        *(
            "https://h/a/../b",
            "https://h/a/./b",
            "https://h/a//b",
            "https://h/a/%2e%2e/b",
            "https://h/a%2f..%2fb",
        ),
        *(
            "https://h/a/..;/b",
            "https://h/a/%252e%252e/b",
            "https://h/%zz",
            "https://h/%ff",
            "https://h:0x50/x",
        ),
        *(
            "https://[::1/x",
            "https://[zz]/x",
            "https://h./x",
            "https://-h/x",
            "s3://b",
            "s3://b/../x",
            "s3://a@b/x",
        ),
        *(
            "file:///srv/%00",
            "file:///srv/..%2fx",
            "file:///srv/x\n",
            "https://h/" + 2000 * "x",
            "https://h:99999/x",
        ),
        *("https://h:443?x/y", "https://h:443?/y", "https://h?x/y", "https://[::1]:443?x/y"),
        *(
            "postgresql://h/d",
            "postgresql://h/d?query=",
            "postgresql://h/d?query=%20",
            "postgresql://h?query=TABLE%20t",
            "postgresql:///d?query=TABLE%20t",
            "postgresql://u:p@h/d?query=TABLE%20t",
            "postgresql://h,g/d?query=TABLE%20t",
            "postgresql://h:1,g:2/d?query=TABLE%20t",
            "postgresql://h/d/e?query=TABLE%20t",
            "postgresql://h/?query=TABLE%20t",
            "postgres://h/d?query=TABLE%20t",
        ),
        *(
            "postgresql://h/d?query=TABLE+t",
            "postgresql://h/d?query=TABLE%20t%00",
            "postgresql://h/d?query=TABLE%20t%ff",
            "postgresql://h/d?query=TABLE%20t&host=evil",
            "postgresql://h/d?host=evil&query=TABLE%20t",
            "postgresql://h/d?sslmode=disable",
            "postgresql://h/d?query=" + 8000 * "x",
        ),
    ],
)
def test_addresses_that_could_be_read_in_two_ways_are_none(text: str) -> None:
    with pytest.raises(PlaceRefused) as refused:
        parse(text)
    assert refused.value.issues[0].pointer == "/content_from"


def places(*given: dict[str, Any], tmp_path: Path) -> list[rules.Place]:
    return read_places(Settings(content_places=allowing(tmp_path, *given)))


@pytest.mark.parametrize(
    ("place", "address", "belongs"),
    [
        ("https://Data.Example/a/", "https://data.example:443/a/b", True),
        ("https://data.example/a/", "https://data.example/a/b/c.csv?token=1", True),
        ("https://data.example/a/", "https://data.example/ab", False),
        ("https://data.example/a/", "https://data.example:8443/a/b", False),
        ("https://data.example/a/", "https://data.example.evil/a/b", False),
        ("https://data.example/a/", "https://data.example/A/b", False),
        ("https://data.example/", "https://2130706433/x", False),
        ("file:///srv/a/", "file:///srv/a/b.csv", True),
        ("file:///srv/a/", "file://localhost/srv/%61/b.csv", True),
        ("file:///srv/a/", "file:///srv/a", False),
        ("file:///srv/a/", "file:///srv/ab/c.csv", False),
        ("s3://bucket/a/", "s3://bucket/a/*/b.parquet", True),
        ("s3://bucket/a/", "s3://bucket/*/b.parquet", False),
        ("s3://bucket/a/", "s3://bucket2/a/b.parquet", False),
        ("postgresql://h/d", "postgresql://H:5432/d?query=TABLE%20t", True),
        ("postgresql://h/d", "postgresql://h/d?named=t", True),
        ("postgresql://h/d", "postgresql://h:5433/d?query=TABLE%20t", False),
        ("postgresql://h/d", "postgresql://h/d2?query=TABLE%20t", False),
        ("postgresql://h/d", "https://h:5432/d", False),
    ],
)
def test_what_belongs_to_a_place(tmp_path: Path, place: str, address: str, belongs: bool) -> None:
    more = {"user": "reader"} if place.startswith("postgresql") else {}
    (one,) = places({"url": place, **more}, tmp_path=tmp_path)
    assert one.holds(parse(address)) == belongs


def test_who_may_use_a_place(tmp_path: Path) -> None:
    found = places(
        {"url": "file:///srv/", "tenants": ["north"]},
        {"url": "file:///srv/inner/", "tenants": ["ten_2"], "principals": ["ada"]},
        tmp_path=tmp_path,
    )
    address = parse("file:///srv/inner/x.csv")
    assert place_of(address, found, ("ten_1", "north"), "bob") is found[0]
    assert place_of(address, found, ("ten_2", "south"), "ada") is found[1]
    for tenant, principal in ((("ten_2", "south"), "bob"), (("ten_3", "ten"), "ada"), ((), "ada")):
        with pytest.raises(PlaceRefused, match=NOTHING_ALLOWED):
            place_of(address, found, tenant, principal)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{", "is not"),
        ("[]", "is not"),
        ('{"places": [1]}', "place 0 needs a url"),
        ('{"places": [{"url": "ftp://h/", "tenants": ["*"]}]}', "place 0 needs a url"),
        ('{"places": [{"url": "https://h/"}]}', "place 0, tenants: Field required"),
        ('{"places": [{"url": "https://h/", "tenants": []}]}', "place 0, tenants"),
        ('{"places": [{"url": "https://h/x", "tenants": ["*"]}]}', "ends with /"),
        ('{"places": [{"url": "s3://b/*/", "tenants": ["*"]}]}', "no \\* and no"),
        (
            '{"places": [{"url": "https://h/", "tenants": ["*"], "privat": true}]}',
            "place 0, privat",
        ),
        (
            '{"places": [{"url": "https://h/", "tenants": ["*"], "authorization": 7}]}',
            "place 0, authorization",
        ),
        ('{"places": [{"url": "postgresql://h/d", "tenants": ["*"]}]}', "place 0, user"),
        ('{"places": [{"url": "postgresql://h/d?named=x", "tenants": ["*"], "user": "u"}]}', "qu"),
        ('{"places": [{"url": "postgresql://h/d/", "tenants": ["*"], "user": "u"}]}', "empty seg"),
        (
            '{"places": [{"url": "postgresql://h/d", "tenants": ["*"], "user": "u", "key": "k"}]}',
            "certificate and key are given together",
        ),
    ],
)
def test_a_file_of_places_that_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "places.json"
    path.write_text(text)
    with pytest.raises(PlacesUnreadable, match=why):
        read_places(Settings(content_places=path))


def test_secrets_of_places_are_for_the_service_alone(tmp_path: Path) -> None:
    secret = "Bearer tr0ub4dor"
    path = allowing(tmp_path, {"url": "https://h/", "authorization": secret})
    assert secret not in repr(read_places(Settings(content_places=path)))
    path.chmod(0o644)
    with pytest.raises(PlacesUnreadable, match="chmod 600") as refused:
        read_places(Settings(content_places=path))
    assert secret not in str(refused.value)
    with pytest.raises(PlacesUnreadable, match="No such file"):
        read_places(Settings(content_places=tmp_path / "other.json"))
    assert read_places(Settings()) == []


# Files --------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of a place, files beside it, and names that lead from the one to the other."""
    inside, outside = tmp_path / "in side", tmp_path / "outside"
    (inside / "days" / "monday").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret.parquet").write_bytes(b"secret")
    (inside / "a.parquet").write_bytes(b"first")
    (inside / "b.parquet").write_bytes(b"second one")
    (inside / ".hidden.parquet").write_bytes(b"hidden")
    (inside / "[x].csv").write_bytes(b"brackets")
    (inside / "days" / "monday" / "x.parquet").write_bytes(b"monday")
    (inside / "days" / "note.txt").write_bytes(b"no folder")
    (inside / "link.parquet").symlink_to(outside / "secret.parquet")
    (inside / "linked").symlink_to(outside)
    os.mkfifo(inside / "pipe.parquet")
    return inside


@pytest.fixture
def allowed(database: Database, tmp_path: Path, folder: Path) -> Settings:
    path = allowing(tmp_path, {"url": f"file://{tmp_path}/in%20side/"})
    return settings_for(database, tmp_path / "state", content_places=path)


def test_files_below_a_folder(allowed: Settings, folder: Path) -> None:
    where = f"file://{folder.parent}/in%20side"
    assert fetched(allowed, f"{where}/a.parquet") == (b"first", [5], "parquet")
    assert fetched(allowed, f"{where}/?.parquet") == (b"firstsecond one", [5, 10], "parquet")
    assert fetched(allowed, f"{where}/days/*/*.parquet") == (b"monday", [6], "parquet")
    assert fetched(allowed, f"{where}/%5Bx%5D.csv") == (b"brackets", [8], "csv")


@pytest.mark.parametrize(
    "name",
    [
        *(
            "link.parquet",
            "linked/secret.parquet",
            "linked/*.parquet",
            "link*.parquet",
            "pipe.parquet",
            "none.parquet",
        ),
        *("days", "a.parquet/x", "days/*.parquet", "[a].parquet"),
    ],
)
def test_names_that_lead_to_no_file_of_the_folder(
    allowed: Settings, folder: Path, name: str
) -> None:
    address = f"file://{folder.parent}/in%20side/{name}".replace("[", "%5B").replace("]", "%5D")
    with pytest.raises(PlaceRefused, match=r"there is no file of this name|this is a folder"):
        fetched(allowed, address)


def test_what_is_refused_says_nothing_of_what_is_there(allowed: Settings, folder: Path) -> None:
    told = set()
    for address in ("outside/secret.parquet", "outside/none.parquet", "nowhere/x.parquet"):
        with pytest.raises(PlaceRefused, match=NOTHING_ALLOWED) as refused:
            fetched(allowed, f"file://{folder.parent}/{address}")
        told.add(str(refused.value))
    assert len(told) == 1
    with pytest.raises(PlaceRefused, match=NOTHING_ALLOWED):
        fetched(
            allowed.model_copy(update={"content_places": None}),
            f"file://{folder}/a.parquet".replace(" ", "%20"),
        )


def test_patterns_are_of_parquet_alone(allowed: Settings, folder: Path) -> None:
    with pytest.raises(PlaceRefused, match="where they are Parquet"):
        fetched(allowed, f"file://{folder.parent}/in%20side/*.csv")


def test_more_than_an_upload_may_have(allowed: Settings, folder: Path) -> None:
    """The size of each file is known before a byte of it is read."""
    (folder / "c.json").write_bytes(b"x" * 11)
    where = f"file://{folder.parent}/in%20side"
    with pytest.raises(PayloadTooLarge):
        fetched(allowed.model_copy(update={"upload_bytes": 14}), f"{where}/?.parquet")
    with pytest.raises(PayloadTooLarge):
        fetched(allowed.model_copy(update={"json_body_bytes": 10}), f"{where}/c.json")


def test_a_pattern_ends(allowed: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty files are no bytes, so that only their number ends them; and time does, which ends no
    thread by itself."""
    where = f"file://{folder.parent}/in%20side"
    for number in range(4):
        (folder / "days" / f"d{number}").mkdir()
        (folder / "days" / f"d{number}" / "x.parquet").touch()
    with monkeypatch.context() as patched:
        patched.setattr(local, "MOST_PARTS", 4)
        (folder / "days" / "note.txt").unlink()
        (folder / "days" / "d3" / "x.parquet").rename(folder / "days" / "d2" / "y.parquet")
        (folder / "days" / "d3").rmdir()
        with pytest.raises(PlaceRefused, match="a pattern of at most 4 files"):
            fetched(allowed, f"{where}/days/*/*.parquet")
    address = parse(f"{where}/a.parquet")
    (place,) = read_places(allowed)
    assert isinstance(place, FolderPlace)
    with pytest.raises(PlaceUnavailable, match="reading the files took too long"):
        local.copy(place, address, Upload(folder), lambda _: None, time.monotonic() - 1)


def test_a_place_that_hangs_holds_no_thread_of_others(
    allowed: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For an hour it would: pages and requests need the threads that every process has."""
    taken = []

    def waiting(*_: Any) -> None:
        limiter = anyio.from_thread.run_sync(anyio.to_thread.current_default_thread_limiter)
        taken.append(limiter.borrowed_tokens)
        raise PlaceUnavailable("it hangs")

    monkeypatch.setattr(local, "copy", waiting)
    with pytest.raises(PlaceUnavailable, match="it hangs"):
        fetched(allowed, f"file://{folder.parent}/in%20side/a.parquet")
    assert taken == [0]


def test_a_fetch_that_is_given_up_ends(
    allowed: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its thread finds the file closed and writes nowhere else, whoever has the number now."""
    upload, others = Upload(folder), []

    def given_up(descriptor: int, size: int) -> bytes:
        number = upload.file.descriptor
        upload.close()
        others.append(os.open(folder / "days" / "note.txt", os.O_RDWR))
        assert others[-1] == number
        return b"x" * (4 << 20)

    (place,) = read_places(allowed)
    assert isinstance(place, FolderPlace)
    (folder / "a.parquet").write_bytes(b"x" * (4 << 20))
    monkeypatch.setattr(local.os, "read", given_up)
    try:
        with pytest.raises(FileClosed):
            local.copy(
                place, parse(f"file://{folder.parent}/in%20side/a.parquet"), upload, lambda _: None
            )
    finally:
        os.close(others[0])
    assert (folder / "days" / "note.txt").read_bytes() == b"no folder"


def test_a_file_that_the_service_may_not_read(
    allowed: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refusing(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if path == "a.parquet":
            raise PermissionError(13, "Permission denied")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(local.os, "open", refusing)
    with pytest.raises(PlaceUnavailable, match="may not read this file"):
        fetched(allowed, f"file://{folder.parent}/in%20side/a.parquet")


@pytest.mark.parametrize("change", [b"more", b""])
def test_a_file_that_changes_while_it_is_read(
    allowed: Settings, folder: Path, monkeypatch: pytest.MonkeyPatch, change: bytes
) -> None:
    real = Upload.write

    def writing(self: Upload, part: memoryview | bytes) -> None:
        real(self, part)
        (folder / "a.parquet").write_bytes(b"FIRST" + change)

    monkeypatch.setattr(Upload, "write", writing)
    with pytest.raises(ContentChanged):
        fetched(allowed, f"file://{folder.parent}/in%20side/a.parquet")


# Through the API ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running(
    postgres: EmbeddedPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Installation, Path]]:
    """An API that may read files of a folder, for tenant `default`."""
    place = tmp_path_factory.mktemp("exports")
    path = allowing(
        tmp_path_factory.mktemp("operator"), {"url": f"file://{place}/", "tenants": ["default"]}
    )
    with fresh_database(postgres, template) as database:
        installation = Installation(settings_for(database, tmp_path_factory.mktemp("state")))
        installation.extra["DISCREET_CONTENT_PLACES"] = str(path)
        try:
            installation.make_keys()
            installation.start_api()
            yield installation, place
        finally:
            installation.stop()


def registration(address: str, **values: Any) -> dict[str, Any]:
    body = {**bodies.dataset(), "name": "exported", "content_from": address, **values}
    del body["content"]
    return body


def test_one_content_however_it_comes(running: tuple[Installation, Path]) -> None:
    """Parts of a folder, one file and an upload are one content: one digest, so one dataset."""
    installation, place = running
    whole = trips()
    (place / "whole.csv").write_text(
        "period,origin,destination,count\n"
        + "".join(
            ",".join(str(row[name]) for name in whole.column_names) + "\n"
            for row in whole.to_pylist()
        )
    )
    for number in range(3):
        (place / f"part-{number}.parquet").write_bytes(parquet(whole.slice(10 * number, 10)))
    with installation.http() as http:
        first = http.post("/v1/datasets", json=registration(f"file://{place}/part-*.parquet"))
        assert first.status_code == 201, first.text
        again = http.post("/v1/datasets", json=registration(f"file://{place}/whole.csv"))
        metadata = {
            name: value for name, value in registration("").items() if name != "content_from"
        }
        files = {"content": ("x.parquet", parquet(whole))}
        uploaded = http.post("/v1/datasets", data={"metadata": json.dumps(metadata)}, files=files)
    for answer in (again, uploaded):
        assert (answer.status_code, answer.json()["id"]) == (200, first.json()["id"]), answer.text
    assert "content" not in first.text


def test_blocks_of_a_source_lie_elsewhere_too(running: tuple[Installation, Path]) -> None:
    """Parts of a folder are one block, of which the last has no records, as its footer says; a
    block whose only part has none is empty."""
    installation, place = running
    whole = trips(1000, 20)
    for number in range(3):
        (place / f"north-{number}.parquet").write_bytes(parquet(whole.slice(10 * number, 10)))
    source = {
        "name": "wards",
        "kind": "routing",
        "by": "label",
        "public": bodies.dataset()["public"],
        "cap": {"epsilon": 1, "delta": 0},
    }
    with installation.http() as http:
        blocks = f"/v1/sources/{http.post('/v1/sources', json=source).json()['id']}/blocks"

        def added(block: str, address: str, **more: Any) -> Any:
            return http.post(blocks, json={"block": block, "content_from": address, **more})

        first = added("north", f"file://{place}/north-*.parquet")
        assert first.status_code == 201, first.text
        files = {"content": ("x.parquet", parquet(whole))}
        again = http.post(blocks, data={"metadata": '{"block": "north"}'}, files=files)
        assert (again.status_code, again.json()["version"]) == (200, first.json()["version"])
        assert added("south", f"file://{place}/north-2.parquet").status_code == 201
        for refused in (
            added("east", f"file://{place}/north-0.parquet", content={}),
            added("east", "file:///etc/passwd"),
            added("east", f"file://{place.parent}/x.parquet"),
        ):
            assert refused.status_code == 422
            assert [one["pointer"] for one in refused.json()["errors"]] == ["/content_from"]
        # Whether a link leads out of the folder, or nothing is there, is not told.
        secret = place.parent / "secret.parquet"
        secret.write_bytes(parquet(trips(5000, 10)))
        (place / "out.parquet").symlink_to(secret)
        said = [
            added("east", f"file://{place}/{name}.parquet").json()["errors"]
            for name in ("out", "none")
        ]
        assert said[0] == said[1]
        # What lies there later is a version of the same block, on the same account.
        (place / "north-2.parquet").write_bytes(parquet(trips(7000, 10)))
        later = added("north", f"file://{place}/north-*.parquet")
        assert (later.status_code, later.json()["version"]) == (201, 2), later.text
        assert later.json()["account"] == first.json()["account"]
    with installation.http(installation.key_of("analyst")) as http:
        assert added("east", f"file://{place}/north-0.parquet").status_code == 403
    with installation.client() as client:
        made = client.sources.add(blocks.split("/")[3], "east", f"file://{place}/north-0.parquet")
    command = ["source", "add", "wards", f"file://{place}/north-1.parquet", "--block", "west"]
    ask = ["--server", installation.url, "--key", installation.owner_key, "--json"]
    done = CliRunner().invoke(app, [*command, *ask])
    assert (made["block"], json.loads(done.stdout)["block"]) == ("east", "west"), done.stderr


def test_parts_with_other_columns_are_refused(running: tuple[Installation, Path]) -> None:
    installation, place = running
    (place / "odd-0.parquet").write_bytes(parquet(trips()))
    (place / "odd-1.parquet").write_bytes(
        parquet(trips().rename_columns(["period", "origin", "destination", "n"]))
    )
    with installation.http() as http:
        refused = http.post("/v1/datasets", json=registration(f"file://{place}/odd-*.parquet"))
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["pointer"] == "/content_from"
    assert "the files differ in their columns or types" in error["detail"]


@pytest.mark.parametrize(
    ("changed", "pointer"),
    [
        ({"content": {"trips": []}}, "/content_from"),
        ({"content_from": 7}, "/content_from"),
        ({"content_from": ""}, "/content_from"),
        ({"content_from": "file:///etc/passwd"}, "/content_from"),
        ({"content_from": "https://169.254.169.254/latest/meta-data/"}, "/content_from"),
        ({"kind": "none"}, "/kind"),
        ({"public": {"unit": "request"}}, "/public/zones"),
        ({"more": 1}, "/more"),
        ({"cap": None}, "/cap"),
    ],
)
def test_bodies_that_are_refused(
    running: tuple[Installation, Path], changed: dict[str, Any], pointer: str
) -> None:
    installation, place = running
    (place / "any.parquet").write_bytes(parquet(trips()))
    with installation.http() as http:
        answer = http.post(
            "/v1/datasets", json={**registration(f"file://{place}/any.parquet"), **changed}
        )
    assert answer.status_code == 422
    assert pointer in [error["pointer"] for error in answer.json()["errors"]], answer.text


def test_owners_alone_and_of_tenants_that_may(running: tuple[Installation, Path]) -> None:
    """An analyst is told nothing of what is there; nor is the owner of another tenant."""
    installation, place = running
    (place / "there.parquet").write_bytes(parquet(trips(7)))
    for name in ("there", "absent"):
        with installation.http(installation.key_of("analyst")) as http:
            answer = http.post("/v1/datasets", json=registration(f"file://{place}/{name}.parquet"))
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    told = set()
    with installation.http(installation.owner_of("elsewhere")) as http:
        for name in ("there", "absent"):
            answer = http.post("/v1/datasets", json=registration(f"file://{place}/{name}.parquet"))
            assert (answer.status_code, answer.json()["code"]) == (422, "place_refused")
            told.add(answer.json()["detail"])
    assert len(told) == 1


def test_the_database_holds_no_address(running: tuple[Installation, Path]) -> None:
    installation, place = running
    (place / "kept.parquet").write_bytes(parquet(trips(900)))
    with installation.http() as http:
        assert (
            http.post("/v1/datasets", json=registration(f"file://{place}/kept.parquet")).status_code
            == 201
        )
    with psycopg.connect(installation.settings.migration_database_url or "") as connection:
        connection.execute("SET discreet.tenant = '*'")
        ((held,),) = connection.execute(
            "SELECT count(*) FROM datasets AS d WHERE d::text LIKE '%kept.parquet%'"
        ).fetchall()
    assert held == 0


def test_pages_take_addresses_and_refuse_them_at_the_field(
    running: tuple[Installation, Path],
) -> None:
    """The forms of a dataset and of a block, without scripts; who may use no place has none."""
    installation, place = running
    for number in range(3):
        (place / f"page-{number}.parquet").write_bytes(parquet(trips(70_000 + 100 * number)))
    (place / "page-moved.parquet").write_bytes((place / "page-1.parquet").read_bytes())
    public = bodies.dataset()["public"]
    step_one: dict[str, Any] = {"name": "placed", "public": json.dumps(public), "account": "new"}
    with Browser.logged_in(installation) as browser:
        page = browser.get("/datasets/new?kind=routing")
        page = browser.submit(page, "/datasets/new", **step_one)
        assert f"file://{place}/" in page.text
        for wrong in ("file:///etc/passwd", f"file://{place}/absent.parquet", "ftp://h/x", ""):
            page = browser.submit(page, "/datasets/address", content_from=wrong)
            assert page.status == 422
            field = next(values for tag, values in page.tags if values.get("id") == "content-from")
            assert (field["value"], field["aria-invalid"]) == (wrong, "true")
            assert "content-from-error" in str(field["aria-describedby"]).split()
        address = f"file://{place}/page-0.parquet"
        page = browser.submit(page, "/datasets/address", content_from=address, content_stays="yes")
        assert page.response.url.path.startswith("/datasets/dst_"), page.text
        assert "It stays where it lies, in a folder of the service" in page.text
        source = {"name": "rooms", "kind": "routing", "by": "label", "public": public}
        with installation.client() as client:
            made = client.sources.create({**source, "cap": {"epsilon": 1, "delta": 0}})
        path = f"/sources/{made['id']}"
        page = browser.submit(
            browser.get(path), f"{path}/address", block="1", content_from="file:///etc/passwd"
        )
        assert page.status == 422
        assert "content-from-error" in page.response.text
        for name, said in (
            ("page-1", "Block 1 is registered."),
            ("page-moved", "had this content already; it is read where you said from now on"),
        ):
            where: dict[str, Any] = {"content_from": f"file://{place}/{name}.parquet"}
            where["content_stays"] = "yes"
            page = browser.submit(page, f"{path}/address", block="1", **where)
            assert said in page.text
        assert "stays in a folder of the service" in page.text
        file = ("x.parquet", (place / "page-2.parquet").read_bytes(), "application/octet-stream")
        page = browser.submit(page, f"{path}/upload", metadata="2", files={"content": file})
    with installation.http(installation.key_of("analyst")) as http:
        first, second = http.get(f"/v1{path}").json()["blocks"]
        assert first["place"].keys() >= {"at", "unchanged_at"}
        assert first["place"]["at"] == "file"
        assert second.get("place") is None
    with installation.http() as http:
        lies = http.get(f"/v1/datasets/{first['dataset']}").json()["place"]["address"]
        assert lies.endswith("/page-moved.parquet")
    with Browser.logged_in(installation, installation.key_of("analyst")) as browser:
        page = browser.get(path)
        assert "stays in a folder of the service" in page.text
        assert [form for form in page.forms if str(form["action"]).startswith(path)] == []
    with Browser.logged_in(installation, installation.owner_of("no-place")) as browser:
        page = browser.submit(
            browser.get("/datasets/new?kind=routing"), "/datasets/new", **step_one
        )
        assert "lets you register nothing from an address" in page.text
        assert str(place) not in page.text
        assert "/datasets/address" not in page.response.text


def test_a_content_that_stays_as_people_see_it(running: tuple[Installation, Path]) -> None:
    """Owners are told where it lies, everybody of which kind the place is; only what has an address
    can stay."""
    installation, place = running
    for number in range(2):
        (place / f"stays-{number}.parquet").write_bytes(parquet(trips(3000 + 1000 * number)))
    given = {"public": bodies.dataset()["public"], "kind": "routing"}
    with installation.client() as client:
        made = client.register(
            **given, content=f"file://{place}/stays-0.parquet", cap=1, stays=True
        )
        with pytest.raises(TypeError, match="stays=True needs an address"):
            client.register(**given, content={"trips": []}, cap=1, stays=True)
    command = ["dataset", "add", f"file://{place}/stays-?.parquet", "--kind", "routing", "--stays"]
    command += ["--public", json.dumps(given["public"]), "--epsilon", "1", "--other-people"]
    ask = ["--server", installation.url, "--key", installation.owner_key]
    done = CliRunner().invoke(app, [*command, *ask, "--json"])
    assert done.exit_code == 0, done.stderr
    told = CliRunner().invoke(app, ["dataset", "show", json.loads(done.stdout)["id"], *ask])
    assert "stays-?.parquet" in re.sub(r"[\s│]", "", told.stdout)  # in a table, on several lines
    nowhere = CliRunner().invoke(app, ["dataset", "add", "x.csv", "--stays", *ask])
    assert nowhere.exit_code == 2
    path = f"/v1/datasets/{made['id']}"
    installation.start_worker()
    with installation.client() as client:  # of a process that has the operator's file too
        job = client.wait(client.submit(bodies.job(made["id"]))["id"])
        assert job["state"] == "succeeded", job
        (place / "stays-1.parquet").unlink()
        job = client.wait(client.submit(bodies.job(json.loads(done.stdout)["id"]))["id"])
        assert job["error"]["code"] == "content_differs"
        assert json.loads(done.stdout)["name"] in job["error"]["detail"]
        failed = job["id"]
    installation.stop_workers()
    with installation.http() as http:
        assert http.get(path).json()["place"]["address"].endswith("/stays-0.parquet")
        for wrong in ({"content_stays": 1}, {"content_stays": "true"}):
            answer = http.post("/v1/datasets", json=registration(f"file://{place}/x.csv", **wrong))
            assert answer.json()["errors"][0]["pointer"] == "/content_stays"
        answer = http.post("/v1/datasets", json={**bodies.dataset(), "content_stays": True})
        assert answer.json()["errors"][0]["pointer"] == "/content_stays"
    with installation.http(installation.key_of("analyst")) as http:
        assert http.get(path).json()["place"].keys() == {"at", "unchanged_at"}
    with Browser.logged_in(installation) as browser:
        page = browser.get(f"/datasets/{made['id']}").text
        assert "stays where it lies, in a folder of the service" in page
        assert f"{place}/stays-0.parquet" in page
        page = browser.get(f"/datasets/{made['id']}/delete").text
        assert "The address at which the content stays" in page
        assert "Forget the address" in page
        assert "lay the registered content there again" in browser.get(f"/jobs/{failed}").text
    with Browser.logged_in(installation, installation.key_of("analyst")) as browser:
        assert "stays-0.parquet" not in browser.get(f"/datasets/{made['id']}").text


def test_rows_of_a_database_as_people_register_them(
    running: tuple[Installation, Path], postgres: EmbeddedPostgres
) -> None:
    """With a query of their own, by command and in Python; a mistake in it is said in a line."""
    installation, _ = running
    operator = Path(installation.extra["DISCREET_CONTENT_PLACES"])
    before, public = operator.read_text(), bodies.dataset()["public"]
    ask = ["--server", installation.url, "--key", installation.owner_key, "--json"]
    told = ["--kind", "routing", "--public", json.dumps(public), "--epsilon", "1", *ask]
    with meters_of(postgres) as meters, Front(meters.sockets) as front:
        place = {"tenants": ["default"], **meters.place(front)}
        operator.write_text(json.dumps({"places": [*json.loads(before)["places"], place]}))
        try:
            query = "SELECT period, origin, destination, count + 50000 AS count FROM trips"
            command = [
                "dataset",
                "add",
                place["url"],
                "--query",
                query,
                "--other-people",
                "--stays",
            ]
            done = CliRunner().invoke(app, [*command, *told])
            assert done.exit_code == 0, done.output
            made = json.loads(done.stdout)
            assert (made["name"], made["place"]["at"]) == (meters.name, "postgresql")
            with installation.client() as client:
                content = rows_of(place["url"], f"WITH t AS ({query}) TABLE t ORDER BY count")
                again = client.register("routing", public, content, cap=1, stays=True)
                shown = client.dataset(made["id"])["place"]
            assert (again["id"], shown["address"]) == (made["id"], content)
            wrong = ["dataset", "add", place["url"], "--query", "SELECT orign FROM trips"]
            done = CliRunner().invoke(app, [*wrong, "--other-people", *told])
            assert done.exit_code != 0
            assert 'column "orign" does not exist, at character 8' in str(done.exception)
        finally:
            operator.write_text(before)
    done = CliRunner().invoke(app, ["dataset", "add", "x.csv", "--query", "TABLE trips", *told])
    assert (done.exit_code, "a database is needed" in done.output) == (2, True)
    with Browser.logged_in(installation) as browser:
        assert (
            "It stays where it lies, in a database" in browser.get(f"/datasets/{made['id']}").text
        )


# Tables of somebody's own -------------------------------------------------------------------------

HEAD = "Von;Nach;Tag;Uhr;Fahrten;Fahrer\n"
ROWS = (
    "Ä;B;02.11.2026;07:10;1,5;Anna Kanarienvogel",
    "B;Ä;02.11.2026;08:10;2;Otto Kanarienvogel",
    "B;C;02.11.2026;09:10;4;Otto Kanarienvogel",
)
RULES = {
    "encoding": "cp1252",
    "decimal": ",",
    "time_zone": "Europe/Berlin",
    "start": "2026-11-02T07:00",
    "outside": "leave_out",
}
OWN: dict[str, Any] = {
    "unit": "request",
    "zones": 3,
    "periods": 2,
    "period_minutes": 60,
    "trip_scale": 10,
    "reader": {**RULES, "zones": ["Ä", "B", "C"]},
    "columns": {"origin": "Von", "destination": "Nach", "time": "Tag+Uhr", "count": "Fahrten"},
}
TABLE = """
CREATE TABLE fahrten ("Von" text, "Nach" text, zeit timestamp, menge numeric, fahrer text);
INSERT INTO fahrten VALUES ('Ä', 'B', '2026-11-02 07:10', 1.5, 'Anna'),
  ('B', 'Ä', '2026-11-02 08:10', 2, 'Otto'), ('B', 'C', '2026-11-02 09:10', 4, 'Otto');
"""
SELECT = 'SELECT "Von", "Nach", zeit AS "Zeit", menge AS "Fahrten" FROM fahrten'


@dataclass
class Site:
    """A service that may read a folder and a database."""

    running: Installation
    folder: Path
    meters: Meters
    base: str
    http: httpx.Client

    def file(self, name: str, content: str | bytes, encoding: str = "cp1252") -> str:
        raw = content.encode(encoding) if isinstance(content, str) else content
        (self.folder / name).write_bytes(raw)
        return f"file://{self.folder}/{name}"

    def query(self, text: str) -> str:
        return f"{self.base}?query={quote(text)}"

    def post(self, address: str, **more: Any) -> Any:
        body = {"name": "Fahrten", "kind": "routing", "cap": {"epsilon": 4}, "public": OWN}
        return self.http.post("/v1/datasets", json={**body, "content_from": address, **more})


@pytest.fixture(scope="module")
def site(running: tuple[Installation, Path], postgres: EmbeddedPostgres) -> Iterator[Site]:
    installation, folder = running
    operator = Path(installation.extra["DISCREET_CONTENT_PLACES"])
    before = operator.read_text()
    with meters_of(postgres) as meters, Front(meters.sockets) as front, installation.http() as http:
        meters.run(TABLE)
        meters.run(f"GRANT SELECT ON fahrten TO {meters.user}")
        place = {"tenants": ["default"], **meters.place(front)}
        operator.write_text(json.dumps({"places": [*json.loads(before)["places"], place]}))
        try:
            yield Site(installation, folder, meters, str(place["url"]), http)
        finally:
            operator.write_text(before)


def timed_of(public: dict[str, Any], **columns: str) -> dict[str, Any]:
    """The public part of a table in which times have a column of their own and numbers are
    numbers."""
    rules = {name: one for name, one in public["reader"].items() if name in ("zones", *RULES)}
    return {**public, "reader": rules, "columns": {**public["columns"], **columns}}


def test_a_table_is_the_same_dataset_wherever_it_lies(site: Site) -> None:
    text = HEAD + "\n".join(ROWS) + "\n"
    metadata = {"name": "Fahrten", "kind": "routing", "cap": {"epsilon": 4}, "public": OWN}
    files = {
        "metadata": (None, json.dumps(metadata)),
        "content": ("fahrten.csv", text.encode("cp1252")),
    }
    sent = site.http.post("/v1/datasets", files=files)
    assert sent.status_code == 201, sent.text
    whole = {"Von": ["Ä", "B", "B"], "Nach": ["B", "Ä", "C"], "Fahrten": [1.5, 2, 4]}
    times = [f"2026-11-02T{hour}:10" for hour in ("07", "08", "09")]
    table = pa.table({**whole, "Zeit": times})
    for number in (0, 1):
        site.file(f"teil-{number}.parquet", parquet(table.slice(2 * number, 2)))
    timed = timed_of(OWN, time="Zeit")
    rows = [list(row.values()) for row in table.to_pylist()]
    book = workbook([table.column_names, *rows])
    for address, public in (
        (site.file("fahrten.csv", text), OWN),
        (site.file("fahrten.parquet", parquet(table)), timed),
        (f"file://{site.folder}/teil-*.parquet", timed),
        (site.file("fahrten.xlsx", book), timed),
        (site.query(SELECT), timed),
    ):
        made = site.post(address, public=public)
        assert (made.status_code, made.json().get("id")) == (200, sent.json()["id"]), made.text
        assert "notes" not in made.json()  # of a place no row is told, nor how many are left out
    odd = table.rename_columns(["Von", "Nach", "Fahrten", "Uhr"])
    site.file("odd-0.parquet", parquet(table))
    site.file("odd-1.parquet", parquet(odd))
    refused = site.post(f"file://{site.folder}/odd-*.parquet", public=timed)
    assert "the files differ in their columns or types" in refused.text


def test_a_block_lies_elsewhere_and_is_read_as_its_source_says(site: Site) -> None:
    rules = {**RULES, "block": "time", "start": "07:00", "every": "weekday"}
    public = {**OWN, "periods": 5, "reader": rules, "columns": {**OWN["columns"]}}
    source = {"name": "Monate", "kind": "routing", "by": "month", "cap": {"epsilon": 1}}
    made = site.http.post("/v1/sources", json={**source, "public": public}).json()
    names = {"zones": ["Ä", "B", "C"]}
    path = f"/v1/sources/{made['id']}/blocks"
    address = site.file("november.csv", HEAD + "\n".join(ROWS))
    body = {"block": "2026-11", "content_from": address, "reader": names}
    added = site.http.post(path, json=body)
    assert added.status_code == 201, added.text
    files = {
        "metadata": (None, json.dumps({"block": "2026-11", "reader": names})),
        "content": ("n.csv", (HEAD + "\n".join(ROWS)).encode("cp1252")),
    }
    again = site.http.post(path, files=files)
    assert (again.status_code, again.json()["version"]) == (200, added.json()["version"])
    wrong = {**body, "block": "2026-10"}
    refused = site.http.post(path, json=wrong)
    assert refused.status_code == 422
    (error,) = refused.json()["errors"]
    assert error["cause"] == "a date is not of this block, or none"
    assert error["column"] == "Tag+Uhr"
    assert "2026-11-02" not in refused.text
    stays = site.http.post(path, json={**body, "content_stays": True})
    assert "names of zones" in stays.text


def test_what_stays_is_read_again_by_its_description(site: Site) -> None:
    """Also where names of zones are those of a stored network; and where that is gone, the job ends
    before anything is charged."""
    site.running.start_worker()
    links = [
        {"tail": a, "head": b, "free_flow_time": 1, "capacity": 9}
        for a in (1, 2, 3)
        for b in (1, 2, 3)
        if a != b
    ]
    network = {"nodes": 3, "links": links, "node_names": ["Ä", "B", "C"]}
    stored = site.http.post("/v1/networks", json={"name": "Straßen", "network": network})
    assert stored.status_code == 201, stored.text
    zones = {"zones": {"network": stored.json()["id"]}}
    timed = timed_of(OWN, time="Zeit")
    for address, public in (
        (site.file("stays.csv", HEAD + ROWS[1]), OWN),
        (site.query(f"{SELECT} WHERE menge < 2"), timed),
    ):
        said = {**public, "reader": {**public["reader"], **zones}}
        made = site.post(address, public=said, content_stays=True)
        assert made.status_code == 201, made.text
        assert made.json()["public"]["reader"]["zones"] == zones["zones"]
        with site.running.client() as client:
            asked = bodies.job(made.json()["id"], network={**network}, method="counts")
            job = client.wait(client.submit(asked)["id"])
            assert job["state"] == "succeeded", job
    assert site.http.delete(f"/v1/networks/{stored.json()['id']}").status_code == 204
    with site.running.client() as client:
        job = client.wait(client.submit(asked)["id"])
        assert (job["state"], job["error"]["code"]) == ("failed", "content_differs")
    site.running.stop_workers()


def test_refusals_say_column_cause_and_way_out_and_no_more(site: Site) -> None:
    """A query says what fails and where, so that a value, or a row's number, would be read by it.
    The first mistake only: which of many columns are wrong would be a number of bits."""
    timed = timed_of(OWN, time="Zeit")
    select = 'SELECT "Von", "Nach", zeit AS "Zeit", {} AS "Fahrten" FROM fahrten, secrets'
    told = [site.post(site.query(select.format("word")), public=timed)]
    (error,) = told[0].json()["errors"]
    assert (error["column"], error["cause"]) == ("Fahrten", "a number is needed")
    assert set(error) == {"pointer", "detail", "column", "cause", "way_out"}
    assert error["way_out"] == "reader.missing_words"  # whatever the text is
    # A value that looks like a way out is none.
    told.append(site.post(site.query(select.format("'reader.outside ' || word")), public=timed))
    assert told[-1].json()["errors"][0]["way_out"] == "reader.decimal"  # for its point
    told.append(
        site.post(site.query(select.format("'1.234'::text || left(word, 0)")), public=timed)
    )
    for wrong in ("1000000000000000000", "NULL", "1.55", "-7"):
        bit = "CASE WHEN menge = {} AND left(word, 1) = 'a' THEN {} ELSE 1 END"
        first, last = (
            site.post(site.query(select.format(bit.format(row, wrong))), public=timed)
            for row in (1.5, 2)
        )
        assert first.json()["errors"] == last.json()["errors"]
        assert first.json()["errors"][0]["column"] == "Fahrten"
        told.append(first)
    unknown = 'SELECT word AS "Von", word AS "Nach", zeit AS "Zeit", word AS "Fahrten" '
    unknown += "FROM fahrten, secrets"
    told.append(site.post(site.query(unknown), public=timed))
    assert len(told[-1].json()["errors"]) == 1
    for name, text, column, cause, way_out in (
        ("a.csv", f"{SECRET};Nach;Tag;Uhr;Fahrten\nB;Ä;02.11.2026;08:10;2\n", "Von", "", "columns"),
        ("b.csv", f'"{SECRET}', None, "", None),
        (
            "c.csv",
            f"{HEAD}Ä;{SECRET};02.11.2026;08:10;2;A\n",
            "Nach",
            "does not know",
            "reader.other_zones",
        ),
        (
            "d.csv",
            f"{HEAD}Ä;B;{SECRET};08:10;2;A\n",
            "Tag+Uhr",
            "a time such as",
            "reader.missing_words",
        ),
        (
            "e.csv",
            f"{HEAD}Ä;B;02.11.2026;08:10;1.500;{SECRET}\n",
            "Fahrten",
            "without points",
            "reader.thousands",
        ),
        (
            "f.csv",
            f"{HEAD}Ä;B;02.11.2026;08:10;;{SECRET}\n",
            "Fahrten",
            "is missing",
            "reader.missing",
        ),
        ("g.parquet", SECRET, None, "", None),
        ("h.xlsx", SECRET, None, "", None),
        ("i.omx", SECRET, None, "", None),
        ("j.json", f'["{SECRET}"', None, "", None),
        ("k.json", f'[{{"{SECRET}": {{"{SECRET}": 1}}}}]', None, "", None),
        ("l.csv", f"{HEAD}Ä;B;02.11.2026;08:10;1;{SECRET};{SECRET}\n", None, "", None),
        ("m.csv", f"{SECRET};{SECRET}\n1;2\n", None, "", None),
    ):
        answer = site.post(site.file(name, text))
        (error,) = answer.json()["errors"]
        assert error["pointer"] == "/content_from"
        assert (error.get("column"), error.get("way_out")) == (column, way_out), (name, error)
        assert cause in error["cause"], error
        told.append(answer)
    for answer in told:
        assert answer.status_code == 422, answer.text
        assert SECRET not in answer.text
        assert not {"row", "found", "count", "last"} & set(answer.json()["errors"][0])
        words = answer.text.replace("02.11.2026", "")
        assert not any(one in words for one in ("1.55", "1000000000000000000", "-7", "1.234"))


def test_a_description_that_is_wrong_is_said_and_is_no_failed_read(site: Site) -> None:
    def failed() -> int:
        log = site.http.get("/v1/audit-log", params={"action": "place.fail"})
        assert log.status_code == 200, log.text
        return len(next(one for one in log.json().values() if isinstance(one, list)))

    before, address = failed(), site.file("fine.csv", HEAD + "\n".join(ROWS))
    public = {**OWN, "reader": {**RULES, "zones": {"network": "net_none"}}}
    refused = site.post(address, public=public)
    assert refused.json()["errors"][0]["pointer"] == "/public/reader/zones/network"
    assert "there is no stored network" in refused.text
    assert failed() == before


def test_the_command_line_describes_what_lies_elsewhere(site: Site, tmp_path: Path) -> None:
    """Names of zones are read from a file here and sent with the description."""
    zones = tmp_path / "zonen.csv"
    zones.write_text("id,number\nÄ,1\nB,2\nC,3\n")
    public = {name: one for name, one in OWN.items() if name not in ("reader", "columns")}
    address = site.file("befehl.csv", HEAD + ROWS[0] + "\n" + ROWS[0])
    columns = ",".join(f"{role}={name}" for role, name in OWN["columns"].items())
    command = ["dataset", "add", address, "--kind", "routing", "--columns", columns]
    command += ["--public", json.dumps({**public, "reader": RULES}), "--zones", str(zones)]
    ask = ["--server", site.running.url, "--key", site.running.owner_key, "--json"]
    done = CliRunner().invoke(app, [*command, "--epsilon", "4", "--other-people", *ask])
    assert done.exit_code == 0, done.output
    with site.running.client() as client:
        again = client.register("routing", OWN, address, cap=4)
    assert again["id"] == json.loads(done.stdout)["id"]


def test_features_are_told_by_their_names(site: Site) -> None:
    """Those that the description names; a meter that has a column is nobody's business."""
    visits = {
        "unit": "trajectory",
        "horizon": 3,
        "reward_bound": 1,
        "ranges": [{"name": "age", "low": 20, "high": 100}],
        "reader": {},
        "columns": {"patient": "pid", "time": "day", "reward": "score"},
    }
    text = f"pid;day;age;score\n1;1;{SECRET};1\n"
    answer = site.post(site.file("visits.csv", text), kind="off_policy_evaluation", public=visits)
    (error,) = answer.json()["errors"]
    assert (error["column"], error["cause"]) == ("age", "a number is needed")
    loads = {
        "unit": "participant",
        "states": 2,
        "edges": [0, 1, 20],
        "steps": 1,
        "meters": {"start": "2026-10-01T00:00", "interval_seconds": 1800},
        "reader": {"time_zone": "Europe/Berlin", "participants": "columns"},
    }
    for line in (f"2026-10-01 00:00;{SECRET}", "2026-10-01 00:00;-1", f"{SECRET};1"):
        address = site.file("loads.csv", f"time;Meter of {SECRET}\n{line}\n")
        refused = site.post(address, kind="dr_ensemble", public=loads)
        assert refused.status_code == 422
        assert SECRET not in refused.text
