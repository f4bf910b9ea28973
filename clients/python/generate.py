"""`make sdk`: the generated files of the Python SDK (needs datamodel-code-generator and ruff).

`discreet_client/rest/models.py`, `operations.py` and `contents.py` and `discreet_client/answers.py`
are made from the committed contract, `discreet_client/aio.py` from `client.py`: the same calls with
`await`. If a rule for an `await` is missing, mypy finds it.

    python clients/python/generate.py           write them again
    python clients/python/generate.py --check   exit 1 if the committed files are out of date
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from discreet_client.forms import forms_in

HERE = Path(__file__).parent
CONTRACT = HERE.parents[1] / "openapi" / "openapi.json"
PACKAGE = HERE / "discreet_client"
WIDTH = 90
"""The width of text in docstrings, which no formatter wraps later."""

Json = dict[str, Any]

# The contract's schemas as TypedDicts

MODELS = '''"""The bodies of requests and answers as the contract declares them: dictionaries with
known keys.

`Trip(period=0, origin=1, destination=2, count=5)` makes one, as does `{"period": 0, …}` where a
`Trip` is expected. The service checks what a type cannot express, such as the bounds below a field.
"""
# Made from openapi/openapi.json by `make sdk`.
'''
BOUNDS = {
    "minimum": ">= {}",
    "exclusiveMinimum": "> {}",
    "maximum": "<= {}",
    "exclusiveMaximum": "< {}",
    "multipleOf": "a multiple of {}",
    "minLength": "length >= {}",
    "maxLength": "length <= {}",
    "minItems": "length >= {}",
    "maxItems": "length <= {}",
    "format": "{}",
    "pattern": "matches `{}`",
}


def described(schema: Any) -> Any:
    """The document with the default and the bounds of each field in its description, since a type
    expresses neither."""
    if isinstance(schema, list):
        return [described(value) for value in schema]
    if not isinstance(schema, dict):
        return schema
    unsaid = {*BOUNDS, "default", "example", "examples"}
    kept = {name: described(value) for name, value in schema.items() if name not in unsaid}
    if "properties" in schema:  # a field may be named like a keyword
        fields = schema["properties"].items()
        kept["properties"] = {
            name: {**described(field), "description": wrapped(about(field))}
            for name, field in fields
        }
    if "prefixItems" in kept:  # JSON has no tuples
        entries = [
            one
            for index, one in enumerate(kept["prefixItems"])
            if one not in kept["prefixItems"][:index]
        ]
        kept["items"] = {"anyOf": entries}
        del kept["prefixItems"]
    if isinstance(kept.get("description"), str):
        kept["description"] = wrapped(kept["description"])
    return kept


def about(field: Json) -> str:
    """Description, unit, bounds and default of a field or parameter."""
    default = field.get("default")
    unit = f"unit: {field['x-unit']}" if "x-unit" in field else ""
    stated = (
        f"default `{default if isinstance(default, str) else json.dumps(default)}`"
        if default is not None
        else ""
    )
    return "; ".join(
        part for part in (field.get("description", ""), unit, bounds(field), stated) if part
    )


def bounds(schema: Json) -> str:
    """The bounds of a value and of its items; empty if the value may be of several types."""
    inner = [one for one in schema.get("anyOf", []) if one != {"type": "null"}]
    bounded = {**schema, **inner[0]} if len(inner) == 1 else schema
    values = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in bounded.items()
    }
    own = [form.format(values[name]) for name, form in BOUNDS.items() if name in values]
    each = bounds(bounded["items"]) if "items" in bounded else ""
    return ", ".join([*own, f"each {each}"] if each else own)


def wrapped(text: str) -> str:
    return "\n\n".join(textwrap.fill(paragraph, WIDTH) for paragraph in text.strip().split("\n\n"))


def hanging(text: str) -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent="    ")


def models(contract: Json) -> str:
    """The module `rest.models`."""
    source = (
        "--input-file-type",
        "openapi",
        "--target-python-version",
        "3.11",
        "--disable-timestamp",
    )
    shape = (
        "--output-model-type",
        "typing.TypedDict",
        "--no-use-closed-typed-dict",
        "--enum-field-as-literal",
        "all",
    )
    words = ("--use-schema-description", "--use-field-description", "--use-single-line-docstring")
    # Future imports would make `__required_keys__` wrong.
    layout = ("--formatters", "builtin", "--disable-future-imports")
    made = run(
        "datamodel_code_generator",
        *source,
        *shape,
        *words,
        *layout,
        text=json.dumps(described(contract)),
    )
    return MODELS + made[made.index("from typing") :]


# Its operations as functions

OPERATIONS = '''"""The operations of the contract, one function each, which makes the request and
sends nothing.

