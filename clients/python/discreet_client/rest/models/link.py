from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="Link")


@_attrs_define
class Link:
    """A directed link of the network; nodes are 1..n.

    Attributes:
        capacity (float):
        free_flow_time (float):
        head (int):
        tail (int):
    """

    capacity: float
    free_flow_time: float
    head: int
    tail: int

    def to_dict(self) -> dict[str, Any]:
        capacity = self.capacity

        free_flow_time = self.free_flow_time

        head = self.head

        tail = self.tail

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "capacity": capacity,
                "free_flow_time": free_flow_time,
                "head": head,
                "tail": tail,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        capacity = d.pop("capacity")

        free_flow_time = d.pop("free_flow_time")

        head = d.pop("head")

        tail = d.pop("tail")

        link = cls(
            capacity=capacity,
            free_flow_time=free_flow_time,
            head=head,
            tail=tail,
        )

        return link
