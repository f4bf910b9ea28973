from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.session_agent_answer_announcement import SessionAgentAnswerAnnouncement
    from ..models.session_agent_answer_receipt_type_0 import SessionAgentAnswerReceiptType0


T = TypeVar("T", bound="SessionAgentAnswer")


@_attrs_define
class SessionAgentAnswer:
    """An agent that has enrolled.

    Attributes:
        accepted (bool): It has the roster, and has booked its charge in its own ledger
        account (str):
        announcement (SessionAgentAnswerAnnouncement):
        enrolled_at (datetime.datetime):
        fingerprint (str):
        key (str):
        name (str):
        on_roster (bool):
        receipt (None | SessionAgentAnswerReceiptType0): What it signed of that
        unit (str):
    """

    accepted: bool
    account: str
    announcement: SessionAgentAnswerAnnouncement
    enrolled_at: datetime.datetime
    fingerprint: str
    key: str
    name: str
    on_roster: bool
    receipt: None | SessionAgentAnswerReceiptType0
    unit: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.session_agent_answer_receipt_type_0 import SessionAgentAnswerReceiptType0  # noqa: PLC0415

        accepted = self.accepted

        account = self.account

        announcement = self.announcement.to_dict()

        enrolled_at = self.enrolled_at.isoformat()

        fingerprint = self.fingerprint

        key = self.key

        name = self.name

        on_roster = self.on_roster

        receipt: dict[str, Any] | None
        if isinstance(self.receipt, SessionAgentAnswerReceiptType0):
            receipt = self.receipt.to_dict()
        else:
            receipt = self.receipt

        unit = self.unit

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "accepted": accepted,
                "account": account,
                "announcement": announcement,
                "enrolled_at": enrolled_at,
                "fingerprint": fingerprint,
                "key": key,
                "name": name,
                "on_roster": on_roster,
                "receipt": receipt,
                "unit": unit,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.session_agent_answer_announcement import SessionAgentAnswerAnnouncement  # noqa: PLC0415
        from ..models.session_agent_answer_receipt_type_0 import SessionAgentAnswerReceiptType0  # noqa: PLC0415

        d = dict(src_dict)
        accepted = d.pop("accepted")

        account = d.pop("account")

        announcement = SessionAgentAnswerAnnouncement.from_dict(d.pop("announcement"))

        enrolled_at = datetime.datetime.fromisoformat(d.pop("enrolled_at"))

        fingerprint = d.pop("fingerprint")

        key = d.pop("key")

        name = d.pop("name")

        on_roster = d.pop("on_roster")

        def _parse_receipt(data: object) -> None | SessionAgentAnswerReceiptType0:
            if data is None:
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                receipt_type_0 = SessionAgentAnswerReceiptType0.from_dict(data)

                return receipt_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SessionAgentAnswerReceiptType0, data)

        receipt = _parse_receipt(d.pop("receipt"))

        unit = d.pop("unit")

        session_agent_answer = cls(
            accepted=accepted,
            account=account,
            announcement=announcement,
            enrolled_at=enrolled_at,
            fingerprint=fingerprint,
            key=key,
            name=name,
            on_roster=on_roster,
            receipt=receipt,
            unit=unit,
        )

        session_agent_answer.additional_properties = d
        return session_agent_answer

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
