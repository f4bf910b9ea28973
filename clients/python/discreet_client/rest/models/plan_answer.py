from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, cast

from attrs import define as _attrs_define
from attrs import field as _attrs_field

from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.binding import Binding
    from ..models.plan_body import PlanBody
    from ..models.price import Price


T = TypeVar("T", bound="PlanAnswer")


@_attrs_define
class PlanAnswer:
    """A plan and its price; nothing is spent.

    Attributes:
        admitted (bool):
        plan (PlanBody): What a job would do.
        price (Price): What a job costs.
        binding (Binding | None | Unset):
    """

    admitted: bool
    plan: PlanBody
    price: Price
    binding: Binding | None | Unset = UNSET
    additional_properties: dict[str, Any] = _attrs_field(init=False, factory=dict)

    def to_dict(self) -> dict[str, Any]:
        from ..models.binding import Binding  # noqa: PLC0415

        admitted = self.admitted

        plan = self.plan.to_dict()

        price = self.price.to_dict()

        binding: dict[str, Any] | None | Unset
        if isinstance(self.binding, Unset):
            binding = UNSET
        elif isinstance(self.binding, Binding):
            binding = self.binding.to_dict()
        else:
            binding = self.binding

        field_dict: dict[str, Any] = {}
        field_dict.update(self.additional_properties)
        field_dict.update(
            {
                "admitted": admitted,
                "plan": plan,
                "price": price,
            }
        )
        if binding is not UNSET:
            field_dict["binding"] = binding

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.binding import Binding  # noqa: PLC0415
        from ..models.plan_body import PlanBody  # noqa: PLC0415
        from ..models.price import Price  # noqa: PLC0415

        d = dict(src_dict)
        admitted = d.pop("admitted")

        plan = PlanBody.from_dict(d.pop("plan"))

        price = Price.from_dict(d.pop("price"))

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

        plan_answer = cls(
            admitted=admitted,
            plan=plan,
            price=price,
            binding=binding,
        )

        plan_answer.additional_properties = d
        return plan_answer

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
