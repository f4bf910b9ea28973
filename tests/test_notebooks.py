"""The notebooks: each runs against a service, does what its stored outputs show, and is short
enough to be read."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import notebooks
from tests.conftest import Installation

MOST_LINES = 20
MOST_BYTES = 1_000_000


def outputs(notebook: notebooks.Notebook) -> list[list[dict[str, Any]]]:
    return [cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code"]


def kinds(shown: list[dict[str, Any]]) -> list[set[str]]:
    """How each output of a cell is shown; pictures are drawn for the stored ones alone."""
    return [
        {kind for kind in one.get("data", {"stream": ""}) if kind != "image/png"} for one in shown
    ]


def test_there_are_three() -> None:
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(notebooks.FILES)


@pytest.mark.parametrize("name", notebooks.FILES)
def test_a_notebook_is_short_and_carries_what_it_showed(name: str) -> None:
    notebook = notebooks.read(name)
    text = (notebooks.FOLDER / f"{name}.ipynb").read_text()
    lines = [
        line for source in notebooks.code(notebook) for line in source.splitlines() if line.strip()
    ]
    assert len(lines) <= MOST_LINES
    picture = next(number for number, line in enumerate(lines, 1) if "answer.plot()" in line)
    assert picture < MOST_LINES
    assert len(text.encode()) < MOST_BYTES
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    names = [cell["id"] for cell in notebook["cells"]]
    assert len(set(names)) == len(names)
    drawn = [
        one["data"]
        for shown in outputs(notebook)
        for one in shown
        if notebooks.PLOTLY in one.get("data", {})
    ]
    assert drawn
    for data in drawn:
        assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
        assert data[notebooks.PLOTLY]["data"]
    told = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not notebooks.IDS.search(told), "an id that every run makes anew"
    assert not re.search(r"/(home|root|tmp|work|usr)/|127\.0\.0\.1|dsc_", told)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.long if place else ())
        for place, name in enumerate(notebooks.FILES)
    ],
)
def test_a_notebook_runs_and_shows_what_it_showed(
    name: str, service: Installation, tmp_path: Path
) -> None:
    """In a tenant of its own: what these cells spend binds nobody else."""
    key = service.owner_of(f"notebook {name}")
    with notebooks.at_service(tmp_path, service.url, key):
        notebooks.make_files(name)
        shown, made = notebooks.execute(notebooks.code(notebooks.read(name)))
        made["client"].close()
    assert [kinds(one) for one in shown] == [kinds(one) for one in outputs(notebooks.read(name))]
    answer = made["answer"]
    # Its signals are dozens of times the noise: less than once in 1e9 runs that drowns them.
    assert not answer.mostly_noise
    assert answer.certificate["guarantee"]["type"] == "pure_dp"
    assert np.isfinite(answer.price.epsilon)
    figures = [
        one["data"][notebooks.PLOTLY]
        for cell in shown
        for one in cell
        if notebooks.PLOTLY in one["data"]
    ]
    assert all(figure["layout"]["title"]["text"] for figure in figures)


def test_a_cell_shows_its_last_value_as_a_notebook_does() -> None:
    (first, second, third), names = notebooks.execute(["print('a')\nx = 2", "x\nx + 1", "x = 5"])
    assert first == [{"output_type": "stream", "name": "stdout", "text": ["a\n"]}]
    assert second[0]["data"] == {"text/plain": ["3"]}
    assert (third, names["x"]) == ([], 5)
    with pytest.raises(ZeroDivisionError):
        notebooks.execute(["1 / 0"])


@pytest.mark.parametrize("name", notebooks.FILES)
def test_a_notebook_is_stored_as_it_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that running it again changes what it showed and nothing else."""
    notebook, stored = notebooks.read(name), (notebooks.FOLDER / f"{name}.ipynb").read_text()
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    notebooks.write(name, json.loads(stored), outputs(notebook))
    assert (tmp_path / f"{name}.ipynb").read_text() == stored
