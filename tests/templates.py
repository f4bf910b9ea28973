"""What the tests' services are forked from: as in `discreet up`, their imports are done once, and
so is what their children rehearse. So are the children of the tests' own process. Processes of
other code, or of machines of their own, still do both for themselves."""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from discreet.installation.parts import command
from discreet.installation.prepared import template_environment
from discreet.installation.state import LogFile
from discreet.installation.template import Forked, Template
from discreet.isolation import children
from discreet.isolation.children import Zygote
from discreet.isolation.processes import end, plain_environment
from discreet.isolation.tasks import READING, SOLVING
from discreet.settings import Settings

Process = subprocess.Popen[bytes] | Forked
"""Of a service."""
WITH_CHILDREN = ("api", "rpc", "worker")
"""Commands whose processes have sandboxed children."""
FAULTY, SESSIONS = "tests.isolation.faulty", "tests.rpc.sessions"
"""Programs of children that meet faults, and of children that know the kind of the tests of
sessions."""


class Templates:
    """One of processes, and one of the fork servers of their children."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="discreet-templates-")
        folder = Path(self._folder.name)
        self.faults = folder / "faults"
        """Names the fault of faulty children that are forked from now on."""
        self._log = LogFile(folder / "log")
        self._parts = Template(template_environment(Settings(state=folder)), self._log)
        self._parts.start()
        self._lock = threading.Lock()
        self._orders, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        output = self._log.open()
        with takes:
            programs = (SOLVING, READING, FAULTY, SESSIONS)
            arguments = (str(takes.fileno()), str(os.getpid()), "--template", *programs)
            path = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
            self._children = subprocess.Popen(
                command(*arguments, module="discreet.isolation.zygote"),
                env={**plain_environment(), "PYTHONPATH": path, "FAULTS": str(self.faults)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(takes.fileno(),),
                start_new_session=True,
            )
        os.close(output)

    def sharing(
        self, arguments: Sequence[str], files: Sequence[int]
    ) -> tuple[Sequence[str], Sequence[int]]:
        """Arguments and descriptors of a process whose children are forked from what is
        rehearsed."""
        if arguments[0] not in WITH_CHILDREN:
            return arguments, files
        orders = self._orders.fileno()
        return (*arguments, "--children-fd", str(orders)), (*files, orders)

    @property
    def orders(self) -> socket.socket:
        """For `children.template`: fork servers of this process are forked from what is
        rehearsed."""
        return self._orders

    def start(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int],
        output: int = 2,
    ) -> Forked:
        """`discreet <arguments>` with this environment and these descriptors; it writes to the
        descriptor `output`, which is where this process writes if none is given."""
        with self._lock:
            forked = self._parts.fork(arguments, environment, output, files)
        assert forked is not None, self._log.path.read_text()
        return forked

    def stop(self) -> None:
        self._orders.close()
        self._parts.stop()
        end(self._children)
        self._folder.cleanup()


class Orders:
    """For `children.template`, in place of a socket: what fork servers are forked from is started
    by the first order."""

    def sendmsg(self, *order: Any) -> int:
        return templates().orders.sendmsg(*order)


def programs_of_children(patch: pytest.MonkeyPatch, *programs: str) -> None:
    """Let fork servers of this process run these programs of the template, whichever are asked
    for."""
    patch.setattr(children, "template", Orders())
    patch.setattr(Zygote, "_programs", property(lambda _: programs, lambda *_: None), raising=False)


@cache
def templates() -> Templates:
    """Those of this process, until `stop_templates`, or its end."""
    atexit.register(stop_templates)
    return Templates()


def stop_templates() -> None:
    if templates.cache_info().currsize:
        templates().stop()
        templates.cache_clear()
