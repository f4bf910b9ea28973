"""Equilibration of the known paths of all zone pairs: sweeps of single moves, and Newton steps if
these stall.

With the paths given, traffic assignment is a convex problem in the path flows of each pair, which
are nonnegative and have a fixed sum. A sweep takes one pair after the other and moves flow to its
cheapest path by Newton's method along that one direction; link costs follow at once (Gauss–Seidel).
That is cheap and, on road networks, usually enough. If a few steep links couple many moves it
converges slowly; then truncated Newton steps on all path flows at once, solved by conjugate
gradients (Dembo, Steihaug 1983), take over. Neither ever raises the objective by more than
rounding.
"""

from __future__ import annotations

import numba
import numpy as np

from discreet.solvers.traffic.path_flows import Costs, Paths, link_cost
from discreet.solvers.traffic.shortest_paths import Floats, Ints, LinkIndices

SWEEPS = 10
"""The most full sweeps of one call: after that new paths help more."""

PARTIAL_SWEEPS = 8
"""Number of sweeps over the pairs with most excess after each full sweep."""

STALLED = 0.7
"""If sweeps leave more than this fraction of the excess, Newton steps follow."""

NEWTON_STEPS = 12
"""The most Newton steps of one call. The first ones may only find out which paths are empty."""

NEWTON_WORK = 1_000_000
"""The most Newton steps times links of all paths, but at least one step: on large networks sweeps
are more efficient."""

LEVEL = 1e-15
"""Two paths are level if their costs differ by less than this fraction: the rest is rounding."""

STILL_UNEVEN = 0.25
"""A line search ends when at most this fraction of the initial slope is left, of either sign."""

SEARCH_STEPS = 60
"""The most Newton or bisection steps of one line search."""

CONJUGATE_GRADIENTS = 30
"""The most conjugate gradient iterations of one Newton step."""

RESIDUAL = 1e-4
"""Fraction of the squared, scaled gradient at which the conjugate gradients stop."""

SINGULAR = 1e-13
"""A direction with less than this fraction of the curvature of its components counts as without
curvature."""

SHORT = 0.3
"""If less than this fraction of a step is taken, it has met a bound."""


