"""The mechanism events: one union, discriminated by `mechanism`; JSON and back bit for bit."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from discreet.privacy.mechanism import REGISTRY, CalibratedEvent, MechanismEvent, NotCertified
from discreet.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from discreet.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from discreet.privacy.mechanisms.gaussian import Gaussian
from discreet.privacy.units import Price

Event = Annotated[
    DiscreteLaplace | DiscreteGaussian | Gaussian,
    Field(discriminator="mechanism"),
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
    """What all events cost together: prices add up, in any order and however they depend on each other."""
    return sum((event.price() for event in events), Price.zero())


__all__ = [
    "EVENT",
    "EVENTS",
    "REGISTRY",
    "CalibratedEvent",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Event",
    "Gaussian",
    "MechanismEvent",
    "NotCertified",
    "from_json",
    "to_json",
    "total",
]
