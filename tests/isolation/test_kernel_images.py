"""The image of a fork server, which all of its children share, holds nothing of the compiler's."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from discreet.isolation import children
from discreet.isolation.children import Limits, Zygote

LIMITS = Limits(memory_bytes=8 << 30, cpu_seconds=60, wall_seconds=120.0)


def test_children_have_loaded_their_kernels(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also at the first start, where an image before theirs has compiled them."""
    monkeypatch.setattr(children, "template", None)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))

    async def work() -> None:
        zygote = Zygote("none", ("tests.isolation.compiling",))
        try:
            found, _ = await zygote.call("count", {}, b"", LIMITS)
        finally:
            await zygote.stop()
        assert found == {"compiled": 0, "loaded": 1}

    asyncio.run(work())
    assert list(tmp_path.rglob("*.nbi"))
