"""A new kind needs its folder, one line, one test and one page: a toy kind is put into a copy of
the tree and used.

In the copy there is no other kind. So everything that is used here also shows that it rests on none
of them, and processes are warm soon. What is made from the contract is not made again for the
Python SDK, which asks the service for what it does not know; of the TypeScript SDK the types are,
and nothing else.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from discreet.installation.postgres import EmbeddedPostgres
from discreet.problems import KINDS
from discreet_client.errors import InvalidInput
from tests import tables
from tests.clients.node import BIN, execute, installed
from tests.conftest import Installation, fresh_database, settings_for
from tests.dashboard.browsing import Browser

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "toy"
REGISTRY = "service/discreet/problems/__init__.py"
LINE = '        "toy_sum",\n'
PUBLIC = {"unit": "person", "most": 9}


def files_in(tree: Path) -> dict[str, bytes]:
    found = (path for path in tree.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(tree)): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what kinds are used through, with the toy kind for its only one."""
    tree = tmp_path_factory.mktemp("tree")
    ignored = shutil.ignore_patterns("__pycache__", "node_modules", "toy")
    for part in (
        "service",
        "clients/agent",
        "clients/python",
        "migrations",
        "docs/decisions",
        "docs/problems",
        "tests",
        ".ci",
    ):
        shutil.copytree(ROOT / part, tree / part, ignore=ignored)
    for name in ("pyproject.toml", *tables.TABLES):
        shutil.copy(ROOT / name, tree / name)
    registry = tree / REGISTRY
    lines = registry.read_text().splitlines(keepends=True)
    names = [f'        "{kind}",\n' for kind in KINDS]
    place = lines.index(names[0])
    registry.write_text("".join(line for line in lines if line not in names))
    for kind in KINDS:
        shutil.rmtree(tree / "service/discreet/problems" / kind)
    before = files_in(tree)

    shutil.copytree(TOY / "toy_sum", tree / "service/discreet/problems/toy_sum", ignore=ignored)
    # Under another name here, where pytest does not look for it: there is no toy kind in this tree.
    shutil.copy(TOY / "toy_sum_checked.py", tree / "tests/problems/test_toy_sum.py")
    shutil.copy(TOY / "toy_sum.md", tree / "docs/problems")
    lines = registry.read_text().splitlines(keepends=True)
    registry.write_text("".join([*lines[:place], LINE, *lines[place:]]))

    after = files_in(tree)
    touched = {name for name in after if after[name] != before.get(name)}
    parts = {
        name if "toy_sum/" not in name else f"{name.partition('toy_sum/')[0]}toy_sum/"
        for name in touched
    }
    assert parts == {
        "service/discreet/problems/toy_sum/",
        REGISTRY,
        "tests/problems/test_toy_sum.py",
        "docs/problems/toy_sum.md",
    }
    assert after[REGISTRY].decode().replace(LINE, "", 1) == before[REGISTRY].decode()
    return tree


@pytest.fixture(scope="module")
def environment(tree: Path) -> dict[str, str]:
    paths = os.pathsep.join(
        str(tree / part) for part in ("service", "clients/agent", "clients/python", "")
    )
    return {"PYTHONPATH": paths}


@pytest.fixture(scope="module")
def service(
    postgres: EmbeddedPostgres,
    template: str,
    environment: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Installation]:
    """API and worker of the copy."""
    with fresh_database(postgres, template) as database:
        running = Installation(
            settings_for(database, tmp_path_factory.mktemp("state")), extra=environment
        )
        try:
            running.make_keys()
            running.start_api()
            running.start_worker()
            yield running
        finally:
            running.stop()


