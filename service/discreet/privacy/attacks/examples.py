"""One calibrated event of each mechanism, small enough to be attacked thoroughly: what `discreet
audit` runs on."""

from __future__ import annotations

from discreet.privacy.events import REGISTRY
from discreet.privacy.mechanism import MechanismEvent


def examples() -> dict[str, MechanismEvent]:
    """The example of every mechanism by its name, in the order of the names."""
    return {name: REGISTRY[name].example() for name in sorted(REGISTRY)}
