from typing import Literal

DrEnsembleDatasetMode = Literal["private", "simulation"]

DR_ENSEMBLE_DATASET_MODE_VALUES: set[DrEnsembleDatasetMode] = {
    "private",
    "simulation",
}


def check_dr_ensemble_dataset_mode(value: str) -> DrEnsembleDatasetMode:
    if value in DR_ENSEMBLE_DATASET_MODE_VALUES:
        return value
    raise TypeError(f"Unexpected value {value!r}. Expected one of {DR_ENSEMBLE_DATASET_MODE_VALUES!r}")
