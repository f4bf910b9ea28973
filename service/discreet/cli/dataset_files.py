"""Files and options of `discreet dataset add`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from discreet.cli.files import read_body, strict
from discreet.cli.options import number
from discreet.cli.servers import network_id
from discreet.errors import InvalidInput

if TYPE_CHECKING:
    from discreet_client.client import Client


def check_file(file: Path, form: str | None) -> None:
    """That there is such a file, and that it is what was said of it."""
    if not file.exists():
        raise typer.BadParameter(f"there is no file {file}", param_hint="FILE")
    if file.is_dir():
        raise typer.BadParameter(f"{file} is a folder", param_hint="FILE")
    check_ending(file)
    if form is not None:
        _check_form(file, form)


def check_ending(file: Path) -> None:
    """That the file is called as one that is read; what makes a readable one of another, where
    that is known."""
    from discreet_client.containers import CONVERTED, SUFFIXES  # noqa: PLC0415 - loads NumPy

    ending = file.suffix.lower()
    if ending not in SUFFIXES:
        says = f"a file {', '.join(SUFFIXES)} is needed, not {file.name}"
        if ending in CONVERTED:
            says = f"{file.name} is {CONVERTED[ending]}"
        raise typer.BadParameter(says, param_hint="FILE")


def name_of(where: str) -> str:
    """The name of a content that lies there: the last part of the address that is no pattern,
    without its ending."""
    parts = [
        part
        for part in where.partition("://")[2].partition("?")[0].split("/")
        if part and "*" not in part
    ]
    return Path(parts[-1]).stem if parts else where


def _check_form(file: Path, form: str) -> None:
    """That the file is what was said of it."""
    from discreet_client.openadr import is_openadr  # noqa: PLC0415 - loads NumPy

    if form != "openadr":
        raise typer.BadParameter(
            "it must be openadr or be left out, since other formats are told by the "
            f"file's name; not {form}",
            param_hint="--format",
        )
    if not is_openadr(file):
        raise InvalidInput(
            f"{file.name} holds no OpenADR reports: a .json file of objects with `resources` is "
            "needed"
        )


def what_is_published(kind: str) -> str:
    """What is missing, with the least that would do: what the kind's schema asks for, as its
    example has it."""
    from discreet.problems import DATASETS, KINDS  # noqa: PLC0415 - loads SciPy

    says = "give its public part, here, in --metadata or field by field"
    if kind not in DATASETS:
        return says
    public = DATASETS[kind].model_fields["public"].annotation
    example = KINDS[kind].example()["problem"]["dataset"]["public"]
    least = {name: example[name] for name in public.model_json_schema()["required"]}  # type: ignore[union-attr]
    fields = " ".join(
        f"--set {shlex.quote(f'{name}={value if isinstance(value, str) else json.dumps(value)}')}"
        for name, value in least.items()
    )
    return (
        f"{says}, with figures of your own, from what is known without the data: {fields}, or "
        f"--public '{json.dumps(least)}'; `discreet init` asks for all of it. What each means: "
        f"docs/problems/{kind}.md; columns with names of your own: docs/own-files.md"
    )


def whole_body(file: Path) -> dict[str, Any] | None:
    """The body of `POST /v1/datasets` that the file holds; None when it holds content alone."""
    if file.suffix.lower() != ".json":
        return None
    body = strict(file.read_bytes())
    return body if isinstance(body, dict) and "content" in body else None


def described(
    body: dict[str, Any], columns: dict[str, str], rules: dict[str, Any]
) -> dict[str, Any]:
    """The body with these columns and rules beside those of its public part."""
    public = body["public"]
    if not isinstance(public, dict):
        return body
    if rules:
        public = {**public, "reader": {**(public.get("reader") or {}), **rules}}
    if columns:
        public = {**public, "columns": {**(public.get("columns") or {}), **columns}}
    return {**body, "public": public}


def looked_at(
    kind: str, file: Path, public: Any, columns: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What a file would be read as on this machine, and what registration would refuse of its
    public part."""
    from discreet.problems import DATASETS, descriptions  # noqa: PLC0415 - loads SciPy
    from discreet_client import readers  # noqa: PLC0415 - loads NumPy

    found = readers.preview(kind, file, public, columns)
    if kind not in DATASETS:
        return found
    try:
        said, _ = readers.sendable(public, columns)
    except (OSError, ValueError):  # which the reader says
        return found
    return descriptions.looked(kind, said, found)


