from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.binding import Binding
    from ..models.issue import Issue
    from ..models.limit_answer import LimitAnswer


T = TypeVar("T", bound="ProblemDocument")


@_attrs_define
class ProblemDocument:
    """An error (RFC 9457).

    Attributes:
        code (str): Stable name of the error
        detail (str):
        status (int):
        title (str):
        type_ (str): urn:discreet:problem: and the code
        binding (Binding | None | Unset):
        errors (list[Issue] | None | Unset):
        limit (LimitAnswer | None | Unset):
    """

    code: str
    detail: str
    status: int
    title: str
    type_: str
    binding: Binding | None | Unset = UNSET
    errors: list[Issue] | None | Unset = UNSET
    limit: LimitAnswer | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.binding import Binding  # noqa: PLC0415
        from ..models.limit_answer import LimitAnswer  # noqa: PLC0415

        code = self.code

        detail = self.detail

        status = self.status

        title = self.title

        type_ = self.type_

        binding: dict[str, Any] | None | Unset
        if isinstance(self.binding, Unset):
            binding = UNSET
        elif isinstance(self.binding, Binding):
            binding = self.binding.to_dict()
        else:
            binding = self.binding

        errors: list[dict[str, Any]] | None | Unset
        if isinstance(self.errors, Unset):
            errors = UNSET
        elif isinstance(self.errors, list):
            errors = []
            for errors_type_0_item_data in self.errors:
                errors_type_0_item = errors_type_0_item_data.to_dict()
                errors.append(errors_type_0_item)

        else:
            errors = self.errors

        limit: dict[str, Any] | None | Unset
        if isinstance(self.limit, Unset):
            limit = UNSET
        elif isinstance(self.limit, LimitAnswer):
            limit = self.limit.to_dict()
        else:
            limit = self.limit

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "code": code,
                "detail": detail,
                "status": status,
                "title": title,
                "type": type_,
            }
        )
        if binding is not UNSET:
            field_dict["binding"] = binding
        if errors is not UNSET:
            field_dict["errors"] = errors
        if limit is not UNSET:
            field_dict["limit"] = limit

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.binding import Binding  # noqa: PLC0415
        from ..models.issue import Issue  # noqa: PLC0415
        from ..models.limit_answer import LimitAnswer  # noqa: PLC0415

        d = dict(src_dict)
        code = d.pop("code")

        detail = d.pop("detail")

        status = d.pop("status")

        title = d.pop("title")

        type_ = d.pop("type")

        def _parse_binding(data: object) -> Binding | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                binding_type_0 = Binding.from_dict(data)

                return binding_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(Binding | None | Unset, data)

        binding = _parse_binding(d.pop("binding", UNSET))

        def _parse_errors(data: object) -> list[Issue] | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, list):
                    raise TypeError()
                errors_type_0 = []
                _errors_type_0 = data
                for errors_type_0_item_data in _errors_type_0:
                    errors_type_0_item = Issue.from_dict(errors_type_0_item_data)

                    errors_type_0.append(errors_type_0_item)

                return errors_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(list[Issue] | None | Unset, data)

        errors = _parse_errors(d.pop("errors", UNSET))

        def _parse_limit(data: object) -> LimitAnswer | None | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                limit_type_0 = LimitAnswer.from_dict(data)

                return limit_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            return cast(LimitAnswer | None | Unset, data)

        limit = _parse_limit(d.pop("limit", UNSET))

        problem_document = cls(
            code=code,
            detail=detail,
            status=status,
            title=title,
            type_=type_,
            binding=binding,
            errors=errors,
            limit=limit,
        )

        problem_document.additional_properties = d
        return problem_document

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
