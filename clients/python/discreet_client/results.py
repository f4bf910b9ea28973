"""Results of jobs: arrays by name, frames, files, the certificate and the price. `answers` has a
subclass for each kind."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet_client.day_clock import block_names, step_names
from discreet_client.drawing import Fetch, plotted
from discreet_client.errors import MissingExtra
from discreet_client.flows import (
    BYTE_ORDER_MARK,
    NotWritten,
    as_csv,
    as_parquet,
    rows_of_links,
)
from discreet_client.intervals import MOSTLY_NOISE, figure, is_mostly_noise, is_number, stated

if TYPE_CHECKING:
    import pandas
    import pyarrow

Row = dict[str, Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NODES = ("origin", "destination", "tail", "head")
"""Columns with numbers of nodes, which count from 1. Everything else that can have names counts
from 0, including positions in arrays."""
NAMED = ("origin", "destination", "user_class", "step", "block")
"""Axes whose names an answer knows."""

MAX_CELLS = 1 << 28
"""The most cells (2 GB) of an array that is made from a table."""


@dataclass(frozen=True)
class Price:
    """The privacy loss that a job was charged, as (epsilon, delta) and as rho of zCDP."""

    epsilon: float
    delta: float
    rho: float


class Answer:
    """The result of a job: `answer.link_flows` or `answer["link_flows"]`.

    Lists of numbers are NumPy arrays of the type that the contract declares; in fields that the
    class does not declare they are int64 if all are integers. Everything else is as in the JSON.
    Fields of more than a million numbers are sent as Parquet (extra `arrow`) and read in the same
    way. Subclasses declare the fields of a kind; fields that the service gained later can be read
    too.
    """

    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """The names of each array's axes in frames."""
    network: Mapping[str, Any] = {}
    """The public road network that the job names; empty if there is none, and in answers pickled by
    an older version."""

    def __init__(self, document: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        self.document = dict(document)
        """The JSON answer: job, result, certificate."""
        self.parquet = dict(tables)
        """Bytes of the Parquet files of the large fields."""
        self._cache: dict[str, Any] = {}
        self._charts: Fetch | None = None
        """Fetches charts with the client that fetched this answer."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_charts": None}  # connections cannot be pickled

    # The job and what it released

    @property
    def job(self) -> dict[str, Any]:
        job: dict[str, Any] = self.document["job"]
        return job

    @property
    def id(self) -> str:
        return str(self.job["id"])

    @property
    def kind(self) -> str:
        return str(self.job["kind"])

    @property
    def certificate(self) -> dict[str, Any]:
        """The signed statement of the privacy loss: guarantee, events, assumptions."""
        certificate: dict[str, Any] = self.document["certificate"]
        return certificate

    @cached_property
    def price(self) -> Price:
        price = self.job["price"]
        return Price(price["epsilon"], price["delta"], price["rho"])

    # How good it is

    @property
    def mostly_noise(self) -> bool:
        """Whether the result as a whole is mostly noise, so that its numbers tell little."""
        return is_mostly_noise(self.document["result"])

    def interval(self, name: str) -> tuple[Any, Any] | None:
        """The interval of a field: (lower, upper), numbers or arrays of its shape with NaN where
        there is none. With probability `level` of `answer.uncertainty` it contains the field
        without noise; where the answer has a field `covers`, that says what it contains. None for a
        field without intervals. KeyError, which names the fields with intervals, for an unknown
        field."""
        values = (self.document["result"].get("uncertainty") or {}).get("values", {})
        if (said := values.get(name)) is None:
            if name in self.fields:
                return None
            raise KeyError(f"{name!r}; {', '.join(values) or 'nothing here'} has intervals")
        lower, upper = (np.array(said[end], dtype=np.float64) for end in ("lower", "upper"))
        return (lower, upper) if lower.ndim else (float(lower), float(upper))

    def noise_dominates(self, name: str) -> Any:
        """Whether a field, or each of its rows (an array), is mostly noise."""
        said = (
            (self.document["result"].get("uncertainty") or {})
            .get("noise_dominates", {})
            .get(name, False)
        )
        return np.array(said, dtype=np.bool_) if isinstance(said, list) else bool(said)

    # The result

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of all fields, small and large."""
        return (*(name for name in self.document["result"] if name != "tables"), *self.parquet)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def __contains__(self, name: object) -> bool:
        return name in self.fields

    def __getitem__(self, name: str) -> Any:
        if name not in self._cache:
            if name in self.parquet:
                self._cache[name] = _array_of_table(name, self.table(name))
            elif name in self.fields:
                self._cache[name] = self._typed(name, _array(self.document["result"][name]))
            else:
                raise KeyError(f"{name!r}; there are {', '.join(self.fields)}")
        return self._cache[name]

    def _typed(self, name: str, value: Any) -> Any:
        """A field in the type that its class declares, since JSON does not distinguish 1.0 from
        1."""
        kind = type(self).__annotations__.get(name)
        if kind == "Floats" and isinstance(value, np.ndarray):
            return value.astype(np.float64, copy=False)
        return float(value) if kind == "float" and isinstance(value, int) else value

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and "document" in self.__dict__ and name in self.fields:
            return self[name]
        raise AttributeError(f"{type(self).__name__} has no {name!r}", name=name, obj=self)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.fields]

    def __repr__(self) -> str:
        alone = {
            one.name: one.text for one in stated(self.document["result"]) if np.isscalar(one.value)
        }
        said = {
            name: value for name in self.fields if isinstance(value := self._sentence(name), str)
        }
        shown = [
            f"{name} = {(alone | said)[name]}" if name in alone or name in said else name
            for name in self.fields
        ]
        first = ["mostly noise"] if self.mostly_noise else []
        return f"<{type(self).__name__} {self.id}: {', '.join([*first, *shown])}>"

    def _sentence(self, name: str) -> str | None:
        """A field that is a sentence, or a list of names; None for any other."""
        value = self.document["result"].get(name)
        if isinstance(value, list) and value and all(isinstance(one, str) for one in value):
            return ", ".join(value)
        return value if isinstance(value, str) and " " in value else None

    def _repr_html_(self) -> str:
        """The table that a notebook shows: whether the answer is mostly noise, every single number
        with its interval, the arrays, and the price."""
        single, alone = (
            {one.name: one.text for one in stated(self.document["result"])},
            dict[str, str](),
        )
        for name in self.fields:
            if name in self.parquet:
                alone[name] = "a table"
            elif isinstance(value := self[name], np.ndarray):
                axes = zip(self.axes(name), value.shape, strict=True)
                alone[name] = "an array by " + ", ".join(f"{axis} ({size})" for axis, size in axes)
            elif is_number(value):
                alone[name] = single.get(name, figure(value))
            elif isinstance(value, str):
                alone[name] = value
            elif (said := self._sentence(name)) is not None:
                alone[name] = said
        rows = "".join(
            f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>"
            for name, text in alone.items()
        )
        noise = f"<p><strong>{escape(MOSTLY_NOISE)}</strong></p>" if self.mostly_noise else ""
        paid = f"epsilon {figure(self.price.epsilon)}, delta {self.price.delta:.3g}"
        return (
            f"<p>{escape(self.kind)} <code>{escape(self.id)}</code>, paid: "
            f"{paid}</p>{noise}<table>{rows}</table>"
        )

    def plot(self, chart: str | None = None) -> Any:
        """The first chart of this answer as a plotly Figure (extra `plot`), drawn by the service as
        on the job's page; for roads it is the map. `chart`: the name of another one of
        `client.charts(answer.id)`; KeyError names them.

        Answers of AsyncClient return an awaitable: `await answer.plot()`. Each call fetches the
        charts from the service.
        """
        return plotted(self._charts, self.id, chart)

    def save(self, path: str | Path, table: str | None = None, *, decimal: str = ".") -> None:
        """Write the result to a file whose ending says the form: `.xlsx` (extra `excel`) with all
        tables or the one that is named, `.csv` or `.parquet` (extra `arrow`) with one table, by
        default the main one. decimal: of CSV; with `,` columns are separated by semicolons.
        ValueError says which tables there are."""
        file = Path(path)
        file.write_bytes(written(self, file.suffix.lower()[1:], table, decimal=decimal))

    def table(self, name: str) -> pyarrow.Table:
        """A field that was sent as Parquet."""
        try:
            import pyarrow.parquet  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingExtra("pyarrow", "arrow", f"the large field {name!r}") from None
        return pyarrow.parquet.read_table(io.BytesIO(self.parquet[name]))

    def frame(
        self,
        name: str,
        *,
        intervals: bool = False,
        called: Mapping[str, Sequence[str]] | None = None,
    ) -> pandas.DataFrame:
        """A field as a pandas DataFrame: a number as one row with the ends of its interval, a large
        field as its table, a list of objects with a row for each, an array of one or two
        dimensions with its rows and columns, and one of more dimensions with a row for each number,
        indexed by its positions. Where each row is of one
        link, the columns `tail` and `head` hold the nodes at its ends in the job's network. Nodes
        and zones (`origin`, `destination`) have their names in the network if it has any, else
        their numbers, from 1; user classes have their names. Steps and blocks of a day have their
        times by the clock where the dataset's meters tell them.

        intervals: for an array that came in the JSON, a row for each number, with the columns
        `lower` and `upper` (its interval) and `only_noise` (whether it, or its row, is mostly
        noise).

        called: names for the positions of an axis, in order, such as `{"origin": names,
        "destination": names}`; in a table or a list of objects they are for the columns of these
        names. ValueError if there are fewer names than positions.

        MissingExtra without pandas, which is an extra of this package.
        """
        frame = _with_ends(self._frame(name, intervals), self.network)
        is_array = type(self).__annotations__.get(name) == "Floats"
        positions = self.AXES[name] if is_array else ()
        given = called or {}
        for axis in {**given, **dict.fromkeys(NAMED)}:
            first = 1 if axis in NODES and axis not in positions else 0
            names = (
                given[axis] if axis in given else self._names_of(axis, _most(frame, axis, first))
            )
            frame = _with_names(frame, axis, names, first)
        return frame

    def _names_of(self, axis: str, count: int) -> Sequence[Any]:
        """The names of so many zones or user classes, or else their numbers; of steps and blocks of
        a day their times."""
        states = self.document["result"].get("states")
        states = states if isinstance(states, Mapping) else {}
        if axis == "step":
            return step_names(states, count) or range(count)
        if axis == "block":
            return block_names(states) if "blocks" in states else range(count)
        if axis == "user_class":
            names = self.document["result"].get("user_classes") or ()
        else:
            names = self.network.get("node_names") or ()
        return names if len(names) >= count else range(1, count + 1)

    def _frame(self, name: str, intervals: bool) -> pandas.DataFrame:
        try:
            import pandas  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingExtra("pandas", "pandas", "a frame") from None
        if name in self.parquet:
            return self.table(name).to_pandas()
        value = self[name]
        if is_number(value):
            lower, upper = self.interval(name) or (math.nan, math.nan)
            noise = bool(self.noise_dominates(name))
            row = {name: value, "lower": lower, "upper": upper, "only_noise": noise}
            return pandas.DataFrame([row])
        if intervals:
            return self._with_intervals(name, value)
        if isinstance(value, np.ndarray):
            if value.ndim == 2:
                rows, columns = self.axes(name)
                return pandas.DataFrame(value).rename_axis(index=rows, columns=columns)
            return pandas.DataFrame({name: value.ravel()}, index=self._positions(name, value))
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return pandas.DataFrame.from_records(value)
        raise TypeError(f"{name!r} is not a table: {type(value).__name__}")

    def _with_intervals(self, name: str, value: Any) -> pandas.DataFrame:
        import pandas  # noqa: PLC0415 - `frame` has found it

        if not isinstance(value, np.ndarray) or value.ndim == 0:
            raise TypeError(f"{name!r} is not an array: use answer.interval({name!r})")
        nothing = np.full(value.shape, np.nan)
        lower, upper = self.interval(name) or (nothing, nothing)
        noise = np.asarray(self.noise_dominates(name))
        by_number = noise.reshape(noise.shape + (1,) * (value.ndim - noise.ndim))
        columns = {
            name: value,
            "lower": lower,
            "upper": upper,
            "only_noise": np.broadcast_to(by_number, value.shape),
        }
        index = self._positions(name, value)
        return pandas.DataFrame(
            {column: array.ravel() for column, array in columns.items()}, index=index
        )

    def axes(self, name: str) -> tuple[str, ...]:
        """The names of an array's axes in the contract."""
        known, value = type(self).AXES.get(name, ()), self[name]
        return (
            known
            if len(known) == value.ndim
            else tuple(f"axis_{axis}" for axis in range(value.ndim))
        )

    def labels(self, axis: str, count: int) -> Sequence[Any]:
        """What the first positions of an axis are called: zones and user classes by their names or
        numbers, steps and blocks of a day by their times, all else by numbers from 0."""
        return self._names_of(axis, count) if axis in NAMED else range(count)

    def _positions(self, name: str, value: NDArray[Any]) -> pandas.Index:
        """An index with a row for each number of an array, in its order."""
        import pandas  # noqa: PLC0415 - `frame` has found it

        axes = self.axes(name)
        if value.ndim == 1:
            return pandas.RangeIndex(value.size, name=axes[0])
        return pandas.MultiIndex.from_product([range(size) for size in value.shape], names=axes)


