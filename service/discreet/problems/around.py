"""An earlier job whose release shows how data of a public shape are distributed: figures for a
plan or a rehearsal.

Post-processing of what was released, so it costs nothing, whatever data it is used for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems.base import Problem
from discreet.problems.contents import Profile, Released
from discreet.problems.plans import Plan


@dataclass(frozen=True)
class EarlierRelease:
    """A job with a release, and the profile that follows from it."""

    job_id: str
    problem: Problem
    public: Any
    plan: Plan
    profile: Profile

    def shaped(self, public: Any, pointer: str) -> Profile:
        """The profile, for a dataset with this public part. InvalidInput unless the shapes
        agree."""
        issues = [
            FieldIssue(
                pointer,
                f"{self.job_id} released about a dataset with different {name} than this one",
            )
            for name in self.problem.shape
            if getattr(self.public, name) != getattr(public, name)
        ]
        if issues:
            raise InvalidInput(issues)
        return self.profile


def profiled(
    problem: Problem, public: Any, plan: Plan, released: Released, job_id: str, pointer: str
) -> EarlierRelease:
    """The figures that follow from a job's release. InvalidInput if there are none."""
    profile = problem.profile(public, plan, released)
    if profile is None:
        says = (
            f"what {job_id} released does not show how the data are distributed: noised counts "
            f"do, unless they are mostly noise"
        )
        raise InvalidInput(says, pointer=pointer)
    return EarlierRelease(job_id, problem, public, plan, profile)
