"""A job claimed by a worker, and how the worker may lose it before its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from discreet.errors import DiscreetError
from discreet.problems.base import Problem
from discreet.problems.plans import Plan
from discreet.problems.reuse import weights
from discreet.usecases.releases import First


class LostJob(DiscreetError):
    """The job was given to another worker, or ended."""

    code = "lost_job"


class CancelRequested(Exception):
    """Somebody asked for the job's end."""


class KeyUnknown(DiscreetError):
    """What the job had released is sealed under a master key that this machine does not know,
    perhaps not yet."""

    code = "master_key_unknown"

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__()
        self.job_id, self.attempt = job_id, attempt


class KeysAway(DiscreetError):
    """The place where keys lie does not answer, so that what the job had released cannot be opened.
    That is not a failure of the job."""

    code = "keys_unavailable"

    def __init__(self, job_id: str, attempt: int) -> None:
        super().__init__()
        self.job_id, self.attempt = job_id, attempt


@dataclass(frozen=True)
class Claim:
    """A job in this worker's hands. `attempt` is the fencing token."""

    job_id: str
    attempt: int
    data: tuple[str, ...]
    """The dataset that it reads; or, with `block`, the versions of all blocks, in the order in
    which they are put."""
    simulation: bool
    seed: int | None
    problem: Problem
    public: Any
    plan: Plan
    released: bytes | None
    traceparent: str | None = None
    queued_at: datetime | None = None
    block: Any = None
    """The public part of one block, as the kind's model, where `public` is that of several as one
    dataset."""
    stays: int = 0
    """How many contents of that data stay at places, from which they are fetched."""
    terms: bytes = b""
    """What a release will be bound to: `tamper_seals.release_terms`."""
    objects: Mapping[str, Mapping[str, str]] | None = None
    asked: Mapping[str, Any] | None = None
    """The problem of a dataset as it is stored, with ids where it names public objects; None of any
    other, in which private data stand: those of a simulation, or an operator's."""
    firsts: tuple[First, ...] = ()
    """The jobs that are asked again: what these released is finished, and nothing else happens."""

    @property
    def keeps_release(self) -> bool:
        """Whether its release is kept after it ends. Without a dataset all data were in the
        problem, so there is nothing to ask again."""
        return bool(self.data) and not self.firsts

    @property
    def weights(self) -> list[float]:
        """Weights of the first jobs' releases."""
        return weights([Plan.model_validate(first.plan) for first in self.firsts])


Held = Claim | KeyUnknown | KeysAway
"""A job in this worker's hands; the last two: of which what was released does not open here."""
