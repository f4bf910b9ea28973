"""Reads the job in the header of a task."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_job(header: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Problem, public part and plan of a job."""
    from discreet.problems import DATASETS, JOBS  # noqa: PLC0415
    from discreet.problems.plans import Plan  # noqa: PLC0415

    kind = header["kind"]
    problem = JOBS[kind].model_validate(header["problem"])
    public = None if header["public"] is None else DATASETS[kind].read_public(header["public"])
    return problem, public, Plan.model_validate(header["plan"])
