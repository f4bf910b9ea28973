from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

T = TypeVar("T", bound="OperatorData")


@_attrs_define
class OperatorData:
    """What the operator holds: c of the coupled objective, d of the constraints. Not published, nor told to agents.

    Attributes:
        c (list[float]):
        d (list[float]):
    """

    c: list[float]
    d: list[float]

    def to_dict(self) -> dict[str, Any]:
        c = self.c

        d = self.d

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "c": c,
                "d": d,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        c = cast(list[float], d.pop("c"))

        d = cast(list[float], d.pop("d"))

        operator_data = cls(
            c=c,
            d=d,
        )

        return operator_data
