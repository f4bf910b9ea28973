"""The TypeScript SDK's folder, with what it needs to be compiled and run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SDK = Path(__file__).parents[2] / "clients" / "typescript"
BIN = SDK / "node_modules" / ".bin"
MISSING = 4


def installed() -> Path:
    """The folder with its node_modules; the test is skipped, and says why, without Node or where
    nothing can be had."""
    install = [sys.executable, str(SDK / "generate.py"), "--install"]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode == MISSING:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    return SDK


def compiled(folder: Path) -> Path:
    """The SDK's sources and tests compiled in an empty folder; `test_sdk_typescript` checks their
    types."""
    installed()
    for name in ("package.json", "tsconfig.json"):
        shutil.copy(SDK / name, folder)
    for name in ("src", "test"):
        shutil.copytree(SDK / name, folder / name)
    (folder / "node_modules").symlink_to(SDK / "node_modules")
    execute([str(BIN / "tsc"), "--noCheck"], folder)
    return folder


def execute(command: list[str], folder: Path, environment: dict[str, str] | None = None) -> str:
    """What a program prints that ends well."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
