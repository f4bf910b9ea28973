"""Puts the labels of forms into sentences. Advice is written for the API and the command line too,
where a field is `return_bounds`; on a page it is “Return bounds”."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from discreet.problems import DATASETS, KINDS
from discreet.problems.results import properties_of

_NAMED = re.compile(
    r"`(?P<marked>[a-z]\w*)`|(?<![\w`/.])(?P<name>[a-z]\w*)=(?P<value>[a-z]\w*)"
    r"|(?<![\w`/.])(?P<bare>[a-z]+(?:_[a-z]+)+)(?![\w`/=])"
)


def label(name: str, schema: Mapping[str, Any]) -> str:
    """The label of a field, as `label` of `static/fields.js` makes it: its title, unless that is
    only its name with capital letters; symbols stay as they are."""
    plain = name.replace("_", " ")
    title = str(schema.get("title") or plain)
    if title.lower() != plain.lower():
        return title
    return name if re.fullmatch(r"[A-Za-z](_[a-z])?", name) else plain[:1].upper() + plain[1:]


def place(pointer: str) -> str:
    """A JSON pointer into a job in words: `Accuracy, around` for `/privacy/accuracy/around`; rows
    are counted from 1."""
    parts = [part for part in pointer.split("/") if part not in ("", "problem", "privacy")]
    words = [
        f"row {int(part) + 1}" if part.isdecimal() else part.replace("_", " ") for part in parts
    ]
    said = ", ".join(words) or "The job"
    return said[:1].upper() + said[1:]


@cache
def _known() -> tuple[dict[str, str], dict[str, str]]:
    """The label of each field of problems, public parts and results; the words for each choice."""
    labels: dict[str, str] = {}
    words: dict[str, str] = {}
    for model in (*KINDS.values(), *DATASETS.values()):
        for schema in _schemas(model.model_json_schema()):
            for name, one in schema.get("properties", {}).items():
                labels.setdefault(name, label(name, one))
                choices = (word for part in _schemas(one) for word in part.get("enum", ()))
                words |= {str(word): str(word).replace("_", " ") for word in choices}
    for kind in KINDS.values():
        for name, one in properties_of(kind.Fields).items():
            labels.setdefault(name, label(name, one))
    return labels, words


def _schemas(part: Any) -> Iterator[Mapping[str, Any]]:
    """A schema and all schemas within it."""
    if isinstance(part, Mapping):
        yield part
        for one in part.values():
            yield from _schemas(one)
    elif isinstance(part, list):
        for one in part:
            yield from _schemas(one)


def as_labelled(sentence: str) -> str:
    """A sentence of ours with the labels of its fields and the words for its choices; any other
    name stays as it is."""
    labels, words = _known()

    def said(found: re.Match[str]) -> str:
        if (name := found["name"]) is not None:
            value = found["value"].replace("_", " ").capitalize()
            return f"“{labels[name]}: {value}”" if name in labels else found[0]
        name = found["marked"] or found["bare"]
        if name in labels:
            return f"“{labels[name]}”"
        return words.get(name, found[0])

    return _NAMED.sub(said, sentence)