def _with_ends(frame: pandas.DataFrame, network: Mapping[str, Any]) -> pandas.DataFrame:
    """The frame with columns `tail` and `head`, which hold names of nodes or else their numbers,
    if each row is of one link of this network. Links are numbered from 0 in the index or, of a
    large field, in a column."""
    links, names = network.get("links") or (), network.get("node_names")
    if "link" in frame.index.names:
        places = frame.index.get_level_values("link")
    elif "link" in frame.columns and frame["link"].dtype.kind in "iu":
        places = frame["link"]
    else:
        return frame
    if not len(places) or int(places.max()) >= len(links):
        return frame
    at = list(frame.columns).index("link") + 1 if "link" in frame.columns else 0
    for end in ("head", "tail"):  # the one inserted last stands first
        nodes = [links[place][end] for place in places]
        frame.insert(at, end, [names[node - 1] for node in nodes] if names else nodes)
    return frame


def _most(frame: pandas.DataFrame, axis: str, first: int) -> int:
    """How many positions of an axis a frame has, by their numbers; 0 if it has no numbers of this
    axis. A column counts from `first`, an index or the columns from 0."""
    if axis in frame.columns:
        numbered = len(frame) and frame[axis].dtype.kind in "iu"
        return int(frame[axis].max()) + 1 - first if numbered else 0
    for labels in (frame.index, frame.columns):
        if axis in labels.names and len(values := labels.get_level_values(axis)):
            return int(values.max()) + 1 if values.dtype.kind in "iu" else 0
    return 0


