"""How a child may fail, each with its code and what is known of it, and the limits that it was
given."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import dataclass

from discreet.errors import DiscreetError
from discreet.isolation.attempts import Isolation, Level
from discreet.isolation.frames import OUT_OF_MEMORY


class ChildFailed(DiscreetError):
    """The child ended without a result, and it is not known why."""

    code = "child_failed"

    def __init__(self, detail: str | None = None, *, trace: str | None = None) -> None:
        super().__init__(detail)
        self.trace = trace
        """Where post-processing failed; there is none for work on private data."""


class MemoryLimit(ChildFailed):
    """The child asked for more memory than it may have."""

    code = "memory_limit"


class CpuLimit(ChildFailed):
    """The child used up its processor time."""

    code = "cpu_limit"


class WallLimit(ChildFailed):
    """The child was not done in time, and was ended."""

    code = "wall_limit"


class Crashed(ChildFailed):
    """A signal ended the child."""

    code = "child_crashed"


class Raised(ChildFailed):
    """An error ended the child."""

    code = "child_raised"


class NotStarted(ChildFailed):
    """No child can be started."""

    code = "child_not_started"


class NotIsolated(ChildFailed):
    """Children are isolated less on this machine than the settings demand."""

    code = "not_isolated"

    def __init__(self, isolation: Isolation, least: Level) -> None:
        super().__init__(
            f"a child is isolated at level {isolation.level} here, not {least}: it reaches "
            f"{', '.join(isolation.reached)} (DISCREET_LEAST_ISOLATION, docs/security.md)",
        )


@dataclass(frozen=True)
class Limits:
    """What one child may take. `file_bytes`: the length to which it may write files that it was
    given. `answer_bytes`: what it may say in all, which the parent holds in memory; a child sends
    more than it ever had. None: `memory_bytes`. `growth_bytes`: memory beyond what a child begins
    with; 0 where `memory_bytes` alone limits it.
    """

    memory_bytes: int
    cpu_seconds: int
    wall_seconds: float
    file_bytes: int = 0
    answer_bytes: int | None = None
    growth_bytes: int = 0

    @property
    def most_said(self) -> int:
        return self.memory_bytes if self.answer_bytes is None else self.answer_bytes

    @property
    def most_memory(self) -> str:
        """The limit of memory in words."""
        beyond = " beyond what it begins with"
        return (
            f"{self.growth_bytes} bytes{beyond}"
            if self.growth_bytes
            else f"{self.memory_bytes} bytes"
        )


def cause(report: bytes, limits: Limits) -> ChildFailed:
    """Why a child ended without a result, from its fork server's report; empty if there is none."""
    if not report:
        return NotStarted("the process that starts children is gone, and its children with it")
    told = json.loads(report)
    status = os.waitstatus_to_exitcode(told["status"])
    if status == OUT_OF_MEMORY:
        return MemoryLimit(f"the child asked for more memory than {limits.most_memory}")
    # The kernel ends by SIGKILL what goes on after SIGXCPU.
    if status == -signal.SIGXCPU or (
        status == -signal.SIGKILL and told["cpu_seconds"] >= limits.cpu_seconds
    ):
        return CpuLimit(f"the child used up {limits.cpu_seconds} s of processor time")
    if status < 0:
        by_kernel = (
            ", perhaps by the kernel, for lack of memory on the machine"
            if status == -signal.SIGKILL
            else ""
        )
        return Crashed(f"the child was ended by {signal.Signals(-status).name}{by_kernel}")
    return Raised(f"the child ended by itself with status {status}")


def ending(status: int) -> str:
    return f"signal {-status}" if status < 0 else f"status {status}"
