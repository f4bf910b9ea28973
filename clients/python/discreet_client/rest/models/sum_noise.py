from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="SumNoise")


@_attrs_define
class SumNoise:
    """Noise inside the sums: what is opened is then private in itself, over all rounds together.

    Attributes:
        delta (float):
        epsilon (float):
        clip (float | None | Unset): Public bound on the l2 norm of a contribution, longer ones are scaled down; from
            the boxes when not given, which a federated job cannot
    """

    delta: float
    epsilon: float
    clip: float | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        delta = self.delta

        epsilon = self.epsilon

        clip: float | None | Unset
        if isinstance(self.clip, Unset):
            clip = UNSET
        else:
            clip = self.clip

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "delta": delta,
                "epsilon": epsilon,
            }
        )
        if clip is not UNSET:
            field_dict["clip"] = clip

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        delta = d.pop("delta")

        epsilon = d.pop("epsilon")

        def _parse_clip(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        clip = _parse_clip(d.pop("clip", UNSET))

        sum_noise = cls(
            delta=delta,
            epsilon=epsilon,
            clip=clip,
        )

        return sum_noise
