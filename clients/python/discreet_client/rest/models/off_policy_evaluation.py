from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.off_policy_evaluation_method import OffPolicyEvaluationMethod, check_off_policy_evaluation_method
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.fourier_features import FourierFeatures
    from ..models.identity_features import IdentityFeatures
    from ..models.tabular_features import TabularFeatures


T = TypeVar("T", bound="OffPolicyEvaluation")


@_attrs_define
class OffPolicyEvaluation:
    """Weights of a linear value function of the target policy.

    `moments` releases noised sums over trajectories and solves in closed form; `minibatch` noises Poisson-sampled
    gradient steps; `gradient` is GPOPE, one trajectory a step; `dp_lsw` and `dp_lsl` are Monte Carlo regressions with
    smooth sensitivity. `auto` is moments where the topology is public or features are few, else minibatch.

        Attributes:
            dataset (str): Id of a dataset of kind off_policy_evaluation
            discount (float):
            features (FourierFeatures | IdentityFeatures | TabularFeatures):
            kind (Literal['off_policy_evaluation']):
            clip (float | None | Unset): Public bound on the l2 norm of what one trajectory adds
            initial (list[float] | list[list[float]] | None | Unset): Public: a distribution over the states, or initial
                states x that are equally likely
            max_importance (float | None | Unset): Public cap on importance ratios; 10 when not given
            method (OffPolicyEvaluationMethod | Unset):  Default: 'auto'.
            regularization (float | None | Unset): Ridge of `moments` in units of one trajectory; `dp_lsl`'s penalty, the
                public number of them
            sampling (float | None | Unset): Probability with which a trajectory takes part in a step of `minibatch`
            step_size (float | None | Unset):
            steps (int | None | Unset):
    """

    dataset: str
    discount: float
    features: FourierFeatures | IdentityFeatures | TabularFeatures
    kind: Literal["off_policy_evaluation"]
    clip: float | None | Unset = UNSET
    initial: list[float] | list[list[float]] | None | Unset = UNSET
    max_importance: float | None | Unset = UNSET
    method: OffPolicyEvaluationMethod | Unset = "auto"
    regularization: float | None | Unset = UNSET
    sampling: float | None | Unset = UNSET
    step_size: float | None | Unset = UNSET
    steps: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.fourier_features import FourierFeatures  # noqa: PLC0415
        from ..models.tabular_features import TabularFeatures  # noqa: PLC0415

        dataset = self.dataset

        discount = self.discount

        features: dict[str, Any]
        if isinstance(self.features, TabularFeatures):
            features = self.features.to_dict()
        elif isinstance(self.features, FourierFeatures):
            features = self.features.to_dict()
        else:
            features = self.features.to_dict()

        kind = self.kind

        clip: float | None | Unset
        if isinstance(self.clip, Unset):
            clip = UNSET
        else:
            clip = self.clip

        initial: list[float] | list[list[float]] | None | Unset
        if isinstance(self.initial, Unset):
            initial = UNSET
        elif isinstance(self.initial, list):
            initial = self.initial

        elif isinstance(self.initial, list):
            initial = []
            for initial_type_0_type_1_item_data in self.initial:
                initial_type_0_type_1_item = initial_type_0_type_1_item_data

                initial.append(initial_type_0_type_1_item)

        else:
            initial = self.initial

        max_importance: float | None | Unset
        if isinstance(self.max_importance, Unset):
            max_importance = UNSET
        else:
            max_importance = self.max_importance

        method: str | Unset = UNSET
        if not isinstance(self.method, Unset):
            method = self.method

        regularization: float | None | Unset
        if isinstance(self.regularization, Unset):
            regularization = UNSET
        else:
            regularization = self.regularization

        sampling: float | None | Unset
        if isinstance(self.sampling, Unset):
            sampling = UNSET
        else:
            sampling = self.sampling

        step_size: float | None | Unset
        if isinstance(self.step_size, Unset):
            step_size = UNSET
        else:
            step_size = self.step_size

        steps: int | None | Unset
        if isinstance(self.steps, Unset):
            steps = UNSET
        else:
            steps = self.steps

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "dataset": dataset,
                "discount": discount,
                "features": features,
                "kind": kind,
            }
        )
        if clip is not UNSET:
            field_dict["clip"] = clip
        if initial is not UNSET:
            field_dict["initial"] = initial
        if max_importance is not UNSET:
            field_dict["max_importance"] = max_importance
        if method is not UNSET:
            field_dict["method"] = method
        if regularization is not UNSET:
            field_dict["regularization"] = regularization
        if sampling is not UNSET:
            field_dict["sampling"] = sampling
        if step_size is not UNSET:
            field_dict["step_size"] = step_size
        if steps is not UNSET:
            field_dict["steps"] = steps

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.fourier_features import FourierFeatures  # noqa: PLC0415
        from ..models.identity_features import IdentityFeatures  # noqa: PLC0415
        from ..models.tabular_features import TabularFeatures  # noqa: PLC0415

        d = dict(src_dict)
        dataset = d.pop("dataset")

        discount = d.pop("discount")

        def _parse_features(data: object) -> FourierFeatures | IdentityFeatures | TabularFeatures:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                features_type_0 = TabularFeatures.from_dict(data)

                return features_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                features_type_1 = FourierFeatures.from_dict(data)

                return features_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            features_type_2 = IdentityFeatures.from_dict(data)

            return features_type_2

        features = _parse_features(d.pop("features"))

        kind = cast(Literal["off_policy_evaluation"], d.pop("kind"))
        if kind != "off_policy_evaluation":
            raise ValueError(f"kind must match const 'off_policy_evaluation', got '{kind}'")

        def _parse_clip(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        clip = _parse_clip(d.pop("clip", UNSET))

        def _parse_initial(data: object) -> list[float] | list[list[float]] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                initial_type_0_type_0 = cast(list[float], data)

                return initial_type_0_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, list):
                    raise TypeError()
                initial_type_0_type_1 = []
                _initial_type_0_type_1 = data
                for initial_type_0_type_1_item_data in _initial_type_0_type_1:
                    initial_type_0_type_1_item = cast(list[float], initial_type_0_type_1_item_data)

                    initial_type_0_type_1.append(initial_type_0_type_1_item)

                return initial_type_0_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[float] | list[list[float]] | None | Unset, data)

        initial = _parse_initial(d.pop("initial", UNSET))

        def _parse_max_importance(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        max_importance = _parse_max_importance(d.pop("max_importance", UNSET))

        _method = d.pop("method", UNSET)
        method: OffPolicyEvaluationMethod | Unset
        if isinstance(_method, Unset):
            method = UNSET
        else:
            method = check_off_policy_evaluation_method(_method)

        def _parse_regularization(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        regularization = _parse_regularization(d.pop("regularization", UNSET))

        def _parse_sampling(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        sampling = _parse_sampling(d.pop("sampling", UNSET))

        def _parse_step_size(data: object) -> float | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(float | None | Unset, data)

        step_size = _parse_step_size(d.pop("step_size", UNSET))

        def _parse_steps(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        steps = _parse_steps(d.pop("steps", UNSET))

        off_policy_evaluation = cls(
            dataset=dataset,
            discount=discount,
            features=features,
            kind=kind,
            clip=clip,
            initial=initial,
            max_importance=max_importance,
            method=method,
            regularization=regularization,
            sampling=sampling,
            step_size=step_size,
            steps=steps,
        )

        return off_policy_evaluation
