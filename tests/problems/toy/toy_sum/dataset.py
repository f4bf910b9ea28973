"""A number of each person."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa
from pydantic import Field

from discreet.problems.contents import PRIVATE, Content, arrays, check_bounds, integer_columns
from discreet.problems.datasets import Dataset
from discreet.problems.numbers import Count, Frozen, Positive


class ToySumPublic(Frozen):
    """What is published of the numbers."""

    unit: Literal["person"]
    most: Positive = Field(description="Bound on a number")


class ToySumContent(Frozen):
    """The private content."""

    model_config = arrays({"axes": [None], "value": "number"})

    numbers: Annotated[list[Count], Field(fail_fast=True)]


class ToySumDataset(Dataset):
    """A number of each person."""

    kind: Literal["toy_sum"]
    public: ToySumPublic
    content: ToySumContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def read_rows(cls, public: ToySumPublic, content: ToySumContent) -> Content:
        numbers = np.array(content.numbers, dtype=np.int64)
        check_bounds({"numbers": numbers}, {"numbers": (0, public.most)}, "/content")
        return {"numbers": np.sort(numbers)}

    @classmethod
    def read_table(cls, public: ToySumPublic, table: pa.Table) -> Content:
        return {
            "numbers": np.sort(
                integer_columns(table, {"number": (0, public.most)}, "/content")["number"]
            )
        }

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        yield {"unit": "person", "most": 9}, {"number": [1, 2, 3]}
