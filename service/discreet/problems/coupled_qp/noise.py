"""Noise inside the sums: its amount for a budget, and the number of agents from which on it leaves
an answer."""

from __future__ import annotations

import math

from discreet.errors import InvalidInput
from discreet.privacy import calibration
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.problems.coupled_qp import exposure
from discreet.problems.numbers import Budget


def noise_event(
    budget: Budget, *, agents: int, rounds: int, dimension: int, clip: float, fraction_bits: int
) -> DiscreteGaussian:
    """The noise of all rounds together. Contributions of one agent are vectors of l2 norm at most
    the clip, on the grid (rounded toward zero): replacing them by another agent's moves a sum by at
    most twice that. This holds whatever the agent's cost and set: x is a point of its box, found by
    the agent itself, and the contribution is scaled to the clip afterwards. A steep cost moves x
    farther within the box but does not change the sensitivity, so no Lipschitz constant is needed;
    a cost only must have a slope everywhere in the box, or x would not be a number
    (`discreet_client.cost_terms`). What an agent sends depends on its data and on the opened sums,
    noise included, so the rounds compose adaptively.
    """
    if clip == 0:
        raise InvalidInput(
            "contributions that are always zero need no noise", pointer="/problem/noise"
        )
    try:
        event = calibration.discrete_gaussian(
            2 * math.ldexp(clip, fraction_bits) * (1 + 1e-12),
            budget.epsilon,
            budget.delta,
            neighbours="one agent's data replaced by any other, and with them its contributions to "
            "all rounds",
            count=rounds,
        )
    except ValueError as error:
        raise InvalidInput(str(error), pointer="/problem/noise/epsilon") from None
    deviation = event.scale * 2.0**-fraction_bits
    length = deviation * math.sqrt(dimension)
    needed = math.ceil(length / (exposure.USEFUL_NOISE * clip))
    if agents < needed:
        raise InvalidInput(
            f"with {agents} agents the answer would be noise: over {rounds} rounds each of the "
            f"{dimension} entries of a sum gets noise of standard deviation {deviation:.3g}, and "
            f"{agents} contributions of norm at most {clip:.3g} sum to at most "
            f"{agents * clip:.3g}; at least {needed} agents are needed, or fewer iterations, or a "
            "larger epsilon",
            pointer="/problem/noise",
        )
    return event
