"""What a job will do, made of public figures: its events, its price, its noise and what it takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field

from discreet.errors import InvalidInput
from discreet.privacy.events import Event
from discreet.privacy.units import LARGEST_SCALE, Price
from discreet.problems.numbers import Frozen

LONGEST_SECONDS = 1800
"""Of a release, whatever the data, as estimated from public figures: half of the default wall limit of a child. One
that came to the limit would fail, and so tell about its data; so a plan that could is refused."""


class Resources(Frozen):
    """What one job may take, from public figures alone."""

    release_quantum_seconds: float = Field(description="Touching the data takes a multiple of this, whatever they are")
    memory_bytes: int
    steps: int = Field(description="Steps that progress counts to")


class NoiseSummary(Frozen):
    """What a reader of the plan wants to know of the noise."""

    quantity: str
    distribution: str
    scale: float
    standard_deviation: float

    @classmethod
    def of(cls, event: Event, quantity: str, unit: float = 1.0) -> Self:
        """The noise of an event, in multiples of `unit` of what the event counts in.

        Of discrete Gaussian and Dirichlet an upper bound on the standard deviation.
        """
        return cls(
            quantity=quantity,
            distribution=event.noise,
            scale=event.scale / unit,
            standard_deviation=event.deviation() / unit,
        )


class Plan(Frozen):
    """What a job will do, made of public figures. Its price is the sum of its events' prices."""

    events: tuple[Event, ...]
    noise: tuple[NoiseSummary, ...]
    iterations: dict[str, int]
    resources: Resources
    price: dict[str, str] = Field(description="Integer units in decimal strings: epsilon 1e-9, the others 1e-18")
    unit: str
    neighbours: str
    assumptions: tuple[str, ...] = ()
    advice: tuple[str, ...] = Field(default=(), description="What to expect of the answer, from public figures")
    parameters: dict[str, Any] = Field(default_factory=dict, description="Public constants of the kind")

    @classmethod
    def priced(cls, events: Iterable[Event], **fields: Any) -> Self:
        """A plan whose price, and what that rests on, is derived from its events. InvalidInput for too much noise."""
        events = tuple(events)
        for event in events:
            # No release may fail after its price was reserved.
            if event.noise.startswith("discrete_") and event.scale / getattr(event, "grid", 1.0) > LARGEST_SCALE:
                says = f"so small an epsilon asks for noise of scale {event.scale:.3g}, more than can be drawn exactly"
                raise InvalidInput(f"{says}; ask for a larger one", pointer="/privacy/epsilon")
        price = sum((event.price() for event in events), Price.zero())
        own = dict.fromkeys(sentence for event in events for sentence in event.assumptions())
        assumptions = (*fields.pop("assumptions", ()), *own)
        return cls(events=events, price=price.to_json(), assumptions=assumptions, **fields)

    @property
    def total(self) -> Price:
        return Price.from_json(self.price)
