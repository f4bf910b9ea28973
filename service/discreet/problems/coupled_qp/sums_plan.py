"""The plan of sums that are opened round by round, and the parameters of the protocol."""

from __future__ import annotations

from typing import Any

from discreet.errors import InvalidInput
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.problems.coupled_qp import bounds, exposure
from discreet.problems.coupled_qp.data import FederatedAgents
from discreet.problems.coupled_qp.noise import noise_event
from discreet.problems.coupled_qp.request import CoupledQpRequest
from discreet.problems.federation import ROUNDS_ARE_SEEN
from discreet.problems.numbers import Budget
from discreet.problems.plans import NoiseSummary, Plan, Resources
from discreet_client import secure_sum
from discreet_client.packing import OutOfRange
from discreet_client.paillier import SMALLEST_KEY_BITS

MAX_KEY_BITS = 8192
LEAST_SHARE_VARIANCE = 100
"""Least variance of an agent's noise on the grid: then shares sum to a discrete Gaussian up to
e^-900 (Kairouz et al. 2021, Lemma 10)."""
SETUP_EXCHANGES = 4
"""Exchanges of a session in addition to one per round: HELLO, DEAL, ACK, and TRANSCRIPT at the
end."""

VERDICT = (
    "agents say of the sums whether they have settled: one that lies about its own part of them, "
    "or a server that adds to sums of the agents alone, can make that wrong"
)
"""Of sessions whose agents are asked; secrecy does not rest on it."""


def sums_plan(
    problem: CoupledQpRequest,
    count: int,
    bound: float,
    clip: float,
    budget: Budget,
    units: bounds.Units | None,
) -> Plan:
    """The plan of `count` agents whose contributions have entries up to `bound` and norms up to
    `clip`; `units` of the rows, of a method that scales them."""
    event = None
    if problem.noise is not None:
        event = noise_event(
            budget,
            agents=count,
            rounds=problem.way.iterations,
            dimension=problem.dimension(),
            clip=clip,
            fraction_bits=problem.encryption.fraction_bits,
        )
    sums = parameters_of(problem, count, bound, event, clip, units)
    shown = (
        None if problem.terms is None else exposure.of_sums(sums, count, prices=units is not None)
    )
    neighbours = exposure.HIDDEN if problem.terms is None else exposure.protects(sums, count)
    noise: tuple[NoiseSummary, ...] = ()
    if event is not None:
        neighbours = event.neighbours
        noise = (
            NoiseSummary.of(
                event, "each entry of each opened sum", 2.0**problem.encryption.fraction_bits
            ),
        )
    return Plan.priced(
        [] if event is None else [event],
        noise=noise,
        iterations={"rounds": problem.way.iterations},
        resources=Resources(
            release_quantum_seconds=0.5,
            memory_bytes=(1 << 28) + 8 * count * count * 200 + 64 * problem.coefficients(),
            steps=1 if problem.terms is None else SETUP_EXCHANGES + problem.way.iterations,
        ),
        unit="agent",
        neighbours=neighbours,
        exposure=shown,
        assumptions=(
            f"at least two agents are honest and at most {problem.encryption.colluding} pool what "
            "they know, with or without the operator",
            "the owner signs the right roster",
            "the sum of every round is seen by every agent",
            *problem.way.assumptions,
            *([] if problem.terms is None else [ROUNDS_ARE_SEEN]),
            *([] if problem.terms is None or sums.tolerance is None else [VERDICT]),
        ),
        parameters={
            "protocol": secure_sum.PROTOCOL,
            "agents": count,
            "coupled": problem.rows()[0],
            "constraints": problem.rows()[1],
            "sums": sums.fields,
            **problem.way.signed,
            **({} if units is None else {"rows": units.signed}),
        },
    )


def parameters_of(
    problem: CoupledQpRequest,
    count: int,
    bound: float,
    event: DiscreteGaussian | None,
    clip: float,
    units: bounds.Units | None,
) -> secure_sum.Parameters:
    encryption = problem.encryption
    if encryption.colluding > count - 2:
        says = f"of {count} agents 1 to {count - 2} may collude, not {encryption.colluding}"
        raise InvalidInput(says, pointer="/problem/encryption/colluding")
    if encryption.scheme == "masking" and encryption.slot_bits != 64:
        raise InvalidInput(
            "masking adds modulo 2^64: slot_bits must be 64",
            pointer="/problem/encryption/slot_bits",
        )
    needed = problem.way.slot_bits
    if needed is not None and encryption.slot_bits != needed:
        raise InvalidInput(
            f"method {problem.way.name} needs slots of {needed} bits, not {encryption.slot_bits}",
            pointer="/problem/encryption/slot_bits",
        )
    if encryption.fraction_bits >= encryption.slot_bits:
        raise InvalidInput(
            "fraction_bits must be below slot_bits", pointer="/problem/encryption/fraction_bits"
        )
    if encryption.scheme == "paillier":
        bits = encryption.key_bits
        if not SMALLEST_KEY_BITS <= bits <= MAX_KEY_BITS or bits % 16:
            raise InvalidInput(
                f"a Paillier key has {SMALLEST_KEY_BITS} to {MAX_KEY_BITS} bits, a multiple of "
                f"16; found {bits}",
                pointer="/problem/encryption/key_bits",
            )
    parameters = secure_sum.Parameters(
        dimension=problem.dimension(),
        rounds=problem.way.iterations,
        bound=bound,
        scheme=encryption.scheme,
        key_bits=encryption.key_bits,
        fraction_bits=encryption.fraction_bits,
        slot_bits=encryption.slot_bits,
        colluding=encryption.colluding,
        noise_sigma=0.0 if event is None else event.scale * 2.0**-encryption.fraction_bits,
        clip=0.0 if event is None else clip,
        exposure=None if problem.terms is None or event is not None else problem.exposure,
        tolerance=None if event is not None else problem.tolerance,
        **_bounds_of_sums(problem, units),
    )
    try:
        parameters.fixed_point(count)
    except OutOfRange as error:
        raise InvalidInput(
            f"the sums do not fit their slots, whatever the data: {error}",
            pointer="/problem/encryption/slot_bits",
        ) from None
    parameters.check(count)
    if event is not None and parameters.share_variance(count) < LEAST_SHARE_VARIANCE:
        says = "the noise is too small for the grid; more fraction_bits are needed"
        raise InvalidInput(says, pointer="/problem/encryption/fraction_bits")
    return parameters


def _bounds_of_sums(problem: CoupledQpRequest, units: bounds.Units | None) -> dict[str, Any]:
    """The limits of contributions and sums that the owner signs, in the units of the sums, if the
    request sets them."""
    public = problem.agents
    if not isinstance(public, FederatedAgents) or public.reach is None:
        return {}
    limits = {
        "reach": bounds.of_rows(public, sum(problem.rows())),
        "most": bounds.of_sums(problem.operator, public),
    }
    if units is None:
        return limits
    return {name: units.scaled(limit or ()) for name, limit in limits.items()}
