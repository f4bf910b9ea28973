from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.job_answer_state import JobAnswerState, check_job_answer_state
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.job_error import JobError
    from ..models.job_progress import JobProgress
    from ..models.price import Price


T = TypeVar("T", bound="JobAnswer")


@_attrs_define
class JobAnswer:
    """A job.

    Attributes:
        created_at (datetime.datetime):
        created_by (str):
        dataset (None | str):
        finished_at (datetime.datetime | None):
        id (str):
        kind (str):
        price (Price): What a job costs.
        progress (JobProgress): Steps done of a planned total.
        started_at (datetime.datetime | None):
        state (JobAnswerState):
        cancel_requested (bool | Unset): Somebody has asked for its end, and it is being stopped Default: False.
        error (JobError | None | Unset):
    """

    created_at: datetime.datetime
    created_by: str
    dataset: None | str
    finished_at: datetime.datetime | None
    id: str
    kind: str
    price: Price
    progress: JobProgress
    started_at: datetime.datetime | None
    state: JobAnswerState
    cancel_requested: bool | Unset = False
    error: JobError | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.job_error import JobError  # noqa: PLC0415

        created_at = self.created_at.isoformat()

        created_by = self.created_by

        dataset: None | str
        dataset = self.dataset

        finished_at: None | str
        if isinstance(self.finished_at, datetime.datetime):
            finished_at = self.finished_at.isoformat()
        else:
            finished_at = self.finished_at

        id = self.id

        kind = self.kind

        price = self.price.to_dict()

        progress = self.progress.to_dict()

        started_at: None | str
        if isinstance(self.started_at, datetime.datetime):
            started_at = self.started_at.isoformat()
        else:
            started_at = self.started_at

        state: str = self.state

        cancel_requested = self.cancel_requested

        error: dict[str, Any] | None | Unset
        if isinstance(self.error, Unset):
            error = UNSET
        elif isinstance(self.error, JobError):
            error = self.error.to_dict()
        else:
            error = self.error

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "created_at": created_at,
                "created_by": created_by,
                "dataset": dataset,
                "finished_at": finished_at,
                "id": id,
                "kind": kind,
                "price": price,
                "progress": progress,
                "started_at": started_at,
                "state": state,
            }
        )
        if cancel_requested is not UNSET:
            field_dict["cancel_requested"] = cancel_requested
        if error is not UNSET:
            field_dict["error"] = error

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.job_error import JobError  # noqa: PLC0415
        from ..models.job_progress import JobProgress  # noqa: PLC0415
        from ..models.price import Price  # noqa: PLC0415

        d = dict(src_dict)
        created_at = datetime.datetime.fromisoformat(d.pop("created_at"))

        created_by = d.pop("created_by")

        def _parse_dataset(data: object) -> None | str:
            if data is None:
                return data
            return cast(None | str, data)

        dataset = _parse_dataset(d.pop("dataset"))

        def _parse_finished_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                finished_at_type_0 = datetime.datetime.fromisoformat(data)

                return finished_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        finished_at = _parse_finished_at(d.pop("finished_at"))

        id = d.pop("id")

        kind = d.pop("kind")

        price = Price.from_dict(d.pop("price"))

        progress = JobProgress.from_dict(d.pop("progress"))

        def _parse_started_at(data: object) -> datetime.datetime | None:
            if data is None:
                return data
            try:
                if not isinstance(data, str):
                    raise TypeError()
                started_at_type_0 = datetime.datetime.fromisoformat(data)

                return started_at_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(datetime.datetime | None, data)

        started_at = _parse_started_at(d.pop("started_at"))

        state = check_job_answer_state(d.pop("state"))

        cancel_requested = d.pop("cancel_requested", UNSET)

        def _parse_error(data: object) -> JobError | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                error_type_0 = JobError.from_dict(data)

                return error_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(JobError | None | Unset, data)

        error = _parse_error(d.pop("error", UNSET))

        job_answer = cls(
            created_at=created_at,
            created_by=created_by,
            dataset=dataset,
            finished_at=finished_at,
            id=id,
            kind=kind,
            price=price,
            progress=progress,
            started_at=started_at,
            state=state,
            cancel_requested=cancel_requested,
            error=error,
        )

        job_answer.additional_properties = d
        return job_answer

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
