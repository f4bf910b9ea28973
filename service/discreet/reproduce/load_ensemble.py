"""A hundred SYNTHETIC commercial buildings and a demand-response event: data for problems of kind
`dr_ensemble`.

The setting is that of Hassan et al. (2021), section VI; its data, of a building of New York
University, are not public. Every building follows one base profile of a working day (heating and
cooling, lighting, elevators) within ±10 %, with drifting noise. Figures have the paper's magnitude
(its state 18 is 321 kW per building, here 325), but all are synthetic: they contain no real
measurements, and no finding of the paper can be confirmed or refuted to the digit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

STEP_HOURS = 0.25
STEPS_A_DAY = 96
EDGES: Floats = np.linspace(80.0, 360.0, 21)
"""kW: edges of the 20 states. They are public: chosen from the public base profile and the ±10
%."""
DISCOMFORT_WEIGHT = 15.0
"""gamma of the paper, dollars."""
TARIFF, EVENT_PAYMENT = 0.20, 1.00
"""Dollars per kWh: at all times, and in addition for a kWh saved in the event. Typical of New York,
not a quotation."""


@dataclass(frozen=True)
class LoadEnsemble:
    """`power`: float64[participants, days * 96], kW in steps of 15 minutes from midnight, all days
    working days.

    Public as well: `edges` float64[21] and `bin_power` float64[20], kW, of the states; `price`
    float64[22], dollars per kW and step, at the times `clock` (hours) from half an hour before the
    event, when control begins, to an hour after; `event`, which of these times are in the event
    from 11:00 to 15:00; `initial`, the distribution over states when control begins, as the base
    profile has it; `discomfort_weight`, dollars.
    """

    power: Floats
    edges: Floats
    bin_power: Floats
    price: Floats
    clock: Floats
    event: NDArray[np.bool_]
    initial: Floats
    discomfort_weight: float


def base_profile() -> Floats:
    """float64[96], kW: the load of one building on a working day, step by step."""
    clock = np.arange(STEPS_A_DAY) * STEP_HOURS

    def between(opens: float, closes: float, ramp: float) -> Floats:
        """0 at night, 1 by day, with transitions of about `ramp` hours."""
        return np.asarray(
            1 / (1 + np.exp((opens - clock) / ramp)) / (1 + np.exp((clock - closes) / ramp))
        )

    hvac = 90 * between(6.0, 19.0, 0.6) + 56 * np.exp(-(((clock - 14.5) / 3.5) ** 2))
    lighting = 65 * between(7.0, 19.5, 0.4)
    elevators = 14 * between(7.5, 18.5, 0.5) + 10 * sum(
        np.exp(-(((clock - rush) / 0.5) ** 2)) for rush in (9, 12.75, 17.5)
    )
    return np.asarray(100 + hvac + lighting + elevators)


def generate(participants: int = 100, days: int = 20, seed: int = 0) -> LoadEnsemble:
    """The ensemble, a function of its arguments.

    Noise is stationary, Gaussian, correlated by .97 from step to step (a building stays above its
    profile for hours) and squashed to stay within ±10 %; its standard deviation is some 4 %.
    """
    rng = np.random.RandomState(
        seed
    )  # the one generator that gives the same numbers in every version (NEP 19)
    steps, memory = days * STEPS_A_DAY, 0.97
    noise = rng.standard_normal((steps, participants))
    for step in range(1, steps):
        noise[step] = memory * noise[step - 1] + np.sqrt(1 - memory**2) * noise[step]
    profile = base_profile()
    power = np.tile(profile, days) * (1 + 0.1 * np.tanh(0.45 * noise.T))

    clock: Floats = np.asarray(10.5 + STEP_HOURS * np.arange(22), np.float64)
    event = (clock >= 11) & (clock < 15)
    starts = profile[round(clock[0] / STEP_HOURS)] * (
        1 + 0.1 * np.tanh(0.45 * rng.standard_normal(10_000))
    )
    return LoadEnsemble(
        power=power,
        edges=EDGES,
        bin_power=(EDGES[:-1] + EDGES[1:]) / 2,
        price=np.asarray((TARIFF + EVENT_PAYMENT * event) * STEP_HOURS, np.float64),
        clock=clock,
        event=event,
        initial=np.histogram(starts, EDGES)[0] / starts.size,
        discomfort_weight=DISCOMFORT_WEIGHT,
    )
