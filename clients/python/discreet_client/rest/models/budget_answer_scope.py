from typing import Literal

BudgetAnswerScope = Literal["agent", "data", "principal", "tenant"]

BUDGET_ANSWER_SCOPE_VALUES: set[BudgetAnswerScope] = {
    "agent",
    "data",
    "principal",
    "tenant",
}


def check_budget_answer_scope(value: str) -> BudgetAnswerScope:
    if value in BUDGET_ANSWER_SCOPE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {BUDGET_ANSWER_SCOPE_VALUES!r}")
