"""How often participants move from state to state: the sums that noise is added to."""

from __future__ import annotations

import numpy as np

from discreet.problems.contents import Content
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Ints
from discreet.solvers.control.transition_counts import transition_sums


def transition_counts(
    public: DrEnsemblePublic, content: Content, grid: int, clip: float | None
) -> Ints:
    """Integer sums int64[cells] over participants of their histograms of transitions, see
    `transition_sums`.

    In a dataset with a `day` each block has cells of its own: a state counts as another one in each
    block, so a participant's histogram is spread over more cells, and sums to 1 as before.
    """
    mask, states, start = public.mask(), content["states"], content["start"]
    if public.day is not None:
        step = np.arange(states.size) - np.repeat(start[:-1], np.diff(start))
        states = states + public.states * public.day.block_of(step)
    cell_of = np.full(
        (public.blocks, public.states, public.blocks, public.states), -1, dtype=np.int64
    )
    # A transition belongs to the block of the step that it leaves, whichever block it leads to.
    cell_of.transpose(2, 0, 1, 3)[:, :, mask] = np.arange(public.cells).reshape(public.blocks, -1)
    flat = cell_of.reshape(public.blocks * public.states, -1)
    return transition_sums(states, start, flat, public.cells, grid, clip or 1.0)
