from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="SessionTokensRequest")


@_attrs_define
class SessionTokensRequest:
    """Agents to invite to a federated job.

    Attributes:
        owner (str): SHA-256 of the Ed25519 key that will sign the roster; every link pins it
        count (int | Unset):  Default: 1.
        group (None | str | Unset): A standing group instead: its members need no token
    """

    owner: str
    count: int | Unset = 1
    group: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner = self.owner

        count = self.count

        group: None | str | Unset
        if isinstance(self.group, Unset):
            group = UNSET
        else:
            group = self.group

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner": owner,
            }
        )
        if count is not UNSET:
            field_dict["count"] = count
        if group is not UNSET:
            field_dict["group"] = group

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        owner = d.pop("owner")

        count = d.pop("count", UNSET)

        def _parse_group(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        group = _parse_group(d.pop("group", UNSET))

        session_tokens_request = cls(
            owner=owner,
            count=count,
            group=group,
        )

        return session_tokens_request
