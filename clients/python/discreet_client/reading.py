"""Shared by the readers of tables: their result, the joining of columns, and checks of their rules
and of public figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from discreet_client.cells import Texts, distinct
from discreet_client.tables import Ints, Table, TableError, missing


class Reading(NamedTuple):
    """The result of reading a table."""

    public: dict[str, Any]
    """The dataset's public part, without the rules that the reader alone needs."""
    columns: dict[str, NDArray[Any]]
    """The content for `register` and `upload`."""
    notes: list[str]
    """Sentences for the data holder about what was left out or changed."""
    places: Ints | None = None
    """Of each row of the content where it stands in the table; of a transition, where its visit
    does."""
    left_out: tuple[tuple[str, int], ...] = ()
    """What of the table is not in the content: why, and how much."""


class Notes(list[str]):
    """The notes of a reading, and the figures among them."""

    def __init__(self) -> None:
        super().__init__()
        self.left_out: list[tuple[str, int]] = []

    def leave_out(self, says: str, why: str, count: int) -> None:
        self.append(says)
        self.left_out.append((why, count))


def joined(table: Table, names: Mapping[str, str]) -> Table:
    """The table with a column for each name such as `Date+Time` that it does not have: the texts of
    both columns with a space between, missing where either is. The parts are removed."""
    columns = dict(table.columns)
    for name in names.values():
        parts = [part.strip() for part in name.split("+")]
        if name in columns or len(parts) < 2 or not all(part in table.columns for part in parts):
            continue
        texts_of = [table.columns[part] for part in parts]
        if len(parts) == 2 and all(isinstance(one, Texts) for one in texts_of):
            columns[name] = texts_of[0].joined(texts_of[1])
        if columns.get(name) is not None:
            _drop(columns, parts, names)
            continue
        once: list[str | None] = []
        of = np.zeros(table.rows, dtype=np.int64)
        for part in parts:  # numbers of pairs, of which each is looked at once
            own, place = distinct(table.columns[part])
            pairs, of = np.unique(of * own.size + place, return_inverse=True)
            lacks = missing(own).tolist()
            texts = [
                None if lack else _part(one) for one, lack in zip(own.tolist(), lacks, strict=True)
            ]
            before = [once[one] for one in (pairs // own.size).tolist()] if once else None
            after = [texts[one] for one in (pairs % own.size).tolist()]
            once = after if before is None else list(map(_both, before, after))
            of = of.ravel()
        columns[name] = Texts(None, (np.array(once, dtype=object), of))
        _drop(columns, parts, names)
    return replace(table, columns=columns)


def _drop(columns: dict[str, Any], parts: Sequence[str], names: Mapping[str, str]) -> None:
    for part in set(parts) - set(names.values()):
        columns.pop(part, None)


def _part(value: Any) -> str:
    """A half of a time: of a day in Excel its 0:00 is none."""
    whole = isinstance(value, datetime) and value.time() == time() and value.tzinfo is None
    return str(value.date() if whole else value).strip()


def _both(one: str | None, other: str | None) -> str | None:
    return None if one is None or other is None else f"{one} {other}"


def counted(count: int, what: str, total: int | None = None) -> str:
    """`1 visit`, `2 visits`, or with a total `1 of 40 visits`, for `what` `visit`."""
    number = f"{count:,}" if total is None else f"{count:,} of {total:,}"
    return f"{number} {what}" if (count if total is None else total) == 1 else f"{number} {what}s"


def check_rules(rules: Mapping[str, Any], known: Sequence[str], of: str) -> None:
    """TableError for an unknown rule."""
    if unknown := sorted(set(rules) - set(known)):
        raise TableError(
            f"reader: there is no rule {unknown[0]!r} for {of}; there are {', '.join(known)}"
        )


def count(public: Mapping[str, Any], name: str) -> int | None:
    """A public number of things; None if it is not given."""
    said = public.get(name)
    if said is not None and (
        isinstance(said, bool) or not isinstance(said, int) or not 0 < said < 2**53
    ):
        raise TableError(f"public.{name} is an integer above 0, not {str(said)[:40]}")
    return said


def bound(public: Mapping[str, Any], name: str) -> float:
    """A public finite figure above 0; infinite if it is not given."""
    said = public.get(name)
    if said is None:
        return math.inf
    if not is_figure(said) or not said > 0:
        raise TableError(f"public.{name} is a number above 0, not {str(said)[:40]}")
    return float(said)


def ranges_of(public: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The public ranges of the coordinates; empty if none are given."""
    ranges = public.get("ranges") or []
    known = isinstance(ranges, list | tuple) and all(
        isinstance(told, Mapping) and "name" in told for told in ranges
    )
    if not known or not all(is_figure(told.get(end)) for told in ranges for end in ("low", "high")):
        raise TableError(
            "public.ranges: [{name, low, high}] is needed, low and high finite numbers"
        )
    return list(ranges)


def is_figure(said: Any) -> bool:
    """Whether this is a finite number."""
    try:
        return isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said)
    except OverflowError:
        return False


def word(rules: Mapping[str, Any], name: str, words: Sequence[str]) -> str:
    """The value of a rule that must be one of `words`, by default the first."""
    said = rules.get(name, words[0])
    if said not in words:
        raise TableError(f"reader.{name} is {' or '.join(words)}, not {said!r}")
    return str(said)
