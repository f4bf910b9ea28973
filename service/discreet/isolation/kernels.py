"""Compiled kernels of children, which can open no file: neither numba's cache nor the compiler's
modules."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from itertools import count
from typing import Any


def load_compiler() -> None:
    """Compile a function, which imports the compiler: children, which may open no file, can then
    compile kernels that no rehearsal met.

    Loading kernels from numba's cache does not import it.
    """
    import numba  # noqa: PLC0415
    import numpy as np  # noqa: PLC0415

    def doubled(values: Any) -> Any:
        return values + values

    numba.njit(doubled)(np.arange(3))


def count_saved() -> Callable[[], int]:
    """From now on kernels are counted that are compiled and put into numba's cache on disk: how
    many that were."""
    from numba.core.caching import Cache  # noqa: PLC0415

    saved = count()
    save: Any = Cache.save_overload

    def counted(cache: Any, signature: Any, compiled: Any) -> None:
        save(cache, signature, compiled)
        next(saved)

    Cache.save_overload = counted  # type: ignore[method-assign]
    return lambda: next(copy(saved))


def keep_in_memory() -> None:
    """Turn off numba's cache on disk: children compile kernels that no rehearsal met in memory,
    where numba would fail to open the files of its cache."""
    from numba.core.caching import Cache  # noqa: PLC0415

    Cache.load_overload = lambda _cache, _signature, _context: None  # type: ignore[method-assign]
    Cache.save_overload = lambda _cache, _signature, _compiled: None  # type: ignore[method-assign]
