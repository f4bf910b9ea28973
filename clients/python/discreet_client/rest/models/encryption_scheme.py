from typing import Literal

EncryptionScheme = Literal["masking", "paillier"]

ENCRYPTION_SCHEME_VALUES: set[EncryptionScheme] = {
    "masking",
    "paillier",
}


def check_encryption_scheme(value: str) -> EncryptionScheme:
    if value in ENCRYPTION_SCHEME_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {ENCRYPTION_SCHEME_VALUES!r}")
