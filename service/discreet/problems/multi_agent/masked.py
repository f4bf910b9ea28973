"""Sums over masked contributions instead of states: what the owner signs of them, and what the
cloud knows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.problems.multi_agent.agents import Floats
from discreet.problems.multi_agent.dataset import MultiAgentPublic
from discreet.problems.multi_agent.joint_noise import JointNoise
from discreet.problems.plans import Plan
from discreet.solvers.saddle.intervals import Box
from discreet_client import sparse_sum
from discreet_client.exposure import MOST_ROUNDS
from discreet_client.expressions import Expression, gradient, value
from discreet_client.secure_sum.errors import Unacceptable
from discreet_client.secure_sum.noise import NOISE_TAIL
from discreet_client.sparse_sum import exchanges
from discreet_client.sparse_sum.plan import SECURITY_BITS

MOST_SUMS = 10_000
"""Steps of a job with masks: each is four exchanges of all agents."""
SEEN = (
    "The cloud sees the agents' sums with noise in them; an agent's own part is masked. The result "
    "says who was in each sum."
)
FAILURES = {
    "setup_incomplete": "an agent of the roster did not take part in setting up the masks: this "
    "takes all of them; no sum was opened",
    "sum_lost": "more agents dropped in one round than the masks allow, or one sent what does not "
    "fit: that sum cannot be opened, and agents answer in no round twice",
}


def demanded(steps: int) -> tuple[str, ...]:
    """What agents must be told to ask, for a job of so many steps."""
    if steps <= MOST_ROUNDS:
        return ()
    says = f"agents answer at most {MOST_ROUNDS:,} sums unless their demands allow more: {steps:,}"
    return (f"{says} need `rounds` there",)


def check_linear(constraints: Sequence[Expression]) -> None:
    """InvalidInput unless all derivatives are constants: then every agent can add its own part of a
    value, and knows its own derivatives."""
    issues = [
        FieldIssue(
            f"/problem/constraints/{k}",
            "must be linear in the states with masks `sparse`: agents add up their own parts of it",
        )
        for k, constraint in enumerate(constraints)
        if any(slope.names for slope in gradient(constraint).values())
    ]
    if issues:
        raise InvalidInput(issues)


def signed(
    constraints: Sequence[Expression],
    public: MultiAgentPublic,
    box: Box,
    joint: JointNoise,
    event: Gaussian,
    terms: tuple[int, int],
    steps: int,
) -> dict[str, Any]:
    """What the owner signs of the sums beside units and layout: their plan, the derivatives in the
    order of the layout, and grid and scale of the noise. `terms`: fewest agents of a round, and how
    many may collude with the cloud.

    The noise of an agent is in each sum in which it is; what the fewest honest ones add is that of
    the event. InvalidInput where no graph of masks bears these terms, or sums do not fit 64 bits.
    """
    agents, (least, colluding) = len(public.agents), terms
    slopes = [gradient(constraint) for constraint in constraints]
    derivatives = [
        value(slopes[k][name], {}) if name in slopes[k] else 0.0
        for k, name in joint.layout
        if name is not None
    ]
    try:
        plan = sparse_sum.Plan.of(
            agents,
            joint.width,
            steps,
            corrupt=colluding,
            dropping=max(0, agents - least),
            variance=(Fraction(event.scale) / Fraction(event.grid)) ** 2,
        )
    except Unacceptable as error:
        raise InvalidInput(
            f"masked sums of {agents} agents, {least} at least in each, of which {colluding} may "
            f"collude with the cloud: {error}",
            pointer="/problem/federation/quorum",
        ) from None
    sums = {
        **exchanges.signed_plan(plan),
        "derivatives": derivatives,
        "grid": event.grid,
        "scale": event.scale,
    }
    _check_size(box, joint, sums, plan)
    return sums


def _check_size(box: Box, joint: JointNoise, sums: dict[str, Any], plan: sparse_sum.Plan) -> None:
    count = sum(name is None for _, name in joint.layout)
    largest = np.zeros(count)
    for (k, name), entry in zip(joint.layout[count:], sums["derivatives"], strict=True):
        largest[k] += abs(entry) * max(map(abs, box[name]))
    units = joint.units[:count]
    used = units > 0
    words = np.max(largest[used] / (units[used] * sums["grid"]), initial=0.0)
    noise = NOISE_TAIL * plan.agents * math.sqrt(plan.variance)
    if not words + noise + plan.agents < 2.0**62:
        raise InvalidInput(
            "the sums do not fit into 64 bits: terms are too large for what agents change in them",
            pointer="/problem/constraints",
        )


@dataclass(frozen=True)
class Cloud:
    """What the cloud needs to make outputs of a sum. `at_zero`: float64[m], the constraints without
    any agent; `parts`: float64[m, n], their derivatives; `units`: float64[m], of the values, in
    which a sum counts; `derivatives`: as the outputs have them."""

    at_zero: Floats
    parts: Floats
    units: Floats
    derivatives: Floats

    @classmethod
    def of(cls, constraints: Sequence[Expression], names: Sequence[str], plan: Plan) -> Cloud:
        parameters = plan.parameters
        m, place = len(constraints), {name: at for at, name in enumerate(names)}
        parts = np.zeros((m, len(names)))
        derivatives = np.array(parameters["sums"]["derivatives"], dtype=np.float64)
        for (k, name), entry in zip(parameters["layout"][m:], derivatives.tolist(), strict=True):
            parts[k, place[name]] = entry
        zero = dict.fromkeys(names, 0.0)
        return cls(
            np.array([value(constraint, zero) for constraint in constraints]),
            parts,
            np.array(parameters["units"][:m]) * parameters["sums"]["grid"],
            derivatives,
        )

    def outputs(self, total: Any, absent: Floats) -> Floats:
        """float64[o]: the noised values and the derivatives. `total`: int64[dimension], the sum
        over those who were in it; `absent`: float64[n], the public states of those who were not, 0
        elsewhere."""
        values = self.at_zero + self.parts @ absent
        used = self.units > 0
        values[used] += self.units[used] * np.asarray(total, dtype=np.float64)
        return np.concatenate([values, self.derivatives])


def largest_noise(plan: Plan) -> float:
    """How much larger than the event's the noise is when all agents are in a sum, and honest."""
    if "sums" not in plan.parameters:
        return 1.0
    sums = plan.parameters["sums"]
    masks = exchanges.plan_of(sums)
    return math.sqrt(masks.variance * masks.agents) * float(sums["grid"]) / float(sums["scale"])


def assumptions(plan: sparse_sum.Plan) -> tuple[str, ...]:
    """What the guarantee takes for granted, for plan and certificate."""
    return (
        f"at most {plan.corrupt} of {plan.agents} agents, chosen before the masks are set up, pool "
        "what they know with the cloud, which may lie",
        f"the cloud opens sums of at least {plan.minimum} agents, each with its share of the "
        f"noise, and nothing of a single agent; that its graph of masks does not hide them has a "
        f"probability of at most 2^-{SECURITY_BITS}, which is in delta",
        "an agent's folder is not put back from a copy",
        "the owner signs the right roster",
    )


def certified_terms(plan: Plan) -> dict[str, Any]:
    """For the certificate."""
    masks = exchanges.plan_of(plan.parameters["sums"])
    return {
        "sums": {
            "protocol": plan.parameters["sums"]["protocol"],
            "agents": masks.agents,
            "least": masks.minimum,
            "colluding": masks.corrupt,
            "neighbours": masks.neighbours,
            "threshold": masks.threshold,
            "jurors": masks.jurors,
            "quorum": masks.quorum,
            "failure": f"2^-{SECURITY_BITS}",
        }
    }
