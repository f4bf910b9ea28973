from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="QpSteps")


@_attrs_define
class QpSteps:
    """Steps of the shrunken primal-dual subgradient method.

    Attributes:
        iterations (int):
        dual (float | None | Unset): beta; given whenever primal is
        primal (float | list[float] | None | Unset): alpha, for all or one an agent; from the problem's constants when
            not given
        regularization (float | Unset): Added curvature; moves the answer by as much Default: 0.0.
        shrink (float | Unset): tau Default: 1.0.
    """

    iterations: int
    dual: float | None | Unset = UNSET
    primal: float | list[float] | None | Unset = UNSET
    regularization: float | Unset = 0.0
    shrink: float | Unset = 1.0

    def to_dict(self) -> dict[str, Any]:
        iterations = self.iterations

        dual: float | None | Unset
        if isinstance(self.dual, Unset):
            dual = UNSET
        else:
            dual = self.dual

        primal: float | list[float] | None | Unset
        if isinstance(self.primal, Unset):
            primal = UNSET
        elif isinstance(self.primal, list):
            primal = self.primal

        else:
            primal = self.primal

        regularization = self.regularization

        shrink = self.shrink

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "iterations": iterations,
            }
        )
        if dual is not UNSET:
            field_dict["dual"] = dual
        if primal is not UNSET:
            field_dict["primal"] = primal
        if regularization is not UNSET:
            field_dict["regularization"] = regularization
        if shrink is not UNSET:
            field_dict["shrink"] = shrink

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        iterations = d.pop("iterations")

        def _parse_dual(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        dual = _parse_dual(d.pop("dual", UNSET))

        def _parse_primal(data: object) -> float | list[float] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                primal_type_1 = cast(list[float], data)

                return primal_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(float | list[float] | None | Unset, data)

        primal = _parse_primal(d.pop("primal", UNSET))

        regularization = d.pop("regularization", UNSET)

        shrink = d.pop("shrink", UNSET)

        qp_steps = cls(
            iterations=iterations,
            dual=dual,
            primal=primal,
            regularization=regularization,
            shrink=shrink,
        )

        return qp_steps
