"""Attacks from inside: what a solver's child and the reader of uploads reach, as root's and as an
ordinary user's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import partial

from discreet.isolation.processes import plain_environment
from discreet.isolation.tasks import READING, SOLVING
from tests.conftest import Installation
from tests.hostile import Attack, Reached

ORDINARY = 10001
"""The user of the image and of the systemd units."""

ASK = """
import importlib, json, os, sys
user, program = int(sys.argv[1]), sys.argv[2]
from discreet.isolation import zygote
from discreet.isolation.processes import keep_memory_private
importlib.import_module(program).warm_up()
if user != os.geteuid():  # only now: the interpreter may lie where this user cannot read it
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
keep_memory_private()
found = zygote.measure(zygote.Sandbox.prepare())
print(json.dumps([found.level, *found.reached]))
"""


def walls_reached(program: str, user: int, _service: Installation | None = None) -> Reached:
    """What a child of that program tries when it starts: network, sockets, files, a 0400 file of
    its own user, programs, a shell, processes, signals to its parent, tracing."""
    asked = subprocess.run(
        [sys.executable, "-P", "-c", ASK, str(user), program],
        env=plain_environment(),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
    )
    if asked.returncode != 0:
        return Reached(f"could not be asked: {asked.stderr.strip().splitlines()[-1]}", held=False)
    level, *reached = json.loads(asked.stdout.splitlines()[-1])
    return Reached(
        f"level {level}, reached: {', '.join(reached) or 'nothing'}", held=level == "full"
    )


USERS = {os.geteuid(): "root" if os.geteuid() == 0 else "this user"}
if os.geteuid() == 0:
    USERS[ORDINARY] = f"user {ORDINARY}"

ATTACKS = [
    Attack(
        "1 anywhere",
        f"{who} of {name}",
        "level full, reached: nothing",
        partial(walls_reached, program, user),
    )
    for who, program in (("a solver's child", SOLVING), ("the reader of uploads", READING))
    for user, name in USERS.items()
]
