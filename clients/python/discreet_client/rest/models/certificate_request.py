from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define

if TYPE_CHECKING:
    from ..models.certificate_request_certificate import CertificateRequestCertificate


T = TypeVar("T", bound="CertificateRequest")


@_attrs_define
class CertificateRequest:
    """A certificate to check.

    Attributes:
        certificate (CertificateRequestCertificate):
    """

    certificate: CertificateRequestCertificate

    def to_dict(self) -> dict[str, Any]:
        certificate = self.certificate.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "certificate": certificate,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.certificate_request_certificate import CertificateRequestCertificate  # noqa: PLC0415

        d = dict(src_dict)
        certificate = CertificateRequestCertificate.from_dict(d.pop("certificate"))

        certificate_request = cls(
            certificate=certificate,
        )

        return certificate_request
