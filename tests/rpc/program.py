"""`python -m discreet` that also knows the tests' kind."""

from __future__ import annotations

import sys

from discreet.__main__ import main
from discreet.isolation import children
from tests.rpc import kinds

if __name__ == "__main__":
    kinds.register()
    children.ZYGOTE_MODULE = "tests.rpc.zygote"
    sys.exit(main())