def _with_names(
    frame: pandas.DataFrame, axis: str, names: Sequence[Any], first: int
) -> pandas.DataFrame:
    """The frame with these names for an axis: an index or the columns, which count from 0, or a
    column of numbers, which counts from `first`. Unchanged if the frame has no such axis, or names
    there already."""
    if not (most := _most(frame, axis, first)):
        return frame
    if most > len(names):
        raise ValueError(f"{axis}: {most} positions, and {len(names)} names")
    if axis in frame.columns:
        return frame.assign(**{axis: [names[number - first] for number in frame[axis]]})
    for place, labels in enumerate((frame.index, frame.columns)):
        if axis in labels.names:
            level = labels.names.index(axis)
            return frame.rename(
                dict(enumerate(names)), axis=place, level=level if labels.nlevels > 1 else None
            )
    return frame


def _array(value: Any) -> Any:
    """Nested lists of numbers as an array; lists of unequal length as a list of arrays; anything
    else unchanged."""
    if not isinstance(value, list) or not _numeric(value):
        return value
    try:
        return np.array(value)
    except ValueError:  # ragged
        return [_array(row) for row in value]


def _numeric(value: Any) -> bool:
    return all(map(_numeric, value)) if isinstance(value, list) else is_number(value)


def _array_of_table(name: str, table: pyarrow.Table) -> NDArray[Any]:
    """The array of a table with positions in all columns but the last; positions without a row are
    0."""
    from pyarrow.types import is_floating, is_integer  # noqa: PLC0415 - it has read the table

    *axes, kind = table.schema.types
    if not axes or not all(map(is_integer, axes)) or not (is_floating(kind) or is_integer(kind)):
        raise TypeError(
            f"{name!r} is not an array; use answer.table({name!r}) or answer.frame({name!r})"
        )
    *positions, numbers = (column.to_numpy() for column in table.columns)
    shape = tuple(int(axis.max()) + 1 for axis in positions)
    if math.prod(shape) > MAX_CELLS:
        raise TypeError(f"{name!r} has {math.prod(shape)} cells; use answer.table({name!r})")
    array = np.zeros(shape, dtype=numbers.dtype)
    array[tuple(positions)] = numbers
    return array


