"""Blocks of hours, each with a transition matrix of its own: loads that are left alone then follow
the day.

A participant's histogram is spread over the transitions of all blocks and still sums to 1, so what
one participant moves, the noise and the price are those of a single matrix; each block has that
noise for the part of the moves that fall into it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.problems.numbers import Count, Frozen

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MOST_BLOCKS = 96


class Day(Frozen):
    """When blocks begin, chosen without looking at the data. The first state of every trajectory is
    of step 0."""

    steps: Annotated[int, Field(strict=True, ge=2, le=10**6)] = Field(
        description="Steps after which the blocks begin again: those of a day, or of a week"
    )
    blocks: Annotated[tuple[Count, ...], InPieces(min_length=2, max_length=MOST_BLOCKS)] = Field(
        description="The step of the day at which each block begins, the first at 0: of 48 steps "
        "[0, "
        "12, 34] are night, day and evening. A transition belongs to the block of the step that "
        "it leaves"
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.blocks[0] != 0:
            raise FieldError("blocks/0", "the first block begins at 0")
        if any(before >= after for before, after in pairwise(self.blocks)):
            raise FieldError("blocks", "must increase")
        if self.blocks[-1] >= self.steps:
            raise FieldError("blocks", f"a day has the steps 0 to {self.steps - 1}")
        return self

    def check(
        self, states: int, most: int, steps: int | None, *, of_matrix: bool, of_meters: bool
    ) -> None:
        """FieldError where a day does not go with the rest of a public part."""
        if of_matrix:
            raise FieldError("day", "is of trajectories; row_change is of a transition matrix")
        if of_meters and steps is None:
            says = (
                "needed with day and meters: without it a trajectory begins at the "
                "participant's first reading"
            )
            raise FieldError("steps", says)
        if len(self.blocks) * states > most:
            raise FieldError(
                "day/blocks",
                f"{len(self.blocks)} blocks of {states} states: at most {most} together",
            )

    def shares(self, steps: int | None) -> Floats:
        """float64[blocks]: the part of the moves that falls into each block, of records of so many
        steps, else of whole days."""
        moves = self.steps if steps is None else steps - 1
        days, left = divmod(moves, self.steps)
        begin = np.array(self.blocks)
        length = np.diff(begin, append=self.steps)
        found: Floats = (days * length + np.clip(left - begin, 0, length)) / moves
        return found

    def block_of(self, step: Ints) -> Ints:
        """int64: the block that each step is in, counted from step 0 of the first day."""
        found: Ints = np.searchsorted(np.array(self.blocks), step % self.steps, side="right") - 1
        return found
