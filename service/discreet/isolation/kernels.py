"""Compiled kernels of children, which can open no file: neither numba's cache nor the compiler's
modules."""

from __future__ import annotations

from typing import Any


def load_compiler() -> None:
    """Compile something, so that a child that may open no file can compile what no rehearsal met.

    Kernels that lie in numba's cache are loaded without the compiler, whose parts would be imported
    then.
    """
    import numba  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    def doubled(values: Any) -> Any:
        return values + values

    numba.njit(doubled)(np.arange(3))


def keep_in_memory() -> None:
    """A child that meets what no rehearsal met compiles it for itself; numba would fail on its
    cache's files."""
    from numba.core.caching import Cache  # noqa: PLC0415

    Cache.load_overload = lambda _cache, _signature, _context: None  # type: ignore[method-assign]
    Cache.save_overload = lambda _cache, _signature, _compiled: None  # type: ignore[method-assign]
