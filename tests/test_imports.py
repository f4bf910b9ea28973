"""No file imports in a circle, and none reaches for another's private names; beside the layers in
pyproject.toml."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from discreet.problems import KINDS

ROOT = Path(__file__).parents[1]
ROOTS = {"discreet": ROOT / "service", "discreet_client": ROOT / "clients" / "python"}
GENERATED = ("discreet_client.rest", "discreet_client.stubs")

EXCEPTIONS: dict[tuple[str, str], str] = {}
"""Imports that may close a circle, (importing, imported), each with its reason."""


def modules(roots: dict[str, Path]) -> dict[str, Path]:
    """Every module below these packages by its name, generated ones left out."""
    found = {}
    for package, root in roots.items():
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            if not name.startswith(GENERATED):
                found[name] = path
    return found


@cache
def nodes(text: bytes) -> tuple[ast.Import | ast.ImportFrom | ast.Attribute, ...]:
    """Imports anywhere in a text, inside functions too and those for type checkers alone, and
    attributes of names."""
    return tuple(
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name))
    )


def imported(name: str, path: Path, known: dict[str, Path]) -> Iterator[tuple[str, str]]:
    """What the file imports of the known modules: (module, name), the name empty for the module
    itself."""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for statement in nodes(path.read_bytes()):
        if isinstance(statement, ast.Attribute):
            continue
        if isinstance(statement, ast.Import):
            yield from ((alias.name, "") for alias in statement.names if alias.name in known)
            continue
        base = statement.module or ""
        if statement.level:
            above = package.split(".")[: len(package.split(".")) - statement.level + 1]
            base = ".".join([*above, *([base] if base else [])])
        for alias in statement.names:
            if f"{base}.{alias.name}" in known:
                yield f"{base}.{alias.name}", ""
            elif base in known:
                yield base, alias.name


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan 1972), each sorted."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(graph[name]):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            component = sorted(stack[at:])
            del stack[at:]
            if len(component) > 1:
                found.append(component)

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return found


def graph_of(roots: dict[str, Path]) -> dict[str, set[str]]:
    known = modules(roots)
    return {
        name: {module for module, _ in imported(name, path, known)} - {name}
        for name, path in known.items()
    }


def private_names(roots: dict[str, Path]) -> list[str]:
    """Names with a leading underscore of another file: imported, or taken from it as an
    attribute."""
    known = modules(roots)
    found = []
    for name, path in known.items():
        below = nodes(path.read_bytes())
        taken = set(imported(name, path, known))
        aliases = {
            alias.asname or alias.name: f"{statement.module}.{alias.name}"
            for statement in below
            if isinstance(statement, ast.ImportFrom)
            for alias in statement.names
            if f"{statement.module}.{alias.name}" in known
        }
        taken |= {
            (aliases[node.value.id], node.attr)
            for node in below
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id in aliases
        }
        found += [
            f"{name} uses {module}.{what}" for module, what in sorted(taken) if is_private(what)
        ]
    return found


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def test_no_file_imports_in_a_circle() -> None:
    graph = graph_of(ROOTS)
    assert len(graph) > 200
    for importing, target in EXCEPTIONS:
        assert target in graph[importing], "an exception that nobody needs"
        graph[importing].discard(target)
    assert circles(graph) == []


def test_no_file_uses_anothers_private_names() -> None:
    assert private_names(ROOTS) == []


@pytest.mark.parametrize(
    ("closing", "closed"),
    [
        ("from room import a", True),
        ("def later():\n    from room.a import one", True),
        ("from . import a", True),
        ("import room.a", True),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.a import one", True),
        ("import json", False),
    ],
)
def test_a_circle_is_found(tmp_path: Path, closing: str, closed: bool) -> None:
    room = tmp_path / "room"
    room.mkdir()
    files = {
        "__init__": "",
        "a": "from room.b import two\none = 1\n",
        "b": "from room import c\n",
        "c": closing,
    }
    for name, text in files.items():
        (room / f"{name}.py").write_text(text)
    assert circles(graph_of({"room": tmp_path})) == (
        [["room.a", "room.b", "room.c"]] if closed else []
    )


def test_a_private_name_is_found(tmp_path: Path) -> None:
    room = tmp_path / "room"
    room.mkdir()
    (room / "__init__.py").write_text("")
    (room / "a.py").write_text("_hidden = _inner = open = 1\n")
    (room / "b.py").write_text("from room.a import _hidden, __doc__\n")
    (room / "c.py").write_text(
        "from room import a as other\nx = other._inner, other.open, other.__doc__\n"
    )
    assert private_names({"room": tmp_path}) == [
        "room.b uses room.a._hidden",
        "room.c uses room.a._inner",
    ]


def test_no_room_but_those_of_kinds_knows_one_by_its_folder() -> None:
    """What every kind goes through names none: only `problems`, the papers' figures and the command
    that converts trips do."""
    folders = tuple(f"discreet.problems.{kind}" for kind in KINDS)
    knowing = ("discreet.problems", "discreet.reproduce", "discreet.cli.studies")
    found = {
        f"{name} imports {target}"
        for name, targets in graph_of({"discreet": ROOTS["discreet"]}).items()
        for target in targets
        if target.startswith(folders) and not name.startswith(knowing)
    }
    assert not found
