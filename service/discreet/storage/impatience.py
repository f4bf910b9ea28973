"""Calls of drivers that may be silent for longer than anybody waits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

MOST_ABANDONED = 16
"""Calls that were given up but still wait for a store that does not answer: with so many, no
further call begins."""

Answer = TypeVar("Answer")


class Silent(Exception):
    """There was no answer in time."""


class Crowded(Silent):
    """So many calls already wait that this one did not begin."""


class Impatience:
    """Threads for blocking calls of one driver, left alone when they take too long."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._abandoned = threading.Semaphore(MOST_ABANDONED)

    def within(self, seconds: float, call: Callable[[], Answer]) -> Answer:
        """What `call` returns or raises; Silent when it takes longer. A driver that waits longer
        than this keeps its thread until it ends by itself."""
        if not self._abandoned.acquire(blocking=False):
            raise Crowded
        answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((True, call()))
            except BaseException as error:
                answers.put((False, error))
            finally:
                self._abandoned.release()

        threading.Thread(target=work, daemon=True, name=self._name).start()
        try:
            came, answer = answers.get(timeout=seconds)
        except queue.Empty:
            raise Silent from None
        if not came:
            raise answer
        found: Answer = answer
        return found
