"""The contract of a problem kind.

    plan(public, budget)                    PUBLIC: never sees private data; what will be done, and
                                            its price
    release(public, plan, content, noise)   the only place where private data and noise meet; total
    finish(public, plan, released, …)       pure post-processing of what was released

A kind is a folder (`problem.py` with one subclass of `Problem`, `dataset.py`, `result.py`,
`charts.py`, its own; where those need the fields of a request, these stand in `request.py`, of
which the subclass is one), one line in `problems.KINDS`, one test and its docs page:
`tests/problems/test_new_kind.py` adds one.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from pydantic import ConfigDict

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy.mechanisms.gaussian import gaussian_epsilon
from discreet.privacy.noise import Noise
from discreet.privacy.units import DELTA_UNIT, EPSILON_UNIT, RHO_UNIT
from discreet.problems.contents import (
    Content,
    Profile,
    Progress,
    PublicObject,
    Released,
    pack,
    unpack,
)
from discreet.problems.datasets import Dataset
from discreet.problems.numbers import MAX_EPSILON, Budget, Frozen, Privacy
from discreet.problems.plans import Plan
from discreet.problems.results import Expected, Result, ResultFields

# Synthesis ----------------------------------------------------------------------------------------
# How a kind generates synthetic data of a public shape, for rehearsals, from public figures alone.

UNITS = 1000
"""Of made-up data where no public figure tells of any."""
MOST_ROWS = 300_000


@dataclass(frozen=True)
class Synthesis:
    """Two functions of the public part and of how many units there shall be; None: as many as a
    kind finds likely. The second also of what an earlier release says of such data; None: they are
    made of public figures alone."""

    rows: Callable[[Any, int | None], int]
    """About how many rows the data would have."""
    columns: Callable[[Any, np.random.Generator, int | None, Profile | None], dict[str, Any]]
    """The data, as the columns of an upload (`Dataset.read_table`)."""

    def issues(self, dataset: type[Dataset], public: Any, units: int | None) -> list[FieldIssue]:
        """Why no data of this shape can be generated; empty if they can."""
        known = dataset.most_units(public)
        exact = dataset.relation(public).get("neighbours") == "replaced"
        if units is not None and known is not None and (units > known or (exact and units < known)):
            says = f"by its public part this dataset has {'' if exact else 'at most '}{known:,}"
            return [
                FieldIssue("/units", f"{says}: to rehearse another number, give another `public`")
            ]
        rows = self.rows(public, known if units is None else units)
        if rows <= MOST_ROWS:
            return []
        says = (
            f"made-up data of this shape have about {rows:,} rows, and at most {MOST_ROWS:,} "
            "are rehearsed"
        )
        return [
            FieldIssue("/units", f"{says}: say fewer units, or rehearse a smaller public shape")
        ]

    def content(
        self,
        dataset: type[Dataset],
        public: Any,
        generator: np.random.Generator,
        units: int | None,
        around: Profile | None = None,
    ) -> Content:
        """The data in their canonical form, which are as registration would take them."""
        exact = dataset.relation(public).get("neighbours") == "replaced"
        if units is None and (around is None or exact):  # else as many as were released
            units = dataset.most_units(public)
        return dataset.read_table(public, pa.table(self.columns(public, generator, units, around)))


# Base ---------------------------------------------------------------------------------------------

ALWAYS = "always"
REPORTING_FIELDS = frozenset({"relative_gap", "uncertainty"})
"""Fields that set how precisely an answer is computed or reported, not what is asked."""
MOST_PLANS = 16
"""Made in search of a rho."""
MOST_TRIED = 3
"""Stored objects that an example is made with, until one does."""
RHO_TOLERANCE = 1e-3
"""Fraction of a rho that may be left unused: the noise is then larger than necessary by at most
half that fraction."""


def _marked(schema: dict[str, Any], problem: type[Problem]) -> None:
    for name, when in problem.asked_again.items():
        schema["properties"][name]["x-asked-again"] = when


@dataclass(frozen=True)
class LeftOut:
    """What a question next to an answer may leave out of a public object of its problem, by name:
    closed roads, each a link or a street of several links."""

    fields: tuple[str, ...]
    """Fields of a problem that hold it, as positions in the object."""
    choices: Callable[[Mapping[str, Any]], dict[str, list[tuple[str | int, str]]]]
    """Of a problem with its public objects: for each such field, values and their labels."""
    named: Callable[[Mapping[str, Any]], dict[str, list[str]]]
    """For each such field that the problem has, the names of what it leaves out."""
    positions: Callable[[Mapping[str, Any], str, Sequence[str | int]], list[int]]
    """What the field holds for these values. InvalidInput for a name that means nothing there."""


class Problem(Frozen):
    """One kind of problem. Subclasses fix `kind` to a literal, and name the models of their
    datasets and results."""

    model_config = ConfigDict(json_schema_extra=_marked)

    title: ClassVar[str]
    """The kind's name for people."""
    private: ClassVar[str]
    published: ClassVar[str]
    """For people, in a few words: what a job protects, and what it publishes."""
    words: ClassVar[Mapping[str, str]] = {}
    """For people: what a plan's `iterations` count, where the name alone does not say it."""

    kind: str
    Dataset: ClassVar[type[Dataset] | None]
    """None: the data are in the problem itself, or with agents."""
    Fields: ClassVar[Any] = ResultFields
    """The fields of its results, as the contract publishes them."""
    headlines: ClassVar[Any] = None
    """`headlines(problem, result)`: a list of `Headline`, the sentences of a result, the answer
    itself first. None: the first number of which an interval is told is the answer."""
    left_out: ClassVar[LeftOut | None] = None
    main_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of its results that people ask for, most of all first: a rehearsal begins with them.
    Others follow in the order of the result."""
    synthesis: ClassVar[Synthesis | None] = None
    """How data of its datasets are made up for rehearsals; None: they are not."""
    made_up: ClassVar[str] = ""
    """For people: what in `example_for` stands for what only they know; a whole sentence, or
    nothing."""
    made_up_fields: ClassVar[tuple[str, ...]] = ()
    """Of `example_for`, the fields that `made_up` is of."""
    shape: ClassVar[tuple[str, ...]] = ()
    """The public figures of a dataset that a profile is of: it serves datasets that have the
    same."""
    model: ClassVar[str] = ""
    """The sentence of a plan's advice that says what data are taken to be; an earlier release
    replaces it."""
    asked_again: ClassVar[Mapping[str, str]] = {}
    """Fields of the request that may have another value when what was released is finished again:
    ALWAYS, or where, in words (`free` then says it of one problem). All other fields were fixed at
    the release. In the order in which people turn them: pages show the first ones beside an answer,
    all others when asked."""
    known_to_who_asks: ClassVar[tuple[str, ...]] = ()
    """Fields that have a default and deserve a figure of one's own: `discreet init` asks for
    them."""
    by_parts: ClassVar[str] = "smaller public bounds are needed"
    """What helps, in words, where the content may be too large to be held as a whole: what does not
    read it so (plans with `parts_by` or `sampled_by`), if anything."""
    scaled_together: ClassVar[frozenset[str]] = frozenset()
    """Lists of numbers that mean something when all of them are made larger or smaller together,
    such as a tariff."""
    objects: ClassVar[Mapping[str, type[PublicObject]]] = {}
    """Fields that hold a public object, or as text the id of one that is stored. Whoever plans or
    runs the problem puts the objects in the place of their ids first (`with_objects`)."""

    @classmethod
    def asks(cls, problem: Mapping[str, Any]) -> tuple[str, ...]:
        """Those of `known_to_who_asks` that a problem (JSON, with its public objects) leaves
        open."""
        return cls.known_to_who_asks

    def named(self) -> dict[str, tuple[str, type[PublicObject]]]:
        """The ids of stored objects that it names, with their types, by field."""
        return {
            field: (value, model)
            for field, model in self.objects.items()
            if isinstance(value := getattr(self, field), str)
        }

    def with_objects(self, found: Mapping[str, PublicObject]) -> Self:
        """The same problem with ids replaced by stored objects."""
        return self.model_copy(
            update={field: found[name] for field, (name, _) in self.named().items()}
        )

    def held(self) -> dict[str, PublicObject]:
        """The public objects that it holds completely, by field."""
        return {
            field: value
            for field in self.objects
            if isinstance(value := getattr(self, field), PublicObject)
        }

    @classmethod
    def fits(cls, field: str, sizes: Mapping[str, Any], public: Any) -> bool:
        """Whether a stored object of these `sizes` may stand in a field of `objects`, on data of
        this public part."""
        return True

    @classmethod
    def named_for(cls, field: str, public: Any) -> str | None:
        """The id of the stored object of a field of `objects` by which data of this public part
        were read; None where they name none."""
        return None

    @classmethod
    def needs_own(cls, field: str, public: Any) -> str:
        """Why no made-up object stands in a field of `objects` for data of this public part, and
        what to do, for people; nothing where one may."""
        return ""

    def free(self, public: Any) -> frozenset[str]:
        """The fields that may have another value when what this problem released is finished
        again."""
        return frozenset(name for name, when in self.asked_again.items() if when == ALWAYS)

    def questions(self, public: Any) -> list[str]:
        """Those of `free` that ask something else, in the order in which people turn them: how an
        answer is told is no question."""
        free = self.free(public)
        return [name for name in self.asked_again if name in free and name not in REPORTING_FIELDS]

    def alternative_values(self, public: Any) -> dict[str, dict[str, Any]]:
        """Of each field of the request another value for this problem, with what has to change
        beside it: the updates by which `free` is tested. `kind`, `dataset` and the terms of a
        session have none."""
        return {}

    def budget(self, privacy: Privacy | None) -> Budget:
        """What a job may spend, from the figures of the request. InvalidInput if it has none."""
        if privacy is None:
            raise InvalidInput("needed: the budget of this job", pointer="/privacy")
        return privacy.budget

    def units(self, public: Any) -> int | None:
        """The number of protected units, or an upper bound; None if no public figure gives one."""
        return None if self.Dataset is None else self.Dataset.most_units(public)

    @classmethod
    @abstractmethod
    def example(cls) -> dict[str, Any]:
        """A small job body `{problem, privacy}` with its synthetic dataset inside; it really
        runs."""

    @classmethod
    def example_for(cls, public: Any) -> dict[str, Any]:
        """A small job body `{problem, privacy}`, without `dataset`, of which a plan is made on any
        dataset of this public part. The default is the kind's example, which fits the example's
        own dataset."""
        body = cls.example()
        body["problem"].pop("dataset", None)
        return body

    @classmethod
    def examples_for(
        cls, public: Any, stored: Mapping[str, Iterable[Mapping[str, Any]]]
    ) -> Iterator[dict[str, Any]]:
        """`example_for` with stored objects in the place of made-up ones, best first: the one by
        which the data were read, the newest that fit, and at last with none, without the fields
        whose object may not be made up (`needs_own`). `stored`: by field those of the tenant,
        newest first, each with its `id` and sizes. Whether one does for these data is only known
        when a plan is made of it."""
        body = cls.example_for(public)
        for field, rows in stored.items():
            first = cls.named_for(field, public)
            fitting = [row["id"] for row in rows if cls.fits(field, row, public)]
            if first is not None:  # without it nobody knows whether others mean the same
                others = [one for one in fitting if one != first]
                fitting = [first, *others] if first in fitting else []
            for object_id in fitting[:MOST_TRIED]:
                yield {**body, "problem": {**body["problem"], field: object_id}}
        own = {field for field in stored if cls.needs_own(field, public)}
        problem = {name: one for name, one in body["problem"].items() if name not in own}
        yield {**body, "problem": problem}

    @classmethod
    def vary(cls, content: dict[str, Any], number: int) -> None:
        """Change one record of the example dataset's content by a number in 1..10^9 so that
        contents differ. Not called for a kind without datasets."""

    @classmethod
    @abstractmethod
    def worst_cases(cls) -> tuple[Neighbours, ...]:
        """Neighbouring contents on which the audit attacks `release`: one for each mechanism and
        unit of the kind."""

    @abstractmethod
    def plan(self, public: Any, budget: Budget) -> Plan:
        """What a job would do and cost. Sees public figures only; InvalidInput with pointers below
        /problem."""

    def draft(self, public: Any, budget: Budget) -> Plan:
        """The plan without its advice, for searches for a budget, which make many."""
        return self.plan(public, budget)

    def plan_within(self, public: Any, budget: Budget) -> Plan:
        """`plan`; of a budget in rho that of the largest epsilon, to RHO_TOLERANCE, whose price
        keeps the rho.

        Whatever the search finds, only a plan whose own events cost at most the rho is returned. It
        begins at the epsilon of a Gaussian of this rho; prices go with about the square of epsilon.
        """
        if budget.rho is None:
            return self.plan(public, budget)
        mu, delta = math.sqrt(2 * budget.rho / RHO_UNIT), budget.delta / DELTA_UNIT
        best, below, above, power = None, 0, MAX_EPSILON * EPSILON_UNIT + 1, 2.0
        epsilon = int(gaussian_epsilon(mu, delta) * EPSILON_UNIT)
        seen: list[tuple[float, float]] = []
        for _ in range(MOST_PLANS):
            epsilon = min(max(epsilon, below + 1), above - 1)
            try:
                made = self.plan(public, budget.model_copy(update={"epsilon": epsilon}))
            except InvalidInput as refused:
                raise InvalidInput(
                    FieldIssue(
                        "/privacy/rho" if one.pointer == "/privacy/epsilon" else one.pointer,
                        one.detail,
                    )
                    for one in refused.issues
                ) from None
            ratio = budget.rho / max(1, made.total.rho)
            if ratio >= 1:
                best, below = made, epsilon
            else:
                above = epsilon
            if 1 <= ratio < 1 + RHO_TOLERANCE or above - below <= max(1, RHO_TOLERANCE / 4 * below):
                break
            seen.append((math.log(epsilon), math.log(ratio)))
            if len(seen) > 1 and seen[-1][0] != seen[-2][0]:
                found = (seen[-2][1] - seen[-1][1]) / (seen[-1][0] - seen[-2][0])
                power = found if 1 <= found <= 4 else 2.0
            epsilon = int(epsilon * (ratio * (1 - RHO_TOLERANCE / 3)) ** (1 / power))
            if not below < epsilon < above:
                epsilon = (below + above) // 2
        if best is None:
            raise InvalidInput(
                "no plan of this problem was found that stays within so small a rho",
                pointer="/privacy/rho",
            )
        return best

    def profile(self, public: Any, plan: Plan, released: Released) -> Profile | None:
        """What a release by this plan says about the data as a whole, as post-processing of it;
        None if nothing."""
        return None

    @classmethod
    def profiles(cls, problem: Mapping[str, Any], parameters: Mapping[str, Any]) -> bool:
        """Whether a release of this problem by a plan of these parameters may have a profile: pages
        offer to plan around it."""
        return cls.profile is not Problem.profile

    def expected(
        self, public: Any, plan: Plan, confidence: float, around: Profile | None = None
    ) -> tuple[Expected, ...]:
        """How far a release by this plan is expected to move what its result says: the quantities
        that a request may ask an accuracy of. From public figures alone, or as if the data were
        what an earlier release says, `around`. `within` falls as epsilon grows; a kind without any
        names none."""
        return ()

    @classmethod
    def why_unpredictable(cls, public: Any) -> str:
        """Why nothing can be expected of a release: the missing public figure, as a clause, and
        what would help."""
        return ""

    @abstractmethod
    def release(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        """Run the plan's mechanisms on the data. Total: never raises on content that registration
        accepted."""

    def diagnose(self, public: Any, plan: Plan, content: Content, noise: Noise) -> Released:
        """What a simulation also shows of its data, which are declared public: arrays under names
        that begin with `true_`. They join what was released, so `finish` sees them; no private job
        has any. `noise` is that of the release, from its beginning. Where the plan has `parts_by`
        they are sums over parts, of integers, as `SumsOverParts.part_sums`; where it has
        `sampled_by` there are none."""
        return {}

    def noised_sums(self, plan: Plan) -> frozenset[str]:
        """Arrays of what is released by this plan that are the same numbers in every release, with
        independent noise of the plan's one event added: several releases combine by inverse
        variance. None where there is anything else."""
        return frozenset()

    @abstractmethod
    def finish(self, public: Any, plan: Plan, released: Released, progress: Progress) -> Result:
        """Everything that follows from the release. Sees no private data; may be run again."""

    def evidence(self, plan: Plan, result: bytes) -> dict[str, Any] | None:
        """The section `cryptographic` of the certificate, from the published result (JSON text);
        None where only noise protects."""
        return None


@dataclass(frozen=True)
class Neighbours:
    """Two neighbouring contents of one dataset, as far apart as the neighbouring relation lets them
    be.

    An attack on the release alone comes near the price: half the noise is caught, see
    `tests/problems/test_audits.py`. `slack`: the mechanism has so many times the noise that
    these neighbours need.
    """

    name: str
    problem: Problem
    public: Any
    plan: Plan
    left: Content
    right: Content
    slack: float = 1.0


# Rehearsal ----------------------------------------------------------------------------------------
# A kind's example, read and run from bytes to result, so that a child loads everything before it
# drops its rights.


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


def rehearse(kind: type[Problem]) -> Result:
    """Run a kind's example and its worst cases from bytes to result, and give the example's.

    Loads all code, compiled kernels included, that a job will need, whichever of the kind's methods
    it uses.
    """
    problem, dataset, budget = read_example(kind)
    public, content = (None, {}) if dataset is None else (dataset.public, dataset.rows())
    example = Neighbours("example", problem, public, problem.plan(public, budget), content, {})
    if kind.Dataset is not None and kind.synthesis is not None:
        kind.synthesis.content(kind.Dataset, public, np.random.default_rng(0), None)
    for case in (*kind.worst_cases(), example):
        content = unpack(pack(case.left))
        for noise in (Noise.seeded(0), Noise.secure()):
            released = unpack(pack(case.problem.release(case.public, case.plan, content, noise)))
        case.problem.diagnose(case.public, case.plan, content, Noise.seeded(0))
        result = case.problem.finish(case.public, case.plan, released, lambda step, total: None)
    return result
