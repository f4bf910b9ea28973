from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="TabularFeatures")


@_attrs_define
class TabularFeatures:
    """One weight a state.

    Attributes:
        type_ (Literal['tabular']):
    """

    type_: Literal["tabular"]

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "type": type_,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["tabular"], d.pop("type"))
        if type_ != "tabular":
            raise ValueError(f"type must match const 'tabular', got '{type_}'")

        tabular_features = cls(
            type_=type_,
        )

        return tabular_features
