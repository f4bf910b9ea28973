"""Tables of people's own as the service reads them: registrations, looks and drafts."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import h5py
import httpx
import psycopg
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from psycopg import sql
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import NotFound
from discreet.installation.postgres import EmbeddedPostgres
from discreet.storage.database import connection_string
from discreet.storage.identifiers import new_id
from discreet.usecases.reads import MOST_FILES
from discreet.web import uploads
from discreet.web.registrations import Draft
from discreet_client.errors import LeftOut
from tests import bodies
from tests.clients.test_containers import workbook
from tests.conftest import Installation, eventually, fresh_database, settings_for
from tests.reliability.chains import superuser_url

PUBLIC: dict[str, Any] = {
    "unit": "request",
    "zones": 3,
    "periods": 2,
    "period_minutes": 60,
    "trip_scale": 10,
    "reader": {
        "decimal": ",",
        "encoding": "cp1252",
        "time_zone": "Europe/Berlin",
        "start": "2026-11-02T07:00",
        "zones": ["Köln", "Bonn", "Aachen"],
        "outside": "leave_out",
    },
    "columns": {"origin": "Von", "destination": "Nach", "time": "Zeit", "count": "Fahrten"},
}
CSV = (
    "Von;Nach;Zeit;Fahrten;Fahrer\n"
    "Köln;Bonn;02.11.2026 07:10;1,5;Anna\n"
    "Bonn;Köln;02.11.2026 08:10;2;Otto\n"
    "Bonn;Aachen;02.11.2026 09:10;2;Otto\n"
).encode("cp1252")


def metadata(name: str, **changes: Any) -> dict[str, Any]:
    whole = {"name": name, "kind": "routing", "cap": {"epsilon": 4}, "public": PUBLIC}
    return {**whole, **changes}


def send(
    http: httpx.Client,
    path: str,
    said: Any,
    content: bytes,
    name: str = "fahrten.csv",
) -> httpx.Response:
    files = {"metadata": (None, json.dumps(said)), "content": (name, content)}
    return http.post(path, files=files)


def test_a_csv_with_names_of_its_own_is_registered(service: Installation) -> None:
    with service.http(service.owner_of("reads-csv")) as http:
        made = send(http, "/v1/datasets", metadata("Fahrten"), CSV)
        assert made.status_code == 201, made.text
        told = made.json()
        assert told["public"]["columns"] == PUBLIC["columns"]
        rules = {name: one for name, one in PUBLIC["reader"].items() if name != "zones"}
        assert told["public"]["reader"] == {"version": 1, **rules}
        assert any("outside" in note for note in told["notes"])
        found = http.get(f"/v1/datasets/{told['id']}").json()
        assert "notes" not in found
        assert "Köln" not in json.dumps(found, ensure_ascii=False)


def test_all_mistakes_are_said_at_once(service: Installation) -> None:
    wrong = CSV.replace(b"1,5", b"1.500").replace(b"08:10", b"8 Uhr")
    with service.http(service.owner_of("reads-wrong")) as http:
        refused = send(http, "/v1/datasets", metadata("Fahrten"), wrong)
        assert refused.status_code == 422
        errors = {one["column"]: one for one in refused.json()["errors"]}
        assert errors["Fahrten"]["row"] == 2
        assert errors["Fahrten"]["way_out"] == "reader.thousands"
        assert errors["Fahrten"]["found"] == "1.500"
        assert errors["Zeit"]["row"] == 3
        assert http.get("/v1/datasets").json()["datasets"] == []
        assert http.get("/v1/budgets").json()["budgets"] == []


def test_a_draft_is_looked_at_again_and_registered(service: Installation) -> None:
    with service.http(service.owner_of("reads-draft")) as http:
        looked = send(http, "/v1/reads", {"kind": "routing", "public": {}}, CSV)
        assert looked.status_code == 200, looked.text
        look = looked.json()
        assert look["columns"] == ["Von", "Nach", "Zeit", "Fahrten", "Fahrer"]
        assert look["format"] == "csv"
        assert look["bytes"] == len(CSV)
        ways = [one["way_out"] for one in look["issues"]]
        assert ways[:3] == ["public.unit", "public.zones", "public.periods"]
        again = {"draft": look["id"], "kind": "routing", "public": PUBLIC}
        second = http.post("/v1/reads", json=again).json()
        assert second["issues"] == []
        assert second["count"] == 3
        assert http.get(f"/v1/reads/{look['id']}").status_code == 200
        # What is refused keeps the file.
        public = {**PUBLIC, "reader": {**PUBLIC["reader"], "outside": "refuse"}}
        body = metadata("Fahrten", draft=look["id"], public=public)
        assert http.post("/v1/datasets", json=body).status_code == 422
        made = http.post("/v1/datasets", json=metadata("Fahrten", draft=look["id"]))
        assert made.status_code == 201, made.text
        assert http.get(f"/v1/reads/{look['id']}").status_code == 404
        same = send(http, "/v1/datasets", metadata("Fahrten"), CSV)
        assert (same.status_code, same.json()["id"]) == (200, made.json()["id"])


def test_the_newest_files_stay(service: Installation) -> None:
    with service.http(service.owner_of("reads-many")) as http:
        asked = {"kind": "routing", "public": {}}
        ids = [send(http, "/v1/reads", asked, CSV).json()["id"] for _ in range(MOST_FILES + 1)]
        found = [http.get(f"/v1/reads/{one}").status_code for one in ids]
        assert found == [404] + [200] * MOST_FILES


def test_a_draft_is_its_owners_alone(service: Installation) -> None:
    mine, other = service.owner_of("reads-mine"), service.owner_of("reads-other")
    with service.http(mine) as http:
        draft = send(http, "/v1/reads", {"kind": "routing"}, CSV).json()["id"]
    with service.http(other) as http:
        for answer in (
            http.get(f"/v1/reads/{draft}"),
            http.delete(f"/v1/reads/{draft}"),
            http.post("/v1/reads", json={"draft": draft, "kind": "routing"}),
            http.post("/v1/datasets", json=metadata("Fahrten", draft=draft)),
        ):
            assert answer.status_code == 404, answer.text
    with service.http(mine) as http:
        assert http.delete(f"/v1/reads/{draft}").status_code == 204
        assert http.get(f"/v1/reads/{draft}").status_code == 404


def test_a_draft_that_is_erased_while_it_is_registered_was_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two requests at once one erases the file; the other is told of its dataset too."""

    async def opened(*_: Any) -> Any:
        return io.BytesIO(b"content")

    async def erased(*_: Any) -> None:
        raise NotFound("there is no such file here")

    monkeypatch.setattr(uploads.reads, "open_draft", opened)
    monkeypatch.setattr(uploads.reads, "erase", erased)
    services: Any = SimpleNamespace(settings=SimpleNamespace(reads_names=True))

    async def whole() -> bytes:
        async with uploads.drafted(services, None, Draft("read_1")) as content:  # type: ignore[arg-type]
            found: bytes = content.read()
        return found

    assert asyncio.run(whole()) == b"content"