`Client.call` and `AsyncClient.call` send it and return the answer in the type that is stated here.
Refusals are `discreet_client.errors.ApiError`, whose `code` is one of the problem codes named
below.
"""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from typing import Literal

from discreet_client.rest import Operation, models, quoted
'''
TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}


def type_of(schema: Json) -> str:
    """The type of a parameter, which is never an object."""
    if "anyOf" in schema:
        return " | ".join(type_of(one) for one in schema["anyOf"] if one != {"type": "null"})
    return (
        f"Literal[{', '.join(map(repr, schema['enum']))}]"
        if "enum" in schema
        else TYPES[schema["type"]]
    )


def named(content: Json) -> str:
    """The type of a body or answer by its media type: the model of JSON, else `str` or `bytes`."""
    media = next((media for media, of in content.items() if of["schema"]), None)
    if media is None:
        return "None"
    if media == "application/json":
        schema = content[media]["schema"]
        return " | ".join(
            "models." + one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", [schema])
        )
    return "str" if media.startswith("text/") else "bytes"


def operation(method: str, url: str, said: Json) -> str:
    """The function of one operation: required parameters and the body by position, all others by
    name."""
    parameters = [
        (one["name"].lower().replace("-", "_"), one) for one in said.get("parameters", [])
    ]
    fixed = [f"{name}: {type_of(one['schema'])}" for name, one in parameters if one["required"]]
    body = [f"body: {named(said['requestBody']['content'])}"] if "requestBody" in said else []
    free = [
        f"{name}: {type_of(one['schema'])} | None = None"
        for name, one in parameters
        if not one["required"]
    ]
    answers = {code: answer for code, answer in said["responses"].items() if code.startswith("2")}
    answer = " | ".join(dict.fromkeys(named(one.get("content", {})) for one in answers.values()))

    explained = [(name, about({**one["schema"], **one})) for name, one in parameters]
    refusals = {code: one["x-codes"] for code, one in said["responses"].items() if "x-codes" in one}
    paragraphs = [
        wrapped(said["description"]),
        "\n".join(hanging(f"{name}: {text}") for name, text in explained if text),
        f"Answers {' or '.join(answers)}. Roles: {', '.join(said['x-roles']) or 'none is needed'}.",
        "Problem codes:\n"
        + "\n".join(hanging(f"{code} {', '.join(codes)}") for code, codes in refusals.items()),
    ]
    text = textwrap.indent("\n\n".join(filter(None, paragraphs)), "    ").strip()

    place = re.sub(r"\{(\w+)\}", r"{quoted(\1)}", url)
    arguments = [repr(method.upper()), f"f{place!r}" if place != url else repr(url)]
    for where, keyword in (("query", "query"), ("header", "headers")):
        pairs = [f"{one['name']!r}: {name}" for name, one in parameters if one["in"] == where]
        if pairs:
            arguments.append(f"{keyword}={{{', '.join(pairs)}}}")
    arguments += ["body=body"] if body else []
    signature = ", ".join(fixed + body + (["*", *free] if free else []))
    return (
        f"def {said['operationId']}({signature}) -> Operation[{answer}]:\n"
        f'    """{text}\n    """\n    return Operation({", ".join(arguments)})\n'
    )


def operations(contract: Json) -> str:
    """The module `rest.operations`."""
    calls = [
        (method, url, said)
        for url, methods in contract["paths"].items()
        for method, said in methods.items()
    ]
    return OPERATIONS + "".join("\n\n" + operation(*call) for call in calls)


# Results by kind

ANSWERS = '''"""Results of jobs in a class of their kind, as the contract declares their fields."""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from discreet_client.rest import models
from discreet_client.results import Answer, Floats, Ints, Price
'''
ANSWER_OF = '''

def answer_of(document: Mapping[str, Any], tables: Mapping[str, bytes]) -> Answer:
    """The answer in the class of its kind; a kind that this client does not know yet is an
    `Answer`."""
    return ANSWERS.get(document["job"]["kind"], Answer)(document, tables)
'''
ARRAYS = {"number": "Floats", "integer": "Ints"}


def field_type(schema: Json) -> str:
    """The type that a field of a result has in Python. Lists of numbers are arrays if the contract
    names their axes; otherwise rows may differ in length."""
    if "$ref" in schema:
        return "models." + schema["$ref"].rpartition("/")[2]
    if schema.get("type") == "array":
        inner = schema["items"]
        while inner.get("type") == "array":
            inner = inner["items"]
        if inner.get("type") in ARRAYS:
            return ARRAYS[inner["type"]] if "x-table" in schema else "Any"
        return f"list[{field_type(schema['items'])}]"
    if schema.get("type") == "object":
        each = schema.get("additionalProperties")
        return f"dict[str, {field_type(each) if isinstance(each, dict) else 'Any'}]"
    return type_of(schema)


def answer_class(kind: str, name: str, schema: Json) -> str:
    """The class of one kind's answers."""
    says = wrapped(f"Result of `{kind}`. {schema['description']}")
    lines = [f"class {name}(Answer):", textwrap.indent(f'"""{says}"""', "    "), ""]
    lines.append(f"    KIND: ClassVar[str] = {kind!r}")
    named = {
        field: tuple(said["x-table"][:-1])
        for field, said in schema["properties"].items()
        if "x-table" in said
    }
    if named:
        lines.append(f"    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {named!r}")
    for field, said in schema["properties"].items():
        if field != "tables":
            kept = field_type(said)
            *axes, _ = said.get("x-table", [""])
            shape = f"; [{', '.join(axes)}]" if kept in ARRAYS.values() else ""
            lines.append(f"    {field}: {kept}")
            lines.append(textwrap.indent(f'"""{wrapped(about(said) + shape)}"""', "    "))
    return "\n".join(lines) + "\n"


