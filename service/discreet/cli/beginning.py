"""`discreet init`: a few questions, and a job file that says what each field means."""

from __future__ import annotations

import json
import math
import re
import shlex
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from discreet.cli.dataset_files import described, looked_at, pairs_of, zones_of
from discreet.cli.jobs import changed, field_of
from discreet.cli.options import KeyOption, ServerOption, StateOption
from discreet.cli.servers import client_of
from discreet.cli.showing import options_of, proposal_of, show_preview
from discreet.cli.texts import printable
from discreet.errors import DiscreetError, InvalidInput
from discreet_client.errors import ApiError, Unreachable

if TYPE_CHECKING:
    from discreet.problems.base import Problem
    from discreet_client.client import Client

app = typer.Typer()

WIDTH = 100
SUFFIXES = (".toml", ".json")
NAMES = "The name of a job file ends in .toml, which has comments, or in .json"
"""By which it is read."""
PRESETS = ("strict", "usual", "loose")
EXAMPLE = "a small example that comes with it"
OWN = "a file of your own, which is not stored yet"
MADE_UP = "AN EXAMPLE, made up: replace it with your own."
"""Above each field that is."""
FIRST = ("kind", "dataset")
WITHOUT = ("release",)
"""Asking again has a command of its own."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


@app.command()
def init(
    file: Annotated[
        Path | None, typer.Argument(help="The job file to write; without it you are asked")
    ] = None,
    state: StateOption = None,
    server: ServerOption = None,
    key: KeyOption = None,
) -> None:
    """Ask a few questions and write a job file with comments, which `plan`, `rehearse`, `submit`
    and `solve` take."""
    from discreet.problems import DATASETS, KINDS  # noqa: PLC0415 - loads SciPy

    if file is not None and not _can_be_read(file):
        raise InvalidInput(f"{file.name}: {NAMES}")
    print("A few questions; Enter takes the value in brackets.\n")
    there = partial(client_of, state, server, key)
    datasets = [one for one in _datasets(there) if one["kind"] in DATASETS]
    newest = max(datasets, key=lambda one: one["created_at"])["kind"] if datasets else None
    name = _chosen(
        "What is to be decided?",
        {name: f"{kind.title}. Private: {kind.private}" for name, kind in KINDS.items()},
        newest,
    )
    kind = KINDS[name]
    datasets = [one for one in datasets if one["kind"] == name]
    body = _body(name, kind, datasets, there)
    body["name"] = typer.prompt("What do you call the job?", default=kind.title)
    problem = body["problem"]
    for field, schema in _asked(kind, problem, there).items():
        question = f"{_title(field, schema)}?"
        if "x-choices" in schema:
            problem[field] = _in_words(question, schema["x-choices"], problem.get(field))
        elif "enum" in schema:
            problem[field] = _chosen(
                question, {one: one for one in schema["enum"]}, schema["default"]
            )
        else:
            problem[field] = _figures(question, problem[field])
    if "privacy" in body:
        body["privacy"] = _privacy()
    path = file or Path(typer.prompt("Into which file?", default="job.toml"))
    while not _can_be_read(path):
        path = Path(typer.prompt(f"{NAMES}. Into which file?", default="job.toml"))
    if path.exists() and not typer.confirm(f"{path} exists. Write over it?"):
        raise typer.Exit(1)
    plain = (
        json.dumps(body, indent=2, ensure_ascii=False) if path.suffix.lower() == ".json" else None
    )
    path.write_text(plain or "\n".join(lines(kind, body)) + "\n", encoding="utf-8")
    first = "submit" if isinstance(problem.get("dataset"), str) else "solve"
    if made_up := [field for field in kind.made_up_fields if field in problem]:
        print(f"\nMade up as an example, so replace it before you submit: {', '.join(made_up)}.")
    print(
        f"\n{path} is written. What it costs: discreet plan {path}    Then: discreet {first} {path}"
    )


def _can_be_read(path: Path) -> bool:
    return path.suffix.lower() in SUFFIXES


def written(body: Mapping[str, Any], own: Collection[str] = ()) -> str:
    """The job file of a body of any kind; `own` are fields that are not made up."""
    from discreet.problems import KINDS  # noqa: PLC0415 - loads SciPy

    if (name := body["problem"].get("kind")) not in KINDS:
        raise InvalidInput(f"there is no kind {name}", pointer="/problem/kind")
    return "\n".join(lines(KINDS[name], body, own)) + "\n"


def lines(kind: type[Problem], body: Mapping[str, Any], own: Collection[str] = ()) -> Iterator[str]:
    """The job file, TOML: what the body says, and every other field of the kind as a comment with
    its default. `own`: fields that are not made up, though those of an example are."""
    schema = kind.model_json_schema()["properties"]
    problem = body["problem"]
    yield from _comment(f"A job of discreet: {kind.title}. Lines that begin with # are comments.")
    lacks = [field for field in kind.objects if field not in problem]
    if (
        kind.made_up
        and not own
        and not lacks
        and not any(isinstance(problem.get(field), str) for field in kind.objects)
    ):
        yield from _comment(kind.made_up)
    if "name" in body:
        yield f"name = {value(body['name'])}"
    yield ""
    yield "[problem]"
    others = [field for field in schema if field not in (*FIRST, *WITHOUT)]
    tables = {
        field: one
        for field, one in problem.items()
        if field == "dataset" and isinstance(one, Mapping)
    }
    for field in (*FIRST, *others):
        if field in problem and field not in tables:
            yield from _comment(_meaning(field, schema[field]))
            if field in kind.made_up_fields and field not in own:
                yield from _comment(MADE_UP)
            yield f"{field} = {value(problem[field])}"
    for field in lacks:
        yield from _comment(f"{_meaning(field, schema[field])}. It is needed:")
        yield f'# {field} = "{kind.objects[field].prefix}_…"'
    yield ""
    yield from _comment("Optional fields, with their defaults:")
    for field in others:
        if field not in problem and field not in lacks:
            yield from _comment(_meaning(field, schema[field]))
            default = schema[field].get("default")
            yield f"# {field} = {'…' if default is None else value(default)}"
    for field, one in tables.items():
        yield from (
            "",
            f"[problem.{field}]",
            *(f"{name} = {value(part)}" for name, part in one.items()),
        )
    if "privacy" in body:
        yield ""
        yield from _comment(
            "strict is epsilon 0.1, usual 1, loose 4; a smaller epsilon protects more and answers "
            "less exactly"
        )
        yield "[privacy]"
        yield from (f"{name} = {value(part)}" for name, part in body["privacy"].items())


def value(given: Any) -> str:
    """A value as TOML 1.0 has it; a long array has an item a line."""
    if isinstance(given, str):
        return json.dumps(given, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(given, Mapping):
        parts = (f"{_key(name)} = {value(one)}" for name, one in given.items() if one is not None)
        return "{" + ", ".join(parts) + "}"
    if isinstance(given, Sequence):
        items = [value(one).replace("\n", " ") for one in given]
        line = f"[{', '.join(items)}]"
        return (
            line
            if len(line) <= WIDTH - 20
            else "[\n" + "".join(f"    {one},\n" for one in items) + "]"
        )
    return json.dumps(given)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else value(name)


def _comment(text: str) -> Iterator[str]:
    yield from (f"# {line}" for line in textwrap.wrap(text, WIDTH - 2))


def _title(field: str, schema: Mapping[str, Any]) -> str:
    said = schema.get("description")
    return field.replace("_", " ").capitalize() + (f" ({said})" if said else "")


def _meaning(field: str, schema: Mapping[str, Any]) -> str:
    choices = schema.get("enum")
    said = [schema.get("description", ""), "One of " + ", ".join(choices) if choices else ""]
    return (
        f"{field.replace('_', ' ')}: " + ". ".join(one for one in said if one) if any(said) else ""
    )


def _chosen(
    question: str, choices: Mapping[str, str], default: str | None = None, *, asked: bool = False
) -> str:
    """The name of one of the choices, by its number or by itself; where nothing is given `default`
    or the first, but for `asked`."""
    first = None if asked else 1 if default is None else list(choices).index(default) + 1
    print(textwrap.fill(question, 78))
    for number, text in enumerate(choices.values(), 1):
        print(textwrap.fill(text, 78, initial_indent=f"  {number}. ", subsequent_indent="     "))
    while True:
        given = str(typer.prompt("Number", default=first, type=str)).strip()
        if given.isdecimal() and 1 <= int(given) <= len(choices):
            return list(choices)[int(given) - 1]
        named = [
            name
            for name, text in choices.items()
            if given and given in (name, text.partition(" (")[0])
        ]
        if len(named) == 1:
            return named[0]
        print(f"A number from 1 to {len(choices)} is needed, or one of the names.")


def _datasets(there: Callable[[], Client]) -> list[Mapping[str, Any]]:
    """Those that a server has, with what is left of each one's budget (`left`); none where none is
    found."""
    try:
        with there() as client:
            left = {
                dataset["id"]: float(budget["remaining"]["epsilon"])
                for budget in client.budgets()
                if budget["scope"] == "data"
                for dataset in budget["datasets"]
            }
            return [{**one, "left": left.get(one["id"])} for one in client.datasets()]
    except (DiscreetError, ApiError, Unreachable) as error:
        print(f"(No server's datasets are offered: {error})")
        return []


def _left(dataset: Mapping[str, Any]) -> str:
    return "" if dataset["left"] is None else f", epsilon {dataset['left']:.6g} is left"


def _body(
    name: str,
    kind: type[Problem],
    datasets: Sequence[Mapping[str, Any]],
    there: Callable[[], Client],
) -> dict[str, Any]:
    """The example of the kind, or one that fits the dataset that is chosen, with what is stored
    where that fits."""
    from discreet.problems import DATASETS  # noqa: PLC0415
    from discreet_client.readers import READERS  # noqa: PLC0415

    offered = {one["id"]: printable(f"{one['name']} ({one['id']}){_left(one)}") for one in datasets}
    # Where there are several, none is taken by Enter alone: the newest may be a trial, and prices
    # are of one dataset.
    several = len(offered) > 1
    others = {"": EXAMPLE} | ({OWN: OWN} if name in READERS else {})
    found = (
        _chosen("Of which data?", {**offered, **others}, asked=several) if name in DATASETS else ""
    )
    if found == OWN:
        _of_a_file(name, str(kind.example()["problem"]["dataset"]["public"]["unit"]), there)
        raise typer.Exit
    if not found:
        return {**kind.example()}
    dataset = next(one for one in datasets if one["id"] == found)
    public = DATASETS[name].read_public(dataset["public"])
    with there() as client:
        stored = {
            field: list(getattr(client, f"{model.type}s").list())
            for field, model in kind.objects.items()
        }
        names = {one["id"]: one["name"] for rows in stored.values() for one in rows}
        for example in kind.examples_for(public, stored):
            body = {**example, "problem": {**example["problem"], "dataset": found}}
            given = [body["problem"].get(field) for field in kind.objects]
            named = [names[one] for one in given if isinstance(one, str)]
            if not named:
                for field in kind.objects:
                    if field not in body["problem"]:
                        print(textwrap.fill(kind.needs_own(field, public), 78))
                break
            try:
                client.plan(body)
            except ApiError:  # a network may lack a road between two zones
                continue
            print(f"On what is stored as {printable(', '.join(named))}.")
            break
    return body


def _of_a_file(kind: str, unit: str, there: Callable[[], Client]) -> None:
    """A file of one's own: the public figures, which only its owner knows, and what the reader
    makes of the file by them, with what its form proposes, until it is right; then the command that
    registers it. All is read on this machine, and nothing is sent."""
    from discreet.problems import DATASETS  # noqa: PLC0415

    file = Path(typer.prompt("Which file?", type=click.Path(exists=True, dir_okay=False)))
    words = ["discreet", "dataset", "add", str(file), "--kind", kind]
    words += ["--name", typer.prompt("What do you call the data?", default=file.stem)]
    epsilon = typer.prompt("How much epsilon may be spent on them in total?", default="4")
    words += ["--epsilon", epsilon]
    fields = {"unit": unit}
    model: Any = DATASETS[kind].model_fields["public"].annotation
    schema = model.model_json_schema()
    usual = [one for one in DATASETS[kind].USUAL if one not in DATASETS[kind].MADE_UP]
    for field in (*schema["required"], *usual):
        for member, one in _members(field, schema):
            default = None if field in schema["required"] else ""
            asks = f"{_title(member, one)}?"
            if member not in fields and (given := typer.prompt(asks, default=default)):
                fields[member] = given
    zones: dict[str, Any] = {}  # the rule, as `words` have it

    def public() -> dict[str, Any]:
        return changed({}, (field_of("=".join(pair)) for pair in fields.items()))

    def looked(columns: Mapping[str, str]) -> dict[str, Any]:
        body = described({"public": public()}, {}, zones)
        return looked_at(kind, file, body["public"], columns)

    columns, rules = proposal_of(looked({}))
    fields |= rules
    while True:
        show_preview(looked(columns))
        given = typer.prompt(
            "More of --columns, --set and --zones, as they mend what is wrong? Nothing where it is "
            "right",
            default="",
        )
        if not given:
            break
        try:
            said = shlex.split(given)
            for option, text in zip(said[::2], said[1::2], strict=True):
                if option == "--columns":
                    columns |= pairs_of(text)
                elif option == "--set":
                    fields[field_of(text)[0]] = text.partition("=")[2]
                elif option == "--zones":
                    zones["zones"] = zones_of(text, {"public": public()}, there, local=True)
                    words += ["--zones", text]
                else:
                    raise ValueError(f"{option} is none of them")
        except (ValueError, typer.BadParameter, DiscreetError, ApiError, Unreachable) as error:
            print(f"{error}. Such as: --columns time=Datum+Uhrzeit --set reader.dates=day_first")
    lines = map(shlex.join, [words, *options_of(columns, fields)])
    print("\nThis registers it; look it over, run it, then `discreet init` again:\n")
    print(printable(" \\\n    ".join(lines)))


def _members(field: str, schema: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """A field of the public part, or the needed members of one that is an object."""
    whole = schema["properties"][field]
    for way in whole.get("anyOf", [whole]):
        if "$ref" in way:
            inner = schema["$defs"][way["$ref"].rpartition("/")[2]]
            return [(f"{field}.{one}", inner["properties"][one]) for one in inner["required"]]
    return [(field, whole)]


def _asked(
    kind: type[Problem], problem: Mapping[str, Any], there: Callable[[], Client]
) -> dict[str, Any]:
    """Fields whose value is one number, a range or one of a few words, and that only the asker
    knows."""
    schema = kind.model_json_schema()
    properties = schema["properties"]
    whole = dict(problem)
    for field, model in kind.objects.items():
        if isinstance(named := problem.get(field), str):
            with there() as client:
                whole[field] = getattr(client, f"{model.type}s").get(named)[model.type]
    own = kind.asks(whole)
    return {
        field: properties[field]
        for field in (*schema.get("required", ()), *own)
        if _is_figures(problem.get(field))
        or (field in own and {"enum", "x-choices"} & properties[field].keys())
    }


def _in_words(question: str, choices: Sequence[Mapping[str, Any]], given: Any) -> Any:
    """One of the values that the schema says in words; by default the one that is given, or the
    first."""
    at = next((place for place, one in enumerate(choices) if one["value"] == given), 0)
    picked = _chosen(
        question, {str(place): one["says"] for place, one in enumerate(choices)}, str(at)
    )
    return choices[int(picked)]["value"]


def _is_figures(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, list) and len(value) == 2)


def _figures(question: str, default: Any) -> Any:
    """A number, or two, which are asked one after the other."""
    if not isinstance(default, list):
        return _number(question, default)
    print(question)
    return [
        _number(f"  {end}", one) for end, one in zip(("lowest", "highest"), default, strict=True)
    ]


def _number(question: str, default: float) -> float:
    while True:
        number = float(typer.prompt(question, default=default, type=float))
        if math.isfinite(number):
            return number
        print("A finite number is needed.")


def _privacy() -> dict[str, Any]:
    while True:
        said = typer.prompt(
            "How much privacy: strict, usual, loose, or a number for epsilon?", default="usual"
        )
        if said in PRESETS:
            return {"preset": said}
        try:
            epsilon = float(said)
        except ValueError:
            epsilon = 0.0
        if 0 < epsilon < math.inf:
            return {"epsilon": epsilon, "delta": "auto"}
        print("One of the three words, or a number above 0, is needed.")
