from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.transition_row import TransitionRow


T = TypeVar("T", bound="OffPolicyContent")


@_attrs_define
class OffPolicyContent:
    """The private content.

    Attributes:
        transitions (list[TransitionRow]):
    """

    transitions: list[TransitionRow]

    def to_dict(self) -> dict[str, Any]:
        transitions = []
        for transitions_item_data in self.transitions:
            transitions_item = transitions_item_data.to_dict()
            transitions.append(transitions_item)

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "transitions": transitions,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.transition_row import TransitionRow  # noqa: PLC0415

        d = dict(src_dict)
        transitions = []
        _transitions = d.pop("transitions")
        for transitions_item_data in _transitions:
            transitions_item = TransitionRow.from_dict(transitions_item_data)

            transitions.append(transitions_item)

        off_policy_content = cls(
            transitions=transitions,
        )

        return off_policy_content
