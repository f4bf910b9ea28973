"""What a request would do and cost: its plan, made from public figures alone and cached for
repeated requests.

A price is usually asked for before it is spent, and jobs of one dataset are often the same problem
again. A plan is a function of the problem, the public part of its dataset and the budget, and of a
dataset nothing that plans use can change but by a correction, which makes it another revision: so a
process keeps both. Whether the dataset is still offered, and whether it is of that revision, is not
kept: `accept_jobs` asks that of its row, in the transaction that charges.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import anyio
import anyio.to_thread
import rfc8785

from discreet.errors import FieldIssue, InvalidInput
from discreet.problems import DATASETS
from discreet.problems.around import EarlierRelease
from discreet.problems.base import Problem
from discreet.problems.budgets import Budgeted, budgeted
from discreet.problems.contents import Profile
from discreet.problems.federation import FederatedProblem
from discreet.problems.numbers import Budget, Privacy
from discreet.problems.plans import Plan
from discreet.problems.reuse import ProblemOnData, release_key
from discreet.problems.sources import ProblemOnBlocks, assumptions
from discreet.storage import datasets, tamper_seals
from discreet.storage.database import Database
from discreet.storage.tenants import Principal
from discreet.usecases import asking, blocks, naming
from discreet.usecases.asking import Asked
from discreet.usecases.content_sizes import ContentSizes
from discreet.usecases.descriptions import zone_names
from discreet.usecases.facts import DatasetFacts, no_dataset
from discreet_agent import canonical
from discreet_client.names import name_of

SMALL_CHARACTERS = 1 << 16
"""Problems, plans and public parts above this size are not kept, and made into text in a thread."""

PLANS_AT_ONCE = max(2, os.cpu_count() or 1)
"""In one process: a plan takes up to a second of processor time, and other requests need their
threads too."""

MOST_KEPT = 256
"""Plans and datasets kept by one process, each; the one that was not asked for longest makes
room."""


@dataclass(frozen=True)
class Texts:
    """A plan, and what is stored of the request."""

    problem: str
    made: Budgeted
    plan_text: str
    events: str
    """Canonical JSON."""
    problem_seal: str
    """`tamper_seals.canonical`, as of the plan."""
    plan_seal: str
    release_key: bytes | None
    """Of what a release of this fixes; None where it cannot be asked again, or asks again
    itself."""

    @property
    def plan(self) -> Plan:
        return self.made.plan


@dataclass(frozen=True)
class Planned:
    """A request with its plan and the public figures that it was made of."""

    problem: Problem
    dataset: DatasetFacts | None
    """None: the data are the agents', or stand in the problem and are public."""
    texts: Texts
    seed: int | None

    @property
    def plan(self) -> Plan:
        return self.texts.plan

    @property
    def simulation(self) -> bool:
        if self.dataset is None:
            return bool(getattr(self.problem, "mode", "private") == "simulation")
        return self.dataset.mode == "simulation"

    @property
    def may_wait(self) -> bool:
        """Whether budget is held for shares there, and comes free with time."""
        return bool(self.accounts) and self.dataset is not None and self.dataset.shared

    @property
    def accounts(self) -> list[str]:
        """The accounts that the price is charged to at once; public data cost nothing, and agents'
        accounts are charged when the owner has signed the roster."""
        return [] if self.dataset is None or self.simulation else list(self.dataset.accounts)


Key = TypeVar("Key")
Value = TypeVar("Value")


class _Kept(Generic[Key, Value]):
    """The last MOST_KEPT values that were asked for."""

    def __init__(self) -> None:
        self._values: OrderedDict[Key, Value] = OrderedDict()

    def get(self, key: Key) -> Value | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def drop(self, key: Key) -> None:
        self._values.pop(key, None)

    def keep(self, key: Key, value: Value) -> None:
        self._values[key] = value
        if len(self._values) > MOST_KEPT:
            self._values.popitem(last=False)


