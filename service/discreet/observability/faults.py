"""Fault points, at which a test may kill this process: `point("submit.reserved")` stands between
two steps, and does nothing otherwise.

Faults are drawn only if DISCREET_FAULTS_SWITCH is set to the sentence SWITCH. Then DISCREET_FAULTS
holds patterns of names with their probabilities (`submit.*=0.02 publish.committed=0.1
statement=0.001`; the first that matches counts). A point that is drawn kills the process with
SIGKILL: no handler runs and no connection is closed, as when the machine loses its power. Before
that its name is appended to the file DISCREET_FAULTS_LOG. DISCREET_FAULTS_SEED makes the draws
repeatable.

`statement` is the point after every statement that goes through SQLAlchemy (see
`storage.database`).
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping
from fnmatch import fnmatchcase

SWITCH = "this process may be killed at any time"


def parse(environment: Mapping[str, str]) -> list[tuple[str, float]]:
    """Patterns with their probabilities; empty unless the switch is set. ValueError when they
    cannot be read."""
    if environment.get("DISCREET_FAULTS_SWITCH") != SWITCH:
        return []
    pairs = [word.rpartition("=") for word in environment.get("DISCREET_FAULTS", "").split()]
    return [(pattern, float(probability)) for pattern, _, probability in pairs]


_plan = parse(os.environ)
_draw = random.Random(os.environ.get("DISCREET_FAULTS_SEED") if _plan else None)  # noqa: S311  chance, not secrecy

planned = bool(_plan)
"""Whether any fault point can kill this process."""


def point(name: str) -> None:
    """Die here if a test wants it."""
    if _plan:
        _strike(name)


def _strike(name: str) -> None:
    for pattern, probability in _plan:
        if fnmatchcase(name, pattern):
            if _draw.random() < probability:
                _note(name)
                os.kill(os.getpid(), signal.SIGKILL)
            return


def _note(name: str) -> None:
    if path := os.environ.get("DISCREET_FAULTS_LOG"):
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(file, f"{name}\n".encode())
