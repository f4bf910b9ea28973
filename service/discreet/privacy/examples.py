"""One calibrated event of each mechanism, small enough to be attacked thoroughly: what `discreet audit` runs on."""

from __future__ import annotations

from discreet.privacy import calibration
from discreet.privacy.mechanism import MechanismEvent

ONE = 10**9
SMALL = 10**13


def examples() -> dict[str, MechanismEvent]:
    """By mechanism, at delta 1e-5 and epsilon 1 (Dirichlet 2.2, smooth sensitivity 3)."""
    events: tuple[MechanismEvent, ...] = (
        calibration.discrete_laplace(1.0, ONE, neighbours="one count by 1"),
        calibration.discrete_gaussian(1.0, ONE, SMALL, neighbours="one count by 1"),
        calibration.gaussian(1.0, ONE, SMALL, dimension=1, neighbours="a vector by l2 norm 1"),
        calibration.laplace(1.0, ONE, dimension=1, neighbours="a vector by l1 norm 1"),
        calibration.dirichlet(0.03, 0.1, 22 * ONE // 10, SMALL, neighbours="two entries of one row by .015"),
        calibration.poisson_subsampled_gaussian(
            1.0, ONE, SMALL, probability=0.2, steps=20, relation="add_remove", neighbours="add or remove one unit"
        ),
        calibration.one_draw_gaussian(
            1.0, ONE, SMALL, population=20, steps=20, neighbours="replace one unit, their number public"
        ),
        calibration.smooth_sensitivity_gaussian(3 * ONE, SMALL, dimension=1, neighbours="one unit, local sensitivity"),
    )
    return {event.mechanism: event for event in events}
