"""Shared constraints: parsing, proofs of convexity, and the ranges that they imply."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.multi_agent.dataset import MAX_CHARACTERS, MultiAgentPublic
from discreet.solvers.saddle.convexity import (
    NoSlaterPoint,
    NotConvex,
    TooManyEntries,
    prove_convex,
    prove_convex_sum,
    shaved_box,
    slater_point,
    strict_point,
    tightened_box,
)
from discreet.solvers.saddle.saddle_point import saddle_problem
from discreet_client.expressions import FUNCTIONS, Expression, ExpressionError, parse

MAX_COUPLINGS = 10_000
"""The most constraints times squared agents for which a conic solver tightens ranges and every pair
is examined."""


def term_by_term(constraints: Sequence[Any], public: MultiAgentPublic) -> bool:
    """Whether a problem is planned term by term: if states are vectors, or agents too many to
    examine all pairs."""
    return not public.plain or len(constraints) * len(public.agents) ** 2 > MAX_COUPLINGS


def read(text: str, names: Sequence[str]) -> Expression:
    """A parsed constraint; ExpressionError if it is not an expression."""
    return parse(text, names, most_characters=MAX_CHARACTERS, most_nodes=MAX_CHARACTERS)


def names_in(texts: Sequence[str]) -> list[str]:
    """The agents that constraints name; InvalidInput if a constraint is not an expression."""
    words = {word for text in texts for word in re.findall(r"[A-Za-z_][A-Za-z0-9_]*", text)}
    names = sorted(words - set(FUNCTIONS))
    issues = []
    for position, text in enumerate(texts):
        try:
            read(text, names)
        except ExpressionError as error:
            issues.append(FieldIssue(f"/problem/constraints/{position}", str(error)))
    if issues:
        raise InvalidInput(issues)
    return names


def proven(texts: Sequence[str], public: MultiAgentPublic) -> list[Expression]:
    """Parsed and proven convex; InvalidInput with the offending term."""
    found, issues = [], []
    prove = prove_convex_sum if term_by_term(texts, public) else prove_convex
    for position, text in enumerate(texts):
        pointer = f"/problem/constraints/{position}"
        try:
            constraint = read(text, public.names)
            prove(constraint, public.box())
            found.append(constraint)
        except (ExpressionError, NotConvex, TooManyEntries) as error:
            issues.append(FieldIssue(pointer, str(error)))
    if issues:
        raise InvalidInput(issues)
    return found


def tightened(
    constraints: list[Expression], public: MultiAgentPublic
) -> dict[str, tuple[float, float]]:
    """The ranges, tightened by the constraints: smaller ranges need less noise."""
    if term_by_term(constraints, public):
        return _shaved(constraints, public)
    try:
        slater_point(constraints, public.box())
    except NoSlaterPoint as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    return tightened_box(constraints, public.box())


def _shaved(
    constraints: list[Expression], public: MultiAgentPublic
) -> dict[str, tuple[float, float]]:
    groups = [agent.group() for agent in public.agents]
    try:
        strict_point(
            saddle_problem({}, constraints, public.names, public.box(), groups), constraints
        )
    except (NoSlaterPoint, ExpressionError) as error:
        raise InvalidInput(str(error), pointer="/problem/constraints") from None
    return shaved_box(constraints, public.box())
