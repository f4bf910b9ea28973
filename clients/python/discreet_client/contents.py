"""NumPy and pandas on their way in: JSON bodies, and tables as files.

What may be given as the content of a dataset:

    a mapping of the fields that the contract names for the kind (`trips`, `trajectories`, …), whose values may be
    arrays or frames                                                                 -> JSON
    a pandas DataFrame, a pyarrow Table, or a mapping of columns of equal length     -> Parquet, or CSV without pyarrow
    for dr_ensemble int[participants, steps] (trajectories) or float[n, n] (with public `row_change`)
    for routing int[periods, zones, zones], the trips of every pair
    a path of a Parquet, CSV or JSON file                                            -> as it is
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from discreet_client.rest import models


class File(NamedTuple):
    """Content to upload beside its metadata."""

    name: str
    body: BinaryIO


def dumps(value: Any) -> bytes:
    """JSON of a body with arrays, frames and decimals in it; ValueError for NaN and infinities.

    A Decimal becomes the nearest double, written shortest: up to 15 digits arrive as they were.
    """
    return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if hasattr(value, "to_pylist"):  # pyarrow
        return value.to_pylist()
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # a frame: one object a row
        return value.to_dict(orient="records")
    if hasattr(value, "to_numpy"):  # a series
        return value.to_numpy().tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


@cache
def known_fields() -> dict[str, frozenset[str]]:
    """By kind, the fields of a content in JSON, as the contract had them when this client was made."""
    found = {}
    for model in vars(models).values():
        hints = get_type_hints(model) if isinstance(model, type) else {}
        if {"kind", "public", "content"} <= hints.keys():
            (kind,) = get_args(hints["kind"])
            found[kind] = frozenset(hints["content"].__annotations__)
    return found


def fields_in(document: Mapping[str, Any], kind: str) -> frozenset[str] | None:
    """The fields of a content in JSON by the service's own contract; None for a kind that it does not know either."""
    schemas = document["components"]["schemas"]
    for schema in schemas.values():
        properties = schema.get("properties", {})
        if {"public", "content"} <= properties.keys() and properties.get("kind", {}).get("const") == kind:
            return frozenset(schemas[properties["content"]["$ref"].rpartition("/")[2]]["properties"])
    return None


def content_of(kind: str, content: Any, fields: frozenset[str] | None) -> Any:
    """The content as a `File`, or as what goes into a JSON body. TypeError when nobody could tell what it is.

    `fields`: those of the kind's content in JSON; None where nobody knows the kind, and the service shall say so.
    """
    if isinstance(content, str | Path):
        path = Path(content)
        return File(path.name, path.open("rb"))
    if isinstance(content, np.ndarray):
        return _of_array(kind, content)
    if isinstance(content, Mapping):
        return content if fields is None or content.keys() & fields else _file(_columns(content, fields))
    if hasattr(content, "to_parquet") or hasattr(content, "column_names"):
        return _file(content)
    raise TypeError(f"content of type {type(content).__name__}: see discreet_client.contents")


def _of_array(kind: str, array: NDArray[Any]) -> Any:
    if kind == "dr_ensemble" and array.ndim == 2:
        if not np.issubdtype(array.dtype, np.integer):
            return {"transitions": array}
        participants, steps = array.shape
        return _file(
            {
                "participant": np.repeat(np.arange(participants), steps),
                "step": np.tile(np.arange(steps), participants),
                "state": array.ravel(),
            }
        )
    if kind == "routing" and array.ndim == 3:
        period, origin, destination = np.nonzero(array)
        count = array[period, origin, destination]
        return _file({"period": period, "origin": origin + 1, "destination": destination + 1, "count": count})
    raise TypeError(f"an array of {array.ndim} dimensions is no content of {kind}: see discreet_client.contents")


def _columns(content: Mapping[str, Any], fields: frozenset[str]) -> dict[str, NDArray[Any]]:
    """Columns of equal length; one of two dimensions `x` becomes `x_0, x_1, …`, as the service reads it."""
    columns: dict[str, NDArray[Any]] = {}
    for name, given in content.items():
        values = np.asarray(given)
        if values.ndim == 2:
            columns |= {f"{name}_{axis}": values[:, axis] for axis in range(values.shape[1])}
        elif values.ndim == 1:
            columns[name] = values
        else:
            raise TypeError(f"column {name!r} has {values.ndim} dimensions")
    if len({len(values) for values in columns.values()}) != 1:
        raise TypeError(f"a content has one of the fields {', '.join(sorted(fields))}, or columns of one length")
    return columns


def _file(table: Any) -> File:
    """A table as Parquet where pyarrow is installed, as CSV elsewhere."""
    body = io.BytesIO()
    try:
        import pyarrow  # noqa: PLC0415 - optional
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        text = io.TextIOWrapper(body, encoding="utf-8", newline="", write_through=True)
        if isinstance(table, dict):
            writer = csv.writer(text)
            writer.writerow(table)
            writer.writerows(zip(*(values.tolist() for values in table.values()), strict=True))
        else:
            table.to_csv(text, index=False)
        text.detach()
        body.seek(0)
        return File("content.csv", body)
    if isinstance(table, dict):
        table = pyarrow.table(table)
    elif not isinstance(table, pyarrow.Table):
        table = pyarrow.Table.from_pandas(table, preserve_index=False)
    pyarrow.parquet.write_table(table, body)
    body.seek(0)
    return File("content.parquet", body)
