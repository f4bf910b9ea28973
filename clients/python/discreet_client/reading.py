"""What readers of tables share: what they make, and how a rule that is one of a few words is
read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from discreet_client.tables import TableError


class Reading(NamedTuple):
    """What a reader makes of a table."""

    public: dict[str, Any]
    """The dataset's public part, without the rules that the reader alone needs."""
    columns: dict[str, NDArray[Any]]
    """Content for `register` and `upload`."""
    notes: list[str]
    """What was left out or changed, in sentences for whoever holds the data."""


def counted(count: int, what: str, total: int | None = None) -> str:
    """What of one and of many is written `visit`, `visits`; of a total, `1 of 40 visits`."""
    number = f"{count:,}" if total is None else f"{count:,} of {total:,}"
    return f"{number} {what}" if (count if total is None else total) == 1 else f"{number} {what}s"


def check_rules(rules: Mapping[str, Any], known: Sequence[str], of: str) -> None:
    """TableError for a rule that there is not."""
    if unknown := sorted(set(rules) - set(known)):
        raise TableError(
            f"reader: there is no rule {unknown[0]!r} for {of}; there are {', '.join(known)}"
        )


def count(public: Mapping[str, Any], name: str) -> int | None:
    """A public number of things; None where none is said."""
    said = public.get(name)
    if said is not None and (
        isinstance(said, bool) or not isinstance(said, int) or not 0 < said < 2**53
    ):
        raise TableError(f"public.{name} is an integer above 0, not {str(said)[:40]}")
    return said


def bound(public: Mapping[str, Any], name: str) -> float:
    """A public finite figure above 0; infinite where none is said."""
    said = public.get(name)
    if said is None:
        return math.inf
    if not is_figure(said) or not said > 0:
        raise TableError(f"public.{name} is a number above 0, not {str(said)[:40]}")
    return float(said)


def ranges_of(public: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What coordinates are made of; empty where nothing is said of it."""
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
    """Whether this is a number, and a finite one."""
    try:
        return isinstance(said, int | float) and not isinstance(said, bool) and math.isfinite(said)
    except OverflowError:
        return False


def word(rules: Mapping[str, Any], name: str, words: Sequence[str]) -> str:
    """The first of the words by default."""
    said = rules.get(name, words[0])
    if said not in words:
        raise TableError(f"reader.{name} is {' or '.join(words)}, not {said!r}")
    return str(said)
