"""The contract of a problem kind.

    plan(public, budget)                    PUBLIC: never sees private data; what will be done, and its price
    release(public, plan, content, noise)   the only place where private data and noise meet; total
    finish(public, plan, released, …)       pure post-processing of what was released

A kind is one subclass of `Problem` with its `Dataset`, one line in `problems.KINDS`, one test and its docs page.
"""

from __future__ import annotations

import io
import math
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.privacy.units import Price
from discreet.problems.numbers import Budget, Delta, Epsilon, Frozen, Privacy

Content = dict[str, NDArray[Any]]
"""Private content in its canonical form: arrays by name, the same for the same data in any order."""

Released = dict[str, NDArray[Any]]
"""What the mechanisms released, arrays by name, and nothing else."""

Progress = Callable[[int, int], None]
"""Called with (step, total); post-processing only, so that steps and their timing tell nothing about the data."""

Mode = Literal["private", "simulation"]

MAX_JSON_NUMBERS = 1_000_000
"""A field of more numbers is left out of the JSON and given as a table."""

PRIVATE: dict[str, JsonValue] = {"x-private": True}
"""Marks a field of a schema as private; whatever is not marked is treated as published."""


class Cap(Frozen):
    """What may be spent on an account in all."""

    epsilon: Epsilon
    delta: Delta = Field(default=Decimal(0))


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
    def of(cls, event: Event, quantity: str) -> Self:
        """The noise of an event. Of a discrete Gaussian the scale is an upper bound on the standard deviation."""
        deviation = event.scale
        if event.mechanism == "discrete_laplace":  # 2 e^{-1/t} / (1 - e^{-1/t})^2 = 1 / (2 sinh^2(1/2t))
            deviation = math.sqrt(0.5) / math.sinh(min(0.5 / event.scale, 300.0))
        return cls(quantity=quantity, distribution=event.noise, scale=event.scale, standard_deviation=deviation)


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
    parameters: dict[str, Any] = Field(default_factory=dict, description="Public constants of the kind")

    @classmethod
    def priced(cls, events: Iterable[Event], **fields: Any) -> Self:
        """A plan whose price, and what that rests on, is derived from its events."""
        events = tuple(events)
        price = sum((event.price() for event in events), Price.zero())
        own = dict.fromkeys(sentence for event in events for sentence in event.assumptions())
        assumptions = (*fields.pop("assumptions", ()), *own)
        return cls(events=events, price=price.to_json(), assumptions=assumptions, **fields)

    @property
    def total(self) -> Price:
        return Price.from_json(self.price)


@dataclass(frozen=True)
class Output:
    """One field of a result: `value` makes it for JSON, `table` for Parquet when it is of more than 1e6 numbers."""

    value: Callable[[], Any]
    numbers: int = 1
    table: Callable[[], pa.Table] | None = None

    @property
    def is_table(self) -> bool:
        return self.table is not None and self.numbers > MAX_JSON_NUMBERS


@dataclass(frozen=True)
class Result:
    """The published result of a job, field by field."""

    outputs: dict[str, Output] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The result without its large fields; `tables` names those."""
        body = {name: output.value() for name, output in self.outputs.items() if not output.is_table}
        return {**body, "tables": sorted(name for name, output in self.outputs.items() if output.is_table)}

    def tables(self, *, every: bool = False) -> dict[str, pa.Table]:
        """The large fields, or every field that can be a table."""
        return {
            name: output.table()
            for name, output in self.outputs.items()
            if output.table is not None and (every or output.is_table)
        }


class Dataset(Frozen):
    """A dataset of one kind: `public` is published, `content` never leaves except by a mechanism."""

    kind: str
    public: Any
    content: Any = Field(json_schema_extra=PRIVATE)

    @classmethod
    @abstractmethod
    def read_public(cls, public: Any) -> Any:
        """The public part as its model; pydantic's ValidationError when it is not valid."""

    @classmethod
    @abstractmethod
    def read_rows(cls, public: Any, content: Any) -> Content:
        """Canonical content from the validated `content` of a JSON body. InvalidInput with pointers below /content."""

    @classmethod
    @abstractmethod
    def read_table(cls, public: Any, table: pa.Table) -> Content:
        """Canonical content from an uploaded table. InvalidInput naming column and row."""


class Problem(Frozen):
    """One kind of problem. Subclasses fix `kind` to a literal and give the model of their datasets."""

    kind: str
    Dataset: ClassVar[type[Dataset]]

    @classmethod
    @abstractmethod
    def example(cls) -> dict[str, Any]:
        """A small job body `{problem, privacy}` with its synthetic dataset inside; it really runs."""

    @classmethod
    @abstractmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        """Neighbouring contents on which the audit attacks `release`: one for each mechanism and unit of the kind."""

    @abstractmethod
    def plan(self, public: Any, budget: Budget) -> Plan:
        """What a job would do and cost. Sees public figures only; InvalidInput with pointers below /problem."""

    @abstractmethod
    def release(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        """Run the plan's mechanisms on the data. Total: never raises on content that registration accepted."""

    @abstractmethod
    def finish(self, public: Any, plan: Plan, released: Released, progress: Progress) -> Result:
        """Everything that follows from what was released. Sees no private data; may be run again."""


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring contents of one dataset, as far apart as the neighbouring relation lets them be."""

    name: str
    problem: Problem
    public: Any
    plan: Plan
    left: Content
    right: Content


def read_example(kind: type[Problem]) -> tuple[Problem, Dataset, Budget]:
    """A kind's example as its models."""
    body = kind.example()
    spec = body["problem"].pop("dataset")
    dataset = kind.Dataset.model_validate({name: spec[name] for name in kind.Dataset.model_fields})
    problem = kind.model_validate({**body["problem"], "dataset": "example"})
    return problem, dataset, Privacy.model_validate(body["privacy"]).budget


def plan_example(kind: type[Problem]) -> Plan:
    """Plan a kind's example: loads what planning needs."""
    problem, dataset, budget = read_example(kind)
    return problem.plan(dataset.public, budget)


def rehearse(kind: type[Problem]) -> Result:
    """Run a kind's example from bytes to result: loads all code, compiled kernels included, that a job will need."""
    problem, dataset, budget = read_example(kind)
    plan = problem.plan(dataset.public, budget)
    content = unpack(pack(dataset.read_rows(dataset.public, dataset.content)))
    for noise in (Noise.seeded(0), Noise.secure()):
        released = unpack(pack(problem.release(dataset.public, plan, content, noise)))
    return problem.finish(dataset.public, plan, released, lambda step, total: None)


def pack(arrays: Content | Released) -> bytes:
    """Arrays by name as bytes, the same for the same arrays."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{name: arrays[name] for name in sorted(arrays)})
    return buffer.getvalue()


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays that `pack` wrote."""
    with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def canonical_bytes(content: Content) -> Iterable[bytes]:
    """What the digest of a dataset is taken of: names, types, shapes and values, not how they were sent."""
    for name in sorted(content):
        array = np.ascontiguousarray(content[name])
        yield f"{name}\0{array.dtype.str}\0{array.shape}\0".encode()
        yield array.tobytes()
