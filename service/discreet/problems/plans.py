"""What a job will do, made from public figures: its events, its price, its noise and its
resources."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Self

from pydantic import Field

from discreet.errors import InvalidInput
from discreet.privacy.events import Event
from discreet.privacy.units import LARGEST_SCALE, Price
from discreet.problems.numbers import Frozen

LONGEST_SECONDS = 1800
"""Of a release, whatever the data, beyond opening its content, as estimated from public figures:
half of the default wall limit of a child. One that came to the limit would fail, and so tell about
its data; so a plan that could is refused."""
OPENING_SECONDS = 0.0625
"""Of opening a content of up to `OPENING_BYTES`."""
OPENING_BYTES = 1e6
OPENING_BLOCK_SECONDS = 0.015625
"""Of opening each further block of a source."""
OPENED_BYTES_PER_SECOND = 4e7
"""Read from the database or an object storage, and unsealed, beyond that."""
HANDED_BYTES_PER_SECOND = 5e7
"""Given to the child and read there."""
MARGIN = 2.0
"""What is measured of work on data is less than what kinds say of it; a machine may be busy, and
slower than that."""


def sized(most: str) -> str:
    """The assumption that a content is within the bounds for which a release's time is planned."""
    return f"running time is independent of data up to {most}, the registration limit"


class Resources(Frozen):
    """What one job may take, from public figures alone."""

    release_quantum_seconds: float = Field(
        description="The step on the data takes this long, whatever the data and however it "
        "ends; on a machine too busy for it twice as long, and so on"
    )
    opening_seconds: float = Field(
        default=OPENING_SECONDS, description="The part of that for opening the content"
    )
    result_seconds: float = Field(
        default=0.0,
        description="About how long the work after the release takes, if known; it counts in the "
        "order of jobs",
    )
    memory_bytes: int
    steps: int = Field(description="Steps that progress counts to")

    @property
    def working_seconds(self) -> float:
        """Of children: opening a large content is the worker's, and no limit of a child's."""
        return self.release_quantum_seconds - max(0.0, self.opening_seconds - OPENING_SECONDS)

    @classmethod
    def padded(
        cls,
        least: float,
        *,
        work: float,
        drawing: float = 0.0,
        content_bytes: float,
        **figures: Any,
    ) -> Self:
        """With the time of a release on the largest content that the public bounds allow, opening
        included.

        least: seconds for what every job does; work: seconds that the kind's work on that content
        takes at most on one core; drawing: the same of what does not depend on the content;
        content_bytes: its size in memory. Work of up to a sixteenth of a second lies within
        `least`.
        """
        opening = (
            OPENING_SECONDS
            + MARGIN * max(0.0, content_bytes - OPENING_BYTES) / OPENED_BYTES_PER_SECOND
        )
        handing = content_bytes / HANDED_BYTES_PER_SECOND
        seconds = (
            least
            + opening
            - OPENING_SECONDS
            + max(0.0, MARGIN * work + drawing + handing - OPENING_SECONDS)
        )
        return cls(
            release_quantum_seconds=math.ceil(16 * seconds) / 16,
            opening_seconds=math.ceil(16 * opening) / 16,
            **figures,
        )


class NoiseSummary(Frozen):
    """The noise in a plan, for its readers."""

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

    def times(self, factor: float) -> Self:
        """The same with `factor` times the noise."""
        return self.model_copy(
            update={
                "scale": self.scale * factor,
                "standard_deviation": self.standard_deviation * factor,
            }
        )


class Exposure(Frozen):
    """What agents can learn about each other from what all of them are told."""

    agents: int = Field(description="Rounds of the session")
    rounds: int = Field(description="The most sums that are opened to every agent")
    sums: int = Field(description="The numbers in all of them together")
    sentence: str = Field(description="What one dishonest agent can find out")


class PlannedBlock(Frozen):
    """A block that a job reads."""

    block: str = Field(description="Its name in the source")
    version: str = Field(
        description="The dataset of this version; a later version with late records is another "
        "dataset"
    )


class PlannedSource(Frozen):
    """Blocks of a source that a job reads as one dataset, and is charged to."""

    id: str
    name: str
    by: str = Field(
        description="What a block is: the records of a `day` or `month`, or of a `label`"
    )
    cap_of: str = Field(
        description="`block`: charged to the account of each block; `source`: once, to one for all"
    )
    blocks: tuple[PlannedBlock, ...]


