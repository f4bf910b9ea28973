"""Stored contents under other figures: what `Dataset.FIGURES` names changes no array."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from discreet.errors import InvalidInput
from discreet.problems import DATASETS
from discreet.problems.contents import canonical_bytes

READ = [
    (kind, public, columns)
    for kind, model in DATASETS.items()
    for public, columns in model.sample_tables()
]
CHANGES: dict[str, list[dict[str, Any]]] = {
    "routing": [{"max_total": 10**6, "max_pair": 10**6}, {"max_rows": 100}],
    "dr_ensemble": [{"max_rows": 100}, {"min_probability": 0.01}],
    "off_policy_evaluation": [
        {"max_ratio": 100, "least_reward": -1},
        {"reward_bound": 7},
        {"trajectories": 2},
        {"target_policy": "treat"},
    ],
}
WRONG: dict[str, list[dict[str, Any]]] = {
    "routing": [{"max_total": 1}, {"max_pair": 1}],
    "off_policy_evaluation": [{"reward_bound": 0.5}, {"trajectories": 5}],
}


@pytest.mark.parametrize("kind", CHANGES)
def test_other_figures_read_the_same_arrays(kind: str) -> None:
    """So the stored ones may stay: a table that is read by the new public part is the same content,
    byte for byte, and one that would be refused is refused."""
    model = DATASETS[kind]
    tried = 0
    for name, public, columns in READ:
        if name != kind or public["unit"] == "row":
            continue
        try:
            content = model.read_table(model.read_public(public), pa.table(columns))
        except InvalidInput:
            continue  # a table that is wrong on purpose
        for change in CHANGES[kind]:
            assert set(change) <= model.FIGURES
            other = model.read_public({**public, **change})
            model.check_again(other, content)
            again = model.read_table(other, pa.table(columns))
            assert list(canonical_bytes(again)) == list(canonical_bytes(content))
            tried += 1
        for change in WRONG.get(kind, ()):
            other = model.read_public({**public, **change})
            with pytest.raises(InvalidInput):
                model.read_table(other, pa.table(columns))
            with pytest.raises(InvalidInput):
                model.check_again(other, content)
    assert tried


def test_figures_are_public_fields() -> None:
    for model in DATASETS.values():
        fields = model.model_fields["public"].annotation.model_fields  # type: ignore[union-attr]
        assert set(fields) >= model.FIGURES
        assert set(model.LATER) <= model.FIGURES
