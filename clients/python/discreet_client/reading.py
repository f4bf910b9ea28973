"""What readers of tables share: what they make, and how a rule that is one of a few words is read."""

from __future__ import annotations

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


def counted(count: int, what: str) -> str:
    """What of one and of many is written `visit`, `visits`."""
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def check_rules(rules: Mapping[str, Any], known: Sequence[str], of: str) -> None:
    """TableError for a rule that there is not."""
    if unknown := sorted(set(rules) - set(known)):
        raise TableError(f"reader: there is no rule {unknown[0]!r} for {of}; there are {', '.join(known)}")


def word(rules: Mapping[str, Any], name: str, words: Sequence[str]) -> str:
    """The first of the words by default."""
    said = rules.get(name, words[0])
    if said not in words:
        raise TableError(f"reader.{name} is {' or '.join(words)}, not {said!r}")
    return str(said)
