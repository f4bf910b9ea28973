from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.coupled_qp import CoupledQp
    from ..models.dr_ensemble import DrEnsemble
    from ..models.multi_agent import MultiAgent
    from ..models.off_policy_evaluation import OffPolicyEvaluation
    from ..models.privacy import Privacy
    from ..models.routing import Routing


T = TypeVar("T", bound="JobRequest")


@_attrs_define
class JobRequest:
    """A problem with the privacy that may be spent on it.

    Attributes:
        problem (CoupledQp | DrEnsemble | MultiAgent | OffPolicyEvaluation | Routing):
        privacy (None | Privacy | Unset): The budget; left out where the guarantee is cryptographic, needed elsewhere
        seed (int | None | Unset): For datasets of mode simulation only
    """

    problem: CoupledQp | DrEnsemble | MultiAgent | OffPolicyEvaluation | Routing
    privacy: None | Privacy | Unset = UNSET
    seed: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.dr_ensemble import DrEnsemble  # noqa: PLC0415
        from ..models.multi_agent import MultiAgent  # noqa: PLC0415
        from ..models.off_policy_evaluation import OffPolicyEvaluation  # noqa: PLC0415
        from ..models.privacy import Privacy  # noqa: PLC0415
        from ..models.routing import Routing  # noqa: PLC0415

        problem: dict[str, Any]
        if isinstance(self.problem, Routing):
            problem = self.problem.to_dict()
        elif isinstance(self.problem, DrEnsemble):
            problem = self.problem.to_dict()
        elif isinstance(self.problem, OffPolicyEvaluation):
            problem = self.problem.to_dict()
        elif isinstance(self.problem, MultiAgent):
            problem = self.problem.to_dict()
        else:
            problem = self.problem.to_dict()

        privacy: dict[str, Any] | None | Unset
        if isinstance(self.privacy, Unset):
            privacy = UNSET
        elif isinstance(self.privacy, Privacy):
            privacy = self.privacy.to_dict()
        else:
            privacy = self.privacy

        seed: int | None | Unset
        if isinstance(self.seed, Unset):
            seed = UNSET
        else:
            seed = self.seed

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "problem": problem,
            }
        )
        if privacy is not UNSET:
            field_dict["privacy"] = privacy
        if seed is not UNSET:
            field_dict["seed"] = seed

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.coupled_qp import CoupledQp  # noqa: PLC0415
        from ..models.dr_ensemble import DrEnsemble  # noqa: PLC0415
        from ..models.multi_agent import MultiAgent  # noqa: PLC0415
        from ..models.off_policy_evaluation import OffPolicyEvaluation  # noqa: PLC0415
        from ..models.privacy import Privacy  # noqa: PLC0415
        from ..models.routing import Routing  # noqa: PLC0415

        d = dict(src_dict)

        def _parse_problem(data: object) -> CoupledQp | DrEnsemble | MultiAgent | OffPolicyEvaluation | Routing:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_0 = Routing.from_dict(data)

                return problem_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_1 = DrEnsemble.from_dict(data)

                return problem_type_1
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_2 = OffPolicyEvaluation.from_dict(data)

                return problem_type_2
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                problem_type_3 = MultiAgent.from_dict(data)

                return problem_type_3
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            problem_type_4 = CoupledQp.from_dict(data)

            return problem_type_4

        problem = _parse_problem(d.pop("problem"))

        def _parse_privacy(data: object) -> None | Privacy | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                privacy_type_0 = Privacy.from_dict(data)

                return privacy_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(None | Privacy | Unset, data)

        privacy = _parse_privacy(d.pop("privacy", UNSET))

        def _parse_seed(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        seed = _parse_seed(d.pop("seed", UNSET))

        job_request = cls(
            problem=problem,
            privacy=privacy,
            seed=seed,
        )

        return job_request
