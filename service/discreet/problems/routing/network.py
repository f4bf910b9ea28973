"""The public network of a routing problem, and its latencies."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from discreet.errors import FieldIssue
from discreet.intake.field_issues import WHY
from discreet.intake.items import InPieces
from discreet.problems.numbers import Frozen, Real
from discreet.solvers.traffic.traffic_assignment import Latency, Network, unreachable_pairs

Node = Annotated[int, Field(strict=True, ge=1, json_schema_extra={WHY: "nodes are numbered from 1"})]


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid", allow_inf_nan=False))
class Link:
    """A directed link of the network; nodes are 1..n.

    Its travel time is `free_flow_time (1 + b (y / capacity)^power) + fixed_cost` at y trips a period; `b` and
    `power` are those of the problem's `latency` where the link has none of its own.
    """

    # No model: that takes five times as much memory as these figures, and networks have many links.

    tail: Node
    head: Node
    free_flow_time: Annotated[Real, Field(ge=0, le=1e9)]
    capacity: Annotated[Real, Field(gt=0, le=1e12)]
    b: Annotated[Real, Field(ge=0, le=1e12)] | None = Field(
        default=None, description="Of this link; by default the latency's b, or factor where that is affine"
    )
    power: Annotated[Real, Field(ge=0, le=20)] | None = Field(
        default=None, description="Of this link, 0 or at least 1; by default the latency's, 1 where that is affine"
    )
    fixed_cost: Annotated[Real, Field(ge=0, le=1e9)] = Field(
        default=0.0, description="Added at any flow, in the unit of free_flow_time: a toll or a length by its weight"
    )


class RoadNetwork(Frozen):
    """A public network. Zones are its first nodes; nodes before `first_through_node` are not passed through."""

    nodes: Annotated[int, Field(strict=True, ge=1, le=1_000_000)]
    first_through_node: Annotated[int, Field(strict=True, ge=1)] = 1
    links: Annotated[tuple[Link, ...], InPieces(max_length=1_000_000)]

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
            if link.power is not None and 0 < link.power < 1:
                says = f"0 or at least 1, not {link.power:g}: below 1 the first vehicle would meet an infinite slope"
                found.append(FieldIssue(f"/links/{position}/power", says))
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

    def latencies(self, latency: AffineLatency | BprLatency) -> Latency:
        """The solver's form of the latency of every link: its own figures, and `latency` where it has none."""
        common = latency.solver_form()
        links = self.links
        return Latency(
            coefficient=np.array([common.coefficient if link.b is None else link.b for link in links]),
            power=np.array([common.power if link.power is None else link.power for link in links]),
            fixed_cost=np.array([link.fixed_cost for link in links]),
        )


def affine(network: RoadNetwork, latency: AffineLatency | BprLatency) -> bool:
    """Whether all travel times are affine in the flow."""
    common = latency.solver_form().power
    return all((common if link.power is None else link.power) in (0, 1) for link in network.links)


class AffineLatency(Frozen):
    """`t(y) = free_flow_time (1 + factor y / capacity)`."""

    type: Literal["affine"]
    factor: Annotated[Real, Field(ge=0, le=1e6)] = 1.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.factor, power=1.0)


class BprLatency(Frozen):
    """`t(y) = free_flow_time (1 + b (y / capacity)^power)`, Bureau of Public Roads 1964."""

    type: Literal["bpr"]
    b: Annotated[Real, Field(ge=0, le=1e6)] = 0.15
    power: Annotated[Real, Field(ge=1, le=20)] = 4.0

    def solver_form(self) -> Latency:
        return Latency(coefficient=self.b, power=self.power)
