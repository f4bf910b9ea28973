"""Networks as public objects: stored once, named by jobs, bound by certificates, of one tenant
only."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import openmatrix
import psycopg
import pytest
from typer.testing import CliRunner

from discreet.cli import app
from discreet.errors import InvalidInput as InvalidNetwork
from discreet.installation.postgres import EmbeddedPostgres
from discreet.ledger.certificates import is_signed
from discreet_agent import canonical
from discreet_client.aio import AsyncClient
from discreet_client.client import ApiError, Client
from discreet_client.errors import Conflict, Forbidden, InvalidInput, NotFound
from discreet_client.rest import operations
from tests import bodies
from tests.conftest import Installation
from tests.dashboard.browsing import Browser
from tests.reliability.chains import superuser_url

PLACES = [[0, 0], [40, 0], [40, 30], [0, 30]]
NAMES = ["Mill", "<North>", "Harbour", "Hill"]


def add(client: Client, name: str = "Town", **more: Any) -> dict[str, Any]:
    body: Any = {"name": name, "network": {**bodies.network(), **more}}
    return dict(client.call(operations.add_network(body)))


def get(client: Client, network: str) -> dict[str, Any]:
    return dict(client.call(operations.get_network(network)))


def solved(client: Client, body: dict[str, Any]) -> dict[str, Any]:
    job = client.submit(body)
    assert client.wait(job["id"])["state"] == "succeeded"
    return dict(client.result(job["id"]))


def pointers(refused: ApiError) -> list[str]:
    return [one.pointer for one in refused.errors]


def test_stored_once_and_named_by_jobs(service: Installation) -> None:
    with service.client() as client:
        dataset = client.register(bodies.dataset(epsilon=10))["id"]
        made = add(client, nodes_xy=PLACES, node_names=NAMES)
        assert made["id"].startswith("net_")
        assert (made["nodes"], made["links"], made["coordinates"], made["name"]) == (
            4,
            12,
            True,
            "Town",
        )
        again = add(client, "Another name", node_names=NAMES, nodes_xy=PLACES)
        assert again == made
        assert add(client, nodes_xy=PLACES)["id"] != made["id"]
        whole = get(client, made["id"])
        assert whole["sha256"] == canonical.digest(whole["network"])
        assert whole["network"]["node_names"] == NAMES
        assert made["id"] in [
            one["id"] for one in client.call(operations.list_networks())["networks"]
        ]

        # The plan and the answer are those of the network itself; what is stored of the job is its
        # id.
        named, inline = (bodies.job(dataset, network=one) for one in (made["id"], whole["network"]))
        assert client.plan(named)["plan"] == client.plan(inline)["plan"]
        first, second = solved(client, named), solved(client, inline)
        assert client.job(first["job"]["id"])["problem"]["network"] == made["id"]
        certificate = first["certificate"]
        assert certificate["objects"] == {"network": {"id": made["id"], "sha256": whole["sha256"]}}
        assert second["certificate"]["objects"] == {"network": {"sha256": whole["sha256"]}}
        assert is_signed(certificate)
        assert not is_signed({**certificate, "objects": {"network": {"sha256": "0" * 64}}})

        # Asked again on another network, which costs nothing, and rehearsed.
        faster = {
            **bodies.network(),
            "links": [{**one, "capacity": 1e6} for one in bodies.network()["links"]],
        }
        other = add(client, "Wide roads", links=faster["links"])
        asked = {
            "problem": {"kind": "routing", "release": first["job"]["id"], "network": other["id"]}
        }
        third = solved(client, asked)
        assert third["certificate"]["objects"]["network"]["id"] == other["id"]
        assert third["result"]["total_travel_time"] < first["result"]["total_travel_time"]
        rehearsal: Any = {"problem": named["problem"], "epsilons": [1]}
        job = client.call(operations.rehearse_job(rehearsal, idempotency_key="rehearsed network"))
        assert client.wait(job["id"])["state"] == "succeeded"

        # What a job names stays; what none names goes.
        with pytest.raises(Conflict) as refused:
            client.call(operations.delete_network(made["id"]))
        assert refused.value.code == "object_in_use"
        unused = add(client, "Unused", nodes_xy=PLACES[::-1])["id"]
        client.call(operations.delete_network(unused))
        with pytest.raises(NotFound):
            get(client, unused)
        for ask in (client.plan, client.submit):
            with pytest.raises(NotFound) as missing:
                ask(bodies.job(dataset, network=unused))
            assert pointers(missing.value) == ["/problem/network"]

    with Browser.logged_in(service) as browser:
        page = browser.get(f"/jobs/{first['job']['id']}")
        assert made["id"] in page.text
        assert "Town" in page.text
        assert '"tail"' not in page.text
        assert "coordinates say" in page.text
        assert (
            "&lt;North&gt;"
            in browser.get(f"/jobs/{first['job']['id']}/charts/network.json").response.text
        )
        assert (
            "Harbour"
            in browser.get(f"/jobs/{first['job']['id']}/policy?origin=1&destination=3").text
        )


def test_zones_of_another_network_are_those_that_were_released(service: Installation) -> None:
    """Zone k is node k: where a network numbers its nodes in another order, trips would begin
    elsewhere."""
    with service.client(service.owner_of("renumbered roads")) as client:
        made = add(client, node_names=NAMES)
        first = solved(
            client, bodies.job(client.register(bodies.dataset())["id"], network=made["id"])
        )
        moved = add(client, node_names=[*NAMES[1:], NAMES[0]])
        with pytest.raises(Conflict) as refused:
            client.ask_again(first["job"]["id"], network=moved["id"])
        assert refused.value.code == "release_differs"
        assert refused.value.errors[0].pointer == "/problem/network"
        assert (
            f"zone 1 is '{NAMES[1]}' in it, and was '{NAMES[0]}'" in refused.value.errors[0].detail
        )
        nameless = add(client)
        for same in (nameless["id"], made["id"]):
            assert client.ask_again(first["job"]["id"], network=same).job["state"] == "succeeded"


def test_of_one_tenant_and_its_roles(service: Installation) -> None:
    stranger = service.owner_of("far roads")
    with service.client() as client, service.client(stranger) as other:
        made = add(client, node_names=NAMES)
        for call in (operations.get_network, operations.delete_network):
            with pytest.raises(NotFound):
                other.call(call(made["id"]))
        assert other.call(operations.list_networks())["networks"] == []
        theirs = other.register(bodies.dataset())["id"]
        with pytest.raises(NotFound) as refused:
            other.submit(bodies.job(theirs, network=made["id"]))
        assert pointers(refused.value) == ["/problem/network"]
        # The same network of two tenants has the same id, and is two rows: neither deletes the
        # other's.
        assert add(other, "Ours", node_names=NAMES)["id"] == made["id"]
        client.call(operations.delete_network(made["id"]))
        assert get(other, made["id"])["name"] == "Ours"
    for role in ("analyst", "auditor"):
        with service.client(service.key_of(role)) as reader:
            assert reader.call(operations.list_networks())["networks"] is not None
            with pytest.raises(Forbidden):
                add(reader)


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"nodes": 3}, "/network/links/2/head"),
        ({"nodes_xy": PLACES[:3]}, "/network/nodes_xy"),
        ({"node_names": ["a", "b", "c", "a"]}, "/network/node_names"),
        ({"link_names": ["a"]}, "/network/link_names"),
        ({"link_shapes": [[]] * 12}, "/network/link_shapes"),
        ({"nodes_xy": [[0, 0], [1, 1], [2, 2], ["3", 3]]}, "/network/nodes_xy/3/0"),
    ],
)
def test_what_is_no_network_is_refused(
    api_only: Installation, more: dict[str, Any], pointer: str
) -> None:
    with api_only.client() as client, pytest.raises(InvalidInput) as refused:
        add(client, **more)
    assert pointer in pointers(refused.value)


def test_zones_are_nodes(api_only: Installation) -> None:
    body: Any = {"name": "Five zones", "network": bodies.network(), "zones": 5}
    with api_only.client() as client, pytest.raises(InvalidInput) as refused:
        client.call(operations.add_network(body))
    assert pointers(refused.value) == ["/zones"]


def test_a_row_that_was_changed_is_no_network_of_its_id(
    service: Installation, postgres: EmbeddedPostgres
) -> None:
    """Whoever writes rows cannot make a job route over other roads than those that its certificate
    names."""
    with service.client() as client:
        dataset = client.register(bodies.dataset())["id"]
        made = add(client, nodes_xy=[[1, 1], *PLACES[1:]])
        waiting = bodies.job(dataset, network=made["id"])
        before = solved(client, waiting)["job"]["id"]
        forged = canonical.dumps(bodies.network(5))
        with psycopg.connect(superuser_url(postgres, service.settings)) as connection:
            connection.execute(
                "UPDATE public_objects SET content = %s WHERE id = %s", [forged, made["id"]]
            )
        with pytest.raises(ApiError) as refused:
            get(client, made["id"])
        assert refused.value.code == "object_altered"
        job = client.submit(waiting)
        ended = client.wait(job["id"])
        assert ended["state"] == "failed"
        assert ended["error"]["code"] == "object_altered"
        assert "nothing was charged" in ended["error"]["detail"]
    with Browser.logged_in(service) as browser:
        assert "is not what was stored first" in browser.get(f"/jobs/{before}").text


def test_from_files_and_back_into_them(service: Installation, tmp_path: Path) -> None:
    """The command line and both clients, with a network whose nodes have names."""
    lines = [
        f"{one['tail']}0;{one['head']}0;{one['free_flow_time']};100"
        for one in bodies.network()["links"]
    ]
    (tmp_path / "roads.csv").write_text("\n".join(["from;to;free_flow_time;capacity", *lines]))
    places = [
        f"{place}0;{x};{y};{place if place < 3 else ''}"
        for place, (x, y) in enumerate(PLACES, start=1)
    ]
    (tmp_path / "places.csv").write_text("\n".join(["node;x;y;zone", *places]))
    files = [tmp_path / name for name in ("roads.csv", "places.csv")]
    ask = ("--server", service.url, "--key", service.owner_key, "--json")

    def said(*command: str) -> Any:
        done = CliRunner().invoke(app, [*command, *ask])
        assert done.exit_code == 0, (done.stdout, done.stderr)
        return json.loads(done.stdout)

    made = said("network", "add", *map(str, files), "--columns", "tail=from,head=to")
    assert (made["name"], made["nodes"], made["coordinates"]) == ("roads", 4, True)
    assert made["zones"] == 2, "the file of nodes tells them"
    assert made["id"] in [one["id"] for one in said("network", "list")]
    assert said("network", "show", made["id"])["network"]["node_names"] == ["10", "20", "30", "40"]
    with service.client() as client:
        again = client.networks.add(*files, columns={"tail": "from", "head": "to"})
        assert again["id"] == made["id"]
        assert [one for one in client.networks.list() if one["id"] == made["id"]] == [again]
        whole = client.networks.get(made["id"])["network"]
        assert whole is not None
        answer = solved(
            client, bodies.job(client.register(bodies.dataset())["id"], network=made["id"])
        )
        named = client.networks.add(whole, name="Unused, under its old name")
        assert named["name"] == "roads"
    flows = tmp_path / "flows.geojson"
    said("result", answer["job"]["id"], "--format", "geojson", "--out", str(flows))
    matrices = tmp_path / "demand.omx"
    said("result", answer["job"]["id"], "--format", "omx", "--out", str(matrices))
    with openmatrix.open_file(str(matrices)) as file:
        np.testing.assert_array_equal(np.array(file["demand"]), answer["result"]["demand"])
    with service.client() as client:
        chosen = client.ask_again(answer["job"]["id"], select_links=[0], skims=True)
    assert chosen.certificate["guarantee"]["type"] == "post_processing"
    picked = tmp_path / "picked.csv"
    said("result", chosen.job["id"], "--format", "select-link", "--out", str(picked))
    rows = list(csv.DictReader(io.StringIO(picked.read_text())))
    assert sum(float(row["trips"]) for row in rows) == pytest.approx(
        answer["result"]["link_flows"][0]
    )
    assert {(row["from_node_id"], row["to_node_id"]) for row in rows} == {("10", "20")}
    assert {row["origin"] for row in rows} <= {"10", "20", "30", "40"}
    features = json.loads(flows.read_text())["features"]
    assert [one["properties"]["flow"] for one in features] == answer["result"]["link_flows"]
    assert features[0]["geometry"]["coordinates"] == [[0, 0], [40, 0]]
    assert features[0]["properties"]["to_node_id"] == "20"
    (tmp_path / "roads.csv").write_text("from,to\n1,2\n")
    refused = CliRunner().invoke(app, ["network", "add", str(files[0]), *ask])
    assert isinstance(refused.exception, InvalidNetwork)

    async def asynchronous() -> list[str]:
        async with AsyncClient(service.url, service.owner_key) as client:
            stored = await client.networks.add(
                {**bodies.network(), "nodes_xy": PLACES[::-1]}, name="Mirrored"
            )
            ids = [one["id"] async for one in client.networks.list()]
            await client.networks.delete(stored["id"])
            return [one for one in ids if one == stored["id"]]

    assert len(asyncio.run(asynchronous())) == 1
