"""Policies of loads whose own transitions change with the hour."""

from __future__ import annotations

from dataclasses import dataclass

from discreet.solvers.control.control_policies import DesirabilityPolicy, Policy, Support
from discreet.solvers.control.policy_kernels import Floats, Ints


@dataclass(frozen=True, eq=False)
class ChangingPolicy(Policy):
    """A policy that alternates between parts: at `step` it is `parts[at[step]]`; all parts have the
    same support and horizon.

    `at_step`: int64[T - 1]. The desirability z is the same in all parts; the uncontrolled
    transitions differ.
    """

    support: Support
    parts: tuple[DesirabilityPolicy, ...]
    at_step: Ints

    @property
    def relative(self) -> Floats:
        """float64[T, n], as in each part."""
        return self.parts[0].relative

    @property
    def level(self) -> Floats:
        """float64[T], as in each part."""
        return self.parts[0].level

    @property
    def log_desirability(self) -> Floats:
        """float64[T, n]: ln z_t."""
        return self.parts[0].log_desirability

    @property
    def steps(self) -> int:
        return self.parts[0].steps

    def cells(self, step: int) -> Floats:
        return self._part(step).cells(step)

    def log_cells(self, step: int) -> Floats:
        return self._part(step).log_cells(step)

    def _part(self, step: int) -> DesirabilityPolicy:
        return self.parts[int(self.at_step[step])]
