"""The client stands alone: what is generated in it is up to date, it needs what its pyproject.toml
says, no more, and its wheel does what its README says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

from discreet_agent.stubs.generate import PACKAGE, generate
from tests.conftest import Installation

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "python"


def test_the_committed_stubs_are_those_of_the_protocol(tmp_path: Path) -> None:
    generate(ROOT / "protos", tmp_path)
    made = {path.name: path.read_text() for path in (tmp_path / PACKAGE).iterdir()}
    assert set(made) == {"federation_pb2.py", "federation_pb2.pyi", "federation_pb2_grpc.py"}
    for name, text in made.items():
        assert (CLIENT / PACKAGE / name).read_text() == text, "run `make protos`"


IMPORT_ALL = """
import importlib, importlib.metadata, pkgutil, sys, sysconfig
from pathlib import Path

client, *named = sys.argv[1:]
sys.path.insert(0, client)
allowed = set(named)
packages = importlib.metadata.packages_distributions()
waiting = list(named)
while waiting:  # what those need in turn
    try:
        needs = importlib.metadata.requires(waiting.pop()) or []
    except importlib.metadata.PackageNotFoundError:
        continue
    for need in needs:
        if "extra ==" not in need:
            name = need.split(";")[0].split("[")[0].strip()
            for mark in "<>=!~ (":
                name = name.split(mark)[0]
            if name not in allowed:
                allowed.add(name)
                waiting.append(name)

class Refuse:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        of = {one.lower().replace("_", "-") for one in packages.get(top, [])}
        if top == "discreet" or (of and top not in sys.stdlib_module_names and not of & allowed):
            raise ModuleNotFoundError(f"{name} is not among the client's dependencies", name=name)

sys.meta_path.insert(0, Refuse())
import discreet_client
for module in pkgutil.walk_packages(discreet_client.__path__, "discreet_client."):
    if module.name != "discreet_agent.__main__":
        importlib.import_module(module.name)
from discreet_client.answers import Answer
from discreet_client.errors import MissingExtra
answer = Answer({"job": {"id": "job_1"}, "result": {"x": [1.0]}}, {"big": b""})
for extra, use in (("pandas", answer.frame), ("arrow", answer.table)):
    try:
        use("big")
    except MissingExtra as missing:
        assert f"discreet-client[{extra}]" in str(missing)
    else:
        raise AssertionError(f"{extra} was not missed")
assert answer.x.tolist() == [1.0]
for heavy in ("scipy", "sqlalchemy", "pydantic", "fastapi", "discreet"):
    assert heavy not in sys.modules, heavy
    try:
        importlib.import_module(heavy)
    except ModuleNotFoundError:
        continue
    raise AssertionError(f"{heavy} was not refused")
print("fine")
"""


def test_the_client_imports_its_own_dependencies_only() -> None:
    """In a process where every other package is refused, as if it were not installed."""
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    named = project["dependencies"]
    assert sorted(named) == [
        "attrs",
        "cryptography",
        "gmpy2",
        "grpcio",
        "httpx",
        "numpy",
        "phe",
        "platformdirs",
        "protobuf",
        "tzdata",
    ]
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(CLIENT), *named],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.stdout == "fine\n", done.stderr


def test_the_command_is_the_declared_one() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["discreet-agent"].partition(":")
    call = f"import sys; from {module} import {function}; sys.exit({function}(['--help']))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    for option in ("--token", "--problem", "--identity", "--ledger", "--limit-epsilon"):
        assert option in done.stdout


# The wheel, where the service is not --------------------------------------------------------------


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client's wheel, built without a network."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=CLIENT, capture_output=True, check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel, and with the third parties' packages of
    this one.

    A line of a .pth file is a folder to import from; the .pth files in that folder, by which the
    service and the client itself are installed here, are not read.
    """
    folder = tmp_path_factory.mktemp("alone") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    interpreter = folder / "bin" / "python"
    install = [
        "pip",
        "install",
        "--quiet",
        "--offline",
        "--no-deps",
        "--python",
        str(interpreter),
        str(wheel),
    ]
    subprocess.run([sys.executable, "-m", "uv", *install], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "third_parties.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


def alone(python: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run it elsewhere, without this repository in its path."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "DISCREET"))
    }
    return subprocess.run(
        [str(python), *arguments],
        cwd="/",
        env={**kept, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_wheel_is_whole(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        described = archive.read(metadata).decode()
    files = [path for path in (CLIENT / "discreet_client").rglob("*") if path.is_file()]
    inside = {
        path.relative_to(CLIENT).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert "discreet_client/py.typed" in inside
    assert "discreet_client/rest/models.py" in inside
    assert inside == {name for name in names if ".dist-info/" not in name}
    for extra in ("arrow", "pandas", "progress"):
        assert f"Provides-Extra: {extra}" in described


def test_the_wheel_works_without_the_service(python: Path) -> None:
    code = """
import importlib.util, discreet_client
# Of the service its migrations alone are there.
assert importlib.util.find_spec("discreet.settings") is None
for name in discreet_client.__all__:
    getattr(discreet_client, name)
import discreet_agent
print(discreet_client.__file__)
"""
    done = alone(python, "-c", code)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(python.parents[1])


@pytest.mark.long
def test_the_quickstart(python: Path, service: Installation) -> None:
    """The first block of the client's README, as it stands there, with nothing but the wheel."""
    quickstart = re.findall(r"```python\n(.*?)```", (CLIENT / "README.md").read_text(), re.DOTALL)[
        0
    ]
    done = alone(
        python,
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
