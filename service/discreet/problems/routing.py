"""Routing: where the users of a network should go, without telling where any of them went.

Trips by origin and destination are private; network, capacities and latencies are public. The mechanism releases the
number of trips of every ordered pair of distinct zones over all periods with discrete noise, zeros included; all that
follows, from the mean demand of a period to the paths of every pair, is post-processing of these counts. See
`docs/papers.md` for what the paper's own algorithm (Tsao et al. 2022) gives at the same price.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, ClassVar, Literal, NotRequired

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict

from discreet.errors import FieldIssue, InvalidInput
from discreet.privacy import calibration
from discreet.privacy.noise import Noise
from discreet.problems import base
from discreet.problems.base import PRIVATE, Content, NoiseSummary, Output, Plan, Progress, Released, Resources, Result
from discreet.problems.columns import MAX_ISSUES, Issues, check_bounds, integer_columns
from discreet.problems.numbers import Budget, Count, Frozen, Positive
from discreet.solvers import simplex
from discreet.solvers.traffic_assignment import Latency, Network, Policy, assign, unreachable_pairs

MAX_COUNT = 10**9
MAX_TRIPS = 10**6
"""Most trips of one person, in one row and as a clip: 2 * 1e6 * the sum over a record stays within 64 bits."""
MAX_ITERATIONS = 1000
MERGE_ROWS = 1 << 20
"""Rows of an upload in batches that may wait to be summed."""
Zones = Annotated[int, Field(strict=True, ge=1, le=3000)]
Ints = NDArray[np.int64]


# The dataset --------------------------------------------------------------------------------------------------------


class RoutingPublic(Frozen):
    """What is published of a set of trips."""

    unit: Literal["request", "person"] = Field(description="Whom a neighbouring dataset adds or removes")
    zones: Zones
    periods: Annotated[int, Field(strict=True, ge=1, le=100_000)] = Field(description="Periods observed, N")
    period_minutes: Annotated[float, Field(gt=0, le=1e6)]
    max_total: Positive | None = Field(default=None, description="Public bound on the trips of one period")
    max_pair: Positive | None = Field(default=None, description="Public bound on the trips of one pair in one period")


@with_config(ConfigDict(extra="forbid"))
class Trip(TypedDict):
    """Trips of one pair in one period; `person` where the unit is a person."""

    period: Count
    origin: Count
    destination: Count
    count: Count
    person: NotRequired[str | int]


class RoutingContent(Frozen):
    """The private content."""

    trips: list[Trip]


class RoutingDataset(base.Dataset):
    """Trips of the users of a network."""

    kind: Literal["routing"]
    public: RoutingPublic
    content: RoutingContent = Field(json_schema_extra=PRIVATE)

    @classmethod
    def read_public(cls, public: Any) -> RoutingPublic:
        return RoutingPublic.model_validate(public)

    @classmethod
    def read_rows(cls, public: RoutingPublic, content: RoutingContent) -> Content:
        rows = content.trips
        columns = {name: np.array([row[name] for row in rows], dtype=np.int64) for name in _bounds(public)}  # type: ignore[literal-required]
        persons = [row.get("person") for row in rows]
        issues = Issues("/content/trips")
        if public.unit == "person":
            issues.where(np.array([p is None for p in persons], bool), "person", "unit person needs a person", persons)
        else:
            issues.where(np.array([p is not None for p in persons], bool), "person", "unit request has none", persons)
        issues.check()
        check_bounds(columns, _bounds(public), "/content/trips")
        return _canonical(columns, np.array([str(p) for p in persons]) if public.unit == "person" else None)

    @classmethod
    def read_table(cls, public: RoutingPublic, table: pa.Table) -> Content:
        person = public.unit == "person"
        if person and "person" not in table.column_names:
            raise InvalidInput("column 'person' is missing; the unit is a person", pointer="/content")
        columns = integer_columns(table, _bounds(public), "/content", optional=("person",) if person else ())
        if not person:
            return _canonical(columns, None)
        persons = table.column("person")
        if persons.null_count:
            raise InvalidInput("a person is missing", pointer="/content")
        return _canonical(columns, np.array(persons.cast(pa.string()).to_pylist()))

    @classmethod
    def read_batches(cls, public: RoutingPublic, batches: Iterator[pa.RecordBatch], schema: pa.Schema) -> Content:
        """Unit request: trips are summed as they come, so memory goes with the cells that have trips, not with rows."""
        if public.unit == "person":
            return super().read_batches(public, batches, schema)
        total = cls.read_table(public, schema.empty_table())["trips"]
        parts: list[Ints] = []
        row = waiting = 0
        for batch in batches:
            columns = integer_columns(pa.Table.from_batches([batch]), _bounds(public), "/content", first=row)
            row += batch.num_rows
            parts.append(_canonical(columns, None)["trips"])
            waiting += len(parts[-1])
            if waiting > max(len(total), MERGE_ROWS):  # so that all merging is a few passes over all parts
                total, parts, waiting = _summed([total, *parts]), [], 0
        return {"trips": _summed([total, *parts])}


def _bounds(public: RoutingPublic) -> dict[str, tuple[int, int]]:
    return {
        "period": (0, public.periods - 1),
        "origin": (1, public.zones),
        "destination": (1, public.zones),
        "count": (0, MAX_COUNT if public.unit == "request" else MAX_TRIPS),
    }


def _canonical(columns: dict[str, Ints], persons: NDArray[np.str_] | None) -> Content:
    """Trips summed by period and pair (and person), sorted: the same for the same trips, however they were written.

    Persons become numbers in the order of their records, so that neither order nor names of persons matter, and
    no name is stored.
    """
    count = columns["count"]
    if persons is None:
        # Periods < 2^17, zones < 2^12: one number whose order is that of (period, origin, destination).
        cells = (columns["period"] << 24) | (columns["origin"] << 12) | columns["destination"]
        order = np.argsort(cells, kind="stable")
        cells = cells[order]
        first = np.flatnonzero(np.diff(cells, prepend=-1))
        sums = np.add.reduceat(count[order], first) if first.size else np.zeros(0, dtype=np.int64)
        cells, sums = cells[first][sums > 0], sums[sums > 0]
        return {"trips": np.stack([cells >> 24, cells >> 12 & 4095, cells & 4095, sums], axis=1)}
    keys = np.stack([columns[name] for name in ("period", "origin", "destination")], axis=1)
    _, person = np.unique(persons, return_inverse=True)
    unique, inverse = np.unique(np.concatenate([person.reshape(-1, 1), keys], axis=1), axis=0, return_inverse=True)
    sums = np.zeros(len(unique), dtype=np.int64)
    np.add.at(sums, inverse.ravel(), count)
    kept = sums > 0
    rows = np.concatenate([unique[kept, 1:], sums[kept, None]], axis=1)
    owner = unique[kept, 0]
    records = np.split(rows, np.flatnonzero(np.diff(owner)) + 1) if len(rows) else []
    records.sort(key=lambda record: record.tobytes())
    return {
        "trips": np.concatenate(records) if records else np.zeros((0, 4), dtype=np.int64),
        "person_start": np.concatenate([[0], np.cumsum([len(record) for record in records])]).astype(np.int64),
    }


def _summed(parts: list[Ints]) -> Ints:
    """Canonical trips of several such lists together."""
    rows = np.concatenate(parts)
    columns = dict(zip(("period", "origin", "destination", "count"), rows.T, strict=True))
    return _canonical(columns, None)["trips"]


# The problem --------------------------------------------------------------------------------------------------------


class Link(Frozen):
    """A directed link of the network; nodes are 1..n."""

    tail: Annotated[int, Field(strict=True, ge=1)]
    head: Annotated[int, Field(strict=True, ge=1)]
    free_flow_time: Annotated[float, Field(ge=0, le=1e9)]
    capacity: Annotated[float, Field(gt=0, le=1e12)]


class RoadNetwork(Frozen):
    """A public network. Zones are its first nodes; nodes before `first_through_node` are not passed through."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    first_through_node: Annotated[int, Field(strict=True, ge=1)] = 1
    links: Annotated[tuple[Link, ...], Field(max_length=1_000_000)]

    def issues(self, zones: int) -> list[FieldIssue]:
        """What keeps this from being a network that joins all ordered pairs of zones."""
        found = []
        if self.nodes < zones:
            found.append(FieldIssue("/nodes", f"the dataset has {zones} zones, which are nodes"))
        if self.first_through_node > self.nodes:
            found.append(FieldIssue("/first_through_node", f"the network has {self.nodes} nodes"))
        for position, link in enumerate(self.links):
            for end, node in (("tail", link.tail), ("head", link.head)):
                if node > self.nodes:
                    found.append(FieldIssue(f"/links/{position}/{end}", f"node {node} of {self.nodes} nodes"))
            if link.tail == link.head:
                found.append(FieldIssue(f"/links/{position}", f"a link from node {link.tail} to itself"))
        return found or [
            FieldIssue("/links", f"no path leads from zone {origin + 1} to zone {destination + 1}")
            for origin, destination in unreachable_pairs(self.arrays(zones))
        ]

    def arrays(self, zones: int) -> Network:
        """The solver's form."""
        return Network(
            nodes=self.nodes,
            zones=zones,
            first_through_node=self.first_through_node - 1,
            tail=np.array([link.tail - 1 for link in self.links], dtype=np.int64),
            head=np.array([link.head - 1 for link in self.links], dtype=np.int64),
            free_flow_time=np.array([link.free_flow_time for link in self.links]),
            capacity=np.array([link.capacity for link in self.links]),
        )


