from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="NoiseSummary")


@_attrs_define
class NoiseSummary:
    """What a reader of the plan wants to know of the noise.

    Attributes:
        distribution (str):
        quantity (str):
        scale (float):
        standard_deviation (float):
    """

    distribution: str
    quantity: str
    scale: float
    standard_deviation: float

    def to_dict(self) -> dict[str, Any]:
        distribution = self.distribution

        quantity = self.quantity

        scale = self.scale

        standard_deviation = self.standard_deviation

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "distribution": distribution,
                "quantity": quantity,
                "scale": scale,
                "standard_deviation": standard_deviation,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        distribution = d.pop("distribution")

        quantity = d.pop("quantity")

        scale = d.pop("scale")

        standard_deviation = d.pop("standard_deviation")

        noise_summary = cls(
            distribution=distribution,
            quantity=quantity,
            scale=scale,
            standard_deviation=standard_deviation,
        )

        return noise_summary
