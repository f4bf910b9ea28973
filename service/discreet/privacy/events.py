"""The mechanism events: one union of whatever lies below `mechanisms`, discriminated by
`mechanism`.

JSON and back bit for bit.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter

from discreet.privacy import mechanisms
from discreet.privacy.mechanism import REGISTRY, CalibratedEvent, MechanismEvent
from discreet.privacy.units import Price

for _module in pkgutil.iter_modules(mechanisms.__path__):
    importlib.import_module(f"{mechanisms.__name__}.{_module.name}")

if TYPE_CHECKING:
    Event = MechanismEvent
else:
    # In the order of the names, whichever of the files was imported first.
    Event = Annotated[
        reduce(or_, (REGISTRY[name] for name in sorted(REGISTRY))), Field(discriminator="mechanism")
    ]

EVENT: TypeAdapter[Event] = TypeAdapter(Event)
EVENTS: TypeAdapter[tuple[Event, ...]] = TypeAdapter(tuple[Event, ...])


def to_json(event: MechanismEvent) -> dict[str, Any]:
    """A JSON object: floats in shortest round-trip form, integers beyond 2^53 as strings."""
    return event.model_dump(mode="json")


def from_json(value: Any) -> Event:
    """The event of a JSON object. pydantic's ValidationError (a ValueError) names what is wrong."""
    return EVENT.validate_python(value)


def total(events: tuple[Event, ...]) -> Price:
    """What all events cost together: prices add up, in any order and however they depend on each
    other."""
    return sum((event.price() for event in events), Price.zero())


MAX_EVENTS = 1000
MAX_CURVES = 16
"""The most events of one job. No plan has as many; a checker of untrusted events prices no more."""


class TooManyEvents(ValueError):
    """More events than a job has: they are not priced."""


def price_of(values: Sequence[Any]) -> Price:
    """What events of unknown origin, as JSON values, cost together; the work is limited.

    Most prices are arithmetic, but a curve takes up to seconds to evaluate, and each event in it is
    another one. ValueError when they have no price, TooManyEvents among them.
    """
    if len(values) > MAX_EVENTS:
        raise TooManyEvents(f"{len(values)} events; no job has more than {MAX_EVENTS}")
    events = EVENTS.validate_python(tuple(values))
    curves = len({event for event in events if isinstance(event, CalibratedEvent)})
    if curves > MAX_CURVES:
        raise TooManyEvents(
            f"{curves} different events with a curve; no job has more than {MAX_CURVES}"
        )
    try:
        return total(events)
    except ArithmeticError as error:  # figures at which doubles end
        raise ValueError("the events have no price") from error


__all__ = [
    "EVENT",
    "EVENTS",
    "MAX_CURVES",
    "MAX_EVENTS",
    "REGISTRY",
    "Event",
    "TooManyEvents",
    "from_json",
    "price_of",
    "to_json",
    "total",
]
