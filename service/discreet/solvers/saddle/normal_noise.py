"""Standard normal noise for simulations, faster than NumPy's: NOT for releases, whose noise is
`discreet.privacy`'s.

    key = key_of(generator) standard_normal(key, place, shape)   -> the numbers place, place + 1, …
    of the sequence fill(key, place, noise)              the kernel, for other kernels

Every noise depends only on the key and its number, so no stream has to be stored, and a loop over
noises is vectorized. The words are those of SplitMix64 (Steele, Lea & Flood 2014); normals come
from a ziggurat of 256 layers (Marsaglia & Tsang 2000), with layer, sign and size from separate bits
(Doornik 2005). One noise in 80 is not decided by its first word and continues with words of its own
sequence.
"""

from __future__ import annotations

import math

import numba
import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LAYERS = 256
_EDGE = 3.6541528853610088
"""The beginning of the tail, for which 256 layers of equal area end at 0."""


def _edges() -> Floats:
    """float64[257]: right ends of the layers under exp(-x²/2), from the lowest up; the lowest has
    the tail's area."""
    area = _EDGE * math.exp(-_EDGE * _EDGE / 2) + math.sqrt(math.pi / 2) * math.erfc(
        _EDGE / math.sqrt(2)
    )
    edges = [area * math.exp(_EDGE * _EDGE / 2), _EDGE]
    while len(edges) < _LAYERS:
        edges.append(
            math.sqrt(-2 * math.log(area / edges[-1] + math.exp(-edges[-1] * edges[-1] / 2)))
        )
    return np.array([*edges, 0.0])


_X = _edges()
_HEIGHT = np.exp(-_X * _X / 2)
_UNIT = _X[:_LAYERS] / 2.0**52
_INSIDE = (_X[1:] / _X[:_LAYERS] * 2.0**52).astype(np.uint64)

_STEP = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_LAYER, _SIGN, _SIZE = np.uint64(255), np.uint64(256), np.uint64(12)


def key_of(generator: np.random.Generator) -> np.uint64:
    """A key drawn from `generator`."""
    return np.uint64(generator.integers(0, 1 << 64, dtype=np.uint64))


def standard_normal(key: np.uint64, place: int, shape: int | tuple[int, ...]) -> Floats:
    """The noises of `key` from number `place` on, float64[shape], row by row."""
    noise = np.empty(shape)
    fill(key, place, noise.reshape(-1))
    return noise


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill(key: np.uint64, place: int, noise: Floats) -> None:
    """The noises of `key` from number `place` on, float64[count]."""
    start = key + _STEP * np.uint64(place)
    for i in range(noise.size):
        word = _mixed(start + _STEP * np.uint64(i))
        x = _signed(word)
        noise[i] = x if word >> _SIZE < _INSIDE[word & _LAYER] else np.nan
    for i in range(noise.size):
        if noise[i] != noise[i]:
            state = start + _STEP * np.uint64(i)
            noise[i] = _unsettled(_mixed(state), _mixed(~state))


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _mixed(state: np.uint64) -> np.uint64:
    """SplitMix64's word of a state."""
    word = (state ^ (state >> np.uint64(30))) * _FIRST
    word = (word ^ (word >> np.uint64(27))) * _SECOND
    return word ^ (word >> np.uint64(31))


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _signed(word: np.uint64) -> float:
    """A point between the ends of the layer of `word`, in either direction."""
    size = float(np.int64(word >> _SIZE)) * _UNIT[word & _LAYER]
    return float(-size if word & _SIGN else size)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _unsettled(word: np.uint64, state: np.uint64) -> float:
    """The normal of `word`, with further words from `state` on."""
    while True:
        x, layer = _signed(word), word & _LAYER
        if word >> _SIZE < _INSIDE[layer]:
            return x
        if layer == 0:
            while True:
                state += _STEP
                beyond = -math.log1p(-_uniform(state)) / _EDGE
                state += _STEP
                if -2.0 * math.log1p(-_uniform(state)) > beyond * beyond:
                    return math.copysign(_EDGE + beyond, x)
        state += _STEP
        low, high = _HEIGHT[layer], _HEIGHT[layer + np.uint64(1)]
        if low + _uniform(state) * (high - low) < math.exp(-0.5 * x * x):
            return x
        state += _STEP
        word = _mixed(state)


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _uniform(state: np.uint64) -> float:
    """A number in [0, 1) with 53 bits."""
    return float(np.int64(_mixed(state) >> np.uint64(11))) * 2.0**-53