# Files --------------------------------------------------------------------------------------------
# The tables of a result are `figures` (the single figures), one for all arrays with the same axes,
# such as `by step`, with a row for each position and columns for each array and the ends of its
# interval, and one for each list of objects, such as `policy`. Fields of more than a million
# numbers are Parquet already (`answer.parquet`) and stand in none of them.

FORMATS = ("csv", "xlsx", "parquet")
FIGURES = "figures"
ABOUT = "about"
LEFT_OUT = ("uncertainty", "tables", "states")
"""Members of a result that say something about the others."""
OF_FLOWS = ("link_flows", "link_flows_lower", "link_flows_upper")
"""Columns that `flow` and the others of `rows_of_links` stand for."""
MOST_ROWS, MOST_COLUMNS, MOST_LETTERS, LONGEST_TITLE = 1_048_575, 16_384, 32_767, 31
"""Of an Excel sheet below its line of names; of one of its cells; of its name."""
NOT_IN_TITLES = str.maketrans(dict.fromkeys("[]:*?/\\", " "))


def tables(answer: Answer) -> dict[str, list[Row]]:
    """The tables of an answer by name, each a list of rows, the main one first."""
    result, fields = answer.document["result"], dict[tuple[str, ...], list[str]]()
    found: dict[str, list[Row]] = {}
    for name, value in result.items():
        if name in LEFT_OUT or not isinstance(value, list) or not value:
            continue
        if all(isinstance(row, Mapping) for row in value):
            found[name] = _filled(row for one in value for row in _flat(one))
        elif name in answer.AXES and isinstance(answer[name], np.ndarray):
            fields.setdefault(answer.axes(name), []).append(name)
    arrays = {f"by {', '.join(axes)}": _long(answer, axes, fields[axes]) for axes in fields}
    if "link_flows" in result and answer.network:
        links = rows_of_links(result, answer.network)
        arrays["by link"] = [
            link | {name: row[name] for name in row if name not in ("link", *OF_FLOWS)}
            for link, row in zip(links, arrays["by link"], strict=True)
        ]
    of_one_axis = [
        f"by {axes[0]}"
        for axes in sorted(fields, key=lambda axes: -len(fields[axes]))
        if len(axes) == 1
    ]
    main = {name: arrays[name] for name in of_one_axis}
    figures = {FIGURES: rows} if (rows := _figures(answer)) else {}
    return {**main, **figures, **arrays, **found}


