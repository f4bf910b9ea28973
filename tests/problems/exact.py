"""What mechanisms would release without their noise: to see sensitivities."""

from __future__ import annotations

from typing import Any

import numpy as np

from discreet.privacy.noise import Noise


class NoNoise(Noise):
    """Adds nothing, and records the events that it was asked for."""

    def __init__(self, place: int | None = None) -> None:
        """`place`: of the candidate that every choice takes; None: the best one."""
        super().__init__(bytes)
        self._place = place
        self.events: list[Any] = []

    def add(self, event: Any, values: Any) -> Any:
        self.events.append(event)
        return np.array(values)

    def choose(self, event: Any, scores: Any) -> int:
        self.events.append(event)
        return int(np.argmax(scores)) if self._place is None else self._place
