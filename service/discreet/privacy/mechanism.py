"""What every mechanism event is: frozen facts from which its price follows.

An event says which noise was calibrated to which sensitivity, how often it is released and how it
is sampled. The ledger stores events, certificates carry them, and `price()` derives both prices of
`units.Price` from them and nothing else. A persisted field is never removed and never changes its
meaning; new facts get new fields or new mechanisms.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from scipy.special import ndtri

from discreet.privacy.pld import (
    FULL,
    QUICK,
    ROUGH,
    DominatingPair,
    Effort,
    composed_delta,
    composed_rho,
)
from discreet.privacy.units import (
    DELTA_UNIT,
    EPSILON_UNIT,
    RHO_UNIT,
    Price,
    float_below,
    half_square,
)

if TYPE_CHECKING:
    from discreet.privacy.noise import Noise

Sampler = Callable[[int], NDArray[Any]]
"""n independent outputs on one of two datasets, of shape (n, d)."""
LARGEST_TRANSCRIPT = 4096


def _parse_units(value: object) -> object:
    if isinstance(value, bool) or (
        isinstance(value, str) and not (value.isascii() and value.isdigit())
    ):
        raise ValueError("a decimal string of an integer")
    return int(value) if isinstance(value, str) else value


Units = Annotated[
    int,
    BeforeValidator(_parse_units),
    Field(ge=0),
    PlainSerializer(str, return_type=str, when_used="json"),
]
"""An integer count of units; a decimal string in JSON, where numbers lose digits beyond 2^53."""

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=1, le=10**9, strict=True)]
Norm = Literal["l1", "l2", "row", "score", "smooth"]


FLOAT_NOISE = (
    "noise inside the iteration is drawn in floating point from AES-128 in counter mode, "
    "keyed by the operating system"
)


class NotCertified(ValueError):
    """The event's own curve does not meet the point it claims to be calibrated for."""


class PoissonSampling(BaseModel):
    """Every unit enters a step independently with `probability`."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    scheme: Literal["poisson"] = "poisson"
    probability: float = Field(gt=0, le=1, strict=True)


class OneDrawSampling(BaseModel):
    """Each step uses one unit, drawn uniformly from a public number of them, afresh every step."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    scheme: Literal["one_draw"] = "one_draw"
    population: Count


