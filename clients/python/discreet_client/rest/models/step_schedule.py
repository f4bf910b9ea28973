from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

T = TypeVar("T", bound="StepSchedule")


@_attrs_define
class StepSchedule:
    """gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, 0 < c2 < c1, c1 + c2 < 1 (eqs 7 and 8), and how many steps.

    Attributes:
        alpha (float):
        c1 (float):
        c2 (float):
        gamma (float):
        iterations (int):
    """

    alpha: float
    c1: float
    c2: float
    gamma: float
    iterations: int

    def to_dict(self) -> dict[str, Any]:
        alpha = self.alpha

        c1 = self.c1

        c2 = self.c2

        gamma = self.gamma

        iterations = self.iterations

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "alpha": alpha,
                "c1": c1,
                "c2": c2,
                "gamma": gamma,
                "iterations": iterations,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        alpha = d.pop("alpha")

        c1 = d.pop("c1")

        c2 = d.pop("c2")

        gamma = d.pop("gamma")

        iterations = d.pop("iterations")

        step_schedule = cls(
            alpha=alpha,
            c1=c1,
            c2=c2,
            gamma=gamma,
            iterations=iterations,
        )

        return step_schedule
