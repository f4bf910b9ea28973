"""Names, for people, of the quantities and methods that a rehearsal tried."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.results import in_words


def quantity(problem: Mapping[str, Any], name: str) -> str:
    """A field of the results of the kind in words: `expected cost by first state`."""
    from discreet.problems import KINDS  # noqa: PLC0415 - that is made of the kinds, and this of one of them

    kind = KINDS.get((problem.get("problem") or {}).get("kind", ""))
    said = in_words(name, None if kind is None else kind.Fields)
    return said[:1].lower() + said[1:] if said[1:2].islower() else said  # inside a sentence


def method(name: str) -> str:
    """A method, as its choice on a form is called: `dp lsw`."""
    return name.replace("_", " ")
