from typing import Literal

FederationTermsOnMissing = Literal["abort", "finish"]

FEDERATION_TERMS_ON_MISSING_VALUES: set[FederationTermsOnMissing] = {
    "abort",
    "finish",
}


def check_federation_terms_on_missing(value: str) -> FederationTermsOnMissing:
    if value in FEDERATION_TERMS_ON_MISSING_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {FEDERATION_TERMS_ON_MISSING_VALUES!r}")
