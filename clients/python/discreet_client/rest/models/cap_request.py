from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..models.cap_request_scope import CapRequestScope, check_cap_request_scope
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.cap import Cap


T = TypeVar("T", bound="CapRequest")


@_attrs_define
class CapRequest:
    """A cap over all data of the tenant, for everybody or for one principal.

    Attributes:
        cap (Cap): What may be spent on an account in all.
        reason (str):
        scope (CapRequestScope):
        principal (None | str | Unset): With scope `principal`: whose cap; outlives its keys
    """

    cap: Cap
    reason: str
    scope: CapRequestScope
    principal: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        cap = self.cap.to_dict()

        reason = self.reason

        scope: str = self.scope

        principal: None | str | Unset
        if isinstance(self.principal, Unset):
            principal = UNSET
        else:
            principal = self.principal

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "cap": cap,
                "reason": reason,
                "scope": scope,
            }
        )
        if principal is not UNSET:
            field_dict["principal"] = principal

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cap import Cap  # noqa: PLC0415

        d = dict(src_dict)
        cap = Cap.from_dict(d.pop("cap"))

        reason = d.pop("reason")

        scope = check_cap_request_scope(d.pop("scope"))

        def _parse_principal(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        principal = _parse_principal(d.pop("principal", UNSET))

        cap_request = cls(
            cap=cap,
            reason=reason,
            scope=scope,
            principal=principal,
        )

        return cap_request
