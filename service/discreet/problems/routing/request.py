"""The fields of a routing problem, and what follows from them alone."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from discreet.intake.items import InPieces
from discreet.problems.contents import Progress
from discreet.problems.numbers import Count, Flag, Frozen, Real
from discreet.problems.results import INTERVALS
from discreet.problems.road_networks.network import (
    AffineLatency,
    BprLatency,
    NetworkOrId,
    RoadNetwork,
)
from discreet.problems.routing import closures, result
from discreet.problems.routing.public import MAX_TRIPS, MOST_CLASSES, ClassName
from discreet.problems.sources import ProblemOnBlocks
from discreet.solvers.traffic.traffic_assignment import Assignment, Network, assign
from discreet.solvers.traffic.user_classes import UserClasses, assign_classes

MAX_SELECTED = 100
MAX_CLOSED = 10_000
MAX_ITERATIONS = 1000


class UserClass(Frozen):
    """The weight and passenger car equivalent of a class of users.

    A link costs it `time + fixed_cost_weight * fixed_cost`, the time at the flow of all classes.
    """

    name: ClassName = Field(description="One of the dataset's public user_classes")
    fixed_cost_weight: Annotated[Real, Field(ge=0, le=1e6)] = Field(
        default=1.0,
        description="What the links' fixed costs count for it: 0.2 where its time is worth five "
        "times as much money, or 0 where it is free of toll",
    )
    pce: Annotated[Real, Field(ge=0.01, le=100)] = Field(
        default=1.0, description="Passenger cars that one of its trips counts as on a link"
    )


class RoutingRequest(ProblemOnBlocks):
    """The fields of `Routing`, for its modules."""

    kind: Literal["routing"]
    network: NetworkOrId
    latency: Annotated[AffineLatency | BprLatency, Field(discriminator="type")] = Field(
        default=AffineLatency(type="affine"),
        description="How travel times grow with flows, on links of which the network says no b and "
        "power itself",
        json_schema_extra={"x-choices": result.CHOICES},
    )
    objective: Literal["system_optimum", "user_equilibrium"] = Field(
        default="system_optimum",
        description="system_optimum: ways that make all trips together as short as can be; "
        "user_equilibrium: each takes the way that is shortest for itself, as people drive",
    )
    user_classes: Annotated[tuple[UserClass, ...], InPieces(max_length=MOST_CLASSES)] = Field(
        default=(),
        description="What classes of users weigh and count, of the dataset's public user_classes; "
        "one that is left out weighs fixed costs by 1 and counts 1 passenger car",
    )
    method: Literal["auto", "counts", "gradient"] = "auto"
    regularization: Annotated[Real, Field(gt=0, le=1e15)] | None = Field(
        default=None,
        description="Of method gradient: alpha of its term alpha/2 |x|², in trips times time",
    )
    max_trips_per_person: (
        Annotated[int, Field(strict=True, ge=1, le=MAX_TRIPS)] | Literal["auto"] | None
    ) = Field(
        default=None,
        description="Most trips of one person that count, over all periods. `auto`: the dataset's "
        "public max_person",
    )
    max_norm_per_person: Annotated[int, Field(strict=True, ge=1, le=MAX_TRIPS)] | None = Field(
        default=None,
        description="Bound on the l2 norm of a person's trips by pair (500 trips spread over 20 "
        "pairs: 112), beside max_trips_per_person: further trips are left out, and with a delta "
        "there is less noise",
    )
    relative_gap: Annotated[Real, Field(ge=1e-12, le=1e-2)] = 1e-10
    select_links: Annotated[tuple[Count, ...], InPieces(max_length=MAX_SELECTED)] = Field(
        default=(),
        description="Links, by their positions from 0, of which the result says which pairs' trips "
        "use them",
    )
    skims: Flag = Field(
        default=False, description="Whether the result has the travel time of every pair of zones"
    )
    closed_links: Annotated[tuple[Count, ...], InPieces(max_length=MAX_CLOSED)] = Field(
        default=(),
        description="Links that nobody can take, by their positions from 0: the result then says "
        "what that changes too",
    )
    uncertainty: Flag = INTERVALS

    @property
    def roads(self) -> RoadNetwork:
        """The network, after `with_objects` has replaced its id."""
        assert isinstance(self.network, RoadNetwork)
        return self.network

    @property
    def open_roads(self) -> RoadNetwork:
        """The network without the closed links."""
        return closures.without(self.roads, self.closed_links)

    def routed(
        self,
        network: Network,
        demand: NDArray[np.float64],
        gap: float,
        iterations: int = MAX_ITERATIONS,
        progress: Progress | None = None,
        classes: UserClasses | None = None,
    ) -> Assignment:
        """The assignment of a demand to a network of these links by the objective; of classes of
        users if there are some."""
        latency = self.roads.latencies(self.latency)
        if classes is not None:
            return assign_classes(
                network,
                latency,
                classes,
                demand,
                self.objective,
                gap=gap,
                max_iterations=iterations,
                progress=progress,
            )
        return assign(
            network,
            latency,
            demand,
            self.objective,
            gap=gap,
            max_iterations=iterations,
            progress=progress,
        )