@dataclass(frozen=True)
class Planner:
    """Makes plans and keeps them. Everything is kept under its tenant, so that no tenant's waiting
    tells of another."""

    sizes: ContentSizes = field(default_factory=ContentSizes)
    digest_key: Callable[[], bytes] = bytes
    """Of the names of zones (`datasets.zone_names_digest`)."""

    _facts: _Kept[tuple[str, str], DatasetFacts] = field(default_factory=_Kept)
    _texts: _Kept[tuple[str, str | None, bytes, Privacy | None], Texts] = field(
        default_factory=_Kept
    )

    _turns: anyio.CapacityLimiter = field(
        default_factory=lambda: anyio.CapacityLimiter(PLANS_AT_ONCE)
    )
    _searches: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    """Of accuracies, which take several plans each: no other plan waits for them."""

    async def plan(
        self,
        database: Database,
        principal: Principal,
        problem: Problem,
        privacy: Privacy | None,
        seed: int | None,
        *,
        offered: bool = True,
        large: bool = True,
        around: EarlierRelease | None = None,
    ) -> Planned:
        """InvalidInput with pointers into the request. Sees no private data. `around`: the job that
        an accuracy names.

        With `offered` NotFound when the dataset is gone by now; without, that may be left to who
        charges. Unless `large` the problem is made into text without a thread.
        """
        if isinstance(problem, FederatedProblem) and problem.terms is not None:
            return await self._federation(database, principal, problem, privacy, seed, large)
        if isinstance(problem, ProblemOnData) and problem.first_jobs:
            asked = await asking.find(database, principal, problem, privacy, seed)
            async with self._turns:
                whole = await naming.filled(database, principal.tenant_id, asked.problem)
                first = await naming.filled(database, principal.tenant_id, asked.first)
                texts = await anyio.to_thread.run_sync(_make_asked, asked, whole, first)
            return Planned(asked.problem, None, texts, None)
        problem.budget(privacy)  # refused before the dataset is looked for
        if problem.Dataset is None:
            if seed is not None:
                raise InvalidInput(
                    "a seed is for datasets of mode simulation only", pointer="/seed"
                )
            return Planned(
                problem,
                None,
                await self._made(database, principal, problem, None, privacy, large),
                seed,
            )
        problem, dataset = await self.data(database, principal, problem, offered)
        issues = []
        if dataset.kind != problem.kind:
            issues.append(
                FieldIssue(dataset.pointer, f"data of kind {dataset.kind}, not {problem.kind}")
            )
        if privacy is not None and privacy.unit not in (None, dataset.unit):
            issues.append(
                FieldIssue("/privacy/unit", f"the privacy unit of this dataset is {dataset.unit}")
            )
        if seed is not None and dataset.mode != "simulation":
            issues.append(FieldIssue("/seed", "a seed is for datasets of mode simulation only"))
        if issues:
            raise InvalidInput(issues)
        profile = (
            None if around is None else around.shaped(dataset.public, "/privacy/accuracy/around")
        )
        if offered:
            await naming.require_there(database, principal.tenant_id, problem)
        texts = await self._made(database, principal, problem, dataset, privacy, large, profile)
        return Planned(problem, dataset, texts, seed)

    async def _federation(
        self,
        database: Database,
        principal: Principal,
        problem: FederatedProblem,
        privacy: Privacy | None,
        seed: int | None,
        large: bool,
    ) -> Planned:
        """The plan before any agent is known; the roster's own replaces it."""
        if seed is not None and getattr(problem, "mode", "private") != "simulation":
            raise InvalidInput("a seed is for simulation only", pointer="/seed")
        if privacy is not None and privacy.accuracy is not None:
            says = (
                "agents agree on an epsilon; how accurate that is is known only once they have "
                "joined"
            )
            raise InvalidInput(says, pointer="/privacy/accuracy")
        if privacy is not None and privacy.rho is not None:
            raise InvalidInput(
                "agents agree on an epsilon: a federated job has no rho", pointer="/privacy/rho"
            )
        texts = await self._made(database, principal, problem, None, privacy, large)
        if privacy is not None and privacy.unit not in (None, texts.plan.unit):
            raise InvalidInput(
                f"the privacy unit of this kind is {texts.plan.unit}", pointer="/privacy/unit"
            )
        return Planned(problem, None, texts, seed)

    async def data(
        self, database: Database, principal: Principal, problem: Problem, offered: bool = True
    ) -> tuple[Problem, DatasetFacts]:
        """What is public of the data that a problem names, and the problem with the versions of
        blocks that are read. NotFound for others."""
        if isinstance(problem, ProblemOnBlocks) and problem.source is not None:
            return await blocks.pinned(database, principal, problem, problem.source)
        found = await self._dataset(
            database, principal, str(getattr(problem, "dataset", None)), offered
        )
        return problem, found

    async def dataset(
        self, database: Database, principal: Principal, dataset_id: str
    ) -> DatasetFacts:
        """What is public of a dataset that is still offered. NotFound for any other."""
        return await self._dataset(database, principal, dataset_id, offered=True)

    def forget(self, principal: Principal, dataset_id: str | None) -> None:
        """What is kept of a dataset that was corrected."""
        if dataset_id is not None:
            self._facts.drop((principal.tenant_id, dataset_id))

    async def _dataset(
        self, database: Database, principal: Principal, dataset_id: str, offered: bool
    ) -> DatasetFacts:
        key = (principal.tenant_id, dataset_id)
        if not offered and (facts := self._facts.get(key)) is not None:
            return facts
        async with database.transaction(principal.tenant_id) as connection:
            row = await datasets.find(connection, principal.tenant_id, dataset_id)
        if row is None:
            raise no_dataset(dataset_id)
        if row["source_id"] is not None:
            says = (
                f"this is block {row['block']} of a source: name them, `source: {{id: "
                f"{row['source_id']}, blocks: …}}`"
            )
            raise InvalidInput(says, pointer="/problem/dataset")
        public = DATASETS[row["kind"]].read_public(row["public"])
        facts = DatasetFacts(
            dataset_id,
            row["kind"],
            row["mode"],
            (row["account_id"],),
            row["public"]["unit"],
            public,
            revision=row["revision"],
            zone_names=row["zone_names"],
        )
        if len(str(row["public"])) <= SMALL_CHARACTERS:
            self._facts.keep(key, facts)
        return facts

    async def _require_same_places(
        self, database: Database, principal: Principal, problem: Problem, dataset: DatasetFacts
    ) -> None:
        """InvalidInput where a problem calls the places of the data otherwise than they did, or in
        another order: every place of its answer would be another one."""
        if not isinstance(problem, ProblemOnData):
            return
        names = problem.place_names(dataset.public)
        if names is None:
            return
        says, names = "", [name_of(name) for name in names]
        with suppress(InvalidInput):  # a network that is not there any more: nothing is known then
            known = await zone_names(database, principal.tenant_id, dataset.public)
            for place, (here, there) in enumerate(zip(names, known or names, strict=True), 1):
                if here != name_of(there):
                    says = (
                        f"zone {place} is {here!r} in it, and was {there!r} in the network by "
                        "which the data were read"
                    )
                    break
        if dataset.zone_names is not None:
            digest = datasets.zone_names_digest(self.digest_key(), principal.tenant_id, names)
            if not hmac.compare_digest(digest, dataset.zone_names):
                says = (
                    "its first nodes have other names than the zones of the data, or stand in "
                    "another order"
                )
        if says:
            way = (
                "zone 1 must be its node 1, and so on; to read the data in its order, store it "
                'and register them with `"reader": {"zones": {"network": "net_…"}}`'
            )
            raise InvalidInput(f"{says}: {way}", pointer="/problem/network")

    async def _made(
        self,
        database: Database,
        principal: Principal,
        problem: Problem,
        dataset: DatasetFacts | None,
        privacy: Privacy | None,
        large: bool,
        around: Profile | None = None,
    ) -> Texts:
        dump = problem.model_dump_json
        text = await anyio.to_thread.run_sync(dump) if large else dump()
        digest = hashlib.sha256(text.encode()).digest()
        name = None if dataset is None else dataset.identity
        # The unit was compared, and is no part of what a plan is made of.
        asked = None if privacy is None else privacy.model_copy(update={"unit": None})
        key = (principal.tenant_id, name, digest, asked)
        texts = self._texts.get(key)
        if texts is None:
            searched = asked is not None and asked.accuracy is not None
            # What a problem names is opened when it is its turn: by a hundred bytes one asks for
            # hundreds of megabytes.
            async with self._searches if searched else self._turns:
                whole = await naming.filled(database, principal.tenant_id, problem)
                if dataset is not None:
                    await self._require_same_places(database, principal, whole, dataset)
                try:
                    texts = await anyio.to_thread.run_sync(
                        _make, self.sizes, problem, whole, dataset, asked, text, around
                    )
                except InvalidInput as error:
                    raise (error if dataset is None else dataset.named_undeclared(error)) from None
                del whole
            if len(text) + len(texts.plan_text) <= SMALL_CHARACTERS:
                self._texts.keep(key, texts)
        return texts


