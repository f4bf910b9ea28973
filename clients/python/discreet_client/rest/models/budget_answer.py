from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..models.budget_answer_scope import BudgetAnswerScope, check_budget_answer_scope

if TYPE_CHECKING:
    from ..models.dataset_name import DatasetName
    from ..models.figures import Figures
    from ..models.filter_figures import FilterFigures


T = TypeVar("T", bound="BudgetAnswer")


@_attrs_define
class BudgetAnswer:
    """A budget.

    Attributes:
        cap (Figures): A privacy figure.
        datasets (list[DatasetName]):
        filters (list[FilterFigures]):
        id (str):
        largest_request (Figures): A privacy figure.
        remaining (Figures): A privacy figure.
        reserved (Figures): A privacy figure.
        scope (BudgetAnswerScope):
        spent (Figures): A privacy figure.
        subject (str):
        unit (str):
    """

    cap: Figures
    datasets: list[DatasetName]
    filters: list[FilterFigures]
    id: str
    largest_request: Figures
    remaining: Figures
    reserved: Figures
    scope: BudgetAnswerScope
    spent: Figures
    subject: str
    unit: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        cap = self.cap.to_dict()

        datasets = []
        for datasets_item_data in self.datasets:
            datasets_item = datasets_item_data.to_dict()
            datasets.append(datasets_item)

        filters = []
        for filters_item_data in self.filters:
            filters_item = filters_item_data.to_dict()
            filters.append(filters_item)

        id = self.id

        largest_request = self.largest_request.to_dict()

        remaining = self.remaining.to_dict()

        reserved = self.reserved.to_dict()

        scope: str = self.scope

        spent = self.spent.to_dict()

        subject = self.subject

        unit = self.unit

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "cap": cap,
                "datasets": datasets,
                "filters": filters,
                "id": id,
                "largest_request": largest_request,
                "remaining": remaining,
                "reserved": reserved,
                "scope": scope,
                "spent": spent,
                "subject": subject,
                "unit": unit,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.dataset_name import DatasetName  # noqa: PLC0415
        from ..models.figures import Figures  # noqa: PLC0415
        from ..models.filter_figures import FilterFigures  # noqa: PLC0415

        d = dict(src_dict)
        cap = Figures.from_dict(d.pop("cap"))

        datasets = []
        _datasets = d.pop("datasets")
        for datasets_item_data in _datasets:
            datasets_item = DatasetName.from_dict(datasets_item_data)

            datasets.append(datasets_item)

        filters = []
        _filters = d.pop("filters")
        for filters_item_data in _filters:
            filters_item = FilterFigures.from_dict(filters_item_data)

            filters.append(filters_item)

        id = d.pop("id")

        largest_request = Figures.from_dict(d.pop("largest_request"))

        remaining = Figures.from_dict(d.pop("remaining"))

        reserved = Figures.from_dict(d.pop("reserved"))

        scope = check_budget_answer_scope(d.pop("scope"))

        spent = Figures.from_dict(d.pop("spent"))

        subject = d.pop("subject")

        unit = d.pop("unit")

        budget_answer = cls(
            cap=cap,
            datasets=datasets,
            filters=filters,
            id=id,
            largest_request=largest_request,
            remaining=remaining,
            reserved=reserved,
            scope=scope,
            spent=spent,
            subject=subject,
            unit=unit,
        )

        budget_answer.additional_properties = d
        return budget_answer

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
