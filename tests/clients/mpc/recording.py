"""The engine, writing what it receives to the file that the order names: for a test that reads one
party's view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from discreet_agent.mpc import engine


class RecordedWords(engine.Words):
    path = Path()

    def loads(self, data: bytes) -> Any:
        found = super().loads(data)
        with self.path.open("a") as file:
            file.writelines(f"{int(one) / self._modulus!r}\n" for one in np.ravel(found))
        return found


if __name__ == "__main__":
    RecordedWords.path = Path(sys.argv.pop())
    engine.Words = RecordedWords  # type: ignore[misc]
    sys.exit(engine.main())
