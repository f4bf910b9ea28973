from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.webhook_answer_events_item import WebhookAnswerEventsItem, check_webhook_answer_events_item

T = TypeVar("T", bound="WebhookAnswer")


@_attrs_define
class WebhookAnswer:
    """A webhook. Its secret is never returned again.

    Attributes:
        created_at (datetime.datetime):
        disabled_at (datetime.datetime | None): Nothing is sent since then: it failed for too long, or said 410
        events (list[WebhookAnswerEventsItem]):
        failing_since (datetime.datetime | None): The first delivery that failed since the last that did not
        id (str):
        last_error (None | str): `timeout`, `no_connection`, `address_refused`, `secret_unreadable` or `status_` and the
            number
        url (str):
    """

    created_at: datetime.datetime
    disabled_at: datetime.datetime | None
    events: list[WebhookAnswerEventsItem]
    failing_since: datetime.datetime | None
    id: str
    last_error: None | str
    url: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        created_at = self.created_at.isoformat()

        disabled_at: None | str
        if isinstance(self.disabled_at, datetime.datetime):
            disabled_at = self.disabled_at.isoformat()
        else:
            disabled_at = self.disabled_at

        events = []
        for events_item_data in self.events:
            events_item: str = events_item_data
            events.append(events_item)

        failing_since: None | str
        if isinstance(self.failing_since, datetime.datetime):
            failing_since = self.failing_since.isoformat()
        else:
            failing_since = self.failing_since

        id = self.id

        last_error: None | str
        last_error = self.last_error

        url = self.url

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "disabled_at": disabled_at,
                "events": events,
                "failing_since": failing_since,
                "id": id,
                "last_error": last_error,
                "url": url,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        def _parse_disabled_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                disabled_at_type_0 = datetime.datetime.fromisoformat(data)

                return disabled_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        disabled_at = _parse_disabled_at(d.pop("disabled_at"))

        events = []
        _events = d.pop("events")
        for events_item_data in _events:
            events_item = check_webhook_answer_events_item(events_item_data)

            events.append(events_item)

        def _parse_failing_since(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                failing_since_type_0 = datetime.datetime.fromisoformat(data)

                return failing_since_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        failing_since = _parse_failing_since(d.pop("failing_since"))

        id = d.pop("id")

        def _parse_last_error(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        last_error = _parse_last_error(d.pop("last_error"))

        url = d.pop("url")

        webhook_answer = cls(
            created_at=created_at,
            disabled_at=disabled_at,
            events=events,
            failing_since=failing_since,
            id=id,
            last_error=last_error,
            url=url,
        )

        webhook_answer.additional_properties = d
        return webhook_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
