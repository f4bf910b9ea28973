"""Kernels of policies: rows of transition probabilities and of their logarithms."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LEAST_SUM = 1e-290
"""Sums of terms up to 1 that are at least this large lose nothing to underflow; others are
recomputed in logarithms."""
LARGEST_LOG_RATIO = 600.0
"""Ratios p/P are limited to exp of this: their squares would overflow."""


@njit(cache=True, nogil=True)
def log_sum_exp(
    row_start: Ints, to: Ints, log_weight: Floats, log_z: Floats, rows: Ints, sums: Floats
) -> None:
    """`sums[b] = ln sum_a W[b, a] z[a]` for the b in `rows`; no term overflows, and the largest
    does not underflow."""
    for row in rows:
        largest = -np.inf
        for cell in range(row_start[row], row_start[row + 1]):
            largest = max(largest, log_weight[cell] + log_z[to[cell]])
        total = 0.0
        for cell in range(row_start[row], row_start[row + 1]):
            total += np.exp(log_weight[cell] + log_z[to[cell]] - largest)
        sums[row] = largest + np.log(total)


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def weighted_sums(row_start: Ints, to: Ints, weight: Floats, z: Floats, sums: Floats) -> None:
    """`sums[b] = sum_a W[b, a] z[a]`; terms are added in the order that is fastest."""
    full = to.size == z.size * z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        w, ahead = weight[begin:end], to[begin:end]
        total = 0.0
        if full:
            for a in range(z.size):
                total += w[a] * z[a]
        else:
            for cell in range(w.size):
                total += w[cell] * z[ahead[cell]]
        sums[row] = total


@njit(cache=True, nogil=True)
def policy_cells(
    row_start: Ints,
    to: Ints,
    weight: Floats,
    z: Floats,
    sums: Floats,
    log_weight: Floats,
    log_z: Floats,
    cells: Floats,
) -> None:
    """`cells = W z / sums`, row by row; in logarithms where the sum of the products would have
    underflowed."""
    full = to.size == z.size * z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        w, ahead, here = weight[begin:end], to[begin:end], cells[begin:end]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_weight[begin:end], log_z, here)
            for cell in range(here.size):
                here[cell] = np.exp(here[cell])
            continue
        factor = 1.0 / sums[row]
        if full:
            for a in range(z.size):
                here[a] = w[a] * z[a] * factor
        else:
            for cell in range(here.size):
                here[cell] = w[cell] * z[ahead[cell]] * factor


@njit(cache=True, nogil=True)
def log_policy_cells(
    row_start: Ints,
    to: Ints,
    log_weight: Floats,
    log_z: Floats,
    largest: Floats,
    sums: Floats,
    log_cells: Floats,
) -> None:
    """`log_cells = ln(W z / sum_a W z)`, row by row; `sums` are of rows of W that were divided by
    exp(largest)."""
    full = to.size == log_z.size * log_z.size
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        log_w, ahead, here = log_weight[begin:end], to[begin:end], log_cells[begin:end]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_w, log_z, here)
            continue
        log_sum = largest[row] + np.log(sums[row])
        if full:
            for a in range(log_z.size):
                here[a] = log_w[a] + log_z[a] - log_sum
        else:
            for cell in range(here.size):
                here[cell] = log_w[cell] + log_z[ahead[cell]] - log_sum


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def average_cells(
    row_start: Ints,
    to: Ints,
    z: Floats,
    sums: Floats,
    log_weight: Floats,
    log_z: Floats,
    largest: Floats,
    concentration: float,
    cells: Floats,
) -> None:
    """From p = W z / sums in `cells` to `p (1 + (mean r - r)/(k + 1))`, r = p/W, nothing below 0,
    rows of sum 1."""
    full = to.size == z.size * z.size
    ratio, more = np.empty(z.size), 1.0 / (concentration + 1.0)
    for row in range(sums.size):
        begin, end = row_start[row], row_start[row + 1]
        log_w, ahead, here = log_weight[begin:end], to[begin:end], cells[begin:end]
        r = ratio[: here.size]
        if not sums[row] >= LEAST_SUM:
            _log_row(ahead, log_w, log_z, r)
            for cell in range(r.size):
                r[cell] = np.exp(min(r[cell] - log_w[cell], LARGEST_LOG_RATIO))
        else:
            factor = np.exp(-largest[row]) / sums[row]
            if full:
                for a in range(r.size):
                    r[a] = z[a] * factor
            else:
                for cell in range(r.size):
                    r[cell] = z[ahead[cell]] * factor
            limit = np.exp(LARGEST_LOG_RATIO)
            for cell in range(r.size):
                r[cell] = min(r[cell], limit)
        mean, total = 0.0, 0.0
        for cell in range(r.size):
            mean += here[cell] * r[cell]
        for cell in range(r.size):
            expanded = here[cell] * (1.0 + (mean - r[cell]) * more)
            here[cell] = expanded if expanded > 0.0 else 0.0
            total += here[cell]
        for cell in range(r.size):
            here[cell] /= total


@njit(cache=True, nogil=True)
def _log_row(to: Ints, log_weight: Floats, log_z: Floats, log_cells: Floats) -> None:
    """`log_cells = ln(W z / sum_a W z)` of the cells of one row; nothing underflows."""
    largest = -np.inf
    for cell in range(to.size):
        log_cells[cell] = log_weight[cell] + log_z[to[cell]]
        largest = max(largest, log_cells[cell])
    total = 0.0
    for cell in range(to.size):
        log_cells[cell] -= largest
        total += np.exp(log_cells[cell])
    log_total = np.log(total)
    for cell in range(to.size):
        log_cells[cell] -= log_total


@njit(cache=True, nogil=True)
def add_policies(
    row_start: Ints, to: Ints, log_weight: Floats, log_z: Floats, share: float, sums: Floats
) -> None:
    """Adds `share` times the policies of weights W and desirabilities z_1…z_{T-1} to `sums`:
    float64[T-1, cells]."""
    term = np.empty(to.size)
    for step in range(sums.shape[0]):
        for row in range(row_start.size - 1):
            largest = -np.inf
            for cell in range(row_start[row], row_start[row + 1]):
                term[cell] = log_weight[cell] + log_z[step + 1, to[cell]]
                largest = max(largest, term[cell])
            total = 0.0
            for cell in range(row_start[row], row_start[row + 1]):
                term[cell] = np.exp(term[cell] - largest)
                total += term[cell]
            for cell in range(row_start[row], row_start[row + 1]):
                sums[step, cell] += share * term[cell] / total
