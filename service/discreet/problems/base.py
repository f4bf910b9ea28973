"""The contract of a problem kind.

    plan(public, budget)                    PUBLIC: never sees private data; what will be done, and its price
    release(public, plan, content, noise)   the only place where private data and noise meet; total
    finish(public, plan, released, …)       pure post-processing of what was released

A kind is one subclass of `Problem` with its `Dataset`, one line in `problems.KINDS`, one test and its docs page.
"""

from __future__ import annotations

import io
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, JsonValue, StringConstraints, model_validator

from discreet.errors import InvalidInput
from discreet.field_issues import Misfit
from discreet.privacy.events import Event
from discreet.privacy.noise import Noise
from discreet.privacy.units import Price
from discreet.problems.numbers import Budget, Delta, Epsilon, Flag, Frozen, Positive, Privacy, Real

Content = dict[str, NDArray[Any]]
"""Private content in its canonical form: arrays by name, the same for the same data in any order."""

Packed = dict[str, NDArray[Any]]
"""Rows of a JSON content as arrays by name, not yet checked against the public part."""

Released = dict[str, NDArray[Any]]
"""What the mechanisms released, arrays by name, and nothing else."""

Progress = Callable[[int, int], None]
"""Called with (step, total); post-processing only, so that steps and their timing tell nothing about the data."""

Mode = Literal["private", "simulation"]

LARGEST_SCALE = 2.0**52
"""Of noise, in integers or steps of its grid: what `privacy.samplers` draws. A plan beyond it is refused, so that no
release fails after its price was reserved."""

DIGEST_ITEMS = 1 << 17
"""Numbers of a content that are put into its digest at once."""

MAX_JSON_NUMBERS = 1_000_000
"""A field of more numbers is left out of the JSON and given as a table."""

LONGEST_SECONDS = 1800
"""Of a release, whatever the data, as estimated from public figures: half of the default wall limit of a child. One
that came to the limit would fail, and so tell about its data; so a plan that could is refused."""

PRIVATE: dict[str, JsonValue] = {"x-private": True}
"""Marks a field of a schema as private; whatever is not marked is treated as published."""


def _registered(value: Any) -> Any:
    if isinstance(value, dict):
        raise ValueError("the id of a registered dataset is needed; POST /v1/datasets takes a whole one and gives it")
    return value


