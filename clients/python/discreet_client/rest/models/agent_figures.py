from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="AgentFigures")


@_attrs_define
class AgentFigures:
    """An agent with its name in expressions.

    Attributes:
        lower (float):
        name (str):
        radius (float): Neighbouring trajectories of this agent's state differ by at most this in l2, over all steps
        upper (float):
    """

    lower: float
    name: str
    radius: float
    upper: float

    def to_dict(self) -> dict[str, Any]:
        lower = self.lower

        name = self.name

        radius = self.radius

        upper = self.upper

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "lower": lower,
                "name": name,
                "radius": radius,
                "upper": upper,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        lower = d.pop("lower")

        name = d.pop("name")

        radius = d.pop("radius")

        upper = d.pop("upper")

        agent_figures = cls(
            lower=lower,
            name=name,
            radius=radius,
            upper=upper,
        )

        return agent_figures
