"""Errors of solvers. All are ValueErrors, so that callers from elsewhere need not know these
classes."""

from __future__ import annotations


class SolverError(ValueError):
    """A solver gives no answer; the message is a sentence about its arguments, for the caller."""


class InvalidArgument(SolverError):
    """An argument has the wrong shape, range or combination; the caller checks input from outside
    for this."""


class NoSolution(SolverError):
    """The arguments are valid, but the problem that they state has no solution: no path, no flow,
    no bound."""
