"""From measurements and tariffs to states and utilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from discreet.errors import InvalidInput
from discreet.problems.dr_ensemble.public import Floats
from discreet_client.intervals import plain
from discreet_client.meters import bins_of

HOUR = 3600
LENGTHS = ((86_400, "day"), (HOUR, "hour"), (60, "minute"), (1, "second"))


def state_sequences(power: ArrayLike, edges: ArrayLike) -> list[list[int]]:
    """State sequences of power series, `content.trajectories` of a dataset.

    power: float[participants, steps], any unit; edges: float[states + 1], increasing, in the same
    unit, public. State s is edges[s] <= power < edges[s + 1]; power below the first or above the
    last edge counts to the outer states.
    """
    series, bins = np.asarray(power, dtype=np.float64), np.asarray(edges, dtype=np.float64)
    if series.ndim != 2 or not np.isfinite(series).all():
        raise InvalidInput("power is a finite array of participants by steps", pointer="/power")
    if bins.ndim != 1 or bins.size < 3 or not (np.diff(bins) > 0).all():
        raise InvalidInput("at least three increasing edges are needed", pointer="/edges")
    states: list[list[int]] = bins_of(series, bins).tolist()
    return states


def step_length(seconds: int) -> str:
    """A number of seconds in words, such as `15 minutes`."""
    size, unit = next((size, unit) for size, unit in LENGTHS if seconds % size == 0)
    count = seconds // size
    return f"{count} {unit}{'' if count == 1 else 's'}"


def price_in_words(price: ArrayLike, seconds: int) -> str:
    """The highest price of steps of so many seconds, also in money a kWh, as tariffs are: the unit
    of a price cannot be seen from its value."""
    highest = float(np.max(price))
    if seconds == HOUR:
        return (
            "taken per kW and step of an hour, which is a kWh: the highest is "
            f"{plain(highest, 3)} a kWh"
        )
    kwh = plain(highest * HOUR / seconds, 3)
    return (
        f"taken per kW and step of {step_length(seconds)}: the highest, {plain(highest, 3)}, is "
        f"{kwh} a kWh"
    )


def tariff_utility(price: ArrayLike, power: ArrayLike) -> Floats:
    """Utility float64[T, n] of a tariff: minus what a state's power costs.

    price: float[T], money per unit of power and step; power: float[n] of the states.
    """
    return -np.outer(np.asarray(price, dtype=np.float64), np.asarray(power, dtype=np.float64))
