"""The problems that discreet solves: one module a kind, registered here in one line each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from discreet.problems.base import Problem
from discreet.problems.coupled_qp import CoupledQp
from discreet.problems.datasets import Dataset
from discreet.problems.dr_ensemble import DrEnsemble, DrEnsembleDataset
from discreet.problems.multi_agent import MultiAgent, MultiAgentDataset
from discreet.problems.off_policy_evaluation import OffPolicyDataset, OffPolicyEvaluation
from discreet.problems.routing import Routing, RoutingDataset

AnyProblem = Annotated[Routing | DrEnsemble | OffPolicyEvaluation | MultiAgent | CoupledQp, Field(discriminator="kind")]
"""The discriminated union of all kinds."""

AnyDataset = Annotated[
    RoutingDataset | DrEnsembleDataset | OffPolicyDataset | MultiAgentDataset, Field(discriminator="kind")
]
"""The discriminated union of their datasets."""

KINDS: dict[str, type[Problem]] = {
    "routing": Routing,
    "dr_ensemble": DrEnsemble,
    "off_policy_evaluation": OffPolicyEvaluation,
    "multi_agent": MultiAgent,
    "coupled_qp": CoupledQp,
}
DATASETS: dict[str, type[Dataset]] = {
    kind: problem.Dataset for kind, problem in KINDS.items() if problem.Dataset is not None
}
"""By kind; some have none."""