def answers(contract: Json) -> str:
    """The module `answers`."""
    schemas, parts, names = contract["components"]["schemas"], [ANSWERS], []
    for kind, reference in schemas["Results"]["properties"].items():
        result = reference["$ref"].rpartition("/")[2]
        names.append(result.removesuffix("Result") + "Answer")
        parts.append(answer_class(kind, names[-1], schemas[result]))
    parts.append(
        f"ANSWERS: dict[str, type[Answer]] = {{one.KIND: one for one in ({', '.join(names)},)}}\n"
    )
    listed = sorted(["ANSWERS", "Answer", "Floats", "Ints", "Price", "answer_of", *names])
    parts.insert(1, f"__all__ = {listed!r}\n")
    return "\n\n".join(parts) + ANSWER_OF


CONTENTS = '''"""The forms of datasets' contents by kind, which `discreet_client.forms` explains."""
# Made from openapi/openapi.json by `make sdk`.

from __future__ import annotations

from discreet_client.forms import Forms
'''


def contents(contract: Json) -> str:
    """The module `rest.contents`."""
    return f"{CONTENTS}\nCONTENTS: dict[str, Forms] = {forms_in(contract)!r}\n"


# The client for asyncio

HEADER = "# Made from client.py by `make sdk`; edit that.\n"
ASYNCHRONOUS = (
    (r"^# ruff: noqa.*\n", ""),  # client.py's exception from UP028; the made file has no need of it
    (r'"""A client of the HTTP API', r'"""The client of the HTTP API for asyncio'),
    (
        r"`aio.AsyncClient` is\nmade of this file by `make sdk`.",
        r"`client.Client` is\nthe same without await.",
    ),
    (r"\bwith Client\(", r"async with AsyncClient("),
    (r"= client\.solve\(", r"= await client.solve("),
    (r"^class Client:", r"class AsyncClient:"),
    (r'"Client"', r'"AsyncClient"'),
    (r"\bclient: Client\b", r"client: AsyncClient"),
    (r"\bhttpx\.(Client|BaseTransport)\b", r"httpx.Async\1"),
    (r"^    def (?!__init__)", r"    async def "),
    (r"__(enter|exit)__", r"__a\1__"),
    (r"\bIterator\b", r"AsyncIterator"),
    (r"\bimport time\b", r"import asyncio"),
    (r"\btime\.sleep\(", r"await asyncio.sleep("),
    (r"\bself\.((?:_client\.)?(?:_run|_drive|_network_of|wait|job|close))\(", r"await self.\1("),
    (r"\bself\._http\.request\(", r"await self._http.request("),
    (r"\bself\._http\.close\(", r"await self._http.aclose("),
    (r"\bwith self\._http\.stream\(", r"async with self._http.stream("),
    (r"\bfor (.*) in self\.((?:_client\.)?(?:_pages|events))\(", r"async for \1 in self.\2("),
    (r"\bfor (.*) in response\.iter_", r"async for \1 in response.aiter_"),
    (r"\bresponse\.read\(\)", r"await response.aread()"),
)


def asynchronous(text: str) -> str:
    """The module `aio` from the text of the module `client`."""
    for pattern, replacement in ASYNCHRONOUS:
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return HEADER + text


# Writing


def run(module: str, *arguments: str, text: str) -> str:
    """The output of a program for the input `text`; RuntimeError with its messages if it fails or
    warns."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0 or done.stderr:
        raise RuntimeError(f"{module}: {done.stderr}")
    return done.stdout


def formatted(path: Path, text: str) -> str:
    """The text formatted like every file of the project."""
    source = ("--quiet", "--stdin-filename", str(path), "-")
    return run(
        "ruff",
        "format",
        *source,
        text=run("ruff", "check", "--select", "I,F401", "--fix", *source, text=text),
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    contract = json.loads(CONTRACT.read_text())
    made = {
        "rest/models.py": models(contract),
        "rest/operations.py": operations(contract),
        "rest/contents.py": contents(contract),
        "answers.py": answers(contract),
        "aio.py": asynchronous((PACKAGE / "client.py").read_text()),
    }
    texts = {PACKAGE / name: formatted(PACKAGE / name, text) for name, text in made.items()}
    changed = [
        path for path, text in texts.items() if not path.exists() or path.read_text() != text
    ]
    if check and changed:
        print(
            "not what `make sdk` writes: "
            f"{', '.join(str(path.relative_to(HERE)) for path in changed)}"
        )
        return 1
    for path in changed:
        path.write_text(texts[path])
    return 0


if __name__ == "__main__":
    sys.exit(main())
