"""Compiled kernels that stay on a machine from one version to the next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from discreet import private_files
from discreet.private_files import forget_other_kernels

CALLED = """
import numba

@numba.njit(cache=True)
def scale():
    return {scale}
"""
CALLER = """
import numba
from called import scale

@numba.njit(cache=True)
def scaled(x):
    return scale() * x

print(scaled(1.0))
"""


def test_a_kernel_calls_what_it_calls_as_that_is_now(tmp_path: Path) -> None:
    """Numba looks at a kernel's own file alone."""

    def run(scale: float) -> float:
        (tmp_path / "called.py").write_text(CALLED.format(scale=scale))
        (tmp_path / "caller.py").write_text(CALLER)
        forget_other_kernels(tmp_path, tmp_path)
        told = subprocess.run(
            [sys.executable, "-B", "caller.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
        return float(told.stdout)

    assert run(1.5) == 1.5
    kept = list(tmp_path.rglob("*.nbi"))
    assert kept
    assert run(1.5) == 1.5
    assert list(tmp_path.rglob("*.nbi")) == kept
    assert run(2.5) == 2.5


def test_a_cache_begins_with_the_kernels_of_its_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after an upgrade: an image brings kernels, and the state stays."""
    brought, state = tmp_path / "_kernels", tmp_path / "state"
    brought.mkdir()
    monkeypatch.setattr(private_files, "KERNELS", brought)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for version in ("one", "two"):
        (brought / "kernel.nbi").write_text(version)
        monkeypatch.setattr(private_files, "_sources", lambda *_, of=version: of)
        cache = Path(private_files.kernel_cache(state)["NUMBA_CACHE_DIR"])
        assert (cache / "kernel.nbi").read_text() == version
        (cache / "own.nbi").write_text("compiled here")
        private_files.kernel_cache(state)
        assert (cache / "own.nbi").exists()
    assert not list(state.glob("cache.*"))
