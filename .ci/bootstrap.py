"""Make `.venv` what a task of the Makefile needs: `.ci/bootstrap.py runtime | test | chart | all`.

It runs before anything is installed: standard library only. What is installed already, judged by
the content of the lock files, is left alone; what was interrupted is done again.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STAMP = VENV / "bootstrap.json"
LOG = VENV / "bootstrap.log"
LOCKS = ("runtime", "test", "all")  # each contains the one before
BESIDE = {"chart": "test"}  # a lock that is installed beside another one
PROJECT = ("pyproject.toml", "clients/agent/pyproject.toml", "clients/python/pyproject.toml")
OLDEST, NEWEST = (3, 11), (3, 13)

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if name not in ("PYTHONHOME", "PYTHONPATH", "PIP_TARGET")
} | {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_USER": "0",
}


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1] not in (*LOCKS, *BESIDE):
        print(f"usage: bootstrap.py {' | '.join((*LOCKS, *BESIDE))}", file=sys.stderr)
        return 2
    if not OLDEST <= sys.version_info[:2] <= NEWEST:
        oldest, newest = (".".join(map(str, version)) for version in (OLDEST, NEWEST))
        print(
            f"discreet needs Python {oldest} to {newest}, this is {sys.version.split()[0]}",
            file=sys.stderr,
        )
        return 1
    folder = os.open(ROOT, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # two tasks may be started at once
    try:
        bootstrap(sys.argv[1])
    except Failed as failed:
        print(f"[discreet] {failed}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"[discreet] {error}", file=sys.stderr)
        return 1
    return 0


class Failed(Exception):
    """A step of the installation failed; the message is for people."""


def bootstrap(kind: str) -> None:
    stamp = read_stamp()
    digests = {
        name: digest((ROOT / ".ci/lock" / f"{name}.txt").read_bytes()) for name in (*LOCKS, *BESIDE)
    }
    project = digest(json.dumps([metadata(name) for name in PROJECT]).encode())
    stamp["locks"] = {
        name: value for name, value in stamp["locks"].items() if digests[name] == value
    }
    for wanted in (BESIDE[kind], kind) if kind in BESIDE else (kind,):
        containing = (wanted,) if wanted in BESIDE else LOCKS[LOCKS.index(wanted) :]
        if any(name in stamp["locks"] for name in containing):
            continue
        lock = f".ci/lock/{wanted}.txt"
        count = sum("==" in line for line in (ROOT / lock).read_text().splitlines())
        say(f"installing {count} packages ({wanted})")
        pip(stamp, count, "install", "--require-hashes", "--no-deps", "-r", lock)
        stamp["locks"][wanted] = digests[wanted]
        write_stamp(stamp)
    if stamp["project"] != project:
        say("installing discreet, discreet-agent and discreet-client (editable)")
        pip(
            stamp,
            3,
            "install",
            "--no-index",
            "--no-build-isolation",
            "--no-deps",
            "-e",
            "clients/agent",
            "-e",
            "clients/python",
            "-e",
            ".",
        )
        stamp["project"] = project
        write_stamp(stamp)
        say("ready")


def read_stamp() -> dict:
    """What is installed. A virtual environment that was moved, broken or left half unpacked is made
    again."""
    empty = {"place": str(ROOT), "locks": {}, "project": None, "unpacking": False}
    if works():
        try:
            stamp = empty | json.loads(STAMP.read_text())
        except (OSError, ValueError):
            return empty  # made by somebody else: keep it, and let pip look at every package
        if stamp["place"] == str(ROOT) and not stamp["unpacking"]:  # its scripts name the place
            return stamp
    make_venv()
    write_stamp(empty)
    return empty


def write_stamp(stamp: dict) -> None:
    new = STAMP.with_suffix(".new")
    new.write_text(json.dumps(stamp))
    new.replace(STAMP)


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def metadata(name: str) -> list:
    """What an installed distribution takes from its pyproject.toml; the settings of linters are not
    among it."""
    content = tomllib.loads((ROOT / name).read_text(encoding="utf-8"))
    return [content["build-system"], content["project"], content["tool"]["hatch"]]


def works() -> bool:
    """Whether the interpreter of the virtual environment starts and is of the version that runs
    this."""
    check = "import sys; print(*sys.version_info[:2])"
    try:
        return call([PYTHON, "-I", "-c", check]).stdout.split() == [
            str(part) for part in sys.version_info[:2]
        ]
    except OSError:
        return False


def call(command: list) -> subprocess.CompletedProcess:
    return subprocess.run(command, check=False, env=ENVIRONMENT, capture_output=True, text=True)


def make_venv() -> None:
    """A virtual environment; without ensurepip (Debian without python3-venv) this interpreter's pip
    serves it."""
    say(f"making .venv with Python {sys.version.split()[0]}")
    if importlib.util.find_spec("venv") is None:
        raise Failed(
            "this Python has no module venv; install it (Debian: apt install python3-venv)"
        )
    done = call([sys.executable, "-m", "venv", "--clear", VENV])
    if done.returncode != 0:
        done = call([sys.executable, "-m", "venv", "--clear", "--without-pip", VENV])
    if done.returncode != 0:
        raise Failed(f"cannot make {VENV}: {(done.stdout + done.stderr).strip()}")


def pip(stamp: dict, count: int, *arguments: str) -> None:
    """Run pip for the virtual environment, one line of progress, its whole output in
    .venv/bootstrap.log."""
    command = [PYTHON, "-m", "pip"]
    if call([*command, "--version"]).returncode != 0:
        command = [sys.executable, "-m", "pip", "--python", PYTHON]
    seen = 0
    with LOG.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(
            [*command, *arguments],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        lines = []
        for line in process.stdout or ():
            log.write(line)
            lines = [*lines[-14:], line.rstrip()]
            word = line.split()[:1]
            if word and word[0] in (
                "Collecting",
                "Processing",
                "Requirement",
                "Obtaining",
                "Ignoring",
            ):
                seen += 1
                progress(seen, count)
            elif line.startswith("Installing collected"):
                write_stamp(stamp | {"unpacking": True})
                if count > 3:
                    say("all packages are here; unpacking")
        process.wait()
    if process.returncode != 0:
        raise Failed("\n".join([f"pip failed (the whole output is in {LOG}):", *lines]))


def progress(seen: int, count: int) -> None:
    """A line that counts on a terminal; four lines in a log."""
    if sys.stdout.isatty():
        print(f"\r[discreet] {seen} of {count} ", end="\n" if seen == count else "", flush=True)
    elif count >= 20 and seen % max(1, count // 4) == 0:
        say(f"{seen} of {count}")


def say(text: str) -> None:
    print(f"[discreet] {text}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