class Plan(Frozen):
    """What a job will do, made of public figures. Its price is the sum of its events' prices."""

    events: tuple[Event, ...]
    noise: tuple[NoiseSummary, ...]
    iterations: dict[str, int]
    resources: Resources
    price: dict[str, str] = Field(
        description="Integer units in decimal strings: epsilon 1e-9, the others 1e-18"
    )
    unit: str
    neighbours: str
    assumptions: tuple[str, ...] = Field(
        default=(), description="Holds if: what the guarantee takes for granted"
    )
    not_covered: tuple[str, ...] = Field(
        default=(), description="Not covered: what the guarantee says nothing of"
    )
    model: tuple[str, ...] = Field(
        default=(),
        description="Model: what the answer takes for granted. The guarantee does not rest on it",
    )
    advice: tuple[str, ...] = Field(
        default=(), description="What to expect from the answer, by public figures"
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Public constants of the kind"
    )
    exposure: Exposure | None = Field(
        default=None, description="What agents can learn about each other"
    )
    source: PlannedSource | None = Field(
        default=None, description="The blocks that are read, for a source instead of a dataset"
    )
    parts_by: str | None = Field(
        default=None,
        description="The release is a sum over parts of the content, made by several processes if "
        "need be: all records of one such unit lie in one part. Absent: read as a whole",
    )
    sampled_by: str | None = Field(
        default=None,
        description="Each step of the release draws such units of the content, and no more of it "
        "is in memory than what the next steps draw. Absent: read as a whole",
    )
    released_by: tuple[str, ...] = Field(
        default=(),
        description="Jobs whose releases are asked again: events and noise are those of these "
        "jobs, and the price is 0",
    )
    public_digest: str | None = Field(
        default=None,
        description="SHA-256, hexadecimal, of the canonical JSON of the dataset's public part that "
        "this plan was made of, of blocks that of all as one dataset. Absent: it has none",
    )

    @classmethod
    def priced(cls, events: Iterable[Event], **fields: Any) -> Self:
        """A plan whose price, and what that rests on, is derived from its events. InvalidInput for
        too much noise or time."""
        events = tuple(events)
        if (seconds := fields["resources"].working_seconds) > LONGEST_SECONDS:
            says = (
                f"with the largest content that the public bounds allow this takes {seconds:.3g} "
                f"s, at most {LONGEST_SECONDS}"
            )
            raise InvalidInput(
                f"{says} are given: a dataset with smaller bounds is needed",
                pointer="/problem/dataset",
            )
        for event in events:
            # No release may fail after its price was reserved.
            if (
                event.noise.startswith("discrete_")
                and event.scale / getattr(event, "grid", 1.0) > LARGEST_SCALE
            ):
                says = (
                    f"so small an epsilon needs noise of scale {event.scale:.3g}, which is more "
                    f"than can be drawn exactly"
                )
                raise InvalidInput(f"{says}; ask for a larger one", pointer="/privacy/epsilon")
        price = sum((event.price() for event in events), Price.zero())
        own = dict.fromkeys(sentence for event in events for sentence in event.assumptions())
        assumptions = (*fields.pop("assumptions", ()), *own)
        return cls(events=events, price=price.to_json(), assumptions=assumptions, **fields)

    def on_blocks(self, source: PlannedSource, claims: tuple[str, ...]) -> Self:
        """The same on blocks of a source: what it claims, and the time of opening each of them.
        InvalidInput where that is too long."""
        beside = (len(source.blocks) - 1) * OPENING_BLOCK_SECONDS
        seconds = self.resources.release_quantum_seconds + beside
        if (working := self.resources.working_seconds + beside) > LONGEST_SECONDS:
            says = (
                f"so many blocks take {working:.3g} s, at most {LONGEST_SECONDS} are given: "
                "fewer are needed"
            )
            raise InvalidInput(says, pointer="/problem/source")
        opening = self.resources.opening_seconds + beside
        times = {"release_quantum_seconds": seconds, "opening_seconds": opening}
        resources = self.resources.model_copy(update=times)
        return self.model_copy(
            update={
                "source": source,
                "assumptions": (*self.assumptions, *claims),
                "resources": resources,
            }
        )

    @property
    def total(self) -> Price:
        return Price.from_json(self.price)
