from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="FourierFeatures")


@_attrs_define
class FourierFeatures:
    """cos(pi c·x), c in {0, …, order}^k, x scaled from [low, high] (Konidaris, Osentoski & Thomas 2011).

    Attributes:
        high (list[float]):
        low (list[float]):
        order (int):
        type_ (Literal['fourier']):
    """

    high: list[float]
    low: list[float]
    order: int
    type_: Literal["fourier"]

    def to_dict(self) -> dict[str, Any]:
        high = self.high

        low = self.low

        order = self.order

        type_ = self.type_

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "high": high,
                "low": low,
                "order": order,
                "type": type_,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        high = cast(list[float], d.pop("high"))

        low = cast(list[float], d.pop("low"))

        order = d.pop("order")

        type_ = cast(Literal["fourier"], d.pop("type"))
        if type_ != "fourier":
            raise ValueError(f"type must match const 'fourier', got '{type_}'")

        fourier_features = cls(
            high=high,
            low=low,
            order=order,
            type_=type_,
        )

        return fourier_features
