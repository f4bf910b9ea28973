"""`python -m discreet` whose children end badly where a test wants it
(tests/reliability/canary_zygote.py)."""

from __future__ import annotations

import sys

from discreet.__main__ import main
from discreet.isolation import children

if __name__ == "__main__":
    children.ZYGOTE_MODULE = "tests.reliability.canary_zygote"
    sys.exit(main())
