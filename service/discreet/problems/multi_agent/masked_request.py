"""The fields of masked sums, and what follows from them for a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from discreet.intake.field_issues import FieldError
from discreet.problems.multi_agent import masked
from discreet.problems.multi_agent.agents import SessionAnnouncement
from discreet.problems.multi_agent.request import MultiAgentRequest
from discreet.problems.numbers import Positive
from discreet.problems.plans import Plan
from discreet_client.federation import spoken
from discreet_client.sparse_sum import exchanges as sparse
from discreet_client.sparse_sum.conversation import Step


class MaskedRequest(MultiAgentRequest):
    """A multi-agent problem whose agents may mask what they send."""

    masks: Literal["none", "sparse"] = Field(
        default="none",
        exclude_if=lambda value: value == "none",
        description="With protocol `federated`: `none`: agents send the cloud their states. "
        "`sparse`: they send masked parts of the constraints' values with noise in them, of which "
        "the cloud opens the sums alone, also when agents drop; constraints are linear then",
    )
    colluding: Positive | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="With masks: the most agents that may pool what they know with the cloud; 1 by "
        "default",
    )

    @model_validator(mode="after")
    def _masks_are_of_sessions(self) -> Self:
        if self.masks == "none" and self.colluding is not None:
            raise FieldError("colluding", "goes with masks `sparse`")
        if self.masks == "sparse" and self.protocol != "federated":
            raise FieldError("masks", "go with protocol `federated`: agents mask what they send")
        if self.masks == "sparse" and self.schedule.iterations > masked.MOST_SUMS:
            raise FieldError(
                "schedule/iterations",
                f"at most {masked.MOST_SUMS} with masks: each is a sum",
            )
        return self

    failures: ClassVar[dict[str, str]] = masked.FAILURES

    @property
    def exchanges(self) -> int:
        """Broadcasts and their answers before the agents sign."""
        steps = self.schedule.iterations
        return sparse.exchanges(steps) if self.masks == "sparse" else steps

    @property
    def server_sees(self) -> str:
        return self.seen_by_the_server if self.masks == "none" else masked.SEEN

    @property
    def needed(self) -> tuple[str, ...]:
        return (spoken.SPARSE_SUMS if self.masks == "sparse" else spoken.MULTI_AGENT,)

    @property
    def signs_parameters(self) -> bool:
        return self.masks == "sparse"

    @property
    def parameters_of_roster(self) -> bool:
        return self.masks == "sparse"

    @property
    def begins_with_all(self) -> bool:
        return self.masks == "sparse"

    @property
    def first_round_with_data(self) -> int:
        return sparse.SETTING_UP if self.masks == "sparse" else 0

    def enough(self, number: int, plan: Plan) -> int | None:
        if self.masks == "none" or not sparse.SETTING_UP <= number < self.exchanges:
            return None
        step, _ = sparse.step_of(number)
        masks = sparse.plan_of(plan.parameters["sums"])
        return masks.quorum if step is Step.VOTE else masks.minimum

    def certified_terms(self, plan: Plan) -> Mapping[str, Any]:
        return masked.certified_terms(plan) if self.masks == "sparse" else {}

    def check_masks(self, announced: SessionAnnouncement) -> None:
        """FieldError unless the agent speaks as this job does: one that knows no masks would send
        its states."""
        if (announced.masks == "sparse") is (self.masks == "sparse"):
            return
        if self.masks == "sparse":
            raise FieldError(
                "masks",
                'the sums of this job are masked: an agent announces `"masks": "sparse"`, which '
                "Python agents can from this version on; others cannot take part",
            )
        raise FieldError(
            "masks",
            "this agent takes part in masked sums alone, and in this job the cloud would see its "
            "states",
        )
