"""Shared constraints: read, proven convex, and the ranges that they leave."""

from __future__ import annotations

import re
from collections.abc import Sequence

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.multi_agent.dataset import (
    MultiAgentPublic,
)
from discreet.solvers.saddle.convexity import NoSlaterPoint, NotConvex, prove_convex, slater_point, tightened_box
from discreet_client.expressions import FUNCTIONS, Expression, ExpressionError, parse

MAX_COUPLINGS = 10_000
"""Constraints times agents squared: as many suprema may have to be bounded when planning."""


def names_in(texts: Sequence[str]) -> list[str]:
    """The agents that constraints name; InvalidInput where a constraint is not an expression."""
    words = {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}
    names = sorted(words - set(FUNCTIONS))
    issues = []
    for position, text in enumerate(texts):
        try:
            parse(text, names)
        except ExpressionError as error:
            issues.append(FieldIssue(f"/problem/constraints/{position}", str(error)))
    if issues:
        raise InvalidInput(issues)
    return names


def proven(texts: Sequence[str], public: MultiAgentPublic) -> list[Expression]:
    """Parsed and proven convex; InvalidInput with the offending term."""
    found, issues = [], []
    couplings = len(texts) * len(public.agents) ** 2
    if couplings > MAX_COUPLINGS:
        says = f"constraints times agents squared is {couplings}; at most {MAX_COUPLINGS}"
        raise InvalidInput(says, pointer="/problem/constraints")
    for position, text in enumerate(texts):
        pointer = f"/problem/constraints/{position}"
        try:
            constraint = parse(text, public.names)
            prove_convex(constraint, public.box())
            found.append(constraint)
        except ExpressionError as error:
            issues.append(FieldIssue(pointer, str(error)))
        except NotConvex as error:
            issues.append(FieldIssue(pointer, str(error)))
    if issues:
        raise InvalidInput(issues)
    return found


def tightened(constraints: list[Expression], public: MultiAgentPublic) -> dict[str, tuple[float, float]]:
    """The ranges, tightened to what the constraints allow: smaller ranges need less noise."""
    try:
        slater_point(constraints, public.box())
    except NoSlaterPoint as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    return tightened_box(constraints, public.box())
