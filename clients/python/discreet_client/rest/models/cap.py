from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Cap")


@_attrs_define
class Cap:
    """What may be spent on an account in all.

    Attributes:
        epsilon (float):
        delta (float | Unset):  Default: 0.0.
    """

    epsilon: float
    delta: float | Unset = 0.0

    def to_dict(self) -> dict[str, Any]:
        epsilon = self.epsilon

        delta = self.delta

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "epsilon": epsilon,
            }
        )
        if delta is not UNSET:
            field_dict["delta"] = delta

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        epsilon = d.pop("epsilon")

        delta = d.pop("delta", UNSET)

        cap = cls(
            epsilon=epsilon,
            delta=delta,
        )

        return cap
