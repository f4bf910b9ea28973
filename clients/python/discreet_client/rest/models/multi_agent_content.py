from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.multi_agent_content_initial_type_0 import MultiAgentContentInitialType0
    from ..models.multi_agent_content_objectives import MultiAgentContentObjectives


T = TypeVar("T", bound="MultiAgentContent")


@_attrs_define
class MultiAgentContent:
    """The private content: each agent's objective, of its own state alone, and where it starts.

    Attributes:
        objectives (MultiAgentContentObjectives):
        initial (MultiAgentContentInitialType0 | None | Unset):
    """

    objectives: MultiAgentContentObjectives
    initial: MultiAgentContentInitialType0 | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.multi_agent_content_initial_type_0 import MultiAgentContentInitialType0  # noqa: PLC0415

        objectives = self.objectives.to_dict()

        initial: dict[str, Any] | None | Unset
        if isinstance(self.initial, Unset):
            initial = UNSET
        elif isinstance(self.initial, MultiAgentContentInitialType0):
            initial = self.initial.to_dict()
        else:
            initial = self.initial

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "objectives": objectives,
            }
        )
        if initial is not UNSET:
            field_dict["initial"] = initial

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.multi_agent_content_initial_type_0 import MultiAgentContentInitialType0  # noqa: PLC0415
        from ..models.multi_agent_content_objectives import MultiAgentContentObjectives  # noqa: PLC0415

        d = dict(src_dict)
        objectives = MultiAgentContentObjectives.from_dict(d.pop("objectives"))

        def _parse_initial(data: object) -> MultiAgentContentInitialType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                initial_type_0 = MultiAgentContentInitialType0.from_dict(data)

                return initial_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(MultiAgentContentInitialType0 | None | Unset, data)

        initial = _parse_initial(d.pop("initial", UNSET))

        multi_agent_content = cls(
            objectives=objectives,
            initial=initial,
        )

        return multi_agent_content
