"""What the API answers of requests for more of a budget."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from discreet.api.schemas import Figures


class BudgetRequestAnswer(BaseModel):
    """A request for more of a budget. It changes nothing before an owner's grant answers it."""

    id: str
    account: str
    principal: str = Field(description="Who asks")
    more: Figures = Field(description="By how much the cap shall be raised")
    reason: str
    state: Literal["open", "granted", "declined"]
    created_at: datetime
    answered_by: str | None
    answer: str | None = Field(description="What the owner said")
    answered_at: datetime | None


class BudgetRequestList(BaseModel):
    """The newest requests on a budget, at most a hundred."""

    requests: list[BudgetRequestAnswer]
