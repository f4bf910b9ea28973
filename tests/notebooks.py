"""The notebooks of `examples/notebooks`: executed without Jupyter, and written again with what
their cells showed.

    python -m tests.notebooks [NAME…]   # starts a service of its own; needs chromium for pictures

A cell runs as in a notebook: in one namespace, and the value of its last expression is shown.
Jupyter's own machinery would be two dozen packages for these sixty lines.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from discreet.installation.prepared import running
from discreet.settings import Settings
from tests.dashboard.chromium import chromium

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "examples" / "notebooks"
FILES = {"roads": "trips", "meters": "meters", "patients": "patients"}
"""By notebook: what `examples/own_files.py` makes for it."""
PLOTLY = "application/vnd.plotly.v1+json"
WIDTH = 900
IDS = re.compile(r"\b(acc|dst|job|key|net)_[0-9a-z]{20,}\b")

Notebook = dict[str, Any]
Draw = Callable[[dict[str, Any]], str]
"""The PNG of a figure's JSON, in base64."""


def read(name: str) -> Notebook:
    found: Notebook = json.loads((FOLDER / f"{name}.ipynb").read_text())
    return found


def code(notebook: Notebook) -> list[str]:
    """The source of each cell that runs."""
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def make_files(name: str) -> None:
    """The files that the notebook reads, in this folder."""
    subprocess.run(
        [sys.executable, str(ROOT / "examples" / "own_files.py"), FILES[name]], check=True
    )


@contextlib.contextmanager
def at_service(folder: Path, url: str, key: str) -> Iterator[None]:
    """In this folder, where `Client()` finds this service."""
    before = {name: os.environ.get(name) for name in ("DISCREET_URL", "DISCREET_KEY")}
    os.environ |= {"DISCREET_URL": url, "DISCREET_KEY": key}
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def execute(
    sources: list[str], draw: Draw | None = None
) -> tuple[list[list[dict[str, Any]]], dict[str, Any]]:
    """What each cell shows, as a notebook keeps it, and the names that they made."""
    names: dict[str, Any] = {"__name__": "__main__"}
    return [_run(source, number, names, draw) for number, source in enumerate(sources, 1)], names


def _run(
    source: str, number: int, names: dict[str, Any], draw: Draw | None
) -> list[dict[str, Any]]:
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    said, value = io.StringIO(), None
    with contextlib.redirect_stdout(said):
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - our own notebooks
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307
    shown: list[dict[str, Any]] = []
    if said.getvalue():
        shown.append({"output_type": "stream", "name": "stdout", "text": _lines(said.getvalue())})
    if value is not None:
        data = _bundle(value, draw)
        shown.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": data,
                "metadata": {},
            }
        )
    return shown


def _bundle(value: Any, draw: Draw | None) -> dict[str, Any]:
    """How a value shows itself, in the types that notebooks know."""
    if hasattr(value, "to_plotly_json"):
        figure = json.loads(value.to_json())
        picture = {} if draw is None else {"image/png": draw(figure)}
        return {PLOTLY: figure, **picture, "text/plain": ["A figure of plotly"]}
    html = value._repr_html_() if hasattr(value, "_repr_html_") else None
    return {
        **({} if html is None else {"text/html": _lines(html)}),
        "text/plain": _lines(repr(value)),
    }


def _lines(text: str) -> list[str]:
    """As notebooks keep text; ids, which every run makes anew, are cut short."""
    return IDS.sub(r"\1_…", text).splitlines(keepends=True)


@contextlib.contextmanager
def drawing() -> Iterator[Draw]:
    """Figures drawn by plotly.js itself."""
    from plotly.offline import get_plotlyjs

    with chromium() as browser:
        page = browser.new_page()
        page.set_content("<div id=figure></div>")
        page.add_script_tag(content=get_plotlyjs())

        def draw(figure: dict[str, Any]) -> str:
            how = {"format": "png", "width": WIDTH, "height": figure["layout"]["height"]}
            address: str = page.evaluate(
                "([figure, how]) => Plotly.toImage(figure, how)", [figure, how]
            )
            return address.partition(",")[2]

        yield draw


def write(name: str, notebook: Notebook, outputs: list[list[dict[str, Any]]]) -> None:
    """The notebook with these outputs."""
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, shown) in enumerate(zip(cells, outputs, strict=True), 1):
        cell |= {"execution_count": number, "outputs": shown}
    (FOLDER / f"{name}.ipynb").write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="discreet notebooks ") as folder:
        settings = Settings(state=Path(folder) / "state")
        with running(settings) as ready, drawing() as draw:
            key = (settings.state / "owner.key").read_text().strip()
            for name in wanted or FILES:
                place = Path(folder) / name
                place.mkdir()
                notebook = read(name)
                with at_service(place, ready["api"], key):
                    make_files(name)
                    outputs, _ = execute(code(notebook), draw)
                write(name, notebook, outputs)
                size = (FOLDER / f"{name}.ipynb").stat().st_size
                print(f"{name}: {size:,} bytes", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
