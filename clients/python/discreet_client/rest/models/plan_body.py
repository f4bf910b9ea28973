from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

if TYPE_CHECKING:
    from ..models.noise_summary import NoiseSummary
    from ..models.plan_body_events_item import PlanBodyEventsItem
    from ..models.plan_body_iterations import PlanBodyIterations
    from ..models.resources import Resources


T = TypeVar("T", bound="PlanBody")


@_attrs_define
class PlanBody:
    """What a job would do.

    Attributes:
        advice (list[str]):
        assumptions (list[str]):
        events (list[PlanBodyEventsItem]):
        iterations (PlanBodyIterations):
        neighbours (str):
        noise (list[NoiseSummary]):
        resources (Resources): What one job may take, from public figures alone.
        unit (str):
    """

    advice: list[str]
    assumptions: list[str]
    events: list[PlanBodyEventsItem]
    iterations: PlanBodyIterations
    neighbours: str
    noise: list[NoiseSummary]
    resources: Resources
    unit: str
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        advice = self.advice

        assumptions = self.assumptions

        events = []
        for events_item_data in self.events:
            events_item = events_item_data.to_dict()
            events.append(events_item)

        iterations = self.iterations.to_dict()

        neighbours = self.neighbours

        noise = []
        for noise_item_data in self.noise:
            noise_item = noise_item_data.to_dict()
            noise.append(noise_item)

        resources = self.resources.to_dict()

        unit = self.unit

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "advice": advice,
                "assumptions": assumptions,
                "events": events,
                "iterations": iterations,
                "neighbours": neighbours,
                "noise": noise,
                "resources": resources,
                "unit": unit,
            }
        )

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.noise_summary import NoiseSummary  # noqa: PLC0415
        from ..models.plan_body_events_item import PlanBodyEventsItem  # noqa: PLC0415
        from ..models.plan_body_iterations import PlanBodyIterations  # noqa: PLC0415
        from ..models.resources import Resources  # noqa: PLC0415

        d = dict(src_dict)
        advice = cast(list[str], d.pop("advice"))

        assumptions = cast(list[str], d.pop("assumptions"))

        events = []
        _events = d.pop("events")
        for events_item_data in _events:
            events_item = PlanBodyEventsItem.from_dict(events_item_data)

            events.append(events_item)

        iterations = PlanBodyIterations.from_dict(d.pop("iterations"))

        neighbours = d.pop("neighbours")

        noise = []
        _noise = d.pop("noise")
        for noise_item_data in _noise:
            noise_item = NoiseSummary.from_dict(noise_item_data)

            noise.append(noise_item)

        resources = Resources.from_dict(d.pop("resources"))

        unit = d.pop("unit")

        plan_body = cls(
            advice=advice,
            assumptions=assumptions,
            events=events,
            iterations=iterations,
            neighbours=neighbours,
            noise=noise,
            resources=resources,
            unit=unit,
        )

        plan_body.additional_properties = d
        return plan_body

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
