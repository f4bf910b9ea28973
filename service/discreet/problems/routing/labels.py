"""The names of classes of users in private content, converted to their numbers in the public
order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from discreet.errors import InvalidInput
from discreet.problems.contents import Issues
from discreet.problems.routing.public import RoutingPublic

UNKNOWN = -1
Ints = NDArray[np.int64]


def numbers_of(public: RoutingPublic, labels: Sequence[Any], issues: Issues) -> Ints:
    """The number of the class that each row names, from 0; none for a dataset without classes. An
    unknown name, or a class where there are none, becomes one of the issues."""
    if public.user_classes is None:
        there = np.array([label is not None for label in labels], dtype=bool)
        says = "public.user_classes is not there, so a trip has no `user_class`"
        issues.where(there, "user_class", says, labels)
        return np.zeros(0, dtype=np.int64)
    number = {name: place for place, name in enumerate(public.user_classes)}
    classes = np.array([number.get(label, UNKNOWN) for label in labels], dtype=np.int64)
    issues.where(classes == UNKNOWN, "user_class", _needed(public.user_classes), labels)
    return classes


def class_column(public: RoutingPublic, table: pa.Table, prefix: str, first: int = 0) -> Ints:
    """The same for a column of an uploaded table: of text, or of numbers if classes have such
    names. InvalidInput with the row of an unknown name."""
    column, names = table.column("user_class"), public.user_classes or ()
    if not column.length():
        return np.zeros(0, dtype=np.int64)
    if pa.types.is_null(column.type):
        raise InvalidInput("column 'user_class' is empty", pointer=prefix)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer)
    if not any(of_kind(column.type) for of_kind in kinds):
        says = f"column 'user_class' holds {column.type}; {_needed(names)}"
        raise InvalidInput(says, pointer=prefix)
    encoded = column.dictionary_encode().combine_chunks()
    encoded = encoded if isinstance(encoded, pa.DictionaryArray) else encoded.chunk(0)
    number = {name: place for place, name in enumerate(names)}
    known = [number.get(str(one), UNKNOWN) for one in encoded.dictionary.to_pylist()]
    indices = encoded.indices.fill_null(len(known)).to_numpy(zero_copy_only=False)
    classes: Ints = np.array([*known, UNKNOWN], dtype=np.int64)[indices]
    issues = Issues(prefix, first)
    issues.where(classes == UNKNOWN, "user_class", _needed(names), column)
    issues.check()
    return classes


def _needed(names: Sequence[str]) -> str:
    return f"one of public.user_classes is needed, {' or '.join(names)}"
