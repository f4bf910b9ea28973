"""`python -m discreet` that also knows the tests' kind."""

from __future__ import annotations

import sys

from discreet.__main__ import main
from discreet.isolation import children
from tests.rpc import kinds
from tests.templates import SESSIONS

if __name__ == "__main__":
    kinds.register()
    children.ZYGOTE_MODULE = "tests.rpc.zygote"
    if "rpc" in sys.argv and "--children-fd" in sys.argv:
        children.Zygote.__init__.__defaults__ = ("none", (SESSIONS,))
    sys.exit(main())
