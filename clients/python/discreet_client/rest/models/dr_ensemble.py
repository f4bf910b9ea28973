from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.dr_ensemble_method import DrEnsembleMethod, check_dr_ensemble_method
from ..models.dr_ensemble_policy import DrEnsemblePolicy, check_dr_ensemble_policy
from ..types import UNSET, Unset

T = TypeVar("T", bound="DrEnsemble")


@_attrs_define
class DrEnsemble:
    """Steer a load ensemble through T steps.

    `counts`: every participant's transitions, normalized by their number, are summed and released with noise; a
    participant is a point of the simplex, whatever the record's length. `dirichlet`: every row of a transition matrix
    is answered by one Dirichlet draw.

        Attributes:
            dataset (str): Id of a dataset of kind dr_ensemble
            discomfort_weight (float): gamma, in the unit of utility
            initial (list[float]):
            kind (Literal['dr_ensemble']):
            power (list[float]): Power of each state
            clip (float | None | Unset): Public bound on the l2 norm of a participant's histogram; less noise, some bias
            concentration (float | None | Unset): k of the last three policies; the Dirichlet mechanism's own when not given
            method (DrEnsembleMethod | Unset):  Default: 'auto'.
            policy (DrEnsemblePolicy | Unset):  Default: 'exact'.
            price (list[float] | None | Unset): Money per unit of power in each step; the utility is then minus price times
                power
            prior (float | Unset): Added to each parameter of a Dirichlet draw; lets small epsilons be met Default: 0.0.
            samples (int | None | Unset): Draws of the average policy; its closed form when not given
            utility (list[list[float]] | None | Unset): Money by step and state, instead of `price`
    """

    dataset: str
    discomfort_weight: float
    initial: list[float]
    kind: Literal["dr_ensemble"]
    power: list[float]
    clip: float | None | Unset = UNSET
    concentration: float | None | Unset = UNSET
    method: DrEnsembleMethod | Unset = "auto"
    policy: DrEnsemblePolicy | Unset = "exact"
    price: list[float] | None | Unset = UNSET
    prior: float | Unset = 0.0
    samples: int | None | Unset = UNSET
    utility: list[list[float]] | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        dataset = self.dataset

        discomfort_weight = self.discomfort_weight

        initial = self.initial

        kind = self.kind

        power = self.power

        clip: float | None | Unset
        if isinstance(self.clip, Unset):
            clip = UNSET
        else:
            clip = self.clip

        concentration: float | None | Unset
        if isinstance(self.concentration, Unset):
            concentration = UNSET
        else:
            concentration = self.concentration

        method: str | Unset = UNSET
        if not isinstance(self.method, Unset):
            method = self.method

        policy: str | Unset = UNSET
        if not isinstance(self.policy, Unset):
            policy = self.policy

        price: list[float] | None | Unset
        if isinstance(self.price, Unset):
            price = UNSET
        elif isinstance(self.price, list):
            price = self.price

        else:
            price = self.price

        prior = self.prior

        samples: int | None | Unset
        if isinstance(self.samples, Unset):
            samples = UNSET
        else:
            samples = self.samples

        utility: list[list[float]] | None | Unset
        if isinstance(self.utility, Unset):
            utility = UNSET
        elif isinstance(self.utility, list):
            utility = []
            for utility_type_0_item_data in self.utility:
                utility_type_0_item = utility_type_0_item_data

                utility.append(utility_type_0_item)

        else:
            utility = self.utility

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "dataset": dataset,
                "discomfort_weight": discomfort_weight,
                "initial": initial,
                "kind": kind,
                "power": power,
            }
        )
        if clip is not UNSET:
            field_dict["clip"] = clip
        if concentration is not UNSET:
            field_dict["concentration"] = concentration
        if method is not UNSET:
            field_dict["method"] = method
        if policy is not UNSET:
            field_dict["policy"] = policy
        if price is not UNSET:
            field_dict["price"] = price
        if prior is not UNSET:
            field_dict["prior"] = prior
        if samples is not UNSET:
            field_dict["samples"] = samples
        if utility is not UNSET:
            field_dict["utility"] = utility

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        dataset = d.pop("dataset")

        discomfort_weight = d.pop("discomfort_weight")

        initial = cast(list[float], d.pop("initial"))

        kind = cast(Literal["dr_ensemble"], d.pop("kind"))
        if kind != "dr_ensemble":
            raise ValueError(f"kind must match const 'dr_ensemble', got '{kind}'")

        power = cast(list[float], d.pop("power"))

        def _parse_clip(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        clip = _parse_clip(d.pop("clip", UNSET))

        def _parse_concentration(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        concentration = _parse_concentration(d.pop("concentration", UNSET))

        _method = d.pop("method", UNSET)
        method: DrEnsembleMethod | Unset
        if isinstance(_method, Unset):
            method = UNSET
        else:
            method = check_dr_ensemble_method(_method)

        _policy = d.pop("policy", UNSET)
        policy: DrEnsemblePolicy | Unset
        if isinstance(_policy, Unset):
            policy = UNSET
        else:
            policy = check_dr_ensemble_policy(_policy)

        def _parse_price(data: object) -> list[float] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                price_type_0 = cast(list[float], data)

                return price_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float] | None | Unset, data)

        price = _parse_price(d.pop("price", UNSET))

        prior = d.pop("prior", UNSET)

        def _parse_samples(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        samples = _parse_samples(d.pop("samples", UNSET))

        def _parse_utility(data: object) -> list[list[float]] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                utility_type_0 = []
                _utility_type_0 = data
                for utility_type_0_item_data in _utility_type_0:
                    utility_type_0_item = cast(list[float], utility_type_0_item_data)

                    utility_type_0.append(utility_type_0_item)

                return utility_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[list[float]] | None | Unset, data)

        utility = _parse_utility(d.pop("utility", UNSET))

        dr_ensemble = cls(
            dataset=dataset,
            discomfort_weight=discomfort_weight,
            initial=initial,
            kind=kind,
            power=power,
            clip=clip,
            concentration=concentration,
            method=method,
            policy=policy,
            price=price,
            prior=prior,
            samples=samples,
            utility=utility,
        )

        return dr_ensemble
