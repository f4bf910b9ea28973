"""How far noise may have moved values that were solved from noised histograms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from discreet.problems.off_policy_evaluation.answers import Drawn, Marks
from discreet.problems.off_policy_evaluation.public import Floats, OffPolicyPublic
from discreet.solvers.estimation.count_posterior import CountPosterior
from discreet.solvers.estimation.known_sums import Known
from discreet.solvers.evaluation.value_draws import OwnRows, batches, draw_rewards, draw_values
from discreet.solvers.evaluation.value_ends import NoisyCounts, gains, noise_of, range_of

WEAK = 4.0
"""A row of counts that is not so many deviations of its noise is weak: see `Solved.spread`."""


@dataclass(frozen=True)
class Solved:
    """Values of the mean of a posterior, and the noised histograms that they follow from."""

    public: OffPolicyPublic
    discount: float
    counted: NoisyCounts
    gained: Floats
    """Noised sums of rewards float64[states], in parts of the bound; empty where rewards are
    public."""
    posterior: CountPosterior
    known: Known | None
    mean: Floats
    """float64[K]: of the posterior."""
    paid: Floats
    """The mean rewards float64[states], or the public ones float64[K]."""
    values: Floats
    noise: Marks
    """bool[states]: whose values have no interval."""

    def spread(
        self,
        draws: int,
        rng: np.random.Generator,
        told: Callable[[int], None],
        start: Floats | None,
    ) -> Drawn:
        """Draws of the ends of the intervals. `told` is called with 1, 2, … for each batch of them;
        start: where the policy begins, float64[states]; None: as the data do.

        The counts are what was released less noise that is drawn anew (`value_ends`). A weak row
        would bring other states values of any size in some draws: beside its own state's value,
        which the policy's may be a part of, it is drawn from the posterior.
        """
        counted, cells, public = self.counted, self.counted.cells, self.public
        states, fixed = counted.states, None if public.rewards is None else self.paid
        weak = self.weak | self.noise
        counts = counted.draw(draws, rng)
        rewards = fixed
        if rewards is None:
            rewards = self.gained - noise_of(counted.kind, counted.scale, (draws, states), rng)
        prior, paid = counts, rewards
        if weak.any():
            prior = self.posterior.draw(draws, rng, self.known)
            if fixed is None:
                met = counted.rows(prior)
                some = draw_rewards(self.gained, met, counted.scale, counted.kind, rng)
                paid = np.where(weak, some, rewards)
        needed = ~self.noise | (start is None or start > 0)
        own, of_weak, within = np.flatnonzero(weak & needed), weak[cells[:, 0]], self._within()

        def values(counts: Floats, before: int) -> Floats:
            found = draw_values(
                np.where(of_weak, prior, counts),
                rewards=paid,
                own=OwnRows(own, counts, rewards) if own.size else None,
                progress=lambda batch: told(before + batch),
                **self._process,
            )
            return np.asarray(np.clip(found, *within))

        if public.topology is not None:  # of these transitions most occur
            low = high = values(counts, 0)
        else:
            more = gains(self.values, cells, self.discount, 0.0 if fixed is None else fixed)
            hidden = counted.hidden() & np.append(~self.noise, True)[cells[:, 1]]
            low = values(np.where(hidden & (more > 0), 0.0, counts), 0)
            high = values(np.where(hidden & (more < 0), 0.0, counts), batches(draws, states))
        visits = None
        if start is None:
            visits = counted.rows(np.where(self.noise[cells[:, 0]], prior, counts))
        return Drawn(self.values, low, high, self._bare(), weak, within, visits)

    @property
    def weak(self) -> Marks:
        counted = self.counted
        return np.asarray(WEAK * counted.row_deviations() >= counted.rows(counted.counts))

    @property
    def _process(self) -> dict[str, Any]:
        return process_of(self.public, self.discount)

    def _bare(self) -> Floats:
        """The values if nobody was ever in the states that are noise."""
        some = np.where(self.noise[self.counted.cells[:, 0]], 0.0, self.mean)
        paid = self.paid
        if self.public.rewards is None:
            paid = np.where(self.noise, 0.0, paid)[None]
        found: Floats = draw_values(some[None], rewards=paid, **self._process)[0]
        return found

    def _within(self) -> tuple[float, float]:
        """Between what all values lie, by public figures."""
        rewards, bound = self.public.rewards, self.public.reward_bound
        ends = (-bound, bound) if rewards is None else (min(rewards), max(rewards))
        return range_of(*ends, self.discount)


def process_of(public: OffPolicyPublic, discount: float) -> dict[str, Any]:
    """What `draw_values` reads beside counts and rewards."""
    return {
        "cells": public.cells(),
        "states": public.states,
        "discount": discount,
        "reward_bound": public.reward_bound,
    }
