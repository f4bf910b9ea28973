"""The clients stand alone: what is generated in them is up to date, their wheels need what their
pyproject.toml says, no more, and do what their READMEs say."""

from __future__ import annotations

import re
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest

from discreet_agent.stubs.generate import PACKAGE, generate
from tests.conftest import Installation
from tests.wheels import AGENT, EXTRAS, FOLDERS, NEEDED, ROOT, SDK, Environment, wheel


def project(package: str) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((FOLDERS[package] / "pyproject.toml").read_text())
    return dict(found["project"])


def test_the_committed_stubs_are_those_of_the_protocol(tmp_path: Path) -> None:
    generate(ROOT / "protos", tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / PACKAGE).iterdir()}
    assert set(made) == {"federation_pb2.py", "federation_pb2.pyi", "federation_pb2_grpc.py"}
    for name, text in made.items():
        assert (AGENT / PACKAGE / name).read_text() == text, "run `make protos`"


@pytest.mark.parametrize("package", FOLDERS)
def test_a_client_declares_what_it_needs(package: str) -> None:
    assert sorted(project(package)["dependencies"]) == NEEDED[package]
    assert sorted(project(package)["optional-dependencies"]) == EXTRAS[package]


# Wheels, where nothing is but what they declare --------------------------------------------------


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Both wheels, built without a network."""
    return {name: wheel(name, tmp_path_factory.mktemp("wheel")) for name in FOLDERS}


@pytest.fixture(scope="module")
def agent(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Where the agent's wheel is, and no SDK."""
    folder = tmp_path_factory.mktemp("agent") / "venv"
    return Environment(folder, ["discreet_agent"], [wheels["discreet_agent"]])


@pytest.fixture(scope="module")
def sdk(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Where both wheels are."""
    folder = tmp_path_factory.mktemp("sdk") / "venv"
    return Environment(folder, list(FOLDERS), list(wheels.values()))


@pytest.mark.parametrize("package", FOLDERS)
def test_a_wheel_is_whole(wheels: dict[str, Path], package: str) -> None:
    with zipfile.ZipFile(wheels[package]) as archive:
        names = set(archive.namelist())
        (described,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        text = archive.read(described).decode()
    files = [path for path in (FOLDERS[package] / package).rglob("*") if path.is_file()]
    inside = {
        path.relative_to(FOLDERS[package]).as_posix()
        for path in files
        if "__pycache__" not in path.parts
    }
    assert f"{package}/py.typed" in inside
    data = {f"{package}-0.1.0.data/data/share/discreet-agent/discreet-agent.service"}
    assert inside | (data if package == "discreet_agent" else set()) == {
        name for name in names if ".dist-info/" not in name
    }
    for extra in EXTRAS[package]:
        assert f"Provides-Extra: {extra}" in text


ALL = """
import importlib, importlib.util, pkgutil, sys
package = importlib.import_module(sys.argv[1])
for module in pkgutil.walk_packages(package.__path__, f"{sys.argv[1]}."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in package.__all__:
    getattr(package, name)
print(package.__file__)
print(*(name for name in sys.argv[2:] if importlib.util.find_spec(name)))
"""
NEVER = {
    "discreet_agent": ["discreet", "discreet_client", "attr", "gmpy2", "httpx", "mpyc", "pyarrow"],
    "discreet_client": ["discreet", "fastapi", "gmpy2", "pandas", "pyarrow", "pydantic", "scipy"],
}


@pytest.mark.parametrize("package", FOLDERS)
def test_a_wheel_works_with_what_it_declares(
    agent: Environment, sdk: Environment, package: str
) -> None:
    place = {"discreet_agent": agent, "discreet_client": sdk}[package]
    done = place.run("-W", "error", "-c", ALL, package, *NEVER[package])
    assert done.returncode == 0, done.stderr
    where, there = done.stdout.split("\n")[:2]
    assert Path(where).is_relative_to(place.site)
    assert there == ""


def test_the_sdk_says_which_extra_is_missing(sdk: Environment) -> None:
    code = """
from discreet_client.answers import Answer
from discreet_client.errors import MissingExtra
answer = Answer({"job": {"id": "job_1"}, "result": {"x": [1.0]}}, {"big": b""})
for use in (answer.frame, answer.table):
    try:
        use("big")
    except MissingExtra as missing:
        print(missing)
print(answer.x.tolist())
"""
    done = sdk.run("-c", code)
    assert done.returncode == 0, done.stderr
    pandas, arrow, x = done.stdout.splitlines()
    assert ("discreet-client[pandas]" in pandas, "discreet-client[arrow]" in arrow) == (True, True)
    assert x == "[1.0]"


def test_the_command_of_an_agent_is_the_declared_one(agent: Environment) -> None:
    command = agent.python.with_name("discreet-agent")
    done = subprocess.run(
        [str(command), "--help"], capture_output=True, text=True, check=True, cwd="/"
    )
    for option in ("--token", "--problem", "--identity", "--ledger", "--limit-epsilon"):
        assert option in done.stdout


@pytest.mark.long
def test_the_quickstart(sdk: Environment, service: Installation) -> None:
    """The first block of the client's README, as it stands there, with nothing but wheels."""
    quickstart = re.findall(r"```python\n(.*?)```", (SDK / "README.md").read_text(), re.DOTALL)[0]
    done = sdk.run(
        "-W",
        "error",
        "-c",
        quickstart,
        DISCREET_URL=service.url,
        DISCREET_KEY=service.owner_key,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "costs epsilon 0.5, admitted: True"
    assert lines[-1] == "left 1.5"
    assert "guarantee pure_dp 0.5" in lines
    assert done.stderr == ""  # no bar where nobody looks
