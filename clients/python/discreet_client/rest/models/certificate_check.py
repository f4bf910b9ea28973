from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.certificate_check_name import CertificateCheckName, check_certificate_check_name

T = TypeVar("T", bound="CertificateCheck")


@_attrs_define
class CertificateCheck:
    """One thing that was looked at; `holds` is null when it could not be.

    Attributes:
        detail (str):
        holds (bool | None):
        name (CertificateCheckName):
    """

    detail: str
    holds: bool | None
    name: CertificateCheckName
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        detail = self.detail

        holds: bool | None
        holds = self.holds

        name: str = self.name

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "detail": detail,
                "holds": holds,
                "name": name,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        detail = d.pop("detail")

        def _parse_holds(data: object) -> bool | None:
            if data is None:
                return data
            return cast(bool | None, data)

        holds = _parse_holds(d.pop("holds"))

        name = check_certificate_check_name(d.pop("name"))

        certificate_check = cls(
            detail=detail,
            holds=holds,
            name=name,
        )

        certificate_check.additional_properties = d
        return certificate_check

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
