"""Contents of datasets from NumPy, pandas and pyarrow, as JSON bodies or as files.

The content of a dataset may be given as:

    a mapping of the fields that the contract names for the
        kind (`trips`, `trajectories`, …), whose values may
        be arrays or frames                                    -> JSON
    a pandas DataFrame, a pyarrow Table, or a mapping of
        columns of equal length                                -> Parquet, or CSV without pyarrow
    a NumPy array that the contract names for the kind
        (`x-arrays`): for dr_ensemble int[participants, steps]
        or float[n, n], for routing int[periods, zones, zones] -> a table, one row for each number
    a path of a Parquet, CSV or JSON file                      -> as it is
    an address that the service reads (`file:///…`,
        `https://…`, `s3://…`; `rows_of` a database)           -> as it is
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from discreet_client.forms import Forms


class File(NamedTuple):
    """Content that is uploaded as a file beside its metadata."""

    name: str
    body: BinaryIO


def rows_of(database: str, query: str) -> str:
    """The address of what a SELECT finds in a PostgreSQL database
    (`postgresql://db.example.org/meters`) that the service's operator allows."""
    if not database.startswith("postgresql://") or "?" in database:
        raise ValueError("a database is needed, such as postgresql://db.example.org/meters")
    return f"{database}?query={quote(query, safe='')}"


def dumps(value: Any) -> bytes:
    """The JSON of a body, in which arrays, frames and decimals may stand; ValueError for NaN and
    infinities.

    A Decimal becomes the nearest double in its shortest form, so up to 15 digits arrive unchanged.
    """
    return json.dumps(value, default=_plain, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date):  # with its time, and its offset where it has one
        return value.isoformat()
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if hasattr(value, "to_pylist"):  # pyarrow
        return value.to_pylist()
    if hasattr(value, "columns") and hasattr(value, "to_dict"):  # a frame: one object a row
        return value.to_dict(orient="records")
    if hasattr(value, "to_numpy"):  # a series
        return value.to_numpy().tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON")


def fits(content: Any, forms: Forms | None) -> bool:
    """Whether a mapping or an array is a content of these forms; true of anything else, which needs
    no form."""
    if isinstance(content, Mapping):
        return forms is not None and bool(content.keys() & set(forms["fields"]))
    if isinstance(content, np.ndarray):
        return forms is not None and any(_is_of(content, form) for form in forms["arrays"])
    return True


def content_of(kind: str, content: Any, forms: Forms | None) -> Any:
    """The content as a `File`, or as a value for a JSON body. TypeError for a content that is none
    of those listed above.

    `forms`: those of the kind; None for an unknown kind, which the service is left to refuse.
    """
    if isinstance(content, File):
        return content
    if isinstance(content, str | Path):
        path = Path(content)
        return File(path.name, path.open("rb"))
    if isinstance(content, np.ndarray):
        return content if forms is None else _of_array(kind, content, forms)
    if isinstance(content, Mapping):
        return (
            content
            if forms is None or fits(content, forms)
            else _file(_columns(content, forms["fields"]))
        )
    if hasattr(content, "to_parquet") or hasattr(content, "column_names"):
        return _file(content)
    raise TypeError(f"content of type {type(content).__name__}: see discreet_client.contents")


def _is_of(array: NDArray[Any], form: Mapping[str, Any]) -> bool:
    return array.ndim == len(form["axes"]) and (
        not form.get("integers") or np.issubdtype(array.dtype, np.integer)
    )


def _of_array(kind: str, array: NDArray[Any], forms: Forms) -> Any:
    """The table of an array: a column for each axis that has a name, then its numbers."""
    form = next((form for form in forms["arrays"] if _is_of(array, form)), None)
    if form is None:
        raise TypeError(
            f"an array of {array.ndim} dimensions and type {array.dtype} is no content of {kind}: "
            "see discreet_client.contents"
        )
    places = (
        np.nonzero(array)
        if form.get("sparse")
        else tuple(axis.ravel() for axis in np.indices(array.shape))
    )
    firsts = form.get("first", [0] * array.ndim)
    columns = {
        axis: place + first
        for axis, place, first in zip(form["axes"], places, firsts, strict=True)
        if axis
    }
    return _file({**columns, form["value"]: array[places]})


def _columns(content: Mapping[str, Any], fields: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Columns of equal length; a two-dimensional column `x` becomes `x_0, x_1, …`, the names that
    the service reads."""
    columns: dict[str, NDArray[Any]] = {}
    for name, given in content.items():
        values = np.asarray(given)
        if values.dtype == object and any(isinstance(value, dict | list) for value in values.flat):
            raise TypeError(
                f"{name!r} is neither a column nor one of the fields of a content: "
                f"{', '.join(fields)}"
            )
        if values.ndim == 2:
            columns |= {f"{name}_{axis}": values[:, axis] for axis in range(values.shape[1])}
        elif values.ndim == 1:
            columns[name] = values
        else:
            raise TypeError(f"column {name!r} has {values.ndim} dimensions")
    if len({len(values) for values in columns.values()}) != 1:
        raise TypeError(
            f"a content has one of the fields {', '.join(fields)}, or columns of equal length"
        )
    return columns


def table_file(table: Any) -> File:
    """A table of somebody's own, a frame or columns of equal length, as a file. TypeError."""
    if isinstance(table, Mapping):
        table = {name: _arrow_column(values) for name, values in table.items()}
    elif not hasattr(table, "to_parquet") and not hasattr(table, "column_names"):
        if not hasattr(table, "to_arrow"):
            raise TypeError(f"a table of type {type(table).__name__}: see discreet_client.contents")
        table = table.to_arrow()  # polars
    try:
        return _file(table)
    except ValueError as error:  # Arrow's errors are
        says = "a column holds values of several types: make it text, or read it here (local=True)"
        raise TypeError(f"{says}: {error}") from None


def _arrow_column(values: Any) -> Any:
    """A column as it is: an array of NumPy would make texts of a column of texts and None."""
    return values if isinstance(values, np.ndarray) or hasattr(values, "dtype") else list(values)


def _file(table: Any) -> File:
    """A table as Parquet, or as CSV without pyarrow."""
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
