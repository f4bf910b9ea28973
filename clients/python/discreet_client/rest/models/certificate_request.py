from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.certificate_request_certificate import CertificateRequestCertificate
    from ..models.certificate_request_result_type_0 import CertificateRequestResultType0
    from ..models.certificate_request_tables import CertificateRequestTables


T = TypeVar("T", bound="CertificateRequest")


@_attrs_define
class CertificateRequest:
    """A certificate to check, alone or with the result that it shall bind.

    Attributes:
        certificate (CertificateRequestCertificate):
        result (CertificateRequestResultType0 | None | Unset): As `GET /v1/jobs/{id}/result` gave it
        tables (CertificateRequestTables | Unset): SHA-256 of its Parquet files by name, hexadecimal
    """

    certificate: CertificateRequestCertificate
    result: CertificateRequestResultType0 | None | Unset = UNSET
    tables: CertificateRequestTables | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.certificate_request_result_type_0 import CertificateRequestResultType0  # noqa: PLC0415

        certificate = self.certificate.to_dict()

        result: dict[str, Any] | None | Unset
        if isinstance(self.result, Unset):
            result = UNSET
        elif isinstance(self.result, CertificateRequestResultType0):
            result = self.result.to_dict()
        else:
            result = self.result

        tables: dict[str, Any] | Unset = UNSET
        if not isinstance(self.tables, Unset):
            tables = self.tables.to_dict()

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "certificate": certificate,
            }
        )
        if result is not UNSET:
            field_dict["result"] = result
        if tables is not UNSET:
            field_dict["tables"] = tables

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.certificate_request_certificate import CertificateRequestCertificate  # noqa: PLC0415
        from ..models.certificate_request_result_type_0 import CertificateRequestResultType0  # noqa: PLC0415
        from ..models.certificate_request_tables import CertificateRequestTables  # noqa: PLC0415

        d = dict(src_dict)
        certificate = CertificateRequestCertificate.from_dict(d.pop("certificate"))

        def _parse_result(data: object) -> CertificateRequestResultType0 | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                result_type_0 = CertificateRequestResultType0.from_dict(data)

                return result_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(CertificateRequestResultType0 | None | Unset, data)

        result = _parse_result(d.pop("result", UNSET))

        _tables = d.pop("tables", UNSET)
        tables: CertificateRequestTables | Unset
        if isinstance(_tables, Unset):
            tables = UNSET
        else:
            tables = CertificateRequestTables.from_dict(_tables)

        certificate_request = cls(
            certificate=certificate,
            result=result,
            tables=tables,
        )

        return certificate_request
