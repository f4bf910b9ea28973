"""The client stands alone: its stubs are those of `protos/`, and it needs what its pyproject.toml says, no more."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from discreet_client.stubs.generate import PACKAGE, generate

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
    if module.name != "discreet_client.agent.__main__":
        importlib.import_module(module.name)
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
    assert set(named) == {"attrs", "cryptography", "gmpy2", "grpcio", "httpx", "numpy", "phe", "protobuf"}
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, str(CLIENT), *named], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.stdout == "fine\n", done.stderr


def test_the_command_is_the_declared_one() -> None:
    project = tomllib.loads((CLIENT / "pyproject.toml").read_text())["project"]
    module, _, function = project["scripts"]["discreet-agent"].partition(":")
    call = f"import sys; from {module} import {function}; sys.exit({function}(['--help']))"
    done = subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True)
    for option in ("--token", "--problem", "--identity", "--ledger", "--limit-epsilon"):
        assert option in done.stdout
