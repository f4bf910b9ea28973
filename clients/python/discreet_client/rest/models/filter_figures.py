from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.figures import Figures


T = TypeVar("T", bound="FilterFigures")


@_attrs_define
class FilterFigures:
    """A budget under one filter.

    Attributes:
        largest_request (Figures): A privacy figure.
        name (str):
        remaining (Figures): A privacy figure.
        reserved (Figures): A privacy figure.
        spent (Figures): A privacy figure.
    """

    largest_request: Figures
    name: str
    remaining: Figures
    reserved: Figures
    spent: Figures
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        largest_request = self.largest_request.to_dict()

        name = self.name

        remaining = self.remaining.to_dict()

        reserved = self.reserved.to_dict()

        spent = self.spent.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "largest_request": largest_request,
                "name": name,
                "remaining": remaining,
                "reserved": reserved,
                "spent": spent,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.figures import Figures  # noqa: PLC0415

        d = dict(src_dict)
        largest_request = Figures.from_dict(d.pop("largest_request"))

        name = d.pop("name")

        remaining = Figures.from_dict(d.pop("remaining"))

        reserved = Figures.from_dict(d.pop("reserved"))

        spent = Figures.from_dict(d.pop("spent"))

        filter_figures = cls(
            largest_request=largest_request,
            name=name,
            remaining=remaining,
            reserved=reserved,
            spent=spent,
        )

        filter_figures.additional_properties = d
        return filter_figures

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
