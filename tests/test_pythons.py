"""The Pythons that discreet runs on: said once, said alike everywhere, and nothing that one of them
lacks is used."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
CODE = ("service", "clients", "migrations", "benchmarks", "examples", "tests", ".ci")

REMOVED = {
    *("aifc", "asynchat", "asyncore", "audioop", "cgi", "cgitb", "chunk", "crypt"),
    *("distutils", "imghdr", "imp", "lib2to3", "mailcap", "msilib", "nis", "nntplib"),
    *("ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau", "telnetlib", "uu"),
    *("xdrlib"),
}
"""Modules of the standard library of 3.11 that 3.12 or 3.13 does not have (PEP 594, PEP 632, What's
New)."""


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    return script("supply")


@pytest.fixture(scope="module")
def bootstrap() -> ModuleType:
    return script("bootstrap")


def settings(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text(encoding="utf-8"))


def test_every_place_names_the_same_pythons(supply: ModuleType, bootstrap: ModuleType) -> None:
    known: list[str] = supply.supported()
    assert known == ["3.11", "3.12", "3.13"]
    tools, oldest = settings("pyproject.toml")["tool"], known[0]
    assert tools["mypy"]["python_version"] == oldest
    assert tools["ruff"]["target-version"] == f"py{oldest.replace('.', '')}"
    assert settings("clients/python/pyproject.toml")["project"]["requires-python"] == f">={oldest}"
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.findall(r"^PYTHONS = (.*)$", makefile, re.MULTILINE) == [" ".join(known)]
    assert [f"{major}.{minor}" for major, minor in (bootstrap.OLDEST, bootstrap.NEWEST)] == [
        oldest,
        known[-1],
    ]
    assert f"Python {', '.join(known[:-1])} or {known[-1]}" in (ROOT / "README.md").read_text(
        encoding="utf-8"
    )
    base = re.search(
        r"^ARG BASE=python:(\d+\.\d+)-", (ROOT / "Dockerfile").read_text(), re.MULTILINE
    )
    assert base is not None
    assert base[1] in known


def removed_modules(source: str | bytes) -> set[str]:
    imported = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported.add(node.module.partition(".")[0])
    return imported & REMOVED


def test_no_module_is_imported_that_a_newer_python_lacks() -> None:
    files = [
        path
        for folder in CODE
        for path in (ROOT / folder).rglob("*.py")
        if "node_modules" not in path.parts
    ]
    assert len(files) > 500
    # Only a text with such a word is parsed.
    mentioned = re.compile(rf"\b({'|'.join(REMOVED)})\b".encode())
    texts = {path: text for path in files if mentioned.search(text := path.read_bytes())}
    assert {str(path) for path, text in texts.items() if removed_modules(text)} == set()
    assert removed_modules("import os\ndef later():\n    from distutils.util import strtobool") == {
        "distutils"
    }
    assert removed_modules("import json, cgi.sub\nfrom . import imp") == {"cgi"}


def test_no_code_of_the_service_names_a_version_of_python() -> None:
    """Walls, kernels and commands find the interpreter that runs them, whichever it is."""
    for path in [*(ROOT / "service").rglob("*.py"), *(ROOT / "docs/deployment").rglob("*")]:
        if path.is_file():
            assert not re.search(
                r"python3\.\d|cp3\d\d|py3\d\d", path.read_text(encoding="utf-8")
            ), path


class Version(NamedTuple):
    """What `sys.version_info` is asked for."""

    major: int
    minor: int


@pytest.mark.parametrize("version", [(3, 10), (3, 14), (2, 7), (4, 0)])
def test_the_bootstrap_refuses_other_pythons(
    bootstrap: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    version: tuple[int, int],
) -> None:
    monkeypatch.setattr(bootstrap.sys, "argv", ["bootstrap.py", "runtime"])
    monkeypatch.setattr(bootstrap.sys, "version_info", Version(*version))
    monkeypatch.setattr(bootstrap, "bootstrap", lambda kind: pytest.fail(f"it installs {kind}"))
    assert bootstrap.main() == 1
    assert "needs Python 3.11 to 3.13" in capsys.readouterr().err


@pytest.mark.parametrize("version", [(3, 11), (3, 12), (3, 13)])
def test_the_bootstrap_takes_each_of_ours_and_makes_an_environment_of_another_again(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, version: tuple[int, int]
) -> None:
    begun = []
    monkeypatch.setattr(bootstrap.sys, "argv", ["bootstrap.py", "runtime"])
    here = tuple(sys.version_info[:2])
    monkeypatch.setattr(bootstrap.sys, "version_info", Version(*version))
    monkeypatch.setattr(bootstrap, "bootstrap", begun.append)
    monkeypatch.setattr(
        bootstrap.fcntl, "flock", lambda *_: None
    )  # a task of the Makefile may run these tests
    monkeypatch.setattr(bootstrap, "PYTHON", Path(sys.executable))
    assert bootstrap.main() == 0
    assert begun == ["runtime"]
    assert bootstrap.works() is (version == here)


def test_make_takes_the_first_python_that_fits(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copyfile(ROOT / "Makefile", tmp_path / "Makefile")
    (tmp_path / ".ci/bootstrap.py").write_text(
        "import os; raise SystemExit(print('taken:', os.environ['CALLED']))\n"
    )
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/python").symlink_to("/bin/true")
    programs = tmp_path / "programs"
    programs.mkdir()

    def program(name: str, *, fits: bool) -> None:
        refusal = "" if fits else 'case "$1" in -c) exit 1;; esac\n'
        place = programs / name
        place.write_text(f'#!/bin/sh\n{refusal}CALLED={name} exec "{sys.executable}" "$@"\n')
        place.chmod(0o755)

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(programs), "HOME": str(tmp_path)}
        make = shutil.which("make")
        assert make is not None
        command = [make, "--directory", str(tmp_path), "up", *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    program("python3", fits=False)
    none = run()
    assert none.returncode != 0
    assert "needs one of Python 3.11 3.12 3.13" in none.stderr
    program("python3.13", fits=True)
    assert "taken: python3.13" in run().stdout
    program("python3.12", fits=True)
    assert "taken: python3.12" in run().stdout
    assert "taken: python3.13" in run(f"PYTHON={programs / 'python3.13'}").stdout
    assert "taken: python3.12" in run(f"PYTHON={programs / 'python3'}").stdout


PYLOCK = """
[[packages]]
name = "numba"
version = "0.68.1"
wheels = [{{ url = "file:///packages/numba-0.68.1-{tag}.whl", hashes = {{ sha256 = "{sha256}" }} }}]
"""


@pytest.mark.parametrize(
    ("tag", "sha256", "version", "missing"),
    [
        ("py3-none-any", "00", "3.13", []),
        ("cp312-abi3-linux_{machine}", "00", "3.13", []),
        ("cp313-cp313-linux_{machine}", "00", "3.13", []),
        ("cp313-cp313-linux_{machine}", "00", "3.12", ["numba 0.68.1"]),
        ("cp313-cp313t-linux_{machine}", "00", "3.13", ["numba 0.68.1"]),
        ("cp313-cp313-win_amd64", "00", "3.13", ["numba 0.68.1"]),
        (
            "cp313-cp313-linux_{machine}",
            "01",
            "3.13",
            ["numba 0.68.1"],
        ),  # the lock does not know this file
        ("cp313-cp313-linux_{machine}", "00", "3.11", []),  # the marker leaves it out there
    ],
)
def test_a_wheel_that_is_missing_is_found(
    supply: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    tag: str,
    sha256: str,
    version: str,
    missing: list[str],
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("numba==0.68.1 ; python_full_version >= '3.12' \\\n    --hash=sha256:00\n")
    said = PYLOCK.format(tag=tag.format(machine=os.uname().machine), sha256=sha256)
    answer = subprocess.CompletedProcess([], 0, said, "")
    monkeypatch.setattr(supply.subprocess, "run", lambda *_, **__: answer)
    assert supply.missing_wheels(lock, version) == missing
    monkeypatch.setattr(supply, "LOCK", lock)
    monkeypatch.setattr(supply, "supported", lambda: [version])
    if missing:
        with pytest.raises(supply.Wrong, match=rf"no wheel for Python {version} of numba 0\.68\.1"):
            supply.pythons()
    else:
        supply.pythons()


def test_an_index_that_does_not_answer_is_no_finding(
    supply: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lock = tmp_path / "lock.txt"
    lock.write_text("numba==0.68.1 \\\n    --hash=sha256:00\n")
    monkeypatch.setattr(supply, "LOCK", lock)
    status = 2
    monkeypatch.setattr(
        supply.subprocess,
        "run",
        lambda *_, **__: subprocess.CompletedProcess([], status, "", "error"),
    )
    supply.pythons()
    assert capsys.readouterr().out.count("NOT LOOKED AT") == len(supply.supported())
    status = supply.NO_SOLUTION
    with pytest.raises(supply.Wrong, match="error"):
        supply.pythons()