def sent_as(body: dict[str, Any], of: str) -> dict[str, Any]:
    """The body with the description of its table, where it has one, as it is sent: with the names
    of a file of zones in the file's place."""
    from discreet_client import readers  # noqa: PLC0415 - loads NumPy

    public = body["public"]
    if not isinstance(public, dict) or not {"reader", "columns"} & public.keys():
        return body
    try:
        said, notes = readers.sendable(public)
    except ValueError as error:
        raise InvalidInput(f"{of}: {error}") from None
    for note in notes:
        typer.echo(f"{of}: {note}", err=True)
    return {**body, "public": said}


def read_file(
    file: Path,
    body: dict[str, Any],
    columns: dict[str, str],
    rules: dict[str, Any],
    *,
    local: bool = False,
) -> dict[str, Any]:
    """The body of a file, with its description by these rules beside those of `public.reader`
    where it needs one; `local`: with what the reader makes of it here, as `content`."""
    from discreet_client import readers  # noqa: PLC0415 - loads NumPy
    from discreet_client.errors import MissingExtra  # noqa: PLC0415

    kind, public = str(body["kind"]), body["public"]
    if not isinstance(public, dict):
        return body
    public = described(body, columns, rules)["public"]
    if not readers.needed(kind, file, public, None):
        return body
    try:
        if local:
            said, content, notes = readers.read_here(kind, file, public)
            sent = {**body, "public": said, "content": content, "already_read": True}
        else:
            said, notes = readers.sendable(public)
            sent = {**body, "public": said}
    except (ValueError, MissingExtra) as error:
        raise InvalidInput(f"{file.name}: {error}") from None
    for note in notes:
        typer.echo(f"{file.name}: {note}", err=True)
    return sent


def zones_of(
    given: str, body: dict[str, Any], there: Callable[[], Client], *, local: bool = False
) -> str | list[str] | dict[str, str]:
    """A file that names zones; or a stored network, whose first nodes are zones, `local` with their
    names."""
    if Path(given).is_file():
        return given
    if Path(given).suffix:
        raise typer.BadParameter(f"there is no file {given}", param_hint="--zones")
    with there() as client:
        found = network_id(client, given)
        network: Any = client.networks.get(found)["network"]
    if not isinstance(body["public"], dict):
        raise InvalidInput("the public part is an object", pointer="/public")
    if "zones" not in body["public"]:
        body["public"]["zones"] = network["nodes"]
        typer.echo(
            f"all {network['nodes']:,} nodes of the network are taken as zones: if only its first "
            "nodes are, give their number, such as --set zones=12; fewer zones mean less noise",
            err=True,
        )
    count = body["public"]["zones"]
    if not isinstance(count, int) or count > network["nodes"]:
        says = f"the network has {network['nodes']} nodes, and public.zones is {count}"
        raise InvalidInput(f"{says}: zones are the network's first nodes")
    if not local:
        return {"network": found}
    names = network.get("node_names") or [str(number) for number in range(1, network["nodes"] + 1)]
    return [str(name) for name in names[:count]]


def pairs_of(text: str | None) -> dict[str, str]:
    pairs = [part.partition("=") for part in (text or "").split(",") if part]
    if not all(name and column for name, _, column in pairs):
        raise typer.BadParameter(
            "pairs such as origin=from_zone,destination=to_zone are needed", param_hint="--columns"
        )
    return {name.strip(): column.strip() for name, _, column in pairs}


def public_part(text: str) -> Any:
    """What is published of data: JSON text, or that of a file."""
    try:
        return strict(text.encode()) if text.lstrip().startswith("{") else read_body(Path(text))
    except OSError:
        raise typer.BadParameter(
            f"neither JSON text nor a file: {text}", param_hint="--public"
        ) from None
    except InvalidInput as error:
        raise typer.BadParameter(str(error), param_hint="--public") from None


def cap_of(epsilon: str | None, delta: str | None) -> dict[str, Decimal] | None:
    if epsilon is None:
        if delta is not None:
            raise typer.BadParameter("goes with --epsilon", param_hint="--delta")
        return None
    return {"epsilon": number(epsilon, "--epsilon"), "delta": number(delta or "0", "--delta")}
