"""Optional modules of a kind's folder, loaded when first needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from discreet.problems import JOBS


def module_of(kind: str, name: str) -> Any:
    """`name.py` of the kind's folder; None where it has none, and for a kind that this version does
    not know."""
    known = JOBS.get(kind)
    if known is None:
        return None
    folder = known.__module__.rpartition(".")[0]
    whole = f"{folder}.{name}"
    try:
        return import_module(whole)
    except ModuleNotFoundError as missing:
        if missing.name not in (whole, folder):
            raise
        return None
