from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.off_policy_dataset_mode import OffPolicyDatasetMode, check_off_policy_dataset_mode
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.cap import Cap
    from ..models.off_policy_content import OffPolicyContent
    from ..models.off_policy_public import OffPolicyPublic


T = TypeVar("T", bound="OffPolicyDataset")


@_attrs_define
class OffPolicyDataset:
    """Trajectories of people under a behaviour policy.

    Attributes:
        content (OffPolicyContent): The private content.
        kind (Literal['off_policy_evaluation']):
        name (str):
        public (OffPolicyPublic): What is published of a set of trajectories.
        account (None | str | Unset): Account of an earlier version of the same source
        cap (Cap | None | Unset): Needed unless `account` is given
        delete_after_job (bool | Unset): The content is erased after the first job that succeeds on it Default: False.
        mode (OffPolicyDatasetMode | Unset): `simulation` declares the content public Default: 'private'.
        retention_days (int | None | Unset): The content is erased after so many days; absent: as the installation is
            set
    """

    content: OffPolicyContent
    kind: Literal["off_policy_evaluation"]
    name: str
    public: OffPolicyPublic
    account: None | str | Unset = UNSET
    cap: Cap | None | Unset = UNSET
    delete_after_job: bool | Unset = False
    mode: OffPolicyDatasetMode | Unset = "private"
    retention_days: int | None | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        from ..models.cap import Cap  # noqa: PLC0415

        content = self.content.to_dict()

        kind = self.kind

        name = self.name

        public = self.public.to_dict()

        account: None | str | Unset
        if isinstance(self.account, Unset):
            account = UNSET
        else:
            account = self.account

        cap: dict[str, Any] | None | Unset
        if isinstance(self.cap, Unset):
            cap = UNSET
        elif isinstance(self.cap, Cap):
            cap = self.cap.to_dict()
        else:
            cap = self.cap

        delete_after_job = self.delete_after_job

        mode: str | Unset = UNSET
        if not isinstance(self.mode, Unset):
            mode = self.mode

        retention_days: int | None | Unset
        if isinstance(self.retention_days, Unset):
            retention_days = UNSET
        else:
            retention_days = self.retention_days

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "content": content,
                "kind": kind,
                "name": name,
                "public": public,
            }
        )
        if account is not UNSET:
            field_dict["account"] = account
        if cap is not UNSET:
            field_dict["cap"] = cap
        if delete_after_job is not UNSET:
            field_dict["delete_after_job"] = delete_after_job
        if mode is not UNSET:
            field_dict["mode"] = mode
        if retention_days is not UNSET:
            field_dict["retention_days"] = retention_days

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cap import Cap  # noqa: PLC0415
        from ..models.off_policy_content import OffPolicyContent  # noqa: PLC0415
        from ..models.off_policy_public import OffPolicyPublic  # noqa: PLC0415

        d = dict(src_dict)
        content = OffPolicyContent.from_dict(d.pop("content"))

        kind = cast(Literal["off_policy_evaluation"], d.pop("kind"))
        if kind != "off_policy_evaluation":
            raise ValueError(f"kind must match const 'off_policy_evaluation', got '{kind}'")

        name = d.pop("name")

        public = OffPolicyPublic.from_dict(d.pop("public"))

        def _parse_account(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        account = _parse_account(d.pop("account", UNSET))

        def _parse_cap(data: object) -> Cap | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                cap_type_0 = Cap.from_dict(data)

                return cap_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Cap | None | Unset, data)

        cap = _parse_cap(d.pop("cap", UNSET))

        delete_after_job = d.pop("delete_after_job", UNSET)

        _mode = d.pop("mode", UNSET)
        mode: OffPolicyDatasetMode | Unset
        if isinstance(_mode, Unset):
            mode = UNSET
        else:
            mode = check_off_policy_dataset_mode(_mode)

        def _parse_retention_days(data: object) -> int | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(int | None | Unset, data)

        retention_days = _parse_retention_days(d.pop("retention_days", UNSET))

        off_policy_dataset = cls(
            content=content,
            kind=kind,
            name=name,
            public=public,
            account=account,
            cap=cap,
            delete_after_job=delete_after_job,
            mode=mode,
            retention_days=retention_days,
        )

        return off_policy_dataset
