from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.coupled_qp_mode import CoupledQpMode, check_coupled_qp_mode
from ..models.coupled_qp_protocol import CoupledQpProtocol, check_coupled_qp_protocol
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.agent_data import AgentData
    from ..models.encryption import Encryption
    from ..models.federated_agents import FederatedAgents
    from ..models.federation_terms import FederationTerms
    from ..models.operator_data import OperatorData
    from ..models.qp_steps import QpSteps
    from ..models.sum_noise import SumNoise


T = TypeVar("T", bound="CoupledQp")


@_attrs_define
class CoupledQp:
    """Agents minimize a joint quadratic cost under joint constraints, over sums that only they can open.

    `protocol: job` runs operator and agents in one process, with all data at the server: for `mode: simulation` alone.

        Attributes:
            agents (FederatedAgents | list[AgentData]):
            kind (Literal['coupled_qp']):
            operator (OperatorData): What the operator holds: c of the coupled objective, d of the constraints. Not
                published, nor told to agents.
            steps (QpSteps): Steps of the shrunken primal-dual subgradient method.
            encryption (Encryption | Unset): How the sums are hidden.
            federation (FederationTerms | None | Unset): Needed with protocol `federated`
            mode (CoupledQpMode | Unset):  Default: 'private'.
            noise (None | SumNoise | Unset):
            protocol (CoupledQpProtocol | Unset):  Default: 'job'.
    """

    agents: FederatedAgents | list[AgentData]
    kind: Literal["coupled_qp"]
    operator: OperatorData
    steps: QpSteps
    encryption: Encryption | Unset = UNSET
    federation: FederationTerms | None | Unset = UNSET
    mode: CoupledQpMode | Unset = "private"
    noise: None | SumNoise | Unset = UNSET
    protocol: CoupledQpProtocol | Unset = "job"

    def to_dict(self) -> dict[str, Any]:
        from ..models.federation_terms import FederationTerms  # noqa: PLC0415
        from ..models.sum_noise import SumNoise  # noqa: PLC0415

        agents: dict[str, Any] | list[dict[str, Any]]
        if isinstance(self.agents, list):
            agents = []
            for agents_type_0_item_data in self.agents:
                agents_type_0_item = agents_type_0_item_data.to_dict()
                agents.append(agents_type_0_item)

        else:
            agents = self.agents.to_dict()

        kind = self.kind

        operator = self.operator.to_dict()

        steps = self.steps.to_dict()

        encryption: dict[str, Any] | Unset = UNSET
        if not isinstance(self.encryption, Unset):
            encryption = self.encryption.to_dict()

        federation: dict[str, Any] | None | Unset
        if isinstance(self.federation, Unset):
            federation = UNSET
        elif isinstance(self.federation, FederationTerms):
            federation = self.federation.to_dict()
        else:
            federation = self.federation

        mode: str | Unset = UNSET
        if not isinstance(self.mode, Unset):
            mode = self.mode

        noise: dict[str, Any] | None | Unset
        if isinstance(self.noise, Unset):
            noise = UNSET
        elif isinstance(self.noise, SumNoise):
            noise = self.noise.to_dict()
        else:
            noise = self.noise

        protocol: str | Unset = UNSET
        if not isinstance(self.protocol, Unset):
            protocol = self.protocol

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "agents": agents,
                "kind": kind,
                "operator": operator,
                "steps": steps,
            }
        )
        if encryption is not UNSET:
            field_dict["encryption"] = encryption
        if federation is not UNSET:
            field_dict["federation"] = federation
        if mode is not UNSET:
            field_dict["mode"] = mode
        if noise is not UNSET:
            field_dict["noise"] = noise
        if protocol is not UNSET:
            field_dict["protocol"] = protocol

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.agent_data import AgentData  # noqa: PLC0415
        from ..models.encryption import Encryption  # noqa: PLC0415
        from ..models.federated_agents import FederatedAgents  # noqa: PLC0415
        from ..models.federation_terms import FederationTerms  # noqa: PLC0415
        from ..models.operator_data import OperatorData  # noqa: PLC0415
        from ..models.qp_steps import QpSteps  # noqa: PLC0415
        from ..models.sum_noise import SumNoise  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_agents(data: object) -> FederatedAgents | list[AgentData]:
            try:
                if not isinstance(data, list):
                    raise TypeError()
                agents_type_0 = []
                _agents_type_0 = data
                for agents_type_0_item_data in _agents_type_0:
                    agents_type_0_item = AgentData.from_dict(agents_type_0_item_data)

                    agents_type_0.append(agents_type_0_item)

                return agents_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            agents_type_1 = FederatedAgents.from_dict(data)

            return agents_type_1

        agents = _parse_agents(d.pop("agents"))

        kind = cast(Literal["coupled_qp"], d.pop("kind"))
        if kind != "coupled_qp":
            raise ValueError(f"kind must match const 'coupled_qp', got '{kind}'")

        operator = OperatorData.from_dict(d.pop("operator"))

        steps = QpSteps.from_dict(d.pop("steps"))

        _encryption = d.pop("encryption", UNSET)
        encryption: Encryption | Unset
        if isinstance(_encryption, Unset):
            encryption = UNSET
        else:
            encryption = Encryption.from_dict(_encryption)

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

        _mode = d.pop("mode", UNSET)
        mode: CoupledQpMode | Unset
        if isinstance(_mode, Unset):
            mode = UNSET
        else:
            mode = check_coupled_qp_mode(_mode)

        def _parse_noise(data: object) -> None | SumNoise | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                noise_type_0 = SumNoise.from_dict(data)

                return noise_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | SumNoise | Unset, data)

        noise = _parse_noise(d.pop("noise", UNSET))

        _protocol = d.pop("protocol", UNSET)
        protocol: CoupledQpProtocol | Unset
        if isinstance(_protocol, Unset):
            protocol = UNSET
        else:
            protocol = check_coupled_qp_protocol(_protocol)

        coupled_qp = cls(
            agents=agents,
            kind=kind,
            operator=operator,
            steps=steps,
            encryption=encryption,
            federation=federation,
            mode=mode,
            noise=noise,
            protocol=protocol,
        )

        return coupled_qp