def test_a_look_answers_what_is_no_description(service: Installation) -> None:
    with service.http(service.owner_of("reads-none")) as http:
        for said in ({"reader": [1]}, {"columns": ["x"]}):
            looked = send(http, "/v1/reads", {"kind": "routing", "public": said}, CSV)
            assert looked.status_code == 200, looked.text
            assert looked.json()["issues"]


def test_lists_of_participants_are_not_shown(service: Installation) -> None:
    public = {
        "unit": "participant",
        "states": 2,
        "edges": [0, 1, 20],
        "steps": 2,
        "meters": {"start": "2026-01-05T00:00", "interval_seconds": 1800},
        "reader": {"time_zone": "Europe/Berlin", "participants": ["Anna", "Otto"]},
    }
    content = b"time,Anna,Otto\n2026-01-05 00:00,0.5,2\n2026-01-05 00:30,0.5,2\n"
    with service.http(service.owner_of("reads-meters")) as http:
        said = {"name": "m", "kind": "dr_ensemble", "cap": {"epsilon": 4}, "public": public}
        made = send(http, "/v1/datasets", said, content)
        assert made.status_code == 201, made.text
        assert "Anna" not in made.text + http.get(f"/v1/datasets/{made.json()['id']}").text


def parquet(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def test_one_table_in_all_formats_is_one_dataset(service: Installation) -> None:
    plain = {name: one for name, one in PUBLIC.items() if name != "columns"}
    rules = {"start": "2026-11-02T07:00", "time_zone": "Europe/Berlin"}
    public = {**plain, "reader": rules}
    columns = {
        "origin": [1, 2, 3],
        "destination": [2, 3, 1],
        "time": ["2026-11-02 07:10", "2026-11-02 07:20", "2026-11-02 08:30"],
        "count": [1.5, 2.0, 3.0],
    }
    table = pa.table(columns)
    sink = io.BytesIO()
    pc.write_csv(table, sink)
    rows = json.dumps(table.to_pylist()).encode()
    with service.http(service.owner_of("reads-formats")) as http:
        ids = set()
        for name, content in (
            ("a.csv", sink.getvalue()),
            ("a.parquet", parquet(table)),
            ("a.json", rows),
            ("b.csv", sink.getvalue().replace(b",", b";").replace(b".", b",")),
            ("a.xlsx", workbook([table.column_names, *map(dict.values, table.to_pylist())])),
        ):
            made = send(http, "/v1/datasets", metadata("one", public=public), content, name)
            assert made.status_code in (200, 201), made.text
            ids.add(made.json()["id"])
        body = metadata("one", public=public, content=table.to_pylist())
        whole = http.post("/v1/datasets", json=body)
        assert whole.status_code == 200, whole.text
        ids.add(whole.json()["id"])
        assert len(ids) == 1


def test_a_matrix_or_a_sheet_is_the_table_that_it_writes(service: Installation) -> None:
    """Of zones that its lookup names; with a description, and without one for the columns of the
    kind."""
    public = {"unit": "request", "zones": 3, "periods": 1, "period_minutes": 60, "trip_scale": 10}
    plain = [[0, 1, 2, 1.5], [0, 2, 3, 7], [0, 3, 1, 2]]
    names = ["period", "origin", "destination", "count"]
    text = "\n".join([",".join(names), *(",".join(map(str, row)) for row in plain)])
    sink = io.BytesIO()
    with h5py.File(sink, "w") as file:
        file["data/all"] = [[0, 2, 0], [0, 0, 1.5], [7, 0, 0]]
        file["data/others"] = [[0, 9, 0], [0, 0, 0], [0, 0, 0]]
        file["lookup/taz"] = [3, 1, 2]
    ids = set()
    with service.http(service.owner_of("reads-matrix")) as http:
        for name, content, reader in (
            ("a.csv", text.encode(), None),
            ("a.xlsx", workbook([names, *plain]), None),
            ("a.xlsx", workbook([names, *plain], More=[("x",)]), {"sheet": "Sheet"}),
            ("a.omx", sink.getvalue(), {"matrix": "all"}),
            ("a.omx", sink.getvalue(), {"matrix": "all", "lookup": "taz", "zones": [1, 2, 3]}),
        ):
            said = public if reader is None else {**public, "reader": reader}
            made = send(http, "/v1/datasets", metadata("one", public=said), content, name)
            assert made.status_code in (200, 201), made.text
            ids.add(made.json()["id"])
        assert len(ids) == 1
        # In their order zones are others, and so is the dataset.
        order = {**public, "reader": {"matrix": "all", "lookup": "none"}}
        made = send(http, "/v1/datasets", metadata("order", public=order), sink.getvalue(), "a.omx")
        assert made.status_code == 201, made.text
        wrong = send(http, "/v1/datasets", metadata("x", public=public), sink.getvalue(), "a.omx")
        assert wrong.json()["errors"][0]["way_out"] == "reader.matrix"


@pytest.mark.parametrize("name", ["reader", "columns"])
def test_an_unknown_rule_or_column_is_refused(service: Installation, name: str) -> None:
    wrong = {**PUBLIC, name: {**PUBLIC[name], "nothing": "Von"}}
    with service.http(service.owner_of(f"reads-unknown-{name}")) as http:
        refused = send(http, "/v1/datasets", metadata("Fahrten", public=wrong), CSV)
        assert refused.status_code == 422
        assert "nothing" in refused.text


def month_of(name: str, rows: str) -> bytes:
    return f"Von;Nach;Zeit;Fahrten\n{rows}".replace("M", name).encode("cp1252")


def test_a_source_reads_its_months_by_one_description(service: Installation) -> None:
    """The names of zones come with each block, and `start` is the first weekday of each month."""
    rules = {
        "encoding": "cp1252",
        "time_zone": "Europe/Berlin",
        "block": "time",
        "start": "07:00",
        "every": "weekday",
        "outside": "leave_out",
    }
    public = {**PUBLIC, "periods": 23, "period_minutes": 120, "reader": rules}
    source = {"name": "Monate", "kind": "routing", "by": "month", "cap": {"epsilon": 1}}
    names = {"zones": ["Köln", "Bonn", "Aachen"]}
    with service.http(service.owner_of("reads-source")) as http:
        wrong = {**source, "public": {**public, "reader": {**rules, **names}}}
        assert http.post("/v1/sources", json=wrong).json()["errors"][0]["pointer"] == (
            "/public/reader"
        )
        made = http.post("/v1/sources", json={**source, "public": public}).json()
        assert made["public"]["columns"] == PUBLIC["columns"]
        path = f"/v1/sources/{made['id']}/blocks"
        for month, first in (("2026-11", "02"), ("2026-12", "01")):
            rows = f"Köln;Bonn;M-{first} 07:10;1,5\nBonn;Aachen;M-13 07:10;2\n"
            told = {"block": month, "reader": names}
            added = send(http, path, told, month_of(month, rows), "monat.csv")
            assert added.status_code == 201, added.text
        # 1 December would be the 22nd weekday of November's 23 periods: it is in one block alone.
        rows = "Köln;Bonn;2026-11-02 07:10;1,5\nBonn;Aachen;2026-12-01 07:10;2\n"
        told = {"block": "2026-11", "reader": names}
        refused = send(http, path, told, month_of("2026-11", rows), "monat.csv")
        assert refused.status_code == 422
        assert "not of block 2026-11" in refused.json()["errors"][0]["detail"]
        assert "Köln" not in http.get(f"/v1/sources/{made['id']}").text


def test_read_at_home_and_here_it_is_the_same_dataset(
    service: Installation, tmp_path: Path
) -> None:
    file = tmp_path / "fahrten.csv"
    file.write_bytes(CSV)
    with service.client(service.owner_of("reads-local")) as client:

        def add(content: Any, **options: Any) -> Any:
            rest = {"kind": "routing", "public": PUBLIC, "cap": 4, "other_people": True}
            with pytest.warns(LeftOut):
                return client.datasets.add(content, **{**rest, **options})

        here, home = add(file), add(file, local=True)
        assert home["id"] == here["id"]
        rules = {one: said for one, said in PUBLIC["reader"].items() if one != "decimal"}
        frame = {
            "Von": ["Köln", "Bonn", "Bonn"],
            "Nach": ["Bonn", "Köln", "Aachen"],
            "Zeit": ["02.11.2026 07:10", "02.11.2026 08:10", "02.11.2026 09:10"],
            "Fahrten": [1.5, 2, 2],
        }
        assert add(frame, public={**PUBLIC, "reader": rules})["id"] == here["id"]
        looked = client.datasets.look(file, kind="routing", public=PUBLIC)
        assert looked["count"] == 3


def test_the_command_line_sends_a_file_or_reads_it_here(
    service: Installation, tmp_path: Path
) -> None:
    file, zones = tmp_path / "fahrten.csv", tmp_path / "zonen.csv"
    file.write_bytes(CSV)
    zones.write_text("id,number\nKöln,1\nBonn,2\nAachen,3\n")
    public = {
        **{one: said for one, said in PUBLIC.items() if one != "columns"},
        "reader": {one: said for one, said in PUBLIC["reader"].items() if one != "zones"},
    }
    server = ["--server", service.url, "--key", service.owner_of("reads-command"), "--json"]
    columns = ",".join(f"{role}={name}" for role, name in PUBLIC["columns"].items())
    options = ["--kind", "routing", "--public", json.dumps(public), "--columns", columns]
    options += ["--zones", str(zones)]

    def command(*words: str) -> Any:
        done = CliRunner().invoke(app, ["dataset", *words, *options, *server])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    ids = {command("add", str(file), "--epsilon", "4", *more)["id"] for more in ([], ["--local"])}
    assert len(ids) == 1
    for more in ([], ["--local"]):
        assert command("preview", str(file), *more)["count"] == 3
    server.remove("--json")
    shown = CliRunner().invoke(app, ["dataset", "preview", str(file), *options, *server])
    assert "3 rows" in shown.stdout
    file.write_bytes(CSV.replace(b"1,5", b"1.500").replace(b"08:10", b"8 Uhr"))
    refused = CliRunner().invoke(app, ["dataset", "preview", str(file), *options, *server])
    assert refused.stdout.count("Wrong: ") == 2


@contextmanager
def set_up(
    postgres: EmbeddedPostgres, template: str, state: Path, **values: Any
) -> Iterator[Installation]:
    """An API of its own with these settings."""
    with fresh_database(postgres, template) as database:
        running = Installation(settings_for(database, state, **values))
        running.extra |= {
            f"DISCREET_{name.upper()}": str(value).lower() for name, value in values.items()
        }
        if "object_url" in values:
            running.extra["DISCREET_OBJECT_URL"] = values["object_url"]
        try:
            running.make_keys()
            running.start_api()
            yield running
        finally:
            running.stop()


def test_where_names_are_not_read_the_file_is_refused_before_it_comes(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    with (
        set_up(postgres, template, tmp_path, reads_names=False) as running,
        running.http() as http,
    ):
        refused = send(http, "/v1/datasets", metadata("Fahrten"), CSV)
        assert (refused.status_code, refused.json()["code"]) == (403, "reads_no_names")
        assert "--local" in refused.json()["detail"]
        assert send(http, "/v1/reads", {"kind": "routing"}, CSV).status_code == 403
        plain = {one: said for one, said in PUBLIC.items() if one not in ("reader", "columns")}
        for said in (plain, {**PUBLIC, "reader": {}}):  # read by a description, with one or without
            sheet = send(http, "/v1/datasets", metadata("Fahrten", public=said), b"PK", "a.xlsx")
            assert (sheet.status_code, sheet.json()["code"]) == (403, "reads_no_names")
        drafted = metadata("Fahrten", public=plain, draft=new_id("read"))
        assert http.post("/v1/datasets", json=drafted).json()["code"] == "reads_no_names"
        first = {"content": ("a.csv", CSV), "metadata": (None, json.dumps(metadata("Fahrten")))}
        assert "comes first" in http.post("/v1/datasets", files=first).text
        file = tmp_path / "fahrten.csv"
        file.write_bytes(CSV)
        with running.client() as client, pytest.warns(LeftOut):
            assert client.datasets.add(
                file, kind="routing", public=PUBLIC, cap=4, other_people=True, local=True
            )["id"]


def test_a_file_is_erased_after_a_day(
    postgres: EmbeddedPostgres, template: str, tmp_path: Path
) -> None:
    objects = f"file://{tmp_path}/objects"
    with set_up(
        postgres, template, tmp_path, object_url=objects, object_bytes=0, expiry_seconds=0.3
    ) as running:
        with running.http() as http:
            draft = send(http, "/v1/reads", {"kind": "routing"}, CSV).json()["id"]
        stored = tmp_path / "objects"
        assert [one.name for one in stored.rglob("read_*")] == [draft]
        database = running.settings.migration_database_url or running.settings.database_url
        with psycopg.connect(connection_string(database), autocommit=True) as connection:
            connection.execute("SELECT set_config('discreet.tenant', '*', false)")
            connection.execute("UPDATE reads SET expires_at = now()")
        with running.http() as http:
            assert http.get(f"/v1/reads/{draft}").status_code == 404
            body = metadata("Fahrten", draft=draft)
            assert http.post("/v1/datasets", json=body).status_code == 404
        running.start_worker()
        eventually(lambda: not list(stored.rglob("read_*")), "the file is erased")


# Names --------------------------------------------------------------------------------------------

NAMED = ("Canary Square", "Canary Mews", "Canary Row", "Canary Total", "Canary Weaver")
"""Zones, a column that is no meter, and whose rows they are."""


def forms_of(name: str) -> list[str]:
    """A name as it would stand in a row, a log or an answer."""
    raw = name.encode()
    return [name, raw.hex(), base64.b64encode(raw).decode().rstrip("="), quote(name)]


def test_names_leave_no_trace(
    service: Installation, postgres: EmbeddedPostgres, request: pytest.FixtureRequest
) -> None:
    """Whatever happens with a file: names in `reader.zones`, `participants` and `except` are in
    no row of any table, in no line of a log, and in nothing that others are answered."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    capture.read_global_capture()
    zones = {**PUBLIC, "reader": {**PUBLIC["reader"], "zones": [*NAMED[:3]]}}
    rows = [f"{NAMED[0]};{NAMED[1]};02.11.2026 07:{at};1,5;{NAMED[4]}" for at in range(10, 40)]
    trips = "\n".join(["Von;Nach;Zeit;Fahrten;Fahrer", *rows]).encode()
    bad = trips.replace(b"1,5", b"1.500").replace(NAMED[1].encode(), NAMED[4].encode())
    meters = {
        "unit": "participant",
        "states": 2,
        "edges": [0, 1, 20],
        "steps": 3,
        "meters": {"start": "2026-10-01T00:00", "interval_seconds": 1800},
        "reader": {"time_zone": "Europe/Berlin", "participants": "columns", "except": [NAMED[3]]},
    }
    wide = [",".join(("time", *(f"{NAMED[4]} {n}" for n in range(3)), NAMED[3]))]
    wide += [f"2026-10-01 {at},0.5,1.5,{n},3" for n, at in enumerate(("00:00", "00:30", "01:00"))]
    loads = metadata("Lasten", kind="dr_ensemble", public=meters)
    owner = service.owner_of("reads-traces")
    with service.http(owner) as http:
        for said, content in ((zones, trips), (zones, bad), ({**zones, "periods": "x"}, trips)):
            looked = send(http, "/v1/reads", {"kind": "routing", "public": said}, content)
            draft = {"draft": looked.json()["id"], "kind": "routing", "public": said}
            assert http.post("/v1/reads", json=draft).status_code == 200
        for kind, public in (("routing", zones), ("dr_ensemble", meters)):
            refused = send(http, "/v1/datasets", metadata("x", kind=kind, public=public), bad)
            assert refused.status_code == 422
        for named in ({}, {"participants": [f"{NAMED[4]} {n}" for n in (1, 2)]}):
            public = {**meters, "reader": {**meters["reader"], **named}}
            if named:
                del public["reader"]["except"]
            added = send(
                http, "/v1/datasets", {**loads, "public": public}, "\n".join(wide).encode()
            )
            assert added.status_code == 201, added.text
            assert NAMED[4] not in added.text
        made = send(http, "/v1/datasets", metadata("Fahrten", public=zones), trips).json()
        path = f"/v1/datasets/{made['id']}"
        changed = {"public": {"period_minutes": 30, "periods": 1, "reader": zones["reader"]}}
        body = {
            "metadata": (None, json.dumps(changed)),
            "content": ("fahrten.csv", trips),
        }
        corrected = http.patch(path, files=body)
        assert corrected.status_code == 200, corrected.text
        assert corrected.json()["public"]["periods"] == 1
        source = {"name": "Monate", "kind": "routing", "by": "label", "cap": {"epsilon": 1}}
        rules = {name: one for name, one in PUBLIC["reader"].items() if name != "zones"}
        source["public"] = {**PUBLIC, "reader": rules}
        blocks = f"/v1/sources/{http.post('/v1/sources', json=source).json()['id']}/blocks"
        block = {"block": "eins", "reader": {"zones": zones["reader"]["zones"]}}
        assert send(http, blocks, block, bad).status_code == 422
        assert send(http, blocks, block, trips).status_code == 201
    with service.client(owner) as client:
        asked = bodies.job(made["id"], epsilon=1, network=bodies.network(3), method="counts")
        job = client.wait(client.submit(asked)["id"])
        assert job["state"] == "succeeded", job
    told = []
    for role in ("analyst", "auditor"):
        with service.http(service.key_of(role, "reads-traces")) as http:
            for one in (path, "/v1/datasets", "/v1/sources", "/v1/audit-log", "/v1/ledger/entries"):
                told.append(http.get(one).text)
            told.append(http.get(f"/v1/jobs/{job['id']}").text)
            for rest in ("result", "certificate"):
                told.append(http.get(f"/v1/jobs/{job['id']}/{rest}").text)
            told.append(http.post("/v1/plans", json=asked).text)
    assert '"certificate"' in "".join(told)
    assert '"columns"' in "".join(told)
    told += capture.read_global_capture()
    with psycopg.connect(superuser_url(postgres, service.settings), autocommit=True) as connection:
        tables = connection.execute(
            "SELECT schemaname, tablename FROM pg_tables WHERE tablename <> 'pg_authid'"
        ).fetchall()
        for table in tables:
            found = connection.execute(
                sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(*table))
            )
            told.append("\n".join(row[0] for row in found.fetchall()))
    assert any("Fahrten" in one for one in told)
    for name in NAMED:
        for form in forms_of(name):
            assert not any(form in one for one in told), form
