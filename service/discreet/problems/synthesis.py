"""How a kind generates synthetic data of a public shape, for rehearsals, from public figures
alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from discreet.errors import FieldIssue
from discreet.problems.contents import Content, Profile
from discreet.problems.datasets import Dataset

UNITS = 1000
"""Of made-up data where no public figure tells of any."""
MOST_ROWS = 300_000


@dataclass(frozen=True)
class Synthesis:
    """Two functions of the public part and of how many units there shall be; None: as many as a
    kind finds likely. The second also of what an earlier release says of such data; None: they are
    made of public figures alone."""

    rows: Callable[[Any, int | None], int]
    """About how many rows the data would have."""
    columns: Callable[[Any, np.random.Generator, int | None, Profile | None], dict[str, Any]]
    """The data, as the columns of an upload (`Dataset.read_table`)."""

    def issues(self, dataset: type[Dataset], public: Any, units: int | None) -> list[FieldIssue]:
        """Why no data of this shape can be generated; empty if they can."""
        known = dataset.most_units(public)
        exact = dataset.relation(public).get("neighbours") == "replaced"
        if units is not None and known is not None and (units > known or (exact and units < known)):
            says = f"by its public part this dataset has {'' if exact else 'at most '}{known:,}"
            return [
                FieldIssue("/units", f"{says}: to rehearse another number, give another `public`")
            ]
        rows = self.rows(public, known if units is None else units)
        if rows <= MOST_ROWS:
            return []
        says = (
            f"made-up data of this shape have about {rows:,} rows, and at most {MOST_ROWS:,} "
            "are rehearsed"
        )
        return [
            FieldIssue("/units", f"{says}: say fewer units, or rehearse a smaller public shape")
        ]

    def content(
        self,
        dataset: type[Dataset],
        public: Any,
        generator: np.random.Generator,
        units: int | None,
        around: Profile | None = None,
    ) -> Content:
        """The data in their canonical form, which are as registration would take them."""
        exact = dataset.relation(public).get("neighbours") == "replaced"
        if units is None and (around is None or exact):  # else as many as were released
            units = dataset.most_units(public)
        return dataset.read_table(public, pa.table(self.columns(public, generator, units, around)))
