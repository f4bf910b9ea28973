"""The problems that discreet solves: one folder per kind, registered here by its name in one
line."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import Field

from discreet.problems.base import Problem
from discreet.problems.datasets import Dataset


def _problem_of(folder: str) -> type[Problem]:
    """The class that `problem.py` of this folder defines, whose `kind` is the folder's name: the
    most derived, where it is made in steps."""
    module = import_module(f"{__name__}.{folder}.problem")
    found: list[type[Problem]] = []
    for value in vars(module).values():
        own = getattr(value, "__module__", None) == module.__name__
        if own and isinstance(value, type) and issubclass(value, Problem):
            kind = value.model_fields["kind"].annotation
            if get_args(kind) == (folder,):
                found.append(value)
    if found:
        return max(found, key=lambda one: len(one.__mro__))
    raise ImportError(f"{module.__name__} defines no Problem whose kind is {folder!r}")


KINDS: dict[str, type[Problem]] = {
    folder: _problem_of(folder)
    for folder in (
        "routing",
        "dr_ensemble",
        "off_policy_evaluation",
        "multi_agent",
        "coupled_qp",
    )
}
DATASETS: dict[str, type[Dataset]] = {
    kind: problem.Dataset for kind, problem in KINDS.items() if problem.Dataset is not None
}
"""By kind; some have none."""


def read_as_one(kind: str, publics: Sequence[Any]) -> Any:
    """The public part of a dataset, or of blocks of a source read as one dataset; None if there
    is neither."""
    if not publics:
        return None
    public = DATASETS[kind].read_public(publics[0])
    if len(publics) == 1:
        return public
    model: Any = DATASETS[kind]
    return model.combined(public, len(publics))


JOBS: ChainMap[str, type[Problem]] = ChainMap(
    KINDS, {"rehearsal": import_module(f"{__name__}.rehearsals.job").Rehearsal}
)
"""What workers run. A rehearsal is of any of the kinds, and asked for by a call of its own."""

if TYPE_CHECKING:
    AnyProblem = Problem
    AnyDataset = Dataset
else:
    AnyProblem = Annotated[reduce(or_, KINDS.values()), Field(discriminator="kind")]
    """The discriminated union of all kinds."""
    AnyDataset = Annotated[reduce(or_, DATASETS.values()), Field(discriminator="kind")]
    """The discriminated union of their datasets."""