def discreet(service: Installation, *arguments: str) -> str:
    server = {"DISCREET_URL": service.url, "DISCREET_KEY": service.owner_key}
    done = subprocess.run(
        [sys.executable, "-m", "discreet", *arguments],
        env={**service.environment(), **server},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.long
def test_a_kind_of_one_folder_is_used_everywhere(service: Installation, tmp_path: Path) -> None:
    body: dict[str, Any] = {
        "problem": {
            "kind": "toy_sum",
            "dataset": {
                "name": "numbers",
                "kind": "toy_sum",
                "public": PUBLIC,
                "content": {"numbers": [1, 2, 3, 9]},
                "cap": {"epsilon": 10},
            },
        },
        "privacy": {"epsilon": 1},
    }
    file, out, picture = (tmp_path / name for name in ("job.json", "result.json", "picture.png"))
    nearer = tmp_path / "nearer.json"
    file.write_text(json.dumps(body))
    with service.http() as http:  # the contract
        schemas = http.get("/openapi.json").json()["components"]["schemas"]
        assert schemas["ToySumContent"]["properties"].keys() == {"numbers"}
    # The command line
    assert "one person's number added or removed" in discreet(service, "plan", str(file))
    within = json.loads(
        discreet(service, "plan", str(file), "--within", "5", "--json")
    )  # 9 ln(10) / 5
    assert within["privacy"] == {
        "epsilon": pytest.approx(9 * math.log(10) / 5, rel=5e-3),
        "delta": 0,
    }
    said = discreet(service, "submit", str(file), "--wait", "--anew", "--out", str(out))
    assert said.index("Mostly noise") < said.index("total")  # before any number
    total = json.loads(out.read_text())["result"]["total"]
    to = " to " if total < 21 else "–"
    ends = f"{total - 21}{to}{total + 21}, mostly noise)"
    interval = f"{total} (90 % NI: {ends}"
    assert interval in " ".join(said.replace("│", " ").split())
    discreet(
        service, "submit", str(file), "--wait", "--epsilon", "5", "--anew", "--out", str(nearer)
    )
    discreet(service, "draw", str(out), "--problem", str(file), "--out", str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    rehearsed = json.loads(
        discreet(service, "rehearse", str(file), "--epsilon", "1", "--epsilon", "100", "--json")
    )
    check_ladder(rehearsed["result"], (1, 100))
    # The Python SDK, to which this kind is new: JSON and columns are told apart by the service's
    # contract.
    with service.client() as client:
        assert "toy_sum" not in KINDS
        fields = {"numbers": np.array([1, 2, 3, 9])}
        dataset = client.register("toy_sum", PUBLIC, fields, cap=10, name="numbers")
        columns = client.register(
            "toy_sum", PUBLIC, {"number": np.array([9, 3, 2, 1])}, cap=10, name="numbers"
        )
        assert (
            columns["id"]
            == dataset["id"]
            == client.job(json.loads(out.read_text())["job"]["id"])["dataset"]
        )
        rows = client.register("toy_sum", PUBLIC, np.array([2, 1, 9, 3]), cap=10, name="numbers")
        assert rows["id"] == dataset["id"]
        with pytest.raises(
            TypeError, match="one of the fields of a content: numbers"
        ):  # and not sent as if it were a column
            client.register("toy_sum", PUBLIC, {"nmbers": [{"number": 1}]}, cap=10, name="numbers")
        with pytest.raises(TypeError, match="2 dimensions"):
            client.register("toy_sum", PUBLIC, np.array([[1, 2]]), cap=10, name="numbers")
        answer = client.solve({"kind": "toy_sum", "dataset": dataset}, epsilon=1, anew=True)
        near = client.plan(
            {"kind": "toy_sum", "dataset": dataset}, accuracy={"within": 5.0, "quantity": "total"}
        )
        assert near["privacy"] == within["privacy"]
        assert near["price"]["epsilon"] == within["privacy"]["epsilon"]
        with pytest.raises(InvalidInput, match="not known without the data"):
            client.plan({"kind": "toy_sum", "dataset": dataset}, accuracy={"within": "5%"})
        asked = {
            "problem": {"kind": "toy_sum", "dataset": dataset["id"]},
            "privacy": {"accuracy": {"within": 5.0}},
        }
        with pytest.raises(
            InvalidInput, match=f'"epsilon": {within["privacy"]["epsilon"]:g}, "delta": 0'
        ):
            client.submit(asked)
        account = client.dataset(dataset["id"])["account"]
        before = len(list(client.entries(account)))
        rehearsal = client.rehearse(
            {"kind": "toy_sum", "dataset": dataset}, epsilons=[1, 100], units=40
        )
        check_ladder(rehearsal.document["result"], (1, 100))
        assert rehearsal.data == "synthetic, 40 rows; seed 0"
        assert rehearsal.certificate["guarantee"]["type"] == "none"
        assert (rehearsal.job["price"]["epsilon"], len(list(client.entries(account)))) == (
            0,
            before,
        )
        assert answer.fields == ("total", "uncertainty")
        assert answer.interval("total") == pytest.approx(
            (answer.total - 9 * math.log(10), answer.total + 9 * math.log(10))
        )
        assert answer.mostly_noise
        assert answer.noise_dominates("total") is True
        assert f"mostly noise, total = {answer.total} (" in repr(answer)
        assert not client.answer(json.loads(nearer.read_text())["job"]["id"]).mostly_noise
        silent = client.solve(
            {"kind": "toy_sum", "dataset": dataset, "uncertainty": False}, epsilon=1, anew=True
        )
        assert silent.fields == ("total",)
        assert (silent.interval("total"), silent.mostly_noise) == (None, False)
        assert abs(answer.total - 15) < 9 * 21  # beyond with probability below 1e-9
    # The dashboard
    with Browser.logged_in(service, service.owner_key) as visitor:
        page = visitor.get(f"/jobs/{json.loads(out.read_text())['job']['id']}")
        assert "Toy sum" in page.text
        interval = f"{total} (90 % noise interval: {ends}"
        assert f"Sum of all numbers: {interval}" in " ".join(
            page.text.split()
        )  # no sentence of its own is needed
        assert interval in page.text
        assert page.text.index("Mostly noise: at this epsilon") < page.text.index(interval)
        assert (
            "mostly noise"
            not in visitor.get(f"/jobs/{json.loads(nearer.read_text())['job']['id']}").text
        )
        chart = visitor.http.get(f"{page.response.url.path}/charts/total.json")
        assert chart.json()["title"] == "The sum"
        form = visitor.get("/jobs/new?kind=toy_sum")
        assert "toy_sum" in form.response.text
        job = {
            "problem": {"kind": "toy_sum", "dataset": dataset["id"]},
            "privacy": {"preset": "usual"},
        }
        planned = visitor.submit(form, "/jobs/new", action="price", body=json.dumps(job))
        assert '"privacy": {"epsilon": 1, "delta": 0}' in planned.text
        begun = visitor.submit(planned, "/jobs/new", action="rehearse")
        with service.client() as client:
            rehearsed_there = client.wait(begun.response.url.path.rpartition("/")[2])
            assert rehearsed_there["headline"].startswith(
                ("Nine runs in ten come within", "No epsilon brings")
            )
            assert client.job(answer.job["id"])["headline"].startswith(
                f"Sum of all numbers: {answer.total} ("
            )
        shown = visitor.get(begun.response.url.path)
        assert "Error of sum of all numbers" in shown.text
        assert "its data were declared public or are made up" in " ".join(shown.text.split())


def check_ladder(result: dict[str, Any], epsilons: tuple[float, ...]) -> None:
    """The errors of a Laplace sum of sensitivity 9, 20 runs each: their median is 9 ln 2 /
    epsilon."""
    rows = result["rows"]
    assert [(row["method"], row["epsilon"], row["quantity"], row["runs"]) for row in rows] == [
        ("toy_sum", epsilon, "total", 20) for epsilon in epsilons
    ]
    for row in rows:
        assert row["half_width"] == pytest.approx(9 * math.log(10) / row["epsilon"])
        # Half of 20 beyond has a probability below 1e-29.
        assert row["error"] < 9 * 8 / row["epsilon"]
    assert rows[0]["error"] > 0


@pytest.mark.long
def test_a_kind_of_one_folder_has_types_in_typescript(
    service: Installation, tmp_path: Path
) -> None:
    """The SDK with the types of this service's contract, and no other change."""
    sdk = installed()
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(sdk / name, tmp_path)
    shutil.copytree(sdk / "src", tmp_path / "src")
    (tmp_path / "node_modules").symlink_to(sdk / "node_modules")
    (tmp_path / "test").mkdir()
    shutil.copy(TOY / "toy_sum.ts", tmp_path / "test")
    with service.http() as http:
        (tmp_path / "openapi.json").write_text(http.get("/openapi.json").text)
    generate = json.loads((sdk / "package.json").read_text())["scripts"]["generate"].split()
    assert generate[1] == "../../openapi/openapi.json"
    execute([str(BIN / generate[0]), "openapi.json", *generate[2:]], tmp_path)
    execute([str(BIN / "tsc")], tmp_path)
    server = {"DISCREET_URL": service.url, "DISCREET_KEY": service.owner_key}
    said = execute(
        [str(shutil.which("node")), "dist/test/toy_sum.js"], tmp_path, {**os.environ, **server}
    )
    answer = json.loads(said)
    assert abs(answer.pop("total") - 15) < 9 * 21  # beyond with probability below 1e-9
    assert answer == {
        "kind": "toy_sum",
        "epsilon": 1,
        "mostlyNoise": True,
        "width": pytest.approx(18 * math.log(10)),
    }


def test_a_kind_of_one_folder_keeps_the_contract_and_is_documented(
    tree: Path, environment: dict[str, str]
) -> None:
    """Its own test, the contract of all kinds, and the check of the navigation, in the copy."""
    tests = (
        "tests/problems/test_toy_sum.py",
        "tests/problems/test_contract.py",
        "tests/test_docs.py",
    )
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", KEPT, *tests],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "10 passed" in done.stdout
    execute([sys.executable, "-m", "tests.tables"], tree, {**os.environ, **environment})
    for page, row in (
        ("README.md", "| [`toy_sum`](docs/problems/toy_sum.md) | everybody's number | their sum |"),
        ("docs/index.md", "| [Toy sum](problems/toy_sum.md) | everybody's number | their sum |"),
        ("docs/dashboard.md", "| `toy_sum` | the sum |"),
    ):
        assert row in (tree / page).read_text()


KEPT = (
    "sum_is_near or every_folder or its_page or and_the_page or example_runs or in_the_navigation "
    "or asked_again or declares"
)
