from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.agent_figures import AgentFigures


T = TypeVar("T", bound="MultiAgentPublic")


@_attrs_define
class MultiAgentPublic:
    """What is published of the agents.

    Attributes:
        agents (list[AgentFigures]):
        unit (Literal['trajectory']): One agent's trajectory of states is what neighbours change
    """

    agents: list[AgentFigures]
    unit: Literal["trajectory"]

    def to_dict(self) -> dict[str, Any]:
        agents = []
        for agents_item_data in self.agents:
            agents_item = agents_item_data.to_dict()
            agents.append(agents_item)

        unit = self.unit

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "agents": agents,
                "unit": unit,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.agent_figures import AgentFigures  # noqa: PLC0415

        d = dict(src_dict)
        agents = []
        _agents = d.pop("agents")
        for agents_item_data in _agents:
            agents_item = AgentFigures.from_dict(agents_item_data)

            agents.append(agents_item)

        unit = cast(Literal["trajectory"], d.pop("unit"))
        if unit != "trajectory":
            raise ValueError(f"unit must match const 'trajectory', got '{unit}'")

        multi_agent_public = cls(
            agents=agents,
            unit=unit,
        )

        return multi_agent_public
