from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.dr_ensemble_public_unit import DrEnsemblePublicUnit, check_dr_ensemble_public_unit
from ..types import UNSET, Unset

T = TypeVar("T", bound="DrEnsemblePublic")


@_attrs_define
class DrEnsemblePublic:
    """What is published of an ensemble. With `row_change` its content is a transition matrix, else trajectories.

    Attributes:
        states (int):
        unit (DrEnsemblePublicUnit): Whom a neighbouring dataset changes
        min_probability (float | None | Unset): Floor of the transitions in the support
        participants (int | None | Unset): Given: public, and neighbours replace one. Else neighbours add or remove one
        row_change (float | None | Unset): l1 distance h of neighbouring rows: two entries move by at most h/2
        steps (int | None | Unset): Number of states of every trajectory, when it is the same and public
        support (list[list[int]] | Literal['all'] | Unset): Transitions [from, to] that are possible; all others have
            probability 0 Default: 'all'.
    """

    states: int
    unit: DrEnsemblePublicUnit
    min_probability: float | None | Unset = UNSET
    participants: int | None | Unset = UNSET
    row_change: float | None | Unset = UNSET
    steps: int | None | Unset = UNSET
    support: list[list[int]] | Literal["all"] | Unset = "all"

    def to_dict(self) -> dict[str, Any]:
        states = self.states

        unit: str = self.unit

        min_probability: float | None | Unset
        if isinstance(self.min_probability, Unset):
            min_probability = UNSET
        else:
            min_probability = self.min_probability

        participants: int | None | Unset
        if isinstance(self.participants, Unset):
            participants = UNSET
        else:
            participants = self.participants

        row_change: float | None | Unset
        if isinstance(self.row_change, Unset):
            row_change = UNSET
        else:
            row_change = self.row_change

        steps: int | None | Unset
        if isinstance(self.steps, Unset):
            steps = UNSET
        else:
            steps = self.steps

        support: list[list[int]] | Literal["all"] | Unset
        if isinstance(self.support, Unset):
            support = UNSET
        elif isinstance(self.support, list):
            support = []
            for support_type_1_item_data in self.support:
                support_type_1_item = []
                for support_type_1_item_item_data in support_type_1_item_data:
                    support_type_1_item_item: int
                    support_type_1_item_item = support_type_1_item_item_data
                    support_type_1_item.append(support_type_1_item_item)

                support.append(support_type_1_item)

        else:
            support = self.support

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "states": states,
                "unit": unit,
            }
        )
        if min_probability is not UNSET:
            field_dict["min_probability"] = min_probability
        if participants is not UNSET:
            field_dict["participants"] = participants
        if row_change is not UNSET:
            field_dict["row_change"] = row_change
        if steps is not UNSET:
            field_dict["steps"] = steps
        if support is not UNSET:
            field_dict["support"] = support

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        states = d.pop("states")

        unit = check_dr_ensemble_public_unit(d.pop("unit"))

        def _parse_min_probability(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        min_probability = _parse_min_probability(d.pop("min_probability", UNSET))

        def _parse_participants(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        participants = _parse_participants(d.pop("participants", UNSET))

        def _parse_row_change(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        row_change = _parse_row_change(d.pop("row_change", UNSET))

        def _parse_steps(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        steps = _parse_steps(d.pop("steps", UNSET))

        def _parse_support(data: object) -> list[list[int]] | Literal["all"] | Unset:
            if isinstance(data, Unset):
                return data
            support_type_0 = cast(Literal["all"], data)
            if support_type_0 != "all":
                raise ValueError(f"support_type_0 must match const 'all', got '{support_type_0}'")
            return support_type_0
            if not isinstance(data, list):
                raise TypeError()
            support_type_1 = []
            _support_type_1 = data
            for support_type_1_item_data in _support_type_1:
                support_type_1_item = []
                _support_type_1_item = support_type_1_item_data
                for support_type_1_item_item_data in _support_type_1_item:

                    def _parse_support_type_1_item_item(data: object) -> int:
                        return cast(int, data)

                    support_type_1_item_item = _parse_support_type_1_item_item(support_type_1_item_item_data)

                    support_type_1_item.append(support_type_1_item_item)

                support_type_1.append(support_type_1_item)

            return support_type_1

        support = _parse_support(d.pop("support", UNSET))

        dr_ensemble_public = cls(
            states=states,
            unit=unit,
            min_probability=min_probability,
            participants=participants,
            row_change=row_change,
            steps=steps,
            support=support,
        )

        return dr_ensemble_public
