"""The tenant of `examples/tenant.py`, which imports its neighbours in that folder."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

EXAMPLES = Path(__file__).parents[2] / "examples"


def tenant() -> ModuleType:
    sys.path.insert(0, str(EXAMPLES))
    try:
        return importlib.import_module("tenant")
    finally:
        sys.path.remove(str(EXAMPLES))
