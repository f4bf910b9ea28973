"""Asking again: which fields of a request a release fixes, and which may still differ for free.

Post-processing of what was released costs nothing, however often it is done (Dwork & Roth 2014,
Proposition 2.1). So a request may name jobs in `release` where it would name a dataset: what these
released is finished again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import ConfigDict, Field, StringConstraints, model_validator

from discreet.errors import FieldIssue
from discreet.intake.field_issues import FieldError
from discreet.intake.items import InPieces
from discreet.privacy.units import Price
from discreet.problems.base import Problem
from discreet.problems.contents import Released
from discreet.problems.datasets import DatasetId
from discreet.problems.numbers import Budget
from discreet.problems.plans import Plan
from discreet.problems.results import Combined
from discreet_agent import canonical

MOST_RELEASES = 100
"""That one answer may be made of."""
WHERE_THE_DATA_ARE = frozenset({"kind", "dataset", "release", "source"})
"""Fields that say of what is asked, not what."""

JobId = Annotated[str, StringConstraints(min_length=1, max_length=64)]


class ProblemOnData(Problem):
    """A kind with datasets: a request names one of them, or jobs of which what was released is
    asked again."""

    model_config = ConfigDict(serialize_by_alias=True)

    places: ClassVar[tuple[tuple[str, str], ...]] = (
        ("dataset", "dataset"),
        ("release", "asked_of"),
    )
    """Names, and attributes, of the fields that say where the data are: a request has one of
    them."""

    dataset: DatasetId | None = Field(
        default=None, description="Id of a dataset of this kind; otherwise `release` is needed"
    )
    asked_of: (
        JobId
        | Annotated[tuple[JobId, ...], InPieces(min_length=1, max_length=MOST_RELEASES)]
        | None
    ) = Field(
        default=None,
        alias="release",
        description="Instead of `dataset`: one or several jobs whose release is asked again, at "
        "price 0. Fields that were fixed at the release must equal those of that job",
    )

    @property
    def first_jobs(self) -> tuple[str, ...]:
        """The jobs whose releases are asked again; empty where a release is to be made."""
        return (self.asked_of,) if isinstance(self.asked_of, str) else self.asked_of or ()

    @property
    def needs_data(self) -> bool:
        """Whether the service needs data for this, or a release about them."""
        return True

    def place_names(self, public: Any) -> Sequence[str] | None:
        """What this, with the public objects that it names, calls the places that the data have by
        number; None where it calls them by number too."""
        return None

    def means_otherwise(self, first: Any, public: Any) -> list[FieldIssue]:
        """Why the release of `first`, a problem of this kind, means something else here; both
        with the public objects that they name."""
        return []

    @model_validator(mode="after")
    def _data_or_a_release(self) -> Self:
        given = [name for name, attribute in self.places if getattr(self, attribute) is not None]
        if len(given) > 1:
            says = (
                f"not together with `{given[0]}`: either a release is asked again, or new data "
                f"are read"
            )
            raise FieldError(given[1], says)
        if self.needs_data and not given:
            source = "a dataset, a source" if len(self.places) > 2 else "either a dataset"
            raise FieldError(
                "dataset", f"{source} or `release`, the job that is asked again, is needed"
            )
        if given and not self.needs_data:
            raise FieldError(given[0], "not with protocol `federated`: the agents have the data")
        if len(set(self.first_jobs)) < len(self.first_jobs):
            raise FieldError("release", "a job is named twice")
        return self


def release_key(problem: Problem, dataset_id: str, public: Any) -> bytes:
    """32 bytes of all that a release of this problem fixes, whatever it costs: jobs of the same may
    be asked the same. `dataset_id`: of blocks the ids of all versions.

    Fields that have their default are left out, so that a later version, which has more of them,
    makes the same.
    """
    left_out = set(problem.free(public)) | WHERE_THE_DATA_ARE
    fields = problem.model_dump(mode="json", exclude_defaults=True)
    fixed = {name: value for name, value in fields.items() if name not in left_out}
    return bytes.fromhex(canonical.digest([problem.kind, dataset_id, fixed]))


def differences(first: Problem, asked: Problem, public: Any, job_id: str) -> list[FieldIssue]:
    """The fields that the first job's release fixed and that differ in the new question."""
    free = first.free(public) | WHERE_THE_DATA_ARE
    was, now = first.model_dump(mode="json"), asked.model_dump(mode="json")
    return [
        FieldIssue(f"/problem/{name}", f"fixed when {job_id} released: {_short(was[name])} there")
        for name in was
        if name not in free and was[name] != now[name]
    ]


def unlike(plans: Sequence[Plan], jobs: Sequence[str]) -> list[FieldIssue]:
    """Why releases of the same request are not the same sums: of what it left to the service (a
    clip `auto`), another budget has chosen otherwise. Empty for releases that combine."""
    first = plans[0].parameters
    return [
        FieldIssue(
            "/problem/release",
            f"{name} is {_short(first.get(name))} in {jobs[0]}, {_short(own)} in {job}",
        )
        for plan, job in zip(plans, jobs, strict=True)
        for name, own in plan.parameters.items()
        if own != first.get(name)
    ]


def plan_of(problem: Problem, public: Any, firsts: Sequence[Plan], jobs: Iterable[str]) -> Plan:
    """What asking again does, at price 0: events, noise and parameters are those of the releases,
    all else is the question's. Of several the noise is that of their mean, weighted by inverse
    variance."""
    (best, weight) = max(zip(firsts, weights(firsts), strict=True), key=lambda one: one[1])
    paid = best.total
    asked = problem.plan(public, Budget(epsilon=paid.epsilon, delta=paid.delta))
    less = math.sqrt(weight)
    return asked.model_copy(
        update={
            "events": best.events
            if less == 1
            else tuple(event.less_noise(1 / less) for event in best.events),
            "noise": tuple(one.times(less) for one in best.noise),
            "parameters": best.parameters,
            # What to expect was said of the noise that this budget buys now, which need not be what
            # was drawn.
            "advice": asked.advice if len(firsts) == 1 and asked.events == best.events else (),
            "resources": asked.resources.model_copy(
                update={"release_quantum_seconds": 0.0, "opening_seconds": 0.0}
            ),
            "price": Price.zero().to_json(),
            "released_by": tuple(jobs),
            "public_digest": best.public_digest,
        }
    )


def weights(plans: Sequence[Plan]) -> list[float]:
    """Of releases of the same sums, by the inverse of the variance of their noise; they sum to
    1."""
    if len(plans) == 1:
        return [1.0]
    inverse = [plan.events[0].deviation() ** -2 for plan in plans]
    return [one / math.fsum(inverse) for one in inverse]


def combine(problem: Problem, plan: Plan, parts: Sequence[tuple[float, Released]]) -> Released:
    """The mean of what was released several times, each with its weight; what is no sum with noise
    is that of the first, as it is the same in all of them."""
    names = problem.noised_sums(plan)
    first = parts[0][1]
    means = {
        name: np.sum([weight * released[name] for weight, released in parts], axis=0)
        for name in names
    }
    return {**first, **means}


def gain(plan: Plan, weights: Sequence[float]) -> Combined:
    """What several releases gained, for a plan that `plan_of` made from them."""
    deviation = plan.noise[0].standard_deviation
    best = deviation / math.sqrt(max(weights))
    return {"releases": len(weights), "standard_deviation": deviation, "least_alone": best}


def _short(value: Any) -> str:
    text = canonical.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:80]}…"
