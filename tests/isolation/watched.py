"""The zygote whose children end at once when they open a file, and tell beforehand what they open
or import.

The last descriptor of every task is where they tell. Files are watched twice: by Python's audit
hook, which knows names, and by the walls, which also see what libraries open on their own.
"""

from __future__ import annotations

import codecs
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

from discreet.isolation import sandbox, zygote
from discreet.isolation.tasks import Step, Task

plain_filter, plain_serve = sandbox.program_of, zygote.serve


def ending_filter(column: int, architecture: int, *, files: bool, pid: int) -> bytes:
    """The filter of every day, but that to open a file ends the process."""
    program = plain_filter(column, architecture, files=True, pid=pid)

    def instruction(*parts: int) -> bytes:
        return struct.pack("=HBBI", *parts)

    for call in sandbox.OPEN.values():
        if (number := call[column]) is not None:
            question = instruction(sandbox.EQUAL, 0, 1, number)
            allowed = question + instruction(sandbox.RETURN, 0, 0, sandbox.RET_ALLOW)
            assert allowed in program
            ended = question + instruction(sandbox.RETURN, 0, 0, sandbox.RET_KILL_PROCESS)
            program = program.replace(
                allowed, ended, 1
            )  # commands of fcntl look the same, and stand later
    return program


def watched(step: Step) -> Step:
    def run(task: Task) -> None:
        *given, told = task.descriptors

        def tell(event: str, arguments: tuple[Any, ...]) -> None:
            if event == "import" or (event == "open" and not isinstance(arguments[0], int)):
                os.write(told, f"{event} {arguments[0]}\n".encode())

        sys.addaudithook(tell)
        known = set(sys.modules)
        try:
            step(replace(task, descriptors=tuple(given)))
        finally:
            for name in sorted(set(sys.modules) - known):
                os.write(told, f"module {name}\n".encode())

    return run


def serve(control: Any, walls: sandbox.Sandbox, steps: Mapping[str, Step]) -> None:
    plain_serve(
        control,
        walls,
        {name: watched(step) for name, step in steps.items()} | {"careless": watched(careless)},
    )


def careless(task: Task) -> None:
    """What the test must notice: `header["does"]`."""
    match task.header["does"]:
        case "opens":
            open("/etc/hostname").close()
        case "opens unseen":  # as a library does, past Python's hooks
            sandbox._libc.open(b"/etc/hostname", 0)
        case "imports":
            import sched  # noqa: F401
        case "meets a time zone":
            ZoneInfo("Pacific/Chatham")
        case "meets a codec":
            codecs.lookup("cp1140")


if __name__ == "__main__":
    sandbox.program_of = ending_filter
    zygote.measure = lambda walls: sandbox.Isolation.of(
        [], []
    )  # it tries to open files, which would end it here
    zygote.serve = serve
    zygote.main(sys.argv[1:])
