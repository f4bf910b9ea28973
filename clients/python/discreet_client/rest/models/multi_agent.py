from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.multi_agent_protocol import MultiAgentProtocol, check_multi_agent_protocol
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.federation_terms import FederationTerms
    from ..models.step_schedule import StepSchedule


T = TypeVar("T", bound="MultiAgent")


@_attrs_define
class MultiAgent:
    """Minimize the sum of the agents' objectives subject to `constraints` <= 0, by a noised primal-dual iteration.

    All entries of the constraints' values and gradients that any state moves get Gaussian noise in every step, their
    scales split at least cost, such that the whole transcript moves by one unit of the one event that is charged.

        Attributes:
            constraints (list[str]): Expressions in the agents' names, convex, meant <= 0
            kind (Literal['multi_agent']):
            schedule (StepSchedule): gamma_k = gamma k^-c1, alpha_k = alpha k^-c2, 0 < c2 < c1, c1 + c2 < 1 (eqs 7 and 8),
                and how many steps.
            dataset (None | str | Unset): Id of a dataset of kind multi_agent; none where the agents keep their own data
            federation (FederationTerms | None | Unset): Needed with protocol `federated`
            protocol (MultiAgentProtocol | Unset):  Default: 'job'.
    """

    constraints: list[str]
    kind: Literal["multi_agent"]
    schedule: StepSchedule
    dataset: None | str | Unset = UNSET
    federation: FederationTerms | None | Unset = UNSET
    protocol: MultiAgentProtocol | Unset = "job"

    def to_dict(self) -> dict[str, Any]:
        from ..models.federation_terms import FederationTerms  # noqa: PLC0415

        constraints = self.constraints

        kind = self.kind

        schedule = self.schedule.to_dict()

        dataset: None | str | Unset
        if isinstance(self.dataset, Unset):
            dataset = UNSET
        else:
            dataset = self.dataset

        federation: dict[str, Any] | None | Unset
        if isinstance(self.federation, Unset):
            federation = UNSET
        elif isinstance(self.federation, FederationTerms):
            federation = self.federation.to_dict()
        else:
            federation = self.federation

        protocol: str | Unset = UNSET
        if not isinstance(self.protocol, Unset):
            protocol = self.protocol

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "constraints": constraints,
                "kind": kind,
                "schedule": schedule,
            }
        )
        if dataset is not UNSET:
            field_dict["dataset"] = dataset
        if federation is not UNSET:
            field_dict["federation"] = federation
        if protocol is not UNSET:
            field_dict["protocol"] = protocol

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.federation_terms import FederationTerms  # noqa: PLC0415
        from ..models.step_schedule import StepSchedule  # noqa: PLC0415

        d = dict(src_dict)
        constraints = cast(list[str], d.pop("constraints"))

        kind = cast(Literal["multi_agent"], d.pop("kind"))
        if kind != "multi_agent":
            raise ValueError(f"kind must match const 'multi_agent', got '{kind}'")

        schedule = StepSchedule.from_dict(d.pop("schedule"))

        def _parse_dataset(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        dataset = _parse_dataset(d.pop("dataset", UNSET))

        def _parse_federation(data: object) -> FederationTerms | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                federation_type_0 = FederationTerms.from_dict(data)

                return federation_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(FederationTerms | None | Unset, data)

        federation = _parse_federation(d.pop("federation", UNSET))

        _protocol = d.pop("protocol", UNSET)
        protocol: MultiAgentProtocol | Unset
        if isinstance(_protocol, Unset):
            protocol = UNSET
        else:
            protocol = check_multi_agent_protocol(_protocol)

        multi_agent = cls(
            constraints=constraints,
            kind=kind,
            schedule=schedule,
            dataset=dataset,
            federation=federation,
            protocol=protocol,
        )

        return multi_agent
