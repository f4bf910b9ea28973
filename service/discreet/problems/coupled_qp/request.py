"""The fields of a coupled quadratic program, and what follows from them alone."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from discreet.intake.items import InPieces
from discreet.problems.contents import Mode
from discreet.problems.coupled_qp import checks, exposure, methods, shares_fields
from discreet.problems.coupled_qp.data import (
    AgentData,
    Encryption,
    FederatedAgents,
    OperatorData,
    QpSteps,
    SumNoise,
    Tolerance,
)
from discreet.problems.federation import FederatedProblem
from discreet_client.exposure import Exposure as Accepted


class CoupledQpRequest(FederatedProblem):
    """The fields of `CoupledQp`, for its modules."""

    kind: Literal["coupled_qp"]
    mode: Mode = "private"
    operator: OperatorData
    agents: (
        Annotated[tuple[AgentData, ...], InPieces(max_length=checks.MAX_AGENTS)] | FederatedAgents
    )
    method: methods.Name | None = Field(default=None, description=methods.MEANING)
    steps: QpSteps | None = None
    encryption: Encryption = Encryption()
    noise: SumNoise | None = None
    exposure: Accepted | None = Field(default=None, description=exposure.MEANING)
    tolerance: Tolerance | None = 1e-3
    protocol: Literal["job", "federated", "mpc"] = "job"  # type: ignore[assignment]  # one more than other kinds
    mpc: shares_fields.ShareBounds | None = Field(
        default=None, description="Public bounds; required with protocol `mpc`"
    )

    @model_validator(mode="after")
    def _fields_of_the_protocol(self) -> Self:
        if not shares_fields.check_fields(self):
            _ = self.way  # the method fits the given fields
        return self

    @property
    def way(self) -> methods.Method:
        """The method that is named, or that follows from the given fields."""
        return methods.method_of(
            self.method,
            self.steps,
            noise=self.noise is not None,
            asks=self.tolerance is not None,
        )

    def rows(self) -> tuple[int, int]:
        return len(self.operator.c), len(self.operator.d)

    def dimension(self) -> int:
        return sum(self.rows()) + self.way.added

    def coefficients(self) -> int:
        if isinstance(self.agents, FederatedAgents):
            return self.agents.count * self.dimension()
        return sum(len(agent.a_l) * self.dimension() + agent.coefficients for agent in self.agents)
