"""Sioux Falls, the network of Tsao et al.: figures, and SYNTHETIC mornings.

LeBlanc, Morlok and Pierskalla, "An efficient approach to solving the road network equilibrium
traffic assignment problem", Transportation Research 9(5), 1975; the figures are in
`sioux_falls.json`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.traffic.traffic_assignment import Network

MORNINGS = 50
SEED = 1975


def sioux_falls_figures() -> dict[str, Any]:
    """`nodes` (x and y in a drawing), `links` (tail, head, minutes, capacity), `trips` an hour,
    `units`, `source`."""
    figures: dict[str, Any] = json.loads(Path(__file__).with_name("sioux_falls.json").read_text())
    return figures


def sioux_falls() -> tuple[Network, NDArray[np.float64]]:
    """The network, and the trips of an hour float64[24, 24]."""
    figures = sioux_falls_figures()
    tail, head, free_flow_time, capacity = np.array(figures["links"], dtype=float).T
    network = Network(
        24, 24, 0, tail.astype(np.int64) - 1, head.astype(np.int64) - 1, free_flow_time, capacity
    )
    return network, np.array(figures["trips"], dtype=float)


def poisson_mornings(mornings: int = MORNINGS, factor: float = 1.0) -> NDArray[np.int64]:
    """int64[mornings, 24, 24]: independent Poisson numbers of trips whose means are the table's,
    times `factor`."""
    table = np.array(sioux_falls_figures()["trips"]) * factor
    # Of NumPy's generators only RandomState gives the same numbers in every version (NEP 19).
    return np.random.RandomState(SEED).poisson(table, size=(mornings, *table.shape))
