from typing import Literal

DrEnsemblePolicy = Literal["average", "digamma", "exact", "taylor"]

DR_ENSEMBLE_POLICY_VALUES: set[DrEnsemblePolicy] = {
    "average",
    "digamma",
    "exact",
    "taylor",
}


def check_dr_ensemble_policy(value: str) -> DrEnsemblePolicy:
    if value in DR_ENSEMBLE_POLICY_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DR_ENSEMBLE_POLICY_VALUES!r}")
