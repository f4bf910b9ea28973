from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.job_answer import JobAnswer
    from ..models.result_answer_certificate import ResultAnswerCertificate
    from ..models.result_answer_result import ResultAnswerResult


T = TypeVar("T", bound="ResultAnswer")


@_attrs_define
class ResultAnswer:
    """A job's result and the certificate of what it gave away.

    Attributes:
        certificate (ResultAnswerCertificate):
        job (JobAnswer): A job.
        result (ResultAnswerResult):
    """

    certificate: ResultAnswerCertificate
    job: JobAnswer
    result: ResultAnswerResult
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        certificate = self.certificate.to_dict()

        job = self.job.to_dict()

        result = self.result.to_dict()

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "certificate": certificate,
                "job": job,
                "result": result,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.job_answer import JobAnswer  # noqa: PLC0415
        from ..models.result_answer_certificate import ResultAnswerCertificate  # noqa: PLC0415
        from ..models.result_answer_result import ResultAnswerResult  # noqa: PLC0415

        d = dict(src_dict)
        certificate = ResultAnswerCertificate.from_dict(d.pop("certificate"))

        job = JobAnswer.from_dict(d.pop("job"))

        result = ResultAnswerResult.from_dict(d.pop("result"))

        result_answer = cls(
            certificate=certificate,
            job=job,
            result=result,
        )

        result_answer.additional_properties = d
        return result_answer

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
