"""The picture of the rooms in docs/architecture.md, from the layers in pyproject.toml and the
imports in the code.

python -m tests.rooms          writes docs/pictures/rooms.svg; a test compares
python -m tests.rooms counts   prints how large the house is
"""

from __future__ import annotations

import ast
import inspect
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.test_imports import ROOT, ROOTS, graph_of

PICTURE = ROOT / "docs/pictures/rooms.svg"
WIDTH, HEIGHT, GAP, MARGIN = 128, 30, 14, 12
STEP = 66
"""From one layer to the next."""


def layers() -> list[list[str]]:
    """Rooms and loose files of the service from the top layer down, as import-linter holds them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"][
        "contracts"
    ]
    (found,) = (
        one["layers"]
        for one in contracts
        if one["type"] == "layers" and one.get("containers") == ["discreet"]
    )
    return [[name.strip() for name in layer.split("|")] for layer in found]


def uses() -> dict[str, set[str]]:
    """What each room imports from, as rooms."""
    found: dict[str, set[str]] = {}
    for name, targets in graph_of({"discreet": ROOTS["discreet"]}).items():
        rooms = {target.split(".")[1] for target in targets if "." in target}
        if "." in name:
            found.setdefault(name.split(".")[1], set()).update(rooms - {name.split(".")[1]})
    return found


def nearest(used: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without what a room reaches through another that it uses as well: the lines that remain tell
    the rest."""

    def reached(name: str) -> set[str]:
        return used.get(name, set()).union(*(reached(other) for other in used.get(name, set())))

    return {
        name: {o for o in others if not any(o in reached(p) for p in others - {o})}
        for name, others in used.items()
    }


def drawing() -> str:
    """The picture as SVG: a layer a row, a line from each room down to the nearest that it uses."""
    rows, used = layers(), nearest(uses())
    width = max(len(row) for row in rows) * (WIDTH + GAP) - GAP + 2 * MARGIN
    place = {}
    for depth, row in enumerate(rows):
        left = (width - len(row) * (WIDTH + GAP) + GAP) / 2
        place |= {
            name: (left + at * (WIDTH + GAP), MARGIN + depth * STEP) for at, name in enumerate(row)
        }
    lines, boxes = [], []
    for name in sorted(used):
        x, y = place[name][0] + WIDTH / 2, place[name][1] + HEIGHT
        for other in sorted(used[name]):
            to, top = place[other][0] + WIDTH / 2, place[other][1]
            bend = (top - y) / 2
            path = f"M{x:g} {y:g}C{x:g} {y + bend:g} {to:g} {top - bend:g} {to:g} {top:g}"
            lines.append(f'<path d="{path}"><title>{name} uses {other}</title></path>')
    for name, (left, top) in place.items():
        boxes.append(f'<rect x="{left:g}" y="{top:g}" width="{WIDTH}" height="{HEIGHT}" rx="5"/>')
        boxes.append(f'<text x="{left + WIDTH / 2:g}" y="{top + 20:g}">{name}</text>')
    height = MARGIN * 2 + (len(rows) - 1) * STEP + HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            'font-family="sans-serif"'
            ' font-size="13" text-anchor="middle" role="img" aria-label="The rooms of the service '
            'in layers">',
            '<g fill="none" stroke="#7a8794" stroke-opacity=".45">',
            *lines,
            '</g><g fill="#eef3f8" stroke="#3b5b7a">',
            *(box for box in boxes if box.startswith("<rect")),
            '</g><g fill="#10222f">',
            *(box for box in boxes if box.startswith("<text")),
            "</g></svg>",
            "",
        ]
    )


def tracked(*patterns: str) -> list[Path]:
    """Files that git knows, by its own patterns."""
    command = [shutil.which("git") or "git", "ls-files", "-z", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).exists()]


def size_of(paths: list[Path]) -> tuple[int, int, int]:
    """Files, lines and statements of Python files."""
    texts = [path.read_text("utf-8") for path in paths if path.suffix == ".py"]
    statements = sum(
        isinstance(node, ast.stmt) for text in texts for node in ast.walk(ast.parse(text))
    )
    return len(texts), sum(text.count("\n") for text in texts), statements


def members_of(model: type) -> set[str]:
    """Names that a kind may say or override: those of a class that no library has."""
    own = [base for base in model.__mro__ if base.__module__.startswith("discreet.")]
    names = {name for base in own for name in (*vars(base), *inspect.get_annotations(base))}
    return {name for name in names if not name.startswith(("_", "model_"))}


def counts() -> str:
    """The size of the house, as a table of Markdown and a list."""
    from discreet.problems.datasets import Dataset
    from discreet.problems.reuse import ProblemOnData

    service = "service/discreet"
    rooms = {path.relative_to(ROOT / service).parts[0] for path in tracked(f"{service}/*.py")}
    places = {room: f"{service}/{room}" + "/*.py" * ("." not in room) for room in sorted(rooms)}
    places["service"] = "service/*.py"
    places |= {name: f"{name}/*.py" for name in ("clients/agent", "clients/python")}
    table = [("room", "files", "lines", "statements", "statements a file"), ("---",) * 5]
    for name, pattern in {**places, "tests": "tests/*.py"}.items():
        sizes = size_of(tracked(pattern))
        table.append((name, *(f"{one:,}" for one in (*sizes, sizes[2] // sizes[0]))))
    texts = {
        "kB of docs without decisions": [
            path for path in tracked("docs/*.md") if "decisions" not in path.parts
        ],
        "kB of the changelog": [ROOT / "CHANGELOG.md"],
        "kB of SQL": tracked("migrations/*.sql"),
        "kB of the pages' JavaScript": tracked(f"{service}/dashboard/static/*.js"),
    }
    return "\n".join(
        [
            *("| " + " | ".join(row) + " |" for row in table),
            "",
            f"- {len(members_of(ProblemOnData)) + len(members_of(Dataset))} members of a kind's "
            "contract",
            *(
                f"- {sum(p.stat().st_size for p in paths) // 1000:,} {w}"
                for w, paths in texts.items()
            ),
        ]
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["counts"]:
        print(counts())
    else:
        Path(PICTURE).write_text(drawing())