class MechanismEvent(BaseModel, ABC):
    """One mechanism, released `count` times in sequence, each release possibly chosen after seeing
    the last.

    A mechanism is one file below `mechanisms`: parameters, price, curve, draw, deviation, worst
    case and words in its class, a function `calibrate` beside it. `events` finds it there.
    """

    published: ClassVar[str] = "numbers with noise"
    """What is published, as words for people."""
    scale_sentence: ClassVar[str] = "The scale of the noise is {scale}, on each published number."
    drawn_in_floats: ClassVar[bool] = False
    """Whether the noise is drawn in floating point, inside an iteration or for a row."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    mechanism: str
    sensitivity: Positive = Field(
        description="Largest change, in `norm`, of what is noised, between neighbours"
    )
    norm: Norm
    noise: str = Field(description="The distribution of the noise, in words")
    scale: Positive = Field(description="The parameter of the noise named by the mechanism")
    count: Count = Field(default=1, description="Releases of this event, one after the other")
    sampling: PoissonSampling | OneDrawSampling | None = None
    neighbours: str = Field(min_length=1, description="The neighbouring relation in words")

    def price(self) -> Price:
        """What the event costs, rounded up. NotCertified when it does not meet the point that it
        claims."""
        return _price(self)

    @abstractmethod
    def derive_price(self) -> Price:
        """`price` without the cache: what each mechanism defines."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """An upper bound on the delta at which the whole event is (epsilon, delta)-DP; epsilon >=
        0."""

    def assumptions(self) -> tuple[str, ...]:
        """What the guarantee takes for granted, beyond the neighbouring relation: sentences for the
        certificate."""
        return (FLOAT_NOISE,) if self.drawn_in_floats else ()

    def draw(self, noise: Noise, values: NDArray[Any]) -> NDArray[Any]:
        """`values` with the noise of one release: what `Noise.add` calls. TypeError: it is not
        added to a vector."""
        raise TypeError(f"{self.mechanism} noise is not added to a vector")

    def deviation(self) -> float:
        """The standard deviation of the noise on one number, or an upper bound on it."""
        return self.scale

    def reach(self, level: float) -> float:
        """What the noise on one number stays within, up and down, with at least this
        probability."""
        return float(ndtri((1 + level) / 2)) * self.deviation()

    # For the audit.

    @classmethod
    @abstractmethod
    def example(cls) -> MechanismEvent:
        """A calibrated event small enough to be attacked thoroughly, at delta 1e-5 and an epsilon
        of 1 to 3."""

    @abstractmethod
    def worst_case(self, noise: Noise) -> tuple[Sampler, Sampler]:
        """Samplers of the whole transcript (`count` releases side by side) on two neighbours with
        the largest loss.

        The data are as bad as the neighbouring relation allows: one coordinate carries the whole
        sensitivity, rows sit on the floor, all other units lie where the replaced one lands.
        """

    def less_noise(self, factor: float) -> Self:
        """The event with its standard deviation divided by `factor`: a fault to be found, not a
        calibration."""
        return self.model_copy(update={"scale": self.scale / factor})

    def rough_delta(self, epsilon: float) -> float:
        """`delta`, or a looser bound where that takes a transform."""
        return self.delta(epsilon)

    def transcript(self) -> int:
        """`count`; ValueError when so many releases are too long to attack."""
        if self.count > LARGEST_TRANSCRIPT:
            raise ValueError(
                f"transcripts of more than {LARGEST_TRANSCRIPT} releases are too long to attack"
            )
        return self.count

    def shifted(self, noise: Noise, shift: float, kind: type[Any]) -> tuple[Sampler, Sampler]:
        """The worst case of noise that is added: a single coordinate at `shift`, or at 0."""
        releases = self.transcript()

        def at(value: float) -> Sampler:
            return lambda n: noise.add_each(self, np.full((n, releases), value, dtype=kind))

        return at(shift), at(0)


class CalibratedEvent(MechanismEvent):
    """A mechanism whose guarantee is a curve; the event carries the point on it that is charged."""

    charged_epsilon: Units = Field(description="Epsilon of the charged point, 1e-9")
    charged_delta: Units = Field(description="Delta of the charged point, 1e-18")

    def bounds(self, epsilon: float) -> Iterator[float]:
        """Upper bounds on delta at epsilon, each of which proves the charge: cheap ones first,
        `delta` the last."""
        yield self.delta(epsilon)

    def certify(self) -> None:
        """NotCertified unless the curve, at an epsilon not above the charged one, is at most the
        charged delta."""
        epsilon = float_below(Fraction(self.charged_epsilon, EPSILON_UNIT))
        charged = Fraction(self.charged_delta, DELTA_UNIT)
        if not any(Fraction(bound) <= charged for bound in self.bounds(epsilon)):
            raise NotCertified(
                f"{self.mechanism}: the noise is too small for the charged epsilon and delta"
            )


class ChargedRho(CalibratedEvent):
    """A calibrated mechanism whose curve also gives it a rho, less than the epsilon²/2 of any
    (epsilon, delta).

    Events of before this field was there cost epsilon²/2, and still do.
    """

    charged_rho: Units | None = Field(
        default=None,
        exclude_if=lambda value: value is None,
        description="Rho of the charged point, 1e-18, where delta_z is the charged delta; absent: "
        "epsilon²/2",
    )

    @abstractmethod
    def rho(self, slack: float = 1.0) -> float:
        """An upper bound on rho with the charged delta as delta_z, given that the charged point
        holds; inf: none.

        `slack` as in `pld.Effort`.
        """

    def derive_price(self) -> Price:
        self.certify()
        most = half_square(self.charged_epsilon)
        if self.charged_rho is None or self.charged_rho >= most:
            return Price.approximate(self.charged_epsilon, self.charged_delta)
        if not self.rho() * RHO_UNIT <= self.charged_rho:
            raise NotCertified(f"{self.mechanism}: the noise is too small for the charged rho")
        return Price(self.charged_epsilon, self.charged_delta, self.charged_rho, self.charged_delta)


class ComposedEvent(ChargedRho):
    """`count` adaptive steps whose privacy losses have dominating pairs: charged by their
    composition, see `pld`."""

    @abstractmethod
    def pairs(self) -> tuple[DominatingPair, ...]:
        """The dominating pairs of one step; every direction that is not covered by symmetry."""

    def delta(self, epsilon: float) -> float:
        return self.composed_delta(epsilon)

    def bounds(self, epsilon: float) -> Iterator[float]:
        yield self.composed_delta(epsilon, QUICK)
        yield self.composed_delta(epsilon)

    def rough_delta(self, epsilon: float) -> float:
        return self.composed_delta(epsilon, ROUGH)

    def composed_delta(self, epsilon: float, effort: Effort = FULL) -> float:
        """`delta`, faster and looser with less effort."""
        return max(self.composed_deltas(epsilon, effort, self.pairs()))

    def composed_deltas(
        self, epsilon: float, effort: Effort, pairs: Sequence[DominatingPair]
    ) -> list[float]:
        """What each of these pairs, composed, gives for delta."""
        negligible = 1e-4 * self.charged_delta / DELTA_UNIT
        return [composed_delta(pair, self.count, epsilon, negligible, effort) for pair in pairs]

    def rho(self, slack: float = 1.0) -> float:
        epsilon, delta = (
            float_below(Fraction(self.charged_epsilon, EPSILON_UNIT)),
            self.charged_delta / DELTA_UNIT,
        )
        if not (epsilon > 0 and 0 < delta < 1):
            return math.inf
        return max(composed_rho(pair, self.count, epsilon, delta, slack) for pair in self.pairs())


@lru_cache(maxsize=4096)
def _price(event: MechanismEvent) -> Price:
    return event.derive_price()


REGISTRY: dict[str, type[MechanismEvent]] = {}
"""Every mechanism by its literal name."""

E = TypeVar("E", bound=MechanismEvent)


def register(name: str) -> Callable[[type[E]], type[E]]:
    """Enter a mechanism under its literal name. ValueError when the name is taken or is not its
    literal."""

    def enter(event: type[E]) -> type[E]:
        if name in REGISTRY:
            raise ValueError(f"mechanism {name!r} is registered twice")
        if event.model_fields["mechanism"].default != name:
            raise ValueError(f"{event.__name__} does not carry the literal {name!r}")
        REGISTRY[name] = event
        return event

    return enter
