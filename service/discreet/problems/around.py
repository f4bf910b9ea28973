"""An earlier job of a kind whose release tells how data of a public shape lie: figures for a plan
or a rehearsal.

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
class Around:
    """A job that has released, and what that says."""

    job_id: str
    problem: Problem
    public: Any
    plan: Plan
    profile: Profile

    def shaped(self, public: Any, pointer: str) -> Profile:
        """The profile, for a dataset of this public part. InvalidInput unless it is of the same
        shape."""
        issues = [
            FieldIssue(
                pointer,
                f"{self.job_id} released about a dataset whose {name} differs from this one's",
            )
            for name in self.problem.shape
            if getattr(self.public, name) != getattr(public, name)
        ]
        if issues:
            raise InvalidInput(issues)
        return self.profile


def profiled(
    problem: Problem, public: Any, plan: Plan, released: Released, job_id: str, pointer: str
) -> Around:
    """What a job released, as figures. InvalidInput where it tells none."""
    profile = problem.profile(public, plan, released)
    if profile is None:
        says = (
            f"what {job_id} released does not show how the data are distributed: noised counts "
            f"do, unless they are mostly noise"
        )
        raise InvalidInput(says, pointer=pointer)
    return Around(job_id, problem, public, plan, profile)
