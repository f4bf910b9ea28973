"""What a browser makes the form of a job from: the kind's published schema, and the values that its
fields offer."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from discreet.errors import DiscreetError, InvalidInput
from discreet.problems import KINDS
from discreet.problems.contents import PublicObject
from discreet.problems.numbers import PRESETS, Privacy
from discreet.usecases.requests import JobRequest

OWN_CONTROLS = ("problem", "privacy")
"""Parts of a job's body that are not drawn from its schema: the problem has the kind's schema,
privacy its own controls."""
MOST_JOBS = 20
"""Jobs that the form offers to take a part of the problem from."""
LONGEST_NAME = 100
"""Characters of such a job's name that are shown."""
MOST_STORED = 200
"""Public objects of one type, newest first, that a field may be chosen from."""


@cache
def schema_of(kind: str) -> str:
    """The schemas of a kind's problem and of the other fields of a job's body, as JSON text."""
    beside = JobRequest.model_json_schema()["properties"]
    said = {
        name: schema
        for name, schema in beside.items()
        if name not in OWN_CONTROLS and "$ref" not in str(schema)
    }
    delta = Privacy.model_json_schema()["properties"]["delta"]
    delta.pop("default", None)
    return json.dumps({"problem": KINDS[kind].model_json_schema(), "beside": said, "delta": delta})


def choices(
    kind: str,
    datasets: Sequence[Mapping[str, Any]],
    jobs: Sequence[Mapping[str, Any]],
    stored: Mapping[str, Sequence[Mapping[str, Any]]],
    refused: DiscreetError | None,
    fixed: Sequence[str] = (),
    sources: Sequence[Mapping[str, Any]] = (),
) -> str:
    """What the form needs beside the schema: values to choose from, and the errors by field, as
    JSON text. `stored`: public objects by the field that may name one; `fixed`: fields that may not
    be changed, which the form leaves out; `sources`: those of the kind, each with its readable
    `blocks` in order."""
    issues = refused.issues if isinstance(refused, InvalidInput) else []
    return json.dumps(
        {
            "kind": kind,
            "datasets": [
                {"value": row["id"], "label": row["name"]}
                for row in datasets
                if row["kind"] == kind
            ],
            "jobs": [_named(row) for row in jobs if row["kind"] == kind][:MOST_JOBS],
            "sources": [
                {"value": one["id"], "label": one["name"], "by": one["by"], "blocks": one["blocks"]}
                for one in sources
            ],
            "stored": {field: [sized(row) for row in rows] for field, rows in stored.items()},
            "presets": {name: float(epsilon) for name, epsilon in PRESETS.items()},
            "issues": issues_view(issues),
            "fixed": list(fixed),
        }
    )


@cache
def kind_of(model: type[PublicObject]) -> tuple[str, str]:
    """The kind whose problems name objects of this type, and the field that names them."""
    return next(
        (name, field)
        for name, kind in KINDS.items()
        for field, named in kind.objects.items()
        if named is model
    )


def issues_view(issues: Sequence[Any]) -> list[dict[str, str]]:
    return [{"pointer": one.pointer, "detail": one.detail} for one in issues]


def sized(row: Mapping[str, Any]) -> dict[str, str]:
    """A stored object as a choice: its id, and its name with its sizes."""
    sizes = (
        f"{size:,} {what}" for what, size in row["sizes"].items() if not isinstance(size, bool)
    )
    return {"value": row["id"], "label": ", ".join([row["name"], *sizes])}


def _named(row: Mapping[str, Any]) -> dict[str, str]:
    """A job as a choice: its own name, its dataset's, the job that it asks again, or its headline;
    and when it was submitted."""
    asked = row.get("asked_name")
    called = (
        row.get("name")
        or row.get("dataset_name")
        or (f"asks {asked} again" if asked else "")
        or row.get("headline")
        or "Without a name"
    )
    return {
        "value": row["id"],
        "label": f"{called[:LONGEST_NAME]}, {row['created_at']:%Y-%m-%d %H:%M} UTC",
    }


def together(
    leaves: Sequence[dict[str, Any]], names: Mapping[str, tuple[str, str]]
) -> list[dict[str, Any]]:
    """What a job leaves on each account, with blocks of the same figures as one entry that names
    them (`blocks`), those with least left first. `names`: source and block of those accounts that
    are of one block."""
    found: list[dict[str, Any]] = []
    alike: dict[tuple[float, ...], dict[str, Any]] = {}
    for one in leaves:
        if one["account"] not in names:
            found.append(one)
            continue
        figures = tuple(one[name]["epsilon"] for name in ("after", "before", "cap"))
        if figures not in alike:
            alike[figures] = {**one, "source": names[one["account"]][0], "blocks": []}
        alike[figures]["blocks"].append(names[one["account"]][1])
    return [*(alike[figures] for figures in sorted(alike)), *found]
