"""What a kind says beforehand of the columns of its tables is what reads them."""

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
def test_a_table_of_the_columns_that_are_said_is_read(
    kind: str, public: dict, table: dict[str, list]
) -> None:
    """With them alone, and not without any one of those that are needed; their values keep the
    bounds that are said."""
    dataset = DATASETS[kind]
    read = dataset.read_public(public)
    columns = dataset.columns(read)
    assert columns
    assert {one for one, _, _ in SAMPLES} == set(DATASETS)
    said = {column.name: table[column.name] for column in columns if column.name in table}
    dataset.read_table(read, pa.table(said))
    for column in columns:
        assert column.low is None or min(said.get(column.name, [column.low])) >= column.low
        assert column.high is None or max(said.get(column.name, [column.high])) <= column.high
        if column.needed:
            with pytest.raises(InvalidInput):
                dataset.read_table(
                    read, pa.table({name: said[name] for name in said if name != column.name})
                )
