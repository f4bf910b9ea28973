"""Answers about requests for a larger budget."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from discreet.api.schemas import Figures


class BudgetRequestAnswer(BaseModel):
    """A request for a larger budget. It changes nothing until an owner grants it."""

    id: str
    account: str
    principal: str = Field(description="Who asks")
    more: Figures = Field(description="How much the cap should be raised by")
    reason: str
    state: Literal["open", "granted", "declined"]
    created_at: datetime
    answered_by: str | None
    answer: str | None = Field(description="The owner's reason")
    answered_at: datetime | None


class BudgetRequestList(BaseModel):
    """The newest requests on a budget, at most a hundred."""

    requests: list[BudgetRequestAnswer]
