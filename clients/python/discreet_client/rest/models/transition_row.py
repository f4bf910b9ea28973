from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="TransitionRow")


@_attrs_define
class TransitionRow:
    """One transition; `state, next_state` or `x, x_next`, and both probabilities of the action or none.

    Attributes:
        reward (float):
        step (int):
        terminal (bool):
        trajectory (int | str):
        action (Any | Unset):
        behaviour (float | Unset):
        next_state (int | Unset):
        state (int | Unset):
        target (float | Unset):
        x (list[float] | Unset):
        x_next (list[float] | Unset):
    """

    reward: float
    step: int
    terminal: bool
    trajectory: int | str
    action: Any | Unset = UNSET
    behaviour: float | Unset = UNSET
    next_state: int | Unset = UNSET
    state: int | Unset = UNSET
    target: float | Unset = UNSET
    x: list[float] | Unset = UNSET
    x_next: list[float] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        reward = self.reward

        step = self.step

        terminal = self.terminal

        trajectory: int | str
        trajectory = self.trajectory

        action = self.action

        behaviour = self.behaviour

        next_state = self.next_state

        state = self.state

        target = self.target

        x: list[float] | Unset = UNSET
        if not isinstance(self.x, Unset):
            x = self.x

        x_next: list[float] | Unset = UNSET
        if not isinstance(self.x_next, Unset):
            x_next = self.x_next

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "reward": reward,
                "step": step,
                "terminal": terminal,
                "trajectory": trajectory,
            }
        )
        if action is not UNSET:
            field_dict["action"] = action
        if behaviour is not UNSET:
            field_dict["behaviour"] = behaviour
        if next_state is not UNSET:
            field_dict["next_state"] = next_state
        if state is not UNSET:
            field_dict["state"] = state
        if target is not UNSET:
            field_dict["target"] = target
        if x is not UNSET:
            field_dict["x"] = x
        if x_next is not UNSET:
            field_dict["x_next"] = x_next

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        reward = d.pop("reward")

        step = d.pop("step")

        terminal = d.pop("terminal")

        def _parse_trajectory(data: object) -> int | str:
            return cast(int | str, data)

        trajectory = _parse_trajectory(d.pop("trajectory"))

        action = d.pop("action", UNSET)

        behaviour = d.pop("behaviour", UNSET)

        next_state = d.pop("next_state", UNSET)

        state = d.pop("state", UNSET)

        target = d.pop("target", UNSET)

        x = cast(list[float], d.pop("x", UNSET))

        x_next = cast(list[float], d.pop("x_next", UNSET))

        transition_row = cls(
            reward=reward,
            step=step,
            terminal=terminal,
            trajectory=trajectory,
            action=action,
            behaviour=behaviour,
            next_state=next_state,
            state=state,
            target=target,
            x=x,
            x_next=x_next,
        )

        return transition_row
