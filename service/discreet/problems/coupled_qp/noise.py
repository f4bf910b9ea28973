"""Noise inside the sums: how much of it a budget asks for, and from how many agents on that leaves
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
    the clip, on the grid (rounded toward zero): another agent's instead moves a sum by at most
    twice that. That is so whatever the agent's cost and set are: x is a point of its box, found by
    the agent itself, and the contribution is scaled to the clip after it. A steep cost moves x
    farther within the box and the sensitivity not at all, so no Lipschitz constant enters; what a
    cost must have is a slope everywhere in the box, or x would not be a number
    (`discreet_client.cost_terms`). What an agent sends depends on its data and on sums that were
    opened, noise included, so the rounds compose adaptively.
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
