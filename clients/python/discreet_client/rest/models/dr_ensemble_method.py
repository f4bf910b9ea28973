from typing import Literal

DrEnsembleMethod = Literal["auto", "counts", "dirichlet"]

DR_ENSEMBLE_METHOD_VALUES: set[DrEnsembleMethod] = {
    "auto",
    "counts",
    "dirichlet",
}


def check_dr_ensemble_method(value: str) -> DrEnsembleMethod:
    if value in DR_ENSEMBLE_METHOD_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DR_ENSEMBLE_METHOD_VALUES!r}")
