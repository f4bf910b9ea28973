from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="AgentData")


@_attrs_define
class AgentData:
    """One agent's part, k variables. A_u: rows of c by k; A_g: rows of d by k; A_q: any rows by k; a_l: k.

    Attributes:
        a_g (list[list[float]]):
        a_u (list[list[float]]):
        a_l (list[float]):
        upper (float | list[float]):
        a_q (list[list[float]] | Unset):
        lower (float | list[float] | Unset):
    """

    a_g: list[list[float]]
    a_u: list[list[float]]
    a_l: list[float]
    upper: float | list[float]
    a_q: list[list[float]] | Unset = UNSET
    lower: float | list[float] | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        a_g = []
        for a_g_item_data in self.a_g:
            a_g_item = a_g_item_data

            a_g.append(a_g_item)

        a_u = []
        for a_u_item_data in self.a_u:
            a_u_item = a_u_item_data

            a_u.append(a_u_item)

        a_l = self.a_l

        upper: float | list[float]
        if isinstance(self.upper, list):
            upper = self.upper

        else:
            upper = self.upper

        a_q: list[list[float]] | Unset = UNSET
        if not isinstance(self.a_q, Unset):
            a_q = []
            for a_q_item_data in self.a_q:
                a_q_item = a_q_item_data

                a_q.append(a_q_item)

        lower: float | list[float] | Unset
        if isinstance(self.lower, Unset):
            lower = UNSET
        elif isinstance(self.lower, list):
            lower = self.lower

        else:
            lower = self.lower

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "A_g": a_g,
                "A_u": a_u,
                "a_l": a_l,
                "upper": upper,
            }
        )
        if a_q is not UNSET:
            field_dict["A_q"] = a_q
        if lower is not UNSET:
            field_dict["lower"] = lower

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        a_g = []
        _a_g = d.pop("A_g")
        for a_g_item_data in _a_g:
            a_g_item = cast(list[float], a_g_item_data)

            a_g.append(a_g_item)

        a_u = []
        _a_u = d.pop("A_u")
        for a_u_item_data in _a_u:
            a_u_item = cast(list[float], a_u_item_data)

            a_u.append(a_u_item)

        a_l = cast(list[float], d.pop("a_l"))

        def _parse_upper(data: object) -> float | list[float]:
            try:
                if not isinstance(data, list):
                    raise TypeError()
                upper_type_0 = cast(list[float], data)

                return upper_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(float | list[float], data)

        upper = _parse_upper(d.pop("upper"))

        _a_q = d.pop("A_q", UNSET)
        a_q: list[list[float]] | Unset = UNSET
        if _a_q is not UNSET:
            a_q = []
            for a_q_item_data in _a_q:
                a_q_item = cast(list[float], a_q_item_data)

                a_q.append(a_q_item)

        def _parse_lower(data: object) -> float | list[float] | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                lower_type_0 = cast(list[float], data)

                return lower_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(float | list[float] | Unset, data)

        lower = _parse_lower(d.pop("lower", UNSET))

        agent_data = cls(
            a_g=a_g,
            a_u=a_u,
            a_l=a_l,
            upper=upper,
            a_q=a_q,
            lower=lower,
        )

        return agent_data
