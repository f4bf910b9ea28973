"""The problems that discreet solves: one module a kind, registered here in one line each."""

from __future__ import annotations

from discreet.problems.base import Dataset, Problem
from discreet.problems.routing import Routing

AnyProblem = Routing
"""The discriminated union of all kinds."""

KINDS: dict[str, type[Problem]] = {"routing": Routing}
DATASETS: dict[str, type[Dataset]] = {kind: problem.Dataset for kind, problem in KINDS.items()}
