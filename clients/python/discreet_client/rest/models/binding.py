from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.binding_cap import BindingCap
    from ..models.binding_largest import BindingLargest
    from ..models.binding_requested import BindingRequested
    from ..models.binding_reserved import BindingReserved
    from ..models.binding_spent import BindingSpent


T = TypeVar("T", bound="Binding")


@_attrs_define
class Binding:
    """The cap that does not let a request pass. Figures are {epsilon, delta}.

    Attributes:
        account (str):
        cap (BindingCap):
        largest (BindingLargest): The largest request that would pass
        requested (BindingRequested):
        reserved (BindingReserved):
        spent (BindingSpent):
        scope (None | str | Unset): `tenant` or `principal` where such a cap binds
        subject (None | str | Unset): Whose cap it is
    """

    account: str
    cap: BindingCap
    largest: BindingLargest
    requested: BindingRequested
    reserved: BindingReserved
    spent: BindingSpent
    scope: None | str | Unset = UNSET
    subject: None | str | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        account = self.account

        cap = self.cap.to_dict()

        largest = self.largest.to_dict()

        requested = self.requested.to_dict()

        reserved = self.reserved.to_dict()

        spent = self.spent.to_dict()

        scope: None | str | Unset
        if isinstance(self.scope, Unset):
            scope = UNSET
        else:
            scope = self.scope

        subject: None | str | Unset
        if isinstance(self.subject, Unset):
            subject = UNSET
        else:
            subject = self.subject

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "account": account,
                "cap": cap,
                "largest": largest,
                "requested": requested,
                "reserved": reserved,
                "spent": spent,
            }
        )
        if scope is not UNSET:
            field_dict["scope"] = scope
        if subject is not UNSET:
            field_dict["subject"] = subject

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.binding_cap import BindingCap  # noqa: PLC0415
        from ..models.binding_largest import BindingLargest  # noqa: PLC0415
        from ..models.binding_requested import BindingRequested  # noqa: PLC0415
        from ..models.binding_reserved import BindingReserved  # noqa: PLC0415
        from ..models.binding_spent import BindingSpent  # noqa: PLC0415

        d = dict(src_dict)
        account = d.pop("account")

        cap = BindingCap.from_dict(d.pop("cap"))

        largest = BindingLargest.from_dict(d.pop("largest"))

        requested = BindingRequested.from_dict(d.pop("requested"))

        reserved = BindingReserved.from_dict(d.pop("reserved"))

        spent = BindingSpent.from_dict(d.pop("spent"))

        def _parse_scope(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        scope = _parse_scope(d.pop("scope", UNSET))

        def _parse_subject(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        subject = _parse_subject(d.pop("subject", UNSET))

        binding = cls(
            account=account,
            cap=cap,
            largest=largest,
            requested=requested,
            reserved=reserved,
            spent=spent,
            scope=scope,
            subject=subject,
        )

        binding.additional_properties = d
        return binding

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
