from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.link import Link


T = TypeVar("T", bound="RoadNetwork")


@_attrs_define
class RoadNetwork:
    """A public network. Zones are its first nodes; nodes before `first_through_node` are not passed through.

    Attributes:
        links (list[Link]):
        nodes (int):
        first_through_node (int | Unset):  Default: 1.
    """

    links: list[Link]
    nodes: int
    first_through_node: int | Unset = 1

    def to_dict(self) -> dict[str, Any]:
        links = []
        for links_item_data in self.links:
            links_item = links_item_data.to_dict()
            links.append(links_item)

        nodes = self.nodes

        first_through_node = self.first_through_node

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "links": links,
                "nodes": nodes,
            }
        )
        if first_through_node is not UNSET:
            field_dict["first_through_node"] = first_through_node

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.link import Link  # noqa: PLC0415

        d = dict(src_dict)
        links = []
        _links = d.pop("links")
        for links_item_data in _links:
            links_item = Link.from_dict(links_item_data)

            links.append(links_item)

        nodes = d.pop("nodes")

        first_through_node = d.pop("first_through_node", UNSET)

        road_network = cls(
            links=links,
            nodes=nodes,
            first_through_node=first_through_node,
        )

        return road_network