def written(answer: Answer, form: str, table: str | None = None, *, decimal: str = ".") -> bytes:
    """The file of an answer.

    form: `csv` and `parquet` hold one table, the main one unless `table` names another; `xlsx`
    (extra `excel`) holds all, a sheet for each, unless `table` names one. decimal: the decimal
    sign of CSV; with `,` columns are separated by semicolons. NotWritten says what there is.
    """
    if form not in FORMATS:
        raise NotWritten(f"a result is written as {', '.join(FORMATS)}, not as {form}")
    if decimal not in (".", ",") or (decimal == "," and form != "csv"):
        raise NotWritten("decimal is a point or, for csv only, a comma")
    found = tables(answer)
    if table is not None and table not in found:
        raise NotWritten(f"this result has no table {table!r}; it has {', '.join(found)}")
    if form == "xlsx":
        chosen = found if table is None else {table: found[table]}
        return _workbook({ABOUT: _about(answer), **chosen})
    if not found:
        raise NotWritten("this result has no table: its fields are Parquet files of their own")
    rows = found[table or next(iter(found))]
    if form == "parquet":
        return as_parquet(rows)
    return BYTE_ORDER_MARK + as_csv(rows, [], decimal)


def _about(answer: Answer) -> list[Row]:
    """What somebody who is given the file has to know of it."""
    job, price = answer.job, answer.price
    said = {
        "answer": job.get("headline"),
        "job": job["id"],
        "name": job.get("name"),
        "kind": job["kind"],
        "finished at": job.get("finished_at"),
        "epsilon charged": price.epsilon,
        "delta charged": price.delta,
        "mostly noise": answer.mostly_noise,
        "simulation": bool(job.get("simulation")),
        "fields in Parquet files of their own": ", ".join(answer.parquet) or None,
    }
    return [{"name": name, "value": one} for name, one in said.items() if one is not None]


def _figures(answer: Answer) -> list[Row]:
    """Single numbers and words with their intervals; members of objects by dotted names."""
    rows: list[Row] = []
    level = (answer.document["result"].get("uncertainty") or {}).get("level")
    for name, value in _single(answer.document["result"]):
        ends = answer.interval(name) if "." not in name and is_number(value) else None
        lower, upper = ends or (None, None)
        noise = answer.noise_dominates(name) is True
        rows.append(
            {
                "name": name,
                "value": float(value) if is_number(value) else None,
                "text": None if is_number(value) else str(value),
                "lower": lower,
                "upper": upper,
                "level": None if ends is None else level,
                "mostly_noise": noise,
            }
        )
    return rows