DatasetId = Annotated[str, BeforeValidator(_registered)]


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
    def of(cls, event: Event, quantity: str, unit: float = 1.0) -> Self:
        """The noise of an event, in multiples of `unit` of what the event counts in.

        Of discrete Gaussian and Dirichlet an upper bound on the standard deviation.
        """
        deviation = event.scale
        if event.mechanism == "discrete_laplace":  # 2 e^{-1/t} / (1 - e^{-1/t})^2 = 1 / (2 sinh^2(1/2t))
            deviation = math.sqrt(0.5) / math.sinh(min(0.5 / event.scale, 300.0))
        elif event.mechanism == "dirichlet":  # sqrt(p (1 - p) / (k + 1)), largest at p = 1/2; the scale is k
            deviation = 0.5 / math.sqrt(event.scale + 1)
        return cls(
            quantity=quantity,
            distribution=event.noise,
            scale=event.scale / unit,
            standard_deviation=deviation / unit,
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


@dataclass(frozen=True)
class Output:
    """One field of a result: `value` makes it for JSON, `table` for Parquet when it is of more than 1e6 numbers."""

    value: Callable[[], Any]
    numbers: int = 1
    table: Callable[[], pa.Table] | None = None

    @classmethod
    def array(cls, array: NDArray[np.float64], *names: str) -> Self:
        """An array as nested lists, or as a table of one row a number: its position on each axis, then the number.

        `names`: of the axes, and of the numbers.
        """

        def table() -> pa.Table:
            positions = [axis.ravel() for axis in np.indices(array.shape)]
            return pa.table(dict(zip(names, [*positions, array.ravel()], strict=True)))

        return cls(array.tolist, numbers=array.size, table=table)

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


Name = Annotated[str, StringConstraints(min_length=1, max_length=200, strip_whitespace=True)]


class DatasetSettings(Frozen):
    """What stands beside the content of a dataset that is registered."""

    name: Name
    cap: Cap | None = Field(default=None, description="Needed unless `account` is given")
    mode: Mode = Field(default="private", description="`simulation` declares the content public")
    account: str | None = Field(default=None, description="Account of an earlier version of the same source")
    retention_days: Annotated[int, Field(strict=True, ge=1, le=36500)] | None = Field(
        default=None, description="The content is erased after so many days; absent: as the installation is set"
    )
    delete_after_job: Flag = Field(
        default=False, description="The content is erased after the first job that succeeds on it"
    )


class Dataset(DatasetSettings):
    """A dataset of one kind to register: `public` is published, `content` never leaves except by a mechanism."""

    ROW_BYTES: ClassVar[int] = 0
    """Fewest bytes of content that a row of an uploaded table becomes: what has too many rows is refused unread."""

    ROWS: ClassVar[Mapping[str, Any]] = {}
    """Arrays of a JSON content that may be long, by name with the type of an item: they are read in pieces."""

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
    def pack(cls, name: str, items: Sequence[Any]) -> Packed:
        """Validated items of one of `ROWS` as arrays. Of several pieces each array is put behind that of the other."""
        raise NotImplementedError  # only a kind that names rows in `ROWS` is asked, and it says how

    @classmethod
    def read_packed(cls, public: Any, packed: Mapping[str, Packed]) -> Content:
        """Canonical content from the packed arrays of a JSON body, of those that it has. Like `read_rows`."""
        raise NotImplementedError  # as `pack`

    @classmethod
    @abstractmethod
    def read_table(cls, public: Any, table: pa.Table) -> Content:
        """Canonical content from an uploaded table. InvalidInput naming column and row."""

    @classmethod
    def read_batches(cls, public: Any, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Content:
        """Canonical content from an uploaded table that comes in batches.

        Here the table is put together first; a kind whose canonical form sums rows can do with less memory.
        """
        return cls.read_table(public, pa.Table.from_batches(batches, schema))

    @classmethod
    def sample_tables(cls) -> Iterable[tuple[dict[str, Any], dict[str, list[Any]]]]:
        """Public parts, each with the columns of a small table of such content: one for every form that uploads have.

        They are read before a reader's rights go, so that nothing has to be loaded or compiled afterwards.
        """
        return ()

    @classmethod
    def describe(cls, public: Any, content: Content) -> Any:
        """The public part, completed by what the form of the content says: which columns there are, never a value."""
        return public

    @classmethod
    def relation(cls, public: Any) -> dict[str, Any]:
        """What neighbouring contents differ by, beyond the unit's name: facts by name. Datasets of one account agree in
        every fact that both have, or the sum of their prices would speak of no one relation."""
        return {}

    def rows(self) -> Content:
        """The canonical content of this dataset."""
        return self.read_rows(self.public, self.content)

    def described(self) -> Self:
        """This dataset with its public part completed."""
        return self.model_copy(update={"public": self.describe(self.public, self.rows())})


class Problem(Frozen):
    """One kind of problem. Subclasses fix `kind` to a literal and give the model of their datasets."""

    kind: str
    Dataset: ClassVar[type[Dataset] | None]
    """None: the data are in the problem itself, or with agents."""

    def budget(self, privacy: Privacy | None) -> Budget:
        """What a job may spend, from what the request says of it. InvalidInput when it says nothing."""
        if privacy is None:
            raise InvalidInput("needed: the budget of this job", pointer="/privacy")
        return privacy.budget

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

    def diagnose(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        """What a simulation also shows of its data, which are declared public: arrays under names that begin with
        `true_`. They join what was released, so `finish` sees them; no private job has any. `noise` is that of the
        release, from its beginning."""
        return {}

    @abstractmethod
    def finish(self, public: Any, plan: Plan, released: Released, progress: Progress) -> Result:
        """Everything that follows from what was released. Sees no private data; may be run again."""

    def evidence(self, plan: Plan, result: bytes) -> dict[str, Any] | None:
        """The section `cryptographic` of the certificate, from the published result (JSON text); None where only noise
        protects."""
        return None


# Federated kinds ----------------------------------------------------------------------------------------------------


class FederationTerms(Frozen):
    """How a session of agents is run; fixed with the job, before anybody joins."""

    agents: Positive = Field(le=1000, description="Most agents that may join")
    quorum: Positive | None = Field(default=None, description="Fewest agents that a round needs; all by default")
    on_missing: Literal["abort", "finish"] = Field(
        default="abort",
        description="`abort`: an agent that misses a round ends the job; `finish`: rounds go on with a quorum",
    )
    round_seconds: Real = Field(default=30.0, gt=0, le=86400, description="From a broadcast to the round's deadline")
    approve_seconds: Real = Field(
        default=604800.0, gt=0, le=7776000, description="From submission to the signed roster; then the job fails"
    )
    join_seconds: Real = Field(default=600.0, gt=0, le=604800, description="From the signed roster to the first round")

    @property
    def least(self) -> int:
        """Agents that a round needs at least."""
        return self.agents if self.quorum is None else min(self.quorum, self.agents)


@dataclass(frozen=True)
class Member:
    """An agent on the owner's signed roster."""

    fingerprint: str
    name: str
    key: bytes
    """Ed25519, 32 bytes."""
    announcement: Any
    """The public figures that it announced when it enrolled, as `check_announcement` let them pass."""


class SessionFailed(Exception):
    """A session cannot go on. `code` is one of the kind's `failures`: a fixed name, never made from messages."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class Session(ABC):
    """The operator's side of one federated job: a state machine, deterministic apart from noise.

    It lives in a child process without network. Agents are named by their fingerprints. The coordinator calls

        opening(noise)                        the broadcast of round 0
        step(0, {agent: message}, noise)      its answers come in; returns the broadcast of round 1
        …
        step(rounds - 1, …)                   returns the last broadcast, which ends the session for the agents
        released()                            what `finish` makes the result of

    A protocol of several phases a round counts every exchange as a round. After each step `state()` and the broadcast
    are on disk before any agent sees the broadcast. A step that was lost with its process is done again, with new
    noise, since nobody saw the first; `restore(state())` on a new object goes on as if nothing had happened. Under
    `on_missing: finish` `messages` may lack agents, but holds at least the quorum, and noise must suffice for that.
    """

    rounds: int
    done: bool = False
    """Set by a step that ends the session before `rounds`: only by what every agent may know."""

    @abstractmethod
    def opening(self, noise: Noise) -> bytes:
        """The broadcast of round 0."""

    def accepts(self, number: int, agent: str, message: bytes) -> bool:
        """Whether this message can be used, looked at alone; one that cannot counts as missing."""
        return True

    @abstractmethod
    def step(self, number: int, messages: Mapping[str, bytes], noise: Noise) -> bytes:
        """The broadcast that follows from a round's messages. SessionFailed ends the job."""

    @abstractmethod
    def state(self) -> bytes:
        """All that `restore` needs."""

    @abstractmethod
    def restore(self, state: bytes) -> None:
        """Go on from what `state` said."""

    @abstractmethod
    def released(self) -> Released:
        """What was broadcast in all, as far as `finish` needs it; nothing that agents have not seen."""


class FederatedProblem(Problem):
    """A kind that agents can solve together: `protocol: federated` runs a session instead of `release`."""

    failures: ClassVar[dict[str, str]] = {}
    """Fixed texts by code of what may end its sessions."""
    signs_parameters: ClassVar[bool] = False
    """The owner's signature over the roster covers the plan's parameters too: agents believe no others."""

    protocol: Literal["job", "federated"] = "job"
    federation: FederationTerms | None = Field(default=None, description="Needed with protocol `federated`")

    @property
    def terms(self) -> FederationTerms | None:
        """The session's terms; None in job mode."""
        return self.federation if self.protocol == "federated" else None

    def check_announcement(self, announcement: Any) -> None:
        """InvalidInput with pointers into what an agent announced about itself when it enrolled. By default it is
        nothing: `{}`."""
        if announcement != {}:
            raise InvalidInput("this kind asks its agents for no public figures")

    @abstractmethod
    def plan_federation(self, agents: Sequence[Member], budget: Budget) -> Plan:
        """What a session would do and cost each agent. Asked twice: with no agents when the job is submitted, and with
        the roster when the owner has signed it; the second plan replaces the first and must not cost more."""

    @abstractmethod
    def answer_bytes(self, plan: Plan, agents: int) -> int:
        """The longest answer that an honest agent gives to any round, of a roster of so many: rpc lets no longer one
        in."""

    @abstractmethod
    def open_session(self, plan: Plan, agents: Sequence[Member]) -> Session:
        """The session of a signed roster."""

    @classmethod
    @abstractmethod
    def rehearse_session(cls) -> None:
        """Run a small session from opening to released, in this process: loads and compiles all that a session's child
        will need, which can open no files any more."""

    @model_validator(mode="after")
    def _terms_are_there(self) -> Self:
        if self.protocol == "federated" and self.federation is None:
            raise Misfit("federation", "protocol `federated` needs it: the terms of the session")
        return self


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring contents of one dataset, as far apart as the neighbouring relation lets them be.

    `near`: an attack on the release alone comes near the price. Not where what is released is a remnant of many noised
    steps, each of which was paid for: those steps are attacked in the tests of the kind.
    """

    name: str
    problem: Problem
    public: Any
    plan: Plan
    left: Content
    right: Content
    near: bool = True


def read_example(kind: type[Problem]) -> tuple[Problem, Dataset | None, Budget]:
    """A kind's example as its models."""
    body = kind.example()
    dataset = None
    if kind.Dataset is not None:
        dataset = kind.Dataset.model_validate(body["problem"]["dataset"]).described()
        body["problem"]["dataset"] = "example"
    problem = kind.model_validate(body["problem"])
    privacy = Privacy.model_validate(body["privacy"]) if "privacy" in body else None
    return problem, dataset, problem.budget(privacy)


def plan_example(kind: type[Problem]) -> Plan:
    """Plan a kind's example: loads what planning needs."""
    problem, dataset, budget = read_example(kind)
    return problem.plan(None if dataset is None else dataset.public, budget)


def rehearse(kind: type[Problem]) -> Result:
    """Run a kind's example and its worst cases from bytes to result, and give the example's.

    Loads all code, compiled kernels included, that a job will need, whichever of the kind's methods it uses.
    """
    problem, dataset, budget = read_example(kind)
    public, content = (None, {}) if dataset is None else (dataset.public, dataset.rows())
    example = Neighbours("example", problem, public, problem.plan(public, budget), content, {})
    for case in (*kind.worst_cases(), example):
        content = unpack(pack(case.left))
        for noise in (Noise.seeded(0), Noise.secure()):
            released = unpack(pack(case.problem.release(case.public, case.plan, content, noise)))
        case.problem.diagnose(case.public, case.plan, content, Noise.seeded(0))
        result = case.problem.finish(case.public, case.plan, released, lambda step, total: None)
    return result


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
        flat = array.reshape(-1)
        for first in range(0, flat.size, DIGEST_ITEMS):  # a copy of a part, not of the whole
            yield flat[first : first + DIGEST_ITEMS].tobytes()
