"""Results of jobs: arrays by name, frames, the certificate and the price. `answers` has a class for
each kind."""

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
"""Columns with numbers of nodes, which count from 1. All else that can have names counts from 0,
positions of arrays too."""
NAMED = ("origin", "destination", "user_class", "step", "block")
"""Axes whose names an answer finds by itself."""

MAX_CELLS = 1 << 28
"""A table is no array where the array would have more cells: 2 GB."""


@dataclass(frozen=True)
class Price:
    """What a job cost."""

    epsilon: float
    delta: float
    rho: float


class Answer:
    """The result of a job: `answer.link_flows` or `answer["link_flows"]`.

    Numbers come as NumPy arrays, of the type that the class of a kind has from the contract; in
    fields that it does not know int64 where all are whole. Everything else is as it is in the JSON.
    Fields of more than a million numbers travel as Parquet (extra `arrow`), which shows nowhere but
    in memory. Subclasses name the fields of a kind; a field that the service gained later is there
    all the same.
    """

    AXES: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """What the positions of each array are of: their names in frames."""
    _network: Mapping[str, Any] = {}
    """The road network that the job names, which is public; empty where there is none, and in
    answers that an older version pickled."""

    def __init__(self, document: Mapping[str, Any], tables: Mapping[str, bytes]) -> None:
        self.document = dict(document)
        """The JSON answer: job, result, certificate."""
        self.parquet = dict(tables)
        """Bytes of the Parquet files of the large fields."""
        self._cache: dict[str, Any] = {}
        self._charts: Fetch | None = None
        """Of the client that fetched this."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_charts": None}  # connections cannot be kept

    # What stands around the result

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
        """What was given away, signed: guarantee, events, assumptions."""
        certificate: dict[str, Any] = self.document["certificate"]
        return certificate

    @cached_property
    def price(self) -> Price:
        price = self.job["price"]
        return Price(price["epsilon"], price["delta"], price["rho"])

    # How good it is

    @property
    def mostly_noise(self) -> bool:
        """Whether the result as a whole is mostly noise: then its numbers tell little."""
        return is_mostly_noise(self.document["result"])

    def interval(self, name: str) -> tuple[Any, Any] | None:
        """How far the noise may have moved a field: (lower, upper), numbers or arrays of its shape
        with NaN where nothing can be said, which hold the field without noise with probability
        `level` of `answer.uncertainty`. None for a field of which the result says nothing.
        KeyError for one that there is not, with those that have intervals."""
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
        """A field as its class says: JSON does not tell 1.0 from 1."""
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
        """What a notebook shows: how good it is, every single number with its interval, the arrays,
        the price."""
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
        """A picture of this answer as a plotly Figure (extra `plot`), drawn by the service as on
        the job's page: of roads the map. `chart`: the name of another one of
        `client.charts(answer.id)`; KeyError names them.

        Of an answer of AsyncClient it is to be awaited: `await answer.plot()`. Asks the service
        each time.
        """
        return plotted(self._charts, self.id, chart)

    def table(self, name: str) -> pyarrow.Table:
        """A field that came as Parquet."""
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
        """A field as a pandas DataFrame: of a large field its table, of a list of objects one row
        each, of an array of one or two dimensions its rows and columns, of one with more one row a
        number with its positions. Rows that are of one link each have its `tail` and `head` before
        the number: the nodes of the network that the job names, by their names where it has any.
        Zones (`origin`, `destination`) have these names too, else their numbers, from 1; classes of
        users have theirs; steps of a day are times by the clock where the dataset's meters tell it,
        blocks of a day are from when to when.

        intervals: of an array that came in the JSON one row a number, with columns `lower`, `upper`
        (of its interval) and `only_noise` (whether it, or its row, is mostly noise) beside it.

        called: what the positions of an axis are called, in their order: `{"origin": names,
        "destination": names}`, for example. Of a table or a list of objects the columns of these
        names get them too. ValueError where there are fewer names than positions.

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
        """What so many zones, classes of users, or steps or blocks of a day are called."""
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
            if value.ndim == 1:
                return pandas.DataFrame({name: value}, index=self._positions(name, value))
            if value.ndim == 2:
                rows, columns = self._axes(name, value)
                return pandas.DataFrame(value).rename_axis(index=rows, columns=columns)
            return pandas.DataFrame({name: value.ravel()}, index=self._positions(name, value))
        if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
            return pandas.DataFrame.from_records(value)
        raise TypeError(f"{name!r} is no table: {type(value).__name__}")

    def _with_intervals(self, name: str, value: Any) -> pandas.DataFrame:
        import pandas  # noqa: PLC0415 - `frame` has found it

        if not isinstance(value, np.ndarray) or value.ndim == 0:
            raise TypeError(f"{name!r} is no array: take answer.interval({name!r})")
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
        """What the positions of an array are of, in the contract's words."""
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
    """The frame with columns `tail` and `head`, names of nodes or else their numbers, where each
    row is of one link of this network, by its index or, of a large field, by a column, which count
    from 0."""
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
    """How many positions of an axis a frame has numbers for; 0 where it has none. A column of
    numbers counts from `first`, an index or the columns from 0."""
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
    column of numbers that counts from `first`. Nothing changes where the frame has no such axis, or
    has names there already."""
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
    else as it is."""
    if not isinstance(value, list) or not _numeric(value):
        return value
    try:
        return np.array(value)
    except ValueError:  # ragged
        return [_array(row) for row in value]


def _numeric(value: Any) -> bool:
    if isinstance(value, list):
        return all(_numeric(item) for item in value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _array_of_table(name: str, table: pyarrow.Table) -> NDArray[Any]:
    """The array of a table that has its positions in all columns but the last; what has no row is
    0."""
    import pyarrow  # noqa: PLC0415 - it has read the table

    *axes, _ = table.column_names
    if not axes or not all(
        pyarrow.types.is_integer(table.schema.field(axis).type) for axis in axes
    ):
        raise TypeError(
            f"{name!r} is no array; take answer.table({name!r}) or answer.frame({name!r})"
        )
    *positions, numbers = (column.to_numpy() for column in table.columns)
    if not (
        pyarrow.types.is_floating(table.schema.types[-1])
        or pyarrow.types.is_integer(table.schema.types[-1])
    ):
        raise TypeError(
            f"{name!r} is no array; take answer.table({name!r}) or answer.frame({name!r})"
        )
    shape = tuple(int(axis.max()) + 1 for axis in positions)
    if math.prod(shape) > MAX_CELLS:
        raise TypeError(f"{name!r} has {math.prod(shape)} cells; take answer.table({name!r})")
    array = np.zeros(shape, dtype=numbers.dtype)
    array[tuple(positions)] = numbers
    return array
