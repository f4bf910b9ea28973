"""The zygote with a routing release that fails, or crashes, with the data in its hands, for
datasets so marked."""

from __future__ import annotations

import os
import sys
from typing import Any

from discreet.isolation import zygote
from discreet.problems.routing.problem import Routing

RAISES, ABORTS = 41.0, 43.0
"""Minutes of a period, a public figure, that mark a dataset."""

if __name__ == "__main__":
    honest = Routing.release

    def release(self: Routing, public: Any, plan: Any, content: Any, noise: Any) -> Any:
        if public.period_minutes == RAISES:
            raise ValueError(
                f"no solution for { ({name: array.tolist() for name, array in content.items()}) }"
            )
        if public.period_minutes == ABORTS:
            os.abort()
        return honest(self, public, plan, content, noise)

    Routing.release = release  # type: ignore[method-assign]
    zygote.main(sys.argv[1:])
