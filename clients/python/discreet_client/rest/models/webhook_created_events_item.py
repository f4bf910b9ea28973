from typing import Literal

WebhookCreatedEventsItem = Literal["budget.exhausted", "job.cancelled", "job.failed", "job.finished"]

WEBHOOK_CREATED_EVENTS_ITEM_VALUES: set[WebhookCreatedEventsItem] = {
    "budget.exhausted",
    "job.cancelled",
    "job.failed",
    "job.finished",
}


def check_webhook_created_events_item(value: str) -> WebhookCreatedEventsItem:
    if value in WEBHOOK_CREATED_EVENTS_ITEM_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {WEBHOOK_CREATED_EVENTS_ITEM_VALUES!r}")
