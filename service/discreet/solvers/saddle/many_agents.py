"""The functions of `convexity` and `lipschitz` for constraints that are long sums over thousands of
coordinates.

    prove_convex_sum(expression, box)           -> None or NotConvex
    strict_point(problem, constraints)          -> float64[n], or NoSlaterPoint
    shaved_box(constraints, box)                -> box
    moved_by(constraints, names, box, agent_of) -> Moves: how far each output of a step moves with
                                                   each agent

All work term by term and entry by entry: the cost grows with the nonzero entries of the Jacobian
and the Hessians, not with the square of the number of agents. Results are certified by interval
arithmetic as there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from discreet.solvers.errors import NoSolution
from discreet.solvers.saddle import expression_programs
from discreet.solvers.saddle.convexity import MARGIN, NoSlaterPoint, prove_convex
from discreet.solvers.saddle.intervals import Box, Interval, Work, bounds, value_bounds
from discreet.solvers.saddle.lipschitz import MOST_TOGETHER, NotLipschitz, norm_bound
from discreet.solvers.saddle.moves import Moves
from discreet.solvers.saddle.saddle_point import SaddleProblem
from discreet_client.expressions import (
    Expression,
    Negation,
    Number,
    Power,
    Product,
    Sum,
    Variable,
    gradient,
)

Floats = NDArray[np.float64]

MOST_ENTRIES = 20_000
"""The most nonzero entries of the Jacobian and the Hessians together: the supremum of each is
certified."""
MOST_IN_A_TERM = 1_000_000
"""The most nodes of the terms times the variables in each."""
SLICES = 64
"""Number of slices of a range, each tested for whether a constraint can hold on it."""
STEPS = 2_000
"""Steps of the search for a point strictly inside."""


class TooManyEntries(NoSolution):
    """Constraints couple more coordinates than are certified."""


def terms_of(expression: Expression) -> tuple[Expression, ...]:
    """The terms of a sum; of another expression itself."""
    return expression.terms if isinstance(expression, Sum) else (expression,)


def affine(term: Expression) -> bool:
    """Whether a term has the form of a number, a variable or a multiple of one."""
    match term:
        case Number() | Variable():
            return True
        case Negation():
            return affine(term.argument)
        case Product():
            return sum(not isinstance(factor, Number) for factor in term.factors) <= 1 and all(
                affine(factor) for factor in term.factors
            )
    return False


def plainly_convex(term: Expression) -> bool:
    """Whether a term has the form of an affine expression, or of an even power of one times
    nonnegative numbers: then it is convex everywhere."""
    factors = term.factors if isinstance(term, Product) else (term,)
    numbers = [factor.value for factor in factors if isinstance(factor, Number)]
    others = [factor for factor in factors if not isinstance(factor, Number)]
    if len(others) == 1 and isinstance(others[0], Power):
        base, exponent = others[0].base, others[0].exponent
        even = exponent >= 2 and exponent == int(exponent) and int(exponent) % 2 == 0
        return (
            even and min(numbers, default=0.0) >= 0 and all(affine(part) for part in terms_of(base))
        )
    return affine(term)


def prove_convex_sum(expression: Expression, box: Box) -> None:
    """As `prove_convex`: a sum is convex by the rules of DCP if its terms are."""
    if sum(term.size * len(term.names) for term in terms_of(expression)) > MOST_IN_A_TERM:
        raise TooManyEntries(
            "a term has too many variables at once; sums of terms in few variables each are cheaper"
        )
    for term in terms_of(expression):
        if not plainly_convex(term):
            prove_convex(term, {name: box[name] for name in term.names})


def strict_point(problem: SaddleProblem, constraints: Sequence[Expression]) -> Floats:
    """States that agents may have and that satisfy every constraint with MARGIN.

    Each step projects on all linearized constraints with too little margin at once, averaging each
    coordinate over the constraints that contain it (component averaging: Censor, Gordon & Gordon
    2001), and then on the agents' sets. The point is certified by interval arithmetic.
    NoSlaterPoint if STEPS such steps do not suffice, which does not prove that there is none.
    """
    n, m = len(problem.names), problem.constraints
    x = problem.projected(0.5 * (problem.lower + problem.upper))
    room: Floats | None = None
    for step in range(STEPS):
        found = expression_programs.evaluate(problem.program, x)
        values, slopes = found[n : n + m], found[n + m :]
        if not np.isfinite(found[n:]).all():
            break
        if values.max() <= -2 * MARGIN and _certified(x, problem.names, constraints):
            return x
        if room is None:
            reach = np.bincount(
                problem.constraint,
                np.abs(slopes) * (problem.upper - problem.lower)[problem.agent],
                m,
            )
            room = np.maximum(1e-2 * reach, 4 * MARGIN)
        elif step % 200 == 0:
            room = np.maximum(0.1 * room, 4 * MARGIN)
        short = np.maximum(values + room, 0.0)
        square = np.bincount(problem.constraint, slopes * slopes, m)
        pull = np.divide(short, square, out=np.zeros(m), where=square > 0)
        used = pull[problem.constraint] > 0
        times = np.maximum(np.bincount(problem.agent[used], minlength=n), 1)
        x = problem.projected(
            x - np.bincount(problem.agent, slopes * pull[problem.constraint], n) / times
        )
    raise NoSlaterPoint(
        "no point strictly inside all constraints was found: multipliers would have no bound "
        "without"
    )


def _certified(x: Floats, names: Sequence[str], constraints: Sequence[Expression]) -> bool:
    point = {name: (value, value) for name, value in zip(names, x.tolist(), strict=True)}
    return all(value_bounds(constraint, point)[1] <= -MARGIN for constraint in constraints)


def shaved_box(constraints: Sequence[Expression], box: Box) -> dict[str, tuple[float, float]]:
    """A box within `box` that contains every point satisfying the constraints, with a margin.

    The range of each coordinate in a nonlinear term of a constraint is divided into SLICES parts.
    Those at the ends on which the constraint's interval is above 0 are removed, except the last of
    them. So no bound of the result excludes a point that the constraints allow: the saddle point
    and its multipliers stay, and Lipschitz constants decrease.
    """
    tight = dict(box)
    for constraint in constraints:
        terms = terms_of(constraint)
        whole = {
            name: Interval(np.array([tight[name][0]]), np.array([tight[name][1]]))
            for name in constraint.names
        }
        lows = [float(bounds(term, whole).low[0]) for term in terms]
        total = math.fsum(lows) if all(map(math.isfinite, lows)) else -math.inf
        if not math.isfinite(total):
            continue
        places: dict[str, list[int]] = {}
        for place, term in enumerate(terms):
            for name in term.names:
                places.setdefault(name, []).append(place)
        slack = 1e-12 * math.fsum(map(abs, lows))
        for name, own in places.items():
            low, high = tight[name]
            if all(affine(terms[place]) for place in own) or not high > low:
                continue
            edges = np.linspace(low, high, SLICES + 1)
            sliced = dict(whole) | {name: Interval(edges[:-1], edges[1:])}
            least = sum((bounds(terms[place], sliced).low for place in own), np.zeros(SLICES))
            possible = np.flatnonzero(
                ~(total - math.fsum(lows[place] for place in own) + least - slack > 0)
            )
            if possible.size:
                first, last = max(int(possible[0]) - 1, 0), min(int(possible[-1]) + 2, SLICES)
                tight[name] = float(edges[first]), float(edges[last])
    return tight


# How far outputs move -----------------------------------------------------------------------------


def moved_by(
    constraints: Sequence[Expression], names: Sequence[str], box: Box, agent_of: Sequence[int]
) -> Moves:
    """Upper bounds over `box` of how far each output moves with each agent's whole vector of
    coordinates, in l2.

    For an output o and the block of coordinates x_j of agent j: |o(x) - o(x')| <= sup ||do/dx_j||_2
    ||x_j - x'_j||_2 if x, x' differ only in that block, by the mean value theorem on the segment
    between them, which is in the box; and the norm is at most that of the entries' suprema. Raises
    NotLipschitz as `sensitivities` does, and TooManyEntries.
    """
    place = {name: position for position, name in enumerate(names)}
    firsts = [gradient(g) for g in constraints]
    entries = sum(map(len, firsts)) + sum(
        len(slope.names) for first in firsts for slope in first.values()
    )
    if entries > MOST_ENTRIES:
        raise TooManyEntries(
            f"the constraints have {entries} derivatives and second derivatives that are not zero, "
            f"more than {MOST_ENTRIES}"
        )
    together = Work(MOST_TOGETHER)
    rows: list[tuple[Expression, list[tuple[str, Expression]]]] = [
        (g, sorted(first.items(), key=lambda one: place[one[0]]))
        for g, first in zip(constraints, firsts, strict=True)
    ]
    by_place = (
        (place[name], k, slope) for k, first in enumerate(firsts) for name, slope in first.items()
    )
    ordered = sorted(by_place, key=lambda one: one[:2])
    rows += [(constraints[k], sorted(gradient(slope).items())) for _, k, slope in ordered]
    found: list[tuple[int, int, float]] = []
    for row, (g, slopes) in enumerate(rows):
        squares: dict[int, list[float]] = {}
        for name, slope in slopes:
            # An affine slope attains its extremes at corners of the box: no search is needed.
            plain = affine(slope)
            bound = (
                max(map(abs, value_bounds(slope, box)))
                if plain
                else norm_bound([slope], box, together)
            )
            if not math.isfinite(bound):
                raise NotLipschitz(
                    f"'{str(g)[:80]}' has no bounded derivatives in {name}: a release of it could "
                    "not be made private"
                )
            squares.setdefault(agent_of[place[name]], []).append(bound)
        for agent, of_agent in sorted(squares.items()):
            bound = (
                of_agent[0]
                if len(of_agent) == 1
                else math.hypot(*of_agent) * (1 + 1e-15 * (8 + len(of_agent)))
            )
            found.append((row, agent, bound))
    return Moves(
        np.array([row for row, *_ in found], dtype=np.int64),
        np.array([agent for _, agent, _ in found], dtype=np.int64),
        np.array([bound for *_, bound in found], dtype=np.float64),
        len(rows),
    )
