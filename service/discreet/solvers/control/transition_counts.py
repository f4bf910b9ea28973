"""Transitions of state sequences, counted into integer vectors of bounded norm.

A sequence's transitions, divided by their number, are a point of the simplex. It is rounded toward
zero on a grid before it is summed with others, so that the sum is of integers and the contribution
of one sequence is known exactly.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def transition_sums(
    states: Ints, start: Ints, cell_of: Ints, cells: int, grid: int, max_norm: float = 1.0
) -> Ints:
    """Sum over sequences of `floor(grid · histogram)`: int64[cells].

    states: int64[total], all sequences one after another; start: int64[m + 1], where each begins.
    cell_of: int64[n, n], the cell of each transition, negative for transitions that are not
    counted. Sequence i adds integers >= 0 of l1 norm at most `grid` and l2 norm at most `max_norm ·
    grid`: above that its histogram is scaled down. Both hold for each sequence by itself, so adding
    one moves the sum by no more.
    """
    sums = np.zeros(cells, dtype=np.int64)
    # No point of the simplex is longer than 1.
    most = max_norm * (1 - 1e-12) if max_norm < 1 else math.inf
    _add(states, start, cell_of, grid, most, np.zeros(cells, dtype=np.int64), sums)
    return sums


@njit(cache=True, nogil=True)
def _add(
    states: Ints, start: Ints, cell_of: Ints, grid: int, max_norm: float, count: Ints, sums: Ints
) -> None:
    """`count` is a work array of zeros; it is zero again at the end."""
    for sequence in range(start.size - 1):
        first, last = start[sequence], start[sequence + 1] - 1
        total = last - first
        squares = 0
        for position in range(first, last):
            cell = cell_of[states[position], states[position + 1]]
            if cell >= 0:
                squares += 2 * count[cell] + 1  # (c + 1)^2 - c^2
                count[cell] += 1
        scaled = math.sqrt(squares) > max_norm * total
        factor = max_norm * grid / math.sqrt(squares) if scaled else 0.0
        for position in range(first, last):
            cell = cell_of[states[position], states[position + 1]]
            if cell >= 0 and count[cell] > 0:
                sums[cell] += (
                    np.int64(count[cell] * factor) if scaled else count[cell] * grid // total
                )
                count[cell] = 0
