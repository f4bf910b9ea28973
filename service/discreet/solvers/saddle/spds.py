"""Shrunken, regularized primal-dual subgradient method for coupled quadratic programs; nothing here
is private.

`min F(x) = ½|Σ A_u,i x_i + c|² + Σ f_i(x_i)`, `x_i` in X_i, `Σ A_g,i x_i + d <= 0` (Huo & Liu, eq.
1; f_i convex, in their example `|A_q,i x_i|² + a_l,i·x_i` and a constant). It is the plaintext
counterpart of the encrypted run: the steps are those of the agents, from `discreet_agent.updates`,
and with `resolution` the contributions are rounded as there.

The shrunken step is that of Liu, Phanivong, Shi, Callaway (2019); the regularized one that of
Koshal, Nedić, Shanbhag (2011). Each iteration uses both sums at the same x (Jacobi), as the
protocol requires.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import InvalidArgument
from discreet_agent.convex_sets import ConvexSet
from discreet_agent.costs import Cost
from discreet_agent.updates import Participant, Steps

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One agent's data: A_u float64[m_u, k_i], A_g float64[m_g, k_i], its cost and its set."""

    A_u: Floats
    A_g: Floats
    cost: Cost
    domain: ConvexSet


@dataclass(frozen=True)
class Solution:
    """The result of the last iteration.

    `x`: float64[k_i] for each agent; `multipliers`: float64[m_g]; `objective`: F(x); `violation`:
    the largest entry of `Σ A_g x + d` above zero; `change`: the largest move of a sum or of a
    multiplier in the last iteration, which short steps make short: it does not say how far the
    optimum is (`discreet_agent.settling` does).
    """

    x: tuple[Floats, ...]
    multipliers: Floats
    objective: float
    violation: float
    change: float
    iterations: int


def step_sizes(parts: Sequence[Part], *, regularization: float = 0.0) -> Steps:
    """Steps from the problem's constants: `alpha = 1/L`, `beta = mu/(2 |A_g|²)`, no shrinking.

    L and mu are the largest and the smallest eigenvalue of the Hessian of F (plus the
    regularization), bounded over the agents' boxes where it is not the same everywhere, without the
    terms that a proximal step handles; |A_g| is the largest singular value of all A_g together.
    Where Hessian and A_g'A_g have common eigenvectors the iteration contracts for alpha <= 1/L
    exactly when `beta < mu/|A_g|²`: its 2 x 2 blocks `[[1 - alpha h, -alpha s], [beta s, 1]]` have
    a determinant below 1 (Jury); half of that leaves a margin for other cases. Raises
    InvalidArgument if F is not strongly convex: then the steps or a regularization must be given.
    """
    A_u = np.hstack([part.A_u for part in parts])
    A_g = np.hstack([part.A_g for part in parts])
    joint = A_u.T @ A_u + regularization * np.eye(A_u.shape[1])
    below, above, at = joint.copy(), joint, 0
    for part in parts:
        own = slice(at, at + part.A_u.shape[1])
        sides = [np.broadcast_to(side, (part.cost.size,)) for side in part.domain.sides]
        least, most = part.cost.curvatures(sides[0], sides[1])
        below[own, own] += least
        above[own, own] += most
        at = own.stop
    smallest = float(np.linalg.eigvalsh(below)[0])
    largest = float(np.linalg.eigvalsh(above)[-1])
    if smallest <= 1e-10 * largest:
        raise InvalidArgument(
            "the objective is not strongly convex: give the steps, or a regularization"
        )
    coupling = float(np.linalg.norm(A_g, 2)) if A_g.size else 0.0
    dual = smallest / (2 * coupling**2) if coupling > 0 else 1.0
    return Steps(1 / largest, dual, 1.0, regularization)


def solve(
    parts: Sequence[Part],
    c: Floats,
    d: Floats,
    *,
    steps: Steps | Sequence[Steps] | None = None,
    iterations: int,
    threshold: float = 0.0,
    resolution: float = 0.0,
    watch: Callable[[Sequence[Participant]], None] | None = None,
) -> Solution:
    """Run the method for `iterations` (>= 1) steps, or until no sum and no multiplier moved by more
    than `threshold` (0: never).

    c float64[m_u], d float64[m_g]. `steps` may differ between agents only in their primal size; the
    default is `step_sizes`. `resolution` > 0 rounds contributions, c and d to its multiples (2^-32
    in the encrypted run, 10^-σ in the paper). `watch` is called with the agents after each step.
    Raises InvalidArgument if shapes disagree, if dual steps differ, or if there is no agent.
    """
    c, d = np.asarray(c, dtype=np.float64), np.asarray(d, dtype=np.float64)
    if not parts:
        raise InvalidArgument("a coupled problem has agents")
    if any(part.A_u.shape[:1] != c.shape or part.A_g.shape[:1] != d.shape for part in parts):
        raise InvalidArgument("A_u needs one row for each entry of c, A_g one for each entry of d")
    if steps is None:
        steps = step_sizes(parts)
    each = [steps] * len(parts) if isinstance(steps, Steps) else list(steps)
    if len(each) != len(parts):
        raise InvalidArgument(f"{len(parts)} agents have {len(each)} step sizes")
    if any(replace(step, primal=each[0].primal) != each[0] for step in each):
        raise InvalidArgument(
            "agents share the dual step, shrink and regularization: they hold the same multipliers"
        )
    agents = [
        Participant(part.A_u, part.A_g, part.cost, part.domain, step)
        for part, step in zip(parts, each, strict=True)
    ]
    own = _rounded(np.concatenate([c, d]), resolution)
    sums = own + sum(_rounded(agent.contribution(), resolution) for agent in agents)
    change = np.inf
    done = 0
    while done < iterations and (change > threshold or threshold == 0):
        prices = agents[0].multipliers
        for agent in agents:
            agent.update(sums)
        last, sums = sums, own + sum(_rounded(agent.contribution(), resolution) for agent in agents)
        moves = np.concatenate([sums - last, agents[0].multipliers - prices])
        change = float(np.max(np.abs(moves), initial=0.0))
        done += 1
        if watch is not None:
            watch(agents)
    exact = np.concatenate([c, d]) + sum(agent.contribution() for agent in agents)
    coupled, excess = exact[: c.size], exact[c.size :]
    return Solution(
        x=tuple(agent.x for agent in agents),
        multipliers=agents[0].multipliers,
        objective=float(coupled @ coupled) / 2 + sum(agent.cost.value(agent.x) for agent in agents),
        violation=float(np.max(excess, initial=0.0)),
        change=change,
        iterations=done,
    )


def _rounded(values: Floats, resolution: float) -> Floats:
    return np.rint(values / resolution) * resolution if resolution > 0 else values
