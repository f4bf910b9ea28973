from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="DrEnsembleContent")


@_attrs_define
class DrEnsembleContent:
    """The private content: state sequences, one a participant, or a transition matrix.

    Attributes:
        trajectories (list[list[int]] | None | Unset):
        transitions (list[list[float]] | None | Unset):
    """

    trajectories: list[list[int]] | None | Unset = UNSET
    transitions: list[list[float]] | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        trajectories: list[list[int]] | None | Unset
        if isinstance(self.trajectories, Unset):
            trajectories = UNSET
        elif isinstance(self.trajectories, list):
            trajectories = []
            for trajectories_type_0_item_data in self.trajectories:
                trajectories_type_0_item = trajectories_type_0_item_data

                trajectories.append(trajectories_type_0_item)

        else:
            trajectories = self.trajectories

        transitions: list[list[float]] | None | Unset
        if isinstance(self.transitions, Unset):
            transitions = UNSET
        elif isinstance(self.transitions, list):
            transitions = []
            for transitions_type_0_item_data in self.transitions:
                transitions_type_0_item = transitions_type_0_item_data

                transitions.append(transitions_type_0_item)

        else:
            transitions = self.transitions

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if trajectories is not UNSET:
            field_dict["trajectories"] = trajectories
        if transitions is not UNSET:
            field_dict["transitions"] = transitions

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)

        def _parse_trajectories(data: object) -> list[list[int]] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                trajectories_type_0 = []
                _trajectories_type_0 = data
                for trajectories_type_0_item_data in _trajectories_type_0:
                    trajectories_type_0_item = cast(list[int], trajectories_type_0_item_data)

                    trajectories_type_0.append(trajectories_type_0_item)

                return trajectories_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[list[int]] | None | Unset, data)

        trajectories = _parse_trajectories(d.pop("trajectories", UNSET))

        def _parse_transitions(data: object) -> list[list[float]] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                transitions_type_0 = []
                _transitions_type_0 = data
                for transitions_type_0_item_data in _transitions_type_0:
                    transitions_type_0_item = cast(list[float], transitions_type_0_item_data)

                    transitions_type_0.append(transitions_type_0_item)

                return transitions_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[list[float]] | None | Unset, data)

        transitions = _parse_transitions(d.pop("transitions", UNSET))

        dr_ensemble_content = cls(
            trajectories=trajectories,
            transitions=transitions,
        )

        return dr_ensemble_content
