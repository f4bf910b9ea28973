from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.dataset_answer_mode import DatasetAnswerMode, check_dataset_answer_mode

if TYPE_CHECKING:
    from ..models.dataset_answer_public import DatasetAnswerPublic


T = TypeVar("T", bound="DatasetAnswer")


@_attrs_define
class DatasetAnswer:
    """A registered dataset. Its content is never returned.

    Attributes:
        account (str):
        created_at (datetime.datetime):
        delete_after_job (bool): The content is erased after the first job that succeeds on it
        expires_at (datetime.datetime | None): When the content is erased; null: it is kept
        id (str):
        kind (str):
        mode (DatasetAnswerMode):
        name (str):
        public (DatasetAnswerPublic):
    """

    account: str
    created_at: datetime.datetime
    delete_after_job: bool
    expires_at: datetime.datetime | None
    id: str
    kind: str
    mode: DatasetAnswerMode
    name: str
    public: DatasetAnswerPublic
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        account = self.account

        created_at = self.created_at.isoformat()

        delete_after_job = self.delete_after_job

        expires_at: None | str
        if isinstance(self.expires_at, datetime.datetime):
            expires_at = self.expires_at.isoformat()
        else:
            expires_at = self.expires_at

        id = self.id

        kind = self.kind

        mode: str = self.mode

        name = self.name

        public = self.public.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "account": account,
                "created_at": created_at,
                "delete_after_job": delete_after_job,
                "expires_at": expires_at,
                "id": id,
                "kind": kind,
                "mode": mode,
                "name": name,
                "public": public,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.dataset_answer_public import DatasetAnswerPublic  # noqa: PLC0415

        d = dict(src_dict)
        account = d.pop("account")

        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        delete_after_job = d.pop("delete_after_job")

        def _parse_expires_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                expires_at_type_0 = datetime.datetime.fromisoformat(data)

                return expires_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        expires_at = _parse_expires_at(d.pop("expires_at"))

        id = d.pop("id")

        kind = d.pop("kind")

        mode = check_dataset_answer_mode(d.pop("mode"))

        name = d.pop("name")

        public = DatasetAnswerPublic.from_dict(d.pop("public"))

        dataset_answer = cls(
            account=account,
            created_at=created_at,
            delete_after_job=delete_after_job,
            expires_at=expires_at,
            id=id,
            kind=kind,
            mode=mode,
            name=name,
            public=public,
        )

        dataset_answer.additional_properties = d
        return dataset_answer

    @property
    def additional_keys(self) -> list[str]:
        return list(self.additional_properties.keys())

    def __getitem__(self, key: str) -> Any:
        return self.additional_properties[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.additional_properties[key] = value

    def __delitem__(self, key: str) -> None:
        del self.additional_properties[key]

    def __contains__(self, key: str) -> bool:
        return key in self.additional_properties
