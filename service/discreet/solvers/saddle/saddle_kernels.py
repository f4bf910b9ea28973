"""Compiled kernels of the cloud's iteration: the outputs of a step, rounded to the noise's grid,
and loops over many steps."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from discreet.solvers.saddle import expression_programs, normal_noise
from discreet.solvers.saddle.expression_programs import Codes, Words
from discreet.solvers.saddle.set_kernels import Sets, project_sets

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Indices = NDArray[np.uint32]


_BLOCK = 128
"""Number of steps whose noise is drawn together, so that it stays in the fastest cache."""


class Outputs(NamedTuple):
    """The outputs that the cloud releases in a step: g_1, …, g_m, then o - m entries of dg/dx, by
    agent, then constraint.

    `register`: int64[o], the program's register of the exact value; -1 for a derivative that is
    zero but noised. `constraint`, `agent`: int64[o], agent -1 for a value. `scale`: float64[o],
    deviation of the noise; 0: none. `noise`: int64[o], column of the output's noise, -1 for none.
    `grid`: values are rounded to multiples of scale·grid before the noise, which then counts these
    multiples; 0: not rounded, and the noise is in units of the scale.
    """

    register: Ints
    constraint: Ints
    agent: Ints
    scale: Floats
    noise: Ints
    grid: float


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def released_value(exact: float, scale: float, grid: float, noise: float) -> float:
    """An exact value, rounded to its grid if there is one, with its noise."""
    if grid > 0.0:
        # The sum of two integers is the same double for all pairs with this sum. A sum of multiples
        # of them would not be.
        step = scale * grid
        return float(step * (np.rint(exact / step) + noise))
    return exact + scale * noise


@numba.njit(cache=True, nogil=True, error_model="numpy")
def release_outputs(outputs: Outputs, registers: Floats, noise: Floats, released: Floats) -> None:
    """Fill `released` from the registers of the program and the noise of one step."""
    for o in range(released.size):
        released[o] = registers[outputs.register[o]] if outputs.register[o] >= 0 else 0.0
        if outputs.noise[o] >= 0:
            released[o] = released_value(
                released[o], outputs.scale[o], outputs.grid, noise[outputs.noise[o]]
            )


@numba.njit(cache=True, nogil=True, error_model="numpy")
def place_noise(noised: Indices, factor: Floats, noise: Floats, placed: Floats) -> None:
    """The noise of some steps, float64[steps, width], times its `factor` and placed in the columns
    `noised`: float64[steps, o]."""
    for t in range(noise.shape[0]):
        for column in range(np.uint64(noised.size)):
            placed[t, noised[column]] = factor[column] * noise[t, column]


@numba.njit(cache=True, nogil=True, error_model="numpy")
def advance_compiled(
    code: Codes,
    operands: Words,
    registers: Floats,
    slope_register: Indices,
    lower: Floats,
    upper: Floats,
    stepped: tuple[Floats, Floats],
    sets: Sets,
    outputs: Outputs,
    register: Indices,
    constraint: Indices,
    agent_start: Indices,
    noised: Indices,
    gamma: Floats,
    alpha: Floats,
    done: int,
    average_from: int,
    key: np.uint64,
    noise: Floats,
    states: Floats,
    multipliers: Floats,
    state_sum: Floats,
    multiplier_sum: Floats,
    output_sum: Floats,
    recorded: Ints,
    multiplier_path: Floats,
    released_path: Floats,
    state_path: Floats,
) -> int:
    """Returns the number of steps that entered the sums. It uses loops instead of array expressions
    because a step takes about 150 nanoseconds.

    The outputs agent_start[i], …, agent_start[i + 1] - 1 are the derivatives in coordinate i.
    `stepped`: the bounds at which each coordinate of a step is cut off, which are those of the box
    except for agents with a set, which are projected as a whole. Unsigned indices save a check for
    negative ones.
    """
    n, m, width = states.size, multipliers.size, register.size
    on_grid, grid, scale = outputs.grid > 0.0, outputs.grid, outputs.scale
    released, placed = np.empty(width), np.zeros((_BLOCK, width))
    drawn = np.empty((_BLOCK, noised.size))
    # Outputs on a grid are scaled after the sum.
    factor = np.ones(noised.size) if on_grid else scale[noised]
    one, values = np.uint64(1), np.uint64(m)
    row, averaged = 0, 0
    registers[:n] = states
    for begin in range(0, gamma.size, _BLOCK):
        block = min(_BLOCK, gamma.size - begin)
        if noise.shape[0] > 0:
            place_noise(noised, factor, noise[begin : begin + block], placed)
        elif noised.size > 0:
            normal_noise.fill(key, (done + begin) * noised.size, drawn[:block].reshape(-1))
            place_noise(noised, factor, drawn[:block], placed)
        for t in range(block):
            k = done + begin + t + 1
            gamma_k, alpha_k = gamma[begin + t], alpha[begin + t]
            expression_programs.run(code, operands, registers)
            for o in range(width):
                if on_grid and scale[o] > 0.0:
                    released[o] = released_value(
                        registers[register[o]], scale[o], grid, placed[t, o]
                    )
                else:
                    released[o] = registers[register[o]] + placed[t, o]
            entry = values
            for i in range(n):
                pull, end = registers[slope_register[i]], np.uint64(agent_start[i + 1])
                while entry < end:
                    pull += released[entry] * multipliers[constraint[entry]]
                    entry += one
                moved = registers[i] - gamma_k * (pull + alpha_k * registers[i])
                if not np.isnan(moved):  # an objective without a slope at this point moves no agent
                    registers[i] = min(max(moved, stepped[0][i]), stepped[1][i])
            if sets.begin.size > 0:
                project_sets(sets, lower, upper, registers)
            for j in range(m):
                mu = multipliers[j] + gamma_k * (released[j] - alpha_k * multipliers[j])
                multipliers[j] = 0.0 if mu < 0.0 else mu
            if k > average_from:
                averaged += 1
                for i in range(n):
                    state_sum[i] += registers[i]
                for j in range(m):
                    multiplier_sum[j] += multipliers[j]
                for o in range(width):
                    output_sum[o] += released[o]
            if row < recorded.size and recorded[row] == k:
                multiplier_path[row] = multipliers
                released_path[row] = released
                state_path[row] = registers[:n]
                row += 1
    states[:] = registers[:n]
    return averaged
