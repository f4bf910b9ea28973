from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.cap import Cap


T = TypeVar("T", bound="GrantRequest")


@_attrs_define
class GrantRequest:
    """A new cap.

    Attributes:
        cap (Cap): What may be spent on an account in all.
        reason (str):
    """

    cap: Cap
    reason: str

    def to_dict(self) -> dict[str, Any]:
        cap = self.cap.to_dict()

        reason = self.reason

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "cap": cap,
                "reason": reason,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cap import Cap  # noqa: PLC0415

        d = dict(src_dict)
        cap = Cap.from_dict(d.pop("cap"))

        reason = d.pop("reason")

        grant_request = cls(
            cap=cap,
            reason=reason,
        )

        return grant_request