def _make(
    sizes: ContentSizes,
    problem: Problem,
    whole: Problem,
    dataset: DatasetFacts | None,
    privacy: Privacy | None,
    text: str,
    around: Profile | None,
) -> Texts:
    """`whole` is the problem with the public objects that it names, of which the plan is made; ids
    are stored."""
    made = budgeted(whole, None if dataset is None else dataset.public, privacy, around)
    if dataset is not None and dataset.source is not None:
        uncut = getattr(DATASETS[dataset.kind], "UNCUT", "")
        claims = assumptions(dataset.source, dataset.unit, uncut)
        made = replace(made, plan=made.plan.on_blocks(dataset.source, claims))
    if dataset is not None:
        digest = canonical.digest(dataset.public.model_dump(mode="json", exclude_none=True))
        made = replace(made, plan=made.plan.model_copy(update={"public_digest": digest}))
        sizes.check(whole, made.plan, dataset)
    events = rfc8785.dumps([event.model_dump(mode="json") for event in made.plan.events]).decode()
    key = None if dataset is None else release_key(problem, dataset.identity, dataset.public)
    return _texts(text, made, events, key)


def _make_asked(asked: Asked, whole: ProblemOnData, first: ProblemOnData) -> Texts:
    asked.require_same_places(whole, first)
    made = Budgeted(asked.plan(whole), Budget(epsilon=0, delta=0))
    return _texts(asked.problem.model_dump_json(), made, "[]", None)


def _texts(text: str, made: Budgeted, events: str, key: bytes | None) -> Texts:
    plan_text = made.plan.model_dump_json()
    # Of the texts: they are what is stored, and what a worker will read.
    problem_seal, plan_seal = (tamper_seals.canonical(json.loads(one)) for one in (text, plan_text))
    return Texts(text, made, plan_text, events, problem_seal, plan_seal, key)
