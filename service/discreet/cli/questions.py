"""Changes of a problem: fields set to other values by `--set`, and roads closed by `--close`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from discreet.cli.files import read_body, strict
from discreet.cli.texts import printable
from discreet.errors import InvalidInput

LONGEST_NAME = 200
"""Characters of a job's name."""
DATA = ("kind", "dataset", "source", "release")
"""Fields of a problem that name its kind and its data: `--set @FILE` leaves them as they are."""


def name_of(closed: Sequence[str] | None, changes: Sequence[str] | None) -> str:
    """The name of a job with these roads closed and these changes of fields."""
    without = [f"Without {', '.join(closed)}"] if closed else []
    return "; ".join([*without, *(changes or [])])[:LONGEST_NAME].strip()


def changed(problem: Mapping[str, Any], values: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The problem with these values instead of its own. `latency.b` sets one member of a field
    that is an object and keeps the others; another `type` drops them, since each type has its own
    members."""
    asked = dict(problem)
    for name, value in values:
        field, *inner = name.split(".")
        if not inner:
            asked[field] = value
            continue
        asked[field] = _within(asked.get(field), inner, value, name)
    return asked


def fields_of(text: str) -> list[tuple[str, Any]]:
    """The fields that one `--set` changes, with their values: FIELD=VALUE is one, @FILE all fields
    of that file, which is a job or what `discreet convert` wrote, but for those in DATA."""
    if not text.startswith("@"):
        return [field_of(text)]
    try:
        body = read_body(Path(text[1:]))
    except OSError as error:
        says = f"{text}: the file cannot be read"
        raise typer.BadParameter(says, param_hint="--set") from error
    fields = body.get("problem", body)
    if not isinstance(fields, dict):
        raise typer.BadParameter(f"{text}: a job is needed", param_hint="--set")
    return [pair for pair in fields.items() if pair[0] not in DATA]


def field_of(text: str) -> tuple[str, Any]:
    """The field and the value of `--set FIELD=VALUE`. With `FIELD=@FILE` the file holds the value,
    or an object with just this field."""
    name, equals, value = text.partition("=")
    if not equals:
        raise typer.BadParameter(f"{text}: FIELD=VALUE is needed", param_hint="--set")
    if value.startswith("@"):
        try:
            found = strict(Path(value[1:]).read_bytes())
        except OSError as error:
            raise typer.BadParameter(
                f"{text}: the file cannot be read", param_hint="--set"
            ) from error
        alone = isinstance(found, dict) and found.keys() == {name}
        return name, found[name] if alone else found
    try:
        return name, strict(value.encode())
    except InvalidInput:  # text that needs no quotes
        if value.endswith(".json"):
            says = f"{text}: to read the value from a file, write {name}=@{value}"
            raise typer.BadParameter(says, param_hint="--set") from None
        return name, value if (numbers := _numbers(value)) is None else numbers


def _numbers(text: str) -> list[Any] | None:
    """A list of numbers as people type it: at least three separated by commas, or at least two by
    semicolons, where decimal commas are allowed; None for any other text. Two numbers and one comma
    are no list, since they may be one number with a decimal comma."""
    from discreet_client.reading import is_figure  # noqa: PLC0415 - loads NumPy

    parts = text.split(";") if ";" in text else text.split(",")
    if len(parts) < (2 if ";" in text else 3):
        return None
    try:
        found = [strict(part.strip().replace(",", ".").encode()) for part in parts]
    except InvalidInput:
        return None
    return found if all(map(is_figure, found)) else None


def _within(own: Any, path: Sequence[str], value: Any, name: str) -> dict[str, Any]:
    if own is not None and not isinstance(own, Mapping):
        raise InvalidInput(
            f"--set {name}: the problem's value is not an object, so it has no {path[0]}"
        )
    kept = dict(own or {})
    if len(path) > 1:
        return {**kept, path[0]: _within(kept.get(path[0]), path[1:], value, name)}
    return (
        {"type": value}
        if path[0] == "type" and kept.get("type") != value
        else {**kept, path[0]: value}
    )


def closed(problem: Mapping[str, Any], names: Sequence[str]) -> tuple[dict[str, Any], str]:
    """The problem with the links of these names closed too, and a sentence on what is closed. The
    problem must hold its network itself, not an id. InvalidInput for a name of no link, or of
    several."""
    from discreet_client import closing  # noqa: PLC0415 - for this alone

    network = problem.get("network")
    if not isinstance(network, Mapping):
        raise InvalidInput("--close is for problems on a network, of kind routing")
    try:
        found = closing.links_of(network, names)
    except closing.UnknownLink as error:
        raise InvalidInput(f"--close: {printable(str(error))}") from None
    told = f"closed: {', '.join(found.names)}"
    if found.open_ways:
        told += (
            f"; the opposite direction stays open: {', '.join(found.open_ways)}; --close that too "
            "if it is closed"
        )
    return {
        **problem,
        "closed_links": sorted({*(problem.get("closed_links") or ()), *found.links}),
    }, printable(told)
