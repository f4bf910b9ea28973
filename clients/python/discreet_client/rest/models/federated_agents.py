from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="FederatedAgents")


@_attrs_define
class FederatedAgents:
    """How many agents there will be, and public dimensions of what they sum.

    Attributes:
        constraints (int): Rows of A_g, entries of d
        count (int):
        coupled (int): Rows of A_u, entries of c
    """

    constraints: int
    count: int
    coupled: int

    def to_dict(self) -> dict[str, Any]:
        constraints = self.constraints

        count = self.count

        coupled = self.coupled

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "constraints": constraints,
                "count": count,
                "coupled": coupled,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        constraints = d.pop("constraints")

        count = d.pop("count")

        coupled = d.pop("coupled")

        federated_agents = cls(
            constraints=constraints,
            count=count,
            coupled=coupled,
        )

        return federated_agents
