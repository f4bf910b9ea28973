from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.routing_method import RoutingMethod, check_routing_method
from ..models.routing_objective import RoutingObjective, check_routing_objective
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.affine_latency import AffineLatency
    from ..models.bpr_latency import BprLatency
    from ..models.road_network import RoadNetwork


T = TypeVar("T", bound="Routing")


@_attrs_define
class Routing:
    """Route the mean demand of a period over a network.

    `counts` releases the trips of every ordered pair of zones over all periods. One request moves one count by 1; a
    person with at most k trips in the whole dataset (`max_trips_per_person`; further trips are left out) moves them
    by k in l1 and in l2, since all may be of one pair.

    `gradient` (unit request only) releases the unit flows of all pairs after one regularized gradient step a period;
    how far one request moves them is `unit_flow_descent.sensitivity`.

        Attributes:
            dataset (str): Id of a dataset of kind routing
            kind (Literal['routing']):
            network (RoadNetwork): A public network. Zones are its first nodes; nodes before `first_through_node` are not
                passed through.
            latency (AffineLatency | BprLatency | Unset):
            max_trips_per_person (int | None | Unset):
            method (RoutingMethod | Unset):  Default: 'auto'.
            objective (RoutingObjective | Unset):  Default: 'system_optimum'.
            regularization (float | None | Unset): Of method gradient: alpha of its term alpha/2 |x|², in trips times time
            relative_gap (float | Unset):  Default: 1e-10.
    """

    dataset: str
    kind: Literal["routing"]
    network: RoadNetwork
    latency: AffineLatency | BprLatency | Unset = UNSET
    max_trips_per_person: int | None | Unset = UNSET
    method: RoutingMethod | Unset = "auto"
    objective: RoutingObjective | Unset = "system_optimum"
    regularization: float | None | Unset = UNSET
    relative_gap: float | Unset = 1e-10

    def to_dict(self) -> dict[str, Any]:
        from ..models.affine_latency import AffineLatency  # noqa: PLC0415

        dataset = self.dataset

        kind = self.kind

        network = self.network.to_dict()

        latency: dict[str, Any] | Unset
        if isinstance(self.latency, Unset):
            latency = UNSET
        elif isinstance(self.latency, AffineLatency):
            latency = self.latency.to_dict()
        else:
            latency = self.latency.to_dict()

        max_trips_per_person: int | None | Unset
        if isinstance(self.max_trips_per_person, Unset):
            max_trips_per_person = UNSET
        else:
            max_trips_per_person = self.max_trips_per_person

        method: str | Unset = UNSET
        if not isinstance(self.method, Unset):
            method = self.method

        objective: str | Unset = UNSET
        if not isinstance(self.objective, Unset):
            objective = self.objective

        regularization: float | None | Unset
        if isinstance(self.regularization, Unset):
            regularization = UNSET
        else:
            regularization = self.regularization

        relative_gap = self.relative_gap

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "dataset": dataset,
                "kind": kind,
                "network": network,
            }
        )
        if latency is not UNSET:
            field_dict["latency"] = latency
        if max_trips_per_person is not UNSET:
            field_dict["max_trips_per_person"] = max_trips_per_person
        if method is not UNSET:
            field_dict["method"] = method
        if objective is not UNSET:
            field_dict["objective"] = objective
        if regularization is not UNSET:
            field_dict["regularization"] = regularization
        if relative_gap is not UNSET:
            field_dict["relative_gap"] = relative_gap

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.affine_latency import AffineLatency  # noqa: PLC0415
        from ..models.bpr_latency import BprLatency  # noqa: PLC0415
        from ..models.road_network import RoadNetwork  # noqa: PLC0415

        d = dict(src_dict)
        dataset = d.pop("dataset")

        kind = cast(Literal["routing"], d.pop("kind"))
        if kind != "routing":
            raise ValueError(f"kind must match const 'routing', got '{kind}'")

        network = RoadNetwork.from_dict(d.pop("network"))

        def _parse_latency(data: object) -> AffineLatency | BprLatency | Unset:
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                latency_type_0 = AffineLatency.from_dict(data)

                return latency_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            latency_type_1 = BprLatency.from_dict(data)

            return latency_type_1

        latency = _parse_latency(d.pop("latency", UNSET))

        def _parse_max_trips_per_person(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        max_trips_per_person = _parse_max_trips_per_person(d.pop("max_trips_per_person", UNSET))

        _method = d.pop("method", UNSET)
        method: RoutingMethod | Unset
        if isinstance(_method, Unset):
            method = UNSET
        else:
            method = check_routing_method(_method)

        _objective = d.pop("objective", UNSET)
        objective: RoutingObjective | Unset
        if isinstance(_objective, Unset):
            objective = UNSET
        else:
            objective = check_routing_objective(_objective)

        def _parse_regularization(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        regularization = _parse_regularization(d.pop("regularization", UNSET))

        relative_gap = d.pop("relative_gap", UNSET)

        routing = cls(
            dataset=dataset,
            kind=kind,
            network=network,
            latency=latency,
            max_trips_per_person=max_trips_per_person,
            method=method,
            objective=objective,
            regularization=regularization,
            relative_gap=relative_gap,
        )

        return routing
