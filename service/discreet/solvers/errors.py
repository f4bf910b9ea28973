"""What a solver refuses. All are ValueErrors: who calls a solver from elsewhere needs to know no
more."""

from __future__ import annotations


class SolverError(ValueError):
    """A solver gives no answer; the message is a sentence about its arguments, for whoever called
    it."""


class InvalidArgument(SolverError):
    """An argument has the wrong shape, range or combination; whoever calls checks that of what
    comes from outside."""


class NoSolution(SolverError):
    """The arguments are sound, and the problem that they state has no solution: no path, no flow,
    no bound."""
