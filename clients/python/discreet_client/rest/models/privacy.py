from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Privacy")


@_attrs_define
class Privacy:
    """The privacy budget of one job, read as exact decimals.

    Attributes:
        epsilon (float): Privacy loss; at most 9 decimals
        delta (float | Unset): Probability of exceeding it; at most 18 decimals Default: 0.0.
        unit (None | str | Unset): Must name the dataset's own unit when given
    """

    epsilon: float
    delta: float | Unset = 0.0
    unit: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        epsilon = self.epsilon

        delta = self.delta

        unit: None | str | Unset
        if isinstance(self.unit, Unset):
            unit = UNSET
        else:
            unit = self.unit

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "epsilon": epsilon,
            }
        )
        if delta is not UNSET:
            field_dict["delta"] = delta
        if unit is not UNSET:
            field_dict["unit"] = unit

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        epsilon = d.pop("epsilon")

        delta = d.pop("delta", UNSET)

        def _parse_unit(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        unit = _parse_unit(d.pop("unit", UNSET))

        privacy = cls(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
        )

        return privacy
