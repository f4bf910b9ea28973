from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

T = TypeVar("T", bound="LimitAnswer")


@_attrs_define
class LimitAnswer:
    """A limit that the request went over.

    Attributes:
        allowed (int):
        setting (str): The setting that holds it (`DISCREET_…`), or its fixed name
        unit (str):
        came (int | None | Unset): Null where reading stopped at the limit
    """

    allowed: int
    setting: str
    unit: str
    came: int | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        allowed = self.allowed

        setting = self.setting

        unit = self.unit

        came: int | None | Unset
        if isinstance(self.came, Unset):
            came = UNSET
        else:
            came = self.came

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "allowed": allowed,
                "setting": setting,
                "unit": unit,
            }
        )
        if came is not UNSET:
            field_dict["came"] = came

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        allowed = d.pop("allowed")

        setting = d.pop("setting")

        unit = d.pop("unit")

        def _parse_came(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        came = _parse_came(d.pop("came", UNSET))

        limit_answer = cls(
            allowed=allowed,
            setting=setting,
            unit=unit,
            came=came,
        )

        limit_answer.additional_properties = d
        return limit_answer

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
