"""The address and the key of a server: those given, else those in the environment, else those of
this user's `discreet up`.

`discreet up` leaves its address (`ready.json`) and the first owner's key (`owner.key`, readable by
its user alone) in its state folder. That key is sent to no other server.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import platformdirs

from discreet_client.errors import Unauthenticated, Unreachable

LOOK_SECONDS = 0.5


def state_folder() -> Path:
    """The default state folder of `discreet up`: `DISCREET_STATE`, or a folder in the user's data
    folder."""
    named = os.environ.get("DISCREET_STATE")
    return Path(named).expanduser() if named else platformdirs.user_data_path("discreet")


def running(state: Path) -> str | None:
    """The address of the `discreet up` that holds this state folder, if one runs on this
    machine."""
    try:
        ready = json.loads((state / "ready.json").read_text())
        os.kill(ready["pid"], 0)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return str(ready["api"])


def starting(state: Path) -> bool:
    """Whether a `discreet up` that holds this state folder is not ready yet, or is stopping: `lock`
    holds its address long before it answers there."""
    try:
        held = json.loads((state / "lock").read_bytes())
        os.kill(held["pid"], 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return bool(held.get("address")) and running(state) is None


def await_ready(state: Path, seconds: float, tell: Callable[[], None]) -> None:
    """Wait until a `discreet up` that is starting on this state folder is ready or ends, at most
    for so many seconds. `tell` is called once, if there is something to wait for. Two small files
    are read every half second."""
    if not starting(state):
        return
    tell()
    deadline = time.monotonic() + seconds
    while starting(state) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)


def kept_key(state: Path, role: str = "owner") -> str:
    """The key that `discreet up` left in its state folder. Unauthenticated if it cannot be read."""
    path = state / f"{role}.key"
    try:
        return path.read_text().strip()
    except OSError as error:
        problem = {
            "code": "unauthenticated",
            "detail": f"no key: set DISCREET_KEY, or make {path} readable",
        }
        raise Unauthenticated(401, problem) from error


def found(
    server: str | None, key: str | None, state: Path | None = None, role: str = "owner"
) -> tuple[str, str]:
    """Address and key. Raises Unreachable if no server is known, Unauthenticated if no key is."""
    folder = state or state_folder()
    here = running(folder)
    address = server if server is not None else os.environ.get("DISCREET_URL") or here
    if address is None and starting(folder):
        raise Unreachable(
            f"`discreet up` on {folder} is still starting: wait until it says that it is ready"
        )
    if address is None:
        raise Unreachable(
            f"no server: set DISCREET_URL, or run `discreet up` on {folder} and wait until it is "
            "ready"
        )
    key = key if key is not None else os.environ.get("DISCREET_KEY") or None
    if key is not None:
        return address, key
    if here is not None and address.rstrip("/") != here.rstrip("/"):
        detail = f"no key for {address}: set DISCREET_KEY; the one in {folder} is for {here}"
        raise Unauthenticated(401, {"code": "unauthenticated", "detail": detail})
    return address, kept_key(folder, role)
