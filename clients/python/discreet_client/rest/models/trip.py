from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="Trip")


@_attrs_define
class Trip:
    """Trips of one pair in one period; `person` where the unit is a person.

    Attributes:
        count (int):
        destination (int):
        origin (int):
        period (int):
        person (int | str | Unset):
    """

    count: int
    destination: int
    origin: int
    period: int
    person: int | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        count = self.count

        destination = self.destination

        origin = self.origin

        period = self.period

        person: int | str | Unset
        if isinstance(self.person, Unset):
            person = UNSET
        else:
            person = self.person

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "count": count,
                "destination": destination,
                "origin": origin,
                "period": period,
            }
        )
        if person is not UNSET:
            field_dict["person"] = person

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        count = d.pop("count")

        destination = d.pop("destination")

        origin = d.pop("origin")

        period = d.pop("period")

        def _parse_person(data: object) -> int | str | Unset:
            if isinstance(data, Unset):
                return data
            return cast(int | str | Unset, data)

        person = _parse_person(d.pop("person", UNSET))

        trip = cls(
            count=count,
            destination=destination,
            origin=origin,
            period=period,
            person=person,
        )

        return trip
