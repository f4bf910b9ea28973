from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="AffineLatency")


@_attrs_define
class AffineLatency:
    """`t(y) = free_flow_time (1 + factor y / capacity)`.

    Attributes:
        type_ (Literal['affine']):
        factor (float | Unset):  Default: 1.0.
    """

    type_: Literal["affine"]
    factor: float | Unset = 1.0

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        factor = self.factor

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "type": type_,
            }
        )
        if factor is not UNSET:
            field_dict["factor"] = factor

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["affine"], d.pop("type"))
        if type_ != "affine":
            raise ValueError(f"type must match const 'affine', got '{type_}'")

        factor = d.pop("factor", UNSET)

        affine_latency = cls(
            type_=type_,
            factor=factor,
        )

        return affine_latency
