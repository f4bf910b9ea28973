from typing import Literal

CertificateCheckName = Literal["guarantee", "inclusion", "price", "signature"]

CERTIFICATE_CHECK_NAME_VALUES: set[CertificateCheckName] = {
    "guarantee",
    "inclusion",
    "price",
    "signature",
}


def check_certificate_check_name(value: str) -> CertificateCheckName:
    if value in CERTIFICATE_CHECK_NAME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CERTIFICATE_CHECK_NAME_VALUES!r}")
