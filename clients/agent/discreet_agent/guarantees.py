"""What noise is worth, for an agent that was told a price for it."""

from __future__ import annotations

import math
from collections.abc import Mapping

from discreet_agent.federation.errors import NotTrusted

PRICE_TOLERANCE = 1e-6
"""Relative; the discrete curve that prices come from and the continuous one differ by less on any
useful grid."""


def check_gaussian(mu: float, price: Mapping[str, str], failure: float = 0.0) -> None:
    """NotTrusted when the booked price (units of the ledger) is less than Gaussian noise of this mu
    costs.

    The server names the price and the agent's limit rests on it; the noise is the agents' own:
    `delta >= Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)` (Balle & Wang 2018, Theorem 8), and
    `failure` more where the noise may fail with that probability.
    """
    epsilon, delta = int(price["epsilon"]) * 1e-9, int(price["delta"]) * 1e-18
    least = gaussian_delta(epsilon, mu) + failure
    if delta < least * (1 - PRICE_TOLERANCE):
        raise NotTrusted(
            f"the server charges epsilon {epsilon:g} and delta {delta:g}, but with the noise that "
            f"the owner has signed delta is {least:.3g} at this epsilon"
        )


def gaussian_delta(epsilon: float, mu: float) -> float:
    """delta of a Gaussian mechanism, or a bound below it where the second term is beyond a double's
    range."""
    inner, outer = (epsilon / mu + side * mu / 2 for side in (-1, 1))
    tail = math.erfc(outer / math.sqrt(2))
    if tail > 0 and epsilon < 700:
        second = math.exp(epsilon) * tail
    else:  # e^eps erfc(b/sqrt 2) = e^(-a²/2) erfcx(b/sqrt 2), and erfcx(x) < 1/(x sqrt pi)
        second = math.exp(-(inner**2) / 2) / (outer * math.sqrt(math.pi / 2))
    return max(0.0, (math.erfc(inner / math.sqrt(2)) - second) / 2)
