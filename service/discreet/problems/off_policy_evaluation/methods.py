"""The methods of off-policy evaluation: one class each, chosen by capabilities that it declares
as data."""

from __future__ import annotations

from discreet.problems.off_policy_evaluation.gradients import Gradient, Minibatch
from discreet.problems.off_policy_evaluation.method import Method
from discreet.problems.off_policy_evaluation.moments import Constant, StackedMoments, TabularMoments
from discreet.problems.off_policy_evaluation.regressions import DpLsl, DpLsw
from discreet.problems.off_policy_evaluation.weighting import ImportanceSampling, PerDecision

METHODS: tuple[type[Method], ...] = (
    ImportanceSampling,
    PerDecision,
    TabularMoments,
    StackedMoments,
    Minibatch,
    Gradient,
    Constant,
    DpLsw,
    DpLsl,
)


def methods_named(name: str, tabular: bool) -> list[type[Method]]:
    """The methods of this name for numbered states (`tabular`) or coordinates: one, or none."""
    return [
        method for method in METHODS if method.name == name and method.tabular in (None, tabular)
    ]
