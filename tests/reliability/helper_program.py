"""`discreet helper` whose children meet the fault that the file FAULTS names when they are forked
(`tests.isolation.faulty`)."""

from __future__ import annotations

import os
import sys

from discreet.__main__ import main
from discreet.isolation import children

real = children.plain_environment
path = os.pathsep.join(path for path in sys.path if path)
children.ZYGOTE_MODULE = "tests.isolation.faulty"
children.plain_environment = lambda: {  # type: ignore[assignment]
    # Kernels that other tests have compiled, beside their source.
    **{name: value for name, value in real().items() if name != "NUMBA_CACHE_DIR"},
    "PYTHONPATH": path,
    "FAULTS": os.environ["FAULTS"],
}
sys.argv[1:1] = ["helper"]
main()
