"""The figures of the five papers: as printed, as their methods truly give them, and ours at the
same guarantee.

    report = reproduce("tsao")
    report.write(folder)

Nothing here serves anybody: data are synthetic or of public networks, and what a paper releases
wrongly is released.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module

from discreet.reproduce.report import Report

NAMES = ("hassan", "hale", "xie", "tsao", "huo")


def reproduce(paper: str, *, full: bool = False) -> Report:
    """Run a paper's study: in its short form under three minutes on two cores, or with all sizes
    and seeds."""
    run: Callable[..., Report] = import_module(f"discreet.reproduce.{paper}").report
    return run(full=full)


def document(reports: Sequence[Report], *, full: bool) -> str:
    """`docs/reproduction.md`: all papers' tables."""
    command = f"discreet reproduce{' --full' if full else ''} --markdown docs/reproduction.md"
    head = f"""# The papers' figures

Made by `{command}`; tables as CSV and pictures with `--out FOLDER`.
*paper*: as printed. *honest*: the paper's own method, run here with its errors mended or at its
true price. *ours*: what this service gives at the same guarantee. Why they differ, equation by
equation: [papers.md](papers.md).
"""
    return "\n".join([head, *(report.markdown() for report in reports)]).rstrip() + "\n"
