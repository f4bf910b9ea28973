"""Tables in which the rows of each unit follow each other, as most have them: their parts are cut
as they come, and no row is put aside."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.isolation.runs import Content

Hashes = NDArray[np.uint64]

MOST_UNITS = 1 << 23
"""Whose hashes are in memory, at 8 bytes each."""


class NotGrouped(Exception):
    """A unit has rows in several places, or there are too many units to know."""


class Grouped:
    """Finds the units of rows, and notices one that was there before: by a hash with a seed that
    nobody knows. Two units with one hash are taken for one that was there before, never for one."""

    def __init__(self, units: Any) -> None:
        self._units = units
        self._seed = np.uint64(secrets.randbits(64))
        self._seen: Hashes = np.zeros(0, dtype=np.uint64)
        """In order: of all units with rows, but for the last one, which may have more."""

    def contents(self, groups: Iterable[tuple[Sequence[Any], int]]) -> Iterator[Content]:
        """The content of some units after the other (`unit_rows.Checked` of their rows, and the
        number of the first); of none from the first fault on. NotGrouped."""
        rest, place = list[Any](), 0
        """Rows of a unit that may have more, and the number of the first of them."""
        waiting = list[Any]()
        for group, _ in chain(groups, [((), 0)]):
            waiting += group
            # As many as there are of a unit that has more: each of its rows is copied a few times,
            # however many groups these fill.
            known = _rows_of(rest)
            if not waiting or (group and _rows_of(waiting) < known):
                continue
            rows = self._units.merge_batches([*rest, *waiting], known)
            waiting = []
            end = self._end(rows.owners)
            rest = [rows.taken(end, rows.num_rows).alone()]
            if end:
                yield from self._content(rows.taken(0, end), place)
            place += end
            del rows, group
        for rows in rest:
            self._add(rows.owners.name_hashes(self._seed)[:1])
            yield from self._content(rows, place)

    def are_apart(self, checked: Iterable[Any]) -> bool:
        """Whether no unit has rows in several places of these, as their names are written."""
        hashes = [one.owners.name_hashes(self._seed) for one in checked]
        heads = np.sort(_heads(np.concatenate(hashes)))
        return not (heads[1:] == heads[:-1]).any()

    def _end(self, owners: Any) -> int:
        """Where the rows of the last unit begin; those before are of units that are complete."""
        hashes = owners.name_hashes(self._seed)
        changes = np.flatnonzero(hashes[1:] != hashes[:-1])
        if not changes.size:
            return 0
        last = int(changes[-1]) + 1
        self._add(_heads(hashes[:last]))
        return int(np.searchsorted(owners.number, last))

    def _add(self, heads: Hashes) -> None:
        """Units that are complete, each once. NotGrouped."""
        self._seen = np.sort(np.concatenate([self._seen, heads]), kind="stable")
        if (self._seen[1:] == self._seen[:-1]).any() or self._seen.size > MOST_UNITS:
            raise NotGrouped

    def _content(self, rows: Any, first: int) -> Iterator[Content]:
        columns, owners = rows
        row = np.arange(first, first + len(owners))
        part = self._units.part(columns, owners.numbers(), row)
        if not self._units.issues:
            yield part


def _rows_of(checked: Sequence[Any]) -> int:
    return sum(one.num_rows for one in checked)


def _heads(hashes: Hashes) -> Hashes:
    """Each once of those that follow each other."""
    new = np.ones(hashes.size, dtype=np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=new[1:])
    found: Hashes = hashes[new]
    return found