@numba.njit(cache=True, nogil=True)
def equilibrate(
    costs: Costs, paths: Paths, flow: Floats, cost: Floats, slope: Floats, target: float
) -> None:
    """Level the costs of the known paths until their excess is at most `target`, or further steps
    here are not worthwhile.

    Updates the path flows and, with them, `flow`, `cost` and `slope` of the links. Most of the
    excess sits in a few pairs: after each full sweep only those above the average are swept again,
    several times.
    """
    pairs = np.flatnonzero(np.diff(paths.start) > 1)
    excesses = np.zeros(paths.start.size - 1)
    first = excess(paths, pairs, cost)
    for _ in range(SWEEPS):
        met = sweep(costs, paths, pairs, flow, cost, slope, excesses, 0.0)
        if met <= target and excess(paths, pairs, cost) <= target:
            return
        for _ in range(PARTIAL_SWEEPS):
            sweep(costs, paths, pairs, flow, cost, slope, excesses, met / pairs.size)
    if excess(paths, pairs, cost) <= STALLED * first:
        return
    for _ in range(1 + min(NEWTON_STEPS, NEWTON_WORK // paths.links.size)):
        newton(costs, paths, pairs, flow, cost, slope)
        sweep(costs, paths, pairs, flow, cost, slope, excesses, 0.0)
        if excess(paths, pairs, cost) <= target:
            return


@numba.njit(cache=True, nogil=True)
def excess(paths: Paths, pairs: Ints, cost: Floats) -> float:
    """The excess cost of the flow of `pairs` at link costs `cost` over that on the cheapest known
    paths."""
    total = 0.0
    for pair in pairs:
        lowest, carried, spent = np.inf, 0.0, 0.0
        for path in range(paths.start[pair], paths.start[pair + 1]):
            path_cost = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                path_cost += cost[paths.links[position]]
            if path_cost < lowest:
                spent += carried * (lowest - path_cost) if carried > 0.0 else 0.0
                lowest = path_cost
            spent += paths.flow[path] * (path_cost - lowest)
            carried += paths.flow[path]
        total += spent
    return total


@numba.njit(cache=True, nogil=True)
def sweep(
    costs: Costs,
    paths: Paths,
    pairs: Ints,
    flow: Floats,
    cost: Floats,
    slope: Floats,
    excesses: Floats,
    threshold: float,
) -> float:
    """One Gauss–Seidel sweep over the `pairs` whose entry of `excesses` is `threshold` or more;
    updates `excesses`.

    Returns the sum of the excess that the sweep found, pair by pair; for skipped pairs, that of an
    earlier sweep. It can be small if pairs only undo each other's moves: the true one is `excess`.
    """
    mark = np.zeros(flow.size, np.bool_)
    links, change = np.empty(flow.size, np.int32), np.empty(flow.size)
    path_cost = np.empty(16)
    total = 0.0
    for pair in pairs:
        if excesses[pair] < threshold:
            total += excesses[pair]
            continue
        begin, end = paths.start[pair], paths.start[pair + 1]
        if end - begin > path_cost.size:
            path_cost = np.empty(2 * (end - begin))
        cheapest = begin
        for path in range(begin, end):
            path_cost[path - begin] = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                path_cost[path - begin] += cost[paths.links[position]]
            if path_cost[path - begin] < path_cost[cheapest - begin]:
                cheapest = path
        lowest = path_cost[cheapest - begin]
        over = 0.0
        for path in range(begin, end):
            over += paths.flow[path] * (path_cost[path - begin] - lowest)
        excesses[pair] = over
        total += over
        if over == 0.0:
            continue
        for path in range(begin, end):
            if path == cheapest or paths.flow[path] == 0.0:
                continue
            # The links that only one of the two paths passes: only these change in a move from
            # `path` to `cheapest`.
            for position in range(paths.first[cheapest], paths.first[cheapest + 1]):
                mark[paths.links[position]] = True
            size = 0
            for position in range(paths.first[path], paths.first[path + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                else:
                    links[size], change[size] = link, -1.0
                    size += 1
            for position in range(paths.first[cheapest], paths.first[cheapest + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                    links[size], change[size] = link, 1.0
                    size += 1
            difference = 0.0
            for i in range(size):
                difference -= cost[links[i]] * change[i]
            if difference > LEVEL * lowest:
                moved = move(costs, flow, cost, slope, links, change, size, paths.flow[path])
            elif difference < -LEVEL * lowest:
                # An earlier move has made the cheapest path the dearer one: move back.
                change[:size] *= -1.0
                moved = -move(costs, flow, cost, slope, links, change, size, paths.flow[cheapest])
            else:
                continue
            paths.flow[path] -= moved
            paths.flow[cheapest] += moved
    return total


@numba.njit(cache=True, nogil=True)
def move(
    costs: Costs,
    flow: Floats,
    cost: Floats,
    slope: Floats,
    links: LinkIndices,
    change: Floats,
    size: int,
    most: float,
) -> float:
    """Move the flow of `links[:size]` along the descent direction `change` by the returned length
    in [0, most].

    The objective's slope on that line is `sum cost * change`, nondecreasing; its zero is found by
    Newton's method inside a bracket, so a cost that grows steeply cannot overshoot to the other
    side.
    """
    before, curvature = 0.0, 0.0
    for i in range(size):
        before -= cost[links[i]] * change[i]
        curvature += slope[links[i]] * change[i] * change[i]
    if before <= 0.0:
        return 0.0
    low, high, bracketed, moved = 0.0, most, False, 0.0
    length = before / curvature if curvature * most > before else most
    for _ in range(SEARCH_STEPS):
        left, curvature = 0.0, 0.0
        for i in range(size):
            link = links[i]
            flow[link] += (length - moved) * change[i]
            cost[link], slope[link] = link_cost(costs, link, flow[link])
            left -= cost[link] * change[i]
            curvature += slope[link] * change[i] * change[i]
        moved = length
        if abs(left) <= STILL_UNEVEN * before or (left > 0.0 and length == most):
            break
        if left > 0.0:
            low = length
        else:
            high, bracketed = length, True
        length += left / curvature if curvature > 0.0 else 0.0
        if not low < length < high:
            length = 0.5 * (low + high) if bracketed else most
    return moved


@numba.njit(cache=True, nogil=True)
def newton(
    costs: Costs, paths: Paths, pairs: Ints, flow: Floats, cost: Floats, slope: Floats
) -> None:
    """One truncated Newton step on all paths with flow at once.

    A step past zero flow is first clipped. If clipping disturbs the balance on steep links, the
    line search stops almost at once; then the whole step is shortened until the first path is
    empty, and the next step leaves this path out.
    """
    base, gradient, scale = _gradient(paths, pairs, cost, slope)
    step = _newton_step(paths, pairs, base, gradient, scale, slope)
    trial = np.zeros(step.size)
    links, change = np.arange(flow.size).astype(np.int32), np.empty(flow.size)
    kept = flow.copy()
    part, taken = 1.0, 0.0
    for attempt in range(2):
        to_bound = 1.0
        for pair in pairs:
            begin, end = paths.start[pair], paths.start[pair + 1]
            largest = base[begin]
            gain, gain_clipped = 0.0, 0.0
            for path in range(begin, end):
                if path != largest:
                    gain += step[path]
                    trial[path] = max(part * step[path], -paths.flow[path])
                    gain_clipped += trial[path]
                    if step[path] < 0.0:
                        to_bound = min(to_bound, -paths.flow[path] / step[path])
            if gain > 0.0:
                to_bound = min(to_bound, paths.flow[largest] / gain)
            if gain_clipped > paths.flow[largest]:
                trial[begin:end] *= paths.flow[largest] / gain_clipped
        if np.sum(trial * gradient) < 0.0:
            _link_change(paths, pairs, base, trial, change)
            taken = move(costs, flow, cost, slope, links, change, change.size, 1.0)
            if attempt == 1 or taken > SHORT:
                break
            flow[:] = kept
            for link in range(flow.size):
                cost[link], slope[link] = link_cost(costs, link, flow[link])
        part, taken = to_bound, 0.0
    if taken > 0.0:
        for path in range(step.size):
            paths.flow[path] = max(paths.flow[path] + taken * trial[path], 0.0)


@numba.njit(cache=True, nogil=True)
def _gradient(
    paths: Paths, pairs: Ints, cost: Floats, slope: Floats
) -> tuple[Ints, Floats, Floats]:
    """For each path: its pair's path with most flow (the base), its cost above that path's, and 1 /
    its own curvature.

    Zero curvature, and an empty path, have 1 / curvature = 0: the Newton step leaves them to the
    sweeps.
    """
    base = np.zeros(paths.flow.size, np.int64)
    gradient, scale = np.zeros(paths.flow.size), np.zeros(paths.flow.size)
    mark = np.zeros(cost.size, np.bool_)
    for pair in pairs:
        begin, end = paths.start[pair], paths.start[pair + 1]
        largest = begin + np.argmax(paths.flow[begin:end])
        base[begin:end] = largest
        for path in range(begin, end):
            if path == largest or paths.flow[path] == 0.0:
                continue
            for position in range(paths.first[largest], paths.first[largest + 1]):
                mark[paths.links[position]] = True
            curvature = 0.0
            for position in range(paths.first[path], paths.first[path + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                else:
                    gradient[path] += cost[link]
                    curvature += slope[link]
            for position in range(paths.first[largest], paths.first[largest + 1]):
                link = paths.links[position]
                if mark[link]:
                    mark[link] = False
                    gradient[path] -= cost[link]
                    curvature += slope[link]
            scale[path] = 1.0 / curvature if curvature > 0.0 else 0.0
    return base, gradient, scale


@numba.njit(cache=True, nogil=True)
def _newton_step(
    paths: Paths, pairs: Ints, base: Ints, gradient: Floats, scale: Floats, slope: Floats
) -> Floats:
    """Conjugate gradients on `E' diag(slope) E step = -gradient`; E has a row of links for each
    path, minus that of its base."""
    step = np.zeros(gradient.size)
    residual = -gradient
    direction = residual * scale
    norm = np.sum(residual * direction)
    enough = RESIDUAL * norm
    change = np.empty(slope.size)
    for _ in range(CONJUGATE_GRADIENTS):
        if norm <= enough:
            break
        _link_change(paths, pairs, base, direction, change)
        diagonal = 0.0
        for path in range(step.size):
            if scale[path] > 0.0:
                diagonal += direction[path] * direction[path] / scale[path]
        curvature = np.sum(slope * change * change)
        if curvature <= SINGULAR * diagonal:
            break  # path flows change but, up to rounding, no link flow does
        change *= slope
        length = norm / curvature
        for pair in pairs:
            begin, end = paths.start[pair], paths.start[pair + 1]
            image_of_base = 0.0
            for position in range(paths.first[base[begin]], paths.first[base[begin] + 1]):
                image_of_base += change[paths.links[position]]
            for path in range(begin, end):
                if scale[path] > 0.0:
                    image = -image_of_base
                    for position in range(paths.first[path], paths.first[path + 1]):
                        image += change[paths.links[position]]
                    residual[path] -= length * image
                    step[path] += length * direction[path]
        previous = norm
        norm = np.sum(residual * residual * scale)
        direction = residual * scale + norm / previous * direction
    return step


@numba.njit(cache=True, nogil=True)
def _link_change(paths: Paths, pairs: Ints, base: Ints, step: Floats, change: Floats) -> None:
    """Fill `change[m]`: the change of link flows by `step`, where each pair's base takes the flow
    that its other paths lose."""
    change[:] = 0.0
    for pair in pairs:
        begin, end = paths.start[pair], paths.start[pair + 1]
        largest = base[begin]
        step[largest] = 0.0
        for path in range(begin, end):
            if path != largest:
                step[largest] -= step[path]
        for path in range(begin, end):
            if step[path] != 0.0:
                for position in range(paths.first[path], paths.first[path + 1]):
                    change[paths.links[position]] += step[path]
