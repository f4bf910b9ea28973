"""A progress bar: tqdm's in a terminal or a notebook if it is installed, otherwise a simple one in
a terminal.

Nothing is drawn by default when stderr is neither a terminal nor a notebook's.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, Protocol, TextIO

OnProgress = Callable[[str, int, int], None]
"""Called with (state, step, total)."""

WIDTH = 30


class Bar(Protocol):
    """Shows the progress of a job."""

    def show(self, state: str, step: int, total: int) -> None: ...

    def close(self) -> None: ...


class NoBar:
    """Shows nothing."""

    def show(self, state: str, step: int, total: int) -> None:
        pass

    def close(self) -> None:
        pass


class CallbackBar(NoBar):
    """Calls a function of the user."""

    def __init__(self, on_progress: OnProgress) -> None:
        self._on_progress = on_progress

    def show(self, state: str, step: int, total: int) -> None:
        self._on_progress(state, step, total)


class TerminalBar:
    """One line of a terminal, which is overwritten."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = time.monotonic()

    def show(self, state: str, step: int, total: int) -> None:
        step = total if state == "succeeded" else min(step, total)
        filled = WIDTH * step // max(total, 1)
        seconds = time.monotonic() - self._started
        bar = "#" * filled + "-" * (WIDTH - filled)
        self._out.write(f"\r{state:15} [{bar}] {step}/{total} {seconds:.0f} s\x1b[K")
        self._out.flush()

    def close(self) -> None:
        self._out.write("\n")
        self._out.flush()


class TqdmBar:
    """tqdm's bar, which detects what a terminal or notebook can show."""

    def __init__(self, tqdm: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # in a notebook without widgets, where it draws text
            self._bar = tqdm(total=1, desc="queued", leave=True)

    def show(self, state: str, step: int, total: int) -> None:
        self._bar.total = total
        self._bar.n = total if state == "succeeded" else min(step, total)
        self._bar.set_description(state, refresh=False)
        self._bar.refresh()

    def close(self) -> None:
        self._bar.close()


def bar(wanted: bool | OnProgress | None) -> Bar:
    """The bar for `progress=`: None draws in a terminal or notebook only, True always, False never;
    a function is called instead."""
    if callable(wanted):
        return CallbackBar(wanted)
    notebook = in_notebook()
    if wanted is False or (wanted is None and not (notebook or sys.stderr.isatty())):
        return NoBar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from tqdm.auto import tqdm  # noqa: PLC0415 - optional
    except ImportError:
        return NoBar() if notebook else TerminalBar(sys.stderr)
    return TqdmBar(tqdm)


def in_notebook() -> bool:
    """Whether this is a Jupyter kernel, whose stderr is not a terminal but can show a bar."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return type(shell).__name__ == "ZMQInteractiveShell"
