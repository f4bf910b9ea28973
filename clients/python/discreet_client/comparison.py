"""Two answers of one kind, such as those of two months: what changed, with intervals where there
are honest ones.

The interval of a difference is made of both answers' own ("square and add": G. Y. Zou and A.
Donner, Construction of confidence limits about effect measures, Statistics in Medicine 27, 2008):
from `d - hypot(now - now_lower, before_upper - before)` to `d + hypot(now_upper - now, before -
before_lower)`. That holds for independent estimates. So there is none where both answers were made
of one release, whose noise moves both together, and none of intervals that cover who is in the
data where both are of the same data. The same people in two datasets, whose habits last, make the
interval wider than it need be.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from discreet_client.flows import NotWritten, as_csv, rows_of_links
from discreet_client.intervals import is_number

if TYPE_CHECKING:
    from discreet_client.results import Answer

ONE_RELEASE = (
    "Both answers were made of one release, whose noise moves both together: the differences have "
    "no intervals of their own"
)
ONE_DATASET = (
    "Both answers are of the same data: differences of figures whose intervals cover who is in the "
    "data have no intervals of their own"
)
OTHER_KIND = "answers of two kinds have nothing that could be compared"
KINDS = ("noise", "confidence")
"""Kinds of intervals (`uncertainty.kinds`) of which a difference may have one."""


@dataclass(frozen=True)
class Difference:
    """A figure of both answers. None where one has none."""

    name: str
    before: float | None
    now: float | None
    lower: float | None = None
    """The ends of the interval of `change`; None where there is no honest one."""
    upper: float | None = None

    @property
    def change(self) -> float | None:
        return None if self.before is None or self.now is None else self.now - self.before


@dataclass(frozen=True)
class Comparison:
    """What changed from one answer to another."""

    figures: list[Difference]
    links: list[Difference] = field(default_factory=list)
    """Of routing: the flow of each link, by its name and the nodes at its ends, so that links of
    two versions of a network meet; largest change first, links of one network alone last."""
    level: float | None = None
    """Of the intervals."""
    kind: str = ""
    """Of the intervals, of `KINDS`; empty where there are none, or of several kinds."""
    notes: list[str] = field(default_factory=list)
    """Why intervals are missing."""

    def as_json(self) -> dict[str, Any]:
        """All of it, as JSON."""
        return {**asdict(self), **{name: self._rows(name) for name in ("figures", "links")}}

    def as_csv(self) -> bytes:
        """A row for each figure and link."""
        rows = [
            {"of": of, **row}
            for of, name in (("result", "figures"), ("link", "links"))
            for row in self._rows(name)
        ]
        return as_csv(rows, ["of", "name", "before", "now", "change", "lower", "upper"])

    def _rows(self, name: str) -> list[dict[str, Any]]:
        rows: list[Difference] = getattr(self, name)
        return [
            {
                "name": row.name,
                "before": row.before,
                "now": row.now,
                "change": row.change,
                "lower": row.lower,
                "upper": row.upper,
            }
            for row in rows
        ]


def compare(before: Answer, now: Answer) -> Comparison:
    """What changed. ValueError for answers of two kinds."""
    if before.kind != now.kind:
        raise ValueError(OTHER_KIND)
    pair = _Pair(before, now)
    figures = [
        pair.of(name, name)
        for name in dict.fromkeys([*before.fields, *now.fields])
        if name not in before.parquet
        and name not in now.parquet
        and any(is_number(one.document["result"].get(name)) for one in (before, now))
    ]
    figures.sort(key=lambda one: one.lower is None)  # what is known of the answer comes first
    links = pair.links()
    kinds = set(pair.kinds.values())
    return Comparison(
        figures,
        links,
        pair.level if pair.kinds else None,
        kinds.pop() if len(kinds) == 1 else "",
        list(pair.notes),
    )


class _Pair:
    """Two answers, and which of their differences have intervals."""

    def __init__(self, before: Answer, now: Answer) -> None:
        self.both = before, now
        self.notes: dict[str, None] = {}
        self.kinds: dict[str, str] = {}
        """Of the fields whose differences have intervals."""
        levels = [(_said(one).get("level")) for one in self.both]
        self.level = levels[0] if levels[0] == levels[1] else None
        releases = [set(one.job.get("release") or [one.id]) for one in self.both]
        self.is_one_release = bool(releases[0] & releases[1])
        data = [one.job.get("dataset") for one in self.both]
        self.is_one_dataset = data[0] is None or data[0] == data[1]

    def _may(self, name: str) -> bool:
        """Whether the difference of a field has an interval."""
        values = [(_said(one).get("values") or {}).get(name) for one in self.both]
        kinds = [str((_said(one).get("kinds") or {}).get(name)) for one in self.both]
        if None in values or self.level is None or kinds[0] != kinds[1] or kinds[0] not in KINDS:
            return False
        if self.is_one_release:
            self.notes[ONE_RELEASE] = None
            return False
        if self.is_one_dataset and kinds[0] == "confidence":
            self.notes[ONE_DATASET] = None
            return False
        self.kinds[name] = kinds[0]
        return True

    def of(self, field: str, called: str) -> Difference:
        figures = [one.document["result"].get(field) for one in self.both]
        before, now = (float(one) if is_number(one) else None for one in figures)
        ends: tuple[float | None, float | None] = None, None
        if before is not None and now is not None and self._may(field):
            intervals = [one.interval(field) or (None, None) for one in self.both]
            ends = _ends((before, *intervals[0]), (now, *intervals[1]))
        return Difference(called, before, now, *ends)

    def links(self) -> list[Difference]:
        """The flows of both networks' links."""
        try:
            tables = [rows_of_links(one.document["result"], one.network) for one in self.both]
        except (NotWritten, KeyError):
            return []
        rows = [_by_name(table) for table in tables]
        may = self._may("link_flows")
        found = []
        for name in dict.fromkeys([*rows[0], *rows[1]]):
            two = [one.get(name) for one in rows]
            figures = [
                (one["flow"], one.get("flow_lower"), one.get("flow_upper"))
                if one is not None
                else None
                for one in two
            ]
            before, now = figures
            ends = (None, None) if None in figures or not may else _ends(before, now)
            was, is_now = (None if one is None else float(one[0]) for one in figures)
            found.append(Difference(name, was, is_now, *ends))
        return sorted(found, key=lambda one: math.inf if one.change is None else -abs(one.change))


def _said(answer: Answer) -> Mapping[str, Any]:
    return answer.document["result"].get("uncertainty") or {}


def _ends(before: Any, now: Any) -> tuple[float | None, float | None]:
    """The interval of `now - before`, each with its ends."""
    if None in (*before, *now) or any(map(math.isnan, (*before, *now))):
        return None, None
    change = now[0] - before[0]
    below = math.hypot(max(0.0, now[0] - now[1]), max(0.0, before[2] - before[0]))
    above = math.hypot(max(0.0, now[2] - now[0]), max(0.0, before[0] - before[1]))
    return change - below, change + above


def _by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rows of links by name; those of one name are told apart by the nodes at their ends, and where
    these are the same by their order."""
    found: dict[str, dict[str, Any]] = {}
    names = [str(row["link"]) for row in rows]
    several = {name for name, count in Counter(names).items() if count > 1}
    for name, row in zip(names, rows, strict=True):
        ends = f"{row['from_node']} → {row['to_node']}"
        own = f"{name} ({ends})" if name in several and ends not in name else name
        key, number = own, 1
        while key in found:
            number += 1
            key = f"{own} #{number}"
        found[key] = row
    return found
