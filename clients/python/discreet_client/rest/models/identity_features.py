from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="IdentityFeatures")


@_attrs_define
class IdentityFeatures:
    """The coordinates of x themselves, rows longer than the public `bound` shortened to it.

    Attributes:
        type_ (Literal['identity']):
        bound (float | Unset):  Default: 1.0.
    """

    type_: Literal["identity"]
    bound: float | Unset = 1.0

    def to_dict(self) -> dict[str, Any]:
        type_ = self.type_

        bound = self.bound

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "type": type_,
            }
        )
        if bound is not UNSET:
            field_dict["bound"] = bound

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        type_ = cast(Literal["identity"], d.pop("type"))
        if type_ != "identity":
            raise ValueError(f"type must match const 'identity', got '{type_}'")

        bound = d.pop("bound", UNSET)

        identity_features = cls(
            type_=type_,
            bound=bound,
        )

        return identity_features
