from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="BprLatency")


@_attrs_define
class BprLatency:
    """`t(y) = free_flow_time (1 + b (y / capacity)^power)`, Bureau of Public Roads 1964.

    Attributes:
        type_ (Literal['bpr']):
        b (float | Unset):  Default: 0.15.
        power (float | Unset):  Default: 4.0.
    """

    type_: Literal["bpr"]
    b: float | Unset = 0.15
    power: float | Unset = 4.0

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        b = self.b

        power = self.power

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "type": type_,
            }
        )
        if b is not UNSET:
            field_dict["b"] = b
        if power is not UNSET:
            field_dict["power"] = power

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["bpr"], d.pop("type"))
        if type_ != "bpr":
            raise ValueError(f"type must match const 'bpr', got '{type_}'")

        b = d.pop("b", UNSET)

        power = d.pop("power", UNSET)

        bpr_latency = cls(
            type_=type_,
            b=b,
            power=power,
        )

        return bpr_latency
