"""`discreet init`, of a file that is not stored yet: a few questions, and the command that
registers it by their answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet.problems.datasets import FileQuestion

Chosen = Callable[[str, Mapping[str, str]], str]
NONE = "none of them"
FIRST_BYTES = 1 << 16


def command(kind: str, unit: str, questions: Sequence[FileQuestion], chosen: Chosen) -> list[str]:
    """The words of `discreet dataset add` for a file. `chosen` asks for one of several by number or
    by name."""
    file = Path(typer.prompt("Which file? A CSV file with names of columns in its first line"))
    names = _columns(file)
    words = ["discreet", "dataset", "add", str(file), "--kind", kind]
    words += ["--name", typer.prompt("What do you call the data?", default=file.stem)]
    epsilon = typer.prompt("How much epsilon may be spent on them in total?", default="4")
    words += ["--epsilon", epsilon]
    columns: dict[str, str] = {}
    fields = [f"unit={unit}"]
    for one in questions:
        if one.sort == "column":
            offered = {name: name for name in names} | ({} if one.needed else {"": NONE})
            if name := chosen(one.asks, offered):
                columns[one.field] = name
        elif one.sort == "zones":
            words += ["--zones", given] if (given := _answer(one)) else []
        elif given := _answer(one):
            fields += _fields(one, given)
    words += ["--columns", ",".join(f"{role}={name}" for role, name in columns.items())]
    return [*words, *(word for field in fields for word in ("--set", field))]


def told(words: Sequence[str]) -> str:
    """A command in lines that a shell reads as one."""
    lines = (
        f"\\\n    {word}" if word in ("--columns", "--set") else shlex.quote(word) for word in words
    )
    return " ".join(lines)


def _columns(file: Path) -> list[str]:
    from discreet_client.tables import TableError, read_csv  # noqa: PLC0415 - loads numpy

    try:
        with file.open("rb") as opened:
            head = opened.read(FIRST_BYTES)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}") from None
    try:  # two lines of it: rows are looked at by `dataset add`
        names = list(read_csv(b"\n".join(head.splitlines()[:2]), file.name).columns)
    except TableError as error:
        raise InvalidInput(f"{error}. Of other files docs/own-files.md says the command") from None
    if parted := [name for name in names if "," in name or "=" in name]:
        raise InvalidInput(
            f"{file.name}: a column whose name holds , or = is renamed first: {parted[0]}"
        )
    return names


def _answer(one: FileQuestion) -> str:
    """What is said; empty where nothing need be."""
    while True:
        given = str(typer.prompt(one.asks, default=one.usual, show_default=bool(one.usual))).strip()
        if given or not one.needed:
            return given
        print("This is needed.")


def _fields(one: FileQuestion, given: str) -> list[str]:
    """`--set` of an answer, which is asked for again where it is none of its sort."""
    from discreet_client.feature_rules import parse  # noqa: PLC0415 - loads numpy
    from discreet_client.tables import TableError  # noqa: PLC0415

    while True:
        if one.sort == "value":
            return [f"{one.field}={given}"]
        if one.sort == "policy" and "->" not in given:
            return [f"{one.field}={json.dumps({given: 1}, ensure_ascii=False)}"]
        try:
            if one.sort == "policy":
                return [f"{one.field}={parse(given, 'the rule')}"]
            return [f"{one.field}={json.dumps(_figures(given), ensure_ascii=False)}"]
        except TableError as error:
            print(f"{error}.")
        except ValueError:
            print("Names with a number each are needed, parted by commas: drug A 0.5, none 0.5.")
        given = _answer(one)
        if not given:
            return []


def _figures(given: str) -> dict[str, float]:
    parts = [part.strip().rpartition(" ") for part in given.split(",")]
    if not all(name.strip() for name, _, _ in parts):
        raise ValueError
    return {name.strip(): float(figure) for name, _, figure in parts}
