"""Results of jobs: arrays by name, frames, the certificate and the price. `answers` has a subclass
for each kind."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from discreet_client.day_clock import block_names, step_names
from discreet_client.drawing import Fetch, plotted
from discreet_client.errors import MissingExtra
from discreet_client.intervals import MOSTLY_NOISE, figure, is_mostly_noise, is_number, stated

if TYPE_CHECKING:
    import pandas
    import pyarrow

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
    _network: Mapping[str, Any] = {}
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
                axes = zip(self._axes(name, value), value.shape, strict=True)
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
        """A field as a pandas DataFrame: a large field as its table, a list of objects with a row
        for each, an array of one or two dimensions with its rows and columns, and one of more
        dimensions with a row for each number, indexed by its positions. Where each row is of one
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
        frame = _with_ends(self._frame(name, intervals), self._network)
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
            names = self._network.get("node_names") or ()
        return names if len(names) >= count else range(1, count + 1)

    def _frame(self, name: str, intervals: bool) -> pandas.DataFrame:
        try:
            import pandas  # noqa: PLC0415 - optional
        except ImportError:
            raise MissingExtra("pandas", "pandas", "a frame") from None
        if name in self.parquet:
            return self.table(name).to_pandas()
        value = self[name]
        if intervals:
            return self._with_intervals(name, value)
        if isinstance(value, np.ndarray):
            if value.ndim == 2:
                rows, columns = self._axes(name, value)
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

    def _axes(self, name: str, value: NDArray[Any]) -> tuple[str, ...]:
        """The names of an array's axes in the contract."""
        known = type(self).AXES.get(name, ())
        return (
            known
            if len(known) == value.ndim
            else tuple(f"axis_{axis}" for axis in range(value.ndim))
        )

    def _positions(self, name: str, value: NDArray[Any]) -> pandas.Index:
        """An index with a row for each number of an array, in its order."""
        import pandas  # noqa: PLC0415 - `frame` has found it

        axes = self._axes(name, value)
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
