"""What a plan of trips advises, from public figures alone."""

from __future__ import annotations

from discreet.privacy import calibration
from discreet.privacy.events import Event
from discreet.problems.numbers import Budget


def norm_advice(trips: int, norm: int | None, event: Event, budget: Budget) -> tuple[str, ...]:
    """Whether a bound on the norm of a person's trips suits, beside that on their number."""
    if trips == 1:
        return ()
    if budget.delta == 0:
        return ("with a delta, max_norm_per_person asks for less noise where a person's trips are of many pairs",)
    try:
        one = calibration.discrete_gaussian(1000, budget.epsilon, budget.delta, neighbours="x").deviation() / 1000
    except ValueError:  # of more noise than can be drawn
        return ()
    least = min(trips, int(event.deviation() / one))
    if event.norm == "l2":
        if norm is not None:
            return ()
        says = "max_norm_per_person"
    elif norm is not None:
        return (f"max_norm_per_person makes the noise less below {least} only; here it does nothing but cut trips",)
    else:
        says = f"max_norm_per_person below {least}"
    return (f"{says} makes the noise less: {trips} trips spread evenly over p pairs have the norm {trips}/sqrt(p)",)
