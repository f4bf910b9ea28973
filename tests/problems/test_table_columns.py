"""What a kind says beforehand of the columns of its tables."""

from __future__ import annotations

import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.problems import DATASETS


def is_good(kind: str, public: dict, table: dict[str, list]) -> bool:
    """Some samples are there to be refused; and vectors as lists are not what a file of text
    has."""
    dataset = DATASETS[kind]
    try:
        dataset.read_table(dataset.read_public(public), pa.table(table))
    except InvalidInput:
        return False
    return not any(isinstance(values[0], list) for values in table.values())


SAMPLES = [
    (kind, *sample)
    for kind, known in sorted(DATASETS.items())
    for sample in known.sample_tables()
    if is_good(kind, *sample)
]


@pytest.mark.parametrize(("kind", "public", "table"), SAMPLES)
def test_every_column_that_is_read_can_be_named(
    kind: str, public: dict, table: dict[str, list]
) -> None:
    """On a page somebody says which column of a file it is."""
    dataset = DATASETS[kind]
    assert {one for one, _, _ in SAMPLES} == set(DATASETS)
    known = {column.name for column in dataset.columns(dataset.read_public(public))}
    assert set(table) <= known
