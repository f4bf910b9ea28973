"""How often participants move from state to state: the sums that noise is added to."""

from __future__ import annotations

import numpy as np

from discreet.problems.contents import Content
from discreet.problems.dr_ensemble.public import DrEnsemblePublic, Ints
from discreet.solvers.control.transition_counts import transition_sums


def transition_counts(
    public: DrEnsemblePublic, content: Content, grid: int, clip: float | None
) -> Ints:
    """Of a dataset with a `day` the transitions of each block are cells of their own: a state is
    counted as another one in each block, so a participant's histogram is spread over more cells,
    and sums to 1 as before."""
    mask, states, start = public.mask(), content["states"], content["start"]
    if public.day is not None:
        step = np.arange(states.size) - np.repeat(start[:-1], np.diff(start))
        states = states + public.states * public.day.block_of(step)
    cell_of = np.full(
        (public.blocks, public.states, public.blocks, public.states), -1, dtype=np.int64
    )
    # Whatever block the step that it leads to is in, a transition belongs to that of the step that
    # it leaves.
    cell_of.transpose(2, 0, 1, 3)[:, :, mask] = np.arange(public.cells).reshape(public.blocks, -1)
    flat = cell_of.reshape(public.blocks * public.states, -1)
    return transition_sums(states, start, flat, public.cells, grid, clip or 1.0)
