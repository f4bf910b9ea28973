"""The program of children that know the tests' kind, for fork servers of `tests.templates`."""

from __future__ import annotations

from collections.abc import Mapping

from discreet.isolation import solving
from discreet.isolation.tasks import Step, Task
from tests.rpc import kinds


def warm_up() -> None:
    kinds.NoisySum.rehearse_session()


def _with_kind(real: Step) -> Step:
    def step(task: Task) -> None:
        kinds.register()  # in the child: other fork servers of the same image do not know it
        real(task)

    return step


STEPS: Mapping[str, Step] = {name: _with_kind(step) for name, step in solving.STEPS.items()}
