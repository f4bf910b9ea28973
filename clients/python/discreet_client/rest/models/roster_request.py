from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from attrs import define as _attrs_define

from ..types import UNSET, Unset

T = TypeVar("T", bound="RosterRequest")


@_attrs_define
class RosterRequest:
    """Who takes part, signed by the owner's key, which the server never holds.

    Attributes:
        owner_key (str): 32 bytes in base64
        roster (str): JSON text, exactly as signed
        signature (str): Ed25519, base64
        save_as (None | str | Unset): Keep these agents as a standing group of this name
    """

    owner_key: str
    roster: str
    signature: str
    save_as: None | str | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        owner_key = self.owner_key

        roster = self.roster

        signature = self.signature

        save_as: None | str | Unset
        if isinstance(self.save_as, Unset):
            save_as = UNSET
        else:
            save_as = self.save_as

        field_dict: dict[str, Any] = {}

        field_dict.update(
            {
                "owner_key": owner_key,
                "roster": roster,
                "signature": signature,
            }
        )
        if save_as is not UNSET:
            field_dict["save_as"] = save_as

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        owner_key = d.pop("owner_key")

        roster = d.pop("roster")

        signature = d.pop("signature")

        def _parse_save_as(data: object) -> None | str | Unset:
            if data is None:
                return data
            if isinstance(data, Unset):
                return data
            return cast(None | str | Unset, data)

        save_as = _parse_save_as(d.pop("save_as", UNSET))

        roster_request = cls(
            owner_key=owner_key,
            roster=roster,
            signature=signature,
            save_as=save_as,
        )

        return roster_request
