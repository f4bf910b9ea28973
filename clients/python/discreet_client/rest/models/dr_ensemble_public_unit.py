from typing import Literal

DrEnsemblePublicUnit = Literal["participant", "row"]

DR_ENSEMBLE_PUBLIC_UNIT_VALUES: set[DrEnsemblePublicUnit] = {
    "participant",
    "row",
}


def check_dr_ensemble_public_unit(value: str) -> DrEnsemblePublicUnit:
    if value in DR_ENSEMBLE_PUBLIC_UNIT_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DR_ENSEMBLE_PUBLIC_UNIT_VALUES!r}")
