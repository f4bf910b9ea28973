"""The answer of a coupled quadratic program: whether the agents have found their joint optimum, and
its cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discreet.problems.coupled_qp.result import CoupledQpResult
from discreet.problems.headlines import Headline, headline
from discreet_client import intervals


def headlines(problem: Mapping[str, Any], result: Mapping[str, Any]) -> list[Headline]:
    """The joint cost if the server knows it; otherwise whether each agent holds its optimum."""
    if problem.get("protocol") == "mpc":
        return [_on_shares(result)]
    if "objective" in result:
        rounds = f", after {result['rounds']:,} rounds"
        return [
            headline(
                CoupledQpResult,
                result,
                "objective",
                "All agents together come to a cost of ",
                rounds,
            )
        ]
    rounds = f"{result['rounds']:,} rounds"
    if intervals.is_not_converged(result):
        return [
            Headline("The sums had not settled after ", rounds, ": what agents hold is no optimum")
        ]
    if result.get("status") == "converged":
        regularized = problem.get("method") == "rpds"
        optimum = "the regularized problem's optimum" if regularized else "the joint optimum"
        return [
            Headline(
                "The agents have settled after ",
                rounds,
                f": each holds its own part of {optimum}, unless one of them lied",
            )
        ]
    return [
        Headline(
            "The agents have come through ",
            rounds,
            "; nobody was asked whether the sums had settled",
        )
    ]


def _on_shares(result: Mapping[str, Any]) -> Headline:
    if result.get("status") == "iteration_limit":
        return Headline(
            "The agents' computation on shares is not within the tolerance",
            "",
            ": it takes more steps or closer bounds, or its limit cannot be kept; what agents hold "
            "is no optimum",
        )
    if result.get("status") == "infeasible":
        return Headline(
            "The limit cannot be kept in every hour", "", ": what agents hold is no optimum"
        )
    if "objective" in result:
        return headline(
            CoupledQpResult, result, "objective", "All agents together come to a cost of ", ""
        )
    if result.get("status") == "converged":
        return Headline(
            "The agents have computed on shares",
            "",
            ": each holds its own part of the joint optimum, unless one has changed its program",
        )
    return Headline(
        "The agents have computed on shares", "", "; nobody was asked how near the optimum is"
    )
