from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from attrs import define as _attrs_define

from ..models.routing_dataset_mode import RoutingDatasetMode, check_routing_dataset_mode
from ..types import UNSET, Unset

if TYPE_CHECKING:
    from ..models.cap import Cap
    from ..models.routing_content import RoutingContent
    from ..models.routing_public import RoutingPublic


T = TypeVar("T", bound="RoutingDataset")


@_attrs_define
class RoutingDataset:
    """Trips of the users of a network.

    Attributes:
        content (RoutingContent): The private content.
        kind (Literal['routing']):
        name (str):
        public (RoutingPublic): What is published of a set of trips.
        account (None | str | Unset): Account of an earlier version of the same source
        cap (Cap | None | Unset): Needed unless `account` is given
        mode (RoutingDatasetMode | Unset): `simulation` declares the content public Default: 'private'.
    """

    content: RoutingContent
    kind: Literal["routing"]
    name: str
    public: RoutingPublic
    account: None | str | Unset = UNSET
    cap: Cap | None | Unset = UNSET
    mode: RoutingDatasetMode | Unset = "private"

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

        mode: str | Unset = UNSET
        if not isinstance(self.mode, Unset):
            mode = self.mode

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
        if mode is not UNSET:
            field_dict["mode"] = mode

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        from ..models.cap import Cap  # noqa: PLC0415
        from ..models.routing_content import RoutingContent  # noqa: PLC0415
        from ..models.routing_public import RoutingPublic  # noqa: PLC0415

        d = dict(src_dict)
        content = RoutingContent.from_dict(d.pop("content"))

        kind = cast(Literal["routing"], d.pop("kind"))
        if kind != "routing":
            raise ValueError(f"kind must match const 'routing', got '{kind}'")

        name = d.pop("name")

        public = RoutingPublic.from_dict(d.pop("public"))

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

        _mode = d.pop("mode", UNSET)
        mode: RoutingDatasetMode | Unset
        if isinstance(_mode, Unset):
            mode = UNSET
        else:
            mode = check_routing_dataset_mode(_mode)

        routing_dataset = cls(
            content=content,
            kind=kind,
            name=name,
            public=public,
            account=account,
            cap=cap,
            mode=mode,
        )

        return routing_dataset
