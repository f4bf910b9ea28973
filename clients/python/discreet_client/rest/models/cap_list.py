from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.budget_answer import BudgetAnswer


T = TypeVar("T", bound="CapList")


@_attrs_define
class CapList:
    """The caps on the tenant and on its principals.

    Attributes:
        caps (list[BudgetAnswer]):
    """

    caps: list[BudgetAnswer]
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        caps = []
        for caps_item_data in self.caps:
            caps_item = caps_item_data.to_dict()
            caps.append(caps_item)

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "caps": caps,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.budget_answer import BudgetAnswer  # noqa: PLC0415

        d = dict(src_dict)
        caps = []
        _caps = d.pop("caps")
        for caps_item_data in _caps:
            caps_item = BudgetAnswer.from_dict(caps_item_data)

            caps.append(caps_item)

        cap_list = cls(
            caps=caps,
        )

        cap_list.additional_properties = d
        return cap_list

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
