from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.routing_public_unit import RoutingPublicUnit, check_routing_public_unit
from ..types import UNSET, Unset

T = TypeVar("T", bound="RoutingPublic")


@_attrs_define
class RoutingPublic:
    """What is published of a set of trips.

    Attributes:
        period_minutes (float):
        periods (int): Periods observed, N
        unit (RoutingPublicUnit): Whom a neighbouring dataset adds or removes
        zones (int):
        max_pair (int | None | Unset): Public bound on the trips of one pair in one period, which the content must keep
        max_total (int | None | Unset): Public bound on the trips of one period, which the content must keep
    """

    period_minutes: float
    periods: int
    unit: RoutingPublicUnit
    zones: int
    max_pair: int | None | Unset = UNSET
    max_total: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        period_minutes = self.period_minutes

        periods = self.periods

        unit: str = self.unit

        zones = self.zones

        max_pair: int | None | Unset
        if isinstance(self.max_pair, Unset):
            max_pair = UNSET
        else:
            max_pair = self.max_pair

        max_total: int | None | Unset
        if isinstance(self.max_total, Unset):
            max_total = UNSET
        else:
            max_total = self.max_total

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "period_minutes": period_minutes,
                "periods": periods,
                "unit": unit,
                "zones": zones,
            }
        )
        if max_pair is not UNSET:
            field_dict["max_pair"] = max_pair
        if max_total is not UNSET:
            field_dict["max_total"] = max_total

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        period_minutes = d.pop("period_minutes")

        periods = d.pop("periods")

        unit = check_routing_public_unit(d.pop("unit"))

        zones = d.pop("zones")

        def _parse_max_pair(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_pair = _parse_max_pair(d.pop("max_pair", UNSET))

        def _parse_max_total(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_total = _parse_max_total(d.pop("max_total", UNSET))

        routing_public = cls(
            period_minutes=period_minutes,
            periods=periods,
            unit=unit,
            zones=zones,
            max_pair=max_pair,
            max_total=max_total,
        )

        return routing_public
