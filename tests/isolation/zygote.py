"""The zygote with the hostile kind. WALLS in its environment: the walls it may build, as on a
kernel without others. HANG: it never becomes ready."""

from __future__ import annotations

import os
import signal
import sys

from discreet.isolation import reading, solving, zygote
from discreet.isolation.sandbox import WALLS, Sandbox
from tests.isolation import hostile

if __name__ == "__main__":
    while "HANG" in os.environ:
        signal.pause()
    names = os.environ.get("WALLS", " ".join(WALLS)).split()
    prepare = Sandbox.prepare
    Sandbox.prepare = lambda: prepare(tuple(name for name in WALLS if name in names))
    hostile.register()
    known = dict(hostile.problems.KINDS)
    del hostile.problems.KINDS["hostile"]  # it has no example to rehearse
    warm_up = solving.warm_up

    def and_register() -> None:
        if os.environ.get("REHEARSE", "1") == "1":
            warm_up()
        hostile.problems.KINDS.update(known)

    solving.warm_up = and_register
    if os.environ.get("REHEARSE", "1") != "1":
        reading.warm_up = lambda: None
    zygote.main(sys.argv[1:])