class AffineLatency(Frozen):
    """`t(y) = free_flow_time (1 + factor y / capacity)`."""

    type: Literal["affine"]
    factor: Annotated[float, Field(ge=0, le=1e6)] = 1.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.factor, power=1.0)


class BprLatency(Frozen):
    """`t(y) = free_flow_time (1 + b (y / capacity)^power)`, Bureau of Public Roads 1964."""

    type: Literal["bpr"]
    b: Annotated[float, Field(ge=0, le=1e6)] = 0.15
    power: Annotated[float, Field(ge=1, le=20)] = 4.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.b, power=self.power)


class Routing(base.Problem):
    """Route the mean demand of a period over a network.

    `counts` releases the trips of every ordered pair of zones over all periods. One request moves one count by 1; a
    person with at most k trips in the whole dataset (`max_trips_per_person`; further trips are left out) moves them
    by k in l1 and in l2, since all may be of one pair.
    """

    Dataset: ClassVar[type[base.Dataset]] = RoutingDataset

    kind: Literal["routing"]
    dataset: str = Field(description="Id of a dataset of kind routing")
    network: RoadNetwork
    latency: Annotated[AffineLatency | BprLatency, Field(discriminator="type")] = AffineLatency(type="affine")
    objective: Literal["system_optimum", "user_equilibrium"] = "system_optimum"
    method: Literal["auto", "counts"] = "auto"
    max_trips_per_person: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIPS)] | None = None
    relative_gap: Annotated[float, Field(ge=1e-12, le=1e-2)] = 1e-10

    @classmethod
    def example(cls) -> dict[str, Any]:
        """Two zones joined by two routes: Pigou's network (1920), with 30 synthetic mornings."""
        links = [(1, 3, 0.0, 1000.0), (1, 2, 10.0, 1e6), (3, 2, 5.0, 100.0), (2, 1, 10.0, 1000.0)]
        return {
            "problem": {
                "kind": "routing",
                "dataset": {
                    "name": "synthetic mornings",
                    "kind": "routing",
                    "public": {"unit": "request", "zones": 2, "periods": 30, "period_minutes": 60},
                    "content": {
                        "trips": [
                            {"period": period, "origin": 1, "destination": 2, "count": 90 + period % 7}
                            for period in range(30)
                        ]
                    },
                    "cap": {"epsilon": 1, "delta": 0},
                },
                "network": {
                    "nodes": 3,
                    "links": [
                        {"tail": tail, "head": head, "free_flow_time": time, "capacity": capacity}
                        for tail, head, time, capacity in links
                    ],
                },
            },
            "privacy": {"epsilon": 0.1},
        }

    @classmethod
    def worst_cases(cls) -> tuple[base.Neighbours, ...]:
        """One trip more; and one person more, whose trips are all of one pair and more than are counted."""
        cases = []
        for unit, most in (("request", None), ("person", 5)):
            public = RoutingPublic(unit=unit, zones=2, periods=3, period_minutes=60)
            problem = cls.model_validate(
                {**cls.example()["problem"], "dataset": "example", "max_trips_per_person": most}
            )
            others = [
                Trip(period=0, origin=1, destination=2, count=4),
                Trip(period=1, origin=2, destination=1, count=2),
            ]
            more = Trip(period=2, origin=1, destination=2, count=1 if most is None else 3 * most)
            rows = [others, [*others, more]]
            if unit == "person":
                rows = [[{**row, "person": position} for position, row in enumerate(part)] for part in rows]
            left, right = (RoutingDataset.read_rows(public, RoutingContent(trips=part)) for part in rows)
            plan = problem.plan(public, Budget(epsilon=10**9, delta=0))
            cases.append(base.Neighbours(f"routing, counts, unit {unit}", problem, public, plan, left, right))
        return tuple(cases)

    def plan(self, public: RoutingPublic, budget: Budget) -> Plan:
        zones = public.zones
        issues = [
            FieldIssue("/problem/network" + issue.pointer, issue.detail)
            for issue in self.network.issues(zones)[:MAX_ISSUES]
        ]
        if public.unit == "person" and self.max_trips_per_person is None:
            issues.append(FieldIssue("/problem/max_trips_per_person", "needed: the dataset's unit is a person"))
        if public.unit == "request" and self.max_trips_per_person is not None:
            issues.append(FieldIssue("/problem/max_trips_per_person", "the dataset's unit is a request, not a person"))
        if issues:
            raise InvalidInput(issues)
        trips = self.max_trips_per_person or 1
        neighbours = (
            "one trip added or removed"
            if public.unit == "request"
            else f"one person with all trips added or removed, of which at most {trips} count"
        )
        event = calibration.least_variance(
            sensitivity_l1=trips,
            sensitivity_l2=trips,
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbours=neighbours,
        )
        pairs = zones * (zones - 1)
        return Plan.priced(
            [event],
            noise=(
                NoiseSummary.of(
                    event, f"trips of each of {pairs} ordered pairs of zones, summed over {public.periods} periods"
                ),
            ),
            iterations={"assignment": MAX_ITERATIONS},
            resources=Resources(
                # What public figures tell of the time: a fork, and the sampler's 600,000 draws a second at the least.
                release_quantum_seconds=0.25 * (1 + pairs // 100_000),
                memory_bytes=(1 << 28) + 64 * pairs * 16 + 200 * len(self.network.links),
                steps=MAX_ITERATIONS,
            ),
            unit=public.unit,
            neighbours=neighbours,
            assumptions=(
                f"the {public.periods} periods, the {zones} zones and the network are public",
                *(["who a trip's person is, is recorded truly"] if public.unit == "person" else []),
            ),
            parameters={"method": "counts", "max_trips_per_person": self.max_trips_per_person},
        )

    def release(self, public: RoutingPublic, plan: Plan, content: Content, noise: Noise) -> Released:
        """The noisy trips of every ordered pair over all periods: int64[zones, zones].

        Neighbours: one trip, or one person of at most k counted trips, more or less. The clip looks at one person's
        own record, so the counts of neighbours differ by at most 1, or k, in l1 and l2: the event's sensitivity.
        """
        trips = content["trips"]
        if plan.parameters["max_trips_per_person"] is not None:
            trips = _clip(trips, content["person_start"], plan.parameters["max_trips_per_person"])
        sums = np.zeros((public.zones, public.zones), dtype=np.int64)
        np.add.at(sums, (trips[:, 1] - 1, trips[:, 2] - 1), trips[:, 3])
        (event,) = plan.events
        noisy = noise.add(event, sums)
        np.fill_diagonal(noisy, 0)  # intra-zonal trips use no link and are not released
        return {"trips": noisy}

    def finish(self, public: RoutingPublic, plan: Plan, released: Released, progress: Progress) -> Result:
        zones = public.zones
        mean = released["trips"] / public.periods
        pairs = ~np.eye(zones, dtype=bool)
        demand = np.zeros((zones, zones))
        demand[pairs] = simplex.project(mean[pairs], max(0.0, float(mean[pairs].sum())))
        solution = assign(
            self.network.arrays(zones),
            self.latency.solver_form(),
            demand,
            self.objective,
            gap=self.relative_gap,
            max_iterations=plan.iterations["assignment"],
            progress=progress,
        )
        policy = solution.paths
        return Result(
            {
                "link_flows": Output.array(solution.link_flows, "link", "flow"),
                "demand": Output.array(demand, "origin", "destination", "trips"),
                "policy": Output(
                    lambda: _policy_json(policy),
                    numbers=int(policy.links.size + policy.share.size + 2 * policy.origin.size),
                    table=lambda: _policy_table(policy),
                ),
                "total_travel_time": Output(lambda: solution.total_travel_time),
                "relative_gap": Output(lambda: solution.relative_gap),
                "iterations": Output(lambda: solution.iterations),
                "status": Output(lambda: solution.status),
            }
        )


def _clip(trips: Ints, person_start: Ints, most: int) -> Ints:
    """Of each person's record at most `most` trips, spread evenly over the record: a function of that record alone.

    Of a record's trips 0..total-1 in order, numbers floor((i + 1/2) total / most) for i < most stay.
    """
    clipped = trips.copy()
    length = np.diff(person_start)
    before = np.concatenate([[0], np.cumsum(trips[:, 3])])
    total = np.repeat(np.diff(before[person_start]), length)
    first = before[:-1] - np.repeat(before[person_start[:-1]], length)

    def kept(edge: Ints) -> Ints:
        """How many of the trips that stay have a number below `edge`."""
        below: Ints = (2 * most * edge + total - 1) // np.maximum(2 * total, 1)
        return below

    clipped[:, 3] = np.where(total > most, kept(first + trips[:, 3]) - kept(first), trips[:, 3])
    return clipped


def _policy_json(policy: Policy) -> list[dict[str, Any]]:
    links = policy.links.tolist()
    path_start = policy.path_start.tolist()
    pair_start = policy.pair_start.tolist()
    share = policy.share.tolist()
    return [
        {
            "origin": origin + 1,
            "destination": destination + 1,
            "paths": [
                {"links": links[path_start[path] : path_start[path + 1]], "share": share[path]}
                for path in range(pair_start[pair], pair_start[pair + 1])
            ],
        }
        for pair, (origin, destination) in enumerate(
            zip(policy.origin.tolist(), policy.destination.tolist(), strict=True)
        )
    ]


def _policy_table(policy: Policy) -> pa.Table:
    """One row a path: origin, destination, share, links."""
    paths_of_pair = np.diff(policy.pair_start)
    return pa.table(
        {
            "origin": np.repeat(policy.origin + 1, paths_of_pair),
            "destination": np.repeat(policy.destination + 1, paths_of_pair),
            "share": policy.share,
            "links": pa.LargeListArray.from_arrays(policy.path_start, policy.links),
        }
    )
