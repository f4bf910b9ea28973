from typing import Literal

CertificateCheckName = Literal["guarantee", "inclusion", "price", "result", "signature", "table", "transcript"]

CERTIFICATE_CHECK_NAME_VALUES: set[CertificateCheckName] = {
    "guarantee",
    "inclusion",
    "price",
    "result",
    "signature",
    "table",
    "transcript",
}


def check_certificate_check_name(value: str) -> CertificateCheckName:
    if value in CERTIFICATE_CHECK_NAME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {CERTIFICATE_CHECK_NAME_VALUES!r}")