def _single(value: Mapping[str, Any], within: str = "") -> Iterable[tuple[str, Any]]:
    for name, one in value.items():
        if not within and name in LEFT_OUT:
            continue
        if isinstance(one, Mapping):
            yield from _single(one, f"{within}{name}.")
        elif isinstance(one, str | int | float):
            yield f"{within}{name}", one
        elif isinstance(one, list) and one and all(isinstance(each, str | int) for each in one):
            yield f"{within}{name}", ", ".join(map(str, one))


def _long(answer: Answer, axes: tuple[str, ...], names: list[str]) -> list[Row]:
    """A row for each position of arrays with the same axes, in their order."""
    first = answer[names[0]]
    columns: dict[str, Any] = {}
    for name in names:
        value = answer[name]
        if value.shape != first.shape:  # of another length, so of other positions
            continue
        columns[name] = value
        if (ends := answer.interval(name)) is not None:
            columns |= {f"{name}_lower": ends[0], f"{name}_upper": ends[1]}
        noise = np.asarray(answer.noise_dominates(name))
        if noise.any():
            by_number = noise.reshape(noise.shape + (1,) * (value.ndim - noise.ndim))
            columns[f"{name}_mostly_noise"] = np.broadcast_to(by_number, value.shape)
    called = [answer.labels(axis, size) for axis, size in zip(axes, first.shape, strict=True)]
    figures = [column.ravel().tolist() for column in columns.values()]
    return [
        {**dict(zip(axes, place, strict=True)), **dict(zip(columns, row, strict=True))}
        for place, row in zip(product(*called), zip(*figures, strict=True), strict=True)
    ]


def _flat(row: Mapping[str, Any]) -> list[Row]:
    """The rows of an object: one for each object of a list within it, numbered from 0. Lists of
    anything else are texts."""
    inner = next(
        (
            name
            for name, one in row.items()
            if isinstance(one, list) and one and all(isinstance(each, Mapping) for each in one)
        ),
        None,
    )
    plain = {name: _cell(one) for name, one in row.items() if name != inner}
    if inner is None:
        return [plain]
    return [
        {**plain, inner: place, **{name: _cell(one) for name, one in each.items()}}
        for place, each in enumerate(row[inner])
    ]


def _filled(rows: Iterable[Row]) -> list[Row]:
    """The rows with the columns of all, in the order in which these come; None where one has
    none."""
    listed = list(rows)
    columns = dict.fromkeys(column for row in listed for column in row)
    return [{column: row.get(column) for column in columns} for row in listed]


def _cell(value: Any) -> Any:
    if isinstance(value, list) and not any(isinstance(one, list | Mapping) for one in value):
        return " ".join(map(str, value))
    return json.dumps(value) if isinstance(value, list | Mapping) else value


def _workbook(found: Mapping[str, list[Row]]) -> bytes:
    """An Excel workbook with a sheet for each table. All texts are texts: none is a formula or a
    link."""
    try:
        import xlsxwriter  # type: ignore[import-untyped] # noqa: PLC0415 - optional
    except ImportError:
        raise MissingExtra("xlsxwriter", "excel", "an Excel workbook") from None
    out, titles = io.BytesIO(), set[str]()
    with xlsxwriter.Workbook(out, {"in_memory": True}) as book:
        bold = book.add_format({"bold": True})
        for name, rows in found.items():
            if len(rows) > MOST_ROWS:
                says = f"the table {name} has {len(rows):,} rows, a sheet at most {MOST_ROWS:,}"
                raise NotWritten(f"{says}: take csv or parquet, with this table")
            title = name.translate(NOT_IN_TITLES)[:LONGEST_TITLE]
            if title.lower() in titles:
                title = f"{title[: LONGEST_TITLE - 3]} {len(titles)}"
            titles.add(title.lower())
            sheet = book.add_worksheet(title)
            columns = list(rows[0])[:MOST_COLUMNS] if rows else []
            sheet.freeze_panes(1, 0)
            for place, column in enumerate(columns):
                sheet.write_string(0, place, column, bold)
            for line, row in enumerate(rows, 1):
                for place, column in enumerate(columns):
                    _write(sheet, line, place, row.get(column))
    return out.getvalue()


def _write(sheet: Any, line: int, place: int, value: Any) -> None:
    if value is None or (isinstance(value, float) and not np.isfinite(value)):
        return
    if isinstance(value, bool | np.bool_):
        sheet.write_boolean(line, place, bool(value))
    elif isinstance(value, int | float | np.number):
        sheet.write_number(line, place, float(value))
    else:
        sheet.write_string(line, place, str(value)[:MOST_LETTERS])
