from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.trip import Trip


T = TypeVar("T", bound="RoutingContent")


@_attrs_define
class RoutingContent:
    """The private content.

    Attributes:
        trips (list[Trip]):
    """

    trips: list[Trip]

    def to_dict(self) -> dict[str, Any]:
        trips = []
        for trips_item_data in self.trips:
            trips_item = trips_item_data.to_dict()
            trips.append(trips_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "trips": trips,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.trip import Trip  # noqa: PLC0415

        d = dict(src_dict)
        trips = []
        _trips = d.pop("trips")
        for trips_item_data in _trips:
            trips_item = Trip.from_dict(trips_item_data)

            trips.append(trips_item)

        routing_content = cls(
            trips=trips,
        )

        return routing_content
