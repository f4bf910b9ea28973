from typing import Literal

WebhookAnswerEventsItem = Literal["budget.exhausted", "job.cancelled", "job.failed", "job.finished"]

WEBHOOK_ANSWER_EVENTS_ITEM_VALUES: set[WebhookAnswerEventsItem] = {
    "budget.exhausted",
    "job.cancelled",
    "job.failed",
    "job.finished",
}


def check_webhook_answer_events_item(value: str) -> WebhookAnswerEventsItem:
    if value in WEBHOOK_ANSWER_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {WEBHOOK_ANSWER_EVENTS_ITEM_VALUES!r}")
