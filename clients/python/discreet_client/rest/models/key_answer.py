from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.key_answer_role import KeyAnswerRole, check_key_answer_role

T = TypeVar("T", bound="KeyAnswer")


@_attrs_define
class KeyAnswer:
    """A new API key; `key` is shown this once.

    Attributes:
        expires_at (datetime.datetime | None):
        id (str):
        key (str):
        principal (str):
        role (KeyAnswerRole):
        tenant (str):
    """

    expires_at: datetime.datetime | None
    id: str
    key: str
    principal: str
    role: KeyAnswerRole
    tenant: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        expires_at: None | str
        if isinstance(self.expires_at, datetime.datetime):
            expires_at = self.expires_at.isoformat()
        else:
            expires_at = self.expires_at

        id = self.id

        key = self.key

        principal = self.principal

        role: str = self.role

        tenant = self.tenant

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "expires_at": expires_at,
                "id": id,
                "key": key,
                "principal": principal,
                "role": role,
                "tenant": tenant,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_expires_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                expires_at_type_0 = datetime.datetime.fromisoformat(data)

                return expires_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        expires_at = _parse_expires_at(d.pop("expires_at"))

        id = d.pop("id")

        key = d.pop("key")

        principal = d.pop("principal")

        role = check_key_answer_role(d.pop("role"))

        tenant = d.pop("tenant")

        key_answer = cls(
            expires_at=expires_at,
            id=id,
            key=key,
            principal=principal,
            role=role,
            tenant=tenant,
        )

        key_answer.additional_properties = d
        return key_answer

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
