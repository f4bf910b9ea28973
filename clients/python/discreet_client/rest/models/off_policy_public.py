from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.off_policy_public_neighbours_type_0 import (
    OffPolicyPublicNeighboursType0,
    check_off_policy_public_neighbours_type_0,
)
from ..types import UNSET, Unset

T = TypeVar("T", bound="OffPolicyPublic")


@_attrs_define
class OffPolicyPublic:
    """What is published of a set of trajectories.

    Attributes:
        horizon (int): Most transitions of a trajectory
        reward_bound (float): Public bound on the modulus of a reward
        unit (Literal['trajectory']): One person's trajectory is what a neighbouring dataset changes
        features (int | None | Unset): Number of coordinates of a state `x`, instead of `states`
        neighbours (None | OffPolicyPublicNeighboursType0 | Unset): `replace` where `trajectories` is given, else
            `add_remove`
        off_policy (bool | None | Unset): Whether rows have `behaviour` and `target`; follows from the content's columns
        rewards (list[float] | None | Unset): Reward of each transition of the topology, where that is public
        states (int | None | Unset): Number of states of a tabular problem
        topology (list[list[int]] | None | Unset): Possible transitions [state, next state]; a next state of `states` is
            the end of the episode
        trajectories (int | None | Unset): Number of trajectories, when it is public
    """

    horizon: int
    reward_bound: float
    unit: Literal["trajectory"]
    features: int | None | Unset = UNSET
    neighbours: None | OffPolicyPublicNeighboursType0 | Unset = UNSET
    off_policy: bool | None | Unset = UNSET
    rewards: list[float] | None | Unset = UNSET
    states: int | None | Unset = UNSET
    topology: list[list[int]] | None | Unset = UNSET
    trajectories: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        horizon = self.horizon

        reward_bound = self.reward_bound

        unit = self.unit

        features: int | None | Unset
        if isinstance(self.features, Unset):
            features = UNSET
        else:
            features = self.features

        neighbours: None | str | Unset
        if isinstance(self.neighbours, Unset):
            neighbours = UNSET
        elif isinstance(self.neighbours, str):
            neighbours = self.neighbours
        else:
            neighbours = self.neighbours

        off_policy: bool | None | Unset
        if isinstance(self.off_policy, Unset):
            off_policy = UNSET
        else:
            off_policy = self.off_policy

        rewards: list[float] | None | Unset
        if isinstance(self.rewards, Unset):
            rewards = UNSET
        elif isinstance(self.rewards, list):
            rewards = self.rewards

        else:
            rewards = self.rewards

        states: int | None | Unset
        if isinstance(self.states, Unset):
            states = UNSET
        else:
            states = self.states

        topology: list[list[int]] | None | Unset
        if isinstance(self.topology, Unset):
            topology = UNSET
        elif isinstance(self.topology, list):
            topology = []
            for topology_type_0_item_data in self.topology:
                topology_type_0_item = []
                for topology_type_0_item_item_data in topology_type_0_item_data:
                    topology_type_0_item_item: int
                    topology_type_0_item_item = topology_type_0_item_item_data
                    topology_type_0_item.append(topology_type_0_item_item)

                topology.append(topology_type_0_item)

        else:
            topology = self.topology

        trajectories: int | None | Unset
        if isinstance(self.trajectories, Unset):
            trajectories = UNSET
        else:
            trajectories = self.trajectories

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "horizon": horizon,
                "reward_bound": reward_bound,
                "unit": unit,
            }
        )
        if features is not UNSET:
            field_dict["features"] = features
        if neighbours is not UNSET:
            field_dict["neighbours"] = neighbours
        if off_policy is not UNSET:
            field_dict["off_policy"] = off_policy
        if rewards is not UNSET:
            field_dict["rewards"] = rewards
        if states is not UNSET:
            field_dict["states"] = states
        if topology is not UNSET:
            field_dict["topology"] = topology
        if trajectories is not UNSET:
            field_dict["trajectories"] = trajectories

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        horizon = d.pop("horizon")

        reward_bound = d.pop("reward_bound")

        unit = cast(Literal["trajectory"], d.pop("unit"))
        if unit != "trajectory":
            raise ValueError(f"unit must match const 'trajectory', got '{unit}'")

        def _parse_features(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        features = _parse_features(d.pop("features", UNSET))

        def _parse_neighbours(data: object) -> None | OffPolicyPublicNeighboursType0 | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                neighbours_type_0 = check_off_policy_public_neighbours_type_0(data)

                return neighbours_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | OffPolicyPublicNeighboursType0 | Unset, data)

        neighbours = _parse_neighbours(d.pop("neighbours", UNSET))

        def _parse_off_policy(data: object) -> bool | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(bool | None | Unset, data)

        off_policy = _parse_off_policy(d.pop("off_policy", UNSET))

        def _parse_rewards(data: object) -> list[float] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                rewards_type_0 = cast(list[float], data)

                return rewards_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float] | None | Unset, data)

        rewards = _parse_rewards(d.pop("rewards", UNSET))

        def _parse_states(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        states = _parse_states(d.pop("states", UNSET))

        def _parse_topology(data: object) -> list[list[int]] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                topology_type_0 = []
                _topology_type_0 = data
                for topology_type_0_item_data in _topology_type_0:
                    topology_type_0_item = []
                    _topology_type_0_item = topology_type_0_item_data
                    for topology_type_0_item_item_data in _topology_type_0_item:

                        def _parse_topology_type_0_item_item(data: object) -> int:
                            return cast(int, data)

                        topology_type_0_item_item = _parse_topology_type_0_item_item(topology_type_0_item_item_data)

                        topology_type_0_item.append(topology_type_0_item_item)

                    topology_type_0.append(topology_type_0_item)

                return topology_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[list[int]] | None | Unset, data)

        topology = _parse_topology(d.pop("topology", UNSET))

        def _parse_trajectories(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        trajectories = _parse_trajectories(d.pop("trajectories", UNSET))

        off_policy_public = cls(
            horizon=horizon,
            reward_bound=reward_bound,
            unit=unit,
            features=features,
            neighbours=neighbours,
            off_policy=off_policy,
            rewards=rewards,
            states=states,
            topology=topology,
            trajectories=trajectories,
        )

        return off_policy_public
