"""What agents can learn about each other from the sums that all of them see: stated, and refused
for few agents.

The figures rest on the attacks in `attacks`, whose table is in docs/opened-sums.md.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

from discreet.errors import Exposed, InvalidInput
from discreet.privacy import calibration
from discreet.problems.numbers import Privacy
from discreet.problems.plans import Exposure
from discreet_client import secure_sum
from discreet_client.exposure import ACCEPTED

HIDDEN = "each agent's data, by cryptography: what agents see are the sums of all rounds"
FROM_THE_SERVER = (
    "each agent's data from the server alone, by cryptography; agents see the sums of all rounds, "
    "and one agent that lies can find out the others' data from them"
)
MEANING = (
    "`accepted`: the owner knows that the agents are few for the sums that are opened to them; "
    "each agent says the same in its demands"
)
AGAIN = "a job run again without one agent shows that agent"
AGAIN_WITH_PRICES = (
    "a job run again without one agent shows what that agent takes in the end, and eight such "
    "pairs of jobs with other c or d show what it takes at every price, within 3 % of its cap; "
    "what it would take where nothing has a price, and how steep its cost is within a factor of "
    "two, lie in a haze that repeated pairs of the same agents and data do not lift, while with a "
    "new agent's key in each, or other data, ten pairs tell as much as a guess and a hundred come "
    "within 15 %; of an agent whose cost has a kink where its wish is, one pair of jobs shows the "
    "wish itself, haze or not; the first sums tell how steep all costs are together, and how much "
    "that differs among them"
)
"""For method auto, whose sums are exact responses to prices at the end and have haze at first:
`run_again.by_prices`, `run_again.repeated` and `run_again.wish_at_a_kink`."""

FIGURES_OF_AN_AGENT = 2
"""Need and curvature of an agent: with this many opened numbers that act on it, they can be
computed."""

USEFUL_NOISE = 0.25
"""Noise longer (in l2) than this share of the longest sum hides the sum from the solver as well."""

USUAL = Privacy(epsilon=Decimal(1), delta=Decimal("1e-6"))


def noise_agents(rounds: int, dimension: int) -> int | None:
    """The number of agents from which on sums are useful with noise at epsilon 1 and delta 1e-6,
    whatever the clip; None if no noise can be calibrated for this many rounds."""
    try:
        event = calibration.discrete_gaussian(
            2 * 2.0**32,
            USUAL.budget.epsilon,
            USUAL.budget.delta,
            neighbours="one agent's data replaced by any other",
            count=rounds,
        )
    except (ValueError, InvalidInput):
        return None
    return math.ceil(event.scale * 2.0**-32 * math.sqrt(dimension) / USEFUL_NOISE)


def protects(sums: secure_sum.Parameters, agents: int) -> str:
    """What a federated job without noise hides, and from whom."""
    return HIDDEN if sums.crowded(agents) else FROM_THE_SERVER


def of_sums(sums: secure_sum.Parameters, agents: int, *, prices: bool) -> Exposure:
    """What one lying agent can find out, for plan and certificate; `prices`: of method auto."""
    rounds, others = sums.rounds, agents - 1
    opened = f"the {rounds} sums" if rounds > 1 else "the sum"
    again = AGAIN_WITH_PRICES if prices else AGAIN
    if sums.noise_sigma:
        says = (
            f"{opened} that are opened to every agent have noise inside: what anybody finds out of "
            "an agent, also by lies and by a job run again without it, is bounded by the epsilon "
            "and delta of this job; they add up over jobs"
        )
    elif not sums.crowded(agents):
        found = min(others, max(1, rounds * sums.dimension // FIGURES_OF_AN_AGENT))
        whom = (
            f"all {others} others"
            if found == others
            else f"as many as {found} of the {others} others"
        )
        says = (
            "one agent that lies can find out what others need and what it is worth to them from "
            f"{opened} opened to every agent: of {whom}; one that only listens finds how steep "
            f"their costs are; {again}"
        )
        if (needed := noise_agents(rounds, sums.dimension)) is not None:
            says += (
                f"; noise in the sums (problem.noise) bounds this, from about {needed} agents on "
                f"at epsilon {USUAL.epsilon:g} and delta {float(USUAL.delta or 0):g}"
            )
    else:
        says = (
            f"one agent that lies finds out about one in eighty of the {others} others from "
            f"{opened} opened to every agent, those first who stand out most, whom no number of "
            f"agents hides; {again}"
        )
    return Exposure(agents=agents, rounds=rounds, sums=rounds * sums.dimension, sentence=says)


def refuse_exposed(
    sums: secure_sum.Parameters, agents: int, before: Fraction = Fraction(0), *, prices: bool
) -> None:
    """Raises Exposed for few agents without noise, unless the owner has explicitly accepted it.
    `before`: what jobs before have opened, for each of their agents (`exposure.Opens`): chances to
    find somebody out add up. `prices`: of method auto."""
    if sums.exposure == ACCEPTED or sums.crowded(agents, before):
        return
    needed = sums.crowd(before)
    earlier = (
        f", after {float(before):.2g} for each agent in jobs before with an agent of this roster"
        if before
        else ""
    )
    enough = f"needs {needed} agents" if needed else "too many for any number of agents"
    raise Exposed(
        f"{of_sums(sums, agents, prices=prices).sentence}. Without noise {sums.numbers} sums would "
        f'be revealed{earlier}: {enough}. To reveal them all the same: exposure: "{ACCEPTED}", '
        "also in each agent's own demands",
        pointer="/problem/exposure",
    )
