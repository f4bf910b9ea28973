"""The fields of a toy result."""

from __future__ import annotations

from typing import Annotated, Required

from discreet.problems.results import NoisedFields, shown


class ToySumResult(NoisedFields, total=False):
    """The sum alone."""

    total: Required[Annotated[int, shown("The sum with its noise", title="Sum of all numbers")]]
